"""Follows the links of a site within itself: files and the places in them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """The links of a page, and the places in it that links can name."""

    def __init__(self, text: str):
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id" and value:
                self.places.add(value)
            # The base of links is an address of the server.
            if name in ("href", "src") and value and tag != "base":
                self.links.add(value)


@cache
def _page(path: Path) -> _Page:
    return _Page(path.read_text())


def broken_links(site: Path) -> list[str]:
    """A line for each link that leads nowhere; links to other sites are not followed."""
    return sorted(_broken(site))


def _broken(site: Path) -> Iterator[str]:
    for path in site.rglob("*.html"):
        for link in _page(path).links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            place = parts.fragment
            if not target.exists():
                yield f"{path.relative_to(site)}: {link} is not there"
            elif place and target.suffix == ".html" and place not in _page(target).places:
                yield f"{path.relative_to(site)}: {link}: no such place in that page"
