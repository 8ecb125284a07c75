"""What an output was made of: the expression or recipe, the inputs, the plan, the versions and the times.

All but the times is known when a run begins, and lies in its manifest from then on; a run that is continued
keeps it. When the run ends it is written beside each output.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Mapping
from dataclasses import fields
from importlib import metadata
from math import isfinite
from types import FunctionType
from typing import Any

import numpy as np

from beam_volumes.graph.nodes import (
    AcrossNode,
    Barrier,
    BarrierValue,
    ConstantValue,
    CropNode,
    FoldValue,
    FormulaValue,
    Node,
    SourceNode,
    StageNode,
    Value,
    ViewNode,
    values_below,
)
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.table import Table, TableTarget
from beam_volumes.graph.target import Target
from beam_volumes.graph.volume import Volume
from beam_volumes.plan.cut.passes import Levels
from beam_volumes.plan.plan import Plan
from beam_volumes.runs.manifest import Manifest
from beam_volumes.storage.outputs import provenance
from beam_volumes.version import __version__

FORMAT = 1
#: Steps, and inputs, that are told; items and characters of a parameter.
_MAXIMUM, _ITEMS, _LENGTH = 2000, 64, 400
_LIBRARIES = ("numpy", "tensorstore", "numba", "apache-beam", "pyarrow", "imagecodecs")


def about(plan: Plan, recipe: Any = None) -> dict[str, Any]:
    """What is known of the outputs of a plan before anything is read, as plain data.

    Parameters
    ----------
    plan : Plan
    recipe : object, optional
        The recipe that it was made from, as plain data.
    """
    levels = _levels(plan)
    sources = {n.source.name: n.source for n in levels.nodes.values() if isinstance(n, SourceNode)}
    steps = list(_steps(levels))
    return {
        "recipe": recipe,
        "steps": steps[:_MAXIMUM],
        "steps_in_all": len(steps),
        "inputs": [provenance.told(s) for s in list(sources.values())[:_MAXIMUM]],
        "versions": versions(),
    }


def versions() -> dict[str, str | None]:
    """Return the versions of the package, Python, and the libraries that results may depend on."""
    return {
        "beam_volumes": __version__,
        "python": platform.python_version(),
        **{name: _version(name) for name in _LIBRARIES},
    }


def document(manifest: Manifest, output: str) -> dict[str, Any]:
    """What is written beside an output of a run that has just ended."""
    return {
        "format": FORMAT,
        "output": output,
        "run": manifest.run_id,
        "begun": provenance.moment(manifest.created),
        "ended": provenance.moment(time.time()),
        **manifest.about,
        "plan": {**manifest.predicted, "passes": manifest.passes},
        "fingerprint": manifest.fingerprint,
    }


def _levels(plan: Plan) -> Levels:
    return Levels(
        [n for t in plan.targets if isinstance(t, Volume) for n in t.nodes]
        + [n for t in plan.targets if isinstance(t, Target) for n in t.volume.nodes],
        [t.value for t in plan.targets if isinstance(t, Scalar)],
        [t.barrier for t in plan.targets if isinstance(t, Table)]
        + [t.table.barrier for t in plan.targets if isinstance(t, TableTarget)],
    )


def _steps(levels: Levels) -> Iterator[dict[str, Any]]:
    """The expression, step by step: each by its id, with those that it takes."""
    values: list[Value] = list(levels.folds.values())
    for node in levels.nodes.values():
        yield {
            "id": _id(node.token),
            "step": node.name,
            "of": [_id(i.token) for i in node.inputs] + [_id(v.token) for v in node.values],
            "shape": list(node.shape),
            "dtype": str(node.dtype),
            **_parameters_of(node),
        }
        values += node.values
    for barrier in levels.barriers.values():
        yield _told_barrier(barrier)
        values += barrier.parameters
    for value in values_below(values):
        yield _told_value(value)


def _parameters_of(node: Node) -> Mapping[str, Any]:
    if isinstance(node, StageNode):
        return {"parameters": _parameters(node.stage)}
    if isinstance(node, AcrossNode):
        return {"parameters": _parameters(node.completion), "answers": _id(node.barrier.token)}
    if isinstance(node, CropNode):
        return {"parameters": {"start": list(node.start)}}
    if isinstance(node, ViewNode):
        return {"parameters": {"axes": list(node.axes), "flipped": list(node.flipped)}}
    return {}


def _told_barrier(barrier: Barrier) -> dict[str, Any]:
    of = [o.token for o in barrier.operands] + [v.token for v in barrier.parameters]
    return {
        "id": _id(barrier.token),
        "step": f"survey {barrier.name}",
        "of": [_id(token) for token in of],
        "parameters": _parameters(barrier.survey),
    }


def _told_value(value: Value) -> dict[str, Any]:
    told: dict[str, Any] = {
        "id": _id(value.token),
        "number": value.name,
        "of": [_id(a.token) for a in value.arguments],
    }
    if isinstance(value, FoldValue):
        told["of"] = [_id(n.token) for n in value.nodes] + told["of"]
        told["parameters"] = _parameters(value.reduction)
        if value.across:
            told["across"] = "t"
    elif isinstance(value, BarrierValue):
        told["of"] = [_id(value.barrier.token)]
    elif isinstance(value, FormulaValue):
        told["parameters"] = _parameters(value.formula)
    elif isinstance(value, ConstantValue):
        told["parameters"] = {"number": _short(value.number)}
    return told


def _parameters(item: Any) -> dict[str, Any]:
    """The fields of a stage and the like, as what JSON has or as short texts."""
    return {f.name: _short(getattr(item, f.name)) for f in fields(item) if f.name != "name"}


def _short(value: Any) -> Any:
    """A parameter as plain data if it is small, else as a text that is cut off."""
    if isinstance(value, np.ndarray) and value.size <= _ITEMS:
        return _short(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.dtype):
        return str(value)
    if isinstance(value, tuple | list) and len(value) <= _ITEMS:
        return [_short(v) for v in value]
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and isfinite(value):
        return value
    if isinstance(value, FunctionType):
        return f"{value.__module__}.{value.__qualname__}"
    text = value if isinstance(value, str) else " ".join(repr(value).split())
    return text if len(text) <= _LENGTH else f"{text[:_LENGTH]}..."


def _id(token: str) -> str:
    return token[:12]


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
