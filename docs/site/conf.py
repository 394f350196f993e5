"""Configuration of Sphinx for the site; docs/site/build.py runs it over the staged documents."""

from __future__ import annotations

import anabranch

project = "Anabranch"
author = "The Anabranch authors"
project_copyright = author
version = release = anabranch.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["files/**"]
nitpicky = False

# Anchors of headings are those of the repository's pages, so a link works on the site and in the repository.
myst_heading_anchors = 4
myst_linkify_fuzzy_links = False

napoleon_google_docstring = True
napoleon_numpy_docstring = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
default_role = "code"
smartquotes = False  # names of options begin with two hyphens

html_theme = "furo"
html_title = f"Anabranch {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
# Summaries of search results need requests, which browsers refuse for pages opened as files.
html_show_search_summary = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#005a8c", "color-brand-content": "#005a8c"},
    "dark_css_variables": {"color-brand-primary": "#7cc4f0", "color-brand-content": "#7cc4f0"},
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
