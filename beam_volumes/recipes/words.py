"""Sort the words of a chain into inputs, operations, outputs and their options."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from beam_volumes.base.text import nearest
from beam_volumes.plan.run_options import USER_OPTIONS
from beam_volumes.recipes.catalogue import OPEN_OPTIONS, OUTPUT_KEYS, Operation, operations
from beam_volumes.recipes.document import RecipeError

#: The place of errors that concern the whole chain.
WHERE = "chain"
#: The options of an output.
WRITE_OPTIONS = tuple(key for key in OUTPUT_KEYS if key not in ("step", "path"))
_NUMBER = re.compile(r"[-+]?(\d|\.\d).*")


@dataclass
class Part:
    """An input, an operation or an output."""

    #: The place of an input or output, or the inputs of an operation.
    words: list[str]
    #: The options it accepts, and the boolean ones among them.
    takes: Collection[str]
    flags: Collection[str] = ()
    operation: Operation | None = None
    #: The given options, as text.
    options: dict[str, str] = field(default_factory=dict)
    #: The name given by ``--as``.
    name: str | None = None


@dataclass
class Words:
    """The words of a chain, sorted."""

    inputs: list[Part] = field(default_factory=list)
    steps: list[Part] = field(default_factory=list)
    #: Each with the number of the step that it writes, from 1; 0 is the first input.
    outputs: list[tuple[int, Part]] = field(default_factory=list)
    #: Run options, with their values.
    rest: list[str] = field(default_factory=list)
    #: The operation before ``--help``.
    asked: Operation | None = None

    def last(self) -> Part | None:
        """Return the last operation, or else the last input."""
        return self.steps[-1] if self.steps else self.inputs[-1] if self.inputs else None


def read_words(words: Sequence[str], others: Callable[[str], int | None]) -> Words:
    """Sort words into inputs, operations, outputs and options.

    ``others`` returns how many values, 0 or 1, follow an option of the run; None for an unknown option.

    >>> found = read_words(["em.zarr", "median_filter", "--size", "3", "-o", "out.zarr"], {}.get)
    >>> found.steps[0].options, found.outputs[0][1].words
    ({'size': '3'}, ['out.zarr'])
    """
    found = Words()
    left = list(reversed(words))
    part: Part | None = None
    while left and found.asked is None:
        word = left.pop()
        option, equals, value = word.partition("=")
        if option in ("-o", "--out"):
            if not found.inputs:
                raise RecipeError(
                    WHERE, f"{option} must follow the result that it writes: IN {option} OUT"
                )
            part = Part([value if equals else _value(option, left)], WRITE_OPTIONS)
            found.outputs.append((len(found.steps), part))
        elif word.startswith("-") and not _NUMBER.fullmatch(word):
            _option(word, [p for p in (part, found.last()) if p is not None], found, left, others)
        elif word in operations():
            part = _step(operations()[word])
            found.steps.append(part)
        elif part is not None and part.operation is not None:
            part.words.append(word)
        elif found.steps or found.outputs:
            raise RecipeError(
                WHERE, f"no operation is called {word!r}{nearest(word, operations())}"
            )
        else:
            part = Part([word], OPEN_OPTIONS)
            found.inputs.append(part)
    return found


def _step(operation: Operation) -> Part:
    flags = [name for name, p in operation.parameters.items() if p.is_flag]
    return Part([], [*operation.parameters], flags, operation)


def _option(
    word: str,
    owners: Sequence[Part],
    found: Words,
    left: list[str],
    others: Callable[[str], int | None],
) -> None:
    """Assign an option and its value to the first owner that accepts it, or to the run."""
    option, equals, value = word.partition("=")
    key = option.lstrip("-").replace("-", "_")
    step = found.steps[-1] if found.steps else None
    if step is not None and option in ("--help", "-h"):
        found.asked = step.operation
        return
    if step is not None and option == "--as":
        step.name = value if equals else _value(option, left)
        return
    if option == "--option" and owners and owners[0].takes is OPEN_OPTIONS:
        # The other verbs use this form for format-specific options.
        pair = value if equals else _value(option, left)
        option, equals, value = pair.partition("=")
        key = option.strip()
        if not (key and equals and value):
            raise RecipeError(WHERE, f"--option {pair}: write it as NAME=VALUE")
        if key not in OPEN_OPTIONS:
            raise RecipeError(
                WHERE, f"--option {pair}: no format has this option{nearest(key, OPEN_OPTIONS)}"
            )
    for owner in owners:
        name = key.removeprefix("no_") if key.removeprefix("no_") in owner.flags else key
        if name not in owner.takes:
            continue
        if name in owner.options:
            raise RecipeError(WHERE, f"{option} is given twice")
        if equals:
            owner.options[name] = value
        elif name in owner.flags:
            given = name == key and bool(left) and left[-1].lower() in ("true", "false")
            owner.options[name] = left.pop() if given else str(name == key).lower()
        else:
            owner.options[name] = _value(option, left)
        return
    number = others(option)
    if number is None:
        raise RecipeError(WHERE, _unknown(option, owners))
    found.rest.append(word)
    if number and not equals:
        found.rest.append(_value(option, left))


def _value(option: str, left: list[str]) -> str:
    """Take the value of an option, which may be a negative number."""
    if not left or left[-1].startswith("--"):
        raise RecipeError(WHERE, f"{option} needs a value: {option} VALUE")
    return left.pop()


def spelt(name: str) -> str:
    """Return an option in the spelling of the command line.

    >>> spelt("max_size")
    '--max-size'
    """
    return f"--{name.replace('_', '-')}"


def _unknown(option: str, owners: Sequence[Part]) -> str:
    if not owners:
        return f"there is no option {option}; write IN first, then operations with their options"
    owner = owners[0]
    what = owner.operation.name if owner.operation else owner.words[0]
    names = [spelt(name) for taken in (*(p.takes for p in owners), USER_OPTIONS) for name in taken]
    more = f" (see ops {what})" if owner.operation else ""
    return f"{what} has no {option}{nearest(option, names)}{more}"
