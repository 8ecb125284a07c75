"""Tiles and their transforms in files of BigStitcher, TeraStitcher and multiview-stitcher."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, TypeVar
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np

from beam_volumes.base.space import Space
from beam_volumes.base.text import printable
from beam_volumes.storage.formats.chunked.zarr import find, read_array
from beam_volumes.storage.formats.metadata import RefusedXml, parsed_xml
from beam_volumes.storage.formats.slices.format import SUFFIXES
from beam_volumes.storage.places.outside import named_file
from beam_volumes.storage.places.place import Place
from beam_volumes.storage.sources.axes import unit_name
from beam_volumes.storage.sources.numbered import in_natural_order

#: Maximum size of a file: BigStitcher needs about a kilobyte for each tile.
_MAX_BYTES = 1 << 28

#: Words of BigStitcher for lengths without a unit.
_NO_UNITS = ("", "pixel", "pixels", "px")

_Id = TypeVar("_Id")


@dataclass(frozen=True)
class ProjectTile:
    """A tile of a project; ``matrix``, (3, 4), maps its indices to positions in voxels."""

    path: str | list[str]  #: Or files that are stacked along z
    matrix: np.ndarray
    voxel_size: Sequence[float] | None = None
    unit: str | None = None
    dataset: str | None = None
    index: Mapping[str, Any] = field(default_factory=dict)  #: Along t and c, where it has them
    view: tuple[str, str] = ("", "")  #: BigStitcher's numbers of time point and setup
    depth: int | None = None  #: The number of slices that the project declares
    #: The extent of these voxels in the unit of BigStitcher's registrations
    voxel: np.ndarray = field(default_factory=lambda: np.ones(3))
    #: Added to indices: BigStitcher maps the first voxel's index to the same position at any voxel
    #: size, so a large voxel would begin before a small one
    corner: np.ndarray = field(default_factory=lambda: np.zeros(3))


def read_xml(path: str) -> Element:
    """Parse a file; nothing else is read."""
    if os.path.getsize(path) > _MAX_BYTES:
        raise ValueError(f"{path} is larger than {_MAX_BYTES >> 20} MiB; give a table of tiles")
    with open(path, "rb") as file:
        data = file.read()
    try:
        return parsed_xml(data)
    except RefusedXml as error:
        raise ValueError(f"{path}: {error}") from None
    except (ElementTree.ParseError, ValueError) as error:
        raise ValueError(f"{path} is not valid XML: {error}; restore it") from None


def project_tiles(path: str, index: Mapping[str, Any]) -> list[ProjectTile]:
    """Return the tiles of one channel and one time point."""
    root = read_xml(path)
    readers = {"SpimData": _of_bigstitcher, "TeraStitcher": _of_terastitcher}
    if root.tag not in readers:
        raise ValueError(
            f"{path} is XML of {printable(root.tag)}, not of BigStitcher (SpimData) or TeraStitcher; give "
            "a table of tiles"
        )
    if unknown := [a for a in index if a not in ("t", "c")]:
        raise ValueError(
            f"{path} has no axis {unknown[0]!r} to choose from; index has t and c only"
        )
    try:
        return readers[root.tag](path, root, index)
    except KeyError as error:
        raise ValueError(f"{path} is incomplete: there is no {error}; restore it") from None
    except ValueError as error:
        if not str(error).startswith("invalid literal"):
            raise
        raise ValueError(f"{path} has text in place of a number: {error}; restore it") from None


def _of_bigstitcher(path: str, root: Element, index: Mapping[str, Any]) -> list[ProjectTile]:
    setups = _by_id(path, root.iter("ViewSetup"), lambda s: _number(_text(s, "id")))
    gone = {*map(_view_of, root.iter("MissingView"))}
    views = _by_id(path, root.iter("ViewRegistration"), _view_of)
    times = {t for t, _ in {*views} - gone}
    if not times:
        raise KeyError("ViewRegistration")
    time = _time(path, sorted(times, key=int), index)
    there = {s for s in setups if (time, s) not in gone}
    chosen = sorted(_channel(path, root, setups, there, index), key=int)
    if lost := [s for s in chosen if (time, s) not in views]:
        raise ValueError(
            f"{path}: the setup {lost[0]} has no ViewRegistration at the time point {time}; restore it"
        )
    base = (root.findtext("BasePath") or ".").strip()
    loader = root.find("SequenceDescription/ImageLoader")
    if loader is None or loader.get("format") not in _LOADERS:
        given = "none" if loader is None else repr(loader.get("format"))
        raise ValueError(
            f"{path}: images of the loader {given} are not supported; resave them in BigStitcher "
            "as HDF5, N5 or OME-Zarr, or give a table of tiles"
        )
    image = _LOADERS[loader.get("format", "")](loader, base, path)
    matrices = np.stack([_matrix(path, views[time, s]) for s in chosen])
    flat = np.linalg.det(matrices[:, :, :3]) == 0
    if flat.any():
        raise ValueError(
            f"{path}: the registration of the setup {chosen[int(flat.argmax())]} has no inverse; restore it"
        )
    sizes = [_voxel_size(path, s, setups[s]) for s in chosen]
    common = next((u for _, u in sizes if u), None)
    extents = np.array([[np.nan] * 3 if s is None else _in(common, s, u) for s, u in sizes])
    voxel = _voxel(matrices, extents, *_calibration(path, views[time, chosen[0]]))
    matrices /= voxel[:, None]
    whole = np.rint(matrices[:, :, :3])
    matrices[:, :, :3] = np.where(abs(matrices[:, :, :3] - whole) < 1e-9, whole, matrices[:, :, :3])
    corners = np.nan_to_num(1 - extents[0] / extents) / 2
    result = []
    for k, setup in enumerate(chosen):
        where, dataset, at = image(time, setup)
        where = named_file(path, where)
        matrices[k, :, 3] += matrices[k, :, :3] @ corners[k]
        size, unit = sizes[k]
        view = (time, setup)
        result.append(
            ProjectTile(
                where, matrices[k], size, unit, dataset, at, view, voxel=voxel, corner=corners[k]
            )
        )
    return result


def _voxel(
    matrices: np.ndarray,
    known: np.ndarray,
    calibration: np.ndarray | None,
    is_named: bool,
) -> np.ndarray:
    """Return the extent z, y, x of a voxel of the first tile in the registrations' unit of length."""
    # Registrations map voxels to that unit, and do not name it. It is the smallest extent of a voxel for
    # BigStitcher and the unit of the voxel sizes for BigDataViewer. The extents of voxels show which, except
    # for small changes of size by a registration.
    if calibration is not None and is_named:
        return calibration
    extents = np.linalg.norm(matrices[:, :, :3], axis=1)
    if np.isnan(known).all():
        known = extents  # voxels are as large as they are registered
    first = known[0] if not np.isnan(known[0]).any() else extents[0] * np.nanmedian(known / extents)
    linear = abs(matrices[:, :, :3])
    inner = np.einsum("taa->ta", linear)
    along = np.nanmedian(known / extents, axis=0)  # units of voxel sizes in one of registrations
    is_turned = (linear - inner[:, :, None] * np.eye(3) > 0.3 * inner[:, None]).any()
    if is_turned or along.max() < 1.1 * along.min():
        along = np.full(3, np.nanmedian(known / extents))
    exact = [] if calibration is None else [calibration]
    for voxel in (*exact, first / np.nanmin(known), first):
        if (abs(first / along / voxel - 1) < 0.1).all():
            return voxel
    return first / along


def _in(unit: str | None, size: Sequence[float], own: str | None) -> list[float]:
    """Return a voxel size in another unit."""
    z, y, x = size
    return list(Space(voxel_size=(z, y, x), unit=own).in_unit(unit).voxel_size or size)


def _number(text: str) -> str:
    """Return the number of a view or a setup, such as 1 of ``" 01"``."""
    return str(int(text))


def _by_id(
    path: str, elements: Iterable[Element], id_of: Callable[[Element], _Id]
) -> dict[_Id, Element]:
    """Return elements by their numbers, which differ."""
    found: dict[_Id, Element] = {}
    for element in elements:
        key = id_of(element)
        if key in found:
            raise ValueError(f"{path} has {element.tag} {key} twice; number them differently")
        found[key] = element
    return found


def is_of_stitcher(path: str) -> bool:
    """Whether multiview-stitcher has stored a tile, a tree of xarray with transforms, at a path."""
    return find(Place.of(path).below("scale0", "image")) is not None


def stitcher_tile(path: str, key: str | None, time: int) -> ProjectTile:
    """Return a tile of multiview-stitcher; ``key`` is the name of the transform."""
    scale = Place.of(path).below("scale0")
    nodes = {name: find(scale.below(name)) for name in scale.folders("")}
    arrays = {name: node for name, node in nodes.items() if node is not None and node.is_array}
    known = sorted(name for name in arrays if name not in ("image", *"tczyx", "x_in", "x_out"))
    if not known:
        raise ValueError(f"open_tiles: {path} has no transforms; give a table of tiles")
    if key not in known and (key is not None or len(known) != 1):
        raise ValueError(
            f"open_tiles: {path} has the transforms {', '.join(known)}; choose one by transform_key="
        )
    stored = read_array(arrays[key or known[0]])
    affine = stored[min(time, len(stored) - 1)] if stored.ndim == 3 else stored
    n = sum(a in arrays for a in "zyx") or 3
    if affine.shape != (n + 1, n + 1) or not np.isfinite(affine).all():
        raise ValueError(
            f"open_tiles: the transform {key or known[0]} of {path} is not a homogeneous matrix "
            f"of {n} axes; choose a different one by transform_key="
        )
    size, origin, own = np.ones(3), np.zeros(3), np.eye(4)
    for a, name in enumerate("zyx"):
        if name in arrays:
            at = read_array(arrays[name])
            origin[a], size[a] = at[0], at[1] - at[0] if len(at) > 1 else 1.0
            if not 0 < size[a] < np.inf or not np.allclose(np.diff(at), size[a], rtol=1e-3, atol=0):
                raise ValueError(
                    f"open_tiles: the coordinates {name} of {path} do not increase in equal steps; give a "
                    "table of tiles"
                )
    own[3 - n :, 3 - n :] = affine
    matrix = own[:3] @ np.block([[np.diag(size), origin[:, None]], [np.zeros(3), np.ones(1)]])
    where = f"{path.rstrip('/')}/scale0/image"
    return ProjectTile(where, matrix / size[:, None], size.tolist())


def _view_of(view: Element) -> tuple[str, str]:
    """Return the numbers of the time point and the setup of a view."""
    return _number(view.attrib["timepoint"]), _number(view.attrib["setup"])


def _element(parent: Element, name: str) -> Element:
    found = parent.find(name)
    if found is None:
        raise KeyError(name)
    return found


def _text(element: Element, name: str) -> str:
    found = element.findtext(name)
    if found is None:
        raise KeyError(name)
    return found.strip()


def _time(path: str, times: Sequence[str], index: Mapping[str, Any]) -> str:
    if "t" not in index and len(times) == 1:
        return times[0]
    if "t" not in index or str(index["t"]) not in times:
        raise ValueError(
            f"{path} has the time points {', '.join(times)}; choose one by index={{'t': ...}}"
        )
    return str(index["t"])


def _channel(
    path: str,
    root: Element,
    setups: Mapping[str, Element],
    there: set[str],
    index: Mapping[str, Any],
) -> set[str]:
    """Return the setups of the selected channel."""
    names = {
        _text(c, "id"): (c.findtext("name") or "").strip()
        for a in root.iter("Attributes")
        if a.get("name") == "channel"
        for c in a
    }
    channels = {s: (setups[s].findtext("attributes/channel") or "0").strip() for s in there}
    given = sorted({*channels.values()}, key=lambda c: (len(c), c))
    if "c" not in index and len(given) <= 1:
        return there
    found = [c for c in given if str(index.get("c")) in (c, names.get(c))]
    if not found:
        shown = ", ".join(f"{c} ({names[c]})" if names.get(c) else c for c in given)
        raise ValueError(f"{path} has the channels {shown}; choose one by index={{'c': ...}}")
    return {s for s, c in channels.items() if c == found[0]}


def _calibration(path: str, view: Element) -> tuple[np.ndarray | None, bool]:
    """Return the scales z, y and x of a view's calibration, and whether it has this name.

    Without this name, it is the transform that the view applies first. None if that is more than scales.
    """
    transforms = view.findall("ViewTransform")
    named = [t for t in transforms if (t.findtext("Name") or "").strip().lower() == "calibration"]
    if not transforms:
        return None, False
    matrix = _affine(path, (named or transforms)[-1])[:3, :3]
    scale = matrix.diagonal().copy()
    is_scale = (scale > 0).all() and (matrix == np.diag(scale)).all()
    return scale if is_scale else None, bool(named)


def _matrix(path: str, view: Element) -> np.ndarray:
    """Return the product of a view's transforms: the last one is applied first."""
    result = np.eye(4)
    for transform in view.findall("ViewTransform"):
        result = result @ _affine(path, transform)
    return result[:3]


def _affine(path: str, transform: Element) -> np.ndarray:
    """Return a transform as a homogeneous matrix of z, y and x."""
    result = np.eye(4)
    try:
        numbers = np.array((transform.findtext("affine") or "").split(), np.float64)
        rows = numbers.reshape(3, 4)
    except ValueError:
        rows = np.full((3, 4), np.nan)
    if not np.isfinite(rows).all():
        raise ValueError(
            f"{path}: the transform {printable(transform.findtext('Name') or '')!r} has no affine matrix "
            "of 12 numbers; restore it"
        )
    result[:3, :3], result[:3, 3] = rows[::-1, 2::-1], rows[::-1, 3]
    return result


def _voxel_size(path: str, number: str, setup: Element) -> tuple[list[float] | None, str | None]:
    """Return voxel size z, y, x and unit, if the setup has them."""
    if setup.find("voxelSize") is None:
        return None, None
    text = (setup.findtext("voxelSize/size") or "").strip()
    try:
        size = [_length(n) for n in text.split()]
    except ValueError:
        size = []
    if len(size) != 3:
        raise ValueError(
            f"{path}: voxelSize/size of the ViewSetup {number} is {printable(text)!r}, not three positive "
            "numbers; correct it, or remove voxelSize"
        )
    unit = (setup.findtext("voxelSize/unit") or "").strip()
    if unit.lower() in _NO_UNITS:
        return size[::-1], None
    try:
        return size[::-1], unit_name(unit)
    except ValueError:
        raise ValueError(
            f"{path}: voxelSize/unit of the ViewSetup {number} is {printable(unit)!r}, not a unit of "
            "length; correct it, for example to µm, or remove voxelSize"
        ) from None


def _length(text: str) -> float:
    """Return a positive number."""
    if not 0 < (found := float(text)) < np.inf:
        raise ValueError(text)
    return found


_Image = Callable[[str, str], tuple[str, str | None, dict[str, int]]]


def _named(loader: Element, base: str, tag: str) -> str:
    """Return a path that a loader names, relative to the project's folder."""
    return os.path.join(base, _text(loader, tag).removeprefix("file:"))


def _in_hdf5(loader: Element, base: str, _: str) -> _Image:
    path = _named(loader, base, "hdf5")
    return lambda t, s: (path, f"t{int(t):05d}/s{int(s):02d}/0/cells", {})


def _in_n5(loader: Element, base: str, _: str) -> _Image:
    path = _named(loader, base, "n5")
    return lambda t, s: (os.path.join(path, f"setup{s}", f"timepoint{t}", "s0"), None, {})


def _in_zarr(loader: Element, base: str, path: str) -> _Image:
    folder = _named(loader, base, "zarr")

    def view_of(group: Element) -> tuple[str, str]:
        time = group.get("timepoint") or group.get("tp") or "0"
        return _number(time), _number(group.attrib["setup"])

    groups = _by_id(path, loader.iter("zgroup"), view_of)

    def image(t: str, s: str) -> tuple[str, str | None, dict[str, int]]:
        place = groups[t, s].get("path") or _text(groups[t, s], "path")
        at = (groups[t, s].get("indicies") or "0 0").split()  # spelt like this, of c and t
        return os.path.join(folder, place), None, dict(zip("ct", map(int, at), strict=False))

    return image


def _in_files(loader: Element, base: str, path: str) -> _Image:
    def view_of(entry: Element) -> tuple[str, str]:
        return _number(entry.attrib["timepoint"]), _number(entry.attrib["view_setup"])

    files = _by_id(path, loader.iter("FileMapping"), view_of)

    def image(t: str, s: str) -> tuple[str, str | None, dict[str, int]]:
        series = int(files[t, s].get("series") or 0)
        index = {"c": int(files[t, s].get("channel") or 0), "t": 0}
        return _named(files[t, s], base, "file"), str(series) if series else None, index

    return image


#: How BigStitcher's loaders of images store the view of a time point and a setup.
_LOADERS: dict[str, Callable[[Element, str, str], _Image]] = {
    "bdv.hdf5": _in_hdf5,
    "bdv.n5": _in_n5,
    "bdv.multimg.zarr": _in_zarr,
    "spimreconstruction.filemap2": _in_files,
}


def _of_terastitcher(path: str, root: Element, index: Mapping[str, Any]) -> list[ProjectTile]:
    folder = _element(root, "stacks_dir").get("value", "")
    if not os.path.isdir(os.path.join(os.path.dirname(path), folder)):  # the project was moved
        folder = "."
    voxels = _element(root, "voxel_dims").attrib
    known = []
    for a in "DVH":
        text = voxels.get(a, "").strip()
        try:
            known.append(_length(text.removeprefix("-")))  # a negative one is of a reversed axis
        except ValueError:
            raise ValueError(
                f"{path}: voxel_dims has {a}={printable(text)!r}, not a length in micrometers; correct it"
            ) from None
    in_blocks = "3Dseries" in root.get("volume_format", "")
    result = []
    for stack in root.iter("Stack"):
        if not stack.get("Z_RANGES", "all").strip(" ;"):  # it has no images
            continue
        where = named_file(path, os.path.join(folder, stack.attrib["DIR_NAME"]))
        try:
            place = [float(stack.attrib[f"ABS_{a}"]) for a in "DVH"]
        except ValueError as error:
            raise ValueError(f"{path}: a position is not a number: {error}; restore it") from None
        if not np.isfinite(place).all():
            raise ValueError(
                f"{path}: the Stack {printable(stack.attrib['DIR_NAME'])!r} has the position {place} along "
                "D, V and H, not finite numbers; restore it"
            )
        number = stack.get("SERIES_NO", "")
        series = number if number.isdigit() else None
        for first, depth, images in _runs(path, where, stack, in_blocks):
            at = np.add(place, (first, 0, 0))
            matrix = np.concatenate([np.eye(3), at[:, None]], axis=1)
            result.append(
                ProjectTile(images, matrix, known, "micrometer", series, index, depth=depth)
            )
    return result


def _runs(
    path: str, where: str, stack: Element, in_blocks: bool
) -> list[tuple[int, int | None, list[str]]]:
    """Return a stack's runs of consecutive slices: the first one, their number, and their files."""
    files = _files_of(path, where, stack)
    ranges = _ranges(path, stack)
    if not in_blocks:
        depth = sum(stop - start for start, stop in ranges) if ranges else len(files)
        if depth != len(files):
            raise ValueError(
                f"{path} has {depth} slices of {where} in Z_RANGES={stack.get('Z_RANGES')!r}, but there are "
                f"{len(files)} images; restore them, or choose them by IMG_REGEX"
            )
        blocks = [(z, 1) for start, stop in ranges or [(0, depth)] for z in range(start, stop)]
    else:
        sizes = _numbers(path, stack, "BLOCK_SIZES")
        if len(ranges) > 1 and not sizes:
            raise ValueError(f"{path} has Z_RANGES of {where} without BLOCK_SIZES; restore it")
        if not sizes:
            return [(z, stop - z, files) for z, stop in ranges] or [(0, None, files)]
        starts = _numbers(path, stack, "BLOCKS_ABS_D") or [0, *accumulate(sizes[:-1])]
        if len(starts) != len(sizes):
            raise ValueError(
                f"{path} has {len(sizes)} BLOCK_SIZES and {len(starts)} BLOCKS_ABS_D; restore it"
            )
        blocks = list(zip(starts, sizes, strict=True))
        if len(blocks) != len(files):  # those without images have no file
            blocks = [b for b in blocks if any(start <= b[0] < stop for start, stop in ranges)]
        if len(blocks) != len(files):
            raise ValueError(
                f"{path} has {len(sizes)} BLOCK_SIZES for {where}, but there are {len(files)} files; restore "
                "them, or choose them by IMG_REGEX"
            )
    runs: list[tuple[int, int, list[str]]] = []
    for (z, size), file in zip(blocks, files, strict=True):
        first, depth, before = runs[-1] if runs else (0, 0, [])
        if runs and z == first + depth:
            runs[-1] = (first, depth + size, [*before, file])
        else:
            runs.append((z, size, [file]))
    return list(runs)


def _files_of(path: str, where: str, stack: Element) -> list[str]:
    """Return the images in a folder that belong to a stack, in order."""
    if not os.path.isdir(where):
        raise FileNotFoundError(f"{path}: the folder {printable(where)} of a stack does not exist")
    with os.scandir(where) as entries:
        names = [e.name for e in entries if not e.name.startswith(".") and e.is_file()]
    pattern = (stack.get("IMG_REGEX") or "").strip()
    if pattern:
        if _SLOW.search(pattern):
            raise ValueError(
                f"{path}: IMG_REGEX={printable(pattern)!r} has groups or repeats that may take for ever; "
                "simplify it, or give a table of tiles"
            )
        try:
            names = [name for name in names if re.fullmatch(pattern, name)]
        except re.error as error:
            raise ValueError(
                f"{path}: IMG_REGEX={printable(pattern)!r} is not a regular expression: {error}"
            ) from None
    else:
        names = [name for name in names if name.lower().endswith(SUFFIXES)]
    if not names:
        raise FileNotFoundError(
            f"{path}: the folder {printable(where)} has no images"
            + (f" that match IMG_REGEX={printable(pattern)!r}" if pattern else "")
        )
    return [os.path.join(where, name) for name in in_natural_order(names)]


#: Repeated groups, references to groups, and many repeats.
_SLOW = re.compile(r"\)[*+{]|\\[1-9]|(?:[*+{].*){5}", re.S)


def _ranges(path: str, stack: Element) -> list[tuple[int, int]]:
    """Return the ranges of slices that have images; empty if they are not stored."""
    text = "".join((stack.get("Z_RANGES") or "").split())
    found: list[tuple[int, int]] = []
    for part in filter(None, text.split(";")):
        match = re.fullmatch(r"\[(\d+),(\d+)\)", part)
        start, stop = map(int, match.groups()) if match else (0, 0)
        if start >= stop or (found and start < found[-1][1]):
            raise ValueError(
                f"{path}: Z_RANGES={printable(text)!r} is not made of increasing ranges, such as "
                "'[0,10);[20,30)'; restore it"
            )
        found.append((start, stop))
    return found


def _numbers(path: str, stack: Element, name: str) -> list[int]:
    """Return the whole numbers of an attribute."""
    text = stack.get(name) or ""
    try:
        return [int(n) for n in filter(None, map(str.strip, text.split(",")))]
    except ValueError:
        raise ValueError(
            f"{path}: {name}={printable(text)!r} is not made of numbers; restore it"
        ) from None


def with_registrations(path: str, matrices: np.ndarray, tiles: Sequence[ProjectTile]) -> bytes:
    """Return BigStitcher's file with other transforms, (tiles, 3, 4), of some views.

    Positions have the same unit as before.
    """
    root = read_xml(path)
    if root.tag != "SpimData":
        raise ValueError(f"{path} is not XML of BigStitcher (SpimData); write a .csv file")
    found = _by_id(path, root.iter("ViewRegistration"), _view_of)
    for tile, matrix in zip(tiles, matrices, strict=True):
        view, scale = found[tile.view], tile.voxel
        place = matrix[:, 3] - matrix[:, :3] @ tile.corner
        for old in view.findall("ViewTransform"):
            view.remove(old)
        linear = matrix[:, :3] * scale[:, None] / scale
        moved = np.concatenate([linear, (place * scale)[:, None]], axis=1)
        calibration = np.concatenate([np.diag(scale), np.zeros((3, 1))], axis=1)
        for name, affine in (("beam_volumes", moved), ("calibration", calibration)):
            transform = ElementTree.SubElement(view, "ViewTransform", type="affine")
            ElementTree.SubElement(transform, "Name").text = name
            rows = np.concatenate([affine[::-1, 2::-1], affine[::-1, 3:]], axis=1)
            text = " ".join(repr(float(n) + 0.0) for n in rows.ravel())
            ElementTree.SubElement(transform, "affine").text = text
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="UTF-8", xml_declaration=True)
