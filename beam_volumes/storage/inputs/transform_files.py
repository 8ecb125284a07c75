"""Transforms between two images in files of ITK, elastix and BigWarp.

All positions are x, y, z, and transforms map points of the fixed image to points of the moving image.
"""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from beam_volumes.base.text import printable
from beam_volumes.storage.formats.hdf5.files import library, opened_file
from beam_volumes.storage.places.outside import named_file

#: Maximum size of a file: a grid of 100 x 100 x 100 control points needs 60 MB of text.
_MAX_BYTES = 1 << 28
#: Larger numbers overflow in the equations.
_MAX_NUMBER = 1e100
#: Files that refer to each other, at most.
_MAX_FILES = 16
#: Transforms of one file, at most.
_MAX_TRANSFORMS = 64

_ITK_TEXT = "#Insight Transform File V1.0"
_ITK_NAME = re.compile(r"(\w+?)Transform(?:Base)?_(?:double|float)_([23])_([23])(?:_(\d))?")


class DamagedTransform(ValueError):
    """A file of transforms that is damaged or not supported."""


@dataclass(frozen=True, eq=False)
class SplineGrid:
    """Displacements from B-splines of a degree with a coefficient at each point of a grid."""

    coefficients: np.ndarray  #: (axes, ..., y, x); the channels are x, y, z
    place: np.ndarray  #: Homogeneous; maps x, y, z indices of the grid to positions
    order: int


@dataclass(frozen=True, eq=False)
class Bend:
    """The displacement ``after @ f(before @ p)`` of a point p."""

    spline: SplineGrid
    before: np.ndarray  #: Homogeneous
    after: np.ndarray


@dataclass(frozen=True, eq=False)
class FileTransform:
    """A transform that maps point p to ``linear @ p`` plus its bends."""

    linear: np.ndarray  #: Homogeneous
    bends: tuple[Bend, ...] = ()

    def after(self, first: FileTransform) -> FileTransform:
        """Return the transform that applies this one to the results of ``first``."""
        if self.bends and first.bends:
            raise DamagedTransform("B-splines after B-splines are not supported; merge them first")
        turn = self.linear[:-1, :-1]
        bends = [replace(bend, before=bend.before @ first.linear) for bend in self.bends]
        bends += [replace(bend, after=turn @ bend.after) for bend in first.bends]
        return FileTransform(self.linear @ first.linear, tuple(bends))

    def plus(self, other: FileTransform) -> FileTransform:
        """Return the transform with the displacements of both."""
        linear = self.linear + other.linear - np.eye(len(self.linear))
        return FileTransform(linear, (*self.bends, *other.bends))


@dataclass(frozen=True, eq=False)
class Landmarks:
    """Pairs of points, (points, axes)."""

    fixed: np.ndarray
    moving: np.ndarray


def read_transform(path: str) -> FileTransform | Landmarks:
    """Return the content of a file; its format follows from its first bytes."""
    try:
        return _read(path, (path,))
    except DamagedTransform as error:
        raise ValueError(f"{printable(path)}: {error}") from None


@np.errstate(all="ignore")
def _read(path: str, before: tuple[str, ...]) -> FileTransform | Landmarks:
    if os.path.getsize(path) > _MAX_BYTES:
        raise DamagedTransform(f"it is larger than {_MAX_BYTES >> 20} MiB")
    with open(path, "rb") as file:
        data = file.read()
    if data.startswith(b"\x89HDF"):
        return _of_itk(_itk_groups(path))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise DamagedTransform(
            "it is neither text nor HDF5; use a file of elastix, ITK (.tfm or .h5) or BigWarp (.csv)"
        )
    if text.lstrip().startswith("#Insight Transform File"):
        return _of_itk(_itk_lines(text))
    if text.lstrip().startswith(("(", "//")):
        return _of_elastix(path, text, before)
    return _landmarks(text)


# BigWarp


def _landmarks(text: str) -> Landmarks:
    """Return the active landmarks of a file without a header: name, active, moving and fixed point."""
    try:
        rows = [row for row in csv.reader(io.StringIO(text)) if any(map(str.strip, row))]
    except csv.Error as error:
        raise DamagedTransform(f"it is not CSV: {error}") from None
    if not rows:
        raise DamagedTransform("it is empty; restore it")
    count = len(rows[0])
    if count not in (6, 8):
        raise DamagedTransform(
            "its first line is not of ITK, of elastix or a landmark of BigWarp, which has 6 or 8 columns: "
            "name, active, the moving and the fixed point"
        )
    points = []
    for k, row in enumerate(rows):
        if len(row) != count:
            raise DamagedTransform(f"row {k} has {len(row)} columns, and row 0 {count}; restore it")
        active = row[1].strip().lower()
        if active not in ("true", "false"):
            raise DamagedTransform(f"row {k} has {printable(row[1])!r} in place of true or false")
        if active == "true":
            points.append(_numbers(row[2:], f"row {k}"))
    n = (count - 2) // 2
    found = np.array(points).reshape(-1, 2 * n)
    return Landmarks(found[:, n:], found[:, :n])


# ITK


def _itk_lines(text: str) -> list[tuple[str, Any, Any]]:
    """Return the type, the parameters and the fixed parameters of each transform."""
    found: list[dict[str, str]] = []
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, colon, value = line.partition(":")
        if key.strip() == "Transform" and colon:
            found.append({})
        if not colon or not found or key.strip() in found[-1]:
            raise DamagedTransform(f"the line {_short(line)} is not expected; restore it")
        found[-1][key.strip()] = value.strip()
    return [
        (
            each["Transform"],
            each.get("Parameters", "").split(),
            each.get("FixedParameters", "").split(),
        )
        for each in found
    ]


def _itk_groups(path: str) -> list[tuple[str, Any, Any]]:
    """Return the same from HDF5."""
    library(path)
    found: list[tuple[str, Any, Any]] = []
    try:
        with opened_file(path) as file:
            groups = file.get("TransformGroup")
            for k in range(_MAX_TRANSFORMS + 1):
                if groups is None or str(k) not in groups:
                    break
                group = groups[str(k)]
                kind = group["TransformType"][()]
                kind = kind[0] if np.ndim(kind) else kind
                numbers = []
                for name in ("Parameters", "FixedParameters"):
                    # Older versions of ITK misspell the names.
                    node = group.get(f"Transform{name}", group.get(f"Tranform{name}"))
                    if node is not None and node.nbytes > _MAX_BYTES:
                        raise DamagedTransform(f"the {name} of transform {k} are too large")
                    numbers.append([] if node is None else np.ravel(node[()]))
                found.append((os.fsdecode(kind), *numbers))
    except DamagedTransform:
        raise
    except Exception as error:  # h5py has many kinds for damaged files
        raise DamagedTransform(f"it is damaged: {_short(str(error))}; restore it") from None
    return found


def _of_itk(found: Sequence[tuple[str, Any, Any]]) -> FileTransform:
    if not found:
        raise DamagedTransform("it contains no transform; restore it")
    if len(found) > _MAX_TRANSFORMS:
        raise DamagedTransform(f"it contains more than {_MAX_TRANSFORMS} transforms")
    is_composite = found[0][0].startswith("CompositeTransform_")
    members = found[1:] if is_composite else found
    if not members or (len(members) > 1 and not is_composite):
        raise DamagedTransform(
            f"it contains {len(members)} transforms that no composite transform combines"
        )
    every = []
    for kind, given, fixed in members:
        match = _ITK_NAME.fullmatch(kind)
        if match is None or match[2] != match[3]:
            raise _not_supported(kind)
        n = int(match[2])
        numbers, of_place = _numbers(given, "Parameters"), _numbers(fixed, "FixedParameters")
        if match[1] == "BSpline":
            every.append(_of_itk_spline(n, numbers, of_place, int(match[4] or 3)))
            continue
        centre = of_place[:n] if len(of_place) >= n else np.zeros(n)
        is_zyx = match[1] == "Euler3D" and len(of_place) > n and of_place[n] != 0
        every.append(_linear(match[1], n, numbers, centre, is_zyx))
    # The last one is applied first.
    return _composed(every[::-1])


def _composed(every: Sequence[FileTransform]) -> FileTransform:
    """Return the transform that applies several in order."""
    result = every[0]
    for each in every[1:]:
        if len(each.linear) != len(result.linear):
            raise DamagedTransform("it combines transforms of 2 and of 3 axes")
        result = each.after(result)
    return result


def _of_itk_spline(n: int, numbers: np.ndarray, place: np.ndarray, order: int) -> FileTransform:
    _check_count(place, 3 * n + n * n, "FixedParameters")
    size, origin, spacing, direction = np.split(place, [n, 2 * n, 3 * n])
    return _spline(n, numbers, size, origin, spacing, direction, order)


# elastix


def _of_elastix(path: str, text: str, before: tuple[str, ...]) -> FileTransform:
    table = _elastix_table(text)

    def word(key: str, default: str | None = None) -> str:
        found = table.get(key, [] if default is None else [default])
        if len(found) != 1:
            raise DamagedTransform(f"{key} has {len(found)} values, not one; restore it")
        return found[0]

    def numbers(key: str, count: int | None = None) -> np.ndarray:
        found = _numbers(table.get(key, []), key)
        if count is not None:
            _check_count(found, count, key)
        return found

    kind = word("Transform")
    if word("UseBinaryFormatForTransformationParameters", "false") != "false":
        raise DamagedTransform("its parameters are in a binary file, which is not supported")
    n = _whole(word("FixedImageDimension"), "FixedImageDimension")
    if n not in (2, 3) or word("MovingImageDimension", str(n)) != str(n):
        raise DamagedTransform("both images need 2 axes, or both 3 axes")
    given = numbers("TransformParameters")
    _check_count(
        given, _whole(word("NumberOfParameters"), "NumberOfParameters"), "TransformParameters"
    )
    short = kind.removesuffix("Transform")
    if short in ("BSpline", "RecursiveBSpline"):
        if word("UseCyclicTransform", "false") != "false":
            raise _not_supported(f"{kind} with UseCyclicTransform")
        size, spacing, origin = (numbers(f"Grid{k}", n) for k in ("Size", "Spacing", "Origin"))
        start = numbers("GridIndex", n) if "GridIndex" in table else np.zeros(n)
        # Columns of the direction follow each other.
        turn = numbers("GridDirection", n * n) if "GridDirection" in table else np.eye(n)
        turn = turn.reshape(n, n).T
        order = _whole(word("BSplineTransformSplineOrder", "3"), "BSplineTransformSplineOrder")
        origin = origin + turn @ (spacing * start)
        result = _spline(n, given, size, origin, spacing, turn, order)
    else:
        names = {"Euler": f"Euler{n}D", "Similarity": f"Similarity{n}D"}
        short = names.get(short, short)
        if short not in ("Translation", "Affine", *names.values()):
            raise _not_supported(kind)
        is_turned = short != "Translation"
        centre = numbers("CenterOfRotationPoint", n) if is_turned else np.zeros(n)
        result = _linear(short, n, given, centre, word("ComputeZYX", "false") == "true")
    keys = ("InitialTransformParameterFileName", "InitialTransformParametersFileName")
    first = next((word(key) for key in keys if key in table), "NoInitialTransform")
    if first == "NoInitialTransform":
        return result
    # Programs store absolute paths, and users move the files together.
    place = named_file(path, os.path.basename(first.replace("\\", "/")))
    if place in map(os.path.abspath, before) or len(before) >= _MAX_FILES:
        raise DamagedTransform(f"its initial transform {printable(place)} refers to it")
    if not os.path.isfile(place):
        raise DamagedTransform(f"its initial transform {printable(place)} does not exist")
    initial = _read(place, (*before, place))
    if isinstance(initial, Landmarks) or len(initial.linear) != n + 1:
        raise DamagedTransform(f"its initial transform {printable(place)} does not match it")
    how = word("HowToCombineTransforms", "Compose")
    if how not in ("Compose", "Add"):
        raise DamagedTransform(f"HowToCombineTransforms is {printable(how)!r}, not Compose or Add")
    return result.after(initial) if how == "Compose" else initial.plus(result)


def _elastix_table(text: str) -> dict[str, list[str]]:
    """Return the values of each parameter: a line is ``(Name value "text" ...)``."""
    table: dict[str, list[str]] = {}
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith("//"):
            continue
        inside, end, rest = line[1:].rpartition(")")
        key, *values = re.findall(r'"[^"]*"|[^\s"]+', inside) or [""]
        is_comment = not rest.strip() or rest.strip().startswith("//")
        if line[0] != "(" or not end or not is_comment or not key.isidentifier() or key in table:
            raise DamagedTransform(f"the line {_short(line)} is not expected; restore it")
        table[key] = [value.strip('"') for value in values]
    return table


# all formats


def _linear(
    kind: str, n: int, numbers: np.ndarray, centre: np.ndarray, is_zyx: bool = False
) -> FileTransform:
    """Return the map ``matrix @ (p - centre) + centre + shift``."""
    counts = {"Affine": n * n + n, "MatrixOffset": n * n + n, "Translation": n, "Identity": 0}
    counts |= {"Scale": n}
    counts |= {"Euler2D": 3, "Rigid2D": 3, "Similarity2D": 4} if n == 2 else {
        "Euler3D": 6, "VersorRigid3D": 6, "Versor": 3, "Similarity3D": 7
    }  # fmt: skip
    if kind.removesuffix("Transform") not in counts:
        raise _not_supported(kind)
    _check_count(numbers, counts[kind], f"Parameters of {kind}")
    p = numbers
    matrix, shift = np.eye(n), np.zeros(n)
    if kind in ("Affine", "MatrixOffset"):
        matrix, shift = p[: n * n].reshape(n, n), p[n * n :]
    elif kind == "Translation":
        shift = p
    elif kind == "Scale":
        matrix = np.diag(p)
    elif kind in ("Euler2D", "Rigid2D"):
        matrix, shift = _turn(p[0], 0, 1, 2), p[1:]
    elif kind == "Similarity2D":
        matrix, shift = p[0] * _turn(p[1], 0, 1, 2), p[2:]
    elif kind == "Euler3D":
        rx, ry, rz = _turn(p[0], 1, 2, 3), _turn(p[1], 2, 0, 3), _turn(p[2], 0, 1, 3)
        matrix, shift = rz @ ry @ rx if is_zyx else rz @ rx @ ry, p[3:]
    elif kind != "Identity":  # of versors
        matrix, shift = _of_versor(p[:3]), p[3:6] if len(p) > 3 else np.zeros(3)
        if kind == "Similarity3D":
            matrix = p[6] * matrix
    result = np.eye(n + 1)
    result[:n, :n], result[:n, n] = matrix, centre + shift - matrix @ centre
    if not is_invertible(result):
        raise DamagedTransform(f"its {kind} transform has no inverse")
    return FileTransform(result)


def is_invertible(matrix: np.ndarray) -> bool:
    """Whether a homogeneous matrix is finite and has an inverse."""
    linear = matrix[:-1, :-1]
    return bool(np.isfinite(matrix).all() and linear.any() and np.linalg.cond(linear) < 1e12)


def _turn(angle: float, a: int, b: int, n: int) -> np.ndarray:
    """Return a rotation by an angle from axis ``a`` to axis ``b``."""
    result = np.eye(n)
    result[a, a] = result[b, b] = math.cos(angle)
    result[b, a], result[a, b] = math.sin(angle), -math.sin(angle)
    return result


def _of_versor(v: np.ndarray) -> np.ndarray:
    """Return the rotation of a unit quaternion with these vector parts."""
    square = float(v @ v)
    if square > 1 + 1e-6:
        raise DamagedTransform(f"its versor {v.tolist()} is longer than 1")
    w = math.sqrt(max(0.0, 1 - square))
    cross = np.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])
    return np.asarray((w * w - square) * np.eye(3) + 2 * np.outer(v, v) + 2 * w * cross)


def _spline(
    n: int,
    numbers: np.ndarray,
    size: np.ndarray,
    origin: np.ndarray,
    spacing: np.ndarray,
    direction: np.ndarray,
    order: int,
) -> FileTransform:
    if order not in (1, 2, 3):
        raise _not_supported(f"a B-spline of order {order}")
    if not ((size >= 1) & (size <= 1 << 20) & (size == np.rint(size))).all():
        raise DamagedTransform(f"its grid has the size {size.tolist()}; restore it")
    shape = [int(s) for s in size]
    _check_count(numbers, n * math.prod(shape), "TransformParameters")
    place = np.eye(n + 1)
    place[:n, :n], place[:n, n] = direction.reshape(n, n) * spacing, origin
    if not (spacing > 0).all() or not is_invertible(place):
        raise DamagedTransform("the spacing or the direction of its grid has no inverse")
    grid = SplineGrid(numbers.reshape(n, *shape[::-1]), place, order)
    return FileTransform(np.eye(n + 1), (Bend(grid, np.eye(n + 1), np.eye(n)),))


def _numbers(texts: Sequence[Any] | np.ndarray, what: str) -> np.ndarray:
    try:
        found = np.array(texts, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise DamagedTransform(f"{what} has an entry that is not a number; restore it") from None
    if not (abs(found) < _MAX_NUMBER).all():
        raise DamagedTransform(
            f"{what} has an entry that is NaN, infinite or too large; restore it"
        )
    return found


def _check_count(numbers: np.ndarray, count: int, what: str) -> None:
    if len(numbers) != count:
        raise DamagedTransform(f"{what} has {len(numbers)} numbers, not {count}; restore it")


def _whole(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise DamagedTransform(f"{what} is {printable(text)!r}, not a whole number")
    return int(text)


def _short(text: str) -> str:
    shown = printable(text.strip())
    return repr(shown if len(shown) <= 60 else shown[:57] + "...")


def _not_supported(kind: str) -> DamagedTransform:
    return DamagedTransform(
        f"{_short(kind)} is not supported; use translations, rotations, similarities, affine maps or "
        "B-splines"
    )


# writing


def itk_text(linear: np.ndarray) -> bytes:
    """Return a .tfm file of a homogeneous matrix."""
    kind, numbers, centre = _itk_parts(linear)
    lines = [_ITK_TEXT, "#Transform 0", f"Transform: {kind}", f"Parameters: {_joined(numbers)}"]
    return "\n".join([*lines, f"FixedParameters: {_joined(centre)}", ""]).encode()


def itk_hdf5(linear: np.ndarray) -> bytes:
    """Return the same as HDF5."""
    h5py = library("a .h5 file of ITK")
    kind, numbers, centre = _itk_parts(linear)
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        text = h5py.string_dtype("ascii")  # ITK does not read UTF-8
        for name, value in (("ITKVersion", "5.4.0"), ("HDFVersion", h5py.version.hdf5_version)):
            file.create_dataset(name, data=[value], dtype=text)
        group = file.create_group("TransformGroup/0")
        group.create_dataset("TransformType", data=[kind], dtype=text)
        group["TransformParameters"] = numbers
        group["TransformFixedParameters"] = centre
    return buffer.getvalue()


def elastix_text(linear: np.ndarray, image: Mapping[str, np.ndarray]) -> bytes:
    """Return a file of elastix; ``image`` is the Size, Spacing, Origin and Direction of the fixed image."""
    _, numbers, centre = _itk_parts(linear)
    n = len(centre)
    lines = [
        '(Transform "AffineTransform")',
        f"(NumberOfParameters {len(numbers)})",
        f"(TransformParameters {_joined(numbers)})",
        '(InitialTransformParametersFileName "NoInitialTransform")',
        '(HowToCombineTransforms "Compose")',
        f"(FixedImageDimension {n})",
        f"(MovingImageDimension {n})",
        '(FixedInternalImagePixelType "float")',
        '(MovingInternalImagePixelType "float")',
        f"(Index {_joined(np.zeros(n, int))})",
        *(f"({key} {_joined(value)})" for key, value in image.items()),
        '(UseDirectionCosines "true")',
        f"(CenterOfRotationPoint {_joined(centre)})",
        '(ResampleInterpolator "FinalLinearInterpolator")',
        '(Resampler "DefaultResampler")',
        "(DefaultPixelValue 0)",
        '(ResultImageFormat "mhd")',
        '(ResultImagePixelType "float")',
    ]
    return "\n".join([*lines, ""]).encode()


#: By the extension of the file.
WRITERS: dict[str, Callable[..., bytes]] = {
    ".tfm": lambda linear, _: itk_text(linear),
    ".h5": lambda linear, _: itk_hdf5(linear),
    ".txt": elastix_text,
}


def _itk_parts(linear: np.ndarray) -> tuple[str, np.ndarray, np.ndarray]:
    n = len(linear) - 1
    numbers = np.concatenate([linear[:n, :n].ravel(), linear[:n, n]])
    return f"AffineTransform_double_{n}_{n}", numbers, np.zeros(n)


def _joined(numbers: np.ndarray) -> str:
    return " ".join(map(repr, np.ravel(numbers).tolist()))
