"""Files that plugins of bioio read, on request: ``open(path, reader="bioio")``.

Planes are read one at a time, since plugins may not be thread-safe.
"""

from __future__ import annotations

import math
import os
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beam_volumes.base.text import printable
from beam_volumes.storage.formats.format import WHOLE, Format, OpenRequest, Options
from beam_volumes.storage.formats.planes import (
    COLOURS,
    PlaneImage,
    ReadPlane,
    named_part,
    refuse_colours,
)
from beam_volumes.storage.places.errors import VolumeError, needed
from beam_volumes.storage.places.place import Place
from beam_volumes.storage.places.positioned import kept_of
from beam_volumes.storage.sources.axes import Placement, converted
from beam_volumes.storage.sources.source import Source, TokenOfFields

_LETTERS = "TCZYXS"


@dataclass(frozen=True, eq=False)
class _Planes(TokenOfFields):
    """The planes of one scene; those with colours have samples."""

    path: str
    scene: int
    samples: bool

    names = None

    def open(self) -> ReadPlane:
        letters = "YXS" if self.samples else "YX"

        def read(at: Mapping[str, int], y: slice, x: slice) -> np.ndarray:
            where = {a.upper(): k for a, k in at.items() if a in "tcz"}
            try:
                image, lock = kept_of(f"bioio {self.scene}", self.path, self._opened)
                with lock, warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    lazy = image.get_image_dask_data(letters, **where)
                    return np.asarray(lazy[y, x].compute(scheduler="synchronous"))
            except (Exception, MemoryError) as error:
                raise VolumeError(
                    f"{printable(self.path)}: bioio cannot read {where or 'it'}: {_reason(error)}"
                ) from None

        return read

    def _opened(self) -> tuple[Any, threading.Lock]:
        """Return the scene and its lock."""
        return _opened(self.path, self.scene), threading.Lock()


class Bioio(Format):
    """One scene of a file."""

    title = "files of bioio's plugins"
    open_options: ClassVar[Options] = {
        "reader": (
            '``"bioio"``',
            "Open a file with bioio and its plugins, such as bioio-bioformats, one plane at a time.",
        )
    }

    def open_place(self, place: Place, request: OpenRequest = WHOLE) -> Source | None:
        reader, path = request.option("reader"), place.local
        if reader is None:
            return None
        if reader != "bioio":
            raise ValueError(f'reader={reader!r} is not supported; omit it, or give "bioio"')
        if path is None:
            raise ValueError(f"{place.text}: bioio only reads local files; copy it to a disk")
        if not os.path.exists(path):
            raise FileNotFoundError(f"{place.text} does not exist")
        if request.level is not None:
            raise ValueError(f"level={request.level}: bioio reads no levels; omit it")
        needed("bioio", "bioio", f'reader="bioio" was given for {place.text}')
        image = _opened(path, None)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = _image(place.text, path, image, request.dataset)
                return found.source(request)
        except (ValueError, OSError):
            raise
        except (Exception, MemoryError) as error:
            raise VolumeError(
                f"{printable(path)}: bioio cannot read it: {_reason(error)}"
            ) from None


FORMATS = (Bioio(),)


def _opened(path: str, scene: int | None) -> Any:
    from bioio import BioImage

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = BioImage(path)
            if scene is not None:
                image.set_scene(scene)
            return image
    except (Exception, MemoryError) as error:
        raise VolumeError(f"{printable(path)}: bioio cannot read it: {_reason(error)}") from None


def _reason(error: BaseException) -> str:
    return printable((str(error) or type(error).__name__).splitlines()[0][:300])


def _image(where: str, path: str, image: Any, dataset: str | None) -> PlaneImage:
    if not image.scenes:
        raise VolumeError(f"{printable(path)}: bioio cannot read it: it found no image")
    scene = named_part(dataset, len(image.scenes), [str(s) for s in image.scenes], where, "scene")
    image.set_scene(scene)
    order = str(image.dims.order)
    extents = dict(zip(order, (int(n) for n in image.shape), strict=True))
    other = [a for a in order if a not in _LETTERS]
    if other or not {"Y", "X"} <= set(order) or min(extents.values()) < 1:
        shown = ", ".join(f"{a}: {n}" for a, n in extents.items())
        raise ValueError(
            f"{where} has the axes {shown}; the supported axes are {', '.join(_LETTERS)}"
        )
    samples, channels = extents.get("S", 1), extents.get("C", 1)
    refuse_colours(where, channels, samples)
    axes = [a for a in "TCZ" if a in extents and not (a == "C" and channels == 1)]
    plane = [extents["Y"], extents["X"]]
    names = [str(n) for n in image.channel_names or ()]
    if "S" in extents:
        names = list(COLOURS[:samples])
    return PlaneImage(
        name=where,
        planes=_Planes(path, scene, "S" in extents),
        axes=[*(a.lower() for a in axes), "y", "x"],
        sizes=[*(extents[a] for a in axes), *plane],
        chunk=[*(1 for _ in axes), *plane],
        dtype=np.dtype(image.dtype).newbyteorder("="),
        samples=extents.get("S"),
        channels=names if len(names) == max(channels, samples) else (),
        placement=_placement(image, extents),
    )


def _placement(image: Any, extents: Mapping[str, int]) -> Placement:
    """Return the voxel size and unit, as far as the plugin reports them."""
    found = [getattr(image.physical_pixel_sizes, a, None) for a in "ZYX"]
    if found[0] is None and extents.get("Z", 1) == 1:
        found[0] = 1.0
    sizes = [float(v) for v in found if isinstance(v, int | float) and math.isfinite(v) and v > 0]
    if len(sizes) < 3:
        return Placement()
    units = [
        str(getattr(getattr(image.dimension_properties, a, None), "unit", None) or "")
        for a in "ZYX"
    ]
    if extents.get("Z", 1) == 1:
        units[0] = units[1]
    unit, (lengths,) = converted(units, sizes)
    if lengths is None:
        return Placement()
    return Placement((lengths[0], lengths[1], lengths[2]), unit)
