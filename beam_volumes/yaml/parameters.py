"""Parameters, rows and outputs that the transforms of Beam YAML share."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
from apache_beam.pvalue import PCollection

from beam_volumes.base.text import filled

_Class = TypeVar("_Class", bound=type)


def with_parameters_of(
    other: type, names: Collection[str] = (), but: Collection[str] = ()
) -> Callable[[_Class], _Class]:
    """A class decorator: ``**options`` are parameters of another transform, in signature and docstring.

    They are all ``but`` some, or only the ``names``. The docstring has their entries in place of
    ``%(options)s``.
    """
    taken = [
        p if p.kind is p.VAR_KEYWORD else p.replace(kind=p.KEYWORD_ONLY)
        for p in inspect.signature(other).parameters.values()
        if p.kind is not p.VAR_POSITIONAL
        and (p.name in names if names else p.name not in but)
        and (p.kind is not p.VAR_KEYWORD or p.name == "options")
    ]
    # An entry ends where the next one, or another section, begins.
    text = inspect.getdoc(other) or ""
    entries = [re.search(rf"^(?:\*\*)?{p.name} : .*(\n .*)+", text, re.M) for p in taken]
    document = filled({"options": "\n".join(entry[0] for entry in entries if entry)})

    def decorate(kind: _Class) -> _Class:
        init: Any = kind.__init__  # type: ignore[misc]
        signature = inspect.signature(init)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        init.__signature__ = signature.replace(parameters=[*own, *taken])
        return document(kind)

    return decorate


def given_or(options: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are not None, and ``others`` in place of those that are not there."""
    return {**others, **{name: value for name, value in options.items() if value is not None}}


def numbers_of(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """Each number of a result with its name: ``name``, or ``name[0]``, ``name[1]``, ... of an array."""
    if np.ndim(value) == 0:
        yield name, float(value)
        return
    for k, number in enumerate(np.ravel(value).tolist()):
        yield f"{name}[{k}]", float(number)


class ErrorOutput:
    """What ``error_handling:`` asks for: the output that has what failed.

    Raises
    ------
    ValueError
        If it is no mapping with a name.
    """

    def __init__(self, error_handling: Mapping[str, str] | None, name: str):
        if error_handling is not None and (
            not isinstance(error_handling, Mapping) or error_handling.keys() != {"output"}
        ):
            raise ValueError(
                f"{name}: error_handling: {error_handling!r}; give a mapping with output:, a name"
            )
        self.name = None if error_handling is None else error_handling["output"]

    def asked(self, transform: Any) -> Any:
        """The transform, with an output of what failed if that is asked for."""
        return transform if self.name is None else transform.with_exception_handling()

    def outputs(
        self, out: Any, good: str = "good", then: Callable[[PCollection], PCollection] | None = None
    ) -> Any:
        """The outputs by name, or the only one; ``then`` is applied to what is good."""
        done = out if self.name is None else out[0]
        done = done if then is None else then(done)
        return done if self.name is None else {good: done, self.name: out[1]}
