"""Keep secrets out of specs, which are stored in plans, jobs, manifests and messages.

Each process finds keys for buckets by itself: TensorStore reads the environment, the home directory
and the machine. Literal secrets in a spec are refused. Headers for an HTTP server may name
environment variables, but only in a spec that the user passes in Python or on the command line: a
file could send variables to its author's server.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from beam_volumes.base.text import printable
from beam_volumes.storage.places.errors import VolumeError

#: Headers with any value that are not secret.
_HARMLESS = {
    *("accept", "accept-encoding", "accept-language", "cache-control", "from", "host", "origin"),
    *("pragma", "referer", "user-agent"),
}
_LEAVES = (str, int, float, bool, type(None))
_VARIABLE = re.compile(r"\$\{(\w+)\}")
#: Secret headers must have this form: ``Bearer ${TOKEN}``, ``session=${ID}``.
_NAMED = re.compile(r"\s*(?:[\w-]+[\s=]\s*)?\$\{\w+\}\s*")
_USER = re.compile(r"(?<=://)[^/?#\s@]*@")
_SIGNED = re.compile(
    r"[?&][^=&#\s]*(?:sig|token|key|credential|password|passwd|secret|auth|policy|session)[^=&#\s]*=",
    re.I,
)


def check_no_secrets(spec: Any) -> None:
    """Refuse a TensorStore spec that contains a password, a token or a signature."""
    for header in _headers(spec):
        name, _, value = header.partition(":")
        if name.strip().lower() not in _HARMLESS and not _NAMED.fullmatch(value):
            raise ValueError(
                f"the header {name.strip()!r} contains a secret, which would be written into plans and "
                "journals; set an environment variable, on workers too, and name it, as in "
                "'Authorization: Bearer ${NAME}'"
            )
    for text in _urls(spec):
        if _USER.search(text):
            raise ValueError(
                f"{without_secrets(text)}: an address with a user and a password would be written into plans "
                "and journals; give a TensorStore spec with the header 'Authorization: Basic ${NAME}', "
                "with both as base64 in the environment variable"
            )
        if _SIGNED.search(text):
            raise ValueError(
                f"{without_secrets(text)}: a signed address would be written into plans and "
                "journals; use s3:// or gs:// with keys from the environment, or a TensorStore spec with "
                "a header that names an environment variable"
            )


def refuse_variables(spec: Any, where: str) -> None:
    """Refuse a spec from a file if its headers name environment variables.

    - ``spec``: a TensorStore spec, or a structure that contains specs.

    >>> refuse_variables({"headers": ["X-Key: ${HOME}"]}, "recipe.yaml:3")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: recipe.yaml:3: the header 'X-Key' refers to the environment variable HOME, ...
    """
    for header in _headers(spec):
        match = _VARIABLE.search(header)
        if match is not None:
            raise ValueError(
                f"{where}: the header {printable(header.partition(':')[0].strip())!r} refers to the "
                f"environment variable {match[1]}, which is not sent to an address in a file; give the spec "
                "in Python, or as an input on the command line"
            )


def with_secrets(spec: Any) -> Any:
    """Return a spec for opening, with environment variables inserted in its headers."""
    return _filled_in(spec) if any(map(_VARIABLE.search, _headers(spec))) else spec


def _filled_in(spec: Any) -> Any:
    if isinstance(spec, Mapping):
        found = {name: _filled_in(value) for name, value in spec.items()}
        if isinstance(found.get("headers"), list):
            found["headers"] = [_expanded(h) for h in found["headers"]]
        return found
    return [_filled_in(item) for item in spec] if isinstance(spec, list | tuple) else spec


def as_given(spec: Any, given: Any) -> Any:
    """Replace the secrets that `with_secrets` inserted in a spec by their variables."""
    names = {_expanded(header): header for header in _headers(given) if _VARIABLE.search(header)}
    if not names:
        return spec
    if isinstance(spec, Mapping):
        return {key: as_given(value, given) for key, value in spec.items()}
    if isinstance(spec, list | tuple):
        return [as_given(item, given) for item in spec]
    return names.get(spec, spec) if isinstance(spec, str) else spec


def without_secrets(text: str) -> str:
    """Return an address for messages, without a password and without its query.

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
    """Yield the mapping, key and value of all entries of a nested spec."""
    left = [spec]
    while left:
        item = left.pop()
        if isinstance(item, _LEAVES):  # first: the check for a Mapping is slow
            continue
        if isinstance(item, Mapping):
            yield from ((item, key, value) for key, value in item.items())
            left += item.values()
        elif isinstance(item, list | tuple):
            yield from (({}, "", value) for value in item)
            left += item


def _headers(spec: Any) -> Iterator[str]:
    """Yield all headers of a nested spec."""
    if "headers" not in repr(spec):  # much faster than visiting all members
        return
    for _, key, value in _members(spec):
        if key == "headers" and isinstance(value, list | tuple):
            yield from (h for h in value if isinstance(h, str))


def _urls(spec: Any) -> Iterator[str]:
    """Yield all addresses of a nested spec, including paths of HTTP servers."""
    if "http" not in repr(spec):
        return
    for owner, key, value in _members({"": spec}):
        is_path = owner.get("driver") == "http" and key == "path"
        if isinstance(value, str) and (is_path or re.match(r"https?://", value)):
            yield value
