"""Surfaces of objects as triangles, one file each."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from functools import cache
from typing import Any

import numpy as np

from beam_volumes.base.space import METRES
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume, one_channel
from beam_volumes.ops.labels.objects import Region, for_each_label
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.storage.places.errors import needed
from beam_volumes.storage.places.place import Place, kvstore_spec

FORMATS = ("ply", "obj", "precomputed")


@documented
def meshes(
    labels: Volume,
    folder: str | os.PathLike[str],
    *,
    format: str = "ply",
    step: int = 1,
    simplify: float = 0.0,
) -> Table:
    r"""Write the surface of each object as a triangle mesh.

    Parameters
    ----------
    labels : Volume or numpy.ndarray
        Stored labels of three axes, bool or integers from 0; 0 is background.
    folder : path
        A folder or bucket for one file per label, such as ``7.ply``. Existing files are replaced on
        computation.
    format : {"ply", "obj", "precomputed"}, default: "ply"
        ``"precomputed"`` is Neuroglancer's legacy format, with coordinates in nanometers if the
        volume has a unit.
    step : int, default: 1
        Number of voxels between vertices: 2 gives a quarter of the triangles. Objects that are too
        small for this use every voxel.
    simplify : float, default: 0.0
        The fraction of triangles to remove where the surface is flattest, below 1: 0.9 keeps about a
        tenth. It needs fast-simplification.

    Returns
    -------
    Table
        A lazy table with ``label``, the numbers of ``vertices`` and ``faces``, and the
        ``surface_area``, computed with the voxel size. Computing the table writes the files.

    Raises
    ------
    ValueError
        If scikit-image (or, with ``simplify``, fast-simplification) is not installed, or a
        parameter is invalid. If the labels are computed instead of stored, or do not have three
        axes. On computation, if an object's box needs more memory than is available.
    TypeError
        If ``labels`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    for_each_label : applies other functions to each object.

    Notes
    -----
    One sweep finds the objects' boxes; then each box is read. Vertices are x, y, z positions in the
    unit of the voxel size, including the volume's origin. Surfaces are closed, including at the
    edges of the volume. A worker holds one object's box at a time, and about 50 bytes for each of
    its voxels. Simplified surfaces are also closed, but thin parts may touch. Simplified surfaces
    depend on the version of fast-simplification.

    References
    ----------
    `skimage.measure.marching_cubes`: T. Lewiner, H. Lopes, A. W. Vieira and G. Tavares, "Efficient
    implementation of Marching Cubes' cases with topological guarantees", Journal of Graphics
    Tools 8, 2003; M. Garland and P. S. Heckbert, "Surface simplification using quadric error
    metrics", SIGGRAPH 1997, by fast-simplification.

    Examples
    --------
    >>> labels = np.zeros((4, 5, 6), "u1")
    >>> labels[1:3, 1:4, 2:4] = 7
    >>> bv.meshes(labels, "surfaces").to_pyarrow().to_pydict()["label"]
    [7]
    >>> open("surfaces/7.ply", "rb").readline()
    b'ply\n'
    """
    name = "meshes"
    if format not in FORMATS:
        raise ValueError(f"{name}: format={format!r}; use one of {', '.join(FORMATS)}")
    if isinstance(step, bool) or not isinstance(step, int | np.integer) or step < 1:
        raise ValueError(f"{name}: step={step!r}; give a whole number of at least 1")
    if isinstance(simplify, bool) or not isinstance(simplify, int | float | np.number):
        raise ValueError(f"{name}: simplify={simplify!r}; give a number from 0 to below 1")
    if not 0 <= simplify < 1:
        raise ValueError(f"{name}: simplify={simplify!r}; give a number from 0 to below 1")
    labels = one_channel(labels)
    if len(labels.space.axes) != 3:
        raise ValueError(
            f"{name}: the labels have the axes {' '.join(labels.axes)}; surfaces need z, y and x"
        )
    needed("skimage", "meshes", "meshes are made by scikit-image")
    if simplify:
        needed("fast_simplification", "meshes", "surfaces are simplified by fast-simplification")
    writer = _Writer(os.fspath(folder), format, int(step), float(simplify), labels.space.origin)
    kvstore_spec(writer.folder)
    columns = {"vertices": "i8", "faces": "i8", "surface_area": "f8"}
    return for_each_label(labels, writer, columns, name=name, version=astuple(writer))


@dataclass(frozen=True)
class _Writer:
    """Writes the mesh of an object, and returns its size."""

    folder: str
    format: str
    step: int
    simplify: float
    origin: tuple[float, float, float]

    def __call__(self, region: Region) -> Mapping[str, Any]:
        from skimage.measure import mesh_surface_area

        corners, faces = _surface(region.mask, self.step)
        size = np.array(region.voxel_size)
        corners = corners * size  # flat parts are flat in these units
        if self.simplify:
            corners, faces = _simplified(corners, faces, self.simplify)
        at = corners + region.start * size + self.origin
        area = mesh_surface_area(at, faces)
        xyz = at[:, ::-1]
        place = Place.of(self.folder)
        if self.format == "precomputed":
            scale = float(METRES[region.unit]) / 1e-9 if region.unit in METRES else 1.0
            _write_info(self.folder)
            place.write(f"{region.label}.mesh", _precomputed(xyz * scale, faces))
            fragments = {"fragments": [f"{region.label}.mesh"]}
            place.write(f"{region.label}:0", json.dumps(fragments).encode())
        else:
            encode = _ply if self.format == "ply" else _obj
            place.write(f"{region.label}.{self.format}", encode(xyz, faces))
        return {"vertices": len(xyz), "faces": len(faces), "surface_area": area}


def _surface(mask: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the vertices of a closed surface, in voxels from the box's origin, and its triangles."""
    from skimage.measure import marching_cubes

    sampled = mask[::step, ::step, ::step]
    if max(mask.shape) < step or not sampled.any():  # too small for this step
        sampled, step = mask, 1
    padded = np.pad(sampled, 1).astype(np.uint8)
    corners, faces, *_ = marching_cubes(padded, 0.5, allow_degenerate=False)
    return (corners.astype(np.float64) - 1) * step, faces


def _simplified(
    corners: np.ndarray, faces: np.ndarray, share: float
) -> tuple[np.ndarray, np.ndarray]:
    """Remove a fraction of the triangles, down to a tetrahedron."""
    from fast_simplification import simplify

    share = min(share, max(0.0, 1 - 4 / len(faces)))
    found, left = simplify(np.ascontiguousarray(corners, np.float64), faces.astype(np.int64), share)
    return (found, left) if len(left) >= 4 else (corners, faces)


@cache
def _write_info(folder: str) -> None:
    info = {"@type": "neuroglancer_legacy_mesh"}
    Place.of(folder).write("info", json.dumps(info).encode())


def _ply(xyz: np.ndarray, faces: np.ndarray) -> bytes:
    head = (
        "ply\nformat binary_little_endian 1.0\n"
        f"element vertex {len(xyz)}\nproperty float x\nproperty float y\nproperty float z\n"
        f"element face {len(faces)}\nproperty list uchar int vertex_indices\nend_header\n"
    )
    rows = np.empty(len(faces), np.dtype([("count", "u1"), ("corners", "<i4", 3)]))
    rows["count"], rows["corners"] = 3, faces
    return head.encode() + xyz.astype("<f4").tobytes() + rows.tobytes()


def _obj(xyz: np.ndarray, faces: np.ndarray) -> bytes:
    lines = [f"v {x:.9g} {y:.9g} {z:.9g}" for x, y, z in xyz.tolist()]
    lines += [f"f {a} {b} {c}" for a, b, c in (faces + 1).tolist()]
    return ("\n".join(lines) + "\n").encode()


def _precomputed(xyz: np.ndarray, faces: np.ndarray) -> bytes:
    count = np.array([len(xyz)], "<u4").tobytes()
    return count + xyz.astype("<f4").tobytes() + faces.astype("<u4").tobytes()
