"""Kernels do not allocate: their scratch is declared, and plans count the declaration."""

import ast
from pathlib import Path

KERNELS = Path(__file__).parents[2] / "beam_volumes" / "kernels"
#: Functions and methods of numpy that return new arrays.
NEW = {f"{name}{like}" for name in ("empty", "zeros", "ones", "full") for like in ("", "_like")} | {
    "arange", "argsort", "array", "astype", "concatenate", "copy", "cumsum", "flatnonzero", "linspace",
    "nonzero", "repeat", "sort", "stack", "unique", "where",
}  # fmt: skip
#: Methods of arrays that change them in place, with names of functions that return new arrays.
IN_PLACE = {"geometry/downsample._sort"}
TABLE = "a hash table of labels: voxels determine how many there are"
RESULT = "results: voxels determine how many there are"
#: Kernels that allocate results. All other kernels use a declaration or arrays of their caller.
RESULTS = {
    "geometry/fusion.tile_boxes": "the tiles that a box needs, among those near it",
    "geometry/fusion.voxels_of_cells": "a count per cell of one layer, when a plan is made",
    "labels/components.labels_at": "a label per row",
    "labels/components.unite": "a class per item of a merge",
    "labels/contingency._grown": TABLE,
    "labels/contingency._count": TABLE,
    "labels/edges.find_runs": RESULT,
    "labels/fragments._larger": TABLE,
    "labels/fragments._begin": TABLE,
    "labels/hulls._corners_of_slice": RESULT,
    "labels/hulls.rows_inside": "a run per row of a hull",
    "labels/outlines.rings": RESULT,
    "labels/regions._grown": TABLE,
    "labels/saddles._grown": TABLE,
    "labels/saddles.passes": TABLE,
    "labels/saddles.lowest_floods": "a tree with a node per basin",
    "labels/saddles.forest": "a tree with a node per basin",
}


def allocations(source):
    """The compiled functions of a module that call a function for a new array."""
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef):
            continue
        decorators = {ast.unparse(d).split("(")[0] for d in function.decorator_list}
        compiled = [function] if decorators & {"kernel", "row_kernel"} else []
        if "overload" in decorators:  # Python runs it, and compiles a function that it contains
            inner = ast.FunctionDef | ast.Lambda
            compiled = [n for n in ast.walk(function) if isinstance(n, inner) and n is not function]
        nodes = [node for each in compiled for node in ast.walk(each)]
        calls = [node.func for node in nodes if isinstance(node, ast.Call)]
        if any(isinstance(call, ast.Attribute) and call.attr in NEW for call in calls):
            yield function.name


def test_kernels_allocate_nothing_except_results():
    found = {
        f"{path.relative_to(KERNELS).with_suffix('')}.{name}"
        for path in KERNELS.rglob("*.py")
        if path.relative_to(KERNELS).parts[0] != "cuda"
        for name in allocations(path.read_text())
    }
    assert found - IN_PLACE == RESULTS.keys()
    assert found >= IN_PLACE


def test_an_allocation_is_detected():
    body = "def f(n):\n    return {}\n"
    assert [*allocations("@needs(s)\n@kernel\n" + body.format("np.zeros_like(n)"))] == ["f"]
    assert [*allocations("@row_kernel\n" + body.format("n[:5].copy()"))] == ["f"]
    assert [*allocations("@kernel\n" + body.format("copy(n)"))] == []
    assert [*allocations(body.format("np.empty(n)"))] == []
