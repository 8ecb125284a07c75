"""A mapping in memory that is looked up by key, as one that is stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.across.rounds.lookup import Mapping
from beam_volumes.ops.labels.surveys.mappings import mapping_arrays
from beam_volumes.sweep.stage import digest


@dataclass(frozen=True, eq=False)
class ArrayMapping(Mapping):
    """A mapping in memory, in one part."""

    labels: np.ndarray  #: uint64
    values: np.ndarray

    @classmethod
    def of(cls, mapping: Any, name: str = "relabel") -> ArrayMapping:
        """Of a dict, or two arrays of labels and of values."""
        labels, values = mapping_arrays(mapping, name)
        return cls(values.dtype, len(labels), labels, values)

    def parts(self) -> Iterable[tuple[int, ...]]:
        return [(0,)]

    def read(self, part: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        return self.labels, self.values

    def token(self) -> str:
        return digest("ArrayMapping", self.labels, self.values)
