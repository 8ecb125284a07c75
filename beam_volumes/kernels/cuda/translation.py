"""Device code from scalar functions of the host, so their arithmetic is written once.

The source of a function is translated: products become calls of `product_of`, which are not contracted, and
``max``, ``min``, ``np.sqrt`` and ``np.floor`` become the functions of `beam_volumes.kernels.cuda.rounding`.
All products, except those in indices, are of float64, which holds all products of integers that occur.

The device's compiler makes products of other expressions, too, which it then contracts. Expressions that are
not known to have equal bits are refused.
"""

from __future__ import annotations

import ast
import inspect
import math
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
_BUILTINS = {"abs", "range"}
#: Names after a dot that mean the same on the device.
_ATTRIBUTES = {"float64", "int64", "inf", "nan", "size", "view"}
#: What a function may consist of, as classes of `ast`.
_STATEMENTS = "Module FunctionDef arguments arg Assign AugAssign Return If For While Continue Expr"
_VALUES = "Name Load Store Constant Tuple Subscript Attribute Call BinOp UnaryOp"
_OPERATORS = "Add Sub Mult Div LShift RShift BitAnd USub"
_CHOICES = "Compare Eq NotEq Lt LtE Gt GtE BoolOp And Or IfExp"
_KNOWN = {*f"{_STATEMENTS} {_VALUES} {_OPERATORS} {_CHOICES}".split()}


@cache
def translated(function: Any, **constants: int) -> Any:
    """A kernel of the host as device code, with other values for some global constants.

    ValueError if an expression is not known to have equal bits.
    """
    plain: Callable[..., Any] = getattr(function, "py_func", function)
    tree = ast.parse(textwrap.dedent(inspect.getsource(plain)))
    definition: Any = tree.body[0]
    definition.decorator_list = []
    tree = ast.fix_missing_locations(_Products().visit(tree))
    space = {**plain.__globals__, **_NAMES, **constants}
    for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call)):
        name = call.func.id if isinstance(call.func, ast.Name) else "range"
        if name not in {*_NAMES, *_BUILTINS} and not hasattr(space.get(name), "py_func"):
            raise _unknown(call)
    for name in {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}:
        if hasattr(space.get(name), "py_func") and name not in _NAMES:
            space[name] = translated(space[name], **constants)
    exec(compile(tree, inspect.getsourcefile(plain) or "", "exec"), space)
    return device_function(space[plain.__name__])


class _Products(ast.NodeTransformer):
    """Replaces operators and functions by names in `_NAMES`."""

    def visit(self, node: ast.AST) -> Any:
        if not {type(node).__name__, type(getattr(node, "op", node)).__name__} <= _KNOWN:
            raise _unknown(node)
        return super().visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        left, right = node.left, node.right
        if isinstance(node.op, ast.Mult):
            return _call(left, right)
        # The compiler makes these two products.
        if isinstance(node.op, ast.Div) and _is_power_of_two(right):
            return _call(left, ast.Constant(1 / ast.literal_eval(right)))
        if isinstance(node.op, ast.Add) and ast.dump(left) == ast.dump(right):
            return _call(left, ast.Constant(2.0))
        if isinstance(node.op, ast.Add | ast.Sub) and _without_sign(left) == _without_sign(right):
            raise _unknown(node)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        left: Any = ast.parse(ast.unparse(node.target), mode="eval").body
        return ast.Assign(
            [self.visit(node.target)], self.visit(ast.BinOp(left, node.op, node.value))
        )

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        node.value = self.visit(node.value)  # indices are integers
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        is_numpy = isinstance(node.value, ast.Name) and node.value.id == "np"
        if is_numpy and node.attr in _OF_NUMPY:
            return ast.Name(_OF_NUMPY[node.attr], ast.Load())
        if node.attr not in _ATTRIBUTES:
            raise _unknown(node)
        return node


def _is_power_of_two(node: ast.expr) -> bool:
    """Whether a division by a constant is exactly a product."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return False
    return value != 0 and abs(math.frexp(value)[0]) == 0.5


def _without_sign(node: ast.expr) -> str:
    while isinstance(node, ast.UnaryOp):
        node = node.operand
    return ast.dump(node)


def _unknown(node: ast.AST) -> ValueError:
    text = ast.unparse(node).splitlines()[0]
    return ValueError(f"{text!r} is not known to have equal bits on a device; write it otherwise")


def _call(left: ast.expr, right: ast.expr) -> ast.Call:
    return ast.Call(ast.Name("_times", ast.Load()), [left, right], [])
