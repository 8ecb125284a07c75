"""What a run is: enough to continue it, and to refuse to continue another one."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

from beam_volumes.base.text import parsed_json

FORMAT = 2


class Difference(NamedTuple):
    """One field in which two fingerprints differ; None stands for a missing one."""

    field: str
    first: Any
    second: Any

    def __str__(self) -> str:
        return f"{self.field}: {self.first!r} became {self.second!r}"


@dataclass(frozen=True)
class Manifest:
    """The identity and the partition of a run, as plain JSON."""

    run_id: str  #: Differs between two runs into the same output.
    #: What the result depends on, by name: ``{"input:em": ..., "step:gaussian_filter#3": ...}``. A
    #: run may be resumed by one with an equal fingerprint.
    fingerprint: dict[str, Any]
    #: The partition of each pass: slab grid, window, number of slabs.
    passes: list[dict[str, Any]] = field(default_factory=list)
    #: What is written, and where: what `from_dict` of a sink takes, and whether it is ``internal``,
    #: that is removed when the run ends.
    outputs: list[Any] = field(default_factory=list)
    #: The plan's numbers, to be compared with what was measured.
    predicted: dict[str, Any] = field(default_factory=dict)
    #: `package`, `python`: Versions of this package, and of Python (``"3.11"``).
    package: str = ""
    python: str = ""
    #: Why nobody but the program that began the run can continue it, if that is so.
    closed: str = ""
    created: float = field(default_factory=time.time)  #: Seconds since the epoch.
    #: What the outputs are made of, as `session.provenance` tells it.
    about: dict[str, Any] = field(default_factory=dict)
    #: The `storage.stamps` of the inputs, by their names.
    inputs: dict[str, Any] = field(default_factory=dict)
    format: int = FORMAT

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str | bytes, place: str = "manifest") -> Manifest:
        """Parse, or raise ValueError naming ``place``."""
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
            f"{place} has format {data['format']}, this version of beam_volumes reads {FORMAT}; "
            "resume with the version that wrote it, or use overwrite=True"
        )


def compare(first: Manifest, second: Manifest) -> list[Difference]:
    """The fields in which the fingerprints of two manifests differ.

    >>> old = Manifest("a", {"step:gaussian_filter#1": "sigma=1", "input:em": "x"})
    >>> new = Manifest("b", {"step:gaussian_filter#1": "sigma=2", "input:em": "x"})
    >>> print(*compare(old, new))
    step:gaussian_filter#1: 'sigma=1' became 'sigma=2'
    """
    # Through JSON, as the stored one has been: tuples are lists there.
    a, b = (json.loads(json.dumps(m.fingerprint)) for m in (first, second))
    return [
        Difference(name, a.get(name), b.get(name))
        for name in dict.fromkeys([*a, *b])
        if (name in a) != (name in b) or a[name] != b[name]
    ]
