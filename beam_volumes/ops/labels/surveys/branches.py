"""The table of the branches of skeletons, from tables of their lengths, ends and junctions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from beam_volumes.across.rounds.joined import Given, JoinedStep
from beam_volumes.across.rounds.records import RecordRows, Records
from beam_volumes.across.tables import as_labels
from beam_volumes.kernels.labels.skeletons import INSIDE


@dataclass(frozen=True, eq=False)
class Branches(JoinedStep):
    """The rows of branches, sorted by label."""

    shape: tuple[int, ...]  #: Shape of the volume along its visible axes.
    spacing: tuple[float, ...]  #: Extent of a voxel along these axes.
    with_radius: bool  #: Whether there is an input with the mean of the distances.

    row_bytes = 700
    joined = "branches"
    looked_up = "junctions"

    @property
    def used(self) -> Mapping[str, tuple[str, ...]]:
        radii = {"radii": ("label", "intensity_mean")} if self.with_radius else {}
        return {
            "lengths": ("label", "num_pixels", "intensity_sum"),
            "firsts": ("label", "intensity_min"),
            "lasts": ("label", "intensity_max"),
            "skeletons": ("label", "intensity_max"),
            **radii,
            "junctions": ("label", "intensity_max"),
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

    def keys(self, given: Given) -> np.ndarray:
        return np.concatenate(self._ends(given)[:2]).astype(np.uint64)

    @staticmethod
    def _ends(given: Given) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return both ends of each branch, and whether it is a cycle."""
        first, last = (given[entry][1].astype(np.int64) for entry in ("firsts", "lasts"))
        is_cycle = first > INSIDE
        first = np.where(is_cycle, first - INSIDE, first)
        return first, np.where(is_cycle, first, last), is_cycle

    def made(self, given: Given, keys: np.ndarray, values: np.ndarray) -> Records:
        label, pixels, length = given["lengths"]
        first, last, is_cycle = self._ends(given)
        junctions = [self._junctions(keys, values, end) for end in (first, last)]
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
                "skeleton": as_labels(given["skeletons"][1]),
                "branch_type": np.where(is_cycle, 3, sum((j > 0).astype(int) for j in junctions)),
                "num_pixels": pixels,
                "length": length,
                "distance": distance,
                "tortuosity": tortuosity,
                **places,
                "junction_start": junctions[0],
                "junction_end": junctions[1],
                "radius_mean": given["radii"][1] if self.with_radius else None,
            }
        )

    @staticmethod
    def _junctions(places: np.ndarray, labels: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Return the junction of each position; 0 for positions of no junction."""
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
