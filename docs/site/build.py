"""Builds the documentation's site: ``make site``.

Pages are the documents of this repository, a page for each notebook and each example of the gallery, and a
page for each function, class, transform and verb. They are put together in a folder, from which Sphinx makes
the site; a warning is an error. Then the index of its search is made, every link of the site is followed, and
the search is asked for what newcomers look for, which needs Node.js. In a browser the search needs a web
server, such as ``python -m http.server -d build/site``.

With ``--quick`` nothing is executed for the pages. Pages of the gallery have no output, and pages of
functions have no pictures. The theme is a plain one, which is written in less time.

Examples
--------
python docs/site/build.py build/site
python docs/site/build.py build/site --quick
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

SITE = Path(__file__).parent
ROOT = SITE.parents[1]
sys.path[:0] = [str(ROOT), str(SITE)]

from documents import copy_documents  # noqa: E402
from function_pictures import draw_functions  # noqa: E402
from links import broken_links  # noqa: E402
from reference import FAMILIES, write_reference  # noqa: E402
from run_pages import write_gallery, write_tutorials  # noqa: E402
from search import index_pages, missed_queries  # noqa: E402
from sphinx.cmd.build import build_main  # noqa: E402


def build(site: Path, quick: bool = False) -> int:
    """Make the site in a folder, which is replaced; return an exit code."""
    with tempfile.TemporaryDirectory() as folder:
        pages = Path(folder)
        pictures = {} if quick else draw_functions(pages / "functions_before_and_after")
        others = write_reference(pages, pictures)
        write_tutorials(ROOT / "docs/tutorials", pages / "notebooks")
        write_gallery(ROOT / "docs/gallery", pages / "gallery", FAMILIES, not quick)
        others |= {part: f"{part}/index.md" for part in ("notebooks", "gallery")}
        copy_documents(ROOT, pages, others)
        shutil.rmtree(site, ignore_errors=True)
        options = ["-W", "--keep-going", "-q", "-b", "html", "-c", str(SITE)]
        options += ["-D", "html_theme=basic"] if quick else []
        code = build_main([*options, "-d", str(pages / ".doctrees"), folder, str(site)])
    index_pages(site)
    wrong = [*broken_links(site), *missed_queries(site)]
    for line in wrong:
        print(line, file=sys.stderr)
    return int(bool(code or wrong))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("site", nargs="?", type=Path, default=ROOT / "build/site")
    parser.add_argument("--quick", action="store_true", help="execute nothing for the pages")
    asked = parser.parse_args()
    sys.exit(build(asked.site, asked.quick))
