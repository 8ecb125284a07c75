"""Convert the words of ``beam-volumes chain`` to a recipe.

Inputs come first, then operations in order of execution, each followed by its inputs and options::

    slices gaussian_filter --sigma 1.5 greater 128 label -o cells.ome.zarr

An option belongs to the input, the operation or the output (``-o PATH``) before it.
"""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass
from typing import Any

from beam_volumes.base import hints as elsewhere
from beam_volumes.base.text import nearest, parsed_json
from beam_volumes.ops.parameters.checks import is_length
from beam_volumes.recipes.catalogue import Parameter, footprints, is_of_tiles, operations
from beam_volumes.recipes.document import Entry, RecipeError, parse_value, placed
from beam_volumes.recipes.recipe import NAME, split_name
from beam_volumes.recipes.words import WHERE, Part, Words, spelt

_FOOTPRINT = re.compile(r"(\w+):(\d+)")
#: Parameters that take a footprint.
FOOTPRINTS = ("footprint", "structure", "structure1")


def document(words: Words) -> Entry:
    """Convert words to the document of a recipe; its places are the words, for messages.

    >>> from beam_volumes.recipes.words import read_words
    >>> line = "em.zarr gaussian_filter 2 greater 128 -o mask.zarr"
    >>> document(read_words(line.split(), {}.get)).plain()["steps"]
    {'gaussian_filter': {'sigma': 2}, 'greater': {'inputs': ['gaussian_filter', 128]}}
    """
    return _Document(words).entry()


@dataclass(frozen=True)
class _Step:
    operation: str
    inputs: list[Entry]
    parameters: dict[str, Entry]

    def entry(self, name: str, before: str | None) -> Entry:
        """Return the step of a recipe; an input that is the previous step is omitted."""
        op = Entry(self.operation, self.operation)
        given = dict(self.parameters)
        if [i.value for i in self.inputs] != [before]:
            several = Entry(self.inputs, op.where)
            one = self.inputs[0] if len(self.inputs) == 1 else None
            given = {"inputs": several, **given} if one is None else {"input": one, **given}
        if name != self.operation:
            given = {"op": op, **given}
        return Entry(given, op.where) if given else op


class _Document:
    """Builds a document word by word."""

    def __init__(self, words: Words) -> None:
        if not words.inputs:
            raise RecipeError(
                WHERE,
                "no input is given: write IN before the operations (beam-volumes chain --help)",
            )
        self.inputs: dict[str, Entry] = {}
        self.steps: dict[str, _Step] = {}
        #: `Operation.gives` of each input and step, and the used names.
        self.gives: dict[str, str] = {}
        self.used: set[str] = set()
        for part in words.inputs:
            self._input(part, is_only=len(words.inputs) == 1)
        #: The default input of the next operation.
        self.current = next(iter(self.inputs))
        written = [(self.current, part) for n, part in words.outputs if n == 0]
        for n, part in enumerate(words.steps, 1):
            name = self._step(part)
            written += [(name, output) for k, output in words.outputs if k == n]
        self.outputs = self._outputs(written)

    def entry(self) -> Entry:
        """Return the document."""
        found: dict[str, Entry] = {"inputs": _at(self.inputs)}
        if list(self.inputs) == ["input"]:
            found = {"input": self.inputs["input"]}
        before = next(iter(self.inputs)) if len(self.inputs) == 1 else None
        steps = {}
        for name, step in self.steps.items():
            steps[name] = step.entry(name, before)
            before = name
        if steps:
            found["steps"] = _at(steps)
        return _at({**found, "outputs": _at(self.outputs)})

    # inputs

    def _input(self, part: Part, is_only: bool) -> None:
        word = part.words[0]
        name, equals, path = word.partition("=")
        if not (equals and NAME.fullmatch(name)) or os.path.exists(word):
            path, name = word, "input" if is_only else self._free(_stem(word))
            close = difflib.get_close_matches(word, operations(), 1, 0.8)
            if close and not _is_place(word):
                raise RecipeError(
                    WHERE,
                    f"{word!r} is neither a file nor an operation; did you mean {close[0]!r}?",
                )
        self._check_name(name)
        options = {k: _plain(text, spelt(k)) for k, text in part.options.items()}
        self._open(name, path, options)

    def _open(self, name: str, path: str, options: dict[str, Entry]) -> None:
        if "index" in options:
            options["index"] = _index(options["index"])
        place = {"spec": _spec(path)} if path.startswith("{") else {"path": Entry(path, path)}
        short = not options and "path" in place
        self.inputs[name] = place["path"] if short else Entry({**place, **options}, path)
        self.gives[name] = "volumes" if is_of_tiles(path) else "volume"

    # names

    def _free(self, name: str) -> str:
        """Return the name, or a variant of it that is not used yet."""
        number, found = 1, name
        while found in self.gives:
            number += 1
            found = f"{name}_{number}"
        return found

    def _check_name(self, name: str) -> None:
        if name in self.gives:
            raise RecipeError(WHERE, f"{name!r} is already used; choose a different name")
        if name in operations():
            raise RecipeError(
                WHERE, f"{name!r} is the name of an operation; choose a different name"
            )
        if not NAME.fullmatch(name):
            raise RecipeError(
                WHERE,
                f"{name!r} is not a name: letters, digits, _ and -, beginning with a letter",
            )

    def _is_known(self, word: str) -> bool:
        return split_name(word)[0] in self.gives

    def _volume(self, word: str) -> Entry:
        """Return the name of a volume; a path adds an input."""
        if not self._is_known(word):
            if not _is_place(word):
                known = [n for n in self.gives if n not in operations()]
                hint = nearest(word, [*known, *operations()]) if known else ""
                given = elsewhere.hint(word, list(operations()))
                hint = hint or (f"; {given.replace('bv.', '')}" if given else "")
                hint = hint or "; give a path, or a name defined by --as NAME or NAME=PATH"
                raise RecipeError(WHERE, f"{word!r} is neither a volume nor an operation{hint}")
            same = [n for n, e in self.inputs.items() if e.value == word]
            if same:
                word = same[0]
            else:
                path, word = word, self._free(_stem(word))
                self._open(word, path, {})
        self.used.add(split_name(word)[0])
        return Entry(word, word)

    # steps

    def _step(self, part: Part) -> str:
        operation = part.operation
        assert operation is not None
        if operation.is_of_tables:
            raise RecipeError(
                operation.name,
                "accepts a table, which a chain cannot refer to; write a recipe",
            )
        given = {
            name: self._given(operation.parameters[name], text, f"{spelt(name)} {text}")
            for name, text in part.options.items()
        }
        inputs: list[Entry] = []
        is_arithmetic = not operation.parameters
        words = [*part.words]
        if self._wants_current(part):
            words.insert(0, self.current)
        if not operation.is_of_many and len(words) > len(operation.positional):
            for word in part.words:
                if not _is_value(word):
                    self._volume(word)  # report unknown words first
            limit = len(operation.positional)
            raise RecipeError(
                operation.name,
                f"accepts up to {limit} inputs, but {len(words)} are given: {', '.join(words)}",
            )
        for k, word in enumerate(words):
            name = operation.positional[0 if operation.is_of_many else k]
            if self._is_footprint(word) and not operation.volume(name):
                # It is the value of the first parameter that takes a footprint.
                name = next((n for n in FOOTPRINTS if n in operation.parameters), name)
            if name in given:
                raise RecipeError(
                    operation.name, f"{spelt(name)} is given twice, the second time as {word}"
                )
            if is_arithmetic and _number(word) is not None:
                inputs.append(Entry(_number(word), word))
            elif is_arithmetic or operation.volume(name):
                inputs.append(self._volume(word))
            else:
                given[name] = self._given(operation.parameters[name], word, word)
        for name in operation.positional[len(inputs) :]:
            if name not in given or not operation.volume(name) or operation.is_of_many:
                break
            inputs.append(given.pop(name))
        axis = given.get("axis")
        gives = operation.gives_along(axis.plain() if axis else None)
        return self._add(part, inputs, given, gives)

    def _wants_current(self, part: Part) -> bool:
        """Whether an operation uses the current volume as its first input."""
        operation = part.operation
        assert operation is not None
        if not operation.parameters:
            return len(part.words) < len(operation.positional)
        wanted = [
            name
            for name in operation.required
            if operation.volume(name) and name not in part.options
        ]
        given = 0
        for name, word in zip(operation.positional, part.words, strict=False):
            if not operation.volume(name) or not (self._is_known(word) or _is_place(word)):
                break
            given += 1
        return given < len(wanted)

    def _add(self, part: Part, inputs: list[Entry], given: dict[str, Entry], gives: str) -> str:
        operation = part.operation
        assert operation is not None
        name = part.name or self._free(operation.name)
        if part.name:
            self._check_name(name)
        self.steps[name] = _Step(operation.name, inputs, given)
        self.gives[name] = gives
        if gives in ("volume", "volumes"):
            self.current = name
        return name

    def _is_footprint(self, text: str) -> bool:
        """Whether a text is a footprint such as ``ball:2``."""
        found = _FOOTPRINT.fullmatch(text)
        return found is not None and found[1] in footprints()

    def _given(self, parameter: Parameter, text: str, where: str) -> Entry:
        """Parse the value of a parameter according to its type."""
        if parameter.kind == "volume":
            return self._volume(text)
        if parameter.is_text:
            return Entry(text, where)
        name = split_name(text)[0]
        if self.gives.get(name) == "number" or (
            name in self.gives and parameter.kind.startswith("volume")
        ):
            self.used.add(name)
            return Entry({"step": Entry(text, where)}, where)
        if self._is_footprint(text):
            footprint = _FOOTPRINT.fullmatch(text)
            assert footprint is not None
            return Entry({footprint[1]: Entry(int(footprint[2]), where)}, where)
        found = _plain(text, where)
        if parameter.is_sequence and not isinstance(found.value, list):
            return Entry([found], where)
        return found

    # outputs

    def _outputs(self, written: list[tuple[str, Part]]) -> list[Entry]:
        """Return the outputs, and the numbers and tables that no step uses."""
        outputs = []
        for name, part in written:
            path, options = part.words[0], {}
            for key, text in part.options.items():
                options[key] = _stored(key, text)
            given = {"step": Entry(name, path), "path": Entry(path, path), **options}
            outputs.append(Entry(given, path))
        gone = {name for name, _ in written} | self.used
        for name in self.steps:
            if name in gone:
                continue
            if self.gives[name].startswith("volume"):
                raise RecipeError(
                    WHERE, f"the result of {name} is not written: add -o OUT after it"
                )
            outputs.append(Entry({"step": Entry(name, name)}, name))
        if not outputs:
            raise RecipeError(WHERE, "there is nothing to do: add operations, or -o OUT")
        return outputs


def _at(value: Any) -> Entry:
    return Entry(value, WHERE)


def _is_place(word: str) -> bool:
    """Whether a word looks like a path, a glob, a URL or a spec."""
    looks = re.search(r"[/\\.*{]", word) and not _is_value(word)
    return bool(looks) or os.path.exists(word)


def _is_value(word: str) -> bool:
    """Whether a word is a number, a length with a unit, or several of these separated by commas.

    >>> _is_value("1,.5,.5"), _is_value("0.7 um"), _is_value("[1, 2.5]"), _is_value("2.tif")
    (True, True, True, False)
    """
    parts = (re.sub(r"[\[\]]", "", word) if word[:1] == "[" else word).split(",")
    return all(_number(part) is not None or is_length(part) for part in map(str.strip, parts))


def _stem(path: str) -> str:
    """Make a name from a path."""
    last = re.split(r"[/\\]", path.rstrip("/\\"))[-1].partition(".")[0]
    name = re.sub(r"[^\w-]+", "_", last).strip("_-")
    return name if NAME.fullmatch(name) and name not in operations() else f"in_{name}".rstrip("_")


def _number(word: str) -> int | float | None:
    found = _plain(word, word).value
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None


def _plain(text: str, where: str) -> Entry:
    """Parse a value as YAML; commas make a list, even without brackets.

    >>> _plain("1,2.5", "--sigma").plain(), _plain("15 nm", "--sigma").plain()
    ([1, 2.5], '15 nm')
    """
    if "," in text and text[0] not in "[{\"'":
        return Entry([_plain(part.strip(), where) for part in text.split(",")], where)
    return parse_value(text, where)


def _spec(text: str) -> Entry:
    try:
        return placed(parsed_json(text), WHERE)
    except ValueError as error:
        raise RecipeError(WHERE, f"{text} is not JSON: {error}") from None


def _index(given: Entry) -> Entry:
    """Convert an index such as ``t=0,c=DAPI`` to a mapping."""
    if isinstance(given.value, dict):
        return given
    parts = given.value if isinstance(given.value, list) else [given]
    found = {}
    for part in parts:
        axis, equals, value = (s.strip() for s in str(part.value).partition("="))
        if not (axis and equals and value):
            raise RecipeError(f"--index {part.plain()}", "write it as --index t=0,c=DAPI")
        found[axis] = parse_value(value, "--index")
    return Entry(found, given.where)


def _stored(key: str, text: str) -> Entry:
    """Parse an option of an output, such as ``--codec zstd:5`` or ``--shards auto``."""
    where = f"{spelt(key)} {text}"
    name, colon, level = text.partition(":")
    if key == "codec" and colon and level.isdigit():
        return Entry({"name": Entry(name, where), "level": Entry(int(level), where)}, where)
    if key == "shards" and text == "auto":
        return Entry(True, where)
    return _plain(text, where)
