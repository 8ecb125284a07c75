"""How well two masks or label volumes agree in a region."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beam_volumes.drive.compute import run
from beam_volumes.graph.volume import as_volume
from beam_volumes.ops.labels.components import label
from beam_volumes.ops.labels.scores import variation_of_information
from beam_volumes.plan.run_options import RunOptions


@dataclass(frozen=True)
class Agreement:
    """Scores of two masks or label volumes; the objects of a mask are its connected components."""

    #: The overlap of all objects, from 0 to 1; NaN if there are none.
    dice: float
    #: Bits of the variation of information: false splits and false merges of the second volume.
    split: float
    merge: float
    #: Numbers of objects.
    counts: tuple[int, int]

    def __str__(self) -> str:
        before, after = self.counts
        return (
            f"objects: {before:,} and {after:,}; Dice {self.dice:.4g}; variation of information "
            f"{self.split + self.merge:.4g} bits ({self.split:.4g} by splits, {self.merge:.4g} by merges)"
        )


def agreement(before: np.ndarray, after: np.ndarray) -> Agreement:
    """Compare two arrays of one shape.

    Examples
    --------
    >>> print(agreement(np.array([[1, 1, 0, 2]]), np.array([[1, 0, 0, 2]])))
    objects: 2 and 2; Dice 0.8; variation of information 1 bits (0.5 by splits, 0.5 by merges)
    """
    a, b = before > 0, after > 0
    total = int(np.count_nonzero(a)) + int(np.count_nonzero(b))
    dice = 2 * int(np.count_nonzero(a & b)) / total if total else np.nan
    first, second = (label(v) if v.dtype == bool else v for v in map(as_volume, (before, after)))
    counts = [len(np.setdiff1d(np.asarray(v), [0])) for v in (first, second)]
    options = RunOptions(runner=None, progress=False)
    split, merge = run(variation_of_information(first, second), options).results
    return Agreement(dice, float(split), float(merge), (counts[0], counts[1]))
