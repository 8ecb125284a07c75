"""Edits of a recipe change one entry and nothing else, and can be undone."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_volumes.recipes.document import load
from beam_volumes.studio import document
from beam_volumes.studio.document import Document
from tests.tiers import thorough

TEXT = """\
# cells of a stack
input: em.zarr   # 10 nm

steps:
  # less noise
  smooth:
    op: gaussian_filter
    sigma: 1.5   # voxels
    mode: [reflect, nearest, nearest]

  mask: {op: greater, inputs: [smooth, 128]}  # bright
  # the cells
  label:
  #off: largest: {op: keep_largest,
  #off:   n: 5}
  table: regionprops_table

outputs:
  - {step: label, path: cells.zarr}
"""


def steps(document):
    return load(document.text, "t").plain()["steps"]


def test_steps_are_found_with_their_comments():
    items = Document(TEXT).items()
    assert [(i.name, i.op, i.is_enabled) for i in items] == [
        ("smooth", "gaussian_filter", True),
        ("mask", "greater", True),
        ("label", "label", True),
        ("largest", "keep_largest", False),
        ("table", "regionprops_table", True),
    ]
    lines = TEXT.splitlines()
    assert lines[items[2].lines[0]].strip() == "# the cells" and items[3].given == {"n": 5}


@pytest.mark.parametrize(
    ("name", "key", "value", "line"),
    [
        ("smooth", "sigma", "15 nm", "    sigma: 15 nm   # voxels"),
        ("smooth", "truncate", 3.0, "    truncate: 3.0"),
        ("mask", "inputs", ["smooth", 99], "  mask: {op: greater, inputs: [smooth, 99]}  # bright"),
        ("label", "connectivity", 3, "  label: {connectivity: 3}"),
        ("table", "properties", ["area"], "  table: {op: regionprops_table, properties: [area]}"),
    ],
)
def test_a_parameter_is_set_in_place(name, key, value, line):
    d = Document(TEXT)
    d.set(name, key, value)
    want = d.item(name)
    assert want.given[key] == value and line in d.text.splitlines()
    kept = set(TEXT.splitlines()) - set(d.text.splitlines())
    assert len(kept) <= 1 and all("# " + c in d.text for c in ("less noise", "the cells", "bright"))
    assert d.undo() and d.text == TEXT and not d.undo() and d.redo() and not d.redo()


def test_a_slider_is_undone_at_once():
    d = Document(TEXT)
    for k in range(20):
        d.set("smooth", "sigma", k)
    d.set("smooth", "sigma", None)
    assert "sigma" not in d.item("smooth").given
    assert d.undo() and d.text == TEXT


def test_as_many_changes_are_undone_as_promised(monkeypatch):
    monkeypatch.setattr(document, "MAX_UNDO", 3)
    d = Document(TEXT)
    for count in (3, 5):
        for k in range(count):
            d.set("smooth", f"p{k}", 1)
        assert sum(d.undo() for _ in range(9)) == 3
        assert ("p0" in d.text) == (count == 5)
        assert sum(d.redo() for _ in range(9)) == 3


def test_steps_move_and_are_disabled_with_their_comments():
    d = Document(TEXT)
    d.move("label", 0)
    assert list(steps(d)) == ["label", "smooth", "mask", "table"]
    assert d.text.index("# the cells") < d.text.index("label:") < d.text.index("# less noise")
    assert d.undo() and d.text == TEXT
    d.enable("largest", True)
    assert list(steps(d))[3] == "largest" and steps(d)["largest"]["n"] == 5
    d.enable("largest", False)
    assert steps(d) == steps(Document(TEXT))
    d.enable("smooth", False)  # mask uses it
    assert steps(d)["smooth"] == {"op": "crop", "box": ":"}
    smooth = d.item("smooth")
    assert (smooth.op, smooth.given["sigma"], smooth.is_enabled) == ("gaussian_filter", 1.5, False)
    assert d.text.index("# less noise") < d.text.index("#off: smooth:")
    d.move("smooth", 1)
    assert list(steps(d)) == ["mask", "smooth", "label", "table"]
    d.undo()
    d.enable("smooth", True)
    assert d.text == TEXT
    with pytest.raises(ValueError, match="'table' is used by second; let them use another step"):
        d.insert(9, "second", {"op": "cut", "edges": {"step": "table"}, "threshold": 1})
        d.enable("table", False)
    d.undo()
    with pytest.raises(ValueError, match=r"'label' is used by the output cells\.zarr"):
        d.remove("label")
    d.remove("table")
    assert d.duplicate("smooth") == "gaussian_filter"
    assert steps(d)["gaussian_filter"]["sigma"] == 1.5
    d.set_outputs([{"step": "mask", "path": "m.zarr"}])
    assert d.outputs() == [{"step": "mask", "path": "m.zarr"}] and "# cells of a stack" in d.text


def test_a_step_that_others_use_by_an_anchor_is_not_disabled():
    text = "input: em.zarr\nsteps:\n  a: {op: abs, dtype: &d u1}\n  c: &c {op: clip, min: &m 1}\n"
    text += "  e:\n    op: clip\n    min: *m\n    max: *m\n  f: *c\noutput: {path: o.zarr, chunks: *m}\n"
    d = Document(text)
    message = r"'c' has YAML anchors that others use \(\*m in e, \*c in f, \*m in output\); write"
    with pytest.raises(ValueError, match=message):
        d.enable("c", False)
    assert d.text == text
    d.enable("a", False)  # nothing uses this one
    d.enable("a", True)
    assert d.text == text


def test_branches_are_found():
    text = "inputs: {em: e.zarr, mask: m.zarr}\nsteps:\n" + "".join(
        f"  {name}: {{op: {step}}}\n"
        for name, step in [
            ("a", "gaussian_filter, input: em, sigma: 1"),
            ("b", "abs, input: em"),
            ("c", "subtract, inputs: [a, b]"),
            ("otsu", "threshold_otsu"),
            ("d", "greater, inputs: [c, {step: otsu}]"),
            ("e", "abs, input: em"),
            ("f", "multiply, inputs: [mask, e]"),
        ]
    )
    found = Document(text).branches()
    assert {n: b.lane for n, b in found.items()} == {
        "em": 0, "mask": 1, "a": 0, "b": 2, "c": 0, "otsu": 0, "d": 0, "e": 2, "f": 1
    }  # fmt: skip
    assert found["c"].sources == ("a", "b") and found["otsu"].sources == ()


def test_other_forms_of_a_recipe_are_edited_too():
    d = Document("{input: em.zarr, output: o.zarr}\n")
    d.replace("input: em.zarr\nsteps: {a: abs, b: {op: clip, min: 1}}\noutput: o.zarr\n")
    assert [i.name for i in d.items()] == ["a", "b"]
    d.set("a", "dtype", "u1")
    assert steps(d) == {"a": {"op": "abs", "dtype": "u1"}, "b": {"op": "clip", "min": 1}}
    empty = Document("input: em.zarr\noutput: o.zarr\n")
    assert empty.insert(0, "label", {}) == "label" and steps(empty) == {"label": {}}
    assert empty.outputs() == [{"path": "o.zarr"}]


@thorough
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_any_edits_leave_a_recipe_and_are_undone(data):
    d = Document(TEXT)
    done = [TEXT]
    for _ in range(data.draw(st.integers(1, 8))):
        names = [i.name for i in d.items()]
        name, index = data.draw(st.sampled_from(names)), data.draw(st.integers(0, len(names)))
        edit = data.draw(st.sampled_from(["insert", "move", "enable", "disable", "remove", "set"]))
        value = data.draw(st.sampled_from([1, "a: b", "no", "1e3", [1, "x"], {"ball": 2}, "#"]))
        try:
            if edit == "insert":
                d.insert(index, "median_filter", {"size": value})
            elif edit == "move":
                d.move(name, min(index, len(names) - 1))
            elif edit == "remove":
                d.remove(name)
            elif edit == "set":
                d.set(name, "p", value)
                assert d.item(name).given["p"] == value
            else:
                d.enable(name, edit == "enable")
        except ValueError:
            pass
        assert isinstance(steps(d), dict)
        if d.text != done[-1]:
            done.append(d.text)
        assert d.text.startswith("# cells of a stack\ninput: em.zarr   # 10 nm\n")
    while d.undo():
        assert d.text in done
    assert d.text == TEXT


VALUES = st.one_of(
    st.sampled_from(
        [
            "0:4, 0:16", ":, 0:16, 0:16", "a: b", "a #b", "#", "no", "~", "1e3", "", " a ", "- x", "? x",
            "*a", "&a", "!a", "%a", "@a", "`a", "|", ">", "[", "}", "'", '"', "a\nb", "a\n", "\n", "\r\n",
            "a\u2028b", "a\x85", "\t", "---", "...", "a,b", "x" * 200, "\U0001f52c é", "=", "<<", "\\",
            1, 0, 1.5, -0.0, 1e300, float("inf"), True, False, [1, "0:4"], [], {}, {"ball": 2},
            {"a, b": "c: d", "": [None]},
        ]
    ),
    st.text(max_size=8),
    st.lists(st.one_of(st.integers(), st.floats(allow_nan=False), st.text(max_size=3)), max_size=3),
)  # fmt: skip
#: Ways to write a step that is called @.
FORMS = [
    "  @: abs\n",
    "  @: abs   # spaces  \n\n",
    "  @: {op: clip, min: 1, box: '0:4, 2'}\n",
    "  '@': {op: clip,   # first\n\n n: [1,\n2], # second\n  m: 3,}\n",
    "  @: {op: clip,\n  min: 1}   \n",
    '  "@" : {op: clip, text: "a\n\tb\n\nc",\nmin: 1}\n',
    "  @:\n    op: clip   # one\n    # two\n    min: 1   \n\n    mode:   # 3\n    - a\n    - b   # 4\n",
    "  @:\n      mode:\n          - reflect\n          - {a: b}\n      op: clip\n",
    "  @:\n    op: clip\n    text: |\n      a\n      # no comment\n      #off: b: c\n\n",
    "  @:\n    text: >-   # folded\n      a\n      b\n    op: clip\n",
    "  @: {op: clip, min: &x@ 1, max: *x@}\n",
    "  @: &y@ {op: clip, min: 1}\n  @b: *y@\n",
    "  @:\n    <<: {a: 1}\n    op: clip\n    empty:\n",
    "  @: {op: clip, a, b: }\n",
    "  # comment\n  @:\n",
    "  #off: @: {op: clip,\n  #off:   min: 1}\n  ? @c\n  : {op: abs}\n",
    "  #off: @: {op: clip,\n#off: min: 1}\n# left\n",
]


@st.composite
def recipes(draw):
    """A recipe in any of the forms that YAML allows."""
    forms = draw(st.lists(st.sampled_from(FORMS), max_size=4))
    steps = "".join(form.replace("@", f"s{k}") for k, form in enumerate(forms))
    head = draw(st.sampled_from(["input: em.zarr\n", "input: &p em.zarr # c\n", "'input': |\n  a\n",
        "inputs: {em: a.zarr, b: {path: b.zarr}}\n", "inputs:\n  em: a.zarr\n  b:\n    path: b.zarr\n",
        "input:\n    path:\n      em.zarr\n    level: 0\n", "input:\noutput: o.zarr\n"]))  # fmt: skip
    tail = draw(st.sampled_from(["", "output: o.zarr\n", "outputs:\n- a.zarr\n# c\n- {path: b.zarr}  # d\n",
        "outputs: [{path: a.zarr}]\n", "output: {path: a.zarr,\n levels: 2}\n", "outputs: []\n",
        "memory: 1GiB\n",
        "outputs:\n    - path: a.zarr\n      chunks: 8\n    # c\n    - path: b.zarr\n"]))  # fmt: skip
    if "output" in head and "output" in tail:
        tail = ""
    whole = draw(st.sampled_from(["steps:\n", '"steps" :   # all\n', "steps:\n  # none\n"]))
    if not forms:
        whole = draw(st.sampled_from(["", "steps: {}\n", "steps: null # c\n", "steps:\n"]))
    text = draw(st.sampled_from([head + whole + steps + tail, tail + whole + steps + head]))
    if draw(st.integers(0, 9)) == 0:
        text = "{input: em.zarr, # c\nsteps: {a: abs,\n# d\nb: {op: clip}}}\n"
    text = draw(st.sampled_from(["", "# top\n", "---\n", "%YAML 1.1\n---\n", "\ufeff"])) + text
    text += draw(st.sampled_from(["", "...\n", "# end\n", "# end"]))
    text = text.removesuffix("\n") if draw(st.booleans()) else text
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


def parsed(text):
    """The document, with an empty mapping of steps and a list of outputs."""
    found = load(text, "t").plain()
    outputs = [found.pop("output")] if "output" in found else found.pop("outputs", None) or []
    return {"outputs": outputs, "steps": found.pop("steps", None) or {}, **found}


def read_by(steps, inputs):
    """The step or input above each step that names no input."""
    names = [inputs[0] if len(inputs) == 1 else None, *steps]
    return {
        n: before
        for before, (n, step) in zip(names, steps.items(), strict=False)
        if not isinstance(step, dict) or not {"input", "inputs"} & step.keys()
    }


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_an_edited_text_is_the_edited_document(data):
    draw = data.draw
    d = Document(draw(recipes()))
    for _ in range(draw(st.integers(1, 3))):
        text, was = d.text, parsed(d.text)
        steps, items = was["steps"], d.items()
        assert [i.name for i in items if i.is_step] == list(steps)
        edit = draw(
            st.sampled_from(
                ["insert", "input", "outputs", *["move", "remove", "set", "enable"] * 2]
            )
        )
        value = draw(VALUES)
        index = draw(st.integers(0, len(items)))
        at = sum(i.is_step for i in items[:index])
        touched = ""
        if edit == "insert":
            name = d.insert(index, "median_filter", {"size": value})
            new = list(steps.items())
            below = next((i for i in items[index:] if i.is_step), None)
            above = [n for n, _ in new[:at]] or (d.inputs() if len(d.inputs()) == 1 else [])
            if below and above and not {"input", "inputs"} & below.given.keys():
                step = steps[below.name]  # it reads what it did before
                step = {"op": step} if isinstance(step, str) else dict(step or {})
                new[at] = (below.name, {**step, "input": above[-1]})
            new.insert(
                at,
                (
                    name,
                    {**({} if name == "median_filter" else {"op": "median_filter"}), "size": value},
                ),
            )
            was["steps"] = dict(new)
        elif edit == "input":
            name = draw(st.sampled_from(d.inputs()))
            d.set_input(name, str(value))
            of = was if "input" in was else was["inputs"]
            of[name] = (
                {**of[name], "path": str(value)} if isinstance(of[name], dict) else str(value)
            )
        elif edit == "outputs":
            new = d.outputs()
            if new and draw(st.booleans()):
                k = draw(st.integers(0, len(new) - 1))
                new[k : k + 1] = draw(st.sampled_from([[], [{**new[k], "path": "a: b"}]]))
            else:
                new.append({"step": "none", "path": "x, y"})
            kept = [o for o in was["outputs"] if isinstance(o, str)]
            d.set_outputs(new)
            was["outputs"] = [o["path"] if o in [{"path": x} for x in kept] else o for o in new]
        elif items:
            item = draw(st.sampled_from(items))
            touched = "" if edit == "move" else item.name
            if edit == "move":
                names = [i.name for i in items if i.name != item.name]
                names.insert(index, item.name)
                d.move(item.name, index)
                wanted = {n: steps[n] for n in names if n in steps}
                before, after = (read_by(x, d.inputs()) for x in (steps, wanted))
                for n in after:  # it reads what it did before
                    if before[n] not in (None, after[n]):
                        step = {"op": wanted[n]} if isinstance(wanted[n], str) else wanted[n] or {}
                        wanted[n] = {**step, "input": before[n]}
                was["steps"] = wanted
                assert [i.name for i in d.items()] == names
            elif edit in ("remove", "enable") and any(item.name in i.names for i in items):
                with pytest.raises(ValueError, match="is used by"):
                    d.remove(item.name)
            elif edit == "remove":
                d.remove(item.name)
                was["steps"] = {n: s for n, s in steps.items() if n != item.name}
            elif edit == "enable" and not item.is_enabled:
                d.enable(item.name, True)
                was = parsed(d.text)
                assert was["steps"].pop(item.name) == {"op": "clip", "min": 1}
                assert repr(was) == repr(parsed(text))
                d.undo()
            elif edit == "enable":
                try:
                    d.enable(item.name, False)
                except ValueError as error:
                    is_anchor = "YAML anchors" in str(error)
                    assert "&y" in text if is_anchor else "cannot be disabled" in str(error)
                    assert is_anchor or "? s" in text
                    assert d.text == text
                else:
                    assert not d.item(item.name).is_enabled
                    found = parsed(d.text)
                    del was["steps"][item.name]
                    assert repr(found) == repr(was)
                    d.enable(item.name, True)
                    assert d.text == text
                    was = parsed(text)
            elif item.is_enabled:
                key = draw(
                    st.sampled_from(["min", "box", "mode", "text", "a", "inputs", "n", "empty"])
                )
                value = draw(st.one_of(st.none(), st.just(value)))
                other = draw(st.sampled_from(["", "min", "text"]))
                step = steps[item.name]
                step = {"op": step} if isinstance(step, str) else dict(step or {})
                new = {k: v for k, v in {**step, key: value}.items() if k != other or k == key}
                if value is None:
                    del new[key]
                d.set(item.name, key, value, instead_of="" if other == key else other)
                if repr(new) != repr(step):
                    was["steps"] = {**steps, item.name: new}
        assert repr(parsed(d.text)) == repr(was)
        if not re.search(r"[*?] ?\w|^{", text):  # other lines stay as they are
            # A step that is edited, or reads what it did before by an input that is now written.
            new = parsed(d.text)["steps"]
            edited = {touched, *(n for n in steps if n in new and repr(new[n]) != repr(steps[n]))}
            spans = [i.lines for i in items if i.name in edited]
            for k, line in enumerate(text.splitlines()):
                if any(begin <= k < end for begin, end in spans):
                    continue
                assert (
                    "#" not in line
                    or line in d.text.splitlines()
                    or edit in ("input", "outputs")
                    or "null" in line
                )
        if text.endswith("\n") and "\r" not in text:
            assert "\r" not in d.text
