"""A stage with the class of each voxel in the contour of its label, for perimeters in a plane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.graph.nodes import Node, StageNode
from beam_volumes.kernels.labels import contours
from beam_volumes.ops.filters.stages import Neighbourhood
from beam_volumes.sweep.stage import Padding


@dataclass(frozen=True, eq=False)
class Contour(Neighbourhood):
    """Classes of `beam_volumes.kernels.labels.contours.contour_classes`."""

    axes: tuple[int, ...]  #: The axes of the plane.

    cost = 6.0
    kernel = staticmethod(contours.contour_classes)

    def parameters(self) -> tuple[Any, ...]:
        steps = np.eye(3, dtype=np.int64)[list(self.axes)]
        return steps, np.array(self.before), contours.PERIMETER_CLASSES


def contour_of(labels: Node, axes: tuple[int, ...]) -> Node:
    """The classes of labels, uint8."""
    z, y, x = (2 * (a in axes) for a in range(3))
    edges = Padding(("constant",) * 3, 0.0)
    extent = 2 * z + 1, 2 * y + 1, 2 * x + 1
    return StageNode.of(
        Contour("perimeter", np.dtype(np.uint8), (z, y, x), extent, edges, axes), (labels,)
    )
