"""Masks stay masks: bool is read back as bool; foreign masks are reported."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import zarr

import beam_volumes as bv
from beam_volumes.cli.main import main
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.session import masks
from beam_volumes.session.begin import begin
from beam_volumes.session.slabs import sweep_slab
from beam_volumes.storage.formats.registry import writable

IMAGE = np.random.default_rng(3).integers(0, 256, (9, 21, 33)).astype("u1")
MASK = IMAGE > 128
STORED = [
    ("a.zarr", {}),
    ("a.zarr", {"zarr_version": 2}),
    ("a.zarr", {"shards": True}),
    ("a.ome.zarr", {}),
    ("a.ome.zarr", {"ome_version": "0.4"}),
]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(masks, "_issued", set())
    with warnings.catch_warnings():
        warnings.simplefilter("error", bv.MaskWarning)
        yield


def written(path="a.zarr", voxels=MASK, **options):
    return bv.compute(bv.open(voxels).to(path, **options), runner=None)


# -- written as bool ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(writable()))
def test_every_format_gives_bool_back_or_says_that_it_has_none(name):
    suffix = next((s for s in writable()[name].suffixes if s.startswith(".")), "")
    path, options = f"a{suffix}", {} if suffix else {"format": name}
    try:
        target = bv.open(MASK).to(path, **options)
    except ValueError as e:
        assert "bool" in str(e)
        return
    back = bv.compute(target, runner=None)
    assert back.dtype == bool
    np.testing.assert_array_equal(np.asarray(back), MASK)
    opening = {"shape": MASK.shape, "dtype": "bool"} if name == "raw" else {}
    opened = bv.open(path, **opening)
    assert opened.dtype == bool
    np.testing.assert_array_equal(np.asarray(~opened), ~MASK)
    assert bv.verify(path, checksums=True) == []


@pytest.mark.parametrize(("path", "options"), STORED)
def test_a_mask_comes_back_as_bool(path, options):
    returned, opened = written(path, **options), bv.open(path)
    for mask in (returned, opened):
        assert mask.dtype == bool
        np.testing.assert_array_equal(np.asarray(mask), MASK)
        np.testing.assert_array_equal(np.asarray(~mask), ~MASK)
        np.testing.assert_array_equal(np.asarray(mask[2:5, 3:, 7:30]), MASK[2:5, 3:, 7:30])
        np.testing.assert_array_equal(np.asarray(bv.flip(mask, 0)), MASK[::-1])
    assert bv.verify(path, checksums=True) == []
    part = path if path == "a.zarr" else f"{path}/0"
    foreign = zarr.open_array(part, mode="r")
    assert foreign.dtype == np.uint8
    np.testing.assert_array_equal(foreign[:], MASK.astype("u1"))
    assert bv.open(part).dtype == bool


@pytest.mark.parametrize(
    "name", sorted(n for n, f in writable().items() if f.name in ("zarr", "ome-zarr"))
)
def test_bytes_stay_bytes(name):
    written(f"a{writable()[name].suffixes[0]}", MASK.astype("u1"))
    assert bv.open(f"a{writable()[name].suffixes[0]}").dtype == np.uint8
    bv.compute(bv.open(MASK).to("b.zarr", dtype="u1"), runner=None)
    assert bv.open("b.zarr").dtype == np.uint8
    written("c.zarr", MASK[0])
    assert bv.open("c.zarr").dtype == bool
    assert bv.open("c.zarr").axes == ("y", "x")


@pytest.mark.parametrize("path", ["a.zarr", "a.ome.zarr"])
@pytest.mark.parametrize("together", [False, True])
def test_masks_with_channels(path, together):
    array = np.stack([MASK, ~MASK, IMAGE > 40])
    masks = bv.stack([bv.open(m) for m in array], names=["a", "b", "c"])
    options = {"chunks": (3, 3, 21, 33)} if together else {}
    bv.compute(masks.to(path, **options), runner=None)
    back = bv.open(path)
    assert back.dtype == bool
    np.testing.assert_array_equal(np.asarray(back), array)
    np.testing.assert_array_equal(np.asarray(~back.sel(c="b")), MASK)
    np.testing.assert_array_equal(np.asarray(back[0] & back[2]), MASK & (IMAGE > 40))
    assert bv.verify(path, checksums=True) == []


def test_what_comes_back_in_memory_is_bool():
    found = bv.compute(bv.open(IMAGE) > 128, runner=None)
    assert found.dtype == bool
    np.testing.assert_array_equal(found, MASK)
    one, other = bv.compute(bv.open(IMAGE) > 128, (bv.open(IMAGE) > 128).to("a.zarr"), runner=None)
    assert one.dtype == other.dtype == bool


def test_the_background_of_a_mask_that_was_written_is_labelled():
    cells = np.zeros((6, 20, 20), bool)
    cells[1:3, 2:5, 2:5] = cells[3:5, 10:15, 8:17] = True
    written("membranes.ome.zarr", ~cells)
    assert int(bv.label(~bv.open("membranes.ome.zarr")).num_labels) == 2
    kept = bv.remove_small_objects(~bv.open("membranes.ome.zarr"), max_size=18)
    assert int(bv.sum(kept)) == cells[3:5].sum()


def test_a_mask_that_a_later_pass_reads_back_is_bool():
    v = bv.open(IMAGE)
    mask = bv.median_filter(v, 3) > bv.threshold_otsu(v)
    labels = bv.label(mask)
    targets = mask.to("mask.zarr", codec=None), labels.to("labels.zarr"), bv.sum(~mask)
    written_mask, _, rest = bv.compute(*targets, runner=None)
    assert written_mask.dtype == bool
    assert int(rest) == MASK.size - int(bv.sum(written_mask))


def test_a_resumed_run_writes_a_mask():
    target = (bv.open(IMAGE) > 128).to("a.zarr", chunks=(3, 21, 33))
    asked = RunOptions(slab=(3, 21, 33))
    from beam_volumes.plan.planner import make_plan

    session = begin(make_plan([target], asked), asked)
    session.prepare()
    sweep_slab(session, 0, 1, {}, {})
    again = bv.compute(
        (bv.open(IMAGE) > 128).to("a.zarr", chunks=(3, 21, 33)),
        runner=None,
        slab=(3, 21, 33),
        resume=True,
    )
    assert again.dtype == bool
    np.testing.assert_array_equal(np.asarray(bv.open("a.zarr")), MASK)
    assert bv.verify("a.zarr", checksums=True) == []


def test_what_is_not_0_in_a_marked_array_is_true_and_verify_finds_it():
    written("a.zarr", codec=None)
    zarr.open_array("a.zarr")[0, 0, :3] = 255
    assert np.asarray(bv.open("a.zarr"))[0, 0, :3].all()
    assert "checksum" in bv.verify("a.zarr", checksums=True)[0]


@pytest.mark.parametrize("mark", [False, 1, "yes", None, [True]])
def test_only_the_mark_marks(mark):
    written("a.zarr", MASK.astype("u1"))
    meta = json.loads(Path("a.zarr/zarr.json").read_text())
    meta["attributes"]["beam_volumes"]["mask"] = mark
    Path("a.zarr/zarr.json").write_text(json.dumps(meta))
    assert bv.open("a.zarr").dtype == np.uint8
    written("b.zarr", IMAGE.astype("f4"))
    meta = json.loads(Path("b.zarr/zarr.json").read_text())
    meta["attributes"]["beam_volumes"]["mask"] = True
    Path("b.zarr/zarr.json").write_text(json.dumps(meta))
    assert bv.open("b.zarr").dtype == np.float32


# -- foreign masks -----------------------------------------------------------------------------------


def foreign(true, first_is_empty=False):
    array = zarr.create_array("foreign.zarr", shape=MASK.shape, chunks=(3, 21, 33), dtype="u1")
    array[:] = np.where(MASK, true, 0)
    if first_is_empty:
        array[:3] = 0
    return bv.open("foreign.zarr")


@pytest.mark.parametrize("true", [1, 255])
@pytest.mark.parametrize("first_is_empty", [False, True])
@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("~", lambda v: bv.label(~v)),
        ("~", lambda v: ~v[1:, 2:]),
        ("~", lambda v: bv.mean(~v)),
        ("remove_small_objects", bv.remove_small_objects),
        ("keep_largest", bv.keep_largest),
    ],
)
def test_foreign_masks_are_told_of_once(name, use, true, first_is_empty):
    v = foreign(true, first_is_empty)
    with pytest.warns(
        bv.MaskWarning, match=rf"foreign.zarr .*0 and {true} .*{name} .*use v != 0"
    ) as told:
        bv.compute(use(v), runner=None)
        bv.compute(use(v), runner=None)
    assert len(told) == 1
    assert told[0].filename == __file__
    bv.compute(use(v != 0), runner=None)


def test_channels_of_one_file_are_told_of_once():
    array = zarr.create_array("c.zarr", shape=(3, *MASK.shape), chunks=(1, 3, 21, 33), dtype="u1")
    array[:] = np.stack([MASK] * 3)
    with pytest.warns(bv.MaskWarning, match=r"c\.zarr") as told:
        bv.compute(~bv.open("c.zarr"), runner=None)
    assert len(told) == 1


def test_the_command_tells_of_them_in_a_line(capsys):
    foreign(1)
    recipe = {"input": "foreign.zarr", "steps": {"rest": "invert"}, "output": "rest.zarr"}
    Path("recipe.yaml").write_text(json.dumps(recipe))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["run", "recipe.yaml", "--runner", "none", "--quiet"]) == 0
    (line,) = [t for t in capsys.readouterr().err.splitlines() if "warning" in t]
    assert line.startswith("beam-volumes: warning: ")
    assert "looks like a mask" in line


def test_nothing_is_read_to_plan_and_nothing_told():
    v = foreign(1)
    bv.plan(~v).explain(verbose=True)


@pytest.mark.parametrize(
    "voxels",
    [IMAGE, np.zeros_like(IMAGE), np.full_like(IMAGE, 1), np.where(MASK, 1, 0).astype("u2"), MASK],
)
def test_what_looks_like_no_mask_is_not_told_of(voxels):
    v = bv.open(voxels)
    bv.compute(~v, bv.keep_largest(v), runner=None)


def test_right_uses_are_not_told_of():
    v = foreign(1)
    bv.compute(bv.label(v), bv.binary_erosion(v), np.logical_not(v), 1 - v, runner=None)


def test_large_chunks_and_files_that_are_gone_are_left_to_the_run():
    v = bv.open(np.tile(MASK.astype("u1"), (1, 100, 100)))
    source = v.node.source
    assert masks.looks_like_mask(source) == 1
    written("gone.zarr", MASK.astype("u1"))
    gone = bv.open("gone.zarr")
    for file in Path("gone.zarr").rglob("c/*/*/*"):
        file.write_bytes(b"no chunk")
    with pytest.raises(OSError, match=r"gone\.zarr"):
        bv.compute(~gone, runner=None)


# -- numpy's masked arrays ---------------------------------------------------------------------------

HIDDEN = np.ma.masked_array(IMAGE, MASK)


@pytest.mark.parametrize(
    "use",
    [
        bv.open,
        bv.label,
        lambda m: bv.open(IMAGE) + m,
        lambda m: np.maximum(bv.open(IMAGE), m),
        lambda m: bv.open(IMAGE) > np.ma.masked,
        lambda m: bv.where(bv.open(MASK), m, 0),
        lambda m: bv.where(bv.open(MASK), 0, np.ma.masked),
        lambda m: bv.mean(bv.open(IMAGE), mask=m),
        lambda m: bv.median_filter(bv.open(IMAGE), footprint=m[:3, :3, :3]),
        lambda m: bv.convolve(bv.open(IMAGE), m[:3, :3, :3]),
        lambda m: bv.binary_erosion(bv.open(MASK), m[:3, :3, :3]),
    ],
)
def test_masked_arrays_are_refused(use):
    with pytest.raises(TypeError, match=r"masked .* fill it"):
        use(HIDDEN)


def test_bytes_of_an_array_that_are_viewed_as_bool_are_true_if_nonzero():
    odd = np.array([[[0, 255, 2, 1], [0, 0, 7, 1]]], "u1").view(bool)
    for array in (odd, odd[..., ::-1], np.broadcast_to(odd, (3, 2, 4))):
        expected = array.view("u1") != 0
        for function in (bv.count_nonzero, bv.sum, bv.mean):
            assert float(function(array)) == float(function(expected))
        assert np.asarray(bv.open(array)).view("u1").max() == 1
        assert int(bv.regionprops_table(expected.astype("u1"), array)["intensity_sum"][0]) == int(
            np.count_nonzero(expected)
        )
