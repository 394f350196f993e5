"""Figures: matplotlib drawings of a study, as PNG and SVG."""
