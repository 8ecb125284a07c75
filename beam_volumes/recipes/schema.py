"""The JSON schema of recipes, generated from the catalogue, for completion and checks in editors."""

from __future__ import annotations

from typing import Any

from beam_volumes.graph.kinds import split
from beam_volumes.plan.run_options import RECIPE_OPTIONS, USER_OPTIONS
from beam_volumes.recipes.catalogue import (
    OPEN_OPTIONS,
    OUTPUT_KEYS,
    Operation,
    Parameter,
    operations,
    registration_files,
    registrations,
)

Schema = dict[str, Any]

#: A reference to a variable.
_VARIABLE: Schema = {"type": "string", "pattern": r"\$\{"}
_NAME: Schema = {"type": "string", "description": "the name of a step or an input"}
_SIMPLE: dict[str, Schema] = {
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "str": {"type": "string"},
    "bool": {"type": "boolean"},
    "None": {"type": "null"},
}


def schema() -> Schema:
    """Return the schema, in draft 2020-12.

    >>> schema()["$defs"]["crop"]["properties"]["box"]["anyOf"][0]
    {'type': 'string'}
    """
    known = operations()
    step = {
        "type": "object",
        "properties": {"op": {"enum": sorted(known)}},
        "required": ["op"],
        "allOf": [
            {"if": _has_op({"const": n}), "then": {"$ref": f"#/$defs/{n}"}} for n in sorted(known)
        ],
    }
    short = {"enum": sorted(known), "description": "an operation, of the step before"}
    own = {n: {"anyOf": [{"type": "null"}, short, _either(n)]} for n in sorted(known)}
    text_or_more: Schema = {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/an input"}]}
    output: Schema = {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/an output"}]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "beam-volumes recipe",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "description": {"type": "string"},
            "variables": {"type": ["object", "null"]},
            "input": text_or_more,
            "inputs": {"type": "object", "additionalProperties": text_or_more},
            "register": {"type": ["object", "null"], "additionalProperties": _registration()},
            "steps": {
                "type": ["object", "null"],
                "properties": own,
                "additionalProperties": {"anyOf": [short, {"$ref": "#/$defs/a step"}]},
            },
            "output": output,
            "outputs": {"type": "array", "items": {"$ref": "#/$defs/an output"}, "minItems": 1},
            **{name: _simple(str(USER_OPTIONS[name].type)) for name in RECIPE_OPTIONS},
        },
        "oneOf": [{"required": ["input"]}, {"required": ["inputs"]}],
        "anyOf": [{"required": ["output"]}, {"required": ["outputs"]}],
        "$defs": {
            "a step": step,
            "an input": _mapping(["path", "spec", *OPEN_OPTIONS]),
            "an output": _mapping(OUTPUT_KEYS),
            **{name: _operation(operation) for name, operation in known.items()},
        },
    }


def _has_op(what: Schema) -> Schema:
    return {"properties": {"op": what}, "required": ["op"]}


def _either(name: str) -> Schema:
    """Return the schema of a step named like an operation, which ``op`` may override."""
    return {
        "if": _has_op({}),
        "then": {"$ref": "#/$defs/a step"},
        "else": {"$ref": f"#/$defs/{name}"},
    }


def _mapping(keys: Any) -> Schema:
    properties: Schema = {key: {} for key in keys}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _operation(operation: Operation) -> Schema:
    inputs = {"type": "array", "items": {"type": ["string", "number"]}, "minItems": 1}
    own = {
        name: {**_parameter(p), "description": p.text} for name, p in operation.parameters.items()
    }
    common = {
        "op": {"const": operation.name},
        "input": {"type": ["string", "number"]},
        "inputs": inputs,
    }
    return {
        "type": "object",
        "description": operation.summary,
        "properties": {**own, **common},
        "additionalProperties": False,
    }


def _registration() -> Schema:
    keys = {k for op in registrations().values() for k in (*op.keywords, *registration_files(op))}
    return _mapping(["op", "input", *sorted(keys)])


def _parameter(p: Parameter) -> Schema:
    """Return the schema of a parameter, with ``${name}`` and ``{step: name}`` where allowed."""
    if p.volume:
        return {"anyOf": [_NAME, {"type": ["number", "null"]}]}
    if p.is_flag:
        return {"anyOf": [{"type": "boolean"}, _VARIABLE], "default": p.default}
    if p.choices and p.is_text and p.kind.rstrip().endswith("}"):
        return {"anyOf": [{"enum": list(p.choices)}, _VARIABLE], "default": p.default}
    return _simple(
        p.annotation, {"type": "object", "required": ["step"], "properties": {"step": _NAME}}
    )


def _simple(annotation: str, *others: Schema) -> Schema:
    """Return the schema of an annotation of scalars; empty if it allows other types."""
    kinds = split(annotation, "|")
    if not set(kinds) <= _SIMPLE.keys():
        return {}  # a list, an array, a footprint: the operation itself checks it
    return {"anyOf": [*(_SIMPLE[kind] for kind in kinds), _VARIABLE, *others]}
