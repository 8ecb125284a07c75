"""Which formats there are, and the one at hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from textwrap import wrap

from beam_volumes.storage.formats.format import Format, Options, WritableFormat

#: The modules that hold formats. This is the only list: the first one that opens a place does.
MODULES = [
    # The first one, for it opens what the user says that it should.
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
    # The last one: a file of any name is raw binary if the user says so.
    "beam_volumes.storage.formats.headered.raw",
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


def titles_text() -> str:
    """What can be opened, for docstrings."""
    *most, last = [f.title for f in formats() if f.title]
    return "\n".join(wrap(f"{'; '.join(most)}; or {last}.", 90, break_on_hyphens=False))


def names_text() -> str:
    """The names of the formats of outputs as a parameter of a docstring."""
    names = ", ".join(f'``"{name}"``' for name in writable())
    text = f"{names}; by default that which the path ends with."
    return "\n    ".join(["format : str, optional", *wrap(text, 86, break_on_hyphens=False)])


def parameters_text() -> str:
    """The options of outputs as the parameters of a docstring."""
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
    """A sentence for each option and meaning that it has, and for which of the formats, which are named."""
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
    """What may be said of how places are opened, of whichever format."""
    return {name: text for f in formats() for name, text in f.open_options.items()}


def open_options_text() -> str:
    """The options of places that are opened, for docstrings."""
    lines = _described([(f.title, f.open_options) for f in formats()])
    return "\n".join(line for text in lines for line in wrap(text, 90, break_on_hyphens=False))


def options() -> Options:
    """What may be said of how outputs are stored, of whichever format."""
    return {name: text for f in writable().values() for name, text in f.options.items()}
