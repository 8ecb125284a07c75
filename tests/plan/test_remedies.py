"""Refused plans: every remedy that an error offers is followed, and works."""

import re

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.ops.labels.surveys import label_surveys
from beam_volumes.plan.fit.advice import PlanRefused
from beam_volumes.plan.planner import make_plan
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.storage.formats import format as formats
from tests.plan.test_plan import lazy


def planned(*targets, **options):
    """A plan with options that only runs have, such as the memory of a process."""
    return make_plan(list(targets), RunOptions(**options))


#: Bytes of a process, independent of this one.
BASE = 200 << 20


def follow(targets, options, least):
    """Plan a request that is refused, and follow each remedy of its error."""
    with pytest.raises(PlanRefused) as refused:
        planned(*targets, **options, base=BASE)
    error = refused.value
    assert len(error.remedies) >= least
    for remedy in error.remedies:
        assert str(next(iter(remedy.options.values()))) in str(error)
        changed = [
            t.stored_as(**remedy.options) if remedy.output == t.sink.name else t for t in targets
        ]
        planned(
            *changed, **(options if remedy.output else {**options, **remedy.options}), base=BASE
        )
    return str(error)


def smooth(v, **storage):
    return [bv.gaussian_filter(v, 2).to("smooth.zarr", **storage)]


def mask(v, **storage):
    return [(v > 128).to("mask.zarr", **storage)]


def both(v, **storage):
    return [*smooth(v, **storage), *mask(v, chunks=(64, 100, 100))]


CUBE, FILM, HUGE = (500, 2000, 2000), (4, 100, 300, 300), (29696, 237568, 237568)

#: The volume, its targets, options of the run, and the number of remedies at least.
REFUSED = {
    "little memory": (CUBE, smooth(lazy(CUBE)), {"memory": "150MiB", "workers": 1}, 1),
    "many slabs": (
        CUBE,
        smooth(lazy(CUBE), chunks=(64, 512, 512)),
        {"memory": "600MiB", "workers": 8},
        2,
    ),
    "large chunks": (
        CUBE,
        smooth(lazy(CUBE), chunks=(128, 1024, 1024)),
        {"memory": "1GiB", "workers": 2},
        2,
    ),
    "large shards": (
        CUBE,
        smooth(lazy(CUBE), chunks=(32, 128, 128), shards=(256, 1024, 1024)),
        {"memory": "1GiB", "workers": 1},
        2,
    ),
    "labels": (
        CUBE,
        [bv.label(lazy(CUBE) > 1).to("o.zarr")],
        {"memory": "230MiB", "workers": 2},
        1,
    ),
    "slabs that cut chunks": (
        CUBE,
        smooth(lazy(CUBE), chunks=(16, 512, 512)),
        {"slab": (32, 640, 2000)},
        2,
    ),
    "slabs that cut shards": (
        CUBE,
        smooth(lazy(CUBE), chunks=(16, 64, 64), shards=(32, 512, 512)),
        {"slab": (32, 640, 640)},
        3,
    ),
    "slabs that cut one of two": (
        CUBE,
        both(lazy(CUBE), chunks=(64, 64, 64)),
        {"slab": (64, 128, 128)},
        1,
    ),
    "a plane": (
        (1, 900, 900),
        mask(lazy((1, 900, 900))[0], chunks=(400, 400)),
        {"slab": (300, 300)},
        2,
    ),
}


@pytest.mark.parametrize("way", REFUSED)
def test_every_remedy_of_a_refused_plan_works(way):
    _, targets, options, least = REFUSED[way]
    text = follow(targets, options, least)
    assert "workers" not in text or options["workers"] > 1


def test_automatic_shards_do_not_make_a_distance_transform_impossible():
    v = lazy((5000, 34944, 49920), chunks=(16, 128, 128))
    how = {"memory": "48GiB", "threads": 16, "workers": 4}
    target = bv.distance_transform_edt(v > 128).to("o.zarr", chunks=(16, 128, 128))
    assert target.sink.shard == (16, 2048, 2048)
    plan = planned(target, **how)
    assert plan.predicted_memory <= plan.memory
    (sink,) = plan.results
    assert sink.shard[1] < 2048 and sink.chunk == target.sink.chunk
    assert any("instead of 16 x 2048 x 2048" in reason for reason in plan.reasons)
    # A run is continued with other memory: the request is the same.
    assert plan.fingerprint == planned(target, **{**how, "memory": "1TiB"}).fingerprint
    explicit = bv.distance_transform_edt(v > 128).to(
        "o.zarr", chunks=(16, 128, 128), shards=(16, 2048, 2048)
    )
    follow([explicit], how, 2)


@pytest.mark.parametrize("chunks", [(64, 256, 256), (64, 512, 512)])
def test_automatic_shards_divide_the_slabs_of_the_user(chunks):
    target = (lazy(HUGE, chunks=(64, 256, 256)) > 128).to("x.zarr", chunks=chunks)
    (sink,) = planned(target, memory="8GiB", slab=(64, 512, 512)).results
    assert sink.unit == (64, 512, 512)


def test_a_run_with_smaller_shards_is_resumed_with_other_slabs(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "MAX_OBJECTS", 3)
    array = np.random.default_rng(0).integers(0, 255, (40, 300, 300), "u1")

    source = bv.compute(bv.open(array).to(tmp_path / "in.zarr", shards=False), progress=False)

    def target(**storage):
        return (source + 1).to(tmp_path / "o.zarr", chunks=(16, 64, 64), **storage)

    assert target().sink.shard == (16, 320, 320)
    run = {"runner": None, "progress": False, "journal": tmp_path / "o.run"}
    found = bv.compute(target(), slab=(16, 128, 300), **run)
    np.testing.assert_array_equal(np.asarray(found), array + 1)
    np.testing.assert_array_equal(bv.compute(target(), resume=True, **run), array + 1)
    with pytest.raises(ValueError, match="differs in output"):
        bv.compute(target(shards=False), resume=True, **run)


@pytest.mark.parametrize("way", ["more memory", "smaller slabs"])
def test_remedies_of_a_slab_with_too_many_rows(way, tmp_path, monkeypatch):
    """The run can be resumed with more memory, or started anew with slabs of whole write units."""
    labels = np.arange(1, 1 + 12 * 8 * 8, dtype="u4").reshape(12, 8, 8)
    kept = bv.remove_small_objects(bv.open(labels), 0).to(tmp_path / "kept.zarr", chunks=(4, 8, 8))
    how = {"runner": None, "progress": False, "memory": "1GiB"}
    begin = label_surveys.UniqueSurvey.begin
    with monkeypatch.context() as patch:
        patch.setattr(
            label_surveys.UniqueSurvey, "begin", lambda s, g, i, v, limit: begin(s, g, i, v, 999)
        )
        with pytest.raises(ValueError, match=r"rows of a slab take more .* resumed") as refused:
            bv.compute(kept, slab=(12, 8, 8), **how)
    named = re.search(r"start it anew with slab=\((\d+), (\d+), (\d+)\)$", str(refused.value))
    slab = tuple(map(int, named.groups()))
    assert slab == (4, 8, 8)
    again = {"resume": True} if way == "more memory" else {"overwrite": True, "slab": slab}
    bv.compute(kept, **{**how, "memory": "2GiB"}, **again)
    np.testing.assert_array_equal(np.asarray(bv.open(tmp_path / "kept.zarr")), labels)
