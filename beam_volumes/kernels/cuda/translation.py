"""Device code from scalar functions of the host, so their arithmetic is written once.

The source of a function is translated: products become calls of `product_of`, which are not contracted, and
``max``, ``min``, ``np.sqrt`` and ``np.floor`` become the functions of `beam_volumes.kernels.cuda.rounding`.
All products, except those in indices, are of float64, which holds all products of integers that occur.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from beam_volumes.kernels.cuda import rounding
from beam_volumes.kernels.cuda.launching import device_function

#: Names in translated functions.
_NAMES: dict[str, Any] = {
    "max": rounding.larger,
    "min": rounding.smaller,
    "_times": rounding.product_of(np.float64),
    "_sqrt": rounding.square_root,
    "_floor": rounding.floor,
}
_OF_NUMPY = {"sqrt": "_sqrt", "floor": "_floor"}


@cache
def translated(function: Any, **constants: int) -> Any:
    """A kernel of the host as device code, with other values for some global constants."""
    plain: Callable[..., Any] = getattr(function, "py_func", function)
    tree = ast.parse(textwrap.dedent(inspect.getsource(plain)))
    definition: Any = tree.body[0]
    definition.decorator_list = []
    tree = ast.fix_missing_locations(_Products().visit(tree))
    space = {**plain.__globals__, **_NAMES, **constants}
    for name in {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}:
        if hasattr(space.get(name), "py_func") and name not in _NAMES:
            space[name] = translated(space[name], **constants)
    exec(compile(tree, inspect.getsourcefile(plain) or "", "exec"), space)
    return device_function(space[plain.__name__])


class _Products(ast.NodeTransformer):
    """Replaces operators and functions by names in `_NAMES`."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        left, right = node.left, node.right
        if isinstance(node.op, ast.Mult):
            return _call(left, right)
        # The device's compiler makes these two products, which it may then contract.
        if isinstance(node.op, ast.Div) and isinstance(right, ast.Constant) and right.value == 2:
            return _call(left, ast.Constant(0.5))
        if isinstance(node.op, ast.Add) and ast.dump(left) == ast.dump(right):
            return _call(left, ast.Constant(2.0))
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Mult):
            return node
        left: Any = ast.parse(ast.unparse(node.target), mode="eval").body
        return ast.Assign([node.target], _call(left, node.value))

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        node.value = self.visit(node.value)  # indices are integers
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        is_numpy = isinstance(node.value, ast.Name) and node.value.id == "np"
        return (
            ast.Name(_OF_NUMPY[node.attr], ast.Load())
            if is_numpy and node.attr in _OF_NUMPY
            else node
        )


def _call(left: ast.expr, right: ast.expr) -> ast.Call:
    return ast.Call(ast.Name("_times", ast.Load()), [left, right], [])
