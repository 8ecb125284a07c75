"""DICOM: a series of files in a folder, or one file with one or many frames.

Opening reads the headers of all files, in threads. Frames are sorted along their normal.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import numpy as np

from beam_volumes.base.text import counted, printable
from beam_volumes.storage.formats.dicom.frames import Frames, Pixels
from beam_volumes.storage.formats.dicom.geometry import Placed, by_time, check_alike, in_order
from beam_volumes.storage.formats.dicom.headers import Header, read_header
from beam_volumes.storage.formats.format import WHOLE, Format, OpenRequest, Options
from beam_volumes.storage.formats.headered.header import renamed_axes
from beam_volumes.storage.formats.planes import COLOURS, PlaneImage
from beam_volumes.storage.places.errors import VolumeError, needed
from beam_volumes.storage.places.place import Place
from beam_volumes.storage.sources.axes import AFFINE, Placement, check_affine
from beam_volumes.storage.sources.numbered import in_natural_order
from beam_volumes.storage.sources.source import Source

SUFFIXES = (".dcm", ".dicom", ".dc3", ".ima")
#: With this many headers, threads are used: on a remote disk each one waits.
_MANY = 16
_DIGITS = "0123456789"


class Dicom(Format):
    """The frames of one series."""

    title = "DICOM"
    open_options: ClassVar[Options] = {
        "affine": AFFINE,
        "rescale": (
            "bool",
            "Whether to scale numbers by slope and intercept (the default), or read them as stored.",
        ),
    }

    def open_place(self, place: Place, request: OpenRequest = WHOLE) -> Source | None:
        found, affine = _find(place), request.option("affine")
        if found is None:
            return None
        if request.level is not None:
            raise ValueError(
                f"level={request.level}: {place.text} is DICOM and has no levels; omit it"
            )
        check_affine(affine, place.text)
        folder, names = found
        first = os.path.join(folder, names[0])
        single = os.path.isfile(first) and place.local == first
        headers = _series(_headers(folder, names, place.text), request.dataset, place.text)
        is_scaled = request.option("rescale") in (None, True)
        return _image(place.text, folder, headers, single, affine, is_scaled).source(request)


FORMATS = (Dicom(),)


# finding files


def _find(place: Place) -> tuple[str, list[str]] | None:
    """Return the folder and the names of the DICOM files at a place."""
    path = place.local
    if path is None:
        if place.text.lower().endswith(SUFFIXES):
            raise ValueError(
                f"{place.text}: DICOM is only read from local disks; copy it, or convert it to .zarr there"
            )
        return None
    if os.path.isfile(path):
        folder, name = os.path.split(path)
        return (folder, [name]) if _is_dicom(path) else None
    if os.path.isdir(path):
        names = _candidates(path, [e.name for e in os.scandir(path)])
        return (path, names) if names else None
    if not glob.has_magic(path):
        return None
    folder, pattern = os.path.split(path)
    if glob.has_magic(folder) or not os.path.isdir(folder):
        return None
    names = _candidates(folder, fnmatch.filter([e.name for e in os.scandir(folder)], pattern))
    return (folder, names) if names else None


def _candidates(folder: str, names: list[str]) -> list[str]:
    """Return the DICOM files: those with a suffix, else by the content of those without."""
    named = [n for n in names if n.lower().endswith(SUFFIXES) and not n.startswith(".")]
    if not named:
        bare = [n for n in names if "." not in n or not n.rpartition(".")[2].strip(_DIGITS)]
        bare = [n for n in bare if not n.startswith(".") and n != "DICOMDIR"]
        # Do not read thousands of files if the first few are not DICOM.
        if not any(_is_dicom(os.path.join(folder, n)) for n in sorted(bare)[:4]):
            return []
        named = [n for n in bare if _is_dicom(os.path.join(folder, n))]
    return in_natural_order([n for n in named if os.path.isfile(os.path.join(folder, n))])


def _is_dicom(path: str) -> bool:
    """Whether a file has DICOM's magic or suffix."""
    try:
        if not os.path.isfile(path):
            return False
        with open(path, "rb", buffering=0) as file:
            head = file.read(132)
    except OSError:
        return path.lower().endswith(SUFFIXES)
    return head[128:] == b"DICM" or path.lower().endswith(SUFFIXES)


def _headers(folder: str, names: Sequence[str], where: str) -> list[Header]:
    needed("pydicom", "dicom", f"{where} is DICOM")

    def read(name: str) -> Header | None:
        return read_header(folder, name)

    if len(names) < _MANY:
        found = list(map(read, names))
    else:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(read, names))
    headers = [h for h in found if h is not None]
    if not headers:
        what = f"{counted(len(names), 'file')} of DICOM" if len(names) > 1 else "a file of DICOM"
        raise ValueError(f"{where} is {what} without an image (a report, an index or a plan)")
    return headers


# choosing a series


def _series(headers: list[Header], dataset: str | None, where: str) -> list[Header]:
    """Return the files of the only series, or of the requested one."""
    by_uid: dict[str, list[Header]] = {}
    for header in headers:
        by_uid.setdefault(header.series, []).append(header)
    listed = "; ".join(_series_text(uid, of) for uid, of in list(by_uid.items())[:12])
    if len(by_uid) > 12:
        listed += f"; and {len(by_uid) - 12} more"
    if dataset is None:
        if len(by_uid) > 1:
            raise ValueError(
                f"{where} has {len(by_uid)} series; choose one by dataset=, its number or its UID: {listed}"
            )
        return headers
    if dataset in by_uid:
        return by_uid[dataset]
    found = [of for of in by_uid.values() if str(of[0].series_number) == str(dataset)]
    if len(found) != 1:
        why = "no series of that number or UID" if not found else "several series of that number"
        raise ValueError(f"dataset={dataset!r}: {where} has {why}; there are {listed}")
    return found[0]


def _series_text(uid: str, headers: Sequence[Header]) -> str:
    first = headers[0]
    number = "no number" if first.series_number is None else f"{first.series_number}"
    about = f" ({first.description})" if first.description else ""
    return printable(
        f"{number}{about}: {counted(len(headers), 'file')}, {first.pixels.text}, UID {uid or 'none'}"
    )


# assembling a volume


def _image(
    where: str, folder: str, headers: list[Header], single: bool, affine: str | None, rescale: bool
) -> PlaneImage:
    pixels = headers[0].pixels
    _check_pixels(headers)
    frames = [(n, f) for n, h in enumerate(headers) for f in h.frames]
    along = headers[0].along if len(headers) == 1 else "z"
    on: tuple[tuple[str, int], ...] = ((along, len(frames)),)
    letters, placement = "xyz", Placement()
    if along == "z":
        times = by_time(frames, where)
        flat = single and len(frames) == 1
        ordered = [in_order(t, headers, where, affine, flat) for t in times]
        check_alike(ordered, where)
        frames = [frame for placed, _, _ in ordered for frame in placed]
        _, letters, placement = ordered[0]
        if len(times) > 1:
            places = len(times[0])
            on = (("t", len(times)), *((("z", places),) if places > 1 else ()))
        elif flat:
            on = (("t", 1),)
    elif spacing := frames[0][1].spacing:
        placement = Placement((1.0, spacing[0], spacing[1]), "millimeter")
    factors = _factors(where, headers, frames, rescale)
    planes = Frames(
        path=folder,
        files=tuple(h.file for h in headers),
        order=tuple((n, f.number) for n, f in frames),
        pixels=pixels,
        rescale=factors,
        dtype=_rescaled(pixels, factors),
        along=on,
    )
    axes, plane = [*(a for a, _ in on), "y", "x"], (pixels.rows, pixels.columns)
    return PlaneImage(
        name=where,
        planes=planes,
        axes=axes,
        sizes=[*(n for _, n in on), *plane],
        chunk=[*(1 for _ in on), *plane],
        dtype=planes.dtype,
        samples=pixels.samples if pixels.samples > 1 else None,
        channels=COLOURS[: pixels.samples] if pixels.samples > 1 else (),
        placement=placement,
        encoded=pixels.codec is not None,
        letters=renamed_axes(axes, letters),
    )


def _check_pixels(headers: Sequence[Header]) -> None:
    """Refuse files with different encodings of voxels."""
    first = headers[0]
    for header in headers:
        if header.pixels != first.pixels:
            raise VolumeError(
                f"{printable(header.file.name)} is {_differs(header.pixels, first.pixels)}, but "
                f"{printable(first.file.name)} is {_differs(first.pixels, header.pixels)}; the slices of a "
                "series must be alike: select the files of one volume by a glob"
            )


def _factors(
    where: str, headers: Sequence[Header], frames: Placed, rescale: bool
) -> tuple[tuple[float, float], ...]:
    """Return slope and intercept of all frames, or of each; empty for no scaling."""
    pixels, factors = headers[0].pixels, [f.rescale for _, f in frames]
    if rescale and any(h.lookup for h in headers):
        raise ValueError(
            f"{where} has a lookup table for its numbers, which is not supported; rescale=False opens them "
            "as they are stored"
        )
    if pixels.colour == "MONOCHROME1":
        warnings.warn(
            f"{where} is MONOCHROME1: small numbers are bright; they are opened as stored",
            stacklevel=7,
        )
    if len(set(factors)) == 1:
        factors = factors[:1]
    is_plain = not rescale or pixels.allocated == 1 or factors == [(1.0, 0.0)]
    return () if is_plain else tuple(factors)


def _differs(one: Pixels, other: Pixels) -> str:
    if one.text != other.text:
        return one.text
    return (
        f"{one.text} ({one.colour}, {one.stored} of {one.allocated} bits, stored as {one.syntax})"
    )


def _rescaled(pixels: Pixels, factors: Sequence[tuple[float, float]]) -> np.dtype:
    """The dtype of scaled numbers: integers for integer slopes and intercepts, else float64."""
    stored = pixels.dtype
    if not factors:
        return stored
    whole = all(s == int(s) and i == int(i) for s, i in factors)
    if not whole or stored.kind == "f":
        return np.dtype(np.float64)
    low = -(1 << (pixels.stored - 1)) if stored.kind == "i" else 0
    high = low + (1 << pixels.stored) - 1
    ends = [v * int(s) + int(i) for s, i in factors for v in (low, high)]
    for size in (1, 2, 4, 8):
        for kind in "ui":
            limits = np.iinfo(f"{kind}{size}")
            if size >= stored.itemsize and limits.min <= min(ends) and max(ends) <= limits.max:
                return np.dtype(f"{kind}{size}")
    return np.dtype(np.float64)
