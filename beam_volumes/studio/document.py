"""A recipe as text that is edited step by step: comments stay, and every change can be undone.

Each edit replaces the characters or lines of one entry, at the positions that the YAML parser reports. All
other characters stay as they are. Libraries that keep comments in a tree, such as ruamel.yaml, format the
whole file again, and comments above a step move with the step before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from beam_volumes.recipes.catalogue import operations
from beam_volumes.recipes.document import flow_text, load
from beam_volumes.recipes.recipe import NAME, split_name

#: Begins each line of a step that is disabled.
OFF = "#off:"
#: Follows a disabled step under its name if other steps use it: it returns its input.
_UNCHANGED = {"op": "crop", "box": ":"}
_OFF_LINE = re.compile(rf"( *){OFF} ?(.*)")
_KEY = re.compile(r"([A-Za-z_][\w-]*) *:")
#: Most texts that are kept for undo.
MAX_UNDO = 200


@dataclass(frozen=True)
class Item:
    """A step in the text."""

    name: str
    #: The operation.
    op: str
    #: The parameters and inputs as plain data, without ``op``.
    given: dict[str, Any]
    is_enabled: bool
    #: The inputs and steps that it names.
    names: tuple[str, ...]
    #: The lines of the step with the comments above it, from 0; the last is excluded.
    lines: tuple[int, int]
    #: The line of its name, from 0.
    line: int
    #: Whether other steps can use it: it is enabled, or returns its input.
    is_step: bool = True


@dataclass(frozen=True)
class Branch:
    """The place of an input or a step among the branches of a recipe."""

    #: The number of the branch. A step continues the branch of the first input that has no later step.
    lane: int
    #: The inputs and steps that it uses, unless this is only the one above it.
    sources: tuple[str, ...] = ()


class Document:
    r"""The text of a recipe, its steps, and its history.

    Examples
    --------
    >>> d = Document("input: em.zarr\nsteps:\n  # noise\n  smooth: {op: gaussian_filter, sigma: 2}\n")
    >>> d.set("smooth", "sigma", 3)
    >>> d.insert(1, "label", {})
    'label'
    >>> print(d.text)
    input: em.zarr
    steps:
      # noise
      smooth: {op: gaussian_filter, sigma: 3}
      label: {}
    <BLANKLINE>
    >>> d.undo(), [item.name for item in d.items()]
    (True, ['smooth'])
    """

    def __init__(self, text: str, file: str = "recipe") -> None:
        _check(text, file)
        self._texts, self._at = [_block_steps(text)], 0
        #: The field that the last change has set: its next change is part of the same step of undo.
        self._field: tuple[str, str] | None = None

    @property
    def text(self) -> str:
        """The recipe."""
        return self._texts[self._at]

    def replace(self, text: str) -> None:
        """Set the whole text, as one change; RecipeError if it is no recipe."""
        _check(text, "recipe")
        text = _block_steps(text)
        if text != self.text:
            del self._texts[self._at + 1 :]
            self._texts.append(text)
            del self._texts[:-MAX_UNDO]
            self._at, self._field = len(self._texts) - 1, None

    def undo(self) -> bool:
        """Go back by one change; False if there is none."""
        self._at, before = max(0, self._at - 1), self._at
        self._field = None
        return self._at < before

    def redo(self) -> bool:
        """Repeat a change that was undone; False if there is none."""
        self._at, before = min(len(self._texts) - 1, self._at + 1), self._at
        return self._at > before

    def items(self) -> list[Item]:
        """Return the steps in their order, also the disabled ones."""
        return _items(self.text)

    def item(self, name: str) -> Item:
        """Return a step by name."""
        for item in self.items():
            if item.name == name:
                return item
        raise KeyError(name)

    def names(self) -> list[str]:
        """Return the names of inputs and enabled steps."""
        return [*self.inputs(), *(item.name for item in self.items() if item.is_step)]

    def branches(self) -> dict[str, Branch]:
        r"""Return the places of inputs and steps among the branches.

        Examples
        --------
        >>> wide = "{op: gaussian_filter, input: input, sigma: 8}"
        >>> steps = f"a: {{op: abs}}, wide: {wide}, even: {{op: subtract, inputs: [a, wide]}}"
        >>> found = Document(f"input: em.zarr\nsteps: {{{steps}}}\noutput: o.zarr\n").branches()
        >>> [(name, branch.lane, *branch.sources) for name, branch in found.items()]
        [('input', 0), ('a', 0), ('wide', 1, 'input'), ('even', 0, 'a', 'wide')]
        """
        inputs, names = self.inputs(), self.names()
        used: dict[str, tuple[str, ...]] = {}
        for item in self.items():
            if item.is_step:
                known = [*inputs, *used]
                is_given = not item.given.keys().isdisjoint(("input", "inputs"))
                above = () if is_given or (len(inputs) > 1 and not used) else known[-1:]
                used[item.name] = tuple(n for n in (*above, *item.names) if n in names)
        found = {name: Branch(lane) for lane, name in enumerate(inputs)}
        tips, steps = list(inputs), list(used.items())
        for k, (name, sources) in enumerate(steps):
            before, after = ({n for _, s in part for n in s} for part in (steps[:k], steps[k:]))
            # Else the lane of a branch that has ended in another one, or a new lane.
            lane = next((tips.index(n) for n in sources if n in tips), None)
            if lane is None:
                ended = (i for i, tip in enumerate(tips) if tip in before - after)
                lane = next(ended, len(tips))
            tips[lane : lane + 1] = [name]
            is_next = sources == tuple(found)[-1:]
            found[name] = Branch(lane, () if is_next else sources)
        return found

    def inputs(self) -> list[str]:
        """Return the names of inputs."""
        plain = load(self.text, "recipe").plain()
        return ["input"] if "input" in plain else list(plain.get("inputs") or {})

    def outputs(self) -> list[dict[str, Any]]:
        """Return the outputs, each as a mapping."""
        plain = load(self.text, "recipe").plain()
        found = [plain["output"]] if "output" in plain else plain.get("outputs") or []
        return [{"path": o} if isinstance(o, str) else dict(o) for o in found]

    # edits

    def insert(self, index: int, op: str, given: Mapping[str, Any]) -> str:
        """Add a step at a position among the steps, and return its name."""
        name = self._free_name(op)
        mapping = dict(given) if name == op else {"op": op, **given}
        self._put(index, [f"{name}: {flow_text(mapping)}"])
        return name

    def remove(self, name: str) -> None:
        """Remove a step and the comments above it; an error if another entry refers to it."""
        self._check_unused(name, "remove")
        self._cut(self.item(name))

    def duplicate(self, name: str) -> str:
        """Add a copy of a step after it, and return its name."""
        item = self.item(name)
        at = [i.name for i in self.items()].index(name)
        return self.insert(at + 1, item.op, item.given)

    def move(self, name: str, index: int) -> None:
        """Move a step with the comments above it to another position among the steps."""
        item, begin = self.item(name), self._at
        lines = self.text.splitlines()[slice(*item.lines)]
        indent = min((len(x) - len(x.lstrip()) for x in lines if x.strip()), default=0)
        self._cut(item)
        self._put(index, [line[indent:] for line in lines])
        self._join(begin)

    def enable(self, name: str, on: bool) -> None:
        """Enable a step, or disable it: it stays in the text as a comment.

        If others use it, a step that returns its input takes its place.
        """
        item = self.item(name)
        if item.is_enabled == on:
            return
        lines = self.text.splitlines()
        begin, end = item.line, item.lines[1]
        space = " " * (len(lines[begin]) - len(lines[begin].lstrip()))
        if on:
            found = filter(None, map(_OFF_LINE.fullmatch, lines[begin:end]))
            written = [line[2] for line in found]
        else:
            written = [f"{OFF} {line[len(space) :]}" for line in lines[begin:end]]
            if self._users(name):
                operation = operations().get(item.op)
                if operation is None or operation.gives != "volume" or operation.is_of_tables:
                    self._check_unused(name, "disable")
                inputs = item.given.get("inputs")
                inputs = inputs if isinstance(inputs, list) else [item.given.get("input")]
                given = [{"input": i} for i in inputs if isinstance(i, str)] or [{}]
                written.append(f"{name}: {flow_text({**_UNCHANGED, **given[0]})}")
        lines[begin:end] = [f"{space}{line}".rstrip() for line in written]
        self.replace("\n".join(lines) + "\n")

    def set(self, name: str, key: str, value: Any, instead_of: str = "") -> None:
        """Set a parameter of a step, or its ``input`` or ``inputs``; None for the default.

        ``instead_of`` is a parameter that cannot be given together with this one; it is removed.
        Changes of the same field in a row, as by a slider, are undone together.
        """
        item = self.item(name)
        if not item.is_enabled:
            raise ValueError(f"the step {name!r} is disabled; enable it to change it")
        if item.given.get(key) == value:
            return
        if self._field == (name, key):
            # The text before this change is no state of its own.
            del self._texts[self._at]
            self._at -= 1
        begin = self._at
        if instead_of in self.item(name).given:
            self._set(self.item(name), instead_of, None)
        self._set(self.item(name), key, value)
        self._join(begin)
        self._field = name, key

    def _set(self, item: Item, key: str, value: Any) -> None:
        name = item.name
        node, key_node = _step_nodes(self.text)[name]
        spliced = None if value is None else _spliced(self.text, node, key, value)
        if spliced is not None:
            self.replace(spliced)
            return
        # The whole step is written again, in one line.
        given = {k: v for k, v in {**item.given, key: value}.items() if v is not None}
        mapping = given if item.op == name else {"op": item.op, **given}
        indent = key_node.start_mark.column
        lines = self.text.splitlines()
        lines[item.line : item.lines[1]] = [f"{' ' * indent}{name}: {flow_text(mapping)}"]
        self.replace("\n".join(lines) + "\n")

    def set_input(self, name: str, path: str) -> None:
        """Set the path of an input."""
        root: Any = yaml.compose(self.text, Loader=yaml.BaseLoader)
        top = {key.value: value for key, value in root.value}
        node = top.get("input")
        if node is None:
            node = next(v for k, v in top["inputs"].value if k.value == name)
        if isinstance(node, yaml.MappingNode):
            node = next(v for k, v in node.value if k.value in ("path", "spec"))
        begin, end = node.start_mark.index, node.end_mark.index
        self.replace(self.text[:begin] + flow_text(path) + self.text[end:])

    def set_outputs(self, outputs: Sequence[Mapping[str, Any]]) -> None:
        """Replace the outputs."""
        lines = self.text.splitlines()
        root: Any = yaml.compose(self.text, Loader=yaml.BaseLoader)
        written = ["outputs:", *(f"  - {flow_text(dict(o))}" for o in outputs)]
        for key, value in root.value:
            if key.value in ("output", "outputs"):
                lines[key.start_mark.line : _end_line(value, key)] = written
                break
        else:
            lines += written
        self.replace("\n".join(lines) + "\n")

    # internals

    def _join(self, begin: int) -> None:
        """Make the changes since a position of the history one change."""
        del self._texts[begin + 1 : self._at]
        self._at = len(self._texts) - 1

    def _free_name(self, op: str) -> str:
        taken = {*self.names(), *(item.name for item in self.items())}
        base, number, name = op if NAME.fullmatch(op) else "step", 1, op
        while name in taken:
            number += 1
            name = f"{base}_{number}"
        return name

    def _users(self, name: str) -> list[str]:
        """Return the steps and outputs that name a step."""
        outputs = [o for o in self.outputs() if split_name(str(o.get("step")))[0] == name]
        return [
            *(item.name for item in self.items() if item.is_step and name in item.names),
            *(f"the output {o.get('path') or name}" for o in outputs),
        ]

    def _check_unused(self, name: str, what: str) -> None:
        if users := self._users(name):
            raise ValueError(
                f"{name!r} is used by {', '.join(users)}; let them use another step to {what} it"
            )

    def _cut(self, item: Item) -> None:
        lines = self.text.splitlines()
        del lines[slice(*item.lines)]
        self.replace("\n".join(lines) + "\n")

    def _put(self, index: int, block: Sequence[str]) -> None:
        """Insert lines without indentation at a position among the steps."""
        items, lines = self.items(), self.text.splitlines()
        if items:
            first = lines[items[0].line]
            indent = len(first) - len(first.lstrip())
            at = items[index].lines[0] if index < len(items) else items[-1].lines[1]
        else:
            indent, at = 2, _steps_line(lines)
        lines[at:at] = [f"{' ' * indent}{line}".rstrip() for line in block]
        self.replace("\n".join(lines) + "\n")


def _check(text: str, file: str) -> None:
    """Raise RecipeError for a text without the entries that are shown and edited."""
    root = load(text, file)
    top = root.mapping("a recipe")
    for key in ("inputs", "steps"):
        if key in top and top[key].value is not None:
            top[key].mapping(key)
    if "input" not in top and not ("inputs" in top and top["inputs"].value):
        raise root.error("a recipe needs input: PATH or inputs: {name: PATH}")
    outputs = top.get("outputs")
    if outputs is not None and not isinstance(outputs.value, list):
        raise outputs.error("outputs must be a list: '- {step: name, path: PATH}'")
    for output in [top["output"]] if "output" in top else outputs.value if outputs else []:
        if not isinstance(output.value, str):
            output.mapping("an output")


def _steps_line(lines: list[str]) -> int:
    """Return the line after ``steps:``, which is added if it is missing."""
    for k, line in enumerate(lines):
        if re.match(r"steps *:", line):
            lines[k] = "steps:"
            return k + 1
    at = next((k for k, x in enumerate(lines) if re.match(r"outputs? *:", x)), len(lines))
    lines.insert(at, "steps:")
    return at + 1


def _block_steps(text: str) -> str:
    """Return the text with one line or more for each step: ``steps: {...}`` is written again."""
    root: Any = yaml.compose(text, Loader=yaml.BaseLoader)
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    for key, value in pairs:
        if key.value == "steps" and isinstance(value, yaml.MappingNode) and value.flow_style:
            plain = load(text, "recipe").plain()["steps"]
            block = "".join(f"\n  {name}: {flow_text(step)}" for name, step in plain.items())
            return text[: value.start_mark.index].rstrip() + block + text[value.end_mark.index :]
    return text


def _step_nodes(text: str) -> dict[str, tuple[Any, Any]]:
    """Return the nodes of each step's value and name."""
    root: Any = yaml.compose(text, Loader=yaml.BaseLoader)
    steps = next((v for k, v in root.value if k.value == "steps"), None)
    if not isinstance(steps, yaml.MappingNode):
        return {}
    return {key.value: (value, key) for key, value in steps.value}


def _end_line(node: Any, key: Any) -> int:
    """Return the line after the last character of a value."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end_line(*reversed(last)) if isinstance(last, tuple) else _end_line(last, last)
    if node.start_mark.index == node.end_mark.index:  # an empty value
        return int(key.end_mark.line) + 1
    mark = node.end_mark
    return int(mark.line if mark.column == 0 else mark.line + 1)  # texts of several lines


def _items(text: str) -> list[Item]:
    lines = text.splitlines()
    plain = load(text, "recipe").plain().get("steps") or {}
    found = {
        name: _described(name, plain[name], value, key.start_mark.line, _end_line(value, key))
        for name, (value, key) in _step_nodes(text).items()
    }
    inside = {k for item in found.values() for k in range(item.line, item.lines[1])}
    first = next((k for k, x in enumerate(lines) if re.match(r"steps *:", x)), len(lines))
    top = (k for k in range(first + 1, len(lines)) if re.match(r"[^\s#]", lines[k]))
    disabled = []
    for k in range(first + 1, next(top, len(lines))):
        off = _OFF_LINE.fullmatch(lines[k])
        if off and k not in inside and _KEY.match(off[2]):
            item = _disabled(lines, k)
            instead = found.get(item.name)
            if (
                instead
                and instead.line == item.lines[1]
                and _UNCHANGED.items() <= {"op": instead.op, **instead.given}.items()
            ):
                item = replace(
                    found.pop(item.name),
                    op=item.op,
                    given=item.given,
                    is_enabled=False,
                    line=k,
                    lines=(k, instead.lines[1]),
                )
            disabled.append(item)
    items = sorted((*found.values(), *disabled), key=lambda item: item.line)
    return [_with_comments(item, lines) for item in items]


def _described(name: str, given: Any, node: Any, line: int, end: int) -> Item:
    mapping = {"op": given} if isinstance(given, str) else {}
    if isinstance(given, dict):
        mapping = dict(given)
    op = str(mapping.pop("op", name))
    names = tuple(dict.fromkeys(_names(node, op)))
    return Item(name, op, mapping, node is not None, names, (line, end), line, node is not None)


def _disabled(lines: list[str], begin: int) -> Item:
    """Return the disabled step with its name on a line."""
    block: list[str] = []
    for line in lines[begin:]:
        off = _OFF_LINE.fullmatch(line)
        if off is None or (block and _KEY.match(off[2])):
            break
        block.append(off[2])
    try:
        ((name, given),) = load("\n".join(block), "recipe").plain().items()
    except (ValueError, AttributeError):
        name, given = block[0].partition(":")[0], None
    return _described(name, given, None, begin, begin + len(block))


def _with_comments(item: Item, lines: list[str]) -> Item:
    begin = item.line
    while (
        begin > 0
        and re.match(r"\s*#", lines[begin - 1])
        and not _OFF_LINE.fullmatch(lines[begin - 1])
    ):
        begin -= 1
    return replace(item, lines=(begin, item.lines[1]))


def _spliced(text: str, node: Any, key: str, value: Any) -> str | None:
    """Return the text with one value changed or added in place; None if that is not possible."""
    if not isinstance(node, yaml.MappingNode):
        return None
    written = flow_text(value)
    for k, old in node.value:
        if k.value == key:
            begin, end = old.start_mark.index, old.end_mark.index
            is_block = isinstance(old, yaml.CollectionNode) and not old.flow_style
            if is_block or begin == end or getattr(old, "style", None) in ("|", ">"):
                return None
            return text[:begin] + written + text[end:]
    if node.flow_style:
        at = node.end_mark.index - 1
        comma = ", " if node.value else ""
        return f"{text[:at].rstrip()}{comma}{key}: {written}{text[at:]}"
    last_key, last = node.value[-1]
    lines = text.splitlines()
    indent = " " * node.value[0][0].start_mark.column
    lines.insert(_end_line(last, last_key), f"{indent}{key}: {written}")
    return "\n".join(lines) + "\n"


def _names(node: Any, op: str) -> Iterator[str]:
    """Yield the inputs and steps that a step names; none for a disabled step."""
    operation = operations().get(op)
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        is_input = key.value in ("input", "inputs")
        yield from _texts(value, is_input or bool(operation and operation.volume(key.value)))


def _texts(node: Any, is_name: bool) -> Iterator[str]:
    """Yield the names in a value, also in ``{step: name}``."""
    if isinstance(node, yaml.ScalarNode):
        if is_name:
            yield split_name(node.value)[0]
        return
    for part in node.value:
        key, value = part if isinstance(part, tuple) else (None, part)
        yield from _texts(value, is_name if key is None else key.value == "step")
