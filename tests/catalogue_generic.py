"""More of `tests.catalogue`: functions of one's own under a footprint."""

import numba
import numpy as np
import scipy.ndimage as ndi
from hypothesis import strategies as st

import beam_volumes as bv
from tests import catalogue as cat


def wild(values, factor=1.5):
    """Depends on the order and number of values, and spoils its array."""
    total = 0.0
    for i in range(values.size):
        total = total * 0.5 + values[i] * factor
        values[i] = -1.0
    return total


@numba.njit(fastmath=True)
def spread(values):
    return values.max() - values.min()


#: By name, ours and scipy's.
FUNCTIONS = {
    "wild": (wild, wild),
    "factor": (wild, wild),
    "spread": (spread, spread.py_func),
    "median": (np.median, np.median),
}


@st.composite
def generics(draw, ndim=3, dtype="u1", functions=tuple(FUNCTIONS)):
    """generic_filter with functions of several kinds; each is compiled for each dtype."""
    name = draw(st.sampled_from(functions))
    ours, theirs = FUNCTIONS[name]
    axes, chosen = draw(cat.axes_choices(ndim))
    n = len(chosen)
    footprint = cat.drawn_footprint(draw, n, 3)
    how = {"footprint": footprint}
    if draw(st.booleans()):
        how, footprint = {"size": footprint.shape}, np.ones(footprint.shape, bool)
    mode = draw(st.sampled_from(cat.FILTER_MODES))
    cval = draw(st.sampled_from([0, -3, 0.1]))
    origin = cat.origin_for(draw, footprint.shape)
    how |= {"mode": mode, "cval": cval, "origin": origin, "axes": axes}
    if name == "factor":
        how["extra_arguments"] = (2.5,)
    where = cat.spread_over(footprint, chosen, ndim)
    shift = cat.full(cat.each(origin, n), chosen, ndim, 0)

    def twin(x):
        extra = how.get("extra_arguments", ())
        result = ndi.generic_filter(
            x.astype("f8"), theirs, footprint=where, mode=mode, cval=cval, origin=shift,
            extra_arguments=extra,
        )  # fmt: skip
        return result.astype(cat.linear_dtype(x.dtype))

    return cat.Op(
        f"generic_filter({name}, {how})",
        lambda v: bv.generic_filter(v, ours, **how),
        twin,
        [],
    )
