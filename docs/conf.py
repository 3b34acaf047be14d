"""Sphinx settings: the pages are Markdown, read as well on the web as in the repository."""

project = "selfadapt"
author = "The selfadapt authors"
extensions = ["myst_parser"]
html_theme = "furo"
exclude_patterns = ["_build"]
myst_heading_anchors = 3
