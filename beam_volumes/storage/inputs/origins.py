"""Find the stores that an array of another library reads from.

A lazy array refers to its inputs: a dask graph contains zarr arrays, h5py datasets and paths; an
xarray array contains its backend's arrays. All reachable objects are visited. None of these
libraries is imported here. A user's code may open any file, so its stores count as unknown, unless
it only uses arithmetic.
"""

from __future__ import annotations

import dis
import functools
import glob
import io
import os
import re
import sys
import sysconfig
from collections import deque
from collections.abc import Iterable, Iterator
from enum import Enum
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GeneratorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any

import numpy as np
import tensorstore as ts

from beam_volumes.storage.formats.hdf5.files import files_of
from beam_volumes.storage.inputs.arrays import file_of
from beam_volumes.storage.places.extent import Extent, stores
from beam_volumes.storage.places.place import is_pattern, kvstore_spec

#: Maximal number of visited objects.
_MAX_OBJECTS = 5_000_000
#: Longer texts are not paths.
_MAX_PATH = 4096
#: Metadata files of arrays: a folder without one is not an input by itself.
_DOCUMENTS = ("zarr.json", ".zarray", ".zgroup", "attributes.json", "info")
#: Types of values that contain no other objects.
_PLAIN = (int, float, complex, bytes, bytearray, np.generic, np.dtype, np.ufunc, slice, range, Enum)
#: Exact types that are skipped first, as they are the most frequent.
_SKIPPED = frozenset({int, float, bool, bytes, slice, type(None), np.dtype})
#: The module of dask's tasks, and their attributes other than keys.
_TASKS = "dask._task_spec"
_OF_TASKS = ("func", "args", "kwargs", "value")
#: Attributes that refer to objects of other arrays.
_SHARED = re.compile(r"cache|lock|log|loop|thread|finali[sz]e|weakref", re.IGNORECASE)
#: Libraries with functions that do not read files, except those named in `_READS`.
_COMPUTING = frozenset(
    {"builtins", "collections", "functools", "itertools", "math", "operator", "random", "typing"}
    | {"beam_volumes", "dask", "numba", "numexpr", "numpy", "pandas", "scipy", "skimage", "xarray"}
    | {"bottleneck", "cmath", "cupy", "cv2", "jax", "sklearn", "statistics", "torch"}
)
#: Names of functions that read files, or run code that may.
_READS = re.compile(
    r"(^|_)(open|load|read|fetch|download|exec|eval|import|memmap|mmap|fromfile|genfromtxt|glob)|"
    r"imread|loadtxt|^(File|Path|Dataset|compile|globals|vars)$"
)
_SCHEMES = {"file": "file", "local": "file", "s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs"}
_LIBRARIES = tuple(
    os.path.realpath(path) + os.sep
    for path in {
        sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")
    }
)


def extents_of(array: Any, texts: bool = True) -> tuple[Extent, ...]:
    """Find the stores that an array, or a function, reads from; `Extent.unknown` represents unknown stores.

    With ``texts``, plain texts count as paths if they name files; a user's function may use them otherwise.

    >>> np.save("em.npy", np.zeros((4, 5)))
    >>> [os.path.basename(e.store["path"]) for e in extents_of(functools.partial(np.load, "em.npy"))]
    ['em.npy']
    """
    walk = _Walk(texts)
    walk.visit(array)
    return (*walk.found.values(), *map(Extent.unknown, walk.hidden))


class _Walk:
    """A traversal of all objects that are reachable from one."""

    def __init__(self, texts: bool) -> None:
        self._with_texts = texts
        self.found: dict[str, Extent] = {}  #: By their representation
        self.hidden: dict[str, None] = {}  #: Objects with unknown stores
        self._visited: dict[int, Any] = {}  # kept alive, so no id is reused
        self._texts: set[str] = set()

    def visit(self, item: Any) -> None:
        left, visited = [item], self._visited
        while left:
            item = left.pop()
            kind = type(item)
            if kind in _SKIPPED or id(item) in visited:
                continue
            if kind is str:
                if self._with_texts:
                    self._text(item)
                continue
            is_task = kind.__module__ == _TASKS
            if not is_task and isinstance(item, _PLAIN):
                continue
            visited[id(item)] = item
            if len(visited) > _MAX_OBJECTS:
                self.hidden["a graph of millions of objects"] = None
                return
            if kind is tuple or kind is list:
                left.extend(item)
                continue
            if is_task:
                left.extend(getattr(item, name, None) for name in _OF_TASKS)
                continue
            try:
                left.extend(self._inside(item))
            except Exception:  # an object that cannot be inspected
                self._hide(item)

    def _inside(self, item: Any) -> Iterable[Any]:
        """Return the objects inside an object, and note the stores that it names."""
        if isinstance(item, str):
            return [str(item)]
        if isinstance(item, dict):
            return item.values()
        if isinstance(item, list | tuple | set | frozenset | deque):
            return item
        if isinstance(item, os.PathLike):
            return [os.fspath(item)]
        if isinstance(item, np.ndarray):
            return self._array(item)
        if isinstance(item, ts.TensorStore):
            return self._note(*stores(item.spec()))
        if isinstance(item, io.IOBase):
            name = getattr(item, "name", None)
            return [name] if isinstance(name, str) else _attributes(item)
        if isinstance(item, memoryview):
            return [item.obj]
        if isinstance(item, type | ModuleType | CodeType):
            return ()
        if isinstance(item, functools.partial):
            return [item.func, item.args, item.keywords]
        if isinstance(item, MethodType):
            return [item.__self__, item.__func__]
        if isinstance(item, FunctionType):
            return self._function(item)
        if isinstance(item, BuiltinFunctionType | MethodWrapperType):
            return [item.__self__]
        return self._object(item)

    def _object(self, item: Any) -> Iterable[Any]:
        """Handle an object of a library's class, or of a user's class."""
        root = _root(type(item))
        name = type(item).__name__
        if root == "beam_volumes" and isinstance(getattr(item, "extents", None), tuple):
            return self._note(*item.extents)
        if root == "h5py" and hasattr(item, "file"):
            return self._note(*(_file(path) for path in files_of(item)))
        if root == "netCDF4" and hasattr(item, "filepath"):
            return [item.filepath()]
        if root == "zarr" and hasattr(item, "store_path"):
            return self._store(item.store_path.store, item.store_path.path)
        if (
            root == "zarr"
            and hasattr(item, "store")
            and isinstance(getattr(item, "path", None), str)
        ):
            return self._store(item.store, item.path)
        if root == "fsspec" and name == "FSMap":
            return self._filesystem(item.fs, item.root)
        if hasattr(item, "fs") and isinstance(getattr(item, "path", None), str):
            return self._filesystem(item.fs, item.path)
        if root == "distributed" and getattr(item, "status", None) == "finished":
            return ()
        inside = list(_attributes(item))
        if isinstance(item, GeneratorType) or (not inside and _gives_data(type(item))):
            self._hide(item)
        if not _is_library(type(item).__module__):
            own = (c for c in type(item).__mro__ if not _is_library(c.__module__))
            inside += [f for c in own for f in vars(c).values() if isinstance(f, FunctionType)]
        return inside

    # stores

    def _note(self, *extents: Extent) -> tuple[()]:
        for extent in extents:
            self.found.setdefault(repr(extent), extent)
        return ()

    def _hide(self, item: Any, what: str = "") -> None:
        self.hidden[what or f"an object of {type(item).__module__}.{type(item).__name__}"] = None

    def _text(self, text: str) -> None:
        """Note a text that is a path, a pattern or a URL."""
        if text in self._texts or not 0 < len(text) <= _MAX_PATH or "\0" in text:
            return
        self._texts.add(text)
        scheme, mark, rest = text.rpartition("::")[2].partition("://")
        if mark:
            if scheme in ("http", "https"):
                self._note(Extent(kvstore_spec(f"{scheme}://{rest}")))
            elif scheme in _SCHEMES:
                self._note(Extent(kvstore_spec(f"{_SCHEMES[scheme]}://{rest}")))
        elif os.path.isfile(text) or (os.path.isdir(text) and _is_store(text)):
            self._note(_file(text))
        elif os.sep in text and is_pattern(text):
            self._note(*map(_file, glob.iglob(text)))

    def _array(self, array: np.ndarray) -> Iterable[Any]:
        if array.dtype.kind in "OUT":
            return array.ravel().tolist()
        path = file_of(array)
        return () if path is None else self._note(_file(path))

    def _store(self, store: Any, path: str) -> Iterable[Any]:
        """Handle a zarr store, and the path of an array in it."""
        name = type(store).__name__
        if isinstance(store, dict) or "MemoryStore" in name:
            return ()
        if hasattr(store, "fs"):
            return self._filesystem(store.fs, "/".join(filter(None, (str(store.path), path))))
        if name in ("LocalStore", "DirectoryStore", "NestedDirectoryStore", "N5Store"):
            root = getattr(store, "root", None) or store.path
            return self._note(_file(os.path.join(os.fspath(root), path)))
        if name in ("ZipStore", "DBMStore", "LMDBStore", "SQLiteStore"):
            return self._note(_file(os.fspath(store.path)))
        if name == "ObjectStore":
            return self._object_store(store.store, path)
        if name in ("LoggingStore", "WrapperStore", "CacheStore") or hasattr(store, "_with_store"):
            return self._store(store._store, path)
        return self._searched(store)

    def _object_store(self, store: Any, path: str) -> Iterable[Any]:
        """Handle a store of obstore."""
        name, prefix = type(store).__name__, str(getattr(store, "prefix", None) or "")
        where = "/".join(filter(None, (prefix.rstrip("/"), path)))
        if name == "MemoryStore":
            return ()
        if name == "LocalStore":
            return self._note(_file(where))
        if name in ("S3Store", "GCSStore"):
            config = dict(store.config)
            bucket = next(str(v) for k, v in config.items() if "bucket" in str(k).lower())
            scheme = "s3" if name == "S3Store" else "gs"
            return self._note(Extent(kvstore_spec(f"{scheme}://{bucket}/{where}")))
        if name == "HTTPStore":
            return self._note(Extent(kvstore_spec(f"{str(store.url).rstrip('/')}/{where}")))
        self._hide(store)
        return ()

    def _filesystem(self, fs: Any, path: str) -> Iterable[Any]:
        """Handle a file system of fsspec, and a path in it."""
        if hasattr(fs, "sync_fs"):
            return self._filesystem(fs.sync_fs, path)
        found = getattr(fs, "protocol", "")
        protocols = {found} if isinstance(found, str) else set(found)
        if "memory" in protocols:
            return ()
        if "reference" in protocols:
            return [
                *self._searched(fs.references),
                getattr(fs, "fo", None),
                getattr(fs, "fss", None),
            ]
        if "dir" in protocols:
            return self._filesystem(fs.fs, f"{fs.path}/{path}")
        if hasattr(fs, "fs"):
            return self._filesystem(fs.fs, path)
        for protocol in protocols & set(_SCHEMES):
            bare = str(fs._strip_protocol(path))
            return self._note(Extent(kvstore_spec(f"{_SCHEMES[protocol]}://{bare}")))
        if protocols & {"http", "https"}:
            return [path]
        return self._searched(fs)

    def _searched(self, item: Any) -> Iterable[Any]:
        """Handle an object that reads from unknown stores, unless it names them."""
        inner = _Walk(self._with_texts)
        inner.visit(dict(item) if isinstance(item, dict) else list(_attributes(item)))
        self.hidden |= inner.hidden
        if not inner.found:
            self._hide(item)
        return self._note(*inner.found.values())

    # code

    def _function(self, function: FunctionType) -> Iterator[Any]:
        captured = [_content(cell) for cell in function.__closure__ or ()]
        yield from (function.__defaults__ or ())
        yield from (function.__kwdefaults__ or {}).values()
        if _is_library(function.__module__):
            yield from captured  # it reads its arguments
            return
        codes = list(_codes(function.__code__))
        yield from (c for code in codes for c in code.co_consts if isinstance(c, str | tuple))
        names = {name for code in codes for name in code.co_names}
        given = function.__globals__
        used = [*captured, *(given[name] for name in names if name in given)]
        if any(map(_READS.search, names)) or any(map(_imports, codes)) or any(map(_may_read, used)):
            self._hide(function, f"the function {function.__name__}")
        yield from used


def _may_read(used: Any) -> bool:
    """Whether an object that a user's function refers to may open files by itself."""
    if isinstance(used, ModuleType):
        return used.__name__.partition(".")[0] not in _COMPUTING
    if isinstance(used, FunctionType | BuiltinFunctionType | type):
        if isinstance(used, FunctionType) and not _is_library(used.__module__):
            return False  # it is visited itself
        return _root(used) not in _COMPUTING or bool(_READS.search(used.__name__))
    return False


def _imports(code: CodeType) -> bool:
    """Whether code imports modules that may read files."""
    found = (i.argval for i in dis.get_instructions(code) if i.opname == "IMPORT_NAME")
    return any(str(name).partition(".")[0] not in _COMPUTING for name in found)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function, and of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not set yet
        return None


def _root(item: Any) -> str:
    return str(getattr(item, "__module__", None) or "builtins").partition(".")[0]


@functools.lru_cache(4096)
def _is_library(module: str | None) -> bool:
    """Whether a module is an installed library rather than the user's program."""
    root = str(module or "builtins").partition(".")[0]
    if root == "beam_volumes" or root in sys.builtin_module_names:
        return root != "__main__"
    file = getattr(sys.modules.get(str(module)), "__file__", None)
    return file is not None and os.path.realpath(file).startswith(_LIBRARIES)


def _attributes(item: Any) -> Iterator[Any]:
    """Yield the values of an object's attributes."""
    yield from (v for k, v in getattr(item, "__dict__", {}).items() if not _SHARED.search(k))
    names = _slots(type(item))  # type: ignore[arg-type]
    yield from (getattr(item, name, None) for name in names)


@functools.lru_cache(4096)
def _slots(kind: type) -> tuple[str, ...]:
    """Return the names of attributes in ``__slots__``."""
    found = []
    for each in kind.__mro__:
        names = each.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if name.startswith("__") and not name.endswith("__"):
                name = f"_{each.__name__.lstrip('_')}{name}"
            if not _SHARED.search(name) and name not in ("__dict__", "__weakref__"):
                found.append(name)
    return tuple(found)


def _gives_data(kind: type) -> bool:
    """Whether objects of this type that cannot be inspected may be arrays or stores."""
    reading = ("__getitem__", "__array__", "read", "get", "get_range")
    return _root(kind) not in _COMPUTING and any(hasattr(kind, name) for name in reading)


def _is_store(folder: str) -> bool:
    return any(os.path.exists(os.path.join(folder, name)) for name in _DOCUMENTS)


def _file(path: str) -> Extent:
    return Extent({"driver": "file", "path": os.path.abspath(path)})
