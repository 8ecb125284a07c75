"""Whether voxels are labels: a volume knows by what it was made of."""

from __future__ import annotations

from collections.abc import Sequence

from beam_volumes.graph.nodes import AcrossNode, CropNode, Node, SourceNode, StageNode, ViewNode
from beam_volumes.sweep.stage import Regrid


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
