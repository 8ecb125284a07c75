"""What it takes to add a filter: one file, here `tests.ops.spread_filter`, and one public name."""

import sys
from pathlib import Path
from runpy import run_path

import numpy as np
import pytest
from scipy import ndimage

import beam_volumes as bv
from beam_volumes.base.public_names import EXPORTS
from beam_volumes.cli.verbs import warm_up
from beam_volumes.recipes.catalogue import operations
from tests.ops import spread_filter
from tests.test_docstrings import asked_for_the_imperative, problems

FOOTPRINT = np.random.default_rng(0).random((3, 4, 5)) < 0.5


@pytest.fixture(autouse=True)
def added(monkeypatch):
    """The package with the file and the name."""
    monkeypatch.setitem(sys.modules, "beam_volumes.ops.filters.spread", spread_filter)
    monkeypatch.setitem(EXPORTS, "spread_filter", ".ops.filters.spread")
    monkeypatch.setattr(bv, "__all__", list(EXPORTS))
    operations.cache_clear()
    yield
    vars(bv).pop("spread_filter", None)
    operations.cache_clear()


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float16])
@pytest.mark.parametrize(
    "how",
    [
        {"size": 3},
        {"size": (2, 5), "axes": (0, 2), "mode": ("nearest", "mirror"), "origin": (-1, 1)},
        {"footprint": FOOTPRINT, "mode": "constant", "cval": 7},
    ],
)
def test_a_new_filter_is_its_twin_in_any_slabs(dtype, how):
    x = np.random.default_rng(1).integers(0, 200, (11, 23, 17)).astype(dtype)
    wide = x.astype("f8")
    want = ndimage.maximum_filter(wide, **how) - ndimage.minimum_filter(wide, **how)
    lazy = bv.spread_filter(bv.open(x), **how)
    assert lazy.dtype == dtype
    for slab in (None, (4, 9, 17), (3, 23, 5)):
        found = bv.compute(lazy, runner=None, slab=slab)
        np.testing.assert_array_equal(found, want.astype(dtype))


def test_its_mistakes_are_told_as_those_of_others():
    v = bv.open(np.zeros((3, 4, 5), "u1"))
    for how, said in [
        ({}, "spread_filter needs size= or footprint="),
        ({"size": 3, "origin": 2}, "spread_filter: origin=2 is outside -1 to 1"),
        ({"size": 3, "mode": "symmetric"}, "spread_filter: mode='symmetric' is not known"),
        ({"size": 3, "mode": "constant", "cval": 0.5}, "spread_filter: cval=0.5 is not a uint8"),
    ]:
        with pytest.raises(ValueError, match=said):
            bv.spread_filter(v, **how)


def test_recipes_find_it():
    assert "spread_filter" in operations()


def test_kernels_are_compiled_ahead_for_it():
    found = warm_up.applied(operations()["spread_filter"], bv.open(np.zeros((3, 4, 5), "u1")))
    assert [v.shape for v in found] == [(3, 4, 5)] * 2  # of a box, of a footprint


def test_help_and_ruff_ask_of_it_what_they_ask_of_others():
    assert [*problems(bv.spread_filter, "spread_filter")] == []
    assert asked_for_the_imperative("beam_volumes/ops/filters/spread.py")


def test_the_page_of_functions_finds_it():
    coverage = run_path(str(Path(__file__).parents[2] / "docs/coverage.py"))
    assert coverage["current"]()
    row = "| `spread_filter` | no reference | neighbourhood | 1 |\n"
    assert row in coverage["page"]() and row not in coverage["page"]({"spread_filter"})
