"""Networks in ONNX files, for ONNX Runtime."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from beam_volumes.ops.networks.files import (
    FileModel,
    absolute,
    check_axes,
    check_one_input,
    file_name,
    file_sha256,
    gpu,
    read_file,
    sha256,
)
from beam_volumes.ops.networks.models import Network
from beam_volumes.storage.places.extent import Extent
from beam_volumes.storage.places.place import kvstore_spec


@dataclass(frozen=True, eq=False)
class OnnxFile(FileModel):
    """A file for ONNX Runtime, and the files of weights that it refers to."""

    #: Paths or URLs of files of weights, next to the model's.
    weights: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def extents(self) -> tuple[Extent, ...]:
        return (*super().extents, *(Extent(kvstore_spec(w)) for w in self.weights))

    def digest_of(self, data: bytes) -> str:
        return _digest_of(data, weights_of(data, self.place))

    def on_trial(self) -> Network:
        # A session keeps all memory that it ever used. A separate one shows the memory of a patch, and
        # releases it.
        return self._load(os.cpu_count() or 1)

    def _load(self, threads: int) -> Network:
        session = onnx_session(self.read(), self.place, self.device, threads)
        given, dtype = session.get_inputs()[0].name, _dtype_of(session.get_inputs()[0])
        on_gpu = _CUDA in session.get_providers()

        def call(batch: np.ndarray) -> np.ndarray:
            with gpu if on_gpu else nullcontext():
                return session.run(None, {given: batch.astype(dtype, copy=False)})[0]

        return call


_CUDA = "CUDAExecutionProvider"
#: Options of CUDA for the same bits in every run: one algorithm for convolutions instead of the fastest in a
#: trial, and float32 that is not rounded.
_SAME_BITS = {"cudnn_conv_algo_search": "DEFAULT", "use_tf32": "0"}

#: ONNX's names of dtypes.
_DTYPES = {
    "tensor(float)": "f4", "tensor(double)": "f8", "tensor(float16)": "f2", "tensor(uint8)": "u1",
    "tensor(int8)": "i1", "tensor(uint16)": "u2", "tensor(int16)": "i2", "tensor(int32)": "i4",
    "tensor(int64)": "i8",
}  # fmt: skip


def onnx_file(path: str, function: str, device: str) -> OnnxFile:
    place = absolute(path)
    data = read_file(place)
    weights = weights_of(data, place)
    identity = _digest_of(data, weights)
    session = onnx_session(data, place, device, 1)
    inputs = session.get_inputs()
    check_one_input(function, path, [i.name for i in inputs])
    _dtype_of(inputs[0])
    shape = inputs[0].shape
    check_axes(function, path, shape, len(shape))
    static = [n if isinstance(n, int) and n > 0 else None for n in shape]
    return OnnxFile(
        file_name(place),
        identity,
        place,
        device,
        weights=weights,
        on_gpu=_CUDA in session.get_providers(),
        ndim=len(shape) - 2,
        channels=static[1],
        fixed=tuple(static[2:]),
        declared=_declared_by_file(session, path, function),
    )


def _digest_of(data: bytes, weights: tuple[str, ...]) -> str:
    own = sha256(data)
    return sha256(" ".join([own, *map(file_sha256, weights)]).encode()) if weights else own


#: Fields of ONNX messages with messages that may refer to files of weights: by message and field number, the
#: type of the inner message. https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
_HOLDS = {
    ("model", 7): "graph", ("model", 20): "training", ("model", 25): "function",
    ("training", 1): "graph", ("training", 2): "graph", ("function", 7): "node",
    ("function", 11): "attribute", ("graph", 1): "node", ("graph", 5): "tensor", ("graph", 15): "sparse",
    ("node", 5): "attribute", ("attribute", 5): "tensor", ("attribute", 6): "graph",
    ("attribute", 10): "tensor", ("attribute", 11): "graph", ("attribute", 22): "sparse",
    ("attribute", 23): "sparse", ("sparse", 1): "tensor", ("sparse", 2): "tensor",
    ("tensor", 13): "entry",
}  # fmt: skip


def weights_of(data: bytes, place: str) -> tuple[str, ...]:
    """Paths or URLs of a model's files of weights, next to its own file; ValueError if they are elsewhere."""
    folder = place[: -len(file_name(place))]
    found: dict[str, None] = {}
    stack = [("model", memoryview(data))]
    while stack:
        kind, message = stack.pop()
        fields = list(_fields(message))
        if kind == "entry" and (1, b"location") in fields:
            found |= {
                bytes(value).decode("utf-8", "replace"): None for n, value in fields if n == 2
            }
        stack += [(_HOLDS[kind, n], value) for n, value in fields if (kind, n) in _HOLDS]
    for name in found:
        # ONNX Runtime reads names below */ from addresses in memory.
        if os.path.isabs(name) or "\\" in name or {"..", "*"} & {*name.split("/")}:
            raise ValueError(
                f"{place}: its weights are in {name!r}, outside its folder; save the model with its weights "
                "in one folder"
            )
    return tuple(folder + name for name in sorted(found))


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """The numbers and bytes of the fields with bytes of a protobuf message, until damaged data."""
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while at < len(message) and shift < 64:
            byte = message[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                break
        return value

    while at < len(message):
        tag = number() & 0xFFFFFFFF  # as in protobuf
        if tag & 7 == 2:
            size = number()
            yield tag >> 3, message[at : at + size]
            at += size
        elif tag & 7 == 0:
            number()
        elif tag & 7 in (1, 5):
            at += 8 if tag & 7 == 1 else 4
        elif tag & 7 not in (3, 4):  # fields of groups count as the message's
            return


@contextmanager
def _folder_of(weights: tuple[str, ...], place: str) -> Iterator[str]:
    """A local folder with a model's files of weights."""
    folder = place[: -len(file_name(place))]
    if "://" not in place or not weights:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="beam-volumes-weights-") as own:
        for path in weights:
            copy = Path(own, path[len(folder) :])
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(read_file(path))
        yield own


def _declared_by_file(session: Any, path: str, function: str) -> dict[str, Any]:
    """A file's metadata: ``beam_volumes.context`` and ``beam_volumes.stride``, with commas."""
    found: dict[str, Any] = {}
    for key, text in session.get_modelmeta().custom_metadata_map.items():
        package, _, name = key.partition(".")
        if package != "beam_volumes" or name not in ("context", "stride"):
            continue
        try:
            numbers = [int(n) for n in text.split(",")]
        except ValueError:
            raise ValueError(
                f"{function}: {path} has the metadata {key}={text!r}; use whole numbers with commas"
            ) from None
        found[name] = numbers[0] if len(numbers) == 1 else numbers
    return found


def _dtype_of(given: Any) -> np.dtype:
    if given.type not in _DTYPES:
        raise ValueError(f"the model accepts {given.type} instead of an array of numbers")
    return np.dtype(_DTYPES[given.type])


def onnx_session(data: bytes, place: str, device: str, threads: int) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise ImportError(
            f"{place} needs ONNX Runtime: pip install 'beam-volumes[networks]'"
        ) from None
    there = onnxruntime.get_available_providers()
    if device == "cuda" and _CUDA not in there:
        raise ValueError(
            'device="cuda": this ONNX Runtime has no CUDA; pip install onnxruntime-gpu, or device="cpu"'
        )
    providers: list[Any] = ["CPUExecutionProvider"]
    options = onnxruntime.SessionOptions()
    if device != "cpu" and _CUDA in there:
        providers.insert(0, (_CUDA, _SAME_BITS))
        options.use_deterministic_compute = True
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    # Not its own format, in which `weights_of` finds nothing.
    options.add_session_config_entry("session.load_model_format", "ONNX")
    # It would allocate the memory of the first patch once more, in one piece, for later patches.
    options.enable_mem_pattern = False
    # Threads that wait for the next patch leave the cores to other stages.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    with _folder_of(weights_of(data, place), place) as folder:
        # For a model from bytes, paths would be relative to the current folder.
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", folder
        )
        return _session(onnxruntime, data, place, options, providers)


def _session(onnxruntime: Any, data: bytes, place: str, options: Any, providers: list[Any]) -> Any:
    try:
        return onnxruntime.InferenceSession(data, options, providers=providers)
    except Exception as error:
        first = str(error).strip().splitlines()[0]
        raise ValueError(f"{place} is not a model that ONNX Runtime can run: {first}") from None
