"""A sweep computes every voxel once and reads every chunk once, for any graph."""

import threading
from collections import Counter

import numpy as np
import pytest
import scipy.ndimage as ndi
import tensorstore as ts

import beam_volumes as bv
from beam_volumes.ops.measure.folds import Mean
from beam_volumes.sweep import executor
from beam_volumes.sweep.resources import Arena
from tests.catalogue import assert_same, voxels
from tests.tiers import thorough


class Recorder:
    """A function for `map_overlap` that counts, from coordinates, the core voxels it is given."""

    def __init__(self, shape, halo):
        self.counts = np.zeros(shape, int)
        self.halo, self.lock = halo, threading.Lock()

    def __call__(self, index):
        z, y, x = (slice(h, n - h) for h, n in zip(self.halo, index.shape, strict=True))
        with self.lock:
            np.add.at(self.counts.reshape(-1), index[z, y, x].astype(int).ravel(), 1)
        return index


def coordinates(shape):
    return np.arange(np.prod(shape)).reshape(shape).astype("f8")


@pytest.mark.parametrize("window", [1, 3, 8])
@pytest.mark.parametrize("threads", [1, 2])
def test_each_voxel_of_each_stage_is_computed_once_in_a_slab(window, threads):
    shape = (23, 40, 50)
    v = bv.open(coordinates(shape))
    first, second = Recorder(shape, (2, 1, 3)), Recorder(shape, (1, 0, 2))
    a = bv.map_overlap(first, v, dtype="f8", depth=(2, 1, 3), mode="nearest")
    # A tee: three users of one stage, with halos of their own.
    b = bv.map_overlap(second, a, dtype="f8", depth=(1, 0, 2), mode="nearest")
    users = bv.minimum_filter(a, 5) + bv.uniform_filter(a, (1, 7, 1)) + b
    bv.compute(users, runner=None, window=window, threads=threads, slab=shape)
    assert (first.counts == 1).all() and (second.counts == 1).all()


@pytest.mark.parametrize("threads", [1, 2, 30])
@pytest.mark.parametrize("window", [1, 5, 16])
def test_reductions_without_positions_get_slices_joined(monkeypatch, window, threads):
    x = np.random.default_rng(0).integers(0, 9, (16, 40, 50), "u1")
    folded = []
    fold = Mean.fold_slices

    def recorded(self, slices, values):
        folded.extend(voxels.shape for voxels in slices.voxels)
        return fold(self, slices, values)

    monkeypatch.setattr(Mean, "fold_slices", recorded)
    v = bv.open(x)
    # The rings of the filter's input have margins, so their slices are not joined.
    targets = bv.mean(v, mask=v > 3), bv.mean(bv.gaussian_filter(v, 1)), bv.mean(v)
    how = {"runner": None, "window": window, "slab": x.shape}
    masked, _, whole = bv.compute(*targets, threads=threads, **how)
    assert masked == x[x > 3].mean() and whole == x.mean()
    joined = [rows for rows, _ in folded if rows > 40]
    assert bool(joined) == (window > threads)
    assert sum(rows for rows, _ in folded) == 3 * 16 * 40


def test_slabs_compute_only_halos_twice():
    shape, halo = (24, 8, 8), (2, 0, 0)
    seen = Recorder(shape, (0, 0, 0))
    a = bv.map_overlap(seen, bv.open(coordinates(shape)), depth=0, dtype="f8")
    out = bv.map_overlap(lambda x: x, a, depth=halo)
    bv.compute(out, runner=None, slab=(8, 8, 8), window=3)
    per_slice = seen.counts.reshape(24, -1)
    assert (per_slice == per_slice[:, :1]).all()
    expected = np.ones(24, int)
    expected[[6, 7, 8, 9, 14, 15, 16, 17]] = 2
    np.testing.assert_array_equal(per_slice[:, 0], expected)


@pytest.mark.parametrize("window", [1, 4, 5, 16, 64])
@pytest.mark.parametrize("depth", [1, 4, 7])
def test_each_layer_of_chunks_is_read_once_in_a_slab(tmp_path, monkeypatch, window, depth):
    shape = (29, 12, 12)
    x = voxels(shape, "u2", 1)
    source = bv.compute(
        bv.open(x).to(tmp_path / "in.zarr", chunks=(depth, 5, 12)), runner=None, progress=False
    )
    slices, real = Counter(), executor.read_into

    def counting(handle, box, out):
        assert box.start[1:] == (0, 0) and box.stop[1:] == (12, 12)
        slices.update(range(box.start[0], box.stop[0]))
        # Layers are read whole: none twice because it was read in two halves.
        assert box.start[0] % depth == 0 and (box.stop[0] % depth == 0 or box.stop[0] == 29)
        return real(handle, box, out)

    monkeypatch.setattr(executor, "read_into", counting)
    chain = bv.median_filter(bv.maximum_filter(source, (5, 1, 1)), 3) + source
    result = bv.compute(chain, runner=None, slab=shape, window=window)
    assert_same(result, ndi.median_filter(ndi.maximum_filter(x, (5, 1, 1)), 3) + x)
    assert slices == Counter(range(29))


@thorough
def test_the_store_is_read_chunk_by_chunk_once(tmp_path):
    """TensorStore's own counters: the bytes of the chunks are read once."""
    x = voxels((32, 128, 128), "u2", 1)
    source = bv.compute(
        bv.open(x).to(tmp_path / "in.zarr", chunks=(4, 64, 64), codec=None),
        runner=None,
        progress=False,
    )
    out = bv.gaussian_filter(source, 2).to(tmp_path / "out.zarr", chunks=(8, 128, 128), codec=None)

    def bytes_read():
        metrics = ts.experimental_collect_matching_metrics("/tensorstore/kvstore/file/bytes_read")
        return sum(v["value"] for m in metrics for v in m["values"])

    before = bytes_read()
    plan = bv.plan(out, slab=(32, 128, 128))
    bv.compute(
        out, runner=None, slab=(32, 128, 128), window=5, journal=tmp_path / "j", progress=False
    )
    assert plan.bytes_read == x.nbytes and plan.read_amplification == 1.0
    # Metadata is small next to the voxels.
    assert x.nbytes <= bytes_read() - before <= x.nbytes + (80 << 10)


def test_memory_is_taken_once_and_kept_from_slab_to_slab(tmp_path, monkeypatch):
    pieces = []
    real = Arena.cut

    def cut(self, shapes):
        arrays = real(self, shapes)
        pieces.append(self._bytes.ctypes.data)
        return arrays

    monkeypatch.setattr(Arena, "cut", cut)
    v = bv.open(voxels((40, 30, 30), "f4", 1))
    out = bv.gaussian_filter(v, 1).to(tmp_path / "o.zarr", chunks=(4, 30, 30))
    bv.compute(out, runner=None, slab=(8, 30, 30), workers=1, progress=False)
    # The first slab has one halo, the next ones two: at most one larger piece is taken.
    assert len(pieces) == 5 and len(set(pieces)) <= 2


def test_errors_of_a_function_name_the_stage_and_the_slices():
    def broken(a):
        raise KeyError("no such thing")

    v = bv.map_overlap(broken, bv.open(np.zeros((4, 5, 6))), name="my step")
    with pytest.raises(RuntimeError, match=r"my step, slices 0 to \d: KeyError"):
        np.asarray(v)
    wrong = bv.map_overlap(lambda a: a[:1, :1, :1], bv.open(np.zeros((4, 5, 6))), depth=1)
    with pytest.raises(ValueError, match="shape"):
        np.asarray(wrong)


def test_deep_graphs():
    x = voxels((12, 14, 16), "?", 1)
    many = bv.binary_dilation(bv.open(x & False) | bv.open(x), iterations=200)
    assert_same(np.asarray(many), ndi.binary_dilation(x, iterations=200))
    v = total = bv.open(voxels((2, 3, 4), "f8", 1))
    for _ in range(1500):
        total = total + v
    np.testing.assert_allclose(np.asarray(total), 1501 * np.asarray(v), rtol=1e-10)
    scalar = bv.max(v)
    for _ in range(1500):
        scalar = scalar + 1
    assert float(scalar) == np.asarray(v).max() + 1500


OPERATIONS = {
    "gaussian": lambda v: bv.gaussian_filter(v, 1.5),
    "uniform": lambda v: bv.uniform_filter(v, 4),
    "median": lambda v: bv.median_filter(v, 3),
    "minimum": lambda v: bv.minimum_filter(v, 2),
    "footprint": lambda v: bv.maximum_filter(v, footprint=bv.ball(2)),
    "convolve": lambda v: bv.convolve(v, np.ones((3, 2, 1))),
    "sobel": bv.sobel,
    "magnitude": lambda v: bv.gaussian_gradient_magnitude(v, 1),
    "grey": lambda v: bv.grey_closing(v, structure=np.ones((3, 3, 3))),
    "binary": lambda v: bv.binary_opening(v > 1),
    "pointwise": lambda v: bv.sqrt(v) * 2 + 1,
    "overlap": lambda v: bv.map_overlap(lambda a: a, v, depth=1),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (0, 4, 5), (3, 0, 2), (3, 4, 0)])
def test_empty_volumes_and_one_voxel(name, shape, tmp_path):
    x = np.full(shape, 3, "f4")
    result = OPERATIONS[name](bv.open(x))
    assert result.shape == shape
    for mode in ("reflect", "mirror", "nearest", "constant"):
        np.asarray(bv.gaussian_filter(bv.open(x), 1, mode=mode))
    array = np.asarray(result)
    assert array.shape == shape and array.dtype == result.dtype
    written = bv.compute(result.to(tmp_path / "o.zarr"), runner=None, progress=False)
    assert_same(np.asarray(written).astype(result.dtype), array)
    if array.size:
        expected = {
            "sobel": 0, "magnitude": 0, "convolve": 18, "binary": 0, "grey": 3,
            "pointwise": np.float32(np.sqrt(np.float32(3)) * 2 + 1),
        }.get(name, 3)  # fmt: skip
        np.testing.assert_allclose(array, expected, rtol=1e-6)
