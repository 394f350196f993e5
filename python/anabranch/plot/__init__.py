"""Figures: matplotlib drawings of a study, as PNG, SVG and PDF."""

from anabranch.extras import require

require("plot", "a figure")
