"""Milliseconds of the processor for calls in memory, compared with numpy, scipy or scikit-image.

    python benchmarks/twins.py [--shape 96x256x256] [--calls 5] [part of a row's name ...]

A row and its twin are called in turns, in one process; the fastest call of each counts, because other work
on the machine slows down most of them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import ndimage as ndi
from skimage import feature, morphology, segmentation

import beam_volumes as bv


def computed(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    result = function(*args, **keywords)
    result = result[0] if function is bv.relabel_sequential else result
    return bv.compute(result, runner=None, progress=False)


def rows(shape: tuple[int, ...]) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """For each name, the call and its twin."""
    rng = np.random.default_rng(0)
    smooth = ndi.gaussian_filter(rng.random(shape), 3)
    labels, count = ndi.label(smooth > np.quantile(smooth, 0.8))
    smooth = (smooth - smooth.min()) / np.ptp(smooth)
    found: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {}

    def add(what: str, twin: Callable[..., Any], *args: Any, **keywords: Any) -> None:
        ours = getattr(bv, twin.__name__)
        name = f"{twin.__name__} {args[0].dtype} {what}"
        found[name] = partial(computed, ours, *args, **keywords), partial(twin, *args, **keywords)

    for noise in (rng.integers(0, 255, shape, "u1"), rng.random(shape, "f4")):
        for axis, name in enumerate("zyx"):
            for of_numpy in (np.argmin, np.argmax, np.cumsum):
                add(f"along {name}", of_numpy, noise, axis=axis)
    for image in ((255 * smooth).astype("u1"), smooth.astype("f4")):
        add("", morphology.local_maxima, image)
        add("", feature.peak_local_max, image, min_distance=3)
        for number in (20, count):
            for of_scipy in (ndi.mean, ndi.extrema):
                index = np.arange(1, number + 1)
                add(f"of {number} labels", of_scipy, image, labels=labels, index=index)
    add("", segmentation.relabel_sequential, 3 * labels)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="parts of names of rows; all by default")
    parser.add_argument("--shape", default="96x256x256", help="of the volume")
    parser.add_argument("--calls", type=int, default=5, help="of each function")
    args = parser.parse_args()
    for name, both in rows(tuple(map(int, args.shape.split("x")))).items():
        if args.names and not any(part in name for part in args.names):
            continue
        best = [float("inf")] * 2
        for call in range(args.calls + 1):
            for k, run in enumerate(both):
                begin = time.process_time()
                run()
                if call:  # the first one compiles
                    best[k] = min(best[k], time.process_time() - begin)
        ours, twin = (1e3 * seconds for seconds in best)
        print(f"{name:36} {ours:7.1f} ms, twin {twin:7.1f} ms, ratio {twin / ours:.2f}", flush=True)


if __name__ == "__main__":
    main()
