"""Crops, levels and numbers of outputs end in the sweep that writes them, for any slabs."""

import re
import tempfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage as ndi

import beam_volumes as bv
from tests.tiers import examples, thorough

rng = np.random.default_rng(21)
VOXELS = ndi.gaussian_filter(rng.integers(0, 255, (21, 30, 34)).astype("f4"), 1.2).astype("u1")


def reduced(a, by, mode=False):
    """Level by the definition: windows of existing voxels, means to even, the smallest of modes."""
    out = np.empty([-(-n // f) for n, f in zip(a.shape, by, strict=True)], a.dtype)
    for at in np.ndindex(out.shape):
        w = a[tuple(slice(k * f, k * f + f) for k, f in zip(at, by, strict=True))].ravel()
        if mode:
            values, counts = np.unique(w, return_counts=True)
            out[at] = values[counts.argmax()]
        else:
            out[at] = np.rint(w.mean(dtype="f8"))
    return out


@thorough
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
        held = [
            [s for s in p.program.steps if s.source and s.source.in_memory] for p in plan.passes
        ]
        assert list(map(bool, held)) == [True] + [False] * (len(held) - 1)


OPERATIONS = {
    "add": (lambda v: v + 1, lambda a: a + 1),
    "maximum": (lambda v: bv.maximum_filter(v, 3), lambda a: ndi.maximum_filter(a, 3)),
    "threshold": (lambda v: v > bv.mean(v), lambda a: a > a.mean()),
    "label": (lambda v: bv.label(v > 2), lambda a: ndi.label(a > 2)[0]),
}


def is_cut(slab, shape, outputs):
    """Whether slabs of a domain of this shape cut through a chunk of an output that is as wide as it."""
    return any(
        at % chunk
        for extents, chunks in outputs
        for s, n, extent, chunk in zip(slab, shape, extents, chunks, strict=True)
        for at in range(s, n if extent == n else 0, s)
    )


@thorough
@given(data=st.data())
@settings(max_examples=examples(60))
@pytest.mark.parametrize("name", OPERATIONS)
def test_slabs_give_the_same_voxels_or_are_refused_for_a_chunk_that_they_cut(name, data):
    shape = tuple(data.draw(st.integers(1, 20), label="extent") for _ in range(3))
    operation, twin = OPERATIONS[name]
    array = np.random.default_rng(sum(shape)).integers(0, 4, shape, "u1")
    want = twin(array)
    begins = [data.draw(st.integers(0, n - 1), label="begins") for n in shape]
    ends = [
        data.draw(st.integers(a + 1, n), label="ends") for a, n in zip(begins, shape, strict=True)
    ]
    crop = tuple(slice(a, b) for a, b in zip(begins, ends, strict=True))
    slab = tuple(data.draw(st.integers(1, n), label="slab") for n in shape)
    parts = {"whole": np.s_[:, :, :], "crop": crop}
    if name == "add" and data.draw(st.booleans(), label="crop alone"):
        del parts["whole"]
    result = operation(bv.open(array))
    with tempfile.TemporaryDirectory() as folder:
        targets, stored = [], []
        for key, part in parts.items():
            targets.append(result[part])
            if data.draw(st.booleans(), label=f"{key} is stored"):
                extents = want[part].shape
                chunks = tuple(data.draw(st.integers(1, n), label="chunk") for n in extents)
                targets[-1] = targets[-1].to(f"{folder}/{key}.zarr", chunks=chunks)
                stored.append((extents, chunks))
        domains = [want[part].shape for part in parts.values()]
        # A crop of labels is read back from the whole, in a pass and a domain of its own.
        domains = domains if name == "label" else domains[:1]
        cut = any(is_cut(slab, domain, stored) for domain in domains)
        asked = list(slab)
        for _ in range(3):
            try:
                bv.plan(*targets, slab=asked)
                break
            except ValueError as error:
                found = re.search(r"along (.) is not .* use a multiple of (\d+)", str(error))
                asked["zyx".index(found[1])] = int(found[2])
        assert (asked != list(slab)) == cut
        how = {"slab": asked, "window": data.draw(st.sampled_from([None, 1, 3]), label="window")}
        computed = bv.compute(targets, runner=None, progress=False, **how)
        for got, part in zip(computed, parts.values(), strict=True):
            np.testing.assert_array_equal(got, want[part])
