"""The configuration of Sphinx, which ``docs/site/build.py`` runs."""

from __future__ import annotations

from sphinx.application import Sphinx

from beam_volumes.version import __version__

project = "beam-volumes"
author = "beam_volumes contributors"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc", "sphinx_copybutton"]
myst_enable_extensions = ["attrs_inline"]
myst_heading_anchors = 4
# A name in backticks is linked if it is one of ours.
default_role = "py:obj"
numpydoc_show_class_members = False
autodoc_typehints = "none"
autodoc_member_order = "groupwise"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
highlight_language = "text"

html_theme = "furo"
html_title = "beam-volumes"
html_static_path = ["static"]
templates_path = ["layouts"]
html_additional_pages = {"search": "search.html"}
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False


def setup(app: Sphinx) -> None:
    """Make no index for Sphinx's own search, which ``docs/site/search.py`` replaces."""
    app.connect("builder-inited", lambda app: setattr(app.builder, "search", False))
