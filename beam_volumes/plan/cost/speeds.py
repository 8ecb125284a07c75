"""Speeds of this machine, measured once by ``beam-volumes bench --calibrate``, and kept for plans."""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import platformdirs

from beam_volumes.kernels.jit import processor
from beam_volumes.plan.cost import machine
from beam_volumes.storage.places.single_file import write_file
from beam_volumes.version import __version__

#: Version of the document's layout; other versions are ignored.
_FORMAT = 1

#: How a run is carried out: in the calling process, or as a local pipeline of Beam.
PROCESS, PIPELINE = "process", "pipeline"


@dataclass(frozen=True)
class Fixed:
    """Seconds that do not depend on voxels, for one way to run."""

    run: float  #: Of a run in a fresh process.
    a_pass: float  #: Of each pass.
    survey: float  #: Of each merge across slabs.
    slab: float  #: Of each slab.
    kernel: float  #: To load a compiled kernel.


@dataclass(frozen=True)
class Speeds:
    """Measured speeds of this machine, in nanoseconds of one core unless noted."""

    #: By operation and dtypes: measured nanoseconds over the rough ones that the operation declares.
    costs: Mapping[str, float]
    read: Mapping[str, float]  #: For each decoded byte, by kind of source.
    write: Mapping[str, float]  #: For each byte before compression, by format, codec and dtype.
    unit: float  #: For each chunk that is read or unit that is written, in addition.
    fixed: Mapping[str, Fixed]  #: By `PROCESS` and `PIPELINE`.
    #: Seconds by the clock, times cores, for each second of processors that a sweep takes.
    overhead: float = 1.0
    date: str = ""  #: When it was measured.
    _found: dict[str, float] = field(default_factory=dict, init=False, compare=False, repr=False)

    def cost(self, operation: object, name: str, dtypes: Iterable[np.dtype]) -> float:
        """The factor of an operation; of the most similar measured ones if it was not measured."""
        key = operation_key(operation, name, dtypes)
        if key not in self._found:
            self._found[key] = self._nearest(key)
        return self._found[key]

    def _nearest(self, key: str) -> float:
        """The median factor of the operations that are most like one."""
        return _of_most_alike(self.costs, key) if self.costs else 1.0

    def comparing(self, model: str, ndim: int) -> float:
        """The factor of the comparisons of a registration."""
        return self._nearest(registration_key(model, ndim))

    def reading(self, kind: str) -> float:
        """Nanoseconds for a byte of a kind of source; the median of all kinds if it was not measured."""
        return self.read.get(kind) or statistics.median(self.read.values())

    def writing(self, kind: str) -> float:
        """The same for a format, codec and dtype, or the most similar ones that were measured."""
        return _of_most_alike(self.write, kind)


def _of_most_alike(measured: Mapping[str, float], key: str) -> float:
    """The median of the entries that share most words with a key: all, or the first two, or the first."""
    words = key.split(" ")
    entries = [(other.split(" "), value) for other, value in measured.items()]
    degrees: tuple[Callable[[list[str]], bool], ...] = (
        lambda other: other == words,
        lambda other: other[:2] == words[:2],
        lambda other: other[:1] + other[2:] == words[:1] + words[2:],
        lambda other: other[0] == words[0],
        lambda other: other[2:] == words[2:],
        lambda other: True,
    )
    for is_alike in degrees:
        if found := [value for other, value in entries if is_alike(other)]:
            return statistics.median(found)
    return 0.0


def operation_key(operation: object, name: str, dtypes: Iterable[np.dtype]) -> str:
    """The key of an operation in the document: its class, its name, and the dtypes of its inputs."""
    given = (np.dtype(dtype).str for dtype in dtypes)
    return " ".join((type(operation).__name__, name.replace(" ", "_"), *given))


def registration_key(model: str, ndim: int) -> str:
    """The key of the comparisons of a registration in the document."""
    return f"registration {model} {ndim}"


def document() -> Path:
    """The path of the speeds of this version of the package on this processor."""
    which = f"{processor()} {machine.cores()}"
    digest = hashlib.sha256(which.encode()).hexdigest()[:12]
    folder = platformdirs.user_data_path("beam_volumes", appauthor=False) / "speeds"
    return folder / f"{__version__}-{digest}.json"


def save(speeds: Speeds) -> Path:
    """Write the speeds atomically."""
    path = document()
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {k: v for k, v in asdict(speeds).items() if not k.startswith("_")}
    write_file(path, json.dumps({"format": _FORMAT, **content}, indent=1).encode())
    load.cache_clear()
    return path


@cache
def load() -> Speeds | None:
    """The speeds of this machine; None if they were not measured."""
    try:
        content = json.loads(document().read_text())
        if content.pop("format") != _FORMAT:
            return None
        content["fixed"] = {k: Fixed(**v) for k, v in content["fixed"].items()}
        return Speeds(**content)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
