"""A trial of a network on noise before any work starts: its result, memory, and repeatability."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass

import numpy as np
import psutil

from beam_volumes.base.geometry import Triple
from beam_volumes.ops.networks.models import Model
from beam_volumes.ops.networks.patches import Patches
from beam_volumes.sweep.resources import trim_heap

#: Results of earlier trials in this process.
_trials: dict[tuple[object, ...], Trial] = {}
_stands_in: dict[tuple[object, ...], int | None] = {}


@dataclass(frozen=True)
class Trial:
    """The result of a trial."""

    channels: int  #: Number of channels of the result.
    shape: Triple  #: Shape of the result of a patch.
    dtype: np.dtype
    #: Whether a second run, with the patches of a batch in another order, returned the same bits.
    repeatable: bool
    network_bytes: int  #: Bytes allocated during the run, including the result.
    seconds: float  #: Duration of a batch.


def tried(model: Model, function: str, batch: int, channels: int, patch: Triple) -> Trial:
    """Run a network twice on a batch of noise, once with the batch reversed.

    ValueError if it does not return a batch of finite numbers with channels.
    """
    key = (model.token(), batch, channels, patch)
    if key not in _trials:
        _trials[key] = _tried(model, function, batch, channels, patch)
    return _trials[key]


def _tried(model: Model, function: str, batch: int, channels: int, patch: Triple) -> Trial:
    network = model.on_trial()
    noise = np.random.default_rng(0).random((batch, channels, *patch), dtype=np.float32)
    begun = time.perf_counter()
    with _Peak() as peak:
        made = called(network, noise, model, function)
    seconds = time.perf_counter() - begun
    of = f"{function}: {model.name} returned shape {made.shape} for {noise.shape}"
    if made.ndim != 5 or len(made) != batch or 0 in made.shape:
        raise ValueError(f"{of}; it must return (batch, c, z, y, x) with as many patches")
    if any(n > m for n, m in zip(made.shape[2:], patch, strict=True)):
        raise ValueError(
            f"{of}; a result with more voxels than the input is not available: upsample it"
        )
    if made.dtype.kind not in "fiub":
        raise ValueError(f"{of}, of dtype {made.dtype}; it must return real numbers")
    if made.dtype.kind == "f" and not np.isfinite(made).all():
        bad = int((~np.isfinite(made)).sum())
        raise ValueError(
            f"{function}: {model.name} returned {bad} of {made.size} numbers as NaN or infinite for noise "
            "between 0 and 1"
        )
    again = called(network, np.roll(noise, 1, axis=0), model, function)
    same = again.shape == made.shape and np.array_equal(np.roll(again, -1, axis=0), made)
    z, y, x = made.shape[2:]
    bytes_ = max(peak.bytes, made.nbytes)
    return Trial(made.shape[1], (z, y, x), made.dtype, bool(same), bytes_, seconds)


def stands_in(
    model: Model, channels: int, first: tuple[Patches, int], other: tuple[Patches, int]
) -> int | None:
    """Bytes that a network allocates for other patches; None if they have other voxels.

    All patches are from one noise volume, so common voxels of their results can be compared.
    """
    key = (model.token(), channels, first, other)
    if key not in _stands_in:
        try:
            _stands_in[key] = _stood_in(model, channels, first, other)
        except ValueError:
            _stands_in[key] = None  # it does not support this size of patches
    return _stands_in[key]


def _stood_in(
    model: Model, channels: int, first: tuple[Patches, int], other: tuple[Patches, int]
) -> int | None:
    network = model.on_trial()
    room = [max(a, b) for a, b in zip(first[0].patch, other[0].patch, strict=True)]
    noise = np.random.default_rng(0).random((channels, *room), dtype=np.float32)

    def made(patches: Patches, batch: int) -> tuple[np.ndarray, int]:
        z, y, x = map(slice, patches.patch)
        own = noise[:, z, y, x]
        given = np.repeat(own[None], batch, axis=0)
        with _Peak() as peak:
            found = called(network, given, model, "predict")
        inside = tuple(slice(a, a + n) for a, n in zip(patches.skipped, patches.made, strict=True))
        return found[-1, :, inside[0], inside[1], inside[2]].copy(), max(peak.bytes, found.nbytes)

    ours, allocated = made(*other)
    expected, _ = made(*first)
    z, y, x = (slice(min(a, b)) for a, b in zip(ours.shape[1:], expected.shape[1:], strict=True))
    same = np.array_equal(ours[:, z, y, x], expected[:, z, y, x])
    return allocated if same else None


def called(network, batch: np.ndarray, model: Model, function: str) -> np.ndarray:  # type: ignore[no-untyped-def]
    """Call a network on a batch; errors name the shape of the batch."""
    try:
        return np.asarray(network(batch))
    except Exception as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(
            f"{function}: {model.name} fails on a batch of shape {batch.shape}: {first}; choose a different "
            "patch=, as the network requires"
        ) from error


class _Peak:
    """Measures the peak memory of a process in a context, beyond the memory at its start."""

    bytes = 0

    def __enter__(self) -> _Peak:
        if sys.platform == "linux":
            # Freed memory that was not returned to the system would hide allocations.
            trim_heap()
            self._resets = _reset_peak()
        self._before = psutil.Process().memory_info().rss
        return self

    def __exit__(self, *_: object) -> None:
        after = psutil.Process().memory_info().rss
        if sys.platform == "linux" and self._resets:
            after = max(after, _peak_rss())
        self.bytes = math.ceil(1.1 * max(0, after - self._before))


def _reset_peak() -> bool:
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        return False
    return True


def _peak_rss() -> int:
    with open("/proc/self/status") as file:
        line = next((text for text in file if text.startswith("VmHWM")), "VmHWM: 0 kB")
    return int(line.split()[1]) * 1024
