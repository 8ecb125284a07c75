"""Registration of bad data: errors, links, seconds and memory, compared with other programs.

    python benchmarks/registration.py [--python=PYTHON] [--limit=SECONDS] [--seed=N] [tiles blocks sections]

PYTHON has ashlar, multiview-stitcher, pystackreg and scikit-image. Each program runs in its own process for
each case, from arrays in memory, and computes it twice; the second one counts. A process ends after SECONDS,
by default 600. If only the first computation has ended then, it counts. N is added to the seeds of tiles and
blocks.

- tiles: 4 x 4 of 192 x 192 pixels with an overlap of 15 %, and blocks: 2 x 2 x 2 of 24 x 64 x 64 voxels with
  25 %. Stages are wrong by up to 4 pixels along each axis.
- sections: 12 of 160 x 160 pixels, with shifts of up to 8 pixels. Four of them are bad in some cases.

The error is the root of the mean squared distance to the true positions, in pixels, after the mean error of
all tiles is subtracted; of bad sections, none counts. "stage" is the same error of the given positions, or of
sections that are not moved. "right" is the number of used links of neighbours with errors below 1.5 pixels,
and "wrong" of all others; for sections, good and bad ones with links. Bad sections may have links to each
other. scikit-image stands for the plain method: phase correlation of the overlaps of neighbours, and least
squares.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import ndimage as ndi

TILE, BLOCK, SECTIONS = (192, 192), (24, 64, 64), (12, 160, 160)
BAD = (3, 6, 7, 10)
FAMILIES = {
    "tiles": ("ours", "ashlar", "stitcher", "skimage"),
    "blocks": ("ours", "stitcher", "skimage"),
    "sections": ("ours", "stackreg", "skimage"),
}
Case = dict[str, Any]


def texture(rng: np.random.Generator, shape: tuple[int, ...], z: float = 1.0) -> np.ndarray:
    """Return structures of several sizes, with a mean of 0 and a deviation of 1."""
    found = np.zeros(shape)
    for sigma in (1.5, 4, 10):
        sigmas = [sigma / z, sigma, sigma][-len(shape) :]
        part = ndi.gaussian_filter(rng.standard_normal(shape), sigmas, mode="wrap")
        found += part / part.std()
    return found / found.std()


def photons(rng: np.random.Generator, image: np.ndarray, count: float) -> np.ndarray:
    """Return an image with this mean number of photons, and a noise of the camera of one photon."""
    found = rng.poisson(count * np.clip(1 + 0.3 * image, 0, None)) + rng.normal(0, 1, image.shape)
    return found.astype("f4")


def cut(world: np.ndarray, place: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return a part at a fractional position."""
    first = np.floor(place).astype(int)
    box = tuple(slice(k - 4, k + n + 4) for k, n in zip(first, shape, strict=True))
    moved = ndi.shift(world[box], -(place - first), order=3)
    return moved[(slice(4, -4),) * len(shape)]


def tile_cases(family: str, seed: int = 0) -> Iterator[tuple[str, Case]]:
    shape, grid = (TILE, (4, 4)) if family == "tiles" else (BLOCK, (2, 2, 2))
    names = {
        "tiles": (
            "clean", "20 photons", "5 photons", "fixed pattern", "gains", "vignettes", "periodic", "sparse",
            "overlap 5 %", "stage 20 %", "bad tiles",
        ),
        "blocks": ("clean", "5 photons", "gains", "anisotropic", "overlap 10 %"),
    }[family]  # fmt: skip
    for number, name in enumerate(names):
        rng = np.random.default_rng(number + seed)
        overlap = {"overlap 5 %": 0.05, "overlap 10 %": 0.1, "stage 20 %": 0.35}.get(
            name, 0.15 if family == "tiles" else 0.25
        )
        limit = 0.1 * shape[-1] if name == "stage 20 %" else 4.0
        size = np.array(shape)
        step = np.rint((1 - overlap) * size)
        stage = np.array(list(itertools.product(*map(range, grid)))) * step + limit + 6
        true = stage + rng.uniform(-limit, limit, stage.shape)
        whole = tuple(np.ceil(stage.max(axis=0) + size + limit + 8).astype(int))
        world = texture(rng, whole, 4.0 if name == "anisotropic" else 1.0)
        if name == "periodic":
            k = [np.sin(2 * np.pi * np.arange(n) / p) for n, p in zip(whole, (9, 11), strict=True)]
            world = 0.3 * world + np.add.outer(*k)
        if name == "sparse":
            spots = ndi.gaussian_filter(1.0 * (rng.random(whole) < 4e-4), 1.5)
            world = 8 * spots / spots.max() - 1
        pattern = rng.normal(0, 1, shape) + rng.normal(0, 1, shape[-1])
        tiles = []
        for n, place in enumerate(true):
            tile = cut(world, place, shape)
            if name == "vignettes":
                away = [np.linspace(-1, 1, n) ** 2 for n in shape]
                tile = (1 + 0.3 * tile) * (1 - 0.3 * np.add.outer(*away))
                tile = (tile - 1) / 0.3
            tile = photons(rng, tile, {"20 photons": 20, "5 photons": 5}.get(name, 400))
            if name == "fixed pattern":
                tile = tile * (1 + 0.1 * pattern)
            if name == "gains":
                tile = tile * rng.uniform(0.5, 2) + rng.uniform(0, 200)
            if name == "bad tiles" and n in (5, 6, 12):
                tile = {5: 0 * tile, 6: tile.max() - tile, 12: tile[:, ::-1]}[n]
            tiles.append(tile.astype("f4"))
        pairs = [
            (i, j)
            for i, j in itertools.combinations(range(len(true)), 2)
            if abs((stage[j] - stage[i]) / step).sum() < 1.5
        ]
        yield name, {
            "images": np.stack(tiles), "true": true, "stage": stage, "limit": limit,
            "good": np.array([name != "bad tiles" or n not in (5, 6, 12) for n in range(len(true))]),
            "pairs": np.array(pairs),
        }  # fmt: skip


def section_cases(_: str) -> Iterator[tuple[str, Case]]:
    for number, name in enumerate(
        (
            "clean",
            "5 photons",
            "gains",
            "missing",
            "torn",
            "black",
            "inverted",
            "flipped",
            "strangers",
        )
    ):
        rng = np.random.default_rng(number)
        count, *shape = SECTIONS
        world = texture(rng, (count, shape[0] + 40, shape[1] + 40), 1.0)
        # Neighbours share most of their structures.
        world = ndi.gaussian_filter1d(world, 1.5, axis=0)
        world /= world.std()
        true = 20 + rng.uniform(-8, 8, (count, 2))
        stack = []
        for k in range(count):
            image = photons(
                rng, cut(world[k], true[k], tuple(shape)), 5 if name == "5 photons" else 100
            )
            if name == "gains":
                image = image * rng.uniform(0.5, 2) + rng.uniform(0, 100)
            if k in BAD:
                if name == "missing":
                    image = 0 * image
                if name == "torn":
                    image[:, 80:] = np.roll(image[:, 80:], 25, axis=0)
                if name == "black":
                    image[30:120, 30:] = 0
                if name == "inverted":
                    image = image.max() - image
                if name == "flipped":
                    image = image[:, ::-1]
                if name == "strangers":
                    image = photons(rng, texture(rng, tuple(shape)), 100)
            stack.append(image.astype("f4"))
        is_bad = name not in ("clean", "5 photons", "gains")
        good = np.array([not is_bad or k not in BAD for k in range(count)])
        yield name, {
            "images": np.stack(stack), "true": true, "stage": np.zeros((count, 2)), "limit": 8.0,
            "good": good, "pairs": np.zeros((0, 2), int),
        }  # fmt: skip


#: Positions, and the two images of each used link and its shift; or of sections, whether each has links.
Found = tuple[np.ndarray, np.ndarray | None]


def ours(family: str, case: Case) -> Found:
    import beam_volumes as bv

    if family == "sections":
        table = bv.register_slices(case["images"], max_shift=2 * case["limit"] + 1, progress=False)
        return np.stack([table[a] for a in "yx"], axis=1), np.array(table["links"]) > 0
    axes = "zyx"[-case["stage"].shape[1] :]
    found, pairs = bv.register_tiles(
        list(case["images"]), case["stage"], max_shift=2 * case["limit"], progress=False
    )
    rows = np.stack(
        [np.array(pairs[n], float) for n in ("a", "b", *(f"shift_{a}" for a in axes))], 1
    )
    return np.stack([found[a] for a in axes], axis=1), rows[np.array(pairs["used"])]


def skimage(family: str, case: Case) -> Found:
    """Phase correlation of the overlaps of neighbours; all links are used, with equal weights."""
    from skimage.registration import phase_cross_correlation

    images, stage = case["images"], case["stage"]
    count = len(stage)
    links = (
        case["pairs"] if len(case["pairs"]) else np.array([(k, k + 1) for k in range(count - 1)])
    )
    shifts = []
    for i, j in links:
        away = np.rint(stage[j] - stage[i]).astype(int)
        near = tuple(
            slice(max(0, s), n + min(0, s)) for s, n in zip(away, images[0].shape, strict=True)
        )
        far = tuple(
            slice(max(0, -s), n - max(0, s)) for s, n in zip(away, images[0].shape, strict=True)
        )
        # The second part is moved by -shift relative to the first one.
        moved = phase_cross_correlation(images[i][near], images[j][far], upsample_factor=20)[0]
        shifts.append(away + moved)
    system = np.zeros((len(links) + 1, count))
    for row, (i, j) in enumerate(links):
        system[row, [i, j]] = -1, 1
    system[-1] = 1
    wanted = np.vstack([shifts, stage.sum(axis=0)])
    places = np.linalg.lstsq(system, wanted, rcond=None)[0]
    rows = np.hstack([links, shifts])
    return places, np.ones(count, bool) if family == "sections" else rows


def stackreg(_: str, case: Case) -> Found:
    from pystackreg import StackReg

    found = StackReg(StackReg.TRANSLATION).register_stack(case["images"], reference="previous")
    return -found[:, [1, 0], 2], None


def ashlar(_: str, case: Case) -> Found:
    from ashlar import reg

    images, stage = case["images"], case["stage"]

    class Metadata(reg.Metadata):
        positions = stage
        num_images, num_channels, pixel_size = len(images), 1, 1.0
        size, origin = np.array(images[0].shape), stage.min(axis=0)
        pixel_dtype = np.dtype("u2")

        def tile_position(self, i: int) -> np.ndarray:
            return stage[i]

        def tile_size(self, i: int) -> np.ndarray:
            return np.array(images[0].shape)

    class Reader(reg.Reader):
        metadata = Metadata()

        def read(self, series: int, c: int) -> np.ndarray:
            return images[series].clip(0, 65535)

    edges = reg.EdgeAligner(Reader(), max_shift=2 * case["limit"])
    edges.run()
    pairs = np.array(list(edges.spanning_tree.edges), int).reshape(-1, 2)
    places = edges.positions
    return places, np.hstack([pairs, places[pairs[:, 1]] - places[pairs[:, 0]]])


def stitcher(_: str, case: Case) -> Found:
    from multiview_stitcher import msi_utils, registration
    from multiview_stitcher import spatial_image_utils as si_utils

    images, stage = case["images"], case["stage"]
    axes = "zyx"[-stage.shape[1] :]
    every = []
    for image, place in zip(images, stage, strict=True):
        sim = si_utils.get_sim_from_array(
            image, dims=list(axes), scale=dict.fromkeys(axes, 1.0),
            translation=dict(zip(axes, place, strict=True)), transform_key="stage",
        )  # fmt: skip
        every.append(msi_utils.get_msim_from_sim(sim, scale_factors=[]))
    registration.register(
        every, transform_key="stage", new_transform_key="found", reg_channel_index=0,
        registration_binning=dict.fromkeys(axes, 1),
    )  # fmt: skip
    sims = [msi_utils.get_sim_from_msim(one) for one in every]
    n = len(axes)
    moved = [np.asarray(si_utils.get_affine_from_sim(s, "found")).squeeze()[:n, n] for s in sims]
    return stage + moved, None


PROGRAMS: dict[str, Callable[[str, Case], Found]] = {
    "ours": ours, "skimage": skimage, "stackreg": stackreg, "ashlar": ashlar, "stitcher": stitcher,
}  # fmt: skip


def spread(places: np.ndarray, case: Case) -> float:
    error = (places - case["true"])[case["good"]]
    return float(np.sqrt(((error - error.mean(axis=0)) ** 2).sum(axis=1).mean()))


def measure(program: str, family: str, path: Path) -> None:
    """Compute a case twice, and print a row and the peak of the process each time."""
    warnings.simplefilter("ignore")
    case = dict(np.load(path))
    for _ in range(2):
        row: dict[str, Any] = {}
        try:
            begun = _seconds()
            places, links = PROGRAMS[program](family, case)
            row |= {"seconds": _seconds() - begun, "error": spread(places, case)}
            row |= counted(family, case, links)
        except Exception as error:  # the next case may work
            row["failed"] = f"{type(error).__name__}: {error}"[:60].splitlines()[0]
        # `getrusage` begins with the memory of the process that started this one.
        status = Path("/proc/self/status").read_text()
        row["peak"] = int(status.partition("VmHWM:")[2].split()[0]) >> 10
        print("ROW " + json.dumps(row), flush=True)


def measured(command: list[str], limit: float) -> dict[str, Any]:
    """Return the last row of a process, or why there is none."""
    try:
        lines = subprocess.run(command, capture_output=True, timeout=limit).stdout
    except subprocess.TimeoutExpired as stopped:
        lines = stopped.stdout or b""
    rows = [one[4:] for one in lines.decode().splitlines() if one.startswith("ROW ")]
    return json.loads(rows[-1]) if rows else {"failed": f"no result in {limit:g} s"}


def counted(family: str, case: Case, links: np.ndarray | None) -> dict[str, Any]:
    if links is None:
        return {}
    good = case["good"]
    if family == "sections":
        return {
            "right": f"{(links & good).sum()} of {good.sum()}",
            "wrong": int((links & ~good).sum()),
        }
    pairs = links[:, :2].astype(int)
    error = links[:, 2:] - (case["true"][pairs[:, 1]] - case["true"][pairs[:, 0]])
    is_right = (abs(error) < 1.5).all(axis=1) & good[pairs].all(axis=1)
    neighbours = {(i, j) for i, j in case["pairs"].tolist() if good[i] and good[j]}
    right = neighbours & {(min(p), max(p)) for p in pairs[is_right].tolist()}
    return {"right": f"{len(right)} of {len(neighbours)}", "wrong": int((~is_right).sum())}


def _seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main() -> None:
    words = [a for a in sys.argv[1:] if not a.startswith("--")]
    if len(words) == 3 and words[0] in PROGRAMS:
        measure(words[0], words[1], Path(words[2]))
        return
    options = dict(a[2:].split("=", 1) for a in sys.argv[1:] if a.startswith("--"))
    limit, seed = float(options.get("limit", 600)), int(options.get("seed", 0))
    print("| Family | Case | Program | Stage | Error | Right | Wrong | Processor, s | Peak, MiB |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as name:
        for family, programs in FAMILIES.items():
            if words and family not in words:
                continue
            cases = section_cases(family) if family == "sections" else tile_cases(family, seed)
            for case, arrays in cases:
                path = Path(name) / "case.npz"
                np.savez(path, **arrays)
                stage = spread(arrays["stage"], arrays)
                for program in programs:
                    executable = sys.executable if program == "ours" else options.get("python")
                    if executable is None:
                        continue
                    r = measured([executable, __file__, program, family, str(path)], limit)
                    end = r.get("failed")
                    if end is None:
                        links = f"{r.get('right', '')} | {r.get('wrong', '')}"
                        end = f"{r['error']:.2f} | {links} | {r['seconds']:.1f} | {r['peak']}"
                    print(f"| {family} | {case} | {program} | {stage:.2f} | {end} |", flush=True)


if __name__ == "__main__":
    main()
