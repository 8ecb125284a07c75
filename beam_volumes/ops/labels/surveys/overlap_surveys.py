"""A survey that counts the voxels shared by labels of two volumes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.across.rounds.records import Records
from beam_volumes.across.rounds.scores import CONTINGENCY
from beam_volumes.across.rounds.tables import RowKind
from beam_volumes.across.tables import as_labels
from beam_volumes.base.geometry import Grid, Triple
from beam_volumes.kernels.labels.contingency import count_labels
from beam_volumes.ops.labels.surveys.table_surveys import Rows, RowSurveyor, TableSurvey, labels_in
from beam_volumes.sweep.survey import Surveyor

#: Expected overlaps per label, for reserved memory.
_OVERLAPS = 3


@dataclass(frozen=True, eq=False)
class ContingencySurvey(TableSurvey):
    """Counts of voxels that labels of the first input share with labels of the second."""

    ignored: tuple[int, ...]  #: Labels of the first input to ignore with their voxels.

    upper = False
    cost = 4.0
    row_bytes = 24

    def table(self, shape: Triple) -> RowKind:
        return CONTINGENCY

    def working_bytes(self, shape: Triple, dtypes: tuple[np.dtype, ...]) -> int:
        return self.folded_bytes(shape)

    def rows_in(self, voxels: int, voxels_per_label: int) -> int:
        return _OVERLAPS * labels_in(voxels, voxels_per_label)

    def begin(self, grid: Grid, index: int, values: tuple[Any, ...], limit_bytes: int) -> Surveyor:
        return _Counts(self, limit_bytes)


class _Counts(RowSurveyor):
    def __init__(self, survey: ContingencySurvey, limit_bytes: int) -> None:
        self.ignored = np.array(survey.ignored, np.uint64)
        self.rows = Rows(CONTINGENCY.merge, survey.row_bytes, limit_bytes)
        self.folds = survey.folds()

    def feed(self, arrays: tuple[np.ndarray, ...], z: tuple[int, int], threads: int = 1) -> None:
        labels, others = map(as_labels, arrays)

        def strip(a: int, b: int) -> Records:
            pairs, counts = count_labels(labels[:, a:b], others[:, a:b])
            kept = ~np.isin(pairs[:, 0], self.ignored)
            pairs, counts = pairs[kept], counts[kept]
            part = CONTINGENCY.of(label_a=pairs[:, 0], label_b=pairs[:, 1], count=counts)
            return CONTINGENCY.merge([part])

        for part in self.folds.of(labels, labels.shape[1], threads, strip):
            self.rows.add(part)

    def finish(self) -> Records:
        return CONTINGENCY.merge([CONTINGENCY.empty(), *self.rows.parts])
