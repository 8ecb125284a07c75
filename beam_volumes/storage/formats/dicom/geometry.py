"""Geometry of DICOM frames: their order and distances, and checks that they form a volume."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from beam_volumes.base.text import counted, printable
from beam_volumes.storage.formats.dicom.headers import Frame, Header, normal
from beam_volumes.storage.formats.headered.header import placement_of
from beam_volumes.storage.places.errors import VolumeError
from beam_volumes.storage.sources.axes import Placement, UnclearSpace

#: Tolerances of an axis's direction, and of a slice's position as a part of the spacing.
_TILT, _UNEVEN = 1e-3, 0.02
#: Tolerance of positions, which are often written with two digits.
_ROUNDED = 0.0101


Placed = list[tuple[int, Frame]]


def _remedy(frames: Placed) -> str:
    """Return how to open one of the volumes to which frames belong."""
    is_one_file = len({n for n, _ in frames}) == 1
    return (
        "split the file into one for each volume"
        if is_one_file
        else "select the files of one volume by a glob"
    )


def by_time(frames: Placed, where: str) -> list[Placed]:
    """Group frames by time point, if several frames are at one position."""
    places = _places([f for _, f in frames])
    if places in (0, len(frames)):  # each slice may have its own time
        return [frames]
    uneven = ""
    for keys in zip(*(f.times for _, f in frames), strict=False):
        groups: dict[tuple[float, ...], Placed] = {}
        for key, item in zip(keys, frames, strict=True):
            groups.setdefault(key, []).append(item)
        ways = sum(len(set(way)) > 1 for way in zip(*groups, strict=True))
        few = min(groups, key=lambda k: len(groups[k]))
        if ways == 1 and all(len(g) == places for g in groups.values()):
            return [sorted(groups[t], key=lambda i: i[1].slice or 0) for t in sorted(groups)]
        if ways > 1:
            uneven = f"frames at one position differ in {ways} ways, and a volume has one axis for them (t)"
        elif ways:
            uneven = uneven or (
                f"it has {counted(places, 'position')} and {counted(len(groups), 'time point')}, and one "
                f"of these has {counted(len(groups[few]), 'frame')}"
            )
    if uneven:
        is_one_file = len({n for n, _ in frames}) == 1
        lost = "frames" if is_one_file else "files"
        raise VolumeError(f"{where}: {uneven}; write one file for each, or restore missing {lost}")
    return [frames]


def _places(frames: Sequence[Frame]) -> int:
    """Return the number of different positions of frames; 0 if unknown."""
    if any(f.position is None or f.orientation is None for f in frames):
        numbers = {f.slice for f in frames}
        return 0 if None in numbers else len(numbers)
    along = normal(frames[0].orientation or ())
    at = np.sort(np.array([f.position for f in frames]) @ along)
    return 1 + int((np.diff(at) > 2 * _ROUNDED).sum())


def check_alike(times: Sequence[tuple[Placed, str, Placement]], where: str) -> None:
    """Refuse time points with frames at other positions than the first."""
    first, letters, placement = times[0]
    for placed, other, placement_then in times[1:]:
        pairs = zip(first, placed, strict=True)
        moved = any(
            a[1].position is not None
            and b[1].position is not None
            and np.abs(np.subtract(a[1].position, b[1].position)).max() > 2 * _ROUNDED
            for a, b in pairs
        )
        if moved or other != letters or placement_then.flipped != placement.flipped:
            raise VolumeError(
                f"{where} has frames at different positions at different times; "
                f"{_remedy([*first, *placed])}"
            )


def in_order(
    frames: Placed, headers: Sequence[Header], where: str, affine: str | None, flat: bool
) -> tuple[Placed, str, Placement]:
    """Return frames in the order of slices, the axes of columns, rows and slices, and placement.

    A ``flat`` volume is a single image without an axis of slices.
    """

    def called(item: tuple[int, Frame]) -> str:
        n, frame = item
        name = printable(headers[n].file.name)
        return f"frame {frame.number} of {name}" if len(headers[n].frames) > 1 else name

    spacing, thickness = _spacing(frames, called, where), headers[0].thickness
    depth = thickness if thickness and thickness > 0 else None
    if any(f.position is None or f.orientation is None for _, f in frames):
        frames = _numbered(frames, headers, called, where)
        if len(frames) == 1 and spacing is not None and depth is None:
            depth = 1.0
        if spacing is None or depth is None:
            return frames, "xyz", Placement()
        return frames, "xyz", Placement((depth, spacing[0], spacing[1]), "millimeter")
    axes = _directions(frames, called, where, affine)
    places = np.array([f.position for _, f in frames]) @ axes.T  # along normal, columns, rows
    order = np.argsort(places[:, 0], kind="stable")
    frames, places = [frames[k] for k in order], places[order]
    depth = depth or 1.0
    rows, columns = spacing or (1.0, 1.0)
    if len(frames) > 1:
        depth = _depth(places[:, 0], frames, called, where)
        moved = np.abs(places[:, 1:] - places[0, 1:]).max()
        if moved > 0.5 * min(rows, columns) and affine != "drop":
            raise UnclearSpace(
                f"{where} has slices that are shifted by up to {moved:.4g} mm (the gantry was tilted); "
                'affine="drop" opens them as they are stored'
            )
    if affine == "drop":
        placement = Placement((depth, rows, columns), "millimeter") if spacing else Placement()
        return frames, "xyz", placement
    matrix = (np.rint(axes) * [[depth], [rows], [columns]])[::-1].T
    pixels, n = headers[0].pixels, 2 if flat else 3
    letters, placement = placement_of(
        where,
        "xyz"[:n],
        (pixels.columns, pixels.rows, len(frames))[:n],
        matrix[:, :n],
        frames[0][1].position or (),
        affine=affine,
        unit="millimeter",
    )
    return frames, letters, placement if spacing else replace(placement, voxel_size=None, unit=None)


def _spacing(
    frames: Placed, called: Callable[[tuple[int, Frame]], str], where: str
) -> tuple[float, float] | None:
    """Return the distance of rows and columns, equal for all frames; None if unknown."""
    first = frames[0]
    other = next((f for f in frames if f[1].spacing != first[1].spacing), None)
    if other is not None:
        raise VolumeError(
            f"{where}: the pixels of {called(first)} are {first[1].spacing} mm apart, but "
            f"{other[1].spacing} in {called(other)}; {_remedy([first, other])}"
        )
    spacing = first[1].spacing
    if spacing is None or min(spacing) <= 0:
        return None
    return spacing[0], spacing[1]


def _directions(
    frames: Placed, called: Callable[[tuple[int, Frame]], str], where: str, affine: str | None
) -> np.ndarray:
    """Return unit vectors along slices, rows and columns, in the patient's axes."""
    orientations = np.array([f.orientation for _, f in frames])
    off = np.abs(orientations - orientations[0]).max(axis=1)
    if off.max() > _TILT:
        other = frames[int(off.argmax())]
        raise VolumeError(
            f"{where}: {called(frames[0])} and {called(other)} have different orientations; "
            + _remedy([frames[0], other])
        )
    row, column = orientations[0, :3], orientations[0, 3:]
    lengths = np.linalg.norm(row), np.linalg.norm(column)
    if max(abs(n - 1) for n in lengths) > 0.01 or abs(row @ column) > 0.01:
        raise VolumeError(
            f"{where}: its ImageOrientationPatient {orientations[0].tolist()} is not a pair of directions; "
            "restore it"
        )
    axes = np.array([normal(orientations[0]), column, row])
    if affine != "drop" and np.sort(np.abs(axes), axis=1)[:, 1].max() > _TILT:
        stated = [round(float(v), 4) for v in orientations[0]]
        raise UnclearSpace(
            f"{where} has oblique axes (ImageOrientationPatient {stated}), which are not supported; "
            'affine="drop" opens it as it is stored, without the rotation'
        )
    return axes


def _depth(
    at: np.ndarray, frames: Placed, called: Callable[[tuple[int, Frame]], str], where: str
) -> float:
    """Return the distance of slices, which must be equal everywhere."""
    steps = np.diff(at)
    usual = float(np.median(steps))
    same = np.flatnonzero(steps <= 1e-3)
    if len(same):
        k = int(same[0])
        raise VolumeError(
            f"{where}: {called(frames[k])} and {called(frames[k + 1])} are at the same position ({at[k]:.4g} "
            f"mm): {counted(len(same), 'slice')} too many; {_remedy(frames[k : k + 2])}"
        )
    uneven = np.flatnonzero(np.abs(steps - usual) > max(_UNEVEN * usual, _ROUNDED))
    if len(uneven):
        k = int(uneven[0])
        remedy = _remedy(frames[k : k + 2])
        pair = f"{called(frames[k])} and {called(frames[k + 1])}"
        gap = f"{pair} are {steps[k]:.4g} mm apart, others {usual:.4g}"
        missing = round(float(steps[k]) / usual) - 1
        if missing >= 1:
            raise VolumeError(
                f"{where}: {counted(missing, 'slice')} missing between {called(frames[k])} and "
                f"{called(frames[k + 1])} ({gap}); restore missing slices, or {remedy}"
            )
        raise VolumeError(f"{where}: slices are not evenly spaced: {gap}; {remedy}")
    return float((at[-1] - at[0]) / len(steps))


def _numbered(
    frames: Placed,
    headers: Sequence[Header],
    called: Callable[[tuple[int, Frame]], str],
    where: str,
) -> Placed:
    """Sort frames without positions by their files' numbers, then in the file's order."""
    numbers = [h.instance for h in headers]
    if len(headers) == 1 or any(n is None for n in numbers):
        return frames
    order = sorted(range(len(headers)), key=lambda n: numbers[n])  # type: ignore[arg-type,return-value]
    for a, b in itertools.pairwise(order):
        step = numbers[b] - numbers[a]  # type: ignore[operator]
        if step != 1:
            what = (
                "have the same number"
                if step == 0
                else f"have the numbers {numbers[a]} and {numbers[b]}"
            )
            pair = " and ".join(printable(headers[n].file.name) for n in (a, b))
            raise VolumeError(
                f"{where}: {pair} {what}, and no positions; restore missing files, or select the files of "
                "one volume by a glob"
            )
    rank = {n: k for k, n in enumerate(order)}
    return sorted(frames, key=lambda item: (rank[item[0]], item[1].number))
