"""Figures: matplotlib drawings of a study, as PNG, SVG and PDF."""
