"""Reads of slow stores, and their times: they do not end before the sweep allows it."""

import threading
from dataclasses import dataclass, field
from unittest import mock

import numpy as np
import pytest
import tensorstore as ts

import beam_volumes as bv
from beam_volumes.base.space import Space
from beam_volumes.drive.compute import plan_run
from beam_volumes.graph.nodes import SourceNode
from beam_volumes.graph.volume import Volume
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.storage.inputs.arrays import open_array
from beam_volumes.storage.places.context import waiting_context
from beam_volumes.storage.sources.source import Source
from beam_volumes.sweep import executor
from beam_volumes.sweep.schedule import OVERLAPS
from tests.waiting import PATIENCE


@dataclass(frozen=True, eq=False)
class Layers:
    """A volume of voxels with the numbers of their slices, in layers of chunks.

    Windows of the sweep need the first so many layers: ``counts``, in their order. What a window needs
    beyond the one before comes when that one is computed, and is computed when that was asked for.
    """

    shape: tuple[int, int, int]
    depth: int
    counts: list[int] = field(default_factory=list)
    asked: list[threading.Event] = field(default_factory=list)
    used: dict[int, threading.Event] = field(default_factory=dict)

    portable = False
    remote = True
    extents = ()

    def __post_init__(self):
        self.asked.extend(threading.Event() for _ in range(-(-self.shape[0] // self.depth)))
        self.used.update((count, threading.Event()) for count in self.counts)

    def open(self):
        layout = ts.ChunkLayout(chunk_shape=(self.depth, *self.shape[1:]))
        return ts.virtual_chunked(
            self.read,
            dtype=ts.uint16,
            shape=self.shape,
            chunk_layout=layout,
            context=waiting_context(),
        )

    def read(self, domain, out, _):
        z0, z1 = domain.inclusive_min[0], domain.exclusive_max[0]
        layer = z0 // self.depth
        self.asked[layer].set()
        before = [count for count in self.counts if count <= layer]
        if before and not self.used[before[-1]].wait(PATIENCE):
            raise OSError(f"layer {layer} is waited for where {before[-1]} layers would do")
        out[...] = np.arange(z0, z1)[:, None, None]

    def token(self):
        return f"layers {id(self)}"

    def volume(self):
        chunk = (self.depth, *self.shape[1:])
        space = Space(axes=("z", "y", "x"))
        source = Source("layers", self.shape, np.dtype("u2"), chunk, space, self)
        return Volume(SourceNode.of(source), space)

    def use(self, block):
        """What `map_overlap` calls while a window is computed."""
        have = int(block.max()) // self.depth + 1
        self.used[have].set()
        following = next((count for count in self.counts if count > have), have)
        for layer in range(have, following):
            if not self.asked[layer].wait(PATIENCE):
                raise OSError(f"layer {layer} is not asked for while {have} layers are used")
        return block


CASES = [
    # depth of a layer, window, halo
    (16, 8, 0),
    (16, 8, 1),
    (16, 2, 1),
    (16, 3, 9),
    (16, 16, 1),
    (5, 8, 2),
    (1, 4, 1),
    (64, 8, 1),
]


@pytest.mark.parametrize(("depth", "window", "halo"), CASES)
def test_the_next_layer_is_asked_for_while_a_window_is_computed(depth, window, halo):
    shape = (100, 4, 5)
    ends = [min(100, z + window + halo) for z in range(0, 100, window)]
    layers = Layers(shape, depth, sorted({-(-end // depth) for end in ends}))
    filtered = bv.map_overlap(
        layers.use, layers.volume(), dtype="u2", depth=(halo, 0, 0), mode="nearest"
    )
    how = {"slab": shape, "window": window, "threads": 1}
    assert "reading ahead" in bv.plan(filtered, **how).explain(verbose=True)
    found = bv.compute(filtered, runner=None, progress=False, **how)
    np.testing.assert_array_equal(found[:, 0, 0], np.arange(100))


def test_all_sources_are_asked_for_what_a_window_needs_before_any_is_read_ahead(monkeypatch):
    """A lane begins reads in their order: needed reads do not wait behind others."""
    shape, asked, real = (64, 4, 5), [], executor.read_into

    def noted(handle, box, out):
        asked.append((handle.chunk_layout.read_chunk.shape[0], box.start[0]))
        return real(handle, box, out)

    monkeypatch.setattr(executor, "read_into", noted)
    a, b, c = (Layers(shape, depth).volume() for depth in (1, 8, 16))
    how = {"slab": shape, "window": 8, "runner": None, "progress": False}
    found = bv.compute(bv.maximum_filter(a + b + c, (3, 1, 1)), **how)
    assert found[:-1, 0, 0].tolist() == [3 * z for z in range(1, 64)]
    assert {depth for depth, _ in asked[:3]} == {1, 8, 16} and not any(z for _, z in asked[:3])
    assert len(asked) > 3


def test_with_less_memory_less_is_read_ahead_and_the_plan_says_so(tmp_path):
    x = np.random.default_rng(0).integers(0, 255, (96, 64, 64), np.uint8)
    volume = bv.compute(bv.open(x).to(tmp_path / "in.zarr", chunks=(16, 64, 64)), runner=None)
    target = bv.maximum_filter(volume, 3).to(tmp_path / "out.zarr", chunks=(16, 64, 64))
    how = {"slab": x.shape, "window": 8, "workers": 1}
    expected = bv.maximum_filter(bv.open(x), 3)[:]
    memory, found = "4GiB", []
    for _ in OVERLAPS:
        plan = plan_run([target], RunOptions(memory=memory, runner=None, **how))
        (p,) = plan.passes
        found.append((p.partition.overlap, p.slab_memory))
        written = bv.compute(
            target, runner=None, progress=False, memory=memory, overwrite=True, **how
        )
        np.testing.assert_array_equal(np.asarray(written), np.asarray(expected))
        assert ("no room" in plan.explain(verbose=True)) == (p.partition.overlap != OVERLAPS[0])
        memory = plan.predicted_memory - 1
    assert [overlap for overlap, _ in found] == list(OVERLAPS)
    # The source's third layer with its rims, and a second unit of the output.
    memories = [memory for _, memory in found]
    assert (-np.diff(memories)).tolist() == [16 * 66 * 66, 16 * 64 * 64]
    with pytest.raises(ValueError, match=f"works is {plan.predicted_memory} bytes"):
        plan_run([target], RunOptions(memory=memory, runner=None, **how))


@pytest.mark.parametrize("threads", [1, 2])
def test_arrays_in_memory_are_copied_only_if_they_are_padded_or_have_another_layout(threads):
    a = np.random.default_rng(0).random((9, 12, 40), "f4")
    before, read_only = a.copy(), a.copy()
    read_only.flags.writeable = False
    swapped = a.astype(">f4")
    added = bv.open(a) + 1
    for volume, copies in (
        (added, False),
        (added[2:7], False),
        (added[:, 1:], True),
        (bv.gaussian_filter(bv.open(a), 1), True),
        (bv.open(read_only) + 1, True),
        (bv.open(swapped) + 1, True),
        (bv.open(a[:, :, ::2]) + 1, True),
    ):
        expected = np.asarray(volume)
        with mock.patch.object(executor, "copy", wraps=executor.copy) as copy:
            got = bv.compute(volume, runner=None, window=4, threads=threads)
        assert copy.called == copies
        assert got.tobytes() == expected.tobytes()
    assert a.tobytes() == before.tobytes()


@pytest.mark.parametrize("mixes", [None, "channels"])
def test_a_function_cannot_change_an_array_in_memory(mixes):
    a = np.random.default_rng(0).random((9, 12, 40), "f4")
    before = a.copy()

    def add_in_place(block):
        block.flags.writeable = True  # as compiled code does that ignores this flag
        block += 1
        return block

    v = bv.open(a)
    changed = bv.map_overlap(add_in_place, v, dtype="f4", mixes=mixes, deterministic=False)
    got = bv.compute(changed, runner=None, window=4, threads=1)
    assert a.tobytes() == before.tobytes()
    np.testing.assert_array_equal(got.reshape(a.shape), before + 1)


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_bytes_of_a_file_mapped_as_bool_are_true_if_they_are_not_zero(tmp_path, mode):
    np.array([0, 1, 2, 255] * 12, "u1").tofile(tmp_path / "mask.raw")
    mask = np.memmap(tmp_path / "mask.raw", bool, mode, shape=(2, 4, 6))
    v = bv.open(mask)
    assert v.sum().compute() == 36
    assert v.sum(2).compute().tolist() == mask.sum(2).tolist()
    same = bv.compute(v, runner=None)
    assert same.view("u1").tolist() == (mask.view("u1") != 0).astype("u1").tolist()
    assert open_array(mask).read().view("u1").tolist() == same.view("u1").tolist()
    wrapped = bv.pad(v, ((0, 0), (0, 0), (1, 0)), mode="wrap")
    expected = np.pad(same, ((0, 0), (0, 0), (1, 0)), mode="wrap")
    moved = bv.fuse([v], [np.eye(4)], order=0, blending="first")
    for volume, voxels in ((wrapped, expected), (moved, same)):
        found = bv.compute(volume, runner=None)
        assert found.view("u1").tolist() == voxels.view("u1").tolist()
    whole = bv.fuse([same.astype("u1")], [np.eye(4)], mask=[v])
    assert np.asarray(whole).tolist() == same.view("u1").tolist()
