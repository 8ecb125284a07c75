"""The verbs ``ops``, ``schema`` and ``completion``: reference for chains, recipes and shells."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from textwrap import wrap

from beam_volumes.base.public_names import EXPORTS
from beam_volumes.base.text import nearest
from beam_volumes.cli import completing
from beam_volumes.cli.messages import plain_text, print_result
from beam_volumes.recipes.catalogue import FAMILIES, Operation, Parameter, operations
from beam_volumes.recipes.schema import schema
from beam_volumes.recipes.words import spelt

WIDTH = 100
_GIVES = {
    "volume": "a volume",
    "volumes": "several volumes: NAME.0, NAME.1, ...",
    "number": "a number, or an array of them",
    "table": "a table: write it to .csv, .parquet or .jsonl, or print it",
}


def register_ops(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "These operations can be used in recipes and with the verb chain."
    name = parser.add_argument(
        "name",
        metavar="NAME",
        nargs="?",
        help="an operation, to show its parameters; or a word, to search for operations",
    )
    name.completer = completing.operation_names  # type: ignore[attr-defined]


def act_ops(args: argparse.Namespace) -> None:
    known = operations()
    if args.name in known:
        lines = describe(known[args.name])
    else:
        word = (args.name or "").lower()
        found = [op for op in known.values() if word in op.name or word in op.summary.lower()]
        if not found:
            raise ValueError(f"no operation is called {args.name!r}{nearest(args.name, known)}")
        lines = listed(found)
    for line in lines:
        print_result(line)


def register_schema(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "beam-volumes schema > recipe.schema.json, and as the first line of a recipe\n"
        "# yaml-language-server: $schema=recipe.schema.json"
    )


def act_schema(args: argparse.Namespace) -> None:
    print_result(json.dumps(schema(), indent=1))


def register_completion(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        'bash: add  eval "$(beam-volumes completion bash)"  to ~/.bashrc\n'
        'zsh:  add  eval "$(beam-volumes completion zsh)"  to ~/.zshrc\n'
        "fish: beam-volumes completion fish > ~/.config/fish/completions/beam-volumes.fish"
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def act_completion(args: argparse.Namespace) -> None:
    import argcomplete

    print_result(argcomplete.shellcode(["beam-volumes"], shell=args.shell).strip())


def listed(found: list[Operation]) -> Iterator[str]:
    """List operations by family, one line each."""
    width = max(len(d.name) for d in found)
    for family, title in FAMILIES.items():
        own = sorted((d for d in found if d.family == family), key=lambda d: d.name)
        if own:
            yield f"{title}:"
        for d in own:
            yield f"  {d.name:{width}}  {plain_text(d.summary)}"


def describe(operation: Operation) -> Iterator[str]:
    """Describe an operation: purpose, syntax, parameters and result.

    >>> print(next(describe(operations()["median_filter"])))
    median_filter: Compute the median over a box or footprint around each voxel.
    """
    yield f"{operation.name}: {plain_text(operation.summary)}"
    yield ""
    if operation.is_of_tables:
        inputs = [operation.positional[0]]
    else:
        inputs = [
            n for n in operation.positional if operation.volume(n) or not operation.parameters
        ]
    needed = [n for n in operation.required if n not in inputs]
    if not operation.is_of_tables:  # chains cannot name a table
        words = [*_inputs(operation, inputs), *(f"{spelt(n)} VALUE" for n in needed)]
        yield f"chain:  {' '.join([operation.name, *words])}"
    several = [n for n in inputs if n in operation.required][1:] or operation.is_of_many
    recipe = [f"op: {operation.name}", "inputs: [NAME, NAME]" if several else "input: NAME"]
    yield f"recipe: {{{', '.join([*recipe, *(f'{n}: VALUE' for n in needed)])}}}"
    if operation.name in EXPORTS:
        yield f"Python: bv.{operation.name}({', '.join(operation.required)})"
    if operation.parameters:
        yield ""
    for name, p in operation.parameters.items():
        as_input = name in inputs and p.is_required
        label = name.upper() if as_input else spelt(name)
        yield f"  {label}  {plain_text(p.kind)}{'' if as_input else _default(p)}"
        yield from wrap(
            plain_text(p.text), WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6
        )
    yield ""
    yield f"The result is {_GIVES[operation.gives]}."


def _inputs(operation: Operation, inputs: list[str]) -> Iterator[str]:
    """Yield the inputs in the syntax of chains; the first is optional."""
    if operation.is_of_many:
        yield "[INPUT ...]"
        return
    first, *others = [n for n in inputs if n in operation.required] or inputs[:1]
    yield f"[{first.replace(' ', '').upper()}]"
    yield from (n.replace(" ", "").upper() for n in others)


def _default(p: Parameter) -> str:
    if p.is_required:
        return ", required"
    return "" if p.default is None else f", default {p.default}"


VERBS = {
    "ops": (register_ops, act_ops),
    "schema": (register_schema, act_schema),
    "completion": (register_completion, act_completion),
}
