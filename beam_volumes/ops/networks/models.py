"""Networks as the sweep knows them: what tells one from another, and how a process loads it once."""

from __future__ import annotations

import hashlib
import os
import posixpath
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from beam_volumes.nesting import calling
from beam_volumes.storage.extent import Extent
from beam_volumes.storage.place import Place, kvstore_spec
from beam_volumes.sweep.identity import identity
from beam_volumes.sweep.stage import digest

#: A loaded network: takes and gives arrays with the axes batch, c, (z,) y, x.
Network = Callable[[np.ndarray], np.ndarray]

_lock = threading.Lock()
#: The GPU of a process computes one batch at a time, whatever slabs are in flight: it has room for that.
_gpu = threading.Lock()
_loaded: dict[tuple[str, int], Network] = {}


@dataclass(frozen=True, eq=False)
class Model:
    """A network that a process can load.

    Attributes
    ----------
    name : str
        What messages call it.
    identity : str
        What tells it from all others: the digest of its file, or the name and version of a function.
    """

    name: str
    identity: str

    #: Of the axes after the channels, if it is known: 3, or 2 for a network of slices.
    ndim: int | None = field(default=None, kw_only=True)
    #: Channels that it takes, if that is known.
    channels: int | None = field(default=None, kw_only=True)
    #: Voxels along its axes that it takes, where that is fixed.
    fixed: tuple[int | None, ...] = field(default=(), kw_only=True)
    #: What its file says of it, by the names of `beam_volumes.predict`'s parameters.
    said: dict[str, Any] = field(default_factory=dict, kw_only=True)

    @property
    def extents(self) -> tuple[Extent, ...]:
        """Where it is stored, if it is."""
        return ()

    @property
    def accelerated(self) -> bool:
        """Whether it may compute on an accelerator."""
        return True

    def token(self) -> str:
        return digest(type(self).__name__, self.identity)

    def loaded(self, threads: int) -> Network:
        """The network, which a process loads once."""
        with _lock:
            key = self.token(), threads
            if key not in _loaded:
                _loaded[key] = self._load(threads)
            return _loaded[key]

    def _load(self, threads: int) -> Network:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Function(Model):
    """A function of the user's."""

    function: Network

    def _load(self, threads: int) -> Network:
        def call(batch: np.ndarray) -> np.ndarray:
            with calling(self.name):
                return self.function(batch)

        return call


@dataclass(frozen=True, eq=False)
class Handler(Model):
    """A `ModelHandler` of Apache Beam: it loads its model itself, and is given one example a patch."""

    handler: Any

    def _load(self, threads: int) -> Network:
        model = self.handler.load_model()

        def call(batch: np.ndarray) -> np.ndarray:
            found = self.handler.run_inference(list(batch), model)
            return np.stack([_as_array(getattr(r, "inference", r)) for r in found])

        return call


def _as_array(found: Any) -> np.ndarray:
    """What a handler gives for one example: an array, a tensor, or one of these by a name or position."""
    if isinstance(found, dict):
        found = next(iter(found.values()))
    elif isinstance(found, list | tuple) and len(found) == 1:
        found = found[0]
    if hasattr(found, "detach"):
        found = found.detach().cpu()
    return np.asarray(found)


@dataclass(frozen=True, eq=False)
class OnnxFile(Model):
    """A file in the format ONNX, which ONNX Runtime runs; workers read it from where it lies."""

    place: str
    device: str = "auto"

    @property
    def extents(self) -> tuple[Extent, ...]:
        return (Extent(kvstore_spec(self.place)),)

    @property
    def accelerated(self) -> bool:
        return self.device != "cpu"

    def token(self) -> str:
        return digest(type(self).__name__, self.identity, self.device)

    def _load(self, threads: int) -> Network:
        data = read_file(self.place)
        if _sha256(data) != self.identity:
            raise ValueError(
                f"the model {self.place} has changed since this was planned: put the old file back, or plan "
                "again and overwrite what was begun"
            )
        session = onnx_session(data, self.place, self.device, threads)
        given, dtype = session.get_inputs()[0].name, _dtype_of(session.get_inputs()[0])
        on_gpu = "CUDAExecutionProvider" in session.get_providers()

        def call(batch: np.ndarray) -> np.ndarray:
            with _gpu if on_gpu else nullcontext():
                return session.run(None, {given: batch.astype(dtype, copy=False)})[0]

        return call


#: ONNX's names of dtypes.
_DTYPES = {
    "tensor(float)": "f4", "tensor(double)": "f8", "tensor(float16)": "f2", "tensor(uint8)": "u1",
    "tensor(int8)": "i1", "tensor(uint16)": "u2", "tensor(int16)": "i2", "tensor(int32)": "i4",
    "tensor(int64)": "i8",
}  # fmt: skip


def model_of(
    given: Any, function: str, device: str, name: str | None, version: str | int | None
) -> Model:
    """The network that a user names or gives.

    Raises
    ------
    TypeError, ValueError, FileNotFoundError, ImportError
    """
    if isinstance(given, Model):
        return given
    if isinstance(given, str | os.PathLike):
        return _file(os.fspath(given), function, device)
    if hasattr(given, "load_model") and hasattr(given, "run_inference"):
        called = name or type(given).__name__
        return Handler(called, identity(name, version), given)
    if callable(given):
        called = name or str(getattr(given, "__name__", type(given).__name__))
        return Function(called, identity(name, version), given)
    raise TypeError(
        f"{function}: model={given!r} is no path of an ONNX file, no ModelHandler, and no function of an "
        "array (batch, c, z, y, x)"
    )


def _file(path: str, function: str, device: str) -> OnnxFile:
    if not path.lower().endswith(".onnx"):
        raise ValueError(
            f"{function}: model={path!r}: paths are of .onnx files; export the network to ONNX, or give a "
            "function that calls it"
        )
    place = path if "://" in path else os.path.abspath(os.path.expanduser(path))
    data = read_file(place)
    session = onnx_session(data, place, device, 1)
    inputs = session.get_inputs()
    if len(inputs) != 1:
        names = ", ".join(i.name for i in inputs)
        raise ValueError(
            f"{function}: {path} takes {len(inputs)} inputs ({names}); it must take one"
        )
    _dtype_of(inputs[0])
    shape = inputs[0].shape
    if len(shape) not in (4, 5):
        raise ValueError(
            f"{function}: {path} takes arrays of {len(shape)} axes {shape}; it must take batch, c, z, y, x, "
            "or batch, c, y, x"
        )
    static = [n if isinstance(n, int) and n > 0 else None for n in shape]
    return OnnxFile(
        posixpath.basename(place) if "://" in place else os.path.basename(place),
        _sha256(data),
        place,
        device,
        ndim=len(shape) - 2,
        channels=static[1],
        fixed=tuple(static[2:]),
        said=_said(session, path, function),
    )


def _said(session: Any, path: str, function: str) -> dict[str, Any]:
    """What a file's metadata says: ``beam_volumes.context`` and ``beam_volumes.stride``, with commas."""
    found: dict[str, Any] = {}
    for key, text in session.get_modelmeta().custom_metadata_map.items():
        package, _, name = key.partition(".")
        if package != "beam_volumes" or name not in ("context", "stride"):
            continue
        try:
            numbers = [int(n) for n in text.split(",")]
        except ValueError:
            raise ValueError(
                f"{function}: {path} says {key}={text!r}, which is no whole numbers with commas between"
            ) from None
        found[name] = numbers[0] if len(numbers) == 1 else numbers
    return found


def _dtype_of(given: Any) -> np.dtype:
    if given.type not in _DTYPES:
        raise ValueError(f"a model takes {given.type}, and no array of numbers")
    return np.dtype(_DTYPES[given.type])


def read_file(place: str) -> bytes:
    """The bytes of a file at a path or URL."""
    spec = kvstore_spec(place)
    folder, _, file = str(spec["path"]).rpartition("/")
    data = Place.of({**spec, "path": f"{folder}/"}).read(file)
    if data is None:
        raise FileNotFoundError(f"{place}: there is no such model")
    return data


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def onnx_session(data: bytes, place: str, device: str, threads: int) -> Any:
    """A session of ONNX Runtime with so many threads."""
    try:
        import onnxruntime
    except ImportError:
        raise ImportError(
            f"{place} needs ONNX Runtime: pip install 'beam-volumes[networks]'"
        ) from None
    there = onnxruntime.get_available_providers()
    if device == "cuda" and "CUDAExecutionProvider" not in there:
        raise ValueError(
            'device="cuda": this ONNX Runtime has no CUDA; pip install onnxruntime-gpu, or device="cpu"'
        )
    providers = ["CPUExecutionProvider"]
    if device != "cpu" and "CUDAExecutionProvider" in there:
        providers.insert(0, "CUDAExecutionProvider")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    # Threads that wait for the next patch leave the cores to the stages beside it.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(data, options, providers=providers)
    except Exception as error:
        first = str(error).strip().splitlines()[0]
        raise ValueError(f"{place} is no model that ONNX Runtime can run: {first}") from None
