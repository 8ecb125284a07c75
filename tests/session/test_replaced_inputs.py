"""An input that is replaced while a run reads it ends the run: its results would be a mixture."""

import os

import imagecodecs
import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.session import merging
from beam_volumes.storage.places.extent import Extent
from beam_volumes.storage.sources import stamps
from beam_volumes.sweep.survey import Completion

VOXELS = np.arange(4 * 8 * 8, dtype="u2").reshape(4, 8, 8)
QUIET = {"runner": None, "progress": False, "slab": (1, 8, 8), "workers": 1}


def npy(path, voxels):
    np.save(path, voxels)
    return f"{path}.npy"


def zarr(path, voxels):
    bv.compute(
        bv.open(voxels).to(f"{path}.zarr", chunks=(1, 8, 8)),
        overwrite=True,
        progress=False,
        runner=None,
    )
    return f"{path}.zarr"


def slices(path, voxels):
    os.makedirs(path, exist_ok=True)
    for z, plane in enumerate(voxels):
        (path / f"s{z}.png").write_bytes(imagecodecs.png_encode(plane))
    return str(path)


@pytest.mark.parametrize("write", [npy, zarr, slices])
@pytest.mark.parametrize("out", [True, False], ids=["an output", "a number"])
def test_an_input_that_is_replaced_during_a_run_ends_it(tmp_path, write, out):
    path, other = write(tmp_path / "a", VOXELS), write(tmp_path / "b", VOXELS[::-1] + 1)
    calls = []

    def replacing(block):
        calls.append(None)
        if len(calls) == 2:
            os.rename(path, tmp_path / "before")
            os.rename(other, path)
        return block

    volume = bv.map_overlap(replacing, bv.open(path), dtype=VOXELS.dtype)
    target = volume.to(tmp_path / "out.zarr", chunks=(1, 8, 8)) if out else bv.sum(volume)
    with pytest.raises(ValueError, match=r"the input .*a.* has been replaced or changed"):
        bv.compute(target, **QUIET)
    if out:
        with pytest.raises(ValueError, match=r"cannot resume .* its input .*a"):
            bv.compute(target, **QUIET, resume=True)


def test_a_chunk_that_is_written_in_place_is_noticed(tmp_path):
    path = zarr(tmp_path / "a", VOXELS)
    then = stamps.stamps([Extent({"driver": "file", "path": path})])
    assert stamps.changed(then) is None
    chunk = tmp_path / "a.zarr" / "c" / "2" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes())
    assert stamps.changed(then) == str(chunk)


def test_files_that_are_no_part_of_an_input_may_change(tmp_path):
    path = slices(tmp_path / "a", VOXELS)
    (tmp_path / "a" / "log1.txt").write_text("a")
    then = stamps.stamps([Extent({"driver": "file", "path": path})])
    (tmp_path / "a" / "log1.txt").write_text("ab")
    (tmp_path / "a" / "notes").write_text("ab")
    assert len(then) == len(VOXELS)
    assert stamps.changed(then) is None


def test_every_pass_looks_whether_its_inputs_are_the_same(tmp_path, monkeypatch):
    looked = []
    check = merging.Session.check_inputs
    monkeypatch.setattr(merging.Session, "check_inputs", lambda s: looked.append(check(s)))
    volume = bv.open(npy(tmp_path / "a", VOXELS))
    found = bv.compute(
        (volume - bv.mean(volume)).to(tmp_path / "out.zarr", chunks=(1, 8, 8)), **QUIET
    )
    assert found.shape == VOXELS.shape
    assert len(looked) == 2


def completions(kind=Completion):
    """All classes of second sweeps."""
    for own in kind.__subclasses__():
        yield own
        yield from completions(own)


LABELS = np.arange(4 * 8 * 8, dtype="u2").reshape(4, 8, 8) % 5
TWO_SWEEPS = {
    "label": lambda v: bv.label(v > 2),
    "label by_value": lambda v: bv.label(v, by_value=True),
    "watershed": bv.watershed,
    "relabel_sequential": lambda v: bv.relabel_sequential(v)[0],
    "map_instances": lambda v: bv.map_instances(v, np.copy, (2, 8, 8), 0, name="c", version=1),
    "distance_transform_edt": lambda v: bv.distance_transform_edt(v > 2),
    "cumsum": lambda v: bv.cumsum(v, axis=0),
}


@pytest.mark.parametrize("way", TWO_SWEEPS)
def test_voxels_that_differ_in_the_second_sweep_end_the_run(way, monkeypatch):
    """Two neighbours change places: counts, sums, and the set of labels remain the same."""
    target, changed = TWO_SWEEPS[way](bv.open(LABELS)), []

    def swapped(voxels):
        at = np.argwhere(voxels[:, :, 1:] != voxels[:, :, :-1])
        if changed or not len(at):
            return voxels
        z, y, x = at[0]
        other = voxels.copy()
        other[z, y, x : x + 2] = voxels[z, y, x : x + 2][::-1]
        changed.append(way)
        return other

    def changing(begin):
        def begun(self, *args):
            completer = begin(self, *args)
            run = completer.run
            completer.run = lambda arrays, *how: run((swapped(arrays[0]), *arrays[1:]), *how)
            return completer

        return begun

    for kind in completions():
        if "begin" in vars(kind):
            monkeypatch.setattr(kind, "begin", changing(kind.begin))
    with pytest.raises(ValueError, match="first sweep"):
        bv.compute(target, **QUIET)
    assert changed == [way]
