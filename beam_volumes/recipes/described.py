"""What an operation says of itself: its parameters and what they mean, read from signature and docstring."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from functools import partial

import numpy as np

from beam_volumes.base.exports import EXPORTS
from beam_volumes.recipes.catalogue import Operation

_PARAMETER = re.compile(r"^(\w+(?:, \w+)*) : (.+)$")
#: What is said of a default, which the signature says better.
_DEFAULT = re.compile(r",? (?:optional|default: .*)$")
_CHOICES = re.compile(r"^\{([^}]*)\}")
#: By the room of `ops` in which a function is, what it is for.
FAMILIES = {
    "filters": "filters",
    "morphology": "morphology and distances",
    "extrema": "extrema, peaks and reconstruction",
    "intensity": "intensity",
    "labels": "labels and tables",
    "measure": "numbers of a volume",
    "geometry": "grids and channels",
    "arithmetic": "voxel by voxel",
}


@dataclass(frozen=True)
class Parameter:
    """One thing that an operation takes.

    Attributes
    ----------
    name : str
    annotation : str
        As the function has it.
    kind : str
        For people: what may be given.
    default : object
        What holds if it is not given; ``inspect.Parameter.empty`` if it must be.
    text : str
        What it means.
    """

    name: str
    annotation: str
    kind: str
    default: object = inspect.Parameter.empty
    text: str = ""

    @property
    def is_required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def is_text(self) -> bool:
        """Whether nothing but a text can be meant."""
        return set(_types(self.annotation)) <= {"str", "None"}

    @property
    def is_flag(self) -> bool:
        return self.annotation == "bool"

    @property
    def is_sequence(self) -> bool:
        """Whether one thing alone has to be put into a list."""
        kinds = [t for t in _types(self.annotation) if t != "None"]
        return bool(kinds) and all(k.startswith(("Sequence", "tuple")) for k in kinds)

    @property
    def choices(self) -> tuple[str, ...]:
        """The words among what may be given, if the description lists them first.

        Examples
        --------
        >>> Parameter("nan", "str", '{"raise", "omit"}').choices
        ('raise', 'omit')
        """
        found = _CHOICES.match(self.kind)
        return tuple(part.strip(" \"'") for part in found[1].split(",")) if found else ()


@dataclass(frozen=True)
class Description:
    """What an operation says of itself.

    Attributes
    ----------
    name, summary, family : str
    parameters : dict
        By name, inputs included, in the order of the call.
    gives : str
        ``"volume"``, ``"volumes"``, ``"number"`` or ``"table"``.
    """

    name: str
    summary: str
    family: str
    parameters: dict[str, Parameter]
    gives: str


def described(operation: Operation) -> Description:
    """Describe an operation.

    Examples
    --------
    >>> from beam_volumes.recipes.catalogue import operations
    >>> found = described(operations()["gaussian_filter"])
    >>> found.family, found.gives, found.parameters["sigma"].kind
    ('filters', 'volume', 'float, str or sequence of them')
    """
    if isinstance(operation.call, partial):
        text = inspect.getdoc(getattr(np, operation.name)) or ""
        inputs = {name: Parameter(name, "", "volume or number") for name in operation.positional}
        # numpy's begin with the signature.
        summary = next((p for p in text.split("\n\n")[1:] if p.strip()), operation.name)
        return Description(
            operation.name, " ".join(summary.split()), "arithmetic", inputs, "volume"
        )
    text = inspect.getdoc(operation.call) or operation.name
    signature = inspect.signature(operation.call)
    words = _parameters(text)
    parameters = {
        name: Parameter(
            name,
            str(p.annotation),
            _kind(words.get(name, ("", ""))[0], str(p.annotation)),
            p.default,
            words.get(name, ("", ""))[1],
        )
        for name, p in signature.parameters.items()
        if name in operation.parameters
    }
    summary = " ".join(text.partition("\n\n")[0].split())
    gives = _gives(str(signature.return_annotation))
    return Description(operation.name, summary, _family(operation), parameters, gives)


def _types(annotation: str) -> list[str]:
    """The parts of a union; brackets hold what is inside them together.

    Examples
    --------
    >>> _types("float | Sequence[float | str] | None")
    ['float', 'Sequence[float | str]', 'None']
    """
    parts, depth = [""], 0
    for letter in annotation:
        depth += (letter == "[") - (letter == "]")
        if letter == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _kind(text: str, annotation: str) -> str:
    found = (
        _DEFAULT.sub("", text).replace(" or numpy.ndarray", "").replace("numpy.ndarray", "array")
    )
    return found.replace("Volume", "volume").replace("Scalar", "number") or annotation


def _gives(annotation: str) -> str:
    if annotation.startswith("tuple[Volume"):
        return "volumes"
    if "Scalar" in annotation:
        return "number"
    return "table" if annotation == "Table" else "volume"


def _family(operation: Operation) -> str:
    """The room of `ops` that the function comes from."""
    parts = EXPORTS.get(operation.name, "").split(".")
    found = parts[2] if len(parts) > 2 and parts[1] == "ops" else ""
    other = {"crop": "geometry", "with_space": "geometry", "num_labels": "labels"}
    return found if found in FAMILIES else other.get(operation.name, "arithmetic")


def _parameters(text: str) -> dict[str, tuple[str, str]]:
    """What a docstring of numpy's form says of each parameter: its kind, and what it means."""
    found: dict[str, tuple[str, str]] = {}
    _, _, section = text.partition("\nParameters\n----------\n")
    names: list[str] = []
    for line in section.splitlines():
        if re.fullmatch(r"-{3,}", line):  # the line before was the next section's title
            break
        parameter = _PARAMETER.match(line)
        if parameter:
            names = parameter[1].split(", ")
            found |= dict.fromkeys(names, (parameter[2], ""))
        elif line.startswith(" "):
            for name in names:
                kind, told = found[name]
                found[name] = (kind, f"{told} {line.strip()}".strip())
        elif line:
            names = []
    return found
