"""What `make test` leaves to `make test-thorough`.

The marker ``thorough`` is on what takes long and seldom fails alone: runs killed at many moments, peaks of
memory, other partitions and processors, and (see ``conftest.py``) the less common types of voxels.
"""

import itertools
import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest

thorough = pytest.mark.thorough

#: Masks, bytes, and what has NaNs: to compile every kernel for more takes longer than all else.
COMMON_DTYPES = ("?", "u1", "f4")
#: With the common ones, a dtype of each kind and size. The code for others is the same, and takes as long to
#: compile: ``HYPOTHESIS_PROFILE=explore`` runs them.
KINDS = (*COMMON_DTYPES, "u2", "i8", "f8")


def examples(number: int) -> int:
    """How many examples hypothesis tries: all with ``HYPOTHESIS_PROFILE=explore``, else a sixth.

    They are the same ones in every run: what fails in the others was looked for when the test was written.
    """
    return number if explores() else max(6, number // 6)


def explores() -> bool:
    """Whether this run is to look around."""
    return os.environ.get("HYPOTHESIS_PROFILE") == "explore"


def is_common(dtype: Any) -> bool:
    """Whether a dtype is common, or None, where there may be voxels or none."""
    return dtype is None or np.dtype(dtype) in map(np.dtype, COMMON_DTYPES)


def stands_for_others(dtype: Any) -> bool:
    """Whether a dtype is one of `KINDS`, or all are to be tried."""
    return explores() or dtype is None or np.dtype(dtype) in map(np.dtype, KINDS)


def parameters(item: pytest.Item) -> dict[str, Any]:
    """The parameters of a test; none of one without."""
    return item.callspec.params if hasattr(item, "callspec") else {}


def repeated(rare: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Two thirds of the tests that combine a ``dtype`` with other parameters: they repeat the code of others.

    The diagonals that remain have every dtype and every value of the other parameters.
    ``HYPOTHESIS_PROFILE=explore`` runs all.
    """
    tests: dict[str, list[pytest.Item]] = {}
    for item in rare:
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for found in [] if explores() else tests.values():
        dtypes: dict[str, int] = {}
        others: dict[str, int] = {}
        fields = []
        for item in found:
            dtype, *other = map(repr, [parameters(item)["dtype"], *_but_dtype(item)])
            field = (
                dtypes.setdefault(dtype, len(dtypes)),
                others.setdefault(str(other), len(others)),
            )
            fields.append(field)
        step = min(3, len(dtypes), len(others))
        if len(set(fields)) == len(dtypes) * len(others):
            yield from (
                item for item, field in zip(found, fields, strict=True) if sum(field) % step
            )


def _but_dtype(item: pytest.Item) -> list[Any]:
    return [value for name, value in parameters(item).items() if name != "dtype"]


def few(cases: Iterable, always: Iterable) -> list[Any]:
    """Parameters of a test: some are always tried and the others are thorough."""
    cases, always = list(cases), list(always)
    missing = [case for case in always if case not in cases]
    if missing:
        raise ValueError(f"{missing} are not among {cases}")
    return [case if case in always else pytest.param(case, marks=thorough) for case in cases]


def pairwise(**values: Iterable) -> pytest.MarkDecorator:
    """Parameters in as few combinations as have every two values of two parameters, chosen greedily."""
    columns = [list(column) for column in values.values()]
    left = {*itertools.product(*map(range, map(len, columns)))}
    open_pairs = {pair for places in left for pair in _pairs(places)}
    chosen = []
    while open_pairs:
        places = max(sorted(left), key=lambda some: len(_pairs(some) & open_pairs))
        open_pairs -= _pairs(places)
        left.remove(places)
        chosen.append(tuple(column[k] for column, k in zip(columns, places, strict=True)))
    return pytest.mark.parametrize(tuple(values), chosen)


def _pairs(places: tuple[int, ...]) -> set[Any]:
    return {*itertools.combinations(enumerate(places), 2)}


def dtypes_drawn(every: Iterable) -> pytest.MarkDecorator:
    """A parameter ``dtypes`` for hypothesis to draw from: the common ones, or one of each kind and size."""
    every = [d for d in every if stands_for_others(d)]
    return pytest.mark.parametrize(
        "dtypes",
        [[d for d in every if is_common(d)], pytest.param(every, marks=thorough)],
        ids=["common", "every"],
    )


def label_dtypes(dtypes: Iterable) -> list[Any]:
    """Types of labels to draw with `dtypes_drawn`: one in common runs, or three."""
    return [np.uint32] if all(map(is_common, dtypes)) else [np.int16, np.uint32, np.int64]
