"""The places of a stored volume, and the encoding of its chunks."""

from __future__ import annotations

import os
from typing import Any

from beam_volumes.storage.places.place import kvstore_spec
from beam_volumes.storage.sources.source import Source


def others(source: Source, path: str) -> list[str]:
    """Return local places of a volume that are neither a path nor below it."""
    found: dict[str, None] = {}
    for extent in source.reader.extents:
        spec = kvstore_spec(extent.store) if isinstance(extent.store, str) else extent.store
        root = os.path.abspath(str(spec.get("path", "")))
        is_whole = spec.get("driver") == "file" and extent.names is None
        if is_whole and os.path.commonpath([root, path]) not in (path, root):
            found[root] = None
    return list(found)


def codec(source: Source) -> str:
    """Describe the encoding of a volume's chunks; empty if unknown.

    Examples
    --------
    >>> from beam_volumes.storage.inputs.opening import open_source
    >>> _ = bv.compute(bv.open(np.zeros((4, 5), "u2")).to("a.zarr", codec="zstd"), runner=None)
    >>> codec(open_source("a.zarr"))
    'zstd level 1'
    """
    reader = source.stored.reader
    codec_name = getattr(reader, "codec", None)
    if isinstance(codec_name, str):
        return codec_name
    if source.in_memory or not hasattr(reader, "spec"):
        return "" if source.encoded else "none"
    known = reader.open().codec
    found = None if known is None else known.to_json()
    return _words(found) if isinstance(found, dict) else ""


def _words(found: dict[str, Any]) -> str:
    if "codecs" in found:
        return ", then ".join(filter(None, map(_step, found["codecs"]))) or "none"
    one = found.get("compressor", found.get("compression", found.get("encoding")))
    if isinstance(one, dict):
        name = one.get("id", one.get("type", ""))
        level = one.get("clevel", one.get("level"))
        inner = f" ({one['cname']})" if "cname" in one else ""
        return f"{name}{inner}" + ("" if level is None else f" level {level}")
    return str(one) if one else "none"


def _step(step: dict[str, Any]) -> str:
    """Describe one codec of a zarr v3 chunk; empty for the codec "bytes"."""
    how = step.get("configuration", {})
    name = str(step.get("name", ""))
    if name == "sharding_indexed":
        shown = _words({"codecs": how.get("codecs", [])})
        return f"{shown}, in shards"
    if name == "bytes":
        return ""
    inner = f" ({how['cname']})" if "cname" in how else ""
    level = how.get("clevel", how.get("level"))
    return f"{name}{inner}" + ("" if level is None else f" level {level}")
