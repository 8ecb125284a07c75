"""What TensorStore reads of a zip file, held against what is in it."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Mapping
from typing import Any

from beam_volumes.base.text import printable
from beam_volumes.storage.places.errors import VolumeError
from beam_volumes.storage.places.place import Place, Spec, is_local, url
from beam_volumes.storage.places.remote_file import Object, Stream


def check_all_is_read(spec: Any) -> None:
    """Refuse an array in a zip file of which TensorStore leaves something out: it would be read as fill.

    It leaves out what is compressed more than a thousand times, what is encrypted, what is compressed by
    methods that it does not know, and names that begin with a slash.

    - ``spec``: of an array, or of a key-value store, as `tensorstore.Spec.to_json` gives it.
    """
    if not isinstance(spec, Mapping):
        return
    for inner in (spec.get("kvstore"), spec.get("base"), *spec.get("layers", ())):
        check_all_is_read(inner)
    base = spec.get("base")
    if spec.get("driver") != "zip" or not isinstance(base, dict):
        return
    name = printable(url(base))
    # What is beside the array is none of it.
    below = str(spec.get("path", "")).encode()
    read = set(Place({"driver": "zip", "base": base, "path": ""}).store.list().result())
    try:
        with _bytes(base) as file, zipfile.ZipFile(file) as archive:
            members = ((m, _name(m)) for m in archive.infolist() if not m.is_dir())
            lost = [m for m, n in members if n not in read and n.lstrip(b"/").startswith(below)]
    except (zipfile.BadZipFile, NotImplementedError, EOFError, struct.error) as error:
        raise VolumeError(f"{name} is damaged: {error}; restore it") from None
    if not lost:
        return
    first = lost[0]
    how = f"{first.file_size:,} bytes in {first.compress_size:,}, method {first.compress_type}"
    how += ", encrypted" if first.flag_bits & 1 else ""
    more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
    raise ValueError(
        f"{name}: {printable(first.filename)} ({how}){more} cannot be read from the zip file; unzip it, or "
        "write it anew without compressing its members (zipfile.ZIP_STORED)"
    )


def _name(member: zipfile.ZipInfo) -> bytes:
    """A member's name as it stands in the file."""
    return member.orig_filename.encode("utf-8" if member.flag_bits & 0x800 else "cp437")


def _bytes(base: Spec) -> Any:
    """The zip file, open to be read."""
    if is_local(base):
        return open(base["path"], "rb")
    return io.BufferedReader(Stream(Object(base)), 1 << 16)
