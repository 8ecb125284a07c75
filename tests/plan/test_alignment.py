"""Requested slabs that cost more than others: the plan reports them, and names better ones."""

import pickle
import re

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.base.text import format_bytes
from beam_volumes.plan.planner import make_plan
from beam_volumes.plan.run_options import RunOptions
from tests.plan.test_plan import lazy
from tests.tiers import few


def slow(plan):
    """The plan's note about badly cut slabs."""
    return plan.explain(verbose=True).partition("\n\nslow:\n")[2].splitlines()


def suggested(plan):
    """The better slab that is named, and the bytes that it would read, as text."""
    found = re.search(r"slab=\((\d+), (\d+), (\d+)\) would read (.+?) instead", slow(plan)[-1])
    return tuple(map(int, found.groups()[:3])), found[4]


OPERATIONS = {
    "label": bv.label,
    "edt": bv.distance_transform_edt,
    "gaussian": lambda mask: bv.gaussian_filter(mask, 2),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize(
    "slab", few([(97, 101, 131), (131, 524, 65), (1, 400, 400)], [(131, 524, 65)])
)
@pytest.mark.parametrize("chunks", [(16, 512, 512), (64, 64, 64)])
def test_the_slab_that_is_suggested_is_as_good_as_is_said(name, slab, chunks, tmp_path):
    v = lazy((524, 524, 524), chunks=chunks)
    target = OPERATIONS[name](v > 3).to(tmp_path / "o.zarr", chunks=slab)
    how = {"memory": "8GiB", "workers": 2, "threads": 2}
    plan = bv.plan(target, slab=slab, **how)
    if not slow(plan):  # what is written counts too
        free = bv.plan(target, **how)
        assert plan.bytes_read + plan.bytes_written <= 1.5 * (free.bytes_read + free.bytes_written)
        return
    other, read = suggested(plan)
    better = bv.plan(target, slab=other, **how)
    assert slow(better) == []
    assert format_bytes(better.bytes_read) == read
    moved = [p.bytes_read + p.bytes_written for p in (plan, better)]
    assert moved[0] > 1.5 / 1.25 * moved[1]
    assert better.predicted_memory <= better.memory


def test_what_is_paid_for_is_said_pass_by_pass(tmp_path):
    v = lazy((400, 400, 400), chunks=(16, 400, 400))
    target = bv.distance_transform_edt(v > 3).to(tmp_path / "o.zarr", chunks=(130, 130, 130))
    plan = bv.plan(target, slab=(130, 130, 130), memory="8GiB")
    # Along z the slabs of 130 see 9, 9, 9 and 1 of 25 layers; each column of 4 x 4 sees all of a layer.
    again = (9 + 9 + 9 + 1) * 16 / 25
    name = v.node.source.name
    assert [round(p.read_amplification, 2) for p in plan.passes[:2]] == [round(again, 2)] * 2
    assert slow(plan)[:2] == [
        f"  pass {k} reads {name} {again:.1f} times: its slabs of 130 x 130 x 130, with halos, cut through "
        "chunks of 16 x 400 x 400"
        for k in (1, 2)
    ]
    assert "the slabs need 4 passes instead of 2" in slow(plan)[2]
    assert slow(plan)[3].startswith("  slab=(130, 400, 400) would read 136.7 MiB instead of ")


def test_slabs_that_cost_nothing_are_not_spoken_of(tmp_path):
    v = lazy((524, 524, 524), chunks=(64, 64, 64))
    out = {"chunks": (64, 64, 64)}
    mask = v > 3
    for target, slab in (
        (mask.to(tmp_path / "o.zarr", **out), (64, 128, 192)),
        (bv.label(mask).to(tmp_path / "o.zarr", **out), (256, 256, 256)),
        (bv.distance_transform_edt(mask).to(tmp_path / "o.zarr", **out), (64, 524, 524)),
        (bv.gaussian_filter(mask, 1).to(tmp_path / "o.zarr", **out), None),
    ):
        assert slow(bv.plan(target, slab=slab, memory="8GiB")) == []
    # Arrays of this process are copied from as they lie.
    array = bv.open(np.zeros((30, 40, 50), "u1"))
    assert slow(bv.plan(bv.max(array), slab=(7, 9, 11))) == []
    # A plan that travelled has no targets to plan anew.
    plan = bv.plan(bv.max(v), slab=(7, 90, 110), memory="8GiB")
    assert slow(plan) and slow(pickle.loads(pickle.dumps(plan))) == []


def test_slabs_of_flat_volumes_are_given_as_they_were(tmp_path):
    v = lazy((1, 4000, 4000), chunks=(1, 1000, 1000))[0]
    plan = bv.plan(
        bv.gaussian_filter(v, 2).to(tmp_path / "o.zarr", chunks=(130, 130)), slab=(130, 130)
    )
    found = re.search(r"slab=\((\d+), (\d+)\) would read", slow(plan)[-1])
    better = bv.plan(
        bv.gaussian_filter(v, 2).to(tmp_path / "o.zarr", chunks=(130, 130)),
        slab=tuple(map(int, found.groups())),
    )
    assert better.bytes_read < plan.bytes_read / 1.5 and slow(better) == []


@pytest.mark.parametrize("turned", [False, True])
def test_of_arrays_in_memory_voxels_are_counted(turned):
    """Nothing is decoded: tiles cut through no chunks, and shared parts are read again."""
    array = np.zeros((30, 40, 50), "u2")
    v = bv.open(array)
    v = bv.transpose(v, (2, 0, 1)) if turned else v
    for slab in ((10, 20, 25), (7, 9, 11), None):
        plan = bv.plan(bv.max(v), slab=slab)
        assert plan.bytes_read == array.nbytes and plan.read_amplification == 1.0
        assert plan.passes[0].chunks_read == 0
        assert f"  reads {format_bytes(array.nbytes)} (1.00x); writes 0" in plan.explain(
            verbose=True
        )
    z, y, x = v.shape
    (p,) = bv.plan(bv.max(bv.maximum_filter(v, 3)), slab=(10, 20, x)).passes
    halos = 2 * (-(-z // 10) - 1), 2 * (-(-y // 20) - 1)
    assert p.bytes_read == 2 * (z + halos[0]) * (y + halos[1]) * x


def test_results_in_memory_that_are_read_back_are_explained_before_they_are_there():
    v = bv.median_filter(bv.open(np.zeros((30, 40, 50), "u1")), 3)
    plan = make_plan([v, bv.pad(v, 1)], RunOptions(in_memory_results=True, slab=(7, 9, 11)))
    assert "read back from the result in memory" in plan.explain(verbose=True)
