"""The table of the branches of skeletons, from tables of their lengths, ends and junctions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.across.rounds.gathered import GatheredStep, Given
from beam_volumes.across.rounds.records import RecordRows, Records
from beam_volumes.across.tables import as_labels
from beam_volumes.kernels.labels.skeletons import INSIDE

#: Bytes for a branch.
BRANCH_BYTES = 700


@dataclass(frozen=True, eq=False)
class Branches(GatheredStep):
    """The rows of branches, sorted by label."""

    shape: tuple[int, ...]  #: Shape of the volume along its visible axes.
    spacing: tuple[float, ...]  #: Extent of a voxel along these axes.
    with_radius: bool  #: Whether the last input has the mean of the distances.

    gathered = "branches"
    remedy = ", or remove short branches or small objects first"

    @property
    def used(self) -> Mapping[str, tuple[tuple[str, ...], int]]:
        radii = {"radii": (("label", "intensity_mean"), 16)} if self.with_radius else {}
        return {
            "lengths": (("label", "num_pixels", "intensity_sum"), BRANCH_BYTES),
            "firsts": (("label", "intensity_min"), 16),
            "lasts": (("label", "intensity_max"), 16),
            "skeletons": (("label", "intensity_max"), 16),
            "junctions": (("label", "intensity_max"), 32),
            **radii,
        }

    @property
    def rows(self) -> RecordRows:
        ends = (f"{end}-{axis}" for end in ("start", "end") for axis in range(len(self.shape)))
        radius = (("radius_mean", "<f8"),) if self.with_radius else ()
        return RecordRows((
            *(("label", "<u8"), ("skeleton", "<u8"), ("branch_type", "|u1"), ("num_pixels", "<i8")),
            *(("length", "<f8"), ("distance", "<f8"), ("tortuosity", "<f8")),
            *((name, "<i8") for name in ends),
            *(("junction_start", "<u8"), ("junction_end", "<u8")),
            *radius,
        ))  # fmt: skip

    def made(self, given: Given) -> Records:
        found: dict[str, Any] = {}
        for entry, (label, *columns) in given.items():
            order = np.argsort(label)
            found[entry] = [column[order] for column in (label, *columns)]
        label, pixels, length = found["lengths"]
        first, last = (found[entry][1].astype(np.int64) for entry in ("firsts", "lasts"))
        is_cycle = first > INSIDE
        first = np.where(is_cycle, first - INSIDE, first)
        last = np.where(is_cycle, first, last)
        junctions = [self._junctions(found["junctions"], end) for end in (first, last)]
        ends = [np.unravel_index(end - 1, self.shape) for end in (first, last)]
        squares = np.zeros(len(label))
        for a, b, size in zip(*ends, self.spacing, strict=True):
            squares += ((b - a) * size) ** 2
        distance = np.sqrt(squares)
        with np.errstate(divide="ignore", invalid="ignore"):
            tortuosity = length / distance
        places = {
            f"{name}-{axis}": at
            for name, end in zip(("start", "end"), ends, strict=True)
            for axis, at in enumerate(end)
        }
        return self.rows.records(
            {
                "label": label,
                "skeleton": as_labels(found["skeletons"][1]),
                "branch_type": np.where(is_cycle, 3, sum((j > 0).astype(int) for j in junctions)),
                "num_pixels": pixels,
                "length": length,
                "distance": distance,
                "tortuosity": tortuosity,
                **places,
                "junction_start": junctions[0],
                "junction_end": junctions[1],
                "radius_mean": found["radii"][1] if self.with_radius else None,
            }
        )

    @staticmethod
    def _junctions(table: list[np.ndarray], end: np.ndarray) -> np.ndarray:
        """Return the junction of each position; 0 for positions of no junction."""
        places, labels = table
        if not len(places):
            return np.zeros(len(end), np.uint64)
        places = places.astype(np.int64)
        at = np.minimum(np.searchsorted(places, end), len(places) - 1)
        return np.where(places[at] == end, labels[at], 0)


def steps(spacing: tuple[float, float, float]) -> np.ndarray:
    """The length of the step to each voxel of 3 x 3 x 3.

    >>> steps((1.0, 1.0, 2.0))[[13, 14, 16, 26]].round(2)
    array([0.  , 2.  , 1.  , 2.45])
    """
    each = np.ndindex(3, 3, 3)
    return np.array([
        math.sqrt(sum(((i - 1) * s) ** 2 for i, s in zip(n, spacing, strict=True))) for n in each
    ])  # fmt: skip
