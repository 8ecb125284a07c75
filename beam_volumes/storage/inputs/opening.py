"""`open_source`: open arrays, specs and places of any format."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tensorstore as ts

from beam_volumes.base.space import METRES, ImpossibleSpace
from beam_volumes.base.text import printable
from beam_volumes.storage.formats import unfinished
from beam_volumes.storage.formats.chunked.tensorstore_spec import open_spec
from beam_volumes.storage.formats.format import WHOLE, Format, OpenRequest
from beam_volumes.storage.formats.hdf5.files import split
from beam_volumes.storage.formats.registry import formats, open_options
from beam_volumes.storage.inputs.arrays import open_array
from beam_volumes.storage.inputs.objects import ArrayObject, described, is_array_object, open_object
from beam_volumes.storage.inputs.renaming import letters_of, pointed, renamed
from beam_volumes.storage.places.errors import VolumeError
from beam_volumes.storage.places.place import Place, is_pattern, kvstore_spec, url
from beam_volumes.storage.sources.axes import UnclearSize, stated_space
from beam_volumes.storage.sources.numbered import ZEROS
from beam_volumes.storage.sources.source import Source
from beam_volumes.storage.sources.stack import matching, on_top, with_stand_ins

#: The options that are independent of the format.
_EVERYWHERE = ("voxel_size", "unit", "origin", "axes", "index", "dataset", "level", "mpp")

#: Slides with a nominal 0.25 micrometers per pixel have 0.2425 to 0.2625.
_NEARLY = 1.05

#: Lists up to this length are opened completely before anything is read.
_MANY = 256

#: A format after a place.
_FOLLOWS = re.compile(r"\|([a-z0-9-]+):$")


def open_source(
    path_or_spec: Any,
    *,
    voxel_size: float | Sequence[float] | None = None,
    unit: str | None = None,
    origin: float | Sequence[float] | None = None,
    axes: str | Sequence[str] | None = None,
    index: Mapping[str, int | str] | None = None,
    dataset: str | None = None,
    level: int | None = None,
    mpp: float | None = None,
    **options: Any,
) -> Source:
    """Open a volume for reading: a path, URL, spec or array, or a list or glob of these, stacked along z.

    The parameters are described in `beam_volumes.open`; options of formats that are None count as not given.
    """
    what = path_or_spec
    space_given: dict[str, Any] = {"voxel_size": voxel_size, "unit": unit, "origin": origin}
    if is_array_object(what):
        found = described(what)
        what = found.what
        if found.dataset is not None:
            dataset = found.dataset if dataset is None else f"{found.dataset}/{dataset}"
        space_given = {
            name: found.space.get(name) if v is None else v for name, v in space_given.items()
        }
    what = _plain(what)
    given = _known(options)
    letters = () if axes is None else letters_of(axes)
    taken = {axis: at for axis, at in (index or {}).items() if axis in letters}
    first = {axis: at for axis, at in (index or {}).items() if axis not in letters} or None
    dataset = None if dataset is None else str(dataset)  # series have numbers
    if dataset is not None and ".." in re.split(r"[/\\]", dataset):
        raise ValueError(f"dataset={dataset!r} leads out of the file; open that array by its path")
    request = OpenRequest(first, dataset, level, given)
    is_array = is_array_object(path_or_spec) or isinstance(what, dict | np.ndarray)
    request = OpenRequest(first, dataset, level, given, keep=is_array or bool(letters))
    source, request = _opened(what, request, mpp, space_given["voxel_size"] is not None)
    if letters:
        source = pointed(renamed(source, letters, not is_array), taken)
    if _is_stored(what):
        unfinished.warn(unfinished.of_extents(source.reader.extents))
        asked = {
            "path_or_spec": what,
            "index": index,
            "dataset": dataset,
            "level": request.level,
            **({"axes": axes} if letters else {}),
            **request.options,
        }
        source = replace(source, asked=asked)
    return replace(source, space=stated_space(source.space, source.name, **space_given))


def _known(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are not None; each must be an option of some format."""
    given = {name: value for name, value in options.items() if value is not None}
    known = open_options()
    for name, value in given.items():
        if name not in known:
            raise TypeError(
                f"there is no option {name}={value!r} of open; the options are "
                f"{', '.join([*_EVERYWHERE, *known])}"
            )
    return given


def _opened(
    what: Any, request: OpenRequest, mpp: float | None, has_size: bool
) -> tuple[Source, OpenRequest]:
    """Return the source, and the request with the level and options that opened it."""
    try:
        if mpp is not None:
            request = replace(request, level=_level_of(what, mpp, request))
        try:
            return _open(what, request), request
        except UnclearSize:
            if not has_size or "affine" in request.options:
                raise
            request = replace(request, options={**request.options, "affine": "drop"})
            return _open(what, request), request
    except (ValueError, OSError) as error:
        place = Place.of(_scheme_of(what)[1]).local if isinstance(what, str) else None
        run = None if place is None else unfinished.at(place)
        if run is not None and len(error.args) == 1:
            error.args = (f"{error}; {run}",)
        raise


def reopened(source: Source) -> Source:
    if source.asked is None:
        return source
    asked = dict(source.asked)
    points = asked.pop("points", ())
    now = open_source(**asked)
    for axis, at in points:
        now = now.point(axis, at)
    return now


def _plain(what: Any) -> Any:
    """Return an input as an array, a spec, or a place that other processes can open."""
    if isinstance(what, str) and "://" not in what and not what.endswith(":"):
        return os.path.abspath(os.path.expanduser(what))  # fast, for long lists
    if isinstance(what, ts.TensorStore) and what.spec().to_json().get("driver") == "array":
        return np.asarray(what)
    if isinstance(what, ts.TensorStore | ts.Spec):
        return (what.spec() if isinstance(what, ts.TensorStore) else what).to_json()
    if isinstance(what, list | tuple):
        return [_plain(item) for item in what]
    if is_array_object(what):  # one of a list
        found = described(what)
        return found.what if found.dataset is None else ArrayObject(what, "zyx", "h5py")
    if isinstance(what, str | os.PathLike):
        scheme, text = _scheme_of(os.fspath(what))
        spec = kvstore_spec(text)
        return scheme + (text if spec["driver"] == "http" else url(spec))
    return what


def asked_at(place: str) -> tuple[Place, Sequence[Format]]:
    """Return the place of a path or URL, and the candidate formats: one if it has a scheme."""
    scheme, text = _scheme_of(place)
    name = scheme.removesuffix("://")
    candidates = [f for f in formats() if not scheme or name in f.schemes]
    found = Place.of(text).remembering()
    _check_kind(found)
    return found, candidates


def local_paths(path: str) -> Iterator[str]:
    """Yield the local files and folders that `open_source` opens for a path, without opening them.

    A pattern comes before its matches. Formats around a place, and datasets after a colon, are removed.

    >>> [*local_paths("file:///no/such/../folder/a.zarr|zarr3:")], [*local_paths("s3://bucket/a")]
    (['/no/folder/a.zarr'], [])
    """
    scheme, text = _scheme_of(str(_plain(path)))
    place = Place.of(text).local
    if place is None:
        return
    yield place
    if not is_pattern(place):
        if (file := split(place)[0]) != place:
            yield file
        return
    with contextlib.suppress(FileNotFoundError):
        for name in matching(place) or ():
            yield from local_paths(scheme + name)


def members(path: str) -> list[str]:
    """Return the paths of the volumes of a collection, such as a plate; empty otherwise."""
    place, candidates = asked_at(path)
    found = next((names for names in (f.members(place) for f in candidates) if names), ())
    return [f"{path.rstrip('/')}/{name}" for name in found]


def _scheme_of(text: str) -> tuple[str, str]:
    """Split a format's name before or after a place, as in Neuroglancer, from the place.

    >>> _scheme_of("n5://s3://bucket/a")
    ('n5://', 's3://bucket/a')
    >>> _scheme_of("s3://bucket/a.zip|zip:|zarr3:")
    ('zip://', 's3://bucket/a.zip')
    """
    known = {scheme for f in formats() for scheme in f.schemes}
    name, mark, place = text.partition("://")
    if mark and name in known:
        return name + mark, place
    scheme = ""
    while (match := _FOLLOWS.search(text)) and match[1] in known:
        scheme, text = f"{match[1]}://", text[: match.start()]
    return scheme, text


def _is_stored(what: Any) -> bool:
    """Whether an input is a place or a spec, or a list of these."""
    if isinstance(what, list):
        return all(map(_is_stored, what))
    return not isinstance(what, np.ndarray | ArrayObject)


def _open(what: Any, request: OpenRequest) -> Source:
    if isinstance(what, list):
        known = (str, dict, list, np.ndarray, ArrayObject)
        if not what or not all(isinstance(item, known) for item in what):
            kinds = ", ".join(sorted({type(item).__name__ for item in what})) or "nothing"
            raise TypeError(
                f"cannot open a list of {kinds}; give paths, URLs, TensorStore specs or numpy arrays"
                + ("; bv.concatenate joins volumes" if "Volume" in kinds else "")
            )
        return _stacked(what, request)
    if isinstance(what, str):
        return _open_place(what, request)
    if not isinstance(what, np.ndarray | ArrayObject | dict):
        raise TypeError(
            f"cannot open an object of type {type(what).__name__}; give a path, a URL, a TensorStore spec "
            "or an array"
        )
    given = {"dataset": request.dataset, "level": request.level, **request.options}
    for option, value in given.items():
        if value is not None:
            raise ValueError(f"{option}={value!r} is for paths and URLs only")
    if isinstance(what, np.ndarray):
        return open_array(what, request)
    if isinstance(what, ArrayObject):
        return open_object(what, request)
    if what.get("driver") in (None, "file", "memory", "gcs", "s3", "http"):
        raise ValueError(
            f"{url(kvstore_spec(what))} is not a TensorStore spec of an array; it needs an "
            "array's 'driver' and a 'kvstore'"
        )
    return open_spec(what, request=request)


def _open_place(what: str, request: OpenRequest) -> Source:
    place, candidates = asked_at(what)
    for format in candidates:
        own = request.of_format(format)
        try:
            source = format.open_place(place, own)
        except ImpossibleSpace as error:
            raise ValueError(f"{printable(place.text)} has {error}") from None
        if source is None:
            continue
        for name, value in request.options.items():
            if name not in own.options:
                having = ", ".join(f.title for f in formats() if name in f.open_options)
                raise ValueError(
                    f"{name}={value!r} is for {having}; {place.text} is {format.title}"
                )
        if place.local is None:
            is_folder = getattr(source.reader, "folder", False)
            unfinished.warn(unfinished.in_bucket(place, is_folder))
        return source
    names = None if place.local is None else matching(place.local)
    if names is not None:
        scheme, _ = _scheme_of(what)
        return _stacked([scheme + name for name in names], request, place.text)
    raise _unknown(place, candidates)


def _level_of(what: Any, mpp: float, request: OpenRequest) -> int | None:
    """Return the coarsest level with pixels up to ``mpp`` micrometers; None without levels."""
    if isinstance(mpp, bool) or not isinstance(mpp, int | float) or not 0 < mpp < float("inf"):
        raise ValueError(f"mpp={mpp!r}: give the size of a pixel in micrometers, such as mpp=0.5")
    if request.level is not None:
        raise ValueError(
            f"mpp={mpp!r} and level={request.level!r}: each chooses a level; give one of them"
        )
    if not isinstance(what, str):
        raise ValueError(f"mpp={mpp!r} is for paths and URLs only")
    place, candidates = asked_at(what)
    listings = (format.listing(place, request.dataset) for format in candidates)
    levels = next((len(found.levels) for found in listings if found is not None), 0)
    sizes = []
    for k in range(max(levels, 1)):
        space = _open(what, replace(request, level=k if levels else None)).space
        if space.voxel_size is None or space.unit not in METRES:
            raise ValueError(f"mpp={mpp!r}: {place.text} has no pixel size; choose by level=")
        micrometers = float(METRES[space.unit]) / float(METRES["micrometer"])
        sizes.append(max(space.voxel_size[1:]) * micrometers)
    fine = [k for k, size in enumerate(sizes) if size <= mpp * _NEARLY]
    if not fine:
        known = ", ".join(f"{size:.4g}" for size in sizes)
        raise ValueError(
            f"mpp={mpp!r} is less than the pixels of {place.text}; its levels have {known} micrometers"
        )
    return fine[-1] if levels else None


def _check_kind(place: Place) -> None:
    """Refuse pipes, which would block for ever, and other special files."""
    path = place.local
    if (
        path is not None
        and os.path.exists(path)
        and not (os.path.isfile(path) or os.path.isdir(path))
    ):
        raise ValueError(
            f"{place.text} is a pipe, a socket or a device; write its content to a file, and open that"
        )


def _stacked(items: Sequence[Any], request: OpenRequest, name: str | None = None) -> Source:
    """Open volumes as a stack; slices may be missing if ``missing=`` chooses their replacement."""
    missing = request.option("missing")
    if missing not in ("repeat", "fill"):
        is_plain = request.index is None and request.dataset is None and request.level is None
        many = _many(items) if is_plain else None
        if many is not None:
            return many
        parts = [_open(item, request) for item in items]
        _refuse_sets(parts)
        return on_top(parts, name or _several(parts))
    found: list[Source | None] = []
    for item in items:
        try:
            found.append(_open(item, request))
        except FileNotFoundError as error:
            if not isinstance(item, str) or is_pattern(item):
                raise
            found.append(None)
            absent = error
    names = [part.name if part else str(item) for part, item in zip(found, items, strict=True)]
    if not any(found):
        raise absent
    parts, instead = with_stand_ins(found, names, missing)
    lost = {names[z]: ZEROS if k is None else names[k] for z, k in instead.items()}
    return on_top(parts, name or _several(parts), instead, lost)


def _refuse_sets(parts: Sequence[Source]) -> None:
    """Refuse files of one OME-TIFF set: each of them opens the whole volume."""
    sets: dict[Any, Source] = {}
    for part in parts:
        places = getattr(part.reader, "places", ())  # of TIFF files
        if len(places) > 1:
            first = sets.setdefault(frozenset(map(url, places)), part)
            if first.name != part.name:
                raise ValueError(
                    f"{printable(first.name)} and {printable(part.name)} are files of one set, and each "
                    "opens the whole volume; open one of them"
                )


def _many(items: Sequence[Any]) -> Source | None:
    """Open a long list of files without checking each; None if that is not possible."""
    if len(items) <= _MANY:
        return None
    if not all(isinstance(item, str) and "://" not in item for item in items):
        return None
    return None if any(map(is_pattern, items)) else open_many(items)


def open_many(paths: Sequence[str]) -> Source | None:
    """Open local files as slices, reading the first one only; None if it is no slice."""
    first = _open(paths[0], WHOLE)
    found = (format.open_many(paths, first) for format in formats())
    source = next((source for source in found if source is not None), None)
    return source and replace(source, asked={"path_or_spec": list(paths)})


def _several(parts: Sequence[Source]) -> str:
    return f"{parts[0].name} and {len(parts) - 1} more" if len(parts) > 1 else parts[0].name


#: Suffixes of formats that are recognized by the first bytes of a file.
_BY_CONTENT = (".czi", ".nd2", ".h5", ".hdf5", ".ims", ".npy")

_OTHERS = 'reader="bioio" opens what the plugins of bioio read'


def _unknown(place: Place, candidates: Sequence[Format]) -> Exception:
    if place.local is None:
        try:
            # Without a cache, a refused request is an error: see `Place.remembering`.
            Place(place.spec).read("zarr.json")
        except OSError as error:
            return error
    titles = ", ".join(f.title for f in candidates if f.title and "reader" not in f.open_options)
    if len(candidates) < len(formats()):
        return FileNotFoundError(f"{place.text}: there is no {titles.replace(', ', ' and no ')}")
    supported = f"supported are {titles}, TensorStore specs and numpy arrays"
    if place.local is None:
        return FileNotFoundError(f"{place.text}: no known format was found there; {supported}")
    if not os.path.exists(place.local):
        return FileNotFoundError(f"{place.text} does not exist; {supported}")
    ending = os.path.splitext(place.local)[1].lower()
    if os.path.isfile(place.local) and ending in _BY_CONTENT:
        return VolumeError(
            f"{place.text} does not begin as {ending} files do; restore it, or give it the suffix of its "
            "format"
        )
    if os.path.isfile(place.local):
        return ValueError(f"{place.text} is a file of an unknown format; {supported}; {_OTHERS}")
    if not os.path.isdir(place.local):
        return ValueError(f"{place.text} is neither a file nor a directory; {supported}")
    names = sorted(os.listdir(place.local))[:5]
    found = (
        f"it contains {', '.join(names)}{', ...' if len(names) == 5 else ''}"
        if names
        else "it is empty"
    )
    return ValueError(f"{place.text} is a directory of an unknown format: {found}; {supported}")
