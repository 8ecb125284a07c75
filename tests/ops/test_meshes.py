"""Meshes of objects: closed surfaces where they should be, in the formats of other programs."""

import json

import numpy as np
import pytest
from skimage import measure

import beam_volumes as bv


def scene():
    z, y, x = np.indices((16, 20, 24))
    labels = np.zeros(z.shape, "u8")
    labels[(z - 8) ** 2 + (y - 9) ** 2 + (x - 8) ** 2 < 36] = 10**15
    labels[:5, 12:, 16:] = 3  # at the edges of the volume
    return labels


def read_ply(path):
    head, body = path.read_bytes().split(b"end_header\n", 1)
    vertices = int(head.split(b"element vertex ")[1].split()[0])
    faces = int(head.split(b"element face ")[1].split()[0])
    xyz = np.frombuffer(body, "<f4", 3 * vertices).reshape(-1, 3)
    rows = np.frombuffer(
        body, np.dtype([("n", "u1"), ("at", "<i4", 3)]), faces, offset=12 * vertices
    )
    assert (rows["n"] == 3).all()
    return xyz, rows["at"]


def read_obj(path):
    lines = [line.split() for line in path.read_text().splitlines()]
    xyz = np.array([line[1:] for line in lines if line[0] == "v"], "f4")
    return xyz, np.array([line[1:] for line in lines if line[0] == "f"], int) - 1


def read_precomputed(folder, label):
    assert json.loads((folder / "info").read_bytes()) == {"@type": "neuroglancer_legacy_mesh"}
    (name,) = json.loads((folder / f"{label}:0").read_bytes())["fragments"]
    data = (folder / name).read_bytes()
    count = int(np.frombuffer(data, "<u4", 1)[0])
    xyz = np.frombuffer(data, "<f4", 3 * count, 4).reshape(-1, 3)
    return xyz, np.frombuffer(data, "<u4", offset=4 + 12 * count).reshape(-1, 3).astype(int)


def volume_of(xyz, faces):
    """By the divergence theorem; edges of a closed surface belong to two faces each."""
    edges = np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    assert (np.unique(edges, axis=0, return_counts=True)[1] == 2).all()
    a, b, c = (xyz[faces[:, k]].astype("f8") for k in range(3))
    return abs(np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6)


@pytest.mark.parametrize("format", ["ply", "obj", "precomputed"])
def test_closed_surfaces_where_the_objects_are(tmp_path, format):
    labels = scene()
    size, origin = (40.0, 4.0, 5.0), (100.0, 20.0, 30.0)
    v = bv.open(labels, voxel_size=size, unit="nm", origin=origin)
    if format == "ply":
        v = v[1:]  # begins elsewhere
        labels, origin = labels[1:], (140.0, 20.0, 30.0)
    rows = bv.compute(bv.meshes(v, tmp_path / "m", format=format), runner=None).to_pydict()
    assert rows["label"] == [3, 10**15]
    for k, label in enumerate(rows["label"]):
        xyz, faces = {
            "ply": lambda label=label: read_ply(tmp_path / "m" / f"{label}.ply"),
            "obj": lambda label=label: read_obj(tmp_path / "m" / f"{label}.obj"),
            "precomputed": lambda label=label: read_precomputed(tmp_path / "m", label),
        }[format]()
        assert (rows["vertices"][k], rows["faces"][k]) == (len(xyz), len(faces))
        at = np.argwhere(labels == label)
        low, high = (origin + (e * size) for e in (at.min(0) - 0.5, at.max(0) + 0.5))
        np.testing.assert_allclose(xyz.min(0)[::-1], low)
        np.testing.assert_allclose(xyz.max(0)[::-1], high)
        voxels = len(at) * np.prod(size)
        # Marching cubes cut corners.
        assert 0.9 * voxels < volume_of(xyz, faces) <= voxels
        area = measure.mesh_surface_area(xyz[:, ::-1], faces)
        np.testing.assert_allclose(rows["surface_area"][k], area, rtol=1e-4)


def test_coarse_and_refused(tmp_path):
    labels = scene()
    labels[15, 19, 0] = 2  # no surface in steps of 3
    tiny = bv.meshes(labels, tmp_path / "tiny", step=3).to_pyarrow().to_pydict()
    assert tiny["label"] == [2, 3, 10**15] and tiny["faces"][0] == 8
    for label in tiny["label"]:
        volume_of(*read_ply(tmp_path / "tiny" / f"{label}.ply"))
    labels[15, 19, 0] = 0
    fine = bv.meshes(labels, tmp_path / "fine").to_pyarrow().to_pydict()
    large = bv.meshes(labels, tmp_path / "large", step=2**63).to_pyarrow()
    assert large == bv.meshes(labels, tmp_path / "fine").to_pyarrow()
    coarse = bv.meshes(labels, tmp_path / "coarse", step=2).to_pyarrow().to_pydict()
    assert all(b < 0.4 * a for a, b in zip(fine["faces"], coarse["faces"], strict=True))
    for label in coarse["label"]:
        volume_of(*read_ply(tmp_path / "coarse" / f"{label}.ply"))
    for how, says in (
        ({"format": "stl"}, "ply, obj, precomputed"),
        ({"step": 0}, "step=0; give a whole number"),
    ):
        with pytest.raises(ValueError, match=says):
            bv.meshes(labels, tmp_path / "no", **how)
    with pytest.raises(ValueError, match="surfaces need z, y and x"):
        bv.meshes(labels[4], tmp_path / "no")
    with pytest.raises(ValueError, match="is computed; write it"):
        bv.meshes(bv.label(bv.open(labels) > 0), tmp_path / "no")


def test_simplified_surfaces_are_closed_and_about_the_same(tmp_path):
    v = bv.open(scene(), voxel_size=(40.0, 4.0, 5.0), unit="nm")
    whole = bv.compute(bv.meshes(v, tmp_path / "whole"), runner=None).to_pydict()
    rows = bv.compute(bv.meshes(v, tmp_path / "m", simplify=0.8), runner=None).to_pydict()
    for label, faces, before in zip(rows["label"], rows["faces"], whole["faces"], strict=True):
        assert 0.15 * before < faces < 0.3 * before
        some = read_ply(tmp_path / "m" / f"{label}.ply")
        expected = volume_of(*read_ply(tmp_path / "whole" / f"{label}.ply"))
        assert abs(volume_of(*some) / expected - 1) < 0.05
    one = np.zeros((3, 3, 3), "u1")
    one[1, 1, 1] = 1
    few = bv.compute(bv.meshes(one, tmp_path / "one", simplify=0.99), runner=None).to_pydict()
    assert few["faces"][0] >= 4
    for wrong in (1, -0.1, True, "much"):
        with pytest.raises(ValueError, match="simplify="):
            bv.meshes(one, tmp_path / "x", simplify=wrong)
