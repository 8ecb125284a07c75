"""Which formats there are, and the one at hand."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from textwrap import wrap

from beam_volumes.storage.formats.format import Format, Options, WritableFormat

#: The modules that hold formats. This is the only list: the first one that opens a place does.
MODULES = [
    "beam_volumes.storage.formats.ome",
    "beam_volumes.storage.formats.zarr",
    "beam_volumes.storage.formats.slices",
]


def formats() -> tuple[Format, ...]:
    """All formats, in the order in which they are asked."""
    return _of(tuple(MODULES))


@lru_cache(maxsize=4)
def _of(modules: tuple[str, ...]) -> tuple[Format, ...]:
    return tuple(f for name in modules for f in import_module(name).FORMATS)


def writable() -> dict[str, WritableFormat]:
    """Formats that can be written, by their names."""
    return _writable(tuple(MODULES))


@lru_cache(maxsize=4)
def _writable(modules: tuple[str, ...]) -> dict[str, WritableFormat]:
    return {f.name: f for f in _of(modules) if isinstance(f, WritableFormat)}


def format_named(name: str) -> WritableFormat:
    """The format that an output is said to be of."""
    known = writable()
    if name not in known:
        raise ValueError(f"format={name!r}; use one of {', '.join(known)}")
    return known[name]


def format_of(name: str) -> WritableFormat:
    """The format that an output's name ends with; the longest ending wins."""
    by_suffix = {suffix: f for f in writable().values() for suffix in f.suffixes}
    found = [suffix for suffix in by_suffix if name.endswith(suffix)]
    if not found:
        raise ValueError(
            f"{name}: cannot tell the format from the name; end it with {' or '.join(by_suffix)}, or pass "
            f"format= one of {', '.join(writable())}"
        )
    return by_suffix[max(found, key=len)]


def options_text() -> str:
    """The options of outputs, for docstrings."""
    known = writable()
    names = ", ".join(f'``"{name}"``' for name in known)
    lines = [f"``format`` : {names}; by default what the path ends with."]
    for option, (kind, text) in options().items():
        having = [f.name for f in known.values() if option in f.options]
        of = "" if len(having) == len(known) else f" Only for {', '.join(having)}."
        lines.append(f"``{option}`` : {kind}. {text}{of}")
    return "\n".join(line for text in lines for line in wrap(text, 90, break_on_hyphens=False))


def options() -> Options:
    """What may be said of how outputs are stored, of whichever format."""
    return {name: text for f in writable().values() for name, text in f.options.items()}
