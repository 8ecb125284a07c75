"""The list of all formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from textwrap import wrap

from beam_volumes.storage.formats.format import Format, Options, WritableFormat

#: The modules of formats. This is the only list: the first format that opens a place is used.
MODULES = [
    # First, since it only opens places that the user requests.
    "beam_volumes.storage.formats.microscopes.bioio",
    "beam_volumes.storage.formats.chunked.ome",
    "beam_volumes.storage.formats.chunked.zarr",
    "beam_volumes.storage.formats.chunked.n5",
    "beam_volumes.storage.formats.chunked.precomputed",
    "beam_volumes.storage.formats.dicom.format",
    "beam_volumes.storage.formats.tiff.format",
    "beam_volumes.storage.formats.microscopes.nd2",
    "beam_volumes.storage.formats.microscopes.czi",
    "beam_volumes.storage.formats.tiff.outputs",
    "beam_volumes.storage.formats.slices.format",
    "beam_volumes.storage.formats.slices.outputs",
    "beam_volumes.storage.formats.hdf5.format",
    "beam_volumes.storage.formats.headered.npy",
    "beam_volumes.storage.formats.headered.nifti",
    "beam_volumes.storage.formats.headered.nrrd",
    "beam_volumes.storage.formats.headered.metaimage",
    "beam_volumes.storage.formats.headered.mrc",
    # Last: a file with any name is raw binary on request.
    "beam_volumes.storage.formats.headered.raw",
]


def formats() -> tuple[Format, ...]:
    """Return all formats, in the order in which they are tried."""
    return _of(tuple(MODULES))


@lru_cache(maxsize=4)
def _of(modules: tuple[str, ...]) -> tuple[Format, ...]:
    return tuple(f for name in modules for f in import_module(name).FORMATS)


def writable() -> dict[str, WritableFormat]:
    return _writable(tuple(MODULES))


@lru_cache(maxsize=4)
def _writable(modules: tuple[str, ...]) -> dict[str, WritableFormat]:
    return {f.name: f for f in _of(modules) if isinstance(f, WritableFormat)}


def format_named(name: str) -> WritableFormat:
    known = writable()
    if name not in known:
        raise ValueError(f"format={name!r}; use one of {', '.join(known)}")
    return known[name]


def format_of(name: str) -> WritableFormat:
    """Return the format of an output by the longest suffix of its name."""
    by_suffix = {suffix: f for f in writable().values() for suffix in f.suffixes}
    found = [suffix for suffix in by_suffix if name.endswith(suffix)]
    if not found:
        raise ValueError(
            f"{name}: the format cannot be inferred from the name; end it with "
            f"{' or '.join(by_suffix)}, or pass "
            f"format= one of {', '.join(writable())}"
        )
    return by_suffix[max(found, key=len)]


def titles_text() -> str:
    """Return the names of the formats that can be opened, for docstrings."""
    *others, last = [f.title for f in formats() if f.title]
    return "\n".join(wrap(f"{'; '.join(others)}; or {last}.", 90, break_on_hyphens=False))


def names_text() -> str:
    """Return the parameter ``format`` for docstrings."""
    names = ", ".join(f'``"{name}"``' for name in writable())
    text = f"{names}; by default the one of the path's suffix."
    return "\n    ".join(["format : str, optional", *wrap(text, 86, break_on_hyphens=False)])


def parameters_text() -> str:
    """Return the options of outputs as parameters for docstrings."""
    known = {f.name: f.options for f in writable().values()}
    lines: list[str] = []
    for option in options():
        having = [name for name, own in known.items() if option in own]
        kinds = list(dict.fromkeys(known[name][option][0] for name in having))
        texts = list(dict.fromkeys(known[name][option][1] for name in having))
        # None is no codec, and no shards.
        default = 'default: "default"' if option in ("codec", "shards") else "optional"
        lines.append(f"{option} : {kinds[0]}, {default}")
        for text in texts:
            those = [name for name in having if known[name][option][1] == text]
            of = "" if len(those) == len(known) else f"{', '.join(those)}: "
            lines += [f"    {x}" for x in wrap(of + text, 86, break_on_hyphens=False)]
    return "\n".join(lines)


def _described(options: Sequence[tuple[str, Options]]) -> Iterator[str]:
    """Yield a sentence for each option and meaning, with its formats."""
    for option in dict.fromkeys(name for _, own in options for name in own):
        meanings: dict[tuple[str, str], list[str]] = {}
        for format, own in options:
            if option in own:
                meanings.setdefault(own[option], []).append(format)
        for (kind, text), having in meanings.items():
            if len(meanings) > 1:
                yield f"``{option}`` ({', '.join(having)}) : {kind}. {text}"
            else:
                of = "" if len(having) == len(options) else f" Only for {', '.join(having)}."
                yield f"``{option}`` : {kind}. {text}{of}"


def open_options() -> Options:
    """Return the options of all formats for opening."""
    return {name: text for f in formats() for name, text in f.open_options.items()}


def open_options_text() -> str:
    """Return the options for opening, for docstrings."""
    lines = _described([(f.title, f.open_options) for f in formats()])
    return "\n".join(line for text in lines for line in wrap(text, 90, break_on_hyphens=False))


def options() -> Options:
    """Return the options of all formats for outputs."""
    return {name: text for f in writable().values() for name, text in f.options.items()}
