"""Builds the documentation's site: ``make site``.

Pages are the documents of this repository, a page for each notebook and each example of the gallery, and a
page for each function, class, transform and verb. They are put together in a folder, from which Sphinx makes
the site; a warning is an error. Then every link of the site is followed.

Examples
--------
python docs/site/build.py build/site
"""

from __future__ import annotations

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
from sphinx.cmd.build import build_main  # noqa: E402


def build(site: Path) -> int:
    """Make the site in a folder, which is replaced; return an exit code."""
    with tempfile.TemporaryDirectory() as folder:
        pages = Path(folder)
        pictures = draw_functions(pages / "functions_before_and_after")
        others = write_reference(pages, pictures)
        write_tutorials(ROOT / "docs/tutorials", pages / "notebooks")
        write_gallery(ROOT / "docs/gallery", pages / "gallery", FAMILIES)
        others |= {part: f"{part}/index.md" for part in ("notebooks", "gallery")}
        copy_documents(ROOT, pages, others)
        shutil.rmtree(site, ignore_errors=True)
        options = ["-W", "--keep-going", "-q", "-b", "html", "-c", str(SITE)]
        code = build_main([*options, "-d", str(pages / ".doctrees"), folder, str(site)])
    broken = broken_links(site)
    for line in broken:
        print(line, file=sys.stderr)
    return int(bool(code or broken))


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/site")))
