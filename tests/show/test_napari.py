"""napari's reader, by what napari does with it: it is not imported."""

from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest
import yaml

import beam_volumes as bv
from beam_volumes.show.napari_reader import Planes, get_reader, layers
from tests.show.test_preview import pyramid


def test_the_manifest_names_what_is_there():
    manifest = yaml.safe_load((Path(bv.__file__).parent / "napari.yaml").read_text())
    (command,) = manifest["contributions"]["commands"]
    module, _, name = command["python_name"].partition(":")
    assert getattr(import_module(module), name) is get_reader
    (reader,) = manifest["contributions"]["readers"]
    assert reader["command"] == command["id"] == f"{manifest['name']}.get_reader"


def test_npe2_takes_the_manifest_and_finds_the_reader(tmp_path):
    """As napari does it: the entry point, the manifest, the reader for a path."""
    npe2 = pytest.importorskip("npe2")
    place = Path(bv.__file__).parent / "napari.yaml"
    (entry,) = entry_points(group="napari.manifest", name="beam-volumes")
    assert entry.value == "beam_volumes:napari.yaml"
    manifest = npe2.PluginManifest.from_file(place)
    manifest.validate_imports()
    manager = npe2.PluginManager()
    manager.register(manifest)
    manager.activate(manifest.name)
    np.save(tmp_path / "em.npy", np.ones((3, 4, 5), "u1"))
    (found,) = manager.iter_compatible_readers([str(tmp_path / "em.npy")])
    assert found.command == "beam-volumes.get_reader" and found.accepts_directories
    paths = [str(tmp_path / "em.npy")]
    read = found.exec(kwargs={"path": paths, "stack": False}, _registry=manager.commands)
    ((planes, about, kind),) = read(paths, stack=False)
    assert planes.shape == (3, 4, 5) and about["name"] == "em.npy" and kind == "image"


def test_a_path_becomes_layers(tmp_path):
    assert get_reader(str(tmp_path / "nothing.zarr")) is None
    (tmp_path / "notes.npy").write_text("no array")
    assert get_reader(str(tmp_path / "notes.npy")) is None
    name = pyramid(tmp_path)
    ((levels, about, kind),) = get_reader(name)(name)
    assert kind == "image" and [x.shape for x in levels] == [
        (64, 640 >> k, 640 >> k) for k in range(3)
    ]
    assert [np.unique(x[3]).tolist() for x in levels] == [[1], [2], [3]]
    assert about["scale"] == [1, 1, 1] and about["contrast_limits"][0] < about["contrast_limits"][1]


def test_channels_labels_and_time():
    rng = np.random.default_rng(0)
    voxels = rng.integers(0, 9, (3, 2, 4, 5, 6)).astype("u2")
    v = bv.open(voxels, voxel_size=(3, 2, 1), unit="um", origin=(7, 0, 0))
    (one, first, _), (two, second, _) = layers(v, "em")
    assert first["name"] == "em 0" and second["blending"] == "additive"
    assert first["scale"] == [1, 3, 2, 1] and first["translate"] == [0, 7, 0, 0]
    assert first["units"] == ("pixel", *["micrometer"] * 3) and first["axis_labels"] == tuple(
        "tzyx"
    )
    assert np.array_equal(two[2, 1], voxels[2, 1, 1]) and one.ndim == 4
    ((_, _, kind),) = layers(v.sel(c=0).astype("u4")[0], "cells")
    assert kind == "labels"


def test_parts_are_those_of_numpy():
    """For stored and computed volumes, with every key that napari uses."""
    voxels = np.random.default_rng(0).random((6, 7, 8))
    planes = Planes(bv.open(voxels) * 2)
    keys = [0, -1, (slice(None), 3), (..., 2), slice(1, 5, 2), (slice(4, 1, -1), 2, slice(0, 0))]
    for key in (*keys, (np.int64(2), slice(None, None, 3)), ...):
        found = planes[key]
        assert isinstance(found, np.ndarray) and np.array_equal(found, (voxels * 2)[key])
    assert np.array_equal(np.asarray(planes), voxels * 2) and len(planes) == 6
