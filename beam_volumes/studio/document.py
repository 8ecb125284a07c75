"""A recipe as text that is edited step by step: comments stay, and every change can be undone.

Each edit replaces the characters or lines of one entry, at the positions that the YAML parser reports. All
other characters stay as they are. Libraries that keep comments in a tree, such as ruamel.yaml, format the
whole file again, and comments above a step move with the step before it.

The new text is parsed, and only used if it is the old document with this edit. Otherwise aliases are replaced
by their values, or each step is written in a line, and the edit is repeated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import yaml

from beam_volumes.recipes.catalogue import operations
from beam_volumes.recipes.document import flow_text, load, placed, plain_node, printed
from beam_volumes.recipes.recipe import NAME, split_name

#: Begins each line of a step that is disabled.
OFF = "#off:"
#: Follows a disabled step under its name if other steps use it: it returns its input.
_UNCHANGED = {"op": "crop", "box": ":"}
_OFF_LINE = re.compile(rf"( *){OFF}( ?)(.*)")
_KEY = re.compile(r"""(["']?)([A-Za-z_][\w-]*)\1 *:""")
#: The characters that end a line.
_BREAKS = "\n\r\x85\u2028\u2029"
#: Most changes that can be undone.
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
        self._add(text)

    def _add(self, text: str, field: tuple[str, str] | None = None) -> None:
        """Add a text to the history, or replace the last one if it has set the same field."""
        _check(text, "recipe")
        text = _block_steps(text)
        if text == self.text:
            return
        del self._texts[self._at + (field is None or field != self._field) :]
        self._field = field
        if self._texts and self._texts[-1] == text:  # the field is as it was
            self._field = None
        else:
            self._texts.append(text)
        del self._texts[: -MAX_UNDO - 1]
        self._at = len(self._texts) - 1

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
        return [
            {"path": o} if isinstance(o, str) else dict(o) for o in _parts(self.text)["outputs"]
        ]

    # edits

    def insert(self, index: int, op: str, given: Mapping[str, Any]) -> str:
        """Add a step at a position among the steps, and return its name.

        The next step keeps its input: an input that it does not name is written down.
        """
        name, items = self._free_name(op), self.items()
        step = dict(given) if name == op else {"op": op, **given}
        steps = list(_parts(self.text)["steps"].items())
        steps.insert(sum(i.is_step for i in items[:index]), (name, step))
        below = next((i.name for i in items[index:] if i.is_step), "")
        kept = {n: source for n, source in self._above(items).items() if n == below and source}
        self._arrange(dict(steps), kept, lambda text: _inserted(text, index, name, step))
        return name

    def remove(self, name: str) -> None:
        """Remove a step and the comments above it; an error if another entry refers to it."""
        self._check_unused(name, "remove")
        steps = {n: step for n, step in _parts(self.text)["steps"].items() if n != name}
        self._edit({"steps": steps}, lambda text: _with_lines(text, *_item(text, name).lines))

    def duplicate(self, name: str) -> str:
        """Add a copy of a step after it, and return its name.

        It is applied to the result of the step, or, if this is not one volume, to the input of the step.
        """
        items, item = self.items(), self.item(name)
        operation, above = operations().get(item.op), self._above(items).get(name)
        given = item.given
        if above and operation is not None and operation.gives != "volume":
            given = {"input": above, **given}
        return self.insert([i.name for i in items].index(name) + 1, item.op, given)

    def move(self, name: str, index: int) -> None:
        """Move a step with the comments above it to another position among the steps.

        All steps keep their inputs: an input that a step does not name is written down if it would change.
        """
        items, moved = self.items(), self.item(name)
        ordered = [item for item in items if item.name != name]
        ordered.insert(index, moved)
        above = self._above(ordered)
        kept = {n: s for n, s in self._above(items).items() if s and above[n] != s}
        steps = _parts(self.text)["steps"]
        wanted = {item.name: steps[item.name] for item in ordered if item.is_step}
        self._arrange(wanted, kept, lambda text: _moved(text, name, index))

    def enable(self, name: str, on: bool) -> None:
        """Enable a step, or disable it: it stays in the text as a comment.

        If others use it, a step that returns its input takes its place.
        """
        item, text, steps = self.item(name), self.text, _parts(self.text)["steps"]
        if item.is_enabled == on:
            return
        if on:
            enabled = _enabled(text, item)
            if _others(enabled, name) != _others(text, name):
                raise ValueError(
                    f"{name!r} cannot be enabled at its place; edit the recipe as text"
                )
            self.replace(enabled)
            return
        instead: dict[str, Any] | None = None
        if self._users(name):
            operation = operations().get(item.op)
            if operation is None or operation.gives != "volume" or operation.is_of_tables:
                self._check_unused(name, "disable")
            inputs = item.given.get("inputs")
            inputs = inputs if isinstance(inputs, list) else [item.given.get("input")]
            given = [{"input": i} for i in inputs if isinstance(i, str)] or [{}]
            instead = {**_UNCHANGED, **given[0]}
        disabled = _disabled(text, item, instead)
        wanted = {n: instead if n == name else step for n, step in steps.items()}
        if instead is None:
            del wanted[name]
        try:
            is_right = (
                _same(_parts(disabled)["steps"], wanted)
                and _enabled(disabled, _item(disabled, name)) == text
            )
        except (ValueError, LookupError):  # another step uses its anchor, or its key is not found
            is_right = False
        if not is_right:
            if users := _alias_users(text, item):
                raise ValueError(
                    f"{name!r} has YAML anchors that others use ({', '.join(users)}); write their values "
                    "there to disable it"
                )
            raise ValueError(
                f"{name!r} cannot be disabled in the form in which it is written; write it as "
                f"{_step_line(name, steps[name])!r} first"
            )
        self.replace(disabled)

    def set(self, name: str, key: str, value: Any, instead_of: str = "") -> None:
        """Set a parameter of a step, or its ``input`` or ``inputs``; None for the default.

        ``instead_of`` is a parameter that cannot be given together with this one; it is removed.
        """
        # Changes of the same field in a row, as by a slider, are undone together.
        if not self.item(name).is_enabled:
            raise ValueError(f"the step {name!r} is disabled; enable it to change it")
        steps = _parts(self.text)["steps"]
        step, value = _mapping_of(steps[name]), placed(value, key).plain()
        wanted = {k: v for k, v in {**step, key: value}.items() if k != instead_of}
        if value is None:
            del wanted[key]
        if repr(wanted) == repr(step):
            return

        def in_place(text: str) -> str:
            for k in (instead_of, key):
                text = _with_entry(text, ["steps", name], k, wanted.get(k))
            return text

        def in_one_line(text: str) -> str:
            return _with_entry(text, ["steps"], name, wanted)

        self._edit({"steps": {**steps, name: wanted}}, in_place, in_one_line, field=(name, key))

    def set_input(self, name: str, path: str) -> None:
        """Set the path of an input."""
        parts = _parts(self.text)
        where, inputs = ([], parts) if "input" in parts else (["inputs"], parts["inputs"])
        key, given = name, inputs[name]
        new: Any = path
        if isinstance(given, dict):
            key = "spec" if "spec" in given else "path"
            where, new = [*where, name], {**given, key: path}
        changed = {name: new} if inputs is parts else {"inputs": {**inputs, name: new}}
        self._edit(changed, lambda text: _with_entry(text, where, key, path))

    def set_outputs(self, outputs: Sequence[Mapping[str, Any]]) -> None:
        """Replace the outputs; those that stay keep their text."""
        before = _parts(self.text)["outputs"]
        kept = [next((o for o in before if _same(_output(o), new)), dict(new)) for new in outputs]
        self._edit({"outputs": kept}, lambda text: _with_outputs(text, kept))

    # internals

    def _edit(
        self,
        changed: Mapping[str, Any],
        *changes: Callable[[str], str],
        field: tuple[str, str] | None = None,
    ) -> None:
        """Set the text to the first result of a change that is the document with changed parts."""
        wanted = {**_parts(self.text), **changed}
        for form in (str, _without_aliases, _steps_in_lines):
            for change in changes:
                try:
                    text = change(form(self.text))
                    is_right = _same(_parts(text), wanted)
                except (ValueError, LookupError, yaml.YAMLError):
                    continue
                if is_right:
                    self._add(text, field)
                    return
        raise ValueError(
            "the recipe is written in a form that cannot be edited here; edit it as text"
        )

    def _above(self, items: Sequence[Item]) -> dict[str, str]:
        """Return the step or input above each step that names no input; an empty text for none."""
        inputs, found = self.inputs(), {}
        above = inputs[0] if len(inputs) == 1 else ""
        for item in items:
            if item.is_step:
                if item.given.keys().isdisjoint(("input", "inputs")):
                    found[item.name] = above
                above = item.name
        return found

    def _arrange(
        self, steps: Mapping[str, Any], kept: Mapping[str, str], change: Callable[[str], str]
    ) -> None:
        """Make a change that leaves these steps, and write the inputs of some to keep them."""
        wanted = {n: _with_input(s, kept[n]) if n in kept else s for n, s in steps.items()}
        self._edit(
            {"steps": wanted},
            lambda text: change(_with_inputs(text, kept)),
            lambda text: change(_with_inputs(text, kept, in_one_line=True)),
        )

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


# parsing


class _Loader(yaml.BaseLoader):
    """Makes a node of its own of each alias, with its place in the text."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event() if self.check_event(yaml.AliasEvent) else None
        node = super().compose_node(parent, index)
        if event is not None:
            alias: Any = copy(node)
            alias.start_mark, alias.end_mark, alias.is_alias = (
                event.start_mark,
                event.end_mark,
                True,
            )
            return alias
        return node


def _root(text: str) -> Any:
    return yaml.compose(text, Loader=_Loader)


def _parts(text: str) -> dict[str, Any]:
    """Return the document with ``steps`` and a list of ``outputs``."""
    plain = load(text, "recipe").plain()
    steps, outputs = plain.pop("steps", None) or {}, plain.pop("outputs", None) or []
    outputs = [plain.pop("output")] if "output" in plain else outputs
    return {"steps": steps, "outputs": outputs, **plain}


def _same(a: Any, b: Any) -> bool:
    """Whether plain data are equal, with their types and the order of entries."""
    return repr(a) == repr(b)


def _others(text: str, name: str) -> str:
    """Return all parts of a document except a step, for comparison."""
    parts = _parts(text)
    return repr({**parts, "steps": {n: s for n, s in parts["steps"].items() if n != name}})


def _output(given: Any) -> dict[str, Any]:
    return {"path": given} if isinstance(given, str) else dict(given)


def _mapping_of(step: Any) -> dict[str, Any]:
    """Return the entries of a step."""
    return {"op": step} if isinstance(step, str) else dict(step) if isinstance(step, dict) else {}


def _with_input(step: Any, source: str) -> dict[str, Any]:
    return {**_mapping_of(step), "input": source}


def _node_at(root: Any, path: Sequence[str]) -> tuple[Any, Any]:
    """Return the nodes of a key and its value; the key is None for the root."""
    key, node = None, root
    for name in path:
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()
        key, node = next((pair for pair in pairs if pair[0].value == name), (None, None))
        if key is None:
            raise KeyError(name)
    return key, node


def _is_block(node: Any) -> bool:
    """Whether a value is written in lines of its own: a block of entries, or a text after | or >."""
    if getattr(node, "is_alias", False):
        return False
    if isinstance(node, yaml.CollectionNode):
        return bool(node.value) and not node.flow_style
    return node.style in ("|", ">")


def _end_line(node: Any, key: Any) -> int:
    """Return the line after the last character of a value."""
    if isinstance(node, yaml.CollectionNode) and _is_block(node):
        last = node.value[-1]
        return _end_line(*reversed(last)) if isinstance(last, tuple) else _end_line(last, last)
    if node.start_mark.index == node.end_mark.index:  # an empty value
        return int(max(key.end_mark.line, node.end_mark.line)) + 1
    mark = node.end_mark
    return int(mark.line if mark.column == 0 else mark.line + 1)  # texts of several lines


def _item(text: str, name: str) -> Item:
    for item in _items(text):
        if item.name == name:
            return item
    raise KeyError(name)


def _items(text: str) -> list[Item]:
    pairs = _root(text).value
    at = next((k for k, (key, _) in enumerate(pairs) if key.value == "steps"), None)
    if at is None:
        return []
    lines = text.splitlines()
    stop = pairs[at + 1][0].start_mark.line if at + 1 < len(pairs) else _end_of_document(lines)
    (steps_key, node), plain = pairs[at], _parts(text)["steps"]
    enabled: dict[int, Item] = {}
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        line, name = key.start_mark.line, key.value
        end = max(line + 1, _end_line(value, key))
        enabled[line] = _described(name, plain[name], line, end)
    items: list[Item] = []
    k = steps_key.start_mark.line + 1
    while k < stop:
        off = _OFF_LINE.fullmatch(lines[k])
        item = enabled.get(k)
        if item is None and off and _KEY.match(off[3]):
            item = _disabled_item(lines[:stop], k)
            instead = enabled.get(item.lines[1])
            if (
                instead
                and instead.name == item.name
                and _UNCHANGED.items() <= {"op": instead.op, **instead.given}.items()
            ):
                lines_of_both = k, instead.lines[1]
                item = replace(item, names=instead.names, is_step=True, lines=lines_of_both)
        if item is not None:
            begin = k
            first = items[-1].lines[1] if items else steps_key.start_mark.line + 1
            while begin > first and re.match(r"\s*#", lines[begin - 1]):
                begin -= 1
            items.append(replace(item, lines=(begin, item.lines[1])))
        k = item.lines[1] if item else k + 1
    return items


def _alias_users(text: str, item: Item) -> list[str]:
    """Return the aliases in other places of anchors in a step, each with its step or entry."""
    begin, end = item.lines
    places = {key.start_mark.line: key.value for key, _ in _root(text).value}
    places |= {other.line: other.name for other in _items(text)}
    lines: dict[str, int] = {}
    found = []
    for token in yaml.scan(text):
        line = token.start_mark.line
        if isinstance(token, yaml.AnchorToken):
            lines[token.value] = line
        elif (
            isinstance(token, yaml.AliasToken)
            and begin <= lines[token.value] < end
            and not begin <= line < end
        ):
            found.append(f"*{token.value} in {places[max(k for k in places if k <= line)]}")
    return list(dict.fromkeys(found))


def _end_of_document(lines: Sequence[str]) -> int:
    marks = (k for k, line in enumerate(lines) if re.match(r"\.\.\.(\s|$)", line))
    return next(marks, len(lines))


def _described(name: str, given: Any, line: int, end: int, is_enabled: bool = True) -> Item:
    mapping = _mapping_of(given)
    op = str(mapping.pop("op", name))
    names = tuple(dict.fromkeys(_names(mapping, op))) if is_enabled else ()
    return Item(name, op, mapping, is_enabled, names, (line, end), line, is_enabled)


def _disabled_item(lines: Sequence[str], begin: int) -> Item:
    """Return the disabled step with its name on a line."""
    end, first, ends = begin, _OFF_LINE.fullmatch(lines[begin]), []
    while end < len(lines) and (off := _OFF_LINE.fullmatch(lines[end])):
        if end > begin and first and off[1] == first[1] and _KEY.match(off[3]):
            ends.append(end)
        end += 1
    # A line may look like the next step and belong to this one: "{op: clip," and then "min: 1}".
    for stop in (ends := [*ends, end]):
        try:
            found = load("\n".join(map(_restored, lines[begin:stop])), "recipe").plain()
        except ValueError:
            continue
        if isinstance(found, dict) and len(found) == 1:
            ((name, given),) = found.items()
            return _described(name, given, begin, stop, is_enabled=False)
    key = _KEY.match(first[3]) if first else None
    return _described(key[2] if key else "", None, begin, ends[0], is_enabled=False)


# writing


def _written(value: Any, is_in_flow: bool) -> str:
    """Return a value as YAML; a text has quotes where the context needs them."""
    return flow_text([value])[1:-1] if is_in_flow else flow_text(value)


def _step_line(name: str, step: Any) -> str:
    return flow_text({name: step})[1:-1]


def _with_lines(text: str, begin: int, end: int, new: Sequence[str] = ()) -> str:
    """Return the text with other lines from ``begin`` to ``end``."""
    line_break = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    head = [*lines[:begin], *new]
    if new:
        head = [x if x[-1:] and x[-1] in _BREAKS else x + line_break for x in head]
    return "".join([*head, *lines[end:]])


def _place(text: str, index: int) -> tuple[str, int, str]:
    """Return the text with ``steps:``, and the line and indentation of a step at a position."""
    items = _items(text)
    if items:
        at = items[index].lines[0] if index < len(items) else items[-1].lines[1]
        line = text.splitlines()[next((i.line for i in items if i.is_enabled), items[0].line)]
        return text, at, line[: len(line) - len(line.lstrip(" "))]
    pairs = _root(text).value
    column = pairs[0][0].start_mark.column
    at = _end_of_document(text.splitlines())
    for key, value in pairs:
        if key.value == "steps":  # it is empty
            text = text[: value.start_mark.index] + text[value.end_mark.index :]
            return text, key.start_mark.line + 1, " " * (column + 2)
        if key.value in ("output", "outputs"):
            at = min(at, key.start_mark.line)
    return _with_lines(text, at, at, [" " * column + "steps:"]), at + 1, " " * (column + 2)


def _inserted(text: str, index: int, name: str, step: Any) -> str:
    text, at, indent = _place(text, index)
    return _with_lines(text, at, at, [indent + _step_line(name, step)])


def _moved(text: str, name: str, index: int) -> str:
    begin, end = _item(text, name).lines
    moved = text.splitlines(keepends=True)[begin:end]
    text, at, _ = _place(_with_lines(text, begin, end), index)
    return _with_lines(text, at, at, moved)


def _disabled(text: str, item: Item, instead: Any) -> str:
    """Return the text with a step as a comment, and another step ``instead`` if it is not None."""
    lines = text.splitlines(keepends=True)
    begin, end = item.line, item.lines[1]
    space = lines[begin][: len(lines[begin]) - len(lines[begin].lstrip(" "))]
    written = []
    for line in lines[begin:end]:
        own = space if line.startswith(space) else line[: len(line) - len(line.lstrip(" "))]
        is_empty = line[0] in _BREAKS
        written.append(f"{space}{OFF}{line}" if is_empty else f"{own}{OFF} {line[len(own) :]}")
    if instead is not None:
        line = written[-1].rstrip(_BREAKS)
        line_break = written[-1][len(line) :]
        default = "\r\n" if "\r\n" in text else "\n"
        written[-1] = line + (line_break or default)
        written.append(f"{space}{_step_line(item.name, instead)}{line_break}")
    return "".join([*lines[:begin], *written, *lines[end:]])


def _enabled(text: str, item: Item) -> str:
    """Return the text with a disabled step as before."""
    lines = text.splitlines(keepends=True)
    begin, end = item.line, item.lines[1]
    found = [line for line in lines[begin:end] if _OFF_LINE.match(line)]
    written = [_restored(line) for line in found]
    if len(found) < end - begin and lines[end - 1][-1] not in _BREAKS:
        written[-1] = written[-1].rstrip(_BREAKS)
    return "".join([*lines[:begin], *written, *lines[end:]])


def _restored(line: str) -> str:
    """Return a line of a disabled step as it was."""
    body = line.rstrip(_BREAKS)
    off = _OFF_LINE.fullmatch(body)
    indent, space, text = off.groups() if off else ("", "", body)
    return (indent + text if space or text else "") + line[len(body) :]


def _with_entry(text: str, path: Sequence[str], key: str, value: Any) -> str:
    """Return the text with one entry of a mapping set in place; None removes it."""
    _, node = _node_at(_root(text), path)
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    k = next((k for k, pair in enumerate(pairs) if pair[0].value == key), None)
    if k is None:
        return text if value is None else _with_new_entry(text, node, key, value)
    key_node, old = pairs[k]
    begin, end = old.start_mark.index, old.end_mark.index
    if value is None and not node.flow_style:
        return _with_lines(text, key_node.start_mark.line, _end_line(old, key_node))
    if value is None:
        begin, end = key_node.start_mark.index, max(end, key_node.end_mark.index)
        if k + 1 < len(pairs):
            end = pairs[k + 1][0].start_mark.index
        elif k:
            begin = max(mark.end_mark.index for mark in pairs[k - 1])
        return text[:begin] + text[end:]
    written = _written(value, node.flow_style)
    if _is_block(old):
        line = _end_line(old, key_node)
        colon = text.index(":", key_node.end_mark.index) + 1
        if not text[colon:begin].strip():
            begin = colon
        rest = "".join(text.splitlines(keepends=True)[line:])
        written += "\r\n" if "\r\n" in text else "\n"
        return text[:begin] + " " * (begin == colon) + written + rest
    return text[:begin] + " " * (text[begin - 1] == ":") + written + text[end:]


def _with_inputs(text: str, inputs: Mapping[str, str], in_one_line: bool = False) -> str:
    """Return the text with an input of each of some steps, also of a disabled one that others use."""
    for name, source in inputs.items():
        item = _item(text, name)
        text = text if item.is_enabled else _enabled(text, item)
        step = _parts(text)["steps"][name]
        if in_one_line or not isinstance(step, dict):
            text = _with_entry(text, ["steps"], name, _with_input(step, source))
        else:
            text = _with_entry(text, ["steps", name], "input", source)
        if not item.is_enabled:
            text = _disabled(text, _item(text, name), _with_input(_UNCHANGED, source))
    return text


def _with_new_entry(text: str, node: Any, key: str, value: Any) -> str:
    if not isinstance(node, yaml.MappingNode):
        raise ValueError("it has no entries")
    written = _step_line(key, value) if node.flow_style else f"{key}: {flow_text(value)}"
    if not node.value:
        at = text.index("{", node.start_mark.index) + 1
        return text[:at] + written + text[at:]
    last_key, last = node.value[-1]
    if node.flow_style:
        at = max(last_key.end_mark.index, last.end_mark.index)
        return f"{text[:at]}, {written}{text[at:]}"
    at = _end_line(last, last_key)
    return _with_lines(text, at, at, [" " * node.value[0][0].start_mark.column + written])


def _with_outputs(text: str, outputs: Sequence[Any]) -> str:
    """Return the text with other outputs; outputs that are there keep their lines."""
    lines, pairs = text.splitlines(keepends=True), _root(text).value
    column = pairs[0][0].start_mark.column
    begin = end = _end_of_document(lines)
    old: list[tuple[Any, list[str]]] = []
    for key, value in pairs:
        if key.value in ("output", "outputs"):
            begin, end = key.start_mark.line, _end_line(value, key)
            if isinstance(value, yaml.SequenceNode) and _is_block(value):
                starts = [begin + 1, *(_end_line(node, node) for node in value.value)]
                parts = [lines[slice(*span)] for span in pairwise(starts)]
                old = list(zip(map(plain_node, value.value), parts, strict=True))
            break
    written = [f"{' ' * column}outputs:{'' if outputs else ' []'}"]
    is_edit = len(old) == len(outputs)
    for k, output in enumerate(outputs):
        same = next((part for plain, part in old if _same(plain, output)), None)
        comments = [x for x in old[k][1] if re.match(r"\s*#", x)] if is_edit and not same else []
        indent = " " * (column + 2)
        if old:
            first = next(x for x in old[0][1] if x.lstrip().startswith("-"))
            indent = first[: first.index("-")]
        written += same or [*comments, f"{indent}- {flow_text(output)}"]
    return _with_lines(text, begin, end, written)


# other forms


def _without_aliases(text: str) -> str:
    """Return the text with values in place of aliases."""
    found: list[tuple[int, int, str]] = []
    nodes = [_root(text)]
    while nodes:
        node = nodes.pop()
        if getattr(node, "is_alias", False):
            value = _written(plain_node(node), True)
            found.append((node.start_mark.index, node.end_mark.index, value))
        elif isinstance(node, yaml.MappingNode):
            nodes += [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            nodes += node.value
    for token in yaml.scan(text):
        if isinstance(token, yaml.AnchorToken):
            found.append((token.start_mark.index, token.end_mark.index, ""))
    for begin, end, value in sorted(found, reverse=True):
        text = text[:begin] + value + text[end:].removeprefix("" if value else " ")
    return text


def _block_steps(text: str) -> str:
    """Return the text with one line or more for each step: ``steps: {...}`` is written again."""
    text = text.removeprefix("\ufeff")  # a mark of some editors
    root = _root(text)
    if isinstance(root, yaml.MappingNode):
        steps = next((v for k, v in root.value if k.value == "steps"), None)
        if root.flow_style or (isinstance(steps, yaml.MappingNode) and not _is_block(steps)):
            return _steps_in_lines(text)
    return text


def _steps_in_lines(text: str) -> str:
    """Return the text with each step in a line, below the comments that were above it or in it."""
    text = _without_aliases(text)
    comments, at = [], 0
    for token in yaml.scan(text):
        for found in re.finditer(rf"#[^{_BREAKS}]*", text[at : token.start_mark.index]):
            comments.append((at + found.start(), found[0].rstrip()))
        at = max(at, token.end_mark.index)
    root, plain = _root(text), load(text, "recipe").plain()
    line_break = "\r\n" if "\r\n" in text else "\n"
    if root.flow_style:
        head = "".join(f"{comment}{line_break}" for _, comment in comments)
        return head + _block_steps(printed(plain).replace("\n", line_break))
    key, steps = _node_at(root, ["steps"])
    begin, written = key.end_mark.index, []
    indent = " " * (key.start_mark.column + 2)
    if _is_block(steps):
        lines = text.splitlines(keepends=True)
        end = len("".join(lines[: _end_line(steps, key)]).rstrip(_BREAKS))
    else:
        end = max(key.end_mark.index + 1, steps.end_mark.index)
    for name, value in steps.value:
        stop = max(name.end_mark.index, value.end_mark.index) if not _is_block(value) else 0
        stop = min(stop or end, end)
        written += [indent + c for k, c in comments if begin <= k < stop]
        written.append(indent + _step_line(name.value, plain["steps"][name.value]))
        begin = stop
    written += [indent + c for k, c in comments if begin <= k < end]
    head = f"{text[: key.start_mark.index]}steps:"
    return "".join([head, *(line_break + x for x in written), text[end:]])


def _names(given: Mapping[str, Any], op: str) -> Iterator[str]:
    """Yield the inputs and steps that a step names."""
    operation = operations().get(op)
    for key, value in given.items():
        is_input = key in ("input", "inputs")
        yield from _texts(value, is_input or bool(operation and operation.volume(key)))


def _texts(value: Any, is_name: bool) -> Iterator[str]:
    """Yield the names in a value, also in ``{step: name}``."""
    if isinstance(value, str):
        if is_name:
            yield split_name(value)[0]
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part, is_name)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _texts(part, key == "step")
