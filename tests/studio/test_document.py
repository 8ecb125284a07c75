"""Edits of a recipe change one entry and nothing else, and can be undone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_volumes.recipes.document import load
from beam_volumes.studio.document import Document

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
