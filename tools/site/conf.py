"""Sphinx's settings of the documentation site. `python -m tools.site` copies this file beside the pages."""

project = "Heddle"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "Heddle"
html_copy_source = False
html_show_copyright = False
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
exclude_patterns: list[str] = []
nitpicky = True
