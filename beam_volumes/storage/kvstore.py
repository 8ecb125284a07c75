"""Places: paths and URLs as TensorStore key-value stores, local or in a bucket."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import unquote, urlsplit

from beam_volumes.storage.credentials import check_no_secrets, without_secrets

Spec = dict[str, Any]


def kvstore_spec(place: str | os.PathLike[str] | Spec) -> Spec:
    """The TensorStore key-value store spec of a path, a URL or a spec.

    Examples
    --------
    >>> kvstore_spec("s3://bucket/some/run")
    {'driver': 's3', 'bucket': 'bucket', 'path': 'some/run'}
    """
    if isinstance(place, dict):
        check_no_secrets(place)
        return dict(place)
    text = os.fspath(place)
    scheme = urlsplit(text).scheme if "://" in text else ""
    if scheme in ("", "file"):
        path = unquote(text.partition("://")[2]) if scheme else text
        return {"driver": "file", "path": os.path.abspath(os.path.expanduser(path))}
    if scheme == "memory":
        return {"driver": "memory", "path": text.partition("://")[2]}
    driver = {"gs": "gcs", "s3": "s3"}.get(scheme)
    if driver is None:
        raise ValueError(
            f"{without_secrets(text)!r}: no storage for {scheme}://; use a local path, s3://, gs:// or a "
            "TensorStore spec"
        )
    # not urlsplit: keys may hold ? and #
    bucket, _, path = text.partition("://")[2].partition("/")
    spec = {"driver": driver, "bucket": bucket, "path": path.lstrip("/")}
    return spec | _endpoint() if driver == "s3" else spec


def _endpoint() -> Spec:
    """The S3 server that the environment names as AWS's own programs have it; workers are told too."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if not endpoint:
        return {}
    check_no_secrets(endpoint)
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    return {"endpoint": endpoint, "aws_region": region}


def join(spec: Spec, *parts: str, directory: bool = False) -> Spec:
    """The spec of something below a place."""
    path = "/".join([str(spec.get("path", "")).rstrip("/"), *(p.strip("/") for p in parts)])
    if directory and not path.endswith("/"):
        path += "/"
    return {**spec, "path": path if spec.get("driver") == "file" else path.lstrip("/")}


def beside(spec: Spec, suffix: str) -> Spec:
    """The spec of a place named like this one with a suffix, e.g. the run folder of an output."""
    return {**spec, "path": str(spec.get("path", "")).rstrip("/") + suffix}


def is_local(spec: Spec) -> bool:
    """Whether a place is on a disk of this machine (or looks so: it may be shared)."""
    return spec.get("driver") == "file"


def url(spec: Spec) -> str:
    """How messages name a place.

    Examples
    --------
    >>> url(kvstore_spec("gs://bucket/a/b.zarr"))
    'gs://bucket/a/b.zarr'
    """
    driver, path = spec.get("driver"), str(spec.get("path", ""))
    if driver == "file":
        return path
    if driver == "http":
        return without_secrets(f"{str(spec.get('base_url', '')).rstrip('/')}/{path.lstrip('/')}")
    scheme = {"gcs": "gs"}.get(str(driver), str(driver))
    return f"{scheme}://{spec['bucket']}/{path}" if "bucket" in spec else f"{scheme}://{path}"
