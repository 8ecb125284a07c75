"""Turn TensorStore's errors into clear messages of the matching Python type."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from beam_volumes.base.text import printable

_NOISE = re.compile(
    r" \[(?:tensorstore_spec|source locations|os_error_code|domain|chunk|http_response_\w+|x-amz[\w-]*|"
    r"curl_code)='?.*",
    re.S,
)
_ESCAPED = re.compile(r"\\x([2-7][0-9a-f])")
_CODE = re.compile(r"^([A-Z][A-Z_]+): ")

_DAMAGED = "the stored data are damaged: restore or rewrite them"
_GONE = (
    "intermediate data of a run are removed when the run ends or is replaced: if you wanted neither, "
    "start the run again with overwrite=True"
)
_AGAIN = "run again, with resume=True if the run has a journal"
_KEYS = "check your keys and their permission to read and write there"
_REGION = "the bucket is in another region: check AWS_REGION and the storage's address"
_REMEDIES: tuple[tuple[str, type[Exception], str], ...] = (
    ("No space left", OSError, f"the disk is full: free some space and {_AGAIN}"),
    ("Disk quota", OSError, f"the quota is used up: free some space and {_AGAIN}"),
    ("File too large", OSError, f"a file size limit or a full disk: lift it and {_AGAIN}"),
    (
        "retry attempts failed",
        OSError,
        f"the storage is busy or unreachable: when it answers, {_AGAIN}",
    ),
    ("http_response_code='301'", OSError, _REGION),
    ("AuthorizationHeaderMalformed", OSError, _REGION),
    ("http_response_code='400'", OSError, "the storage rejected the request: check its address"),
    ("http_response_code='401'", PermissionError, _KEYS),
    ("http_response_code='403'", PermissionError, _KEYS),
    ("NoSuchBucket", FileNotFoundError, "check the bucket's name"),
    ("bucket does not exist", FileNotFoundError, "check the bucket's name"),
    ("PERMISSION_DENIED", PermissionError, "check the permissions to read and write there"),
    ("Permission denied", PermissionError, "check the permissions to read and write there"),
    ("Read-only file system", PermissionError, "choose another place"),
    ("UNAUTHENTICATED", PermissionError, "check your credentials"),
    (
        "varlength chunks not supported",
        OSError,
        "N5 blocks with a varying number of elements are not supported: rewrite it with default blocks",
    ),
    ("DATA_LOSS", OSError, _DAMAGED),
    ("Error decoding", OSError, _DAMAGED),
    ("NOT_FOUND: chunk", FileNotFoundError, _GONE),
    ("NOT_FOUND", FileNotFoundError, "check the path"),
    ("UNAVAILABLE", OSError, "the storage does not answer: try again"),
    ("DEADLINE_EXCEEDED", OSError, "the storage does not answer: try again"),
)


def explain(error: BaseException, doing: str) -> Exception:
    r"""Return the exception to raise for an error of TensorStore, with the action and the remedy.

    >>> explain(ValueError("PERMISSION_DENIED: no [source locations='x']"), "writing a.zarr")
    PermissionError('writing a.zarr: no (check the permissions to read and write there)')
    >>> print(explain(OSError(r"Failed to create directory: a.zarr.run/\x33\x66"), "writing a.zarr"))
    writing a.zarr: Failed to create directory: a.zarr.run/3f
    """
    if isinstance(error, VolumeError):
        return error
    text = str(error)
    message = _CODE.sub("", _NOISE.sub("", text)).replace("\x00", "/").replace("\\x00", "/").strip()
    # Abseil escapes every hexadecimal digit that follows an escape, so it escapes whole names.
    message = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), message)
    message = printable(message)
    for mark, kind, remedy in _REMEDIES:
        if mark in text:
            return kind(f"{doing}: {message} ({remedy})")
    hint = f" ({_DAMAGED})" if doing.startswith("reading") else ""
    return OSError(f"{doing}: {message}{hint}")


class VolumeError(OSError):
    r"""A volume cannot be read; the message is complete.

    The message may contain bytes of a file, from a library's message, so it is made printable.

    >>> print(VolumeError("0.png is damaged: \x1b[2J"))
    0.png is damaged: \x1b[2J
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(printable(message))


def needed(module: str, extra: str, why: str) -> Any:
    """Import a library of an optional dependency group ``extra``, or name the command that installs it.

    ``why``: what needs it, for the message.

    >>> needed("no_such_library", "hdf5", "a.h5 is HDF5")
    Traceback (most recent call last):
    ValueError: a.h5 is HDF5, which needs no_such_library: pip install 'beam-volumes[hdf5]'
    """
    try:
        return import_module(module)
    except ImportError:
        raise ValueError(
            f"{why}, which needs {module}: pip install 'beam-volumes[{extra}]'"
        ) from None


def damaged(path: str, why: str) -> VolumeError:
    """Return the error for a file with unexpected content."""
    return VolumeError(f"{printable(path)} is damaged: {why}; restore it")


def bad_header(name: str, why: str) -> VolumeError:
    return VolumeError(f"the header of {name} is damaged: {why}")
