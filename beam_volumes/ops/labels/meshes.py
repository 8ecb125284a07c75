"""Surfaces of objects as triangles, a file for each."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from functools import cache
from typing import Any

import numpy as np

from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume, one_channel
from beam_volumes.ops.labels.objects import Region, for_each_label
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.space import METRES
from beam_volumes.storage.optional import needed
from beam_volumes.storage.place import Place, kvstore_spec

FORMATS = ("ply", "obj", "precomputed")


@documented
def meshes(labels: Volume, folder: Any, *, format: str = "ply", step: int = 1) -> Table:
    r"""Write the surface of each object as a mesh of triangles.

    Parameters
    ----------
    labels : Volume or numpy.ndarray
        Labels as they are stored, of bool or integers from 0 on, of three axes; 0 is background.
    folder : str or os.PathLike
        A folder or bucket that gets a file for each label, e.g. ``7.ply``. Files that are there
        already are replaced when the table is computed.
    format : {"ply", "obj", "precomputed"}, default: "ply"
        ``"precomputed"`` is Neuroglancer's legacy format, with coordinates in nanometers if the
        volume has a unit.
    step : int, default: 1
        Voxels between vertices: 2 gives a quarter of the triangles. Objects too small for that
        have all.

    Returns
    -------
    Table
        A lazy table: ``label``, its ``vertices`` and ``faces``, and the ``surface_area`` in voxel
        sizes. The files are written when it is computed.

    Raises
    ------
    ValueError
        If scikit-image is not installed, a parameter is none of those above, the labels are computed
        instead of stored, or have not three axes; when it is computed, if an object's box takes
        more memory than is left.
    TypeError
        If ``labels`` is neither a volume nor an array, or of another dtype.

    See Also
    --------
    for_each_label : other functions of each object.

    Notes
    -----
    One sweep finds the objects' boxes; then each is read by itself. Vertices are in the unit of the
    voxel size, x before y before z, and lie where the volume's origin says. Surfaces are closed,
    also at the edges of the volume. A worker has one object's box at a time, and some 50 bytes for
    each of its voxels.

    References
    ----------
    `skimage.measure.marching_cubes`: T. Lewiner, H. Lopes, A. W. Vieira and G. Tavares, "Efficient
    implementation of Marching Cubes' cases with topological guarantees", Journal of Graphics
    Tools 8, 2003.

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
        raise ValueError(f"{name}: format={format!r}; there are {', '.join(FORMATS)}")
    if isinstance(step, bool) or not isinstance(step, int | np.integer) or step < 1:
        raise ValueError(f"{name}: step={step!r}; it is a whole number from 1 on")
    labels = one_channel(labels)
    if len(labels.space.axes) != 3:
        raise ValueError(
            f"{name}: labels of axes {' '.join(labels.axes)}; surfaces need z, y and x"
        )
    needed("skimage", "meshes", "meshes are made by scikit-image")
    writer = _Writer(os.fspath(folder), format, int(step), labels.space.origin)
    kvstore_spec(writer.folder)
    columns = {"vertices": "i8", "faces": "i8", "surface_area": "f8"}
    return for_each_label(labels, writer, columns, name=name, version=astuple(writer))


@dataclass(frozen=True)
class _Writer:
    """Writes the mesh of an object, and tells how large it is."""

    folder: str
    format: str
    step: int
    origin: tuple[float, float, float]

    def __call__(self, region: Region) -> Mapping[str, Any]:
        from skimage.measure import mesh_surface_area

        try:
            corners, faces = _surface(region.mask, self.step)
        except RuntimeError:  # too small to be seen in such steps
            corners, faces = _surface(region.mask, 1)
        size = np.array(region.voxel_size)
        at = (corners + region.start) * size + self.origin
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
    """Return the corners of a closed surface, in voxels from the box's first, and its triangles."""
    from skimage.measure import marching_cubes

    # Steps begin before the box and end behind it.
    beside = [(step, step + -n % step) for n in mask.shape]
    padded = np.pad(mask, beside).astype(np.uint8)
    corners, faces, *_ = marching_cubes(padded, 0.5, step_size=step, allow_degenerate=False)
    return corners.astype(np.float64) - step, faces


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
