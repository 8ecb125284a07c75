"""Makes the index of the site's search, which pagefind reads in the browser, and checks it.

``static/search.js`` asks the index and shows the pages; ``layouts/search.html`` is the page of results.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
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


#: What newcomers type into the search, and a page that must be among the first three.
QUERIES = {
    "install conda": "get-started/install",
    "windows": "get-started/install",
    "cite": "get-started/install",
    "crop region of interest": "how-to/crop",
    "save as tiff imagej": "how-to/other-programs",
    "jupyter notebook": "how-to/other-programs",
    "connected components larger than memory": "functions/label",
    "MemoryError": "how-to/troubleshooting",
    "out of memory": "how-to/memory",
    "gaussian blur": "functions/gaussian_filter",
    "gaussian_filter": "functions/gaussian_filter",
    "resize": "functions/resize",
    "open czi file": "reference/formats",
    "read dicom": "reference/formats",
    "s3 bucket": "reference/formats",
    "convert to ome-zarr": "how-to/convert",
    "measure area of objects": "how-to/measure",
    "remove small objects": "functions/remove_small_objects",
    "watershed touching nuclei": "how-to/split-objects",
    "background subtraction": "how-to/background",
    "otsu threshold": "functions/threshold_otsu",
    "stitch tiles": "how-to/tiles",
    "registration of slices": "how-to/align",
    "track cells over time": "how-to/track",
    "deconvolution": "how-to/deconvolve",
    "skeletonize": "gallery/labels/skeletons",
    "max intensity projection": "how-to/arrays",
    "numpy array": "how-to/arrays",
    "dask": "how-to/arrays",
    "cellpose": "how-to/find-objects",
    "use gpu": "how-to/gpu",
    "run on google cloud": "how-to/dataflow",
    "resume after crash": "how-to/resume",
    "napari": "how-to/view",
}


def missed_queries(site: Path) -> list[str]:
    """Return the queries with a different result than the expected page, each with the pages it finds."""
    node = shutil.which("node")
    if node is None:
        return ["the search of the site is checked with Node.js, which is not installed"]
    ask = [node, Path(__file__).parent / "ask.mjs", site, *QUERIES]
    lines = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.splitlines()
    found = zip(QUERIES.items(), map(json.loads, lines), strict=True)
    return [
        f"search: {query!r} finds {', '.join(pages)}, and not {page}.html among the first three"
        for (query, page), pages in found
        if f"{page}.html" not in pages[:3]
    ]
