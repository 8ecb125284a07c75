"""Takes the picture of Neuroglancer in docs/looking.md: ``python docs/screens.py SLICES``.

SLICES is a folder of EM with voxels of 10 nm. ``docs/images/view.png`` has them, their cells and
the boxes of a table. Chromium is needed. Look at the picture before it is committed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import beam_volumes as bv
from tests.show.browser import Page

IMAGES = Path(__file__).with_name("images")


def cells(slices: str) -> None:
    """Cells of an EM stack, roughly: from the middle of what is bright to where it is dark."""
    em = bv.open(slices, voxel_size=10, unit="nm")
    smooth = bv.gaussian_filter(em, 2)
    inside = smooth > bv.threshold_otsu(smooth)
    depth = bv.distance_transform_edt(inside)
    found = bv.watershed(-depth, bv.label(depth > 7), mask=inside)
    table = bv.regionprops_table(found, em, properties=["area", "bbox", "intensity_mean"])
    outputs = found.to("cells.ome.zarr", levels="auto"), em.to("em.ome.zarr", levels="auto")
    bv.compute(*outputs, table.to("cells.csv"), workers=2, progress=False)


def main() -> None:
    slices = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.symlink(slices, "slices")
        cells("slices")
        shown = bv.open("em.ome.zarr"), bv.open("cells.ome.zarr"), "cells.csv"
        with bv.view(*shown) as viewer, Page((900, 620)) as page:
            page.open(viewer.url)
            page.until("document.querySelectorAll('.neuroglancer-layer-item').length >= 3")
            page.settle()
            (IMAGES / "view.png").write_bytes(page.picture())


if __name__ == "__main__":
    main()
