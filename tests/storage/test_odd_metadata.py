"""Odd or damaged metadata of other programs: reported by name, and opened where possible."""

import copy
import json

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.cli.main import main

#: What may stand in other programs' metadata.
ODD = [
    None,
    5,
    -1,
    True,
    "x",
    "",
    [],
    [1],
    {},
    {"a": 1},
    [None],
    [{}],
    ["z", "y", "x"],
    float("nan"),
]


def places_in(document, path=()):
    """Everything that a JSON document holds, by the keys that lead there."""
    yield path
    items = {}
    if isinstance(document, dict | list):
        items = document if isinstance(document, dict) else dict(enumerate(document))
    for key, value in items.items():
        yield from places_in(value, (*path, key))


def refusals(file, document, places, odds, opening, named):
    """Write a JSON document with each odd value at each place, and count the errors of opening it."""
    refused = 0
    for *before, last in places:
        for odd in odds:
            changed = copy.deepcopy(document)
            at = changed
            for key in before:
                at = at[key]
            at[last] = odd
            if odd == "without":
                del at[last]
            file.write_text(json.dumps(changed))
            try:
                opening()
            except (ValueError, OSError) as error:  # not a KeyError, TypeError, AttributeError, ...
                assert named in str(error) and "\n" not in str(error), error
                refused += 1
    file.write_text(json.dumps(document))
    return refused


@pytest.mark.parametrize(
    ("name", "how", "key"),
    [
        ("a.zarr", {}, "zarr.json"),
        ("g.ome.zarr", {}, "zarr.json"),
        ("g.ome.zarr", {"ome_version": "0.4"}, ".zattrs"),
    ],
)
def test_odd_metadata_are_told_of_by_name(tmp_path, name, how, key):
    volume = bv.open(np.zeros((2, 5, 6), "u1"), voxel_size=(4, 2, 2), unit="nm")
    bv.compute(volume.to(tmp_path / name, **how), runner=None, progress=False, keep_journal=False)
    file = tmp_path / name / key
    good = json.loads(file.read_text())
    places = [p for p in places_in(good) if p and (key != "zarr.json" or p[0] == "attributes")]

    def opening():
        assert bv.open(tmp_path / name).shape == (2, 5, 6)

    assert refusals(file, good, places, (*ODD, "without"), opening, name) > 20


@pytest.mark.parametrize(
    "step", [{"type": "translation", "path": "t"}, {"type": "rotation", "rotation": [0, 1, 1, 0]}]
)
def test_transformations_without_numbers_are_refused(tmp_path, step):
    """They would move or turn the image."""
    volume = bv.open(np.zeros((5, 6), "u1"), voxel_size=2, unit="nm")
    bv.compute(volume.to(tmp_path / "a.ome.zarr"), runner=None)
    file = tmp_path / "a.ome.zarr" / "zarr.json"
    document = json.loads(file.read_text())
    steps = document["attributes"]["ome"]["multiscales"][0]["datasets"][0][
        "coordinateTransformations"
    ]
    steps.append({"type": "identity"})
    file.write_text(json.dumps(document))
    assert bv.open(tmp_path / "a.ome.zarr").voxel_size == (2, 2)
    steps.append(step)
    file.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=r"the .* at .* is not supported"):
        bv.open(tmp_path / "a.ome.zarr")
    assert bv.open(tmp_path / "a.ome.zarr" / "0").shape == (5, 6)


@pytest.mark.parametrize(
    ("axes", "says"),
    [
        ([{"type": "space"}] * 3, r"axes\[0\].name is missing"),
        ([{"name": "z"}, {"name": "y"}, {"name": ["x"]}], r"axes\[2\].name is \['x'\]"),
        ([7, 8, 9], r"axes\[0\] is 7, not an object"),
        ("zyx", "axes is 'zyx', not a list"),
    ],
)
def test_an_axis_without_a_name(tmp_path, axes, says):
    volume = bv.open(np.zeros((2, 5, 6), "u1"))
    bv.compute(volume.to(tmp_path / "g.ome.zarr"), runner=None, progress=False)
    file = tmp_path / "g.ome.zarr" / "zarr.json"
    document = json.loads(file.read_text())
    document["attributes"]["ome"]["multiscales"][0]["axes"] = axes
    file.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=f"g.ome.zarr has invalid OME metadata: {says}"):
        bv.open(tmp_path / "g.ome.zarr")
    assert bv.open(tmp_path / "g.ome.zarr" / "0").shape == (2, 5, 6)


@pytest.mark.parametrize("name", ["a.zarr", "a.ome.zarr", "a.n5", "a.png"])
def test_metadata_that_are_nested_without_end(tmp_path, name, capsys):
    path = tmp_path / name
    how = {"format": "png"} if name == "a.png" else {}
    bv.compute(bv.open(np.zeros((2, 5, 6), "u1")).to(path, **how), runner=None, progress=False)
    for file in [*path.rglob("*.json"), *path.rglob("info"), *path.rglob(".beam_volumes*")]:
        if file.is_file():
            file.write_text('{"a":' * 100_000)
    assert main(["info", str(path)]) in (0, 2)
    told = capsys.readouterr()
    assert "nested too deeply" in told.err or (name == "a.png" and "5 x 6" in told.out)


@pytest.mark.parametrize(
    ("name", "key", "text", "twice"),
    [
        ("a.zarr", "zarr.json", '"shape": [2, 5, 6]', '"shape": [1, 5, 6], "shape": [2, 5, 6]'),
        (
            "a.n5",
            "attributes.json",
            '"dataType": "uint8"',
            '"dataType": "int8", "dataType": "uint8"',
        ),
        ("a.ome.zarr", "zarr.json", '"version": "0.5"', '"version": "0.4", "version": "0.5"'),
    ],
)
def test_a_key_that_is_twice_in_metadata_is_refused(tmp_path, name, key, text, twice):
    bv.compute(bv.open(np.zeros((2, 5, 6), "u1")).to(tmp_path / name), runner=None, progress=False)
    file = tmp_path / name / key
    document = json.dumps(json.loads(file.read_text()))
    assert document.count(text) == 1
    file.write_text(document.replace(text, twice))
    with pytest.raises((ValueError, OSError), match=f"{name}.*it has the key .* twice"):
        bv.open(tmp_path / name)


def test_a_manifest_that_is_nested_without_end(tmp_path, capsys):
    bv.compute(
        bv.open(np.zeros((2, 5, 6), "u1")).to(tmp_path / "a.zarr"), runner=None, progress=False
    )
    (tmp_path / "a.zarr.run" / "manifest.json").write_text("[" * 100_000)
    for verb in ("verify", "info"):
        assert main([verb, str(tmp_path / "a.zarr.run")]) == 2
        assert "nested too deeply" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error", [ValueError("what"), NotImplementedError("what"), KeyError("what")]
)
def test_errors_of_tifffile_name_the_file(tmp_path, monkeypatch, error):
    import tifffile

    tifffile.imwrite(tmp_path / "odd.tif", np.zeros((4, 5), "u1"))

    def raising(*_, **__):
        raise error

    monkeypatch.setattr(tifffile.TiffFile, "series", property(raising))
    with pytest.raises((ValueError, OSError), match=r"odd\.tif.*what"):
        bv.open(tmp_path / "odd.tif")


def test_a_busy_machine_does_not_make_a_file_damaged(monkeypatch):
    """A process that waits for its turn is waited for; one that computes without end is not."""
    pytest.importorskip("h5py")
    from beam_volumes.storage.formats.hdf5 import trial

    class Other:
        stdout = stdin = None
        pid = 0

    spent, looks = [0.0], []
    monkeypatch.setattr(trial, "_seconds_of", lambda other: spent[0])

    def select(*_):
        looks.append(1)
        spent[0] += 0.5 * is_busy_itself
        return [len(looks) > 100], [], []

    Other.stdout = type("Pipe", (), {"readline": lambda self: b"done\n"})()
    monkeypatch.setattr(trial.select, "select", lambda *a: [[1] if select()[0][0] else [], [], []])
    is_busy_itself = False
    assert trial._line(Other()) == b"done\n"  # after 100 s
    looks.clear()
    is_busy_itself = True
    assert trial._line(Other()) is None and len(looks) < 60
