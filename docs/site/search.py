"""Makes the index of the site's search, which pagefind reads in the browser.

``static/search.js`` asks the index and shows the pages; ``layouts/search.html`` is the page of results.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from pagefind.index import IndexConfig, PagefindIndex

#: Pages that are not in the index.
LISTS = {"404.html", "genindex.html", "search.html"}
#: Pages for contributors, files and lists of pages, which come after other pages.
LATER = (
    *("benchmarks/", "engines/", "files/", "internals/", "CHANGELOG", "CONTRIBUTING"),
    *("functions/index", "gallery/index", "reference/coverage"),
)


def index_pages(site: Path) -> None:
    """Write the index of a built site into its folder ``pagefind``."""
    asyncio.run(_index(site))


async def _index(site: Path) -> None:
    config = IndexConfig(
        root_selector="[role=main]",
        exclude_selectors=["a.headerlink", "button"],
        keep_index_url=True,
        output_path=str(site / "pagefind"),
    )
    async with PagefindIndex(config=config) as index:
        for path in sorted(site.rglob("*.html")):
            name = path.relative_to(site).as_posix()
            if name in LISTS:
                continue
            text = path.read_text()
            if name.startswith(LATER):
                text = text.replace('role="main"', 'role="main" data-pagefind-weight="0.2"')
            await index.add_html_file(content=text, source_path=name)
