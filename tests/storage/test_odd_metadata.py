"""Metadata that other programs have written, or damaged: told of by name, and opened where they can be."""

import copy
import json

import numpy as np
import pytest

import beam_volumes as bv

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
    told = 0
    for path in places_in(good):
        if not path or (key == "zarr.json" and path[0] != "attributes"):
            continue
        for odd in (*ODD, "without"):
            document = copy.deepcopy(good)
            at = document
            for k in path[:-1]:
                at = at[k]
            at[path[-1]] = odd
            if odd == "without":
                del at[path[-1]]
            file.write_text(json.dumps(document))
            try:
                assert bv.open(tmp_path / name).shape == (2, 5, 6)
            except (ValueError, OSError) as error:  # not a KeyError, TypeError, AttributeError, ...
                assert name in str(error)
                told += 1
    assert told > 20


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
    with pytest.raises(ValueError, match=f"g.ome.zarr: its OME metadata .* {says}"):
        bv.open(tmp_path / "g.ome.zarr")
    assert bv.open(tmp_path / "g.ome.zarr" / "0").shape == (2, 5, 6)
