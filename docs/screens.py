"""Takes pictures of pages in a browser: ``python docs/screens.py [SLICES]``.

Without SLICES these are the steps of ``docs/tutorials/studio.md``, with the slices of the demo. SLICES is a
folder of EM with voxels of 10 nm: ``docs/images/view.png`` shows the slices, their cells and the boxes of a
table, ``studio.png`` a recipe in the studio, and ``report.png`` the report of the run. Chromium is needed.
Look at the pictures before you commit them.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
from pathlib import Path

from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1]))

import beam_volumes as bv
from beam_volumes.cli.specimen import write_specimen
from beam_volumes.show.pages.report import report
from tests.show.browser import Page
from tests.studio.test_page import Tab

IMAGES = Path(__file__).with_name("images")


def cells(slices: str) -> None:
    """Cells of an EM stack, roughly: from the middle of bright regions to the dark."""
    em = bv.open(slices, voxel_size=10, unit="nm")
    smooth = bv.gaussian_filter(em, 2)
    inside = smooth > bv.threshold_otsu(smooth)
    depth = bv.distance_transform_edt(inside)
    found = bv.watershed(-depth, bv.label(depth > 7), mask=inside)
    table = bv.regionprops_table(found, em, properties=["area", "bbox", "intensity_mean"])
    outputs = found.to("cells.ome.zarr", levels="auto"), em.to("em.ome.zarr", levels="auto")
    bv.compute(*outputs, table.to("cells.csv"), workers=2, progress=False)


RECIPE = """\
input: {path: em.ome.zarr}
steps:
  # less noise
  smooth: {op: gaussian_filter, sigma: 20 nm}
  wide: {op: gaussian_filter, input: input, sigma: 300 nm}
  even: {op: subtract, inputs: [smooth, wide]}
  bright: {op: greater, inputs: [even, -5]}
output: studio.ome.zarr
"""


def studio() -> None:
    """The branches and the threshold of a recipe, and the mask next to the input."""
    with bv.studio(recipe=RECIPE) as opened, Tab((1440, 1000)) as page:
        page.open(opened.url)
        page.shows("bright: as the run writes it")
        page.click("curtain")
        picture(page, "studio")


def tutorial() -> None:
    """The steps of the tutorial of the studio."""
    write_specimen("slices", (64, 256, 256))
    with bv.studio("slices", recipe="cells.yaml") as opened, Tab((1280, 860)) as page:
        page.open(opened.url)
        page.shows("input: as the run writes it")
        for words, op in (("blur", "gaussian_filter"), ("greater", "greater")):
            page.type("add a function", words)
            page.click(op)
            page.shows(f"{op}: as the run writes it")
        page.type("sigma", "2")
        page.key("Enter", 13)
        page.drag(".studio-histogram", (0.5, 0.5), (0.55, 0.5))
        picture(page, "studio-threshold")
        page.click("compare with a recipe")
        page.shows("Dice 1;")
        page.type("sigma", "1")
        page.key("Enter", 13)
        page.shows("Dice 0.")
        picture(page, "studio-compare")
        page.click("undo")
        page.click("step")
        page.type("add a function", "label")
        page.click("label")
        page.shows("label: as the run writes it")
        page.type("add a function", "measure")
        page.click("regionprops_table")
        page.shows("regionprops_table: a table")
        page.click("run")
        page.shows("done in")
        page.click("label")
        page.shows("label: as the run writes it")
        picture(page, "studio-run")
        page.drag(".studio-plot", (0.02, 0.5), (0.4, 0.5))
        picture(page, "studio-table")


def picture(page: Page, name: str) -> None:
    """Write a picture with 256 colours."""
    page.listen(3)
    image = Image.open(io.BytesIO(page.picture())).convert("RGB")
    image.quantize(256, dither=Image.Dither.NONE).save(IMAGES / f"{name}.png", optimize=True)


def main() -> None:
    if len(sys.argv) == 1:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            tutorial()
        return
    slices = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.symlink(slices, "slices")
        cells("slices")
        shown = bv.open("em.ome.zarr"), bv.open("cells.ome.zarr"), "cells.csv"
        with bv.view(*shown) as viewer, Page((900, 620)) as page:
            page.open(viewer.url)
            page.until("document.querySelectorAll('.neuroglancer-layer-item').length >= 3")
            page.listen(5)
            (IMAGES / "view.png").write_bytes(page.picture())
        studio()
        Path("report.html").write_text(report("cells.ome.zarr.run"), encoding="utf-8")
        with Page((1100, 900)) as page:
            page.open(Path("report.html").resolve().as_uri())
            page.until("document.querySelectorAll('figure img').length >= 3")
            parts = [at_heading(page, "cells").crop((0, 0, 1100, 570)), at_heading(page, "time")]
        joined = Image.new("RGB", (1100, sum(part.height for part in parts)))
        joined.paste(parts[0])
        joined.paste(parts[1], (0, parts[0].height))
        joined.thumbnail((733, joined.height), Image.Resampling.LANCZOS)
        joined.save(IMAGES / "report.png", optimize=True)


def at_heading(page: Page, word: str) -> Image.Image:
    """What is seen of a page from a heading on."""
    heading = f"[...document.querySelectorAll('h2')].find(h => h.textContent.includes('{word}'))"
    page.until(f"({heading}.scrollIntoView(), true)")
    page.listen(2)
    return Image.open(io.BytesIO(page.picture()))


if __name__ == "__main__":
    main()
