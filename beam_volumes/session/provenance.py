"""The provenance of outputs: expression or recipe, inputs, plan, versions and times.

Everything except the times is known when a run begins, and is stored in its manifest. At the end of
the run it is written next to each output.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
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
    PeriodicNode,
    SourceNode,
    StageNode,
    Value,
    ViewNode,
    values_below,
)
from beam_volumes.plan.cut.passes import Levels
from beam_volumes.plan.plan import Plan
from beam_volumes.runs.manifest import Manifest
from beam_volumes.storage.outputs import provenance
from beam_volumes.version import __version__

FORMAT = 1
#: Maximum steps and inputs of a document; maximum items and characters of a parameter.
_MAXIMUM, _ITEMS, _LENGTH = 2000, 64, 400
_LIBRARIES = ("numpy", "tensorstore", "numba", "apache-beam", "pyarrow", "imagecodecs")


def about(plan: Plan, recipe: Any = None) -> dict[str, Any]:
    """The provenance of a plan's outputs without times, as plain data."""
    levels = plan.levels
    sources = {n.source.name: n.source for n in levels.nodes.values() if isinstance(n, SourceNode)}
    steps = list(_steps(levels))
    return {
        "recipe": recipe,
        "steps": steps[:_MAXIMUM],
        "steps_in_all": len(steps),
        "inputs": [provenance.described_input(s) for s in list(sources.values())[:_MAXIMUM]],
        "versions": versions(),
    }


def versions() -> dict[str, str | None]:
    """The versions of the package, Python, and the libraries that results may depend on."""
    return {
        "beam_volumes": __version__,
        "python": platform.python_version(),
        **{name: _version(name) for name in _LIBRARIES},
    }


def document(manifest: Manifest, output: str) -> dict[str, Any]:
    """The provenance of an output of a run that has just ended."""
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


def _steps(levels: Levels) -> Iterator[dict[str, Any]]:
    """The steps of an expression: each with its id and the ids of its operands."""
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
        yield _describe_barrier(barrier)
        values += barrier.parameters
    for value in values_below(values):
        yield _describe_value(value)


def _parameters_of(node: Node) -> Mapping[str, Any]:
    if isinstance(node, StageNode):
        return {"parameters": _parameters(node.stage)}
    if isinstance(node, AcrossNode):
        return {"parameters": _parameters(node.completion), "answers": _id(node.barrier.token)}
    if isinstance(node, CropNode):
        return {"parameters": {"start": list(node.start)}}
    if isinstance(node, PeriodicNode):
        return {"parameters": {"around": [list(pair) for pair in node.around]}}
    if isinstance(node, ViewNode):
        return {"parameters": {"axes": list(node.axes), "flipped": list(node.flipped)}}
    return {}


def _describe_barrier(barrier: Barrier) -> dict[str, Any]:
    of = [o.token for o in barrier.operands] + [v.token for v in barrier.parameters]
    return {
        "id": _id(barrier.token),
        "step": f"survey {barrier.name}",
        "of": [_id(token) for token in of],
        "parameters": _parameters(barrier.survey),
    }


def _describe_value(value: Value) -> dict[str, Any]:
    step: dict[str, Any] = {
        "id": _id(value.token),
        "number": value.name,
        "of": [_id(a.token) for a in value.arguments],
    }
    if isinstance(value, FoldValue):
        step["of"] = [_id(n.token) for n in value.nodes] + step["of"]
        step["parameters"] = _parameters(value.reduction)
        if value.across:
            step["across"] = "t"
    elif isinstance(value, BarrierValue):
        step["of"] = [_id(value.barrier.token)]
    elif isinstance(value, FormulaValue):
        step["parameters"] = _parameters(value.formula)
    elif isinstance(value, ConstantValue):
        step["parameters"] = {"number": _short(value.number)}
    return step


def _parameters(item: Any) -> dict[str, Any]:
    """The fields of a stage as JSON values or short texts."""
    return {f.name: _short(getattr(item, f.name)) for f in fields(item) if f.name != "name"}


def _short(value: Any) -> Any:
    """A parameter as plain data if it is small, otherwise as truncated text."""
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


@cache
def _version(name: str) -> str | None:
    """The version of an installed package; reading its metadata takes milliseconds."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
