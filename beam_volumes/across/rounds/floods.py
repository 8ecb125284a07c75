"""How high floods stand in basins: of a table of passes and one of levels, one of floods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from beam_volumes.across.rounds.gathered import GatheredStep, Given
from beam_volumes.across.rounds.records import RecordRows, Records
from beam_volumes.kernels.labels.saddles import lowest_floods

#: What is held for a basin, and for a pass.
BASIN_BYTES, PASS_BYTES = 150, 100


@dataclass(frozen=True, eq=False)
class Floods(GatheredStep):
    """For each basin the lowest that a flood can stand in it, coming from any basin's level.

    The first input is a table of pairs of basins and the passes between them (``label_a``, ``label_b``,
    ``boundary_min``), the second one of all basins and their levels.
    """

    dtype: np.dtype  #: Of levels.
    levels: tuple[str, str]  #: The columns of basins and levels.
    #: The sign of zero that floods have: rows come in any order, so that it cannot be anybody's
    #: own.
    zero: float

    gathered = "basins and passes between them"
    remedy = ", or smooth the volume first"

    @property
    def used(self) -> Mapping[str, tuple[tuple[str, ...], int]]:
        passes = ("label_a", "label_b", "boundary_min")
        return {"passes": (passes, PASS_BYTES), "levels": (self.levels, BASIN_BYTES)}

    @property
    def rows(self) -> RecordRows:
        return RecordRows((("label", "<u8"), ("level", self.dtype.str)))

    def made(self, given: Given) -> Records:
        labels, own = given["levels"]
        order = np.argsort(labels)
        labels, own = labels[order], own[order]
        a, b, height = given["passes"]
        order = np.argsort(height, kind="stable")
        ends = [np.searchsorted(labels, side[order].astype(labels.dtype)) for side in (a, b)]
        floods = lowest_floods(
            ends[0].astype(np.int64),
            ends[1].astype(np.int64),
            np.where(height == 0, self.zero, height)[order],
            np.where(own == 0, self.zero, own.astype(np.float64)),
        )
        return self.rows.of(label=labels, level=floods.astype(self.dtype))
