"""A user who looks around, for ``python -m tests.studio.wander em.zarr 600 512MiB``."""

import random
import sys
import time

import numpy as np

from beam_volumes.plan.cost.machine import resident_memory
from beam_volumes.show.picture import png_uri
from beam_volumes.studio.document import Document
from beam_volumes.studio.preview import Region, painted
from beam_volumes.studio.state import Folders
from beam_volumes.studio.workspace import Workspace

STEPS = """
steps:
  smooth: {op: gaussian_filter, sigma: 2}
  mask: {op: greater, inputs: [smooth, 120]}
  cells: label
output: out.zarr
"""


def wander(path, changes, memory):
    """Yield the seconds and the resident memory after each change of a parameter, a step or the region."""
    random.seed(0)
    folders = Folders(["/"])
    workspace = Workspace(Document(f"input: {path}\n{STEPS}"), folders, memory=memory)
    region, step = Region(side=256), "cells"
    for k in range(changes):
        began = time.perf_counter()
        what = random.choice(["sigma", "threshold", "at", "at", "step", "side"])
        if what == "sigma":
            workspace.set_field("smooth", "sigma", round(random.uniform(0.5, 3), 2))
        elif what == "threshold":
            workspace.set_field("mask", "inputs.1", random.randint(90, 150))
        elif what == "step":
            step = random.choice(["input", "smooth", "mask", "cells"])
        else:
            at = tuple(random.random() for _ in range(3)) if what == "at" else region.at
            side = random.choice([128, 256, 512]) if what == "side" else region.side
            region = Region(at, side)
        view = workspace.view(step, region)
        for picture in painted(view, 512).values():
            png_uri(picture)
        workspace.previews.histogram(workspace.volume("smooth"))
        if k % 10 == 0:
            workspace.agreement("mask", "cells", Region(region.at, 128))
            workspace.runs.cost()
        yield time.perf_counter() - began, resident_memory()


def main():
    path, changes, memory = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    seconds, sizes = map(np.array, zip(*wander(path, changes, memory), strict=True))
    third = len(sizes) // 3
    print(
        f"{np.percentile(seconds, 95):.3f} {sizes[:third].max()} {sizes[third:-third].max()} "
        f"{sizes[-third:].max()}"
    )


if __name__ == "__main__":
    main()
