"""Crops, levels and numbers of what is written end in the sweep that writes it, however it is cut."""

import numpy as np
import pytest
from scipy import ndimage as ndi

import beam_volumes as bv
from tests.tiers import thorough

rng = np.random.default_rng(21)
VOXELS = ndi.gaussian_filter(rng.integers(0, 255, (21, 30, 34)).astype("f4"), 1.2).astype("u1")


def reduced(a, by, mode=False):
    """Level by the definition: windows of what is there, means to even, the smallest of modes."""
    out = np.empty([-(-n // f) for n, f in zip(a.shape, by, strict=True)], a.dtype)
    for at in np.ndindex(out.shape):
        w = a[tuple(slice(k * f, k * f + f) for k, f in zip(at, by, strict=True))].ravel()
        if mode:
            values, counts = np.unique(w, return_counts=True)
            out[at] = values[counts.argmax()]
        else:
            out[at] = np.rint(w.mean(dtype="f8"))
    return out


@pytest.mark.parametrize(
    "slab, window, chunks",
    [
        (None, None, None),
        ((8, 16, 24), 3, (4, 8, 8)),
        pytest.param((7, 30, 13), 2, (7, 10, 13), marks=thorough),
        ((12, 8, 34), None, (4, 8, 17)),
        pytest.param((6, 8, 8), 1, (2, 8, 4), marks=thorough),
    ],
)
def test_crops_levels_and_numbers_are_those_of_the_whole(slab, window, chunks, tmp_path):
    v = bv.open(VOXELS)
    g = bv.gaussian_filter(v, 1, dtype="u1")
    half = bv.downsample(g, (1, 2, 2))
    quarter = bv.downsample(half, 2)
    cells = bv.label(g > 127)
    coarse = bv.downsample(cells, 2, "mode")
    crop = g[8:18, 5:, :31]
    targets = {
        "g": g, "half": half, "quarter": quarter, "crop": crop, "corner": half[9:, 9:, 3:],
        "cells": cells, "coarse": coarse, "coarser": bv.downsample(coarse, (2, 3, 1), "mode"),
        "grown": bv.maximum_filter(coarse, 3),
    }  # fmt: skip
    numbers = [bv.sum(crop), bv.max(quarter), bv.sum(coarse), bv.mean(cells[9:])]
    how = {"slab": slab, "window": window}
    found = bv.compute(
        *(t.to(tmp_path / f"{k}.zarr", chunks=chunks) for k, t in targets.items()),
        *numbers,
        runner=None,
        **how,
    )
    got = {k: np.asarray(f) for k, f in zip(targets, found, strict=False)}
    whole = np.asarray(bv.gaussian_filter(v, 1, dtype="u1"))
    labels = ndi.label(whole > 127)[0]
    small = reduced(labels, (2, 2, 2), mode=True)
    want = {
        "g": whole, "half": reduced(whole, (1, 2, 2)), "crop": whole[8:18, 5:, :31],
        "cells": labels, "coarse": small, "coarser": reduced(small, (2, 3, 1), mode=True),
        "grown": ndi.maximum_filter(small, 3),
    }  # fmt: skip
    want["quarter"] = reduced(want["half"], (2, 2, 2))
    want["corner"] = want["half"][9:, 9:, 3:]
    for k, array in want.items():
        assert np.array_equal(got[k], array), k
    assert [int(n) for n in found[-4:-1]] == [
        int(want["crop"].sum()), want["quarter"].max(), small.sum()
    ]  # fmt: skip
    assert float(found[-1]) == pytest.approx(labels[9:].mean())
    assert bv.verify(tmp_path / "g.zarr", checksums=True) == []
    if slab is None:
        # The input is read once, for labels and all the rest.
        plan = bv.plan(*(t.to(tmp_path / f"{k}.zarr") for k, t in targets.items()), *numbers)
        held = [[s for s in p.program.steps if s.source and s.source.held] for p in plan.passes]
        assert list(map(bool, held)) == [True] + [False] * (len(held) - 1)
