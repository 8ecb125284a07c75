"""`open_source`: arrays, specs, and places, of whichever format they are."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tensorstore as ts

from beam_volumes.storage.arrays import open_array
from beam_volumes.storage.formats.registry import formats
from beam_volumes.storage.formats.tensorstore_spec import open_spec
from beam_volumes.storage.place import Place, kvstore_spec, url
from beam_volumes.storage.source import Source, with_space


def open_source(
    path_or_spec: Any,
    *,
    voxel_size: float | Sequence[float] | None = None,
    unit: str | None = None,
    index: Mapping[str, int | str] | None = None,
    dataset: str | None = None,
    level: int | None = None,
) -> Source:
    """Open a volume for reading.

    Parameters
    ----------
    path_or_spec : str, os.PathLike, dict, tensorstore.TensorStore or numpy.ndarray
        A path or a ``file://``, ``s3://``, ``gs://`` or ``memory://`` URL of a zarr array, an
        OME-Zarr image or a folder (or glob) of slices; a TensorStore spec; an array.
    voxel_size : float or sequence of float, optional
        Per axis, or one for all; replaces what the file says.
    unit : str, optional
        The unit of ``voxel_size``, e.g. ``"nm"``.
    index : mapping, optional
        Which of the axes that are not z, y or x to take, e.g. ``{"t": 0, "c": "DAPI"}``.
    dataset : str, optional
        The path of an array or image inside a group.
    level : int, optional
        The level of an OME-Zarr pyramid, 0 (the default) being the finest.
    """
    what = _plain(path_or_spec)
    source = _open(what, index, dataset, level)
    if not isinstance(what, np.ndarray):
        asked = {"path_or_spec": what, "index": index, "dataset": dataset, "level": level}
        source = replace(source, asked=asked)
    return with_space(source, voxel_size, unit)


def reopened(source: Source) -> Source:
    """What is there now in place of a source that was opened once."""
    return source if source.asked is None else open_source(**source.asked)


def _plain(what: Any) -> Any:
    """What is to be opened as an array, a spec, or a place that other processes find too."""
    if isinstance(what, ts.TensorStore) and what.spec().to_json().get("driver") == "array":
        return np.asarray(what)
    if isinstance(what, ts.TensorStore | ts.Spec):
        return (what.spec() if isinstance(what, ts.TensorStore) else what).to_json()
    if isinstance(what, str | os.PathLike):
        return url(kvstore_spec(what))
    return what


def _open(
    what: Any, index: Mapping[str, int | str] | None, dataset: str | None, level: int | None
) -> Source:
    if isinstance(what, np.ndarray | dict):
        for option, value in (("dataset", dataset), ("level", level)):
            if value is not None:
                raise ValueError(f"{option}={value!r} is for paths and URLs only")
        if isinstance(what, np.ndarray):
            return open_array(what, index)
        if what.get("driver") in (None, "file", "memory", "gcs", "s3", "http"):
            raise ValueError(
                f"{url(kvstore_spec(what))} is no TensorStore spec of an array: it needs an "
                "array's 'driver' and a 'kvstore'"
            )
        return open_spec(what, index=index)
    if not isinstance(what, str):
        raise TypeError(
            f"cannot open a {type(what).__name__}; give a path, a URL, a TensorStore spec or a numpy array"
        )
    place = Place.of(what).remembering()
    for format in formats():
        source = format.open_place(place, index=index, dataset=dataset, level=level)
        if source is not None:
            return source
    raise _unknown(place)


def _unknown(place: Place) -> Exception:
    titles = ", ".join(f.title for f in formats() if f.title)
    supported = f"supported are {titles}, TensorStore specs and numpy arrays"
    if place.local is None:
        return FileNotFoundError(
            f"{place.text}: no zarr metadata and no slices found there; {supported}"
        )
    if not os.path.exists(place.local):
        return FileNotFoundError(f"{place.text} does not exist; {supported}")
    if os.path.isfile(place.local):
        return ValueError(f"{place.text} is a single file of no known format; {supported}")
    names = sorted(os.listdir(place.local))[:5]
    found = (
        f"it holds {', '.join(names)}{', ...' if len(names) == 5 else ''}"
        if names
        else "it is empty"
    )
    return ValueError(f"{place.text} is a directory of no known format: {found}; {supported}")
