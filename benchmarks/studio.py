"""A user of the studio who looks around in a large volume: latency, and memory compared with its limit.

``python benchmarks/studio.py`` stores a volume of 4 GiB in a temporary folder. A process with NiceGUI
loaded then does what a page asks for: once a second it changes a parameter, moves to another region, or
shows another step of gaussian, threshold and label. Now and then it compares two steps and plans the run.
The volume repeats one chunk without seams.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator

import numpy as np
import tensorstore

import beam_volumes as bv
from beam_volumes.plan.cost.machine import parse_bytes, resident_memory
from beam_volumes.show.picture import png_uri
from beam_volumes.studio import page  # noqa: F401 (the memory of the server includes NiceGUI's)
from beam_volumes.studio.document import Document
from beam_volumes.studio.preview import MAX_KEPT, Region, painted
from beam_volumes.studio.state import Folders
from beam_volumes.studio.workspace import Workspace

#: Bytes of Python and compiled kernels, as documented in docs/how-to/studio.md.
BASE = 200 << 20
CHUNK = 128
STEPS = """
steps:
  smooth: {op: gaussian_filter, sigma: 2}
  mask: {op: greater, inputs: [smooth, 120]}
  cells: label
output: out.zarr
"""


def store(path: str, mebibytes: int) -> None:
    """Store a volume of bytes by writing one chunk and linking it to all others."""
    noise = np.random.default_rng(0).integers(0, 255, (CHUNK,) * 3).astype("u1")
    smooth = np.asarray(bv.gaussian_filter(noise, 2, mode="wrap"))
    low, high = smooth.min(), smooth.max()
    chunk = ((smooth - low) * (255 / (high - low))).astype("u1")
    counts = [1, 1, 1]
    while np.prod(counts) * chunk.nbytes < mebibytes << 20:
        counts[counts.index(min(counts))] *= 2
    shape = [n * CHUNK for n in counts]
    metadata = {"shape": shape, "chunks": chunk.shape, "dtype": "|u1", "dimension_separator": "/"}
    spec = {"driver": "zarr", "kvstore": f"file://{path}/", "metadata": metadata, "create": True}
    tensorstore.open(spec).result()[(slice(CHUNK),) * 3] = chunk
    for place in np.ndindex(*counts):
        if any(place):
            target = os.path.join(path, *map(str, place))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.link(os.path.join(path, "0/0/0"), target)


def wander(path: str, memory: str, actions: int, pause: float) -> Iterator[tuple[str, float]]:
    """Yield each action of the user and the seconds until its pictures are ready."""
    random.seed(0)
    workspace = Workspace(Document(f"input: {path}\n{STEPS}"), Folders(["/"]), memory=memory)
    region, step = Region(), "cells"
    for k in range(actions):
        began = time.perf_counter()
        what = random.choice(["sigma", "threshold", "at", "at", "step", "side"])
        if what == "sigma":
            step = "cells"
            workspace.set_field("smooth", "sigma", round(random.uniform(0.5, 3), 2))
        elif what == "threshold":
            step = "cells"
            workspace.set_field("mask", "inputs.1", random.randint(90, 150))
        elif what == "step":
            step = random.choice(["input", "smooth", "mask", "cells"])
        elif what == "side":
            region = Region(region.at, random.choice([128, 256, 512]))
        else:
            region = Region((random.random(), random.random(), random.random()), region.side)
        view = workspace.view(step, region)
        for picture in painted(view, 512).values():
            png_uri(picture)
        yield what, time.perf_counter() - began
        workspace.previews.histogram(workspace.volume("smooth"))
        if k % 10 == 0:
            workspace.agreement("mask", "cells", Region(region.at, 128))
            workspace.runs.cost()
        time.sleep(max(0.0, pause - (time.perf_counter() - began)))


class Watch(threading.Thread):
    """Samples the resident memory without mapped files, as plans count it."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.sizes: list[int] = []

    def run(self) -> None:
        while True:
            self.sizes.append(resident_memory())
            time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--actions", type=int, default=600)
    parser.add_argument("--pause", type=float, default=1, help="seconds for each action")
    parser.add_argument("--mebibytes", type=int, default=4096, help="of the volume")
    parser.add_argument("--memory", default="512MiB", help="as for beam-volumes studio")
    parser.add_argument("--path", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.path is None:
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/em.zarr"
            store(path, args.mebibytes)
            again = [sys.executable, *sys.argv, "--path", path]
            sys.exit(subprocess.run(again).returncode)
    watch = Watch()
    watch.start()
    began, found, peaks = time.monotonic(), [], [0.0] * 3
    for k, action in enumerate(wander(args.path, args.memory, args.actions, args.pause)):
        found.append(action)
        sizes, watch.sizes = watch.sizes, []
        third = 3 * k // args.actions
        peaks[third] = max(peaks[third], max(sizes, default=0) / (1 << 20))
    limit = (BASE + MAX_KEPT + parse_bytes(args.memory)) / (1 << 20)
    changes = [s for what, s in found if what in ("sigma", "threshold")]
    print(f"{len(found)} actions in {time.monotonic() - began:.0f} s")
    print(
        f"memory: {', '.join(f'{p:.0f}' for p in peaks)} MiB in each third; limit {limit:.0f} MiB"
    )
    print(
        f"a parameter: {np.percentile(changes, 50):.3f} s, p95 {np.percentile(changes, 95):.3f} s"
    )
    sys.exit(int(max(peaks) > limit))


if __name__ == "__main__":
    main()
