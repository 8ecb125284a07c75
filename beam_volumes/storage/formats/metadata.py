"""Checked metadata of other programs, and the metadata of this package in other formats."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from sys import getsizeof
from typing import Any
from xml.etree import ElementTree
from xml.parsers import expat

import numpy as np

from beam_volumes.base.space import AXES, Space
from beam_volumes.base.text import format_bytes, parsed_json
from beam_volumes.storage.sources.axes import unit_name
from beam_volumes.storage.sources.description import Description

#: The value of True in formats that are viewed as images.
MASK_VALUE = 255
MASK_OPTION = (
    "int",
    "The stored value of True, 1 to 255. The default 255 makes image viewers show masks in black and "
    "white. It is read back as True.",
)


@dataclass(frozen=True)
class Mark:
    """Space and dtype of a volume, as this package notes them in files of other formats."""

    #: Without leading axes, except the names of channels
    space: Space = field(default_factory=Space)
    mask: bool = False  #: Whether nonzero values are True

    @classmethod
    def of(cls, d: Description) -> Mark:
        return cls(d.space, d.dtype.kind == "b")

    def to_dict(self) -> dict[str, Any]:
        s = self.space
        stated = {"axes": s.axes, "voxel_size": s.voxel_size, "unit": s.unit, "origin": s.origin}
        named = {"channels": s.channels} if s.channels else {}
        return {**stated, **named, "mask": self.mask}

    @classmethod
    def read(cls, found: Any) -> Mark | None:
        """Parse a mark; None if it is missing or invalid.

        >>> Mark.read('{"axes": ["y", "x"], "mask": true}').mask
        True
        """
        try:
            if isinstance(found, str | bytes):
                found = parsed_json(found)
            if not isinstance(found, Mapping):
                return None
            axes = tuple(a for a in AXES if a in found["axes"])
            size, origin = found.get("voxel_size"), found.get("origin") or (0.0, 0.0, 0.0)
            z, y, x = (_finite(o) for o in origin)
            voxel_size = None
            if size is not None:
                a, b, c = (_finite(s) for s in size)
                if min(a, b, c) <= 0:
                    return None
                voxel_size = (a, b, c)
            names = found.get("channels") or ()
            if not isinstance(names, list | tuple) or len({str(n) for n in names}) < len(names):
                names = ()
            space = Space(
                axes,
                voxel_size,
                unit_name(found.get("unit")),
                (z, y, x),
                channels=tuple(str(n) for n in names),
            )
            return cls(space, found.get("mask") is True) if {"y", "x"} <= set(axes) else None
        except (ValueError, TypeError, KeyError, AttributeError):
            return None


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(value)
    return number


def mask_value(name: str, value: Any, dtype: np.dtype) -> dict[str, int]:
    """Check the option ``mask_value``; return the options to store."""
    if dtype.kind != "b":
        if value is not None:
            raise ValueError(f"{name}: mask_value={value!r} is for masks, not for {dtype}")
        return {}
    number = MASK_VALUE if value is None else value
    if isinstance(number, bool) or number != int(number) or not 1 <= number <= 255:
        raise ValueError(f"{name}: mask_value={value!r}; give a whole number from 1 to 255")
    return {"mask_value": int(number)}


def as_bytes(d: Description, voxels: np.ndarray) -> np.ndarray:
    if voxels.dtype.kind != "b":
        return voxels
    return voxels.view(np.uint8) * np.uint8(d.options.get("mask_value", MASK_VALUE))


@dataclass(frozen=True)
class Foreign:
    """Reads values from a JSON document and reports invalid ones by name."""

    name: str  #: The volume's name in messages
    what: str  #: The name of the metadata in messages
    remedy: str = "correct them"  #: The remedy in messages

    def error(self, what: str, found: Any) -> ValueError:
        return ValueError(f"{self.name} has invalid {self.what}: {what} is {found}; {self.remedy}")

    def mapping(self, value: Any, what: str) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self.error(what, f"{value!r}, not an object")
        return value

    def list(self, value: Any, what: str) -> Sequence[Any]:
        """Return a list; None gives an empty list."""
        if value is not None and not isinstance(value, list):
            raise self.error(what, f"{value!r}, not a list")
        return value or []

    def text(self, value: Any, what: str) -> str:
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise self.error(what, "missing" if value is None else f"{value!r}, not a text")
        return str(value)

    def numbers(self, value: Any, what: str, many: int | None) -> Sequence[float]:
        """Return a list of finite numbers, of length ``many`` if given."""
        found = self.list(value, what)
        if not all(
            isinstance(n, int | float) and not isinstance(n, bool) and math.isfinite(n)
            for n in found
        ):
            raise self.error(what, f"{value!r}, not a list of numbers")
        if many is not None and len(found) != many:
            raise self.error(what, f"{value!r}, not {many} numbers")
        return [float(n) for n in found]


#: Maximum memory of an XML document, in bytes.
MAX_XML = 512 << 20
#: Bytes of memory for an element, for its attributes, for each of them, for a text, and for a new name.
_ELEMENT, _ATTRIBUTES, _ATTRIBUTE, _TEXT, _NAME = 400, 200, 24, 16, 300
#: Bytes that are parsed at a time.
_PIECE = 1 << 20


class RefusedXml(ValueError):
    """A document that would take too much memory, or declares entities."""


class _BoundedTree:
    """Builds the elements of a document, and counts the memory that they need."""

    def __init__(self, needed: int) -> None:
        self._needed = needed
        self._builder = ElementTree.TreeBuilder()
        self._names = dict[str, str]()
        self._characters = 0  # since the last tag

    def add(self, size: int, for_now: int = 0) -> None:
        self._needed += size
        if self._needed + for_now > MAX_XML:
            raise RefusedXml(
                f"its XML needs more than {format_bytes(MAX_XML)} of memory; reduce it"
            )

    def _named(self, name: str) -> str:
        if name not in self._names:
            self.add(_NAME + 3 * getsizeof(name))
            self._names[name] = "{" + name if "}" in name else name
        return self._names[name]

    def start(self, tag: str, given: list[str]) -> None:
        # expat copies all names for each element, which takes long for long namespaces.
        size, attributes = _ELEMENT + len(tag), {}
        if given:
            names, values = given[::2], given[1::2]
            size += _ATTRIBUTES + len(names) * _ATTRIBUTE + sum(map(len, names))
            size += sum(map(getsizeof, values))
            attributes = dict(zip(map(self._named, names), values, strict=True))
        self.add(size)
        self._characters = 0
        self._builder.start(self._named(tag), attributes)

    def text(self, data: str) -> None:
        # The texts up to the next tag are joined; one wide character then widens all others.
        self.add(_TEXT + getsizeof(data) + 4 * len(data))
        self._characters += len(data)
        self._builder.data(data)

    def comment(self, *_: str) -> None:
        # Libraries that parse the document next copy the text so far at each comment in it.
        self.add(self._characters)

    def end(self, tag: str) -> None:
        self._characters = 0
        self._builder.end(self._names[tag])

    def root(self) -> ElementTree.Element:
        return self._builder.close()


def parsed_xml(data: bytes | str) -> ElementTree.Element:
    r"""Parse an XML document from an untrusted source; RefusedXml above `MAX_XML` bytes of memory.

    >>> parsed_xml('<a><b c="1"/></a>')[0].attrib
    {'c': '1'}
    >>> parsed_xml('<!DOCTYPE a [<!ENTITY e "ha">]><a>&e;</a>'.encode("utf-16"))
    Traceback (most recent call last):
    beam_volumes.storage.formats.metadata.RefusedXml: it declares entities of XML, which ... remove them
    """
    # A document is refused as soon as the part that was parsed needs too much memory. Declarations of
    # entities and of attributes are refused in every encoding: a few bytes of them can make any amount of
    # text. Comments and processing instructions are ignored.
    encoding = "utf-8" if isinstance(data, str) else None
    encoded = data.encode("utf-8", "replace") if isinstance(data, str) else data
    tree = _BoundedTree(len(encoded) * (2 if encoding else 1))
    parser = expat.ParserCreate(encoding, namespace_separator="}")
    parser.ordered_attributes = True

    def refuse(*_: Any) -> None:
        raise RefusedXml("it declares entities of XML, which are not supported; remove them")

    parser.StartElementHandler, parser.EndElementHandler = tree.start, tree.end
    parser.CharacterDataHandler = tree.text  # in as many pieces as for libraries
    parser.CommentHandler = parser.ProcessingInstructionHandler = tree.comment
    parser.EntityDeclHandler = parser.AttlistDeclHandler = parser.SkippedEntityHandler = refuse
    try:
        begun = 0
        for at in range(0, len(encoded), _PIECE):
            parser.Parse(memoryview(encoded)[at : at + _PIECE], False)
            # expat has copies of a tag or comment that is not complete, and parses it again each time.
            begun = max(begun, parser.CurrentByteIndex)
            tree.add(0, 6 * (min(at + _PIECE, len(encoded)) - begun))
        parser.Parse(b"", True)
        return tree.root()
    except RefusedXml:
        raise
    except (expat.ExpatError, ValueError, LookupError) as error:  # also an unknown encoding
        raise ElementTree.ParseError(str(error)) from None
