"""The configuration of Sphinx, which ``docs/site/build.py`` runs."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from documents import source_of
from docutils import nodes
from project import metadata
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
html_title = f"beam-volumes {release}"
html_short_title = "beam-volumes"
html_baseurl = metadata()["urls"]["Documentation"]
html_logo = html_favicon = "static/logo.svg"
html_static_path = ["static"]
templates_path = ["layouts"]
html_additional_pages = {"search": "search.html", "404": "404.html"}
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False


def setup(app: Sphinx) -> None:
    """Describe pages; make no index for Sphinx's own search, which ``docs/site/search.py`` replaces."""
    app.connect("builder-inited", lambda app: setattr(app.builder, "search", False))
    app.connect("html-page-context", _describe)


def _describe(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Give a page the address of its source, and its first paragraph as its description."""
    about = metadata()
    context["root"] = urlsplit(html_baseurl).path
    if source := source_of(Path(__file__).parents[2], page):
        context["edit_url"] = f"{about['urls']['Repository']}/edit/main/{source}"
    first = tree.next_node(nodes.paragraph) if tree else None
    text = about["description"] if page == "index" or first is None else first.astext()
    short = escape(" ".join(text.split())[:200])
    context["metatags"] = (
        context.get("metatags", "") + f'<meta name="description" content="{short}">'
    )
