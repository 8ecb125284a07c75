"""Random noise that depends on a seed and positions of voxels, not on slabs."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Triple
from beam_volumes.graph.arithmetic import apply_ufunc
from beam_volumes.graph.nodes import StageNode
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.kernels.intensity import noise as kernels
from beam_volumes.ops.geometry.rearrange import refuse_empty
from beam_volumes.ops.measure.reductions import max as greatest
from beam_volumes.ops.measure.reductions import min as least
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.ops.pointwise import clip as limited
from beam_volumes.ops.pointwise import where
from beam_volumes.sweep.stage import Block, Regrid, Stage

#: The parameters of each kind of noise, with their defaults.
_MODES: dict[str, dict[str, Any]] = {
    "gaussian": {"mean": 0.0, "var": 0.01},
    "localvar": {"local_vars": 0.01},
    "poisson": {"peak": None},
    "salt": {"amount": 0.05},
    "pepper": {"amount": 0.05},
    "s&p": {"amount": 0.05, "salt_vs_pepper": 0.5},
    "speckle": {"mean": 0.0, "var": 0.01},
    "uniform": {"low": -0.1, "high": 0.1},
}


@documented
def random_noise(
    volume: Volume,
    mode: str = "gaussian",
    seed: int = 0,
    clip: bool = True,
    *,
    mean: float | None = None,
    var: float | None = None,
    local_vars: Volume | None = None,
    amount: float | None = None,
    salt_vs_pepper: float | None = None,
    peak: float | None = None,
    low: float | None = None,
    high: float | None = None,
) -> Volume:
    """Add random noise to a volume, independently of slabs.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Integers are scaled to the range from 0 or -1 to
        1, as in scikit-image.
    mode : str, default: "gaussian"
        ``"gaussian"`` adds normal noise, and ``"localvar"`` normal noise with a variance for each
        voxel. ``"speckle"`` adds the voxel times normal noise. ``"uniform"`` adds numbers from
        ``low`` to ``high``. ``"poisson"`` counts photons. ``"salt"`` and ``"pepper"`` set voxels to
        1 or to the lowest value, and ``"s&p"`` to either.
    seed : int, default: 0
        The seed of the noise, from 0 to 2**64 - 1.
    clip : bool, default: True
        Whether to clip the result to the range from 0 to 1, or from -1 to 1 if there are negative
        voxels.
    mean : float, optional
        Mean of normal noise; 0 by default.
    var : float, optional
        Variance of normal noise; 0.01 by default.
    local_vars : Volume or numpy.ndarray, optional
        The variance of each voxel, at least 0; 0.01 by default.
    amount : float, optional
        Fraction of voxels to set, 0 to 1; 0.05 by default.
    salt_vs_pepper : float, optional
        Fraction of salt among the set voxels, 0 to 1; 0.5 by default.
    peak : float, optional
        Number of photons for a voxel of 1; 256 by default for integers of 8 bits, 65536 for 16
        bits. The parameter is required for all other dtypes.
    low : float, optional
        Minimum of uniform noise; -0.1 by default.
    high : float, optional
        Maximum of uniform noise; 0.1 by default.

    Returns
    -------
    Volume
        A float64 volume; float32 for float32 and half precision.

    Raises
    ------
    ValueError
        If there is no such mode, a parameter is out of range or belongs to a different mode, or the
        volume has time points.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``seed`` is not an int.

    See Also
    --------
    map_overlap : applies any function to blocks.

    Notes
    -----
    The noise of a voxel depends on the seed, its channel, and its index in the volume. Cropping a
    noisy volume keeps its noise, but adding noise to a crop gives different noise. Distributions
    are the same as in scikit-image, but numbers are not.

    No additional sweep, except one for the smallest voxel when clipping signed integers or floats,
    or adding pepper.

    References
    ----------
    `skimage.util.random_noise`; J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11
    (2011): Philox.

    Examples
    --------
    >>> v = bv.open(np.full((1, 4), 128, "u1"))
    >>> noisy = bv.random_noise(v, "s&p", seed=3, amount=0.5)
    >>> np.asarray(noisy).round(2)
    array([[0. , 0.5, 0.5, 1. ]])
    """
    name = "random_noise"
    volume = refuse_empty(as_volume(volume), name)
    given = {
        "mean": mean, "var": var, "local_vars": local_vars, "amount": amount,
        "salt_vs_pepper": salt_vs_pepper, "peak": peak, "low": low, "high": high,
    }  # fmt: skip
    how = _parameters(name, mode, given)
    if volume.space.times:
        raise ValueError(
            f"{name}: the volume has time points, which would all get the same noise; select one, "
            "such as v[0], and use a different seed for each"
        )
    dtype = np.dtype(np.float32 if volume.dtype in (np.float16, np.float32) else np.float64)
    x = _as_floats(volume)
    lowest = _lowest(volume)
    number = _seed(name, seed)
    if mode == "localvar":
        local = how["local_vars"]
        variance = as_volume(local) if np.ndim(local) else float(local)
        noise = _numbers(volume, kernels.NORMAL, number)
        result = x + apply_ufunc("multiply", noise, _root(variance))
    elif mode in ("gaussian", "speckle"):
        noise = _numbers(volume, kernels.NORMAL, number) * float(np.sqrt(how["var"]))
        noise = noise + float(how["mean"])
        result = x + (noise if mode == "gaussian" else x * noise)
    elif mode == "uniform":
        span = float(how["high"]) - float(how["low"])
        result = x + (_numbers(volume, kernels.UNIFORM, number) * span + float(how["low"]))
    elif mode == "poisson":
        result = _counted(name, volume, x, lowest, how["peak"], number)
    else:
        share = {"salt": 1.0, "pepper": 0.0}.get(mode, how.get("salt_vs_pepper"))
        salt = _numbers(volume, kernels.UNIFORM, number, 1) < share
        chosen = _numbers(volume, kernels.UNIFORM, number) < float(how["amount"])
        result = where(chosen, where(salt, 1.0, lowest), x)
    if clip:
        result = limited(result, lowest, 1.0)
    return result.astype(dtype)


def _parameters(name: str, mode: str, given: dict[str, Any]) -> dict[str, Any]:
    if mode not in _MODES:
        raise ValueError(f"{name}: mode={mode!r}; there are {', '.join(map(repr, _MODES))}")
    own = _MODES[mode]
    found = dict(own)
    for key, value in given.items():
        if value is None:
            continue
        if key not in own:
            raise ValueError(
                f"{name}: {key}= is not a parameter of mode={mode!r}; use {', '.join(own)}"
            )
        if key != "local_vars" or np.ndim(value) == 0:
            if not par.is_number(value) or not np.isfinite(value):
                raise ValueError(f"{name}: {key}={value!r} is not a finite number")
            if key in ("var", "local_vars") and value < 0:
                raise ValueError(
                    f"{name}: {key}={value!r} is negative; give a variance of at least 0"
                )
            if key in ("amount", "salt_vs_pepper") and not 0 <= value <= 1:
                raise ValueError(f"{name}: {key}={value!r} is not a fraction from 0 to 1")
            if key == "peak" and value <= 0:
                raise ValueError(f"{name}: peak={value!r} is not a positive number of photons")
        found[key] = value
    if mode == "uniform" and found["low"] > found["high"]:
        raise ValueError(f"{name}: low={found['low']!r} is above high={found['high']!r}")
    return found


def _seed(name: str, seed: Any) -> int:
    try:
        number = operator.index(seed)
    except TypeError:
        raise TypeError(f"{name}: seed={seed!r} is not an int") from None
    if isinstance(seed, bool) or not 0 <= number < 1 << 64:
        raise ValueError(f"{name}: seed={seed!r}: give an int from 0 to 2**64 - 1")
    return number


def _as_floats(volume: Volume) -> Volume:
    """Scale integers to the range of floats as scikit-image does, in float64."""
    dtype, x = volume.dtype, volume.astype(np.float64)
    if dtype.kind in "ui":
        x = x * (1.0 / float(np.iinfo(dtype).max))
    if dtype.kind == "i":
        x = limited(x, -1.0)
    return x


def _lowest(volume: Volume) -> Any:
    """Return -1 if there are negative voxels, else 0."""
    if volume.dtype.kind in "bu":
        return 0.0
    negative = apply_ufunc("less", least(volume, nan="omit"), 0)
    return apply_ufunc("multiply", negative, -1.0)


def _root(variance: Any) -> Any:
    return float(np.sqrt(variance)) if isinstance(variance, float) else np.sqrt(variance)


def _counted(name: str, volume: Volume, x: Volume, lowest: Any, peak: Any, seed: int) -> Volume:
    bits = 8 * volume.dtype.itemsize if volume.dtype.kind in "iu" else 1
    if peak is None:
        if volume.dtype.kind == "f" or bits > 16:
            raise ValueError(
                f"{name}: mode='poisson' of {volume.dtype} needs peak=, the number of photons for "
                "a voxel value of 1"
            )
        peak = 1 << bits
    scale: Any = float(peak)
    if isinstance(lowest, Scalar):
        # With negative voxels, scale -1 to the maximum to 0 to 1, and back afterwards.
        top = apply_ufunc("subtract", 1.0, lowest * greatest(x, nan="omit"))
        rates = (x - lowest) / top
        return _poisson(rates * scale, seed) / scale * top + lowest
    return _poisson(x * scale, seed) / scale


def _numbers(volume: Volume, kind: int, seed: int, stream: int = 0) -> Volume:
    """Make a volume of random numbers with the shape of another; channels are independent."""
    nodes = tuple(
        StageNode.of(
            Numbers(
                "random_noise",
                np.dtype(np.float64),
                (0, 0, 0),
                volume.grid_shape,
                kind,
                2 * c + stream,
                seed,
            ),
            (),
        )
        for c in range(len(volume.nodes))
    )
    return Volume(nodes, volume.space)


def _poisson(rates: Volume, seed: int) -> Volume:
    nodes = tuple(
        StageNode.of(
            Poisson("random_noise", np.dtype(np.float64), rates.grid_shape, 2 * c, seed), (n,)
        )
        for c, n in enumerate(rates.nodes)
    )
    return Volume(nodes, rates.space)


@dataclass(frozen=True, eq=False)
class Numbers(Regrid):
    """Random numbers by the voxel's index in the grid, without input."""

    kind: int
    stream: int
    seed: int

    compiled = True
    cost = 40.0

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        for k in range(out.depth):
            for y in range(y0, y1):
                row = out.slice(k, y, y + 1)[0]
                kernels.fill(
                    self.kind, row, _index(out, self.grid, k, y), self.stream, np.uint64(self.seed)
                )


@dataclass(frozen=True, eq=False)
class Poisson(Stage):
    """Poisson counts, by rates and by the voxel's index in a volume of ``shape``."""

    shape: Triple
    stream: int
    seed: int

    compiled = True
    cost = 200.0

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        for k in range(out.depth):
            for y in range(y0, y1):
                row, rates = out.slice(k, y, y + 1)[0], inputs[0].slice(k, y, y + 1)[0]
                index = _index(out, self.shape, k, y)
                kernels.poisson(rates, row, index, self.stream, np.uint64(self.seed))


def _index(out: Block, shape: Triple, k: int, y: int) -> np.uint64:
    z, row, x = out.start
    return np.uint64(((z + k) * shape[1] + row + y) * shape[2] + x)
