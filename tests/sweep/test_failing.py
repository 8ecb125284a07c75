"""A sweep that fails is left only when nothing writes into its rings any more."""

import threading

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.sweep import executor, writing
from beam_volumes.sweep.resources import _WORTHWHILE, in_strips
from tests.waiting import PATIENCE

#: What should not happen has so many seconds to happen in.
SOON = 0.5


@pytest.mark.parametrize("failing", [0, 1, 3])
def test_a_strip_that_fails_waits_for_the_slow_ones(failing):
    order, slow, left = [], threading.Event(), threading.Event()

    def work(y0, y1):
        if y0 == failing:
            assert slow.wait(PATIENCE)
            raise KeyError("failed")
        slow.set()
        left.wait(SOON)
        order.append("ended")

    with pytest.raises(KeyError, match="failed"):
        in_strips(4, 4 * _WORTHWHILE, 4, work)
    order.append("left")
    left.set()
    assert order == ["ended"] * 3 + ["left"]


class Watched:
    """A transfer, and whether it was waited for."""

    def __init__(self, transfer):
        self.transfer, self.waited = transfer, False

    def result(self):
        self.transfer.result()
        self.waited = True


@pytest.mark.parametrize("failing", [3, 11, 40, 63])
def test_a_stage_that_fails_waits_for_reads_and_writes_under_way(tmp_path, monkeypatch, failing):
    """With slow strips of the stage, which go on writing, and with the error of the stage."""
    x = np.arange(64, dtype="u2")[:, None, None] + np.zeros((64, 48, 512), "u2")
    volume = bv.compute(bv.open(x).to(tmp_path / "in.zarr", chunks=(8, 48, 512)), runner=None)
    begun = []
    for module, name in ((executor, "read_into"), (writing, "write_units")):
        real = getattr(module, name)

        def watched(*what, real=real):
            begun.append(Watched(real(*what)))
            return begun[-1]

        monkeypatch.setattr(module, name, watched)
    order, slow, left = [], threading.Lock(), threading.Event()
    broken = True

    def work(block):
        if broken and block.max() >= failing:
            if slow.acquire(blocking=False):
                left.wait(SOON)
                order.append("ended")
            else:
                raise KeyError("failed")
        return block

    stage = bv.map_overlap(work, volume, depth=(1, 0, 0), mode="nearest", name="mine", version=1)
    how = {"runner": None, "progress": False, "threads": 3, "window": 4, "overwrite": True}
    target = stage.to(tmp_path / "out.zarr", chunks=(8, 48, 512))
    with pytest.raises(RuntimeError, match=r"mine, slices .*failed"):
        bv.compute(target, slab=x.shape, **how)
    order.append("left")
    left.set()
    assert order == ["ended", "left"]
    assert begun and all(transfer.waited for transfer in begun)
    # Its memory serves the next sweep.
    broken = False
    np.testing.assert_array_equal(np.asarray(bv.compute(target, slab=x.shape, **how)), x)


def test_a_read_that_fails_ahead_is_told_where_it_is_needed(tmp_path, monkeypatch):
    x = np.random.default_rng(0).integers(1, 255, (48, 16, 16), np.uint8)
    volume = bv.compute(
        bv.open(x).to(tmp_path / "in.zarr", chunks=(8, 16, 16), codec=None), runner=None
    )
    (tmp_path / "in.zarr" / "c" / "3" / "0" / "0").write_bytes(b"short")
    seen = []

    def work(block):
        seen.append(int(block.shape[0]))
        return block

    stage = bv.map_overlap(work, volume, dtype=volume.dtype, name="mine", version=1)
    with pytest.raises(OSError, match=r"slices 24 to 31"):
        bv.compute(stage, runner=None, progress=False, threads=1, window=4, slab=x.shape)
    assert sum(seen) == 24
