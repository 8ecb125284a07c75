"""Hints for names of other libraries: each is run, and compared with its library."""

import importlib
import re
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.signal
import skimage
import skimage.filters
import skimage.measure
import skimage.morphology
import skimage.segmentation
import skimage.transform
import skimage.util
from scipy import ndimage as ndi

import beam_volumes as bv
from beam_volumes.base.hints import INSTEAD, hint
from beam_volumes.base.hints import INSTEAD_OF_METHODS as OF_VOLUMES

random = np.random.default_rng(0)
V = ndi.gaussian_filter(random.random((6, 10, 12)), 1.2)
V = ((V - V.min()) / np.ptp(V) * 250).astype("f4")
W = random.integers(1, 200, V.shape).astype("f4")
MASK = np.percentile(V, 70) < V
LABELS = ndi.label(MASK)[0].astype("i4") * 3
OLD = np.unique(LABELS)[1:]
NEW = OLD[::-1].copy()
WEIGHTS = random.random((3, 3))
#: The names that hints use.
NAMES = {
    **{"bv": bv, "np": np, "skimage": skimage},
    **{"v": bv.open(V), "w": bv.open(W), "mask": bv.open(MASK), "labels": bv.open(LABELS)},
    **{"q": 0.3, "sigma": 1.5, "axis": 1, "radius": 1, "n": 3, "factors": (3, 2, 2)},
    **{"old": OLD, "new": NEW, "weights": WEIGHTS, "function": np.sqrt},
}
#: Names for functions of planes.
PLANE = {"v": bv.open(V[3])}

filters, morphology, signal = skimage.filters, skimage.morphology, scipy.signal
#: What the other library gives, by name; or that and other names.
THEIRS = {
    "map_blocks": lambda: np.sqrt(V),
    "var": lambda: np.var(V.astype(float)),
    "quantile": lambda: np.quantile(V, 0.3),
    "average": lambda: np.average(V.astype(float)),
    "standard_deviation": lambda: ndi.standard_deviation(V.astype(float)),
    "threshold_mean": lambda: filters.threshold_mean(V.astype(float)),
    "amax": lambda: np.amax(V),
    "amin": lambda: np.amin(V),
    "ptp": lambda: np.ptp(V),
    "prod": lambda: (np.prod(1 + V[:1, :2, :2]), {"v": bv.open(1 + V[:1, :2, :2])}),
    "norm": lambda: np.linalg.norm(V),
    **{
        f"nan{n}": lambda n=n: (getattr(np, f"nan{n}")(with_nan()), {"v": bv.open(with_nan())})
        for n in ("max", "min", "mean", "sum", "std", "var", "median")
    },
    "nanpercentile": lambda: (
        np.nanpercentile(with_nan(), 30),
        {"v": bv.open(with_nan()), "q": 30},
    ),
    **{
        n: lambda n=n: getattr(np, n)(V, W)
        for n in ("allclose", "isclose", "array_equal", "maximum", "minimum")
    },
    "manders_coloc_coeff": lambda: skimage.measure.manders_coloc_coeff(V, MASK),
    "sum_labels": lambda: ndi.sum_labels(V, LABELS, OLD),
    "centroid": lambda: skimage.measure.centroid(V),
    "map_array": lambda: (
        skimage.util.map_array(LABELS, OLD[:2], NEW[:2]),
        {"old": OLD[:2], "new": NEW[:2]},
    ),
    "gaussian": lambda: filters.gaussian(V, 1.5),
    "gradient": lambda: np.gradient(V, axis=1),
    **{
        f"{n}_{way}": lambda n=n, way=way: (getattr(filters, f"{n}_{way}")(V[3]), PLANE)
        for n in ("sobel", "prewitt", "scharr", "farid")
        for way in "hv"
    },
    **{
        n: lambda n=n: getattr(morphology, n)(V)
        for n in ("dilation", "erosion", "opening", "closing")
    },
    **{
        f"isotropic_{n}": lambda n=n: getattr(morphology, f"isotropic_{n}")(MASK, 1)
        for n in ("dilation", "erosion", "opening", "closing")
    },
    "distance_transform_bf": lambda: ndi.distance_transform_bf(MASK),
    "invert": lambda: skimage.util.invert(MASK),
    "downscale_local_mean": lambda: skimage.transform.downscale_local_mean(V, (3, 2, 2)),
    "roll": lambda: np.roll(V, 3, axis=0),
    "z_project": lambda: V.max(axis=0),
    "vstack": lambda: np.vstack([V, W]),
    "hstack": lambda: np.hstack([V, W]),
    "dstack": lambda: np.dstack([V, W]),
    "append": lambda: np.append(V, W, axis=0),
    **{
        n: lambda n=n: (getattr(signal, n)(V[3], WEIGHTS, mode="same"), PLANE)
        for n in ("convolve2d", "correlate2d", "oaconvolve")
    },
}
#: Voxels without a hint.
EXCEPT = {"gradient": np.s_[:, 1:-1]}


def with_nan():
    array = V.astype(float)
    array[0, 2:4] = np.nan
    return array


def test_hints_that_name_an_expression_give_what_the_library_gives():
    claims = {n: text.split("`")[1] for n, text in INSTEAD.items() if text.startswith("write `")}
    assert claims.keys() == THEIRS.keys()
    for name, expression in claims.items():
        theirs, names = found if isinstance(found := THEIRS[name](), tuple) else (found, {})
        ours = np.asarray(eval(expression, NAMES | names))
        assert ours.shape == np.shape(theirs), name
        some = EXCEPT.get(name, ...)
        ours, theirs = np.asarray(ours)[some], np.asarray(theirs)[some]
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-4, err_msg=expression)


def test_functions_of_numpy_that_are_said_to_be_lazy_are():
    for name, text in INSTEAD.items():
        if text == f"use `np.{name}`, which is lazy for volumes":
            function = getattr(np, name)
            v = NAMES["v"] / 251
            two = getattr(function, "nin", 1) == 2
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # what is not lazy warns
                made = function(v, NAMES["w"]) if two else function(v)
            assert isinstance(made, bv.Volume), name
            theirs = function(np.asarray(v), W) if two else function(np.asarray(v))
            np.testing.assert_allclose(np.asarray(made), theirs, rtol=1e-5, err_msg=name)


def test_hints_name_functions_that_exist():
    for name, text in {**INSTEAD, **OF_VOLUMES}.items():
        for module, function in re.findall(r"\b(bv|np)\.(\w+)", text):
            assert hasattr(NAMES[module], function), f"{name}: {text}"


def test_every_name_of_another_library_on_the_page_of_functions_has_its_answer_as_a_hint():
    page = (Path(__file__).parents[1] / "docs/reference/coverage.md").read_text()
    tables = re.findall(r"(?m)^\| [\w.-]+ \| here \|\n\| --- \| --- \|\n((?:\|.*\n)+)", page)
    rows = [row.strip("| ").split(" | ") for table in tables for row in table.splitlines()]
    assert len(tables) == 7 and len(rows) > 150
    for names, answer in rows:
        for name in re.findall(r"`(\w+)`", names):
            with pytest.raises(AttributeError, match=re.escape(f"no attribute {name!r}; {answer}")):
                getattr(bv, name)


def test_connectivities_of_cc3d_are_explained():
    for ours, theirs in ((1, 6), (2, 18), (3, 26)):
        for refused in (
            lambda n: bv.label(MASK, connectivity=n),
            lambda n: bv.remove_small_objects(MASK, connectivity=n),
            lambda n: bv.local_maxima(V, connectivity=n),
            lambda n: bv.find_boundaries(LABELS, connectivity=n),
        ):
            with pytest.raises(ValueError, match=f"{theirs} neighbours are connectivity={ours}"):
                refused(theirs)
    for ours, theirs in ((1, 4), (2, 8)):
        with pytest.raises(ValueError, match=f"{theirs} neighbours are connectivity={ours}"):
            bv.label(MASK[0], connectivity=theirs)


@pytest.mark.parametrize(
    "library",
    [
        *("scipy.ndimage", "scipy.signal", "numpy", "skimage.morphology", "skimage.filters"),
        *("skimage.filters.rank", "skimage.segmentation", "skimage.feature", "skimage.measure"),
        *("skimage.restoration", "skimage.transform", "skimage.exposure", "skimage.util"),
        *("skimage.color", "skimage.metrics", "skimage.graph", "skimage.registration"),
    ],
)
def test_no_function_of_another_library_is_taken_for_a_misspelt_one(library):
    """`area_opening` is not `grey_opening`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = importlib.import_module(library)
        names = getattr(module, "__all__", None) or dir(module)
        functions = SimpleNamespace(
            **{n: getattr(module, n, None) for n in names if not n.startswith("_")}
        )
    for name, function in vars(functions).items():
        if callable(function) and name not in INSTEAD and not hasattr(bv, name):
            assert not hint(name, bv.__all__), f"{library}.{name}: {hint(name, bv.__all__)}"
