"""Names in the package are the field's words, or describe the thing."""

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "beam_volumes"
#: Names that have better ones: concurrency, placement, activity, limits as MAX and MIN.
REPLACED = re.compile(
    r"_*(Lie|lie_of|Crew|crew|busier|at_hand|NowAndThen|PartOfAll|Doing|let_go|may_write|ey|ex"
    r"|volume_beside|Beside|merge_beside|Meet|wording|tiff_told|(MOST|LEAST)(_\w+)?)"
)
#: Words that are no names.
FILLERS = re.compile(
    r"_*(its|told|said|least|most|once|large|alone|held|seen|beside|apart|behind)_*", re.I
)


def bound(tree):
    """The names that a module gives: functions, classes, parameters, variables and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr


def test_replaced_names_and_fillers_stay_out():
    names = [n for file in PACKAGE.rglob("*.py") for n in bound(ast.parse(file.read_text()))]
    assert len(names) > 10_000
    assert [name for name in names if REPLACED.fullmatch(name) or FILLERS.fullmatch(name)] == []
