"""Errors name the parameter of a public function, for any value, and nothing is read before."""

import inspect
import re
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pytest
from sklearn.ensemble import RandomForestClassifier

import beam_volumes as bv
from beam_volumes.graph.keywords import checked_keywords
from beam_volumes.graph.kinds import ParameterError, kind_of
from beam_volumes.plan.fit.fitting import MemoryTooSmall
from beam_volumes.recipes.catalogue import Parameter, operations

#: Values that no parameter accepts, or only a few.
BAD = [
    None,
    "x",
    "",
    -1,
    2**70,
    float("nan"),
    True,
    2.5,
    [],
    [[1, 2], [3]],
    np.ones((3, 3, 3, 3)),
    1j,
]
BAD += [object(), np.array(["a"]), {}, b"x"]


class Unread:
    """An array that may be asked for nothing but its shape and dtype."""

    def __init__(self, dtype, shape=(5, 6, 7)):
        self.shape, self.dtype, self.ndim = shape, np.dtype(dtype), len(shape)

    def __getitem__(self, index):
        raise AssertionError("a voxel is read")


V, M, L = (bv.open(Unread(dtype)) for dtype in ("f4", "?", "i4"))
COLOURS = bv.open(Unread("u1", (3, 5, 6, 7)), axes="czyx")
SPECTRUM = bv.stack([V, V], ["real", "imag"])
FIELD = bv.open(Unread("f4", (3, 5, 6, 7)), axes="czyx")
SIZED = bv.open(Unread("f4"), voxel_size=2)
EDGES = {"label_a": [1], "label_b": [2], "affinity_sum": [9], "affinity_count": [1]}
MERGES = {"label_a": [1], "label_b": [2], "score": [1.0], "size": [2]}

TRANSFORMS = ((0, 0),) * 5
FOREST = RandomForestClassifier(2, random_state=0).fit([[1.0], [2.0]], [1, 2])

#: By name, what stands for a parameter that must be given, where its type does not say it: a volume, or 1
#: for a number. By function and name where one needs another.
GIVEN = {
    **dict.fromkeys(("x", "y", "base"), V),
    **dict.fromkeys(("mask", "condition"), M),
    **dict.fromkeys(("labels", "truth", "test", "label", "label_img", "s1", "s2"), L),
    **{"size": 2, "factors": 2, "zoom": 2, "radius": 2, "high": 2, "percentile": 50, "q": 50, "angle": 5},
    **{"low": 1, "exponent": 1, "pad_width": 1, "rank": 0, "watershed_affinities.low": 0.5},
    **{"weights": [1, 2, 1], "matrix": np.eye(3), "function": np.max, "volumes": [V, V]},
    **{"affinities": COLOURS, "edges": EDGES, "merges": MERGES, "mapping": {1: 2}, "derivative": "sobel"},
    **{"statistic": "mean"},
    **{f"{name}.weights": np.ones((3, 3, 3)) for name in ("convolve", "correlate", "fftconvolve")},
    **{"psf": np.ones((3, 3, 3)), "balance": 0.1, "fourier_filter.func": lambda *f: 1.0},
    "irfftn.volume": SPECTRUM,
    **{f"fourier_{name}.volume": SPECTRUM for name in ("ellipsoid", "gaussian", "uniform", "shift")},
    **{f"{name}.volume": COLOURS for name in ("rgb2gray", "rgb2hed", "rgb2hsv", "hed2rgb", "channels")},
    **{f"{name}.volume": COLOURS for name in ("separate_stains", "combine_stains", "hsv2rgb")},
    **{f"{name}.volume": COLOURS for name in ("rgb2lab", "lab2rgb")},
    **{"derivative2": lambda volume, axis, **options: bv.correlate1d(volume, [1, -2, 1], axis)},
    **{"map_instances.function": lambda a: a.astype("i4"), "map_overlap.volumes": V, "folder": "meshes"},
    **{"for_each_label.function": lambda region: {"n": 1}, "columns": {"n": "i8"}, "blocks": [[[L]]]},
    **{"map_labels.function": lambda region: region.mask},
    **{"keep_labels.table": pa.table({"label": [1], "area": [2.0]}), "column": "area"},
    **{"func": lambda a: a, "hessian": [V] * 6, "tensor": [V] * 6, "map_instances.tile": 4, "overlap": 1},
    **{"seed_point": (0, 0, 0), "new_value": 1},
    **{f"{name}.image": M for name in ("area_opening", "area_closing")},
    **{"tiles": [V, V], "transforms": [(0, 0, 0), (0, 0, 5)]},
    **{"apply_transforms.transforms": TRANSFORMS, "classifier": FOREST, "max_displacement": 1},
    **{"output_shape": 3, "scale": 2, "resample.volume": SIZED, "voxel_size": 2},
    **{"template": np.arange(4).reshape(1, 2, 2)},
    **{"coordinates": FIELD, "displacement": FIELD},
}  # fmt: skip
#: They compute, open files or start servers when they are called; their own tests call them.
EAGER = {
    "compute",
    "add_levels",
    "find_objects",
    "from_dask",
    "labeled_comprehension",
    "open",
    "predict",
    "profile_line",
}
EAGER |= {"fit_transform", "register", "register_frames", "register_slices", "register_tiles"}
EAGER |= {"estimate_flat_field", "match_tiles"}
EAGER |= {
    "track",
    "studio",
    "preview",
    "probe_model",
    "verify",
    "view",
    "estimate",
    "plan",
    "generic_filter",
}
EAGER |= {"pixel_classifier", "register_elastic"}
EAGER |= {"open_tiles", "open_transform", "save_transforms", "tiles_report"}
FUNCTIONS = {
    name: getattr(bv, name)
    for name in bv.__all__
    if inspect.isfunction(getattr(bv, name)) and name not in EAGER
}


def by_type(parameter):
    """What stands for a parameter that `GIVEN` does not name."""
    found = Parameter(parameter.name, str(parameter.annotation), "")
    return V if found.volume == "volume" else 1 if found.is_number else None


def calls(name, values=BAD):
    """A call with each bad value of each parameter: its name, the value, and all arguments."""
    parameters = inspect.signature(FUNCTIONS[name]).parameters.values()
    given = {
        p.name: GIVEN.get(f"{name}.{p.name}", GIVEN.get(p.name, by_type(p)))
        for p in parameters
        if p.default is p.empty and p.kind is not p.VAR_KEYWORD
    }
    if "size" in inspect.signature(FUNCTIONS[name]).parameters:
        given.setdefault("size", 3)
    for p in parameters:
        if p.kind is p.VAR_KEYWORD:
            continue
        for value in values:
            some = {**given, p.name: value}
            if p.name in ("footprint", "structure"):
                some.pop("size", None)
            rest = [some.pop(q.name) for q in parameters if q.kind is q.VAR_POSITIONAL]
            first = [some.pop(q) for q in list(given) if rest and q in some][:1]
            yield p, value, [*first, *rest], some


@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_name_the_parameter_before_anything_is_read(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wrong = []
    for p, value, args, some in calls(name):
        try:
            FUNCTIONS[name](*args, **some)
        except (ValueError, TypeError) as error:
            if not re.search(rf"\b{p.name}\b", str(error)):
                wrong.append((p.name, value, error))
        except OSError as error:  # a path, which is named
            if "x" not in str(error) and str(tmp_path) not in str(error):
                wrong.append((p.name, value, error))
    assert wrong == []


#: Numbers that are of a right type, and too large or small for most parameters.
EXTREME = [10**9, 2**63, -(2**63), 1e300, -1e300, 5e-324]
SHAPE = (6, 7, 8)
VOXELS = np.random.default_rng(0).integers(0, 200, SHAPE)
LABELS = np.zeros(SHAPE, "i4")
LABELS[1:3, 1:4, 1:4], LABELS[3:, 4:, 4:] = 1, 2
#: Existing files in place of missing ones.
READABLE = {
    id(V): bv.open(VOXELS.astype("f4")),
    id(M): bv.open(VOXELS > 120),
    id(SIZED): bv.open(VOXELS.astype("f4"), voxel_size=2),
    id(L): bv.open(LABELS),
    id(SPECTRUM): bv.stack([bv.open(VOXELS.astype("f4"))] * 2, ["real", "imag"]),
    id(COLOURS): bv.open(np.stack([VOXELS.astype("u1")] * 3), axes="czyx"),
    id(TRANSFORMS): ((0, 0),) * len(VOXELS),
}


def readable(given):
    """The same arguments, with volumes that have voxels."""
    if isinstance(given, dict):
        return {name: readable(value) for name, value in given.items()}
    return list(map(readable, given)) if isinstance(given, list) else READABLE.get(id(given), given)


def lazy_of(result):
    """What can be computed of what a function gives."""
    if isinstance(result, dict):
        result = tuple(result.values())
    if isinstance(result, tuple | list):
        return [target for part in result for target in lazy_of(part)]
    return [result] if isinstance(result, bv.Volume | bv.Scalar | bv.Table) else []


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_extreme_numbers_work_or_are_refused_by_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    function, wrong = FUNCTIONS[name], []
    names = inspect.unwrap(function).__globals__
    for p, value, args, some in calls(name, EXTREME):
        if not kind_of(str(p.annotation), names).accepts(value):
            continue
        try:
            targets = lazy_of(function(*readable(args), **readable(some)))
            if targets:
                bv.compute(targets, runner=None, progress=False)
        except MemoryTooSmall:
            pass  # what they ask for would take so much, which is refused before
        except Exception as error:
            named = re.search(rf"\b{p.name}\b", str(error))
            if not named or not isinstance(error, ValueError | TypeError):
                wrong.append((p.name, value, error))
    assert wrong == []


def test_every_operation_is_among_those_that_are_tried():
    ours = {name for name, op in operations().items() if op.parameters and hasattr(bv, name)}
    assert ours <= FUNCTIONS.keys() | EAGER
    unchecked = [name for name in FUNCTIONS if not hasattr(FUNCTIONS[name], "__wrapped__")]
    assert unchecked == []


#: Calls that once named no parameter, or went wrong only while voxels were computed.
NAMED = [
    ("axes", lambda: bv.gaussian_filter(V, 1, axes=1.5)),
    ("cval", lambda: bv.median_filter(V, 3, cval=None)),
    ("truncate", lambda: bv.gaussian_filter(V, 1, truncate="x")),
    ("truncate", lambda: bv.gaussian_filter(V, 1, truncate=float("-inf"))),
    ("ddof", lambda: bv.std(V, ddof=1.5)),
    ("background", lambda: bv.label(V, by_value=True, background="x")),
    ("index", lambda: bv.open(np.zeros((3, 4)), index=[0])),
    ("port", lambda: bv.view(V, port="x")),
    ("port", lambda: bv.view(V, port=-1)),
    ("dtype", lambda: bv.relabel(L, {1: 2}, dtype="complex128")),
    ("structure1", lambda: bv.binary_hit_or_miss(M, "x")),
    ("origin1", lambda: bv.binary_hit_or_miss(M, origin1=7)),
    ("memory", lambda: bv.plan(V, memory=[1])),
    ("window", lambda: bv.plan(V, window="2")),
    ("plan", lambda: bv.estimate(None, "8x32GiB")),
    ("percentiles", lambda: bv.preview(V, percentiles=5)),
    ("targets", lambda: bv.plan(3)),
    ("weights", lambda: bv.convolve1d(V, [1e300])),
    ("weights", lambda: bv.correlate(V, np.full((3, 3, 3), 1e300))),
    ("range", lambda: bv.histogram(V, range=(-1e300, 1e300))),
    ("zoom", lambda: bv.zoom(V, np.full(3, 2**63, np.uint64))),
    ("constant_values", lambda: bv.pad(V, 1, constant_values=1e300)),
    ("spacing", lambda: bv.regionprops_table(L, spacing=1e300)),
    ("voxel_bytes", lambda: bv.map_instances(V, np.sign, 4, 1, voxel_bytes=10**9)),
    ("cval", lambda: bv.frangi(V, mode="constant", cval=3e38)),
    ("bins", lambda: np.asarray(bv.histogram(np.full((2, 3), 2**63 - 1))[0])),
    *(
        (what, lambda what=what, value=value: bv.frangi(V, **{what: value}))
        for what in ("alpha", "beta", "gamma")
        for value in (0, -1, float("inf"), float("nan"), 1e300, 5e-324)
    ),
]


@pytest.mark.parametrize(("name", "call"), NAMED)
def test_what_was_refused_late_or_without_a_name(name, call):
    with pytest.raises((ValueError, TypeError), match=rf"\b{name}\b"):
        call()


def test_either_error_may_be_caught():
    for kind in (ValueError, TypeError, ParameterError):
        with pytest.raises(kind, match="sigma=None"):
            bv.gaussian_filter(V, None)


def test_scipys_own_call_of_label():
    mask = np.zeros((2, 3, 3), bool)
    mask[0, 0, 0] = mask[1, 1, 1] = True
    assert int(bv.label(mask).num_labels) == 2
    assert int(bv.label(mask, np.ones((3, 3, 3))).num_labels) == 1
    with pytest.raises(TypeError, match="structure="):
        bv.label(mask, np.ones((3, 3, 3)), np.ones((3, 3, 3)))


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        ("int", [3, np.int64(3), np.uint64(2**64 - 1)], [True, 2.0, "3", None, 2**64]),
        ("float | None", [3, 0.5, np.float32(1), None, float("nan")], ["1", 1j, True, [1]]),
        ("Sequence[float]", [[1, 2.5], (), np.ones(3), range(3)], ["12", 1, {}, [None], np.ones(())]),
        ("Iterable[int]", [{1, 2}, [1], np.arange(3)], [V, "1", 3, [1.5], np.ones(3)]),
        ("tuple[float, float] | None", [(1, 2), [0, 1.5], None], [(1,), 1, "12", np.array(2)]),
        ("Sequence[Sequence[float]]", [np.eye(3), [[1], [2, 3]]], [[1, 2], 3]),
        ("DTypeLike | None", ["u1", np.float32, None, bool], ["x", 3, complex, "U1", "f16", {}]),
        ("ArrayLike", [[1, 2], np.ones(3), 5, [[True]]], ["x", None, [[1, 2], [3]], object()]),
        ("Callable[..., int]", [len], ["len", None]),
        ("unknown.Thing | int", [object(), None], []),
    ],
)  # fmt: skip
def test_kinds(annotation, good, bad):
    kind = kind_of(annotation)
    assert [v for v in good if not kind.accepts(v)] == []
    assert [v for v in bad if kind.accepts(v)] == []


@pytest.mark.parametrize("by_name", [False, True])
def test_an_iterator_is_not_exhausted_by_its_check(by_name):
    @checked_keywords
    def listed(some: Iterable[int]):
        return list(some)

    some = iter([1, 2])
    assert (listed(some=some) if by_name else listed(some)) == [1, 2]
    with pytest.raises(TypeError, match=r"some=\[1, 2.5\] is not a sequence of whole numbers"):
        listed(iter([1, 2.5]))
