"""Networks in PyTorch files: TorchScript (``.pt``), and results of `torch.export` (``.pt2``).

Both contain the network's operations and weights. Files with weights only are not networks.

Both are programs, and only opened if the user trusts them. PyTorch unpickles parts of exported networks, and
makes Python code from the rest. TorchScript can write any file.
"""

from __future__ import annotations

import io
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
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
from beam_volumes.storage.places.outside import is_trusted


@dataclass(frozen=True, eq=False)
class TorchFile(FileModel):
    """A file for PyTorch."""

    def _load(self, threads: int) -> Network:
        torch = _torch(self.place)
        on_gpu = _on_gpu(torch, self.device)
        module, _ = _opened(torch, self.read(), self.place)
        module = module.to("cuda" if on_gpu else "cpu")

        def call(batch: np.ndarray) -> np.ndarray:
            with _same_bits(torch) if on_gpu else nullcontext(), torch.inference_mode():
                torch.set_num_threads(threads)
                given = torch.from_numpy(np.ascontiguousarray(batch, np.float32))
                made = module(given.to("cuda") if on_gpu else given)
                if not isinstance(made, torch.Tensor):
                    raise ValueError(f"it returned a {type(made).__name__} instead of one tensor")
                return made.cpu().numpy()

        return call


def torch_file(path: str, function: str, device: str) -> TorchFile:
    place = absolute(path)
    data = read_file(place)
    if not is_trusted("trust_models"):
        raise ValueError(
            f"{function}: {path} is a program that can read and write any file; if you trust it, set "
            "beam_volumes.options.trust_models = True, or export the network to ONNX"
        )
    torch = _torch(place)
    on_gpu = _on_gpu(torch, device)
    _, inputs = _opened(torch, data, place)
    names = list(inputs)
    check_one_input(function, path, names)
    shape = inputs[names[0]]
    if shape is None:  # unknown in TorchScript
        return TorchFile(file_name(place), sha256(data), place, device, on_gpu=on_gpu)
    check_axes(function, path, shape, len(shape))
    return TorchFile(
        file_name(place),
        sha256(data),
        place,
        device,
        on_gpu=on_gpu,
        ndim=len(shape) - 2,
        channels=shape[1],
        fixed=tuple(shape[2:]),
    )


def _torch(place: str) -> Any:
    try:
        import torch
    except ImportError:
        raise ImportError(f"{place} needs PyTorch: pip install 'beam-volumes[torch]'") from None
    return torch


def _on_gpu(torch: Any, device: str) -> bool:
    there = device != "cpu" and torch.cuda.is_available()
    if device == "cuda" and not there:
        raise ValueError('device="cuda": this PyTorch finds no GPU; use device="cpu"')
    return there


@contextmanager
def _same_bits(torch: Any) -> Iterator[None]:
    """Use the GPU with the same bits in every run; these settings are the process's."""
    # cuBLAS reads it when it starts; it then has a fixed workspace.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    cudnn = {"enabled": True, "benchmark": False, "deterministic": True, "allow_tf32": False}
    with gpu, torch.backends.cudnn.flags(**cudnn):
        before = torch.are_deterministic_algorithms_enabled()
        warned = torch.is_deterministic_algorithms_warn_only_enabled()
        # Operations without a deterministic algorithm are found by the trial, which warns.
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before, warn_only=warned)


def _opened(
    torch: Any, data: bytes, place: str
) -> tuple[Any, dict[str, tuple[int | None, ...] | None]]:
    """The network, and the shape of each input, as far as known."""
    exported = place.lower().endswith(".pt2")
    try:
        with warnings.catch_warnings(), _quiet():
            warnings.simplefilter("ignore")
            if exported:
                program = torch.export.load(io.BytesIO(data))
                wanted = set(program.graph_signature.user_inputs)
                inputs: dict[str, tuple[int | None, ...] | None] = {
                    node.name: _static(node.meta["val"].shape)
                    for node in program.graph.nodes
                    if node.op == "placeholder" and node.name in wanted
                }
                return program.module(), inputs
            module = torch.jit.load(io.BytesIO(data), map_location="cpu").eval()
            _, *arguments = module.forward.schema.arguments
            needed = [a.name for a in arguments if not a.has_default_value()]
            return module, dict.fromkeys(needed)
    except Exception as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        how = "torch.export.save" if exported else "torch.jit.save"
        raise ValueError(
            f"{place} is not a network written by {how}: {first}; load weights into their network, and "
            "export it"
        ) from None


def _static(shape: Any) -> tuple[int | None, ...]:
    """A shape with None for variable extents."""
    return tuple(n if isinstance(n, int) else None for n in shape)


class _quiet:
    """Suppresses PyTorch's messages while it loads a file."""

    def __enter__(self) -> None:
        self.log = logging.getLogger("torch")
        self.level = self.log.level
        self.log.setLevel(logging.ERROR)

    def __exit__(self, *_: object) -> None:
        self.log.setLevel(self.level)
