"""Named tuples as rows, which other SDKs and Beam YAML read."""

from __future__ import annotations

from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_type_hints

import apache_beam as beam

_Row = TypeVar("_Row", bound=type)


def row_type(kind: _Row) -> _Row:
    """A class decorator: elements of a NamedTuple's class are rows of the fields' types.

    Beam does not look into annotations that are texts, as all are in this package: other SDKs would see
    fields that only Python knows.

    >>> from typing import NamedTuple
    >>> @row_type
    ... class Found(NamedTuple):
    ...     z: "int"
    >>> str(beam.coders.registry.get_coder(Found).schema.fields[0].type).split()
    ['atomic_type:', 'INT64']
    """
    kinds: Any = kind
    kinds.__annotations__ = {name: _known(t) for name, t in get_type_hints(kind).items()}
    beam.coders.registry.register_coder(kind, beam.coders.RowCoder)
    return kind


def _known(kind: Any) -> Any:
    """``int | None`` as Beam knows it."""
    return Union[get_args(kind)] if isinstance(kind, UnionType) else kind  # noqa: UP007
