"""Whether voxels are labels, and how many: a volume knows by what it was made of."""

from __future__ import annotations

from collections.abc import Sequence

from beam_volumes.graph.nodes import AcrossNode, CropNode, Node, SourceNode, StageNode, ViewNode
from beam_volumes.sweep.stage import Regrid
from beam_volumes.sweep.survey import VOXELS_PER_LABEL


def holds_labels(nodes: Sequence[Node]) -> bool:
    """Whether all of some nodes yield labels, or masks."""
    return all(map(_is_labelled, nodes))


def _is_labelled(node: Node) -> bool:
    """Labels stay what they are where they are cropped, turned, made coarser or stored as another integer."""
    while True:
        if node.dtype.kind == "b":
            return True
        if node.dtype.kind not in "ui":
            return False
        if isinstance(node, AcrossNode):
            return node.completion.yields_labels
        if isinstance(node, SourceNode):
            return node.source.labels
        if isinstance(node, StageNode):
            if node.stage.yields_labels:
                return True
            keeps = isinstance(node.stage, Regrid) or node.name == "astype"
            if not keeps or not node.operands:
                return False
            node = node.operands[0]
        elif isinstance(node, CropNode | ViewNode):
            node = node.operand
        else:
            return False


def voxels_per_label(node: Node) -> int:
    """For how many voxels there may well be a label: what yields small ones says so."""
    while not isinstance(node, AcrossNode):
        if isinstance(node, CropNode | ViewNode):
            node = node.operand
        elif isinstance(node, StageNode) and node.name == "astype" and node.operands:
            node = node.operands[0]
        else:
            return VOXELS_PER_LABEL
    return node.completion.voxels_per_label
