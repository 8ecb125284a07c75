"""Read slabs of many volumes that are elements."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.transforms.display import DisplayDataItem
from apache_beam.typehints import Tuple, Union, with_input_types, with_output_types

from beam_volumes.graph.opening import open as open_volume
from beam_volumes.graph.volume import Volume
from beam_volumes.plan.cut.in_place import Named, inputs_below
from beam_volumes.plan.cut.passes import Levels
from beam_volumes.storage.places.outside import trusted, trusting
from beam_volumes.transforms import pipeline_metrics
from beam_volumes.transforms.failures import Excepting
from beam_volumes.transforms.slab import KeyedSlab, Slab, SlabKey
from beam_volumes.transforms.steps.grids import HaloLike
from beam_volumes.transforms.steps.slabs import (
    ReadSlabs,
    function_name,
    read_slab,
    source_names,
)

#: Volumes that a worker keeps open.
_KEPT, _KNOWN = 8, 1000
#: The inputs of volumes that this process has opened, by the volume's name.
_inputs: dict[str, tuple[Named, ...]] = {}


def inputs_of(volume: str) -> tuple[Named, ...]:
    """Return the inputs of a volume, if this process has opened it."""
    return _inputs.get(volume, ())


#: A volume's name, what to open, and the number of its slabs, or of one of them.
_Planned: Any = Tuple[str, Any, int]


@with_input_types(Union[str, os.PathLike, Tuple[str, Any]])
@with_output_types(KeyedSlab)
class ReadAll(Excepting, beam.PTransform):
    """Read all volumes of a PCollection as slabs: paths or specs to ``(SlabKey, Slab)``.

    Use it if the volumes are only known while the pipeline runs. They are opened and divided in the
    workers. The ``volume`` of a key is the name of the slab's volume.

    Parameters
    ----------
    function : callable, optional
        A function that maps an element to a `Volume`, either opened or an expression of pointwise
        and neighbourhood functions. `beam_volumes.open` by default.
    depth : int, default: 32
        Number of slices of a slab's core.
    tile : pair of int, optional
        Rows and columns of a slab's core, if whole planes are too large.
    halo : int or sequence, default: 0
        Number of additional voxels around the core of each slab, as in `ReadSlabs`.

    Raises
    ------
    TypeError
        If ``function`` is not callable. In a worker, if an element is neither a path nor a pair of
        a name and an argument of ``function``.
    ValueError
        In a worker, for the same reasons as in `ReadSlabs`. The message contains the volume's name.

    See Also
    --------
    ReadSlabs : reads one volume that is known when the pipeline is made.
    ComputeAll : computes each volume as a whole.

    Notes
    -----
    Elements are paths, which are also the volumes' names, or pairs of a name and an argument of
    ``function``. Volumes with different names are different volumes.

    Examples
    --------
    >>> import apache_beam as beam
    >>> for name in "ab":
    ...     _ = bv.compute(bv.open(np.zeros((5, 8, 8), "u1")).to(f"{name}.zarr"), runner=None)
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     slabs = p | beam.Create(["a.zarr", "b.zarr"]) | bv.ReadAll(depth=4)
    ...     _ = slabs | bv.WriteSlabs(lambda name: f"copy-of-{name}", chunks=(4, 8, 8))
    >>> bv.open("copy-of-b.zarr").shape
    (5, 8, 8)
    """

    def __init__(
        self,
        function: Callable[[Any], Volume] | None = None,
        depth: int = 32,
        tile: tuple[int, int] | None = None,
        halo: HaloLike = 0,
    ):
        super().__init__()
        if function is not None and not callable(function):
            raise TypeError(f"ReadAll: {function!r} is not a function from an element to a Volume")
        self.opened = Opened(function, depth, tile, halo)

    def expand(self, elements: beam.PCollection) -> Any:
        # A volume that cannot be opened is one failure, before it is divided into slabs.
        out = self.tried(elements, "Plan", partial(_planned, opened=self.opened), _Planned, _what)
        plans, unopened = out if isinstance(out, tuple) else (out, None)
        slabs = plans | "Slabs" >> beam.FlatMap(_slabs).with_output_types(_Planned)
        spread = slabs | "Spread" >> beam.Reshuffle()
        out = self.tried(spread, "Read", partial(_read, opened=self.opened), KeyedSlab, _where)
        if unopened is None:
            return out
        good, bad = out
        return good, (unopened, bad) | "Bad" >> beam.Flatten()

    def display_data(self) -> dict[str, Any]:
        return {
            "function": DisplayDataItem(
                function_name(self.opened.function or open_volume), label="Opens"
            ),
            "depth": DisplayDataItem(self.opened.how[0], label="Slices of a slab"),
        }


class Opened:
    """Volumes of elements, divided into slabs; each process keeps the last few open."""

    def __init__(self, function: Callable[[Any], Volume] | None, *how: Any):
        self.function, self.how, self.trusted = function, how, frozenset(trusted)
        self.kept: dict[str, ReadSlabs] = {}

    def __call__(self, name: str, what: Any) -> ReadSlabs:
        if name not in self.kept:
            with trusting(self.trusted):
                volume = (self.function or open_volume)(what)
            if not isinstance(volume, Volume):
                raise TypeError(
                    f"ReadAll: for {name} the function returned {volume!r}, not a Volume"
                )
            while len(self.kept) >= _KEPT:
                self.kept.pop(next(iter(self.kept)), None)
            self.kept[name] = ReadSlabs(volume, *self.how)
            _inputs[name] = inputs_below(Levels([volume.node], []))
            while len(_inputs) > _KNOWN:
                _inputs.pop(next(iter(_inputs)), None)
        return self.kept[name]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "kept": {}}


def _named(element: Any) -> tuple[str, Any]:
    if isinstance(element, str | os.PathLike):
        return os.fspath(element), element
    if isinstance(element, tuple) and len(element) == 2 and isinstance(element[0], str):
        return element[0], element[1]
    raise TypeError(
        f"ReadAll accepts paths, or pairs (name, argument of the function), not {element!r}"
    )


def _planned(element: Any, opened: Opened) -> tuple[str, Any, int]:
    name, what = _named(element)
    try:
        return name, what, len(opened(name, what).grid)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{name}: {error}") from error


def _slabs(plan: tuple[str, Any, int]) -> Iterator[tuple[str, Any, int]]:
    name, what, count = plan
    for index in range(count):
        yield name, what, index


def _read(slab: tuple[str, Any, int], opened: Opened) -> tuple[SlabKey, Slab]:
    name, what, index = slab
    cut = opened(name, what)
    found = read_slab(index, cut.volume, cut.grid, cut.halo, name)  # type: ignore[arg-type]
    pipeline_metrics.reads(source_names(cut.volume))
    return found.key, found


def _what(element: Any) -> tuple[str, str, str]:
    return (element if isinstance(element, str) else repr(element)[:300]), "", "open"


def _where(slab: tuple[str, Any, int]) -> tuple[str, str, str]:
    return slab[0], "", f"read slab {slab[2]}"
