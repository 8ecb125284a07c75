"""Prediction by neural networks."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from beam_volumes.base.geometry import Triple
from beam_volumes.base.space import Space
from beam_volumes.graph.arithmetic import check_alike
from beam_volumes.graph.elementwise import checked_dtype
from beam_volumes.graph.nodes import StageNode
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.spaces import shared_space
from beam_volumes.graph.stages import interleaved_dtype, separated
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.measure.distributions import percentile
from beam_volumes.ops.networks.given import model_of, of_slices
from beam_volumes.ops.networks.layout import Asked, laid_out
from beam_volumes.ops.networks.models import Model
from beam_volumes.ops.networks.patches import BLENDS
from beam_volumes.ops.networks.stages import Predict
from beam_volumes.ops.networks.turns import TURNS, Turns
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import first_channel, triple
from beam_volumes.ops.parameters.docs import documented

MODES = ("auto", "valid", "blend")
DEVICES = ("auto", "cpu", "cuda")


@documented
def predict(
    volume: Volume,
    model: Any,
    *,
    mode: str = "auto",
    patch: int | Sequence[int] | None = None,
    context: int | Sequence[int | Sequence[int]] | None = None,
    stride: int | Sequence[int] | None = None,
    overlap: int | Sequence[int] | None = None,
    blend: str = "bump",
    slices: int | None = None,
    channels_out: int | Sequence[str] | None = None,
    dtype: DTypeLike | None = None,
    batch: int | None = None,
    normalize: str | Sequence[Any] | None = None,
    mask: Volume | None = None,
    fill: float = 0.0,
    augment: str | None = None,
    offsets: Sequence[Sequence[int] | None] | None = None,
    edges: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    device: str = "auto",
    name: str | None = None,
    version: str | int | None = None,
) -> Volume:
    """Apply a neural network to a volume in patches, with a result that does not depend on slabs.

    Parameters
    ----------
    %(volume)s
    model : path, callable or ModelHandler
        The path or URL of an ``.onnx`` file, or of a TorchScript (``.pt``) or `torch.export`
        (``.pt2``) file. Alternatively, a function of float32 arrays with the axes batch, c, z, y,
        x, which returns arrays with the same number of patches. An Apache Beam `ModelHandler` for
        numpy arrays c, z, y, x is accepted as well. Input channels are the volume's channels. A
        network for ``(batch, c, y, x)`` runs slice by slice.
    mode : {"auto", "valid", "blend"}, default: "auto"
        ``"valid"``: equal to one pass over the whole volume; patches overlap by ``context``, which
        is discarded. ``"blend"``: patches overlap and are averaged with weights. ``"auto"`` is
        ``"valid"`` if the context is known from ``context=``, the file's metadata or the smaller
        output of the network; otherwise it is ``"blend"``.
    patch : int or sequence of int, optional
        Input extent of the network along z, y, x (y, x for a network of slices). Larger patches
        discard less and need more memory. By default, up to two million voxels. If the size does
        not change the result, the plan selects the size that fits in memory and discards least.
    context : int or sequence, optional
        The reach of the network: how far away voxels can affect the result of a voxel. One number
        for all axes, or for each axis a number or a pair (before, after). For ``mode="valid"``.
    stride : int or sequence of int, optional
        The product of the network's pooling factors. If the input is shifted by multiples of the
        stride, the result is shifted equally. Patches start at multiples of the stride.
    overlap : int or sequence of int, optional
        Number of voxels shared by adjacent patches, for ``mode="blend"``; half a patch by default.
    blend : {"bump", "gaussian", "linear", "none"}, default: "bump"
        The weights for ``mode="blend"``: chunkflow's bump function, nnU-Net's Gaussian, linear
        towards the middle, or constant. The sigma of the Gaussian is an eighth of a patch.
    slices : int, optional
        For a network of slices: the odd number of neighbouring slices that are its input channels.
    channels_out : int or sequence of str, optional
        The expected number of channels of the result, or their names.
    dtype : dtype, optional
        Dtype of the result, cast like `Volume.astype`; the network's dtype by default.
    batch : int, optional
        Number of patches per call of the network; by default, small patches are combined within the
        memory limit.
    normalize : {"patch"} or sequence of two, optional
        A pair ``(low, high)`` to map to 0 and 1: numbers, lazy numbers, or percentiles of all
        voxels such as ``("1%", "99%")``. ``"patch"`` normalizes each patch to mean 0 and standard
        deviation 1; the result then depends on the grid of patches.
    mask : Volume or numpy.ndarray, optional
        A mask. The network is not run on patches that contribute to no nonzero voxel of the mask.
    fill : float, default: 0.0
        The result where the network is not run.
    augment : {"flips", "rot90", "d4", "cube"}, optional
        The transformed copies of each patch to average over. ``"flips"`` are flips along all axes
        (8 runs of the network), and ``"rot90"`` quarter turns in the plane (4). ``"d4"`` adds the
        mirror images of the turns (8), and ``"cube"`` includes all rotations and reflections of a
        cube (48).
    offsets : sequence, optional
        Required for ``augment`` if channels describe pairs of voxels, such as affinities. For each
        channel, pass None or the offset from a voxel to the other voxel of the pair. Offsets are
        along z, y, x, or y, x for a network of slices. ``[(-1, 0, 0), (0, -1, 0), (0, 0, -1)]`` are
        affinities between each voxel and the previous one. The context grows by the longest offset.
    edges : str or sequence of str, default: "reflect"
        How to extend the volume beyond its edges, like ``mode`` of `gaussian_filter`.
    cval : float, default: 0.0
        The value beyond the edges for ``"constant"``, before ``normalize``.
    device : {"auto", "cpu", "cuda"}, default: "auto"
        The device for ONNX Runtime and PyTorch; ``"auto"`` uses CUDA if available. On CUDA,
        deterministic algorithms without TF32 are requested; bits may differ from the CPU's.
    %(name_and_version)s

    Returns
    -------
    Volume
        A volume with the axis c first; on a coarser grid if the network's output is coarser.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the network fails on a patch of noise. If it returns
        numbers that are not finite, or an unexpected number of channels. If ``model`` is a PyTorch
        file and ``options.trust_models`` is False, because such files can execute code.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``model`` cannot be run.
    FileNotFoundError, ImportError
        If the file does not exist, or ONNX Runtime or PyTorch is not installed.

    See Also
    --------
    probe_model : measures context and stride.
    map_overlap : applies any function to blocks.

    Notes
    -----
    One sweep; percentiles need additional sweeps. `predict` runs the network twice on noise, to
    determine its shapes and memory, and whether it returns the same bits. If the bits differ, a
    warning is issued, and the result is stored and never computed twice. NaN voxels are passed to
    the network. If the network returns NaN or infinity for a patch without such voxels, the run
    stops with an error. The digest of the file is a part of the run's identity; workers read the
    file from its original location.

    References
    ----------
    `Lee et al., chunkflow, Nature Methods 2021 <https://doi.org/10.1038/s41592-021-01088-5>`_;
    `Isensee et al., nnU-Net, Nature Methods 2021 <https://doi.org/10.1038/s41592-020-01008-z>`_.

    Examples
    --------
    >>> def brightest(batch):  # the maximum of a voxel and the next one along x
    ...     return np.maximum(batch[..., :-1], batch[..., 1:])
    >>> v = bv.open(np.array([[3, 1, 4, 1, 5, 9, 2, 6]], "f4"))
    >>> np.asarray(bv.predict(v, brightest, patch=(1, 5), edges="nearest", name="max", version=1))
    array([[[3., 4., 4., 5., 9., 9., 6., 6.]]], dtype=float32)
    """
    what = "predict"
    v = as_volume(volume)
    _check_words(mode, blend, augment, device)
    network = model_of(model, what, device, name, version)
    visible = v.space.visible
    flat = network.ndim == 2 or slices is not None or (network.ndim is None and 0 not in visible)
    planes = _slices(network, len(v.nodes), slices) if flat else 1
    _check_channels(network, len(v.nodes), planes)
    axes = tuple(a for a in visible if a) if flat else visible
    asked = Asked(
        mode, _per(patch, axes, "patch", 1), _contexts(context, network, axes),
        _per(_given_or_declared(stride, network, "stride"), axes, "stride", 1),
        _per(overlap, axes, "overlap", 0), blend, planes,
        batch if batch is None else par.whole_number(batch, "batch", what),
        par.modes_of(edges, visible, what, "edges", wraps=False), float(cval),
        Turns(augment or "", _offsets(offsets, axes)), flat,
        ((None,) * (3 - len(network.fixed)) + network.fixed),
        mask is not None or normalize == "patch",
    )  # fmt: skip
    prepared = _normalized(v, normalize)
    shape = first_channel(v).grid_shape
    laid = laid_out(of_slices(network) if flat else network, len(v.nodes), shape, asked)
    if not laid.trial.repeatable:
        warnings.warn(
            f"{what}: {network.name} does not return the same bits twice, or at another place in a batch: "
            "its result is stored, and may differ between runs",
            stacklevel=3,
        )
    names, made = _names(channels_out, laid.trial.channels, network)
    masked = [] if mask is None else [_checked_mask(v, as_volume(mask))]
    voxels = interleaved_dtype(_at_least_single(laid.trial.dtype), made)
    stage = Predict(
        f"{what} {network.name}", voxels, shape, laid.patches.grid, laid.model, laid.patches,
        len(v.nodes), laid.batch, blend if laid.patches.blended else "", asked.turns,
        normalize == "patch", float(fill), laid.trial.repeatable, laid.trial.network_bytes,
        laid.others,
    )  # fmt: skip
    mixed = StageNode.of(stage, (*prepared.nodes, *(m.nodes[0] for m in masked)))
    space = _coarser(shared_space(what, v, *masked) if masked else v.space, laid.patches.scale)
    result = Volume(separated(mixed, what), space.with_leading(space.times, True, names))
    return result if dtype is None else result.astype(checked_dtype(dtype))


def _checked_mask(volume: Volume, mask: Volume) -> Volume:
    check_alike("predict", first_channel(volume), first_channel(mask))
    if mask.space.has_channels:
        raise ValueError("predict: mask= has channels; select one with mask[k]")
    return mask.astype(bool)


def _at_least_single(dtype: np.dtype) -> np.dtype:
    """Return the dtype of a result: the network's floats, but no half precision."""
    return dtype if dtype.kind == "f" and dtype.itemsize >= 4 else np.dtype(np.float32)


def _coarser(space: Space, scale: Triple) -> Space:
    """Return the space of a result with one voxel for ``scale`` of the volume."""
    if scale == (1, 1, 1):
        return space
    z, y, x = ((s - 1) / 2 for s in scale)
    return space.resampled(scale, (z, y, x))


def _check_words(mode: str, blend: str, augment: str | None, device: str) -> None:
    for what, given, offered in (
        ("mode", mode, MODES),
        ("blend", blend, BLENDS),
        ("augment", augment, (None, *TURNS)),
        ("device", device, DEVICES),
    ):
        if given not in offered:
            raise ValueError(
                f"predict: {what}={given!r}; use one of {', '.join(map(repr, offered))}"
            )


def _given_or_declared(given: Any, network: Model, what: str) -> Any:
    return network.declared.get(what) if given is None else given


def _per(given: Any, axes: tuple[int, ...], what: str, minimum: int) -> Triple | None:
    if given is None:
        return None
    default = minimum if what == "overlap" else 1
    return triple(par.whole_numbers(given, axes, default, what, minimum, "predict"))


def _contexts(given: Any, network: Model, axes: tuple[int, ...]) -> tuple[Triple, Triple] | None:
    """Return the context before and after, if it is known."""
    given = _given_or_declared(given, network, "context")
    if given is None:
        return None
    pairs = []
    for c in par.per_axis(given, axes, 0, "context", "predict"):
        pair = tuple(c) if isinstance(c, Sequence) else (c, c)
        if len(pair) != 2 or not all(par.is_whole(n) and n >= 0 for n in pair):
            raise ValueError(
                f"predict: context={given!r} must consist of whole numbers of at least 0"
            )
        pairs.append(pair)
    before, after = zip(*pairs, strict=True)
    return triple(before), triple(after)


def _offsets(given: Any, axes: tuple[int, ...]) -> tuple[Triple, ...]:
    """Return the offset of each channel's other voxel along z, y and x; zeros for None."""
    if given is None:
        return ()
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        raise TypeError(
            f"predict: offsets={given!r} must be a sequence of offsets, one for each channel"
        )
    found = []
    for own in given:
        if isinstance(own, str) or not (own is None or isinstance(own, Sequence | np.ndarray)):
            raise TypeError(f"predict: offsets={given!r}: {own!r} is neither an offset nor None")
        numbers = [0] * len(axes) if own is None else list(own)
        if len(numbers) != len(axes) or not all(par.is_whole(n) for n in numbers):
            names = ", ".join("zyx"[a] for a in axes)
            raise ValueError(
                f"predict: offsets={given!r}: {own!r} must be whole numbers along {names}"
            )
        there = [0, 0, 0]
        for a, n in zip(axes, numbers, strict=True):
            there[a] = int(n)
        found.append(triple(there))
    return tuple(found)


def _slices(network: Model, channels: int, slices: int | None) -> int:
    """Return the number of slices that a network of slices takes as channels."""
    if slices is None:
        known = network.channels
        several = known is not None and known > channels and known % channels == 0
        slices = known // channels if several and known is not None else 1
    if network.ndim == 3:
        raise ValueError(
            f"predict: slices={slices} is for a network of slices; {network.name} accepts volumes"
        )
    if not par.is_whole(slices) or slices < 1 or slices % 2 == 0:
        raise ValueError(
            f"predict: slices={slices!r} must be an odd number, with equally many slices before "
            "and after each slice"
        )
    return int(slices)


def _check_channels(network: Model, channels: int, slices: int) -> None:
    if network.channels is not None and network.channels != channels * slices:
        has = f"{channels} (times {slices} slices)" if slices > 1 else f"{channels}"
        raise ValueError(
            f"predict: {network.name} accepts {network.channels} channels, but the volume has "
            f"{has}; select channels with v.sel(c=...), or join volumes with stack"
        )


def _normalized(volume: Volume, normalize: Any) -> Volume:
    """Map two numbers of a volume to 0 and 1."""
    if normalize is None or (isinstance(normalize, str) and normalize == "patch"):
        return volume
    if isinstance(normalize, str) or not isinstance(normalize, Sequence) or len(normalize) != 2:
        raise ValueError(
            f'predict: normalize={normalize!r}; give (low, high), ("1%", "99%") or "patch"'
        )
    low, high = (_bound(volume, n) for n in normalize)
    if par.is_number(low) and par.is_number(high) and not low < high:
        raise ValueError(f"predict: normalize={normalize!r}; low must be less than high")
    single = volume.astype(np.float32)
    if par.is_number(low) and low == 0:
        return (single / high).astype(np.float32)
    return ((single - low) / (high - low)).astype(np.float32)


def _bound(volume: Volume, given: Any) -> Any:
    """Parse a number, a lazy number, or a percentile of the volume."""
    if isinstance(given, str):
        try:
            share = float(given.strip().removesuffix("%"))
        except ValueError:
            share = -1.0
        if not given.strip().endswith("%") or not 0 <= share <= 100:
            raise ValueError(f'predict: normalize: {given!r} is not a percentile such as "99%"')
        return percentile(volume, share)
    if isinstance(given, Scalar) or par.is_number(given):
        return given
    raise ValueError(f"predict: normalize: {given!r} is neither a number nor a percentile")


def _names(wanted: Any, made: int, network: Model) -> tuple[tuple[str, ...], int]:
    """Return the names of the result's channels, as far as known, and their number."""
    names = () if wanted is None or par.is_whole(wanted) else tuple(map(str, wanted))
    count = made if wanted is None else int(wanted) if par.is_whole(wanted) else len(names)
    if count != made or len({*names}) != len(names):
        raise ValueError(
            f"predict: channels_out={wanted!r}, but {network.name} returns {made} channels"
        )
    return names, made
