"""Compiled kernels on disk, addressed by content.

Numba's own cache identifies a kernel by the path and modification time of its file. Each clone, environment
and upgrade then compiles everything again, a changed callee goes unnoticed, and processes that share the
cache overwrite each other's index. Here the name of an entry is a digest of everything that determines its
machine code. An entry is valid everywhere, and there is no index.
"""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import os
import platform
import re
import stat
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
import platformdirs
from llvmlite import binding
from numba.core import config as _config
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.runtime import rtsys
from numba.core.serialize import dumps, pickle

#: A larger cache is reduced to three quarters of this; the least recently used kernels are removed first.
MAX_BYTES = 2 * 2**30
#: Seconds after which reading a kernel updates its time of use.
_MARK_AFTER = 86400
#: Seconds after which a partly written file is removed, because its process has died.
_ABANDONED_AFTER = 3600
_SUFFIX = ".kernel"
#: Numba's settings: its attributes are created on import.
config: Any = _config
_DIGEST = 32
#: Suffix of empty files. Their names are digests of operations that have all their kernels in the cache.
_CACHED = ".cached"

#: Kernels that a wheel brings along, compiled for `LEVEL`.
SHIPPED = Path(__file__).parent / "compiled"
#: The processor of shipped kernels in LLVM's terms, by machine. Most processors since 2015 have it, and use
#: kernels that are compiled with this NUMBA_CPU_NAME and an empty NUMBA_CPU_FEATURES.
_LEVELS = {"x86_64": "x86-64-v3", "aarch64": "generic"}
LEVEL = _LEVELS.get(platform.machine())
#: What the level has and older processors lack.
_NEEDED = {"x86-64-v3": ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"), "generic": ()}

#: The parts of machine code's digest other than sources, signature, options and processor. Numba has
#: different code for minor versions of numpy.
_VERSIONS = (
    *(numba.__version__, llvmlite.__version__, np.__version__.split(".")[:2]),
    sys.implementation.cache_tag,
    sysconfig.get_config_var("SOABI"),
    platform.machine(),
)
_SETTINGS = (
    *("BOUNDSCHECK", "OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "ENABLE_AVX", "USING_SVML"),
    *("DISABLE_INTEL_SVML", "DEBUGINFO_DEFAULT"),
)

# The cache folder.


def folder() -> Path:
    """Return the folder of compiled kernels, in ``NUMBA_CACHE_DIR`` or the user's cache folder."""
    if config.CACHE_DIR:
        return Path(config.CACHE_DIR) / "beam_volumes"
    return platformdirs.user_cache_path("beam_volumes", appauthor=False) / "kernels"


def _temporary_folder(is_made: bool) -> Path | None:
    """Return the fallback if `folder` is read-only; None unless it belongs to this user alone.

    Files in it are executed, and every user may write to its parent folder.
    """
    user = os.geteuid() if hasattr(os, "geteuid") else None
    path = Path(tempfile.gettempdir()) / f"beam_volumes-kernels-{user}"
    try:
        if is_made:
            path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
    except OSError:
        return None
    is_own = user is None or (found.st_uid == user and not found.st_mode & 0o022)
    return path if stat.S_ISDIR(found.st_mode) and is_own else None


def _folders(is_made: bool = False) -> Iterator[Path]:
    """Yield the folders that kernels are written to: the first one that can be."""
    yield folder()
    if (temporary := _temporary_folder(is_made)) is not None:
        yield temporary


def _known() -> Iterator[Path]:
    """Yield the folders that kernels are read from."""
    yield from _folders()
    yield SHIPPED


def usage() -> tuple[int, int]:
    """Return the number of kernels in the cache, and their bytes."""
    sizes = [found.st_size for _, found in _entries(folder())]
    return len(sizes), sum(sizes)


def _entries(path: Path) -> Iterator[tuple[str, os.stat_result]]:
    with suppress(OSError), os.scandir(path) as files:
        for file in files:
            with suppress(OSError):  # another process has removed it
                if file.name.endswith(_SUFFIX):
                    yield file.path, file.stat()


def prune(path: Path, max_bytes: int) -> None:
    """Remove abandoned files and, above ``max_bytes`` in total, the least recently used kernels."""
    with suppress(OSError):
        for partial in path.glob("*.partial"):
            with suppress(OSError):
                if time.time() - partial.stat().st_mtime > _ABANDONED_AFTER:
                    partial.unlink()
    entries = sorted(_entries(path), key=lambda entry: entry[1].st_mtime)
    size = sum(found.st_size for _, found in entries)
    if size <= max_bytes:
        return
    for mark in path.glob(f"*{_CACHED}"):  # an operation may lose a kernel
        with suppress(OSError):
            mark.unlink()
    for name, found in entries:
        if size <= max_bytes * 3 // 4:
            return
        with suppress(OSError):
            os.unlink(name)
        size -= found.st_size


# Sources.

#: By module, read when its kernels are defined, because files may be edited while the process runs.
_sources: dict[str, str] = {}
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]*(\([^)]*\)|[^\n]*)|import[ \t]+([^\n]+))", re.M
)


def _remember_sources(module: str) -> None:
    """Read the source of a module that defines a kernel, and of the modules that it can have imported."""
    if module in _sources:
        return
    package = "beam_volumes.kernels" if module.startswith("beam_volumes.") else module.split(".")[0]
    modules = sys.modules.copy()  # other threads may import while this one looks
    loaded = [n for n in modules if n.startswith((f"{package}.", "beam_volumes.kernels."))]
    for name in (module, *loaded):
        if name not in _sources:
            loader: Any = getattr(modules.get(name), "__loader__", None)
            with suppress(Exception):  # there is no source: its kernels are not cached
                _sources[name] = loader.get_source(name) or ""


@cache
def source_digest(module: str) -> str | None:
    """Return a digest of a module's source and all kernel modules that it imports; None without source."""
    found: set[str] = set()
    left = [module]
    while left:
        name = left.pop()
        if name in found:
            continue
        if not _sources.get(name):
            if name == module:
                return None
            continue
        found.add(name)
        left += _imported(name)
    digest = hashlib.blake2b(digest_size=_DIGEST)
    for name in sorted(found):
        digest.update(f"{name}\0{_sources[name]}\0".encode())
    return digest.hexdigest()


def _imported(module: str) -> set[str]:
    """Return the modules with a known source that a module imports."""
    names: set[str] = set()
    for origin, parts, modules in _IMPORT.findall(_sources[module]):
        if origin.startswith("."):
            package = (
                module
                if hasattr(sys.modules.get(module), "__path__")
                else module.rpartition(".")[0]
            )
            with suppress(ImportError):
                origin = importlib.util.resolve_name(origin, package)
        words = re.findall(r"[\w.]+", parts or modules)
        names |= {f"{origin}.{word}" for word in words} | {origin} if origin else set(words)
    return names & _sources.keys()


# Operations.


def is_cached(operation: str) -> bool:
    """Return whether an operation has run here, so its kernels are in the cache."""
    names = [_mark(operation, processor) for processor in _processors()]
    return any((place / name).exists() for place in _known() for name in names)


def note_cached(operations: Iterable[str]) -> None:
    """Note that operations have run, and that their kernels are in the cache."""
    own, *_ = _processors()
    for name in (_mark(operation, own) for operation in operations):
        for place in _folders():
            with suppress(OSError):
                place.mkdir(parents=True, exist_ok=True)
                (place / name).touch()
                break


def _mark(operation: str, processor: tuple[str, str]) -> str:
    settings = [(s, getattr(config, s, None)) for s in _SETTINGS]
    parts = operation, _all_sources(), _VERSIONS, settings, processor
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=_DIGEST).hexdigest()
    return f"{digest}{_CACHED}"


@cache
def _all_sources() -> str:
    """Return a digest of the sources of all kernels at the first call."""
    digest = hashlib.blake2b(digest_size=_DIGEST)
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def _processors() -> tuple[tuple[str, str], ...]:
    """Return the processor that kernels are compiled for, and others with kernels that run here."""
    has = binding.get_host_cpu_features()
    name, features = config.CPU_NAME, config.CPU_FEATURES
    own = (
        str(binding.get_host_cpu_name() if name is None else name),
        str(has.flatten() if features is None else features),
    )
    if LEVEL is None or name is not None or not all(has.get(f) for f in _NEEDED[LEVEL]):
        return (own,)
    return own, (LEVEL, "")


# Kernels.


class KernelCache(_Cache):
    """The cache of one kernel, for all signatures; numba's dispatcher loads from it and saves to it.

    Processes that need a kernel at the same time all compile it, and write the same entry.
    """

    _pruned = False

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher
        self._enabled = True
        _remember_sources(dispatcher.py_func.__module__)

    @property
    def cache_path(self) -> str:
        return str(folder())

    def enable(self) -> None:
        self._enabled = True

    def disable(self) -> None:
        self._enabled = False

    def flush(self) -> None:
        """Do nothing: an outdated entry cannot be found."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        # Machine code calls this runtime. A refresh of the context would also import numba's compiler.
        rtsys.initialize(target_context)
        triple, *own = target_context.codegen().magic_tuple()
        _, *others = _processors()
        names = [self._name(sig, (triple, *processor)) for processor in (own, *others)]
        for place, name in itertools.product(_known(), filter(None, names)):
            payload = _read(place / name)
            if payload is not None:
                with suppress(Exception):  # an unusable entry is compiled again
                    return self._rebuild(target_context, *pickle.loads(payload))
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        name = self._name(sig, data.codegen.magic_tuple())
        if name is None or data.library.has_dynamic_globals or data.lifted:
            return
        payload = dumps(data._reduce())
        for place in _folders(is_made=True):
            with suppress(OSError):
                _write(place / name, payload)
                break
        else:
            return
        if not KernelCache._pruned:
            KernelCache._pruned = True
            prune(place, MAX_BYTES)

    _rebuild = staticmethod(CompileResult._rebuild)

    def _name(self, sig: Any, processor: tuple[str, ...]) -> str | None:
        """Return the file name of a signature's kernel for a processor; None if it cannot be cached."""
        function = self._dispatcher.py_func
        source = source_digest(function.__module__)
        types = str(sig)
        if not self._enabled or source is None or " at 0x" in types:
            return None
        cells = tuple(c.cell_contents for c in function.__closure__ or ())
        parts = (
            *(function.__module__, function.__qualname__, function.__code__.co_firstlineno),
            *(function.__code__.co_code, dumps(cells) if cells else b""),
            *(source, types, processor, sorted(self._dispatcher.targetoptions.items())),
            *(_VERSIONS, [(s, getattr(config, s, None)) for s in _SETTINGS]),
        )
        digest = hashlib.blake2b(repr(parts).encode(), digest_size=_DIGEST).hexdigest()
        return f"{function.__name__}-{digest}{_SUFFIX}"


def _read(path: Path) -> bytes | None:
    try:
        data = path.read_bytes()
        if time.time() - path.stat().st_mtime > _MARK_AFTER:
            with suppress(OSError):  # read-only
                os.utime(path)
    except OSError:
        return None
    payload = data[_DIGEST:]
    return payload if data[:_DIGEST] == _checksum(payload) else None


def _write(path: Path, payload: bytes) -> None:
    """Write a file that readers see either whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(suffix=".partial", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_checksum(payload) + payload)
        os.chmod(
            partial, 0o644
        )  # as other files of a cache: an image may be filled by another user
        os.replace(partial, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(partial)
        raise


def _checksum(payload: bytes) -> bytes:
    return hashlib.blake2b(payload, digest_size=_DIGEST).digest()
