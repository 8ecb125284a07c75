"""Write ``beam_volumes/__init__.pyi``, where editors find signatures and documentation of public functions.

``make docs``; with ``--check`` nothing is written, and the exit code is 1 if the stub is not current. Editors
read source files instead of running them. They see neither the parameters that a decorator adds to a
docstring nor functions that a factory makes.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, get_overloads

import beam_volumes as bv
from beam_volumes.base.public_names import EXPORTS

STUB = Path(bv.__file__).with_suffix(".pyi")
MARKS = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
HEAD = '"""Written by ``make docs``: the public names, as editors and type checkers read them."""\n'


class Names:
    """Names in annotations, and the imports that define them."""

    def __init__(self) -> None:
        self.imports: dict[str, str] = {}
        self.missing: set[str] = set()
        self._from: dict[str, dict[str, str]] = {}

    def add(self, annotation: str, module: str) -> str:
        """Return an annotation of a module, and import its names."""
        for node in ast.walk(ast.parse(annotation, mode="eval")):
            if isinstance(node, ast.Name):
                self._add(node.id, module)
        return annotation

    def _add(self, name: str, module: str) -> None:
        known = self._imports(module)
        if name in EXPORTS or (hasattr(builtins, name) and name not in known):
            return
        if name not in known and not hasattr(import_module(module), name):
            # A decorator in a different module added the annotation; some function there has its import.
            self.missing.add(name)
            return
        line = known.get(name, f"from {module} import {name}")
        if self.imports.setdefault(name, line) != line and _value(line) != _value(
            self.imports[name]
        ):
            raise ValueError(f"{name} is {self.imports[name]!r} and, in {module}, {line!r}")

    def _imports(self, module: str) -> dict[str, str]:
        if module not in self._from:
            tree = ast.parse(Path(import_module(module).__file__ or "").read_text())
            self._from[module] = dict(_imports(tree))
        return self._from[module]


def _imports(tree: ast.AST) -> Iterable[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            start = f"from {node.module} import" if isinstance(node, ast.ImportFrom) else "import"
            for alias in node.names:
                renamed = f" as {alias.asname}" if alias.asname else ""
                yield alias.asname or alias.name, f"{start} {alias.name}{renamed}"


def _value(line: str) -> Any:
    space: dict[str, Any] = {}
    exec(line, space)
    return [value for name, value in space.items() if name != "__builtins__"]


def signatures(function: FunctionType) -> list[inspect.Signature]:
    """Return the signatures of a function, several if it is overloaded."""
    inner = inspect.unwrap(function)
    return [inspect.signature(f) for f in get_overloads(inner)] or [inspect.signature(function)]


def function_text(name: str, function: FunctionType, names: Names) -> str:
    """Return a function with its signature and documentation, and without its body."""
    module = inspect.unwrap(function).__globals__["__name__"]
    several = signatures(function)
    blocks = []
    for signature in several:
        head = "@overload\n" if len(several) > 1 else ""
        text = f"{head}def {name}{_signature_text(signature, lambda a: names.add(a, module))}:"
        blocks.append(text + _docstring(function))
    if len(several) > 1:
        names.imports["overload"] = "from typing import overload"
    return "\n".join(blocks)


def _signature_text(
    signature: inspect.Signature, annotated: Callable[[str], str], default_return: str = "Any"
) -> str:
    texts = []
    before = None
    for p in signature.parameters.values():
        if before is p.POSITIONAL_ONLY is not p.kind:
            texts.append("/")
        if p.kind is p.KEYWORD_ONLY and before not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL):
            texts.append("*")
        before = p.kind
        if p.annotation is p.empty:
            texts.append(p.name)  # self
            continue
        default = "" if p.default is p.empty else f" = {_literal(p.default)}"
        texts.append(f"{MARKS.get(p.kind, '')}{p.name}: {annotated(p.annotation)}{default}")
    if before is inspect.Parameter.POSITIONAL_ONLY:
        texts.append("/")
    returned = signature.return_annotation
    if returned is inspect.Signature.empty:
        returned = default_return
    inner = "".join(f"    {text},\n" for text in texts)
    arguments = f"\n{inner}" if inner else ""
    return f"({arguments}) -> {annotated(returned)}"


def _literal(value: Any) -> str:
    try:
        ast.literal_eval(repr(value))
    except (ValueError, SyntaxError):
        return "..."
    return repr(value)


def class_text(name: str, module: str, made: type, names: Names) -> str:
    """Return a class; a subclass if only a decorator completes its documentation."""
    source = ast.parse(inspect.getsource(inspect.getmodule(made)))
    (written,) = (c for c in ast.walk(source) if isinstance(c, ast.ClassDef) and c.name == name)
    if inspect.cleandoc(ast.get_docstring(written) or "") == inspect.getdoc(made):
        return f"from {module} import {name} as {name}\n"
    initial = _signature_text(
        inspect.signature(made.__init__), lambda a: names.add(a, made.__module__), "None"
    )
    return (
        f"from {module} import {name} as _{name}\n"
        f"class {name}(_{name}):{_docstring(made)}    def __init__{initial}: ...\n"
    )


def _docstring(documented: FunctionType | type) -> str:
    text = inspect.getdoc(documented) or ""
    text = text.replace("\\", "\\\\").replace('"""', '\\"""')
    lines = "".join(f"    {line}\n" if line else "\n" for line in text.splitlines())
    return f'\n    """{lines.strip()}\n    """\n'


def stub() -> str:
    """Return the text of the stub."""
    names = Names()
    names.imports["Any"] = "from typing import Any"
    functions, others = [], []
    for name, module in EXPORTS.items():
        value = getattr(bv, name)
        if isinstance(value, FunctionType):
            functions.append(function_text(name, value, names))
        elif isinstance(value, type):
            others.append(class_text(name, module, value, names))
        else:
            others.append(f"from {module} import {name} as {name}\n")
    if names.missing - names.imports.keys():
        raise ValueError(f"no module imports {names.missing - names.imports.keys()}")
    imports = sorted({*names.imports.values()})
    return "\n".join([HEAD, "".join(sorted(others)), *imports, "", *functions])


def main() -> None:
    text = stub()
    if "--check" in sys.argv:
        sys.exit(STUB.read_text() != text)
    STUB.write_text(text)


if __name__ == "__main__":
    main()
