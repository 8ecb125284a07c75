"""No secret is kept: what is opened is written down, in plans, jobs, manifests and messages.

TensorStore finds keys for buckets by itself, in each process: from the environment, from files in the home
directory, from the machine. What else a spec can hold is refused where it is literal; headers for an HTTP
server may name environment variables. Only a spec that the user gives in Python or on the command line may
do so: a file that names variables could send them to a server of its author.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from beam_volumes.base.text import printable
from beam_volumes.storage.places.errors import VolumeError

#: Headers that are not secret, whatever they say.
_HARMLESS = {
    *("accept", "accept-encoding", "accept-language", "cache-control", "from", "host", "origin"),
    *("pragma", "referer", "user-agent"),
}
_VARIABLE = re.compile(r"\$\{(\w+)\}")
#: What a header may hold that is secret: ``Bearer ${TOKEN}``, ``session=${ID}``.
_NAMED = re.compile(r"\s*(?:[\w-]+[\s=]\s*)?\$\{\w+\}\s*")
_USER = re.compile(r"(?<=://)[^/?#\s@]*@")
_SIGNED = re.compile(
    r"[?&][^=&#\s]*(?:sig|token|key|credential|password|passwd|secret|auth|policy|session)[^=&#\s]*=",
    re.I,
)


def check_no_secrets(spec: Any) -> None:
    """Refuse a TensorStore spec that holds a password, a token or a signature.

    Examples
    --------
    >>> check_no_secrets({"driver": "http", "headers": ["Authorization: Bearer ${TOKEN}"]})
    >>> check_no_secrets({"headers": ["Authorization: Bearer 123"]})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: the header 'Authorization' holds a secret, ..., as in 'Authorization: Bearer ${NAME}'
    """
    for header in _headers(spec):
        name, _, value = header.partition(":")
        if name.strip().lower() not in _HARMLESS and not _NAMED.fullmatch(value):
            raise ValueError(
                f"the header {name.strip()!r} holds a secret, which would be written into plans and "
                "journals: put it into an environment variable, of the workers too, and name that, as in "
                "'Authorization: Bearer ${NAME}'"
            )
    for text in _urls(spec):
        if _USER.search(text):
            raise ValueError(
                f"{without_secrets(text)}: an address with a user and a password would be written into plans "
                "and journals; give a TensorStore spec with the header 'Authorization: Basic ${NAME}', "
                "where the environment variable holds both as base64"
            )
        if _SIGNED.search(text):
            raise ValueError(
                f"{without_secrets(text)}: an address that is signed would be written into plans and "
                "journals; use s3:// or gs:// with keys of the environment, or a TensorStore spec with "
                "a header that names an environment variable"
            )


def refuse_variables(spec: Any, where: str) -> None:
    """Refuse a spec from a file whose headers name environment variables.

    - ``spec``: a TensorStore spec, or anything that contains some.
    - ``where``: how messages name the file.

    Examples
    --------
    >>> refuse_variables({"headers": ["X-Key: ${HOME}"]}, "recipe.yaml:3")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: recipe.yaml:3: the header 'X-Key' names the environment variable HOME, ...
    """
    for header in _headers(spec):
        match = _VARIABLE.search(header)
        if match is not None:
            raise ValueError(
                f"{where}: the header {printable(header.partition(':')[0].strip())!r} names the environment "
                f"variable {match[1]}, which is not sent where a file says: give the spec in Python, or as "
                "an input, on the command line"
            )


def with_secrets(spec: Any) -> Any:
    """A spec to be opened at once: environment variables that headers name have their values."""
    return _filled_in(spec) if any(map(_VARIABLE.search, _headers(spec))) else spec


def _filled_in(spec: Any) -> Any:
    if isinstance(spec, Mapping):
        found = {name: _filled_in(value) for name, value in spec.items()}
        if isinstance(found.get("headers"), list):
            found["headers"] = [_expanded(h) for h in found["headers"]]
        return found
    return [_filled_in(item) for item in spec] if isinstance(spec, list | tuple) else spec


def as_given(spec: Any, given: Any) -> Any:
    """A spec that TensorStore tells of what `with_secrets` gave it, without the secrets."""
    names = {_expanded(header): header for header in _headers(given) if _VARIABLE.search(header)}
    if not names:
        return spec
    if isinstance(spec, Mapping):
        return {key: as_given(value, given) for key, value in spec.items()}
    if isinstance(spec, list | tuple):
        return [as_given(item, given) for item in spec]
    return names.get(spec, spec) if isinstance(spec, str) else spec


def without_secrets(text: str) -> str:
    """An address for messages, without a password and without what follows its question mark.

    Examples
    --------
    >>> without_secrets("https://me:123@example.org/a.zarr?signature=abc")
    'https://...@example.org/a.zarr?...'
    """
    return re.sub(r"\?.*", "?...", _USER.sub("...@", text))


def _expanded(header: str) -> str:
    def value(match: re.Match[str]) -> str:
        found = os.environ.get(match[1])
        if found is None:
            raise VolumeError(
                f"the header {header.partition(':')[0]!r} needs the environment variable {match[1]}, which "
                "is not set in this process"
            )
        return found

    return _VARIABLE.sub(value, header)


def _members(spec: Any) -> Iterator[tuple[Mapping[str, Any], str, Any]]:
    """All entries of a spec and of those that it is made of: the mapping, the key and the value."""
    left = [spec]
    while left:
        item = left.pop()
        if isinstance(item, Mapping):
            yield from ((item, key, value) for key, value in item.items())
            left += item.values()
        elif isinstance(item, list | tuple):
            yield from (({}, "", value) for value in item)
            left += item


def _headers(spec: Any) -> Iterator[str]:
    """All headers in a spec and in those that it is made of."""
    for _, key, value in _members(spec):
        if key == "headers" and isinstance(value, list | tuple):
            yield from (h for h in value if isinstance(h, str))


def _urls(spec: Any) -> Iterator[str]:
    """All addresses in a spec, and the paths that belong to one of an HTTP server."""
    for owner, key, value in _members({"": spec}):
        is_path = owner.get("driver") == "http" and key == "path"
        if isinstance(value, str) and (is_path or re.match(r"https?://", value)):
            yield value
