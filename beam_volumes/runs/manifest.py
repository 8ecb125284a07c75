"""The manifest of a run: enough to continue it, and to refuse other runs."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, NamedTuple

from beam_volumes.base.text import lined_json, parsed_json

FORMAT = 3


class Difference(NamedTuple):
    """A field in which two fingerprints differ; None is a missing one."""

    field: str
    first: Any
    second: Any

    def __str__(self) -> str:
        return f"{self.field}: {self.first!r} became {self.second!r}"


@dataclass(frozen=True)
class Manifest:
    """The identity and the partition of a run, as plain JSON."""

    run_id: str  #: Differs between runs with the same output.
    #: Everything that determines the result, by name: ``{"input:em": ..., "step:gaussian_filter#3":
    #: ...}``. Only a run with an equal fingerprint can continue it.
    fingerprint: dict[str, Any]
    #: The partition of each pass: slab grid, window, number of slabs.
    passes: list[dict[str, Any]] = field(default_factory=list)
    #: Outputs: the arguments of a sink's `from_dict`, and whether it is ``internal``, which means
    #: removed at the end.
    outputs: list[Any] = field(default_factory=list)
    #: The plan's numbers, for comparison with measurements.
    predicted: dict[str, Any] = field(default_factory=dict)
    #: Versions of this package, and of Python (``"3.11"``).
    package: str = ""
    python: str = ""
    #: Why only the program that began the run can continue it, or "".
    closed: str = ""
    created: float = field(default_factory=time.time)  #: Seconds since the epoch.
    #: Provenance of the outputs, from `session.provenance`.
    about: dict[str, Any] = field(default_factory=dict)
    #: The `storage.stamps` of the inputs, by name.
    inputs: dict[str, Any] = field(default_factory=dict)
    #: Replaced runs that are deleted in parts: the number of slabs of each pass, by run.
    replaced: dict[str, list[int]] = field(default_factory=dict)
    format: int = FORMAT

    def to_json(self) -> bytes:
        return lined_json({f.name: getattr(self, f.name) for f in fields(self)})

    @classmethod
    @lru_cache(maxsize=4)
    def from_json(cls, text: str | bytes, place: str = "manifest") -> Manifest:
        """Parse JSON; raises ValueError with ``place``. A run parses its manifest several times."""
        try:
            data = parsed_json(text)
            known = {f.name for f in fields(cls)}
            if data["format"] == FORMAT:
                return cls(**{k: v for k, v in data.items() if k in known})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(
                f"{place} is damaged ({error}); the run cannot be resumed: use overwrite=True"
            ) from error
        raise ValueError(
            f"{place} has format {data['format']}, but this version of beam_volumes reads "
            f"{FORMAT}; resume with the version that wrote it, or use overwrite=True"
        )


def compare(first: Manifest, second: Manifest) -> list[Difference]:
    """The fields in which the fingerprints of two manifests differ.

    >>> old = Manifest("a", {"step:gaussian_filter#1": "sigma=1", "input:em": "x"})
    >>> new = Manifest("b", {"step:gaussian_filter#1": "sigma=2", "input:em": "x"})
    >>> print(*compare(old, new))
    step:gaussian_filter#1: 'sigma=1' became 'sigma=2'
    """
    # Compared as JSON, because the stored one has lists instead of tuples.
    a, b = (json.loads(json.dumps(m.fingerprint)) for m in (first, second))
    return [
        Difference(name, a.get(name), b.get(name))
        for name in dict.fromkeys([*a, *b])
        if (name in a) != (name in b) or a[name] != b[name]
    ]
