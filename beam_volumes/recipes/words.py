"""The words of a chain, sorted: inputs, operations, outputs, and the options of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from beam_volumes.base.text import nearest
from beam_volumes.recipes.catalogue import OPEN_OPTIONS, OUTPUT_KEYS, Operation, operations
from beam_volumes.recipes.document import RecipeError

#: Where mistakes of a whole chain stand.
WHERE = "chain"
#: What an output takes behind its place.
WRITE_OPTIONS = tuple(key for key in OUTPUT_KEYS if key not in ("step", "path"))
_NUMBER = re.compile(r"[-+]?(\d|\.\d).*")


@dataclass
class Part:
    """An input, an operation or an output."""

    #: An input's or output's place; the inputs of an operation.
    words: list[str]
    #: The options that belong to it, and those of them that are true or false.
    takes: Collection[str]
    flags: Collection[str] = ()
    operation: Operation | None = None
    #: Texts of the options that are given.
    options: dict[str, str] = field(default_factory=dict)
    #: What ``--as`` calls it.
    name: str | None = None


@dataclass
class Words:
    """The words of a chain, sorted."""

    inputs: list[Part] = field(default_factory=list)
    steps: list[Part] = field(default_factory=list)
    #: Each with the number of the step that it writes, from 1 on; 0 is the first input.
    outputs: list[tuple[int, Part]] = field(default_factory=list)
    #: Options of the run, with their values.
    rest: list[str] = field(default_factory=list)
    #: The operation that ``--help`` follows.
    asked: Operation | None = None

    def last(self) -> Part | None:
        """The operation, or else the input, that was named last."""
        return self.steps[-1] if self.steps else self.inputs[-1] if self.inputs else None


def read_words(words: Sequence[str], others: Callable[[str], int | None]) -> Words:
    """Sort words into inputs, operations, outputs and options.

    Parameters
    ----------
    words : sequence of str
    others : callable
        Tells of an option that is no input's, operation's or output's how many values follow it, 0 or 1;
        None if there is no such option at all.

    Raises
    ------
    RecipeError
        An option belongs to nothing that is there, is given twice, or has no value.

    Examples
    --------
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
                raise RecipeError(WHERE, f"{option} stands behind what it writes: IN {option} OUT")
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
    """Take an option, and its value, to the first of its possible owners that has it, or to the run."""
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
        # As other verbs spell what only some formats know.
        pair = value if equals else _value(option, left)
        option, equals, value = pair.partition("=")
        key = option.strip()
        if not (key and equals and value):
            raise RecipeError(WHERE, f"--option {pair}: write it as NAME=VALUE")
        if key not in OPEN_OPTIONS:
            raise RecipeError(
                WHERE, f"--option {pair}: no format has it{nearest(key, OPEN_OPTIONS)}"
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
    """The word behind an option; a negative number is one."""
    if not left or left[-1].startswith("--"):
        raise RecipeError(WHERE, f"{option} needs a value: {option} VALUE")
    return left.pop()


def spelt(name: str) -> str:
    """An option as it is written on a command line.

    Examples
    --------
    >>> spelt("max_size")
    '--max-size'
    """
    return f"--{name.replace('_', '-')}"


def _unknown(option: str, owners: Sequence[Part]) -> str:
    if not owners:
        return f"there is no option {option}; IN comes first, then operations with their options"
    owner = owners[0]
    what = owner.operation.name if owner.operation else owner.words[0]
    names = [spelt(name) for p in owners for name in p.takes]
    more = f" (see ops {what})" if owner.operation else ""
    return f"{what} has no {option}{nearest(option, names)}{more}"
