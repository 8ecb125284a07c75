"""Find the array of an HDF5 file to open, with its axes, voxel size and levels.

Programs have their own paths and metadata for volumes (`programs`). Files are untrusted: invalid
metadata count as missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from beam_volumes.base.space import AXES
from beam_volumes.base.text import parsed_json, printable
from beam_volumes.storage.formats.format import Listing, level_among
from beam_volumes.storage.formats.hdf5.arrays import (
    Array,
    attribute,
    dtype_of,
    got,
    in_unit,
    is_dataset,
    is_positive,
    is_volume,
    number_of,
    spatial,
    texts_of,
)
from beam_volumes.storage.formats.hdf5.programs import by_program, of_program
from beam_volumes.storage.sources.axes import DEFAULT_AXES, letters_of_axes
from beam_volumes.storage.sources.source import DTYPES

#: Objects of a file that are inspected to find its volumes, and the number of listed ones.
_LOOKED_AT, _LISTED = 20_000, 30
#: Maximal number of levels that are listed.
_LEVELS = 32


def find(file: Any, name: str, dataset: str | None, level: int | None) -> Array:
    """Return the requested array of an open file; refuse to choose among several."""
    if dataset is None:
        return by_program(file, name, level) or _in_group(file, file, name, level)
    node = got(file, dataset)
    if node is None:
        raise ValueError(f"dataset={dataset!r} does not exist in {_listing(file, name)}")
    if not is_dataset(node):
        return _in_group(file, node, name, level)
    if level is not None:
        raise ValueError(
            f"level={level}: {name}:{printable(node.name)} is one array; give the group of its levels, "
            "or omit level="
        )
    return _dataset(file, node, name)


def listing(file: Any, name: str, dataset: str | None) -> Listing | None:
    """List the contents of an open file or a group; None for a dataset."""
    group = file if dataset is None else got(file, dataset)
    if group is None or is_dataset(group):
        return None
    try:
        find(file, name, dataset, None)
    except ValueError:
        found, is_all = _volumes(group)
        names = tuple(str(n.name) for n in found)
        return Listing(names, is_volume=False, is_all=is_all, what="an HDF5 file")
    levels: list[str] = []
    for level in range(_LEVELS):
        try:
            levels.append(str(find(file, name, dataset, level).node.name))
        except ValueError:  # there are no more levels
            break
    return Listing(levels=tuple(levels) if len(levels) > 1 else ())


def _volumes(group: Any) -> tuple[list[Any], bool]:
    """Return the datasets of voxels in a group, and whether all objects were inspected.

    Each object counts once, for any number of links. External and soft links are not followed.
    """
    # h5py's ``visititems`` crashes on some damaged files.
    found: list[Any] = []
    visited: set[Any] = set()
    groups = [group]
    looked_at = 0
    while groups:
        inside = groups.pop(0)
        try:
            names = list(islice(inside, _LOOKED_AT - looked_at + 1))
        except Exception:  # damaged
            continue
        for name in names:
            looked_at += 1
            if looked_at > _LOOKED_AT:
                return found, False
            try:
                if type(inside.get(name, getlink=True)).__name__ != "HardLink":
                    continue
            except Exception:
                continue
            node = got(inside, name)
            # The number of the file and the address of the object make this hash.
            if node is None or (key := hash(node.id)) in visited:
                continue
            visited.add(key)
            if is_volume(node):
                found.append(node)
            elif hasattr(node, "keys") and not is_dataset(node):
                groups.append(node)
    return sorted(found, key=lambda node: node.name), True


def _in_group(file: Any, group: Any, name: str, level: int | None) -> Array:
    """Return the only volume of a group, or its level."""
    found, _ = _volumes(group)
    levels = _levels(group, found)
    if levels:
        level = level_among(level, len(levels), f"{name}:{printable(group.name)}")
        return _of_level(file, levels, level, name)
    if level is not None:
        raise ValueError(f"level={level}: there are no levels in {_listing(group, name)}")
    deep = [node for node in found if len(node.shape) > 2]
    chosen = deep or found
    if len(chosen) != 1:
        what = "choose an array by dataset=" if found else "there is no array to open"
        raise ValueError(f"{what} in {_listing(group, name)}")
    return _dataset(file, chosen[0], name)


def _listing(group: Any, name: str) -> str:
    """Describe a file or group, and the volumes inside."""
    where = name if group.name == "/" else f"{name}:{printable(group.name)}"
    found, is_all = _volumes(group)
    shown = ", ".join(
        f"{printable(node.name)} ({' x '.join(map(str, node.shape))} {dtype_of(node)})"
        for node in found[:_LISTED]
    )
    if len(found) > _LISTED:
        shown += f" and {len(found) - _LISTED} more"
    if not is_all:
        shown += f" (of its first {_LOOKED_AT:,} objects)"
    return f"{where}, which contains {shown or 'no dataset of voxels with 2 to 5 dimensions'}"


def _levels(group: Any, found: Sequence[Any]) -> list[Any]:
    """Return the datasets ``s0``, ``s1``, ... if all volumes of a group are levels, else none."""
    parents = {node.name.rpartition("/")[0] for node in found}
    names = sorted((node.name.rpartition("/")[2] for node in found), key=lambda n: (len(n), n))
    if len(parents) != 1 or names != [f"s{k}" for k in range(len(names))] or len(names) < 2:
        return []
    by_name = {node.name.rpartition("/")[2]: node for node in found}
    if len({len(node.shape) for node in found}) > 1:
        return []
    return [by_name[n] for n in names]


def _of_level(file: Any, levels: Sequence[Any], level: int, name: str) -> Array:
    """Return a level; without a voxel size, it is computed from the finest level's."""
    array = _dataset(file, levels[level], name)
    finest = _dataset(file, levels[0], name)
    if array.voxel_size is not None or finest.voxel_size is None or level == 0:
        return array
    axes = array.axes or tuple(DEFAULT_AXES[len(levels[0].shape)])
    factor = {
        a: max(1.0, float(round(n / max(1, m))))
        for a, n, m in zip(axes, levels[0].shape, levels[level].shape, strict=True)
    }
    by = [factor.get(a, 1.0) for a in AXES]
    z, y, x = (s * f for s, f in zip(finest.voxel_size, by, strict=True))
    first = [
        o + s * (f - 1) / 2 for o, s, f in zip(finest.origin, finest.voxel_size, by, strict=True)
    ]
    return replace(
        array, voxel_size=(z, y, x), origin=(first[0], first[1], first[2]), unit=finest.unit
    )


def _dataset(file: Any, node: Any, name: str) -> Array:
    """Return a dataset by its attributes, or by its path if a program uses that path."""
    if dtype_of(node) is None:
        known = ", ".join(d.name for d in DTYPES)
        raise ValueError(
            f"{name}:{printable(node.name)} has the type {_type_of(node)}; voxels are one of {known}"
        )
    known_place = of_program(file, node)
    if known_place is not None:
        return known_place
    axes = _axes(node)
    names = axes or tuple(DEFAULT_AXES.get(len(node.shape), ()))
    stated = attribute(node, "channels")
    channels = () if stated is None else tuple(texts_of(stated))
    array = Array(node, axes=axes, channels=channels, is_mask=number_of(node, "bool") == 1)
    size = spatial(node, "voxel_size", names)
    if size is not None and is_positive(size):  # this package's attributes, also used by others
        first = spatial(node, "origin", names) or spatial(node, "offset", names)
        unit, (size, first) = in_unit(node, names, None, size, first)
        return replace(array, voxel_size=size, origin=first or (0.0, 0.0, 0.0), unit=unit)
    size = spatial(node, "element_size_um", names)
    if size is not None and is_positive(size):
        return replace(array, voxel_size=size, unit="micrometer")
    size = spatial(node, "resolution", names)
    if size is not None and is_positive(size):
        first = spatial(node, "offset", names)
        unit, (size, first) = in_unit(node, names, "nanometer", size, first)  # CREMI's
        return replace(array, voxel_size=size, origin=first or (0.0, 0.0, 0.0), unit=unit)
    unit, (first,) = in_unit(node, names, None, spatial(node, "origin", names))
    return array if first is None else replace(array, origin=first, unit=unit)


def _type_of(node: Any) -> str:
    try:
        return str(node.dtype)
    except Exception:
        return "unknown to h5py"


def _axes(node: Any) -> tuple[str, ...] | None:
    """Return the names of a dataset's dimensions, if they are the axes of a volume."""
    for names in _names(node):
        singular = ["c" if name.lower() == "channels" else name for name in names]
        letters = letters_of_axes(singular, len(node.shape))
        if letters is not None:
            return letters
    return None


def _names(node: Any) -> Iterator[Sequence[str]]:
    stated = attribute(node, "axes")
    if stated is not None:
        texts = texts_of(stated)
        yield list(texts[0]) if len(texts) == 1 else texts
    stated = attribute(node, "axistags")  # vigra's, of ilastik
    if stated is not None:
        try:
            tags = parsed_json("".join(texts_of(stated)))["axes"]
            yield [str(tag["key"]) for tag in tags]
        except (ValueError, KeyError, TypeError):
            pass
    stated = attribute(node, "DIMENSION_LABELS")
    if stated is not None:
        yield texts_of(stated)
    try:
        yield [next(iter(node.dims[d].keys()), "") for d in range(len(node.shape))]
    except Exception:
        return
