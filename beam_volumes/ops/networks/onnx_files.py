"""Networks in files of the format ONNX, which ONNX Runtime runs."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.ops.networks.files import (
    FileModel,
    absolute,
    check_axes,
    check_one_input,
    file_name,
    gpu,
    read_file,
    sha256,
)
from beam_volumes.ops.networks.models import Network


@dataclass(frozen=True, eq=False)
class OnnxFile(FileModel):
    """A file that ONNX Runtime runs."""

    def on_trial(self) -> Network:
        # A session keeps all memory that it ever took: one of its own shows all that a patch takes, and
        # holds none of it while the run has another one.
        return self._load(1)

    def _load(self, threads: int) -> Network:
        session = onnx_session(self.read(), self.place, self.device, threads)
        given, dtype = session.get_inputs()[0].name, _dtype_of(session.get_inputs()[0])
        on_gpu = "CUDAExecutionProvider" in session.get_providers()

        def call(batch: np.ndarray) -> np.ndarray:
            with gpu if on_gpu else nullcontext():
                return session.run(None, {given: batch.astype(dtype, copy=False)})[0]

        return call


#: ONNX's names of dtypes.
_DTYPES = {
    "tensor(float)": "f4", "tensor(double)": "f8", "tensor(float16)": "f2", "tensor(uint8)": "u1",
    "tensor(int8)": "i1", "tensor(uint16)": "u2", "tensor(int16)": "i2", "tensor(int32)": "i4",
    "tensor(int64)": "i8",
}  # fmt: skip


def onnx_file(path: str, function: str, device: str) -> OnnxFile:
    """A file that is read and looked at.

    Raises
    ------
    ValueError, FileNotFoundError, ImportError
    """
    place = absolute(path)
    data = read_file(place)
    session = onnx_session(data, place, device, 1)
    inputs = session.get_inputs()
    check_one_input(function, path, [i.name for i in inputs])
    _dtype_of(inputs[0])
    shape = inputs[0].shape
    check_axes(function, path, shape, len(shape))
    static = [n if isinstance(n, int) and n > 0 else None for n in shape]
    return OnnxFile(
        file_name(place),
        sha256(data),
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
    # From the second patch on it would hold, beside what the first one took, all of it in one piece.
    options.enable_mem_pattern = False
    # Threads that wait for the next patch leave the cores to the stages beside it.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(data, options, providers=providers)
    except Exception as error:
        first = str(error).strip().splitlines()[0]
        raise ValueError(f"{place} is no model that ONNX Runtime can run: {first}") from None
