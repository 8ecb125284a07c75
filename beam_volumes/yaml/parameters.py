"""Parameters, rows and outputs shared by the transforms of Beam YAML."""

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
    """Decorate a class: replace ``**options`` by the parameters of another transform.

    They are all ``but`` some, or ``names``, in the signature and for ``%(options)s`` in the docstring.
    """
    taken = [
        p if p.kind is p.VAR_KEYWORD else p.replace(kind=p.KEYWORD_ONLY)
        for p in inspect.signature(other).parameters.values()
        if p.kind is not p.VAR_POSITIONAL
        and (p.name in names if names else p.name not in but)
        and (p.kind is not p.VAR_KEYWORD or p.name == "options")
    ]
    # An entry ends at the next entry or section.
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
    """Return the options that are not None, with ``others`` as defaults."""
    return {**others, **{name: value for name, value in options.items() if value is not None}}


def numbers_of(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """Yield numbers of a result with names: ``name``, or ``name[0]``, ``name[1]``, ... for arrays."""
    if np.ndim(value) == 0:
        yield name, float(value)
        return
    for k, number in enumerate(np.ravel(value).tolist()):
        yield f"{name}[{k}]", float(number)


class ErrorOutput:
    """The output for failed elements, as configured by ``error_handling:``, a mapping with ``output``."""

    def __init__(self, error_handling: Mapping[str, str] | None, name: str):
        if error_handling is not None and (
            not isinstance(error_handling, Mapping) or error_handling.keys() != {"output"}
        ):
            raise ValueError(
                f"{name}: error_handling: {error_handling!r}; give a mapping with output:, a name"
            )
        self.name = None if error_handling is None else error_handling["output"]

    def asked(self, transform: Any) -> Any:
        """Return the transform, with an output for failed elements if configured."""
        return transform if self.name is None else transform.with_exception_handling()

    def outputs(
        self, out: Any, good: str = "good", then: Callable[[PCollection], PCollection] | None = None
    ) -> Any:
        """Return the outputs by name, or the only one; ``then`` is applied to good elements."""
        done = out if self.name is None else out[0]
        done = done if then is None else then(done)
        return done if self.name is None else {good: done, self.name: out[1]}
