"""The recipe ``templates/recipes/neurons.yaml`` on a volume with a ground truth: scores, and a picture.

``python benchmarks/neurons.py FOLDER MODEL OUT [options of run]`` takes the folder of the FIB-25 sample and
a network of affinities (ONNX), and segments its last fifty slices. The folder has ``grayscale/*.png`` and
``groundtruth.h5``, with supervoxels that ``transforms`` maps to neurons. ``OUT`` gets the results, and
``segments.png``: a slice, its affinities, its segments.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import beam_volumes as bv
from beam_volumes.cli.main import main as command

PART, SLICE = (200, 250), 224
RECIPE = Path(__file__).parents[1] / "templates/recipes/neurons.yaml"


def truth_of(folder: Path, out: Path) -> Path:
    """The neurons, as a volume."""
    import h5py

    with h5py.File(folder / "groundtruth.h5") as file:
        names = file["transforms"][...]
        supervoxels = file["stack"][...]
    table = np.zeros(int(names[:, 0].max()) + 1, np.uint32)
    table[names[:, 0]] = names[:, 1]
    path = out / "truth.zarr"
    bv.compute(bv.open(table[supervoxels]).to(path), runner=None, overwrite=True)
    return path


def picture(folder: Path, out: Path) -> None:
    """Three panels side by side."""
    from PIL import Image

    z = SLICE - PART[0]
    em = np.asarray(bv.open(str(folder / "grayscale" / "*.png"))[SLICE])
    affinities = np.asarray(bv.open(out / "affinities.zarr")[:, z])
    segments = np.asarray(bv.open(out / "segments.zarr")[z])
    colours = np.random.default_rng(5).integers(40, 256, (int(segments.max()) + 1, 3))
    colours[0] = 0
    grey = np.repeat(em[..., None], 3, -1)
    panels = [grey, np.moveaxis(affinities, 0, -1), (0.45 * grey + 0.55 * colours[segments])]
    gap = np.full((em.shape[0], 6, 3), 255)
    joined = np.concatenate([panels[0], gap, panels[1], gap, panels[2]], axis=1).astype(np.uint8)
    Image.fromarray(joined).save(out / "segments.png", optimize=True)


def main() -> None:
    folder, model, out = map(Path, sys.argv[1:4])
    out.mkdir(parents=True, exist_ok=True)
    truth = truth_of(folder, out)
    part = f"{PART[0]}:{PART[1]}"
    settings = {
        "em": folder / "grayscale" / "*.png",
        "model": model,
        "truth": truth,
        "out": out,
        "part": part,
    }
    arguments = [w for key, value in settings.items() for w in ("--set", f"{key}={value}")]
    status = command(["run", str(RECIPE), *arguments, *sys.argv[4:]])
    if status == 0:
        picture(folder, out)
    raise SystemExit(status)


if __name__ == "__main__":
    main()
