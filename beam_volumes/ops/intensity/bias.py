"""Uneven illumination of slices, as polynomials."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Range, Ranges, Triple
from beam_volumes.graph.nodes import Formula, FormulaValue, Node, StageNode, Value
from beam_volumes.graph.scalar import lazy
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.geometry.rearrange import coordinates, refuse_empty
from beam_volumes.ops.measure import reductions
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.sweep.stage import Block, Regrid

#: The maximum degree: normal equations of monomials are well conditioned up to it.
_MAX_ORDER = 4
#: Pivots below this fraction of a slice's first one are zero: its voxels do not determine the term.
_SMALL = 1e-10

Powers = tuple[tuple[int, int], ...]


def _powers(order: int) -> Powers:
    """Return the exponents of y and x of a polynomial's terms."""
    return tuple((a, b) for a in range(order + 1) for b in range(order + 1 - a))


@dataclass(frozen=True, eq=False)
class FitPolynomials(Formula):
    """Coefficients (terms, slices) from sums of products with monomials, by elimination.

    Each step is elementwise over slices, so the bits do not depend on the processor.
    """

    powers: Powers
    moments: Powers  #: The monomials with sums over the voxels that count

    def evaluate(self, *arguments: Any) -> Any:
        sums = [np.asarray(a, np.float64) for a in arguments]
        n = len(self.powers)
        known = dict(zip(self.moments, sums[n:], strict=True))
        rows = [
            [known[a + c, b + d] for c, d in self.powers] + [right]
            for (a, b), right in zip(self.powers, sums[:n], strict=True)
        ]
        limit = _SMALL * rows[0][0]
        for k in range(n):
            is_used = rows[k][k] > limit
            pivot = np.where(is_used, rows[k][k], 1.0)
            rows[k] = [np.where(is_used, value / pivot, 0.0) for value in rows[k]]
            for i in range(n):
                if i != k:
                    factor = rows[i][k]
                    rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
        return np.stack([np.atleast_1d(row[n]) for row in rows])


@dataclass(frozen=True, eq=False)
class Polynomials(Regrid):
    """A polynomial of y and x for each slice, without input; a lazy array has the coefficients."""

    powers: Powers
    whole: Triple  #: The shape on which coordinates are from -1 to 1

    cost = 6.0

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        return 32 * rows * cols

    def needs(self, axis: int, wanted: Ranges) -> Range:
        return 0, 0

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        z, y, x = out.start
        v = _scaled(np.arange(y + y0, y + y1), self.whole[1])[:, None]
        u = _scaled(np.arange(x, x + out.cols), self.whole[2])
        numbers = np.asarray(values[0])
        for k in range(out.depth):
            total = np.zeros((y1 - y0, out.cols))
            for (a, b), c in zip(self.powers, numbers[:, z + k].tolist(), strict=True):
                total += c * _power(v, a) * _power(u, b)
            out.slice(k, y0, y1)[...] = total


def _scaled(index: Any, n: int) -> Any:
    """Return coordinates from -1 to 1 along an axis of ``n`` voxels."""
    return (index - (n - 1) / 2) / max((n - 1) / 2, 1.0)


def _power(base: Any, exponent: int) -> Any:
    """Return a power as products, which have the same bits on every processor."""
    result = 1.0
    for _ in range(exponent):
        result = result * base
    return result


@documented
def fit_bias(volume: Volume, order: int = 2, *, mask: Volume | None = None) -> Volume:
    """Fit a polynomial to each slice, such as the uneven illumination of a microscope.

    Use it to divide each slice by its illumination or to subtract its background.

    Parameters
    ----------
    %(volume)s
    order : int, default: 2
        The degree of the polynomial in y and x, from 0 to 4. 0 is the mean of each slice.
    %(where)s
        Select background voxels, or tissue without holes.

    Returns
    -------
    Volume
        The polynomials as a float32 volume of the same shape (float64 for float64). Terms that a
        slice does not determine, such as all terms of a slice without included voxels, are 0.

    Raises
    ------
    ValueError
        If ``order`` is out of range, the shape of ``mask`` differs, or the volume has no voxels or no
        axes y and x. On computation, if an included voxel is NaN or infinite.
    TypeError
        If an input is neither a volume nor an array.

    See Also
    --------
    normalize_slices : gives slices one mean and standard deviation.
    rolling_ball : finds a background that is no polynomial.

    Notes
    -----
    Two sweeps: the first computes exact sums of all slices, and the second the polynomials. The
    second sweep reads the volume only if another part of the expression does.

    References
    ----------
    Least squares of monomials, slice by slice: `numpy.linalg.lstsq`.

    Examples
    --------
    >>> v = bv.open(np.array([[[1, 2, 3], [2, 3, 4]], [[5, 5, 5], [5, 5, 5]]], "u1"))
    >>> bias = bv.fit_bias(v, order=1)
    >>> np.asarray(bias).round(3).tolist()
    [[[1.0, 2.0, 3.0], [2.0, 3.0, 4.0]], [[5.0, 5.0, 5.0], [5.0, 5.0, 5.0]]]
    >>> even = v / bias
    """
    name = "fit_bias"
    v = refuse_empty(as_volume(volume), name)
    degree = par.whole_number(order, "order", name, 0)
    if degree > _MAX_ORDER:
        raise ValueError(f"{name}: order={order!r} is above {_MAX_ORDER}; give a smaller degree")
    if not {1, 2} <= {*v.space.visible}:
        raise ValueError(f"{name}: the volume has the axes {', '.join(v.axes)}; y and x are needed")
    dtype = np.dtype(np.float64 if v.dtype == np.float64 else np.float32)
    powers, moments = _powers(degree), _powers(2 * degree)
    shape, depth = v.grid_shape, v.grid_shape[0]
    stage = Polynomials(name, dtype, (0, 0, 0), shape, powers, shape)

    def summed(base: Any, power: tuple[int, int], t: tuple[Any, Any]) -> Value:
        product = base * _power(t[0], power[0]) * _power(t[1], power[1])
        return reductions.sum(product, ("y", "x"), mask=mask).value

    def fitted(node: Node) -> Node:
        one = Volume(node, v.space.of_one("c"))
        t = _coordinates(one, -2), _coordinates(one, -1)
        if mask is None:
            known = tuple(lazy(_sum_of_monomial(shape, p)) for p in moments)
        else:
            ones = as_volume(mask).astype("f8") * 0 + 1
            known = tuple(summed(ones, p, t) for p in moments)
        values = tuple(summed(one.astype("f8"), p, t) for p in powers) + known
        formula = FitPolynomials(name, powers, moments)
        float64 = np.dtype(np.float64)
        coefficients = FormulaValue.of(formula, values, float64, (len(powers), depth))
        return StageNode.of(stage, (), (coefficients,))

    return v.map_channels(fitted, v.space)


def _coordinates(volume: Volume, axis: int) -> Volume:
    return _scaled(coordinates(volume, axis).astype("f8"), volume.shape[axis])  # type: ignore[no-any-return]


def _sum_of_monomial(shape: Triple, power: tuple[int, int]) -> float:
    """Return the sum over a plane, rounded once along each axis."""
    along = (
        math.fsum(_power(t, n) for t in _scaled(np.arange(size), size).tolist())
        for size, n in zip(shape[1:], power, strict=True)
    )
    return math.prod(along)
