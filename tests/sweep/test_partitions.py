"""Random graphs over random partitions: not one bit may differ, and every step is scipy's.

A graph is three to six operations on one source, with tees (a volume used twice), zips (two volumes
combined), crops and lazy scalars. Each operation is compared with its twin on our own materialised
input; the whole graph is written in random partitions and compared byte by byte.
"""

import itertools
import shutil
import tempfile

import numpy as np
import pytest
import tensorstore as ts
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from tests import catalogue as cat
from tests.catalogue_generic import generics
from tests.catalogue_geometry import regrids
from tests.sweep.fake_device import pretended
from tests.tiers import COMMON_DTYPES, few, thorough

DTYPES = ["?", "u1", "u2", "i4", "f4", "f8"]
PAIRS = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "less": np.less,
    "maximum": np.maximum,
    "logical_xor": np.logical_xor,
}


def stored(array, chunks, folder):
    """A zarr array of odd chunks that holds an array."""
    driver = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{folder}/in.zarr/"}}
    store = ts.open(
        {
            **driver,
            "metadata": {
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}}
            },
        },
        create=True,
        dtype=array.dtype.name,
        shape=array.shape,
    ).result()
    store[...] = array
    return bv.open(f"{folder}/in.zarr")


@st.composite
def partitions(draw, shape, dtype):
    """Keywords of `.to` and of `compute` that fit each other."""
    if draw(st.integers(0, 3)) == 0:
        return {"chunks": tuple(draw(st.integers(1, n)) for n in shape)}, {}
    chunks = tuple(draw(st.integers(1, n)) for n in shape)
    slab = tuple(min(c * draw(st.integers(1, 3)), n) for c, n in zip(chunks, shape, strict=True))
    slab = tuple(
        s if s == n or s % c == 0 else c for s, c, n in zip(slab, chunks, shape, strict=True)
    )
    how = {"slab": slab, "window": draw(st.sampled_from([None, 1, 2, 3, 5, 40]))}
    return {"chunks": chunks}, how


class Graph:
    """A random graph, built step by step with its expected arrays."""

    def __init__(self, draw, source, array):
        self.draw = draw
        self.nodes = [(source, array)]
        self.text = [f"{array.dtype}{array.shape}"]

    def pick(self):
        # The latest more often than others: graphs are deep rather than broad.
        n = len(self.nodes)
        k = n - 1 if self.draw(st.booleans()) else self.draw(st.integers(0, n - 1))
        return k, *self.nodes[k]

    def grow(self):
        kind = self.draw(
            st.sampled_from(
                ["filter"] * 3
                + ["zip", "scalar", "crop", "overlap", "regrid", "generic", "contrast"]
            )
        )
        k, v, x = self.pick()
        if kind == "filter":
            op = self.draw(cat.operations(ndim=x.ndim, dtype=x.dtype))
            result = op.ours(v)
            ours = np.asarray(result)
            op.check(ours, x)
            said = str(op)
        elif kind == "generic":
            op = self.draw(generics(x.ndim, x.dtype, ("wild",)))
            result = op.ours(v)
            ours = np.asarray(result)
            op.check(ours, x)
            said = str(op)
        elif kind == "contrast":
            if not np.isfinite(x).any() or (x.dtype.kind == "f" and np.nanmax(np.abs(x)) > 1e30):
                return
            how = {"axis": self.draw(st.integers(0, x.ndim - 1)), "nan": "omit"}
            if x.dtype != bool and self.draw(st.booleans()):
                how |= {"percentiles": (5, 80), "out_range": (-1, 3)}
            result = bv.normalize_slices(v, **how)
            ours = np.asarray(result)
            np.testing.assert_array_equal(np.isnan(ours), np.isnan(x))
            said = f"normalize_slices({how})"
        elif kind == "regrid":
            op = self.draw(regrids(x.shape, x.dtype))
            result = op.ours(v)
            if result.size > 20_000:
                return
            ours = np.asarray(result)
            # scipy takes 64-bit integers through doubles.
            if x.dtype.itemsize < 8 or x.dtype.kind == "f" or np.abs(x.astype("f8")).max() < 2**53:
                op.check(ours, x)
            said = str(op)
        elif kind == "zip":
            name = self.draw(st.sampled_from(sorted(PAIRS)))
            j, w, y = self.pick()
            if w.shape != v.shape or w.axes != v.axes:
                j, w, y = k, v, x
            if name == "subtract" and x.dtype == y.dtype == bool:
                name = "logical_xor"
            with np.errstate(all="ignore"):
                expected = PAIRS[name](x, y)
            result = PAIRS[name](v, w)
            ours = np.asarray(result)
            cat.assert_same(ours, expected)
            said = f"{name} with {j}"
        elif kind == "scalar":
            name = self.draw(st.sampled_from(["min", "max", "mean", "std", "sum"]))
            lazy = getattr(bv, name)(v, nan="omit")
            keep = np.isfinite(x)
            if not keep.any() or (x.dtype.kind == "f" and np.abs(x[keep]).max() > 1e30):
                return
            try:
                number = bv.compute(lazy, runner=None)
            except ValueError as error:
                assert "does not fit" in str(error)
                return
            if name in ("min", "max"):
                assert number == getattr(x[keep], name)()
            with np.errstate(all="ignore"):
                expected = np.less(x, number)
            result = v < lazy
            ours = np.asarray(result)
            cat.assert_same(ours, expected)
            said = f"less than its {name}"
        elif kind == "crop":
            key = []
            for n in x.shape:
                a = self.draw(st.integers(0, n - 1))
                key.append(slice(a, self.draw(st.integers(a + 1, n))))
            other = [slice(0, s.stop - s.start) for s in key]
            if self.draw(st.booleans()):
                # Two crops of one volume, zipped.
                result = np.maximum(v[tuple(key)], v[tuple(other)])
                with np.errstate(all="ignore"):
                    expected = np.maximum(x[tuple(key)], x[tuple(other)])
                said = f"maximum of crops {key} and {other}"
            else:
                result, expected = v[tuple(key)], x[tuple(key)]
                said = f"crop {key}"
            ours = np.asarray(result)
            cat.assert_same(ours, expected)
        else:
            depth = tuple(
                (self.draw(st.integers(0, 2)), self.draw(st.integers(0, 2))) for _ in range(x.ndim)
            )
            result = bv.map_overlap(lambda a: a[...], v, depth=depth, mode="mirror", name="same")
            ours = np.asarray(result)
            cat.assert_same(ours, x)
            said = f"map_overlap {depth}"
        self.nodes.append((result, ours))
        self.text.append(f"{said} of {k}")


@thorough
@pytest.mark.parametrize("batch", few(range(3), [0]))
@settings(max_examples=12)
@given(data=st.data())
def test_random_graphs(batch, data):
    draw = data.draw
    dtype = draw(st.sampled_from(COMMON_DTYPES if batch < 2 else DTYPES))
    # The batch is drawn on top, so that batches differ though they are derandomised.
    seed = 100 * batch + draw(st.integers(0, 99))
    shape = draw(cat.shapes(draw(st.sampled_from([3, 3, 3, 2]))))
    shape = tuple(np.random.default_rng(batch).permutation(shape).tolist())
    rare = draw(st.sampled_from([0, 0, 0.01]))
    x = cat.voxels(shape, dtype, seed, narrow=draw(st.booleans()), nan=rare)
    folder = tempfile.mkdtemp()
    try:
        if x.dtype == bool or draw(st.booleans()):
            source = bv.open(x)
        else:
            source = stored(x, [draw(st.integers(1, n)) for n in shape], folder)
        graph = Graph(draw, source, x)
        for _ in range(draw(st.integers(3, 6))):
            graph.grow()
        # One output of the last node, sometimes a second of an earlier one: two sinks, two passes.
        targets = [graph.nodes[-1]]
        if draw(st.booleans()):
            targets.append(graph.nodes[draw(st.integers(0, len(graph.nodes) - 1))])
        for trial in range(3):
            how_to, how = draw(partitions(targets[0][1].shape, None))
            if len(targets) > 1 and targets[1][1].shape != targets[0][1].shape:
                how.pop("slab", None)
            how |= {
                "threads": draw(st.sampled_from([1, 2])),
                "workers": draw(st.sampled_from([1, 2])),
                "device": draw(st.sampled_from(["cpu", "cuda", "auto"])),
            }
            outs = [
                v.to(
                    f"{folder}/{trial}-{k}.zarr",
                    **(how_to if a.shape == targets[0][1].shape else {}),
                )
                for k, (v, a) in enumerate(targets)
            ]
            with pretended():
                written = bv.compute(*outs, runner=None, progress=False, **how)
            written = written if isinstance(written, tuple) else (written,)
            for w, (_, a) in zip(written, targets, strict=True):
                got = np.asarray(w).astype(a.dtype)
                assert got.shape == a.shape
                if got.tobytes() != a.tobytes():
                    np.testing.assert_array_equal(got, a, err_msg=f"{graph.text} {how_to} {how}")
                    raise AssertionError(f"bits differ: {graph.text} {how_to} {how}")
    finally:
        shutil.rmtree(folder)


@thorough
def test_every_partition_of_a_small_volume(tmp_path):
    """All slab depths and tiles of a chain with halos larger than the volume."""
    x = cat.voxels((6, 5, 7), "f4", 3)
    v = bv.open(x)
    a = bv.gaussian_filter(v, (2.5, 0.7, 1.0), mode=("mirror", "reflect", "nearest"))
    chain = bv.median_filter(a, (3, 2, 4)) - bv.uniform_filter(
        a, (1, 6, 2), mode="constant", cval=2
    )
    whole = np.asarray(chain)
    for n, (z, y, xx) in enumerate(itertools.product((1, 2, 5, 6), (1, 3, 5), (2, 7))):
        for window in (1, 3):
            out = chain.to(tmp_path / f"{n}-{window}.zarr", chunks=(z, y, xx))
            got = bv.compute(out, slab=(z, y, xx), window=window, runner=None, progress=False)
            assert np.asarray(got).tobytes() == whole.tobytes(), (z, y, xx, window)


@pytest.mark.parametrize(
    "operation",
    [
        lambda v: bv.gaussian_filter(v, 1),
        lambda v: bv.convolve(v, np.random.default_rng(0).normal(size=(3, 4, 2))),
        lambda v: bv.sobel(v) - bv.gaussian_gradient_magnitude(v, 1) * v,
    ],
    ids=["gaussian", "convolve", "chain"],
)
def test_nan_of_infinities_has_the_same_bits_too(operation, tmp_path):
    """inf - inf and a NaN that was there have other signs; which one stays must not depend on cuts."""
    v = bv.open(cat.voxels((20, 17, 23), "f4", 1, nan=0.005, inf=0.01))
    whole = np.asarray(operation(v))
    assert 0 < np.isnan(whole).sum() < whole.size
    for n, slab in enumerate([(4, 17, 23), (3, 5, 7), (20, 6, 23), (5, 17, 4)]):
        out = operation(v).to(tmp_path / f"{n}.zarr", chunks=slab)
        got = bv.compute(out, slab=slab, runner=None, progress=False)
        assert np.asarray(got).tobytes() == whole.tobytes(), slab
