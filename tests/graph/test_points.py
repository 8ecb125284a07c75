"""Time points: each is computed by itself, in one run with one journal and one output array."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

import beam_volumes as bv
from beam_volumes.cli.verbs import warm_up
from beam_volumes.recipes.catalogue import operations
from beam_volumes.session import slabs
from tests.graph.test_channels import array_of
from tests.tiers import thorough

RNG = np.random.default_rng(11)


def voxels(shape=(4, 2, 9, 20, 25), dtype="u2"):
    return RNG.integers(0, 900, shape).astype(dtype)


def computed(v, **options):
    return bv.compute(v, runner=None, progress=False, **options)


def test_axes_and_indices_are_numpys():
    x = voxels()
    v = bv.open(x)
    assert v.axes == ("t", "c", "z", "y", "x") and v.shape == x.shape and v.size == x.size
    smooth = bv.median_filter(v, 3)
    whole = np.asarray(smooth)
    for key in (
        np.s_[1],
        np.s_[-1, 1],
        np.s_[1:3],
        np.s_[:, 1],
        np.s_[1:, 0, 2:5, :, 3],
        np.s_[2:3, ..., 4],
    ):
        np.testing.assert_array_equal(np.asarray(v[key]), x[key])
        np.testing.assert_array_equal(np.asarray(smooth[key]), whole[key])
    for key in (np.s_[4], np.s_[::2], np.s_[4:]):
        with pytest.raises(IndexError, match="axis t"):
            v[key]


#: Not compared: their arguments are axes or boxes, or they return one volume for all points.
OF_AXES = ("coordinates", "crop", "normalize_slices")


@pytest.mark.thorough
@pytest.mark.parametrize(("axes", "dtype"), [("tzyx", "f4"), ("tyx", "u1"), ("tzyx", "u4")])
def test_every_operation_takes_a_time_series_as_its_points(axes, dtype):
    x = RNG.integers(0, 5, (2, 7, 24, 25) if axes == "tzyx" else (2, 24, 25))
    x = x.astype(dtype)
    compared = set()
    for operation in operations().values():
        if operation.is_of_tables or operation.name in (*warm_up.OTHERS, *OF_AXES):
            continue
        if (operation.positional[0] == "labels") != (dtype == "u4"):
            continue
        try:
            points = [[*warm_up.applied(operation, bv.open(p, axes=axes[1:]))] for p in x]
            points = [
                [computed(r) if isinstance(r, bv.Volume) else None for r in p] for p in points
            ]
            series = [*warm_up.applied(operation, bv.open(x, axes=axes))]
        except (TypeError, ValueError) as error:
            assert not re.search("range|argument|NoneType|unpack|attribute|zero", str(error)), error
            continue
        for of_series, *of_points in zip(series, *points, strict=True):
            if isinstance(of_series, bv.Volume):
                compared.add(operation.name)
                np.testing.assert_array_equal(computed(of_series), np.stack(of_points))
    assert len(compared) > (2 if dtype == "u4" else 60)


def test_every_point_is_computed_by_itself():
    x = voxels()
    v = bv.open(x)
    smooth = bv.gaussian_filter(v, 1)
    mask = smooth > bv.threshold_otsu(smooth)
    alone = []
    for point in x:
        s = bv.gaussian_filter(bv.open(point), 1)
        alone.append(np.asarray(s > bv.threshold_otsu(s)))
    np.testing.assert_array_equal(computed(mask), np.stack(alone))
    np.testing.assert_array_equal(computed(bv.max(v)), x.max((1, 2, 3, 4)))
    mean = computed(bv.mean(v, axis=("z", "y")))
    np.testing.assert_allclose(mean, x.mean((2, 3)))
    np.testing.assert_array_equal(computed(v - v[0]), x - x[:1])
    np.testing.assert_array_equal(computed(v[:, 0] + x[0, 1]), x[:, 0] + x[0, 1])
    np.testing.assert_array_equal(computed(bv.flip(v)), x[..., ::-1, ::-1, ::-1])
    with pytest.raises(ValueError, match="do not match"):
        v + v[1:]
    with pytest.raises(ValueError, match="time points"):
        bv.plan(bv.mean(v), bv.mean(v[1:]))


@pytest.mark.parametrize("chunks", [(1, 1, 4, 8, 16), (1, 2, 4, 20, 25)])
@pytest.mark.parametrize("form", ["zarr", "ome-zarr"])
def test_one_output_for_all(tmp_path, chunks, form):
    x = voxels()
    source = array_of(tmp_path / "in.zarr", x, (2, 1, 4, 10, 25))
    v = bv.open(source)
    target = bv.median_filter(v, 3).to(tmp_path / "out", format=form, chunks=chunks)
    result = computed(target, slab=(4, 20, 25) if chunks[1] == 2 else None, workers=2)
    wanted = np.asarray(bv.median_filter(bv.open(x), 3))
    np.testing.assert_array_equal(np.asarray(result), wanted)
    assert bv.verify(tmp_path / "out", checksums=True) == []
    foreign = zarr.open(str(tmp_path / "out"), mode="r")
    foreign = foreign["0"] if form == "ome-zarr" else foreign
    np.testing.assert_array_equal(foreign[...], wanted)
    assert foreign.chunks == chunks


def test_labels_and_tables_of_every_point(tmp_path):
    x = voxels()
    v = bv.open(x)
    labels = bv.label(v[:, 0] > 700)
    table = bv.regionprops_table(labels, v[:, 1], properties=["label", "area", "intensity_mean"])
    targets = labels.to(tmp_path / "l.zarr"), table.to(tmp_path / "t.csv"), table, labels.num_labels
    out, _, rows, counts = (
        computed(targets[0], *targets[1:])
        if False
        else bv.compute(*targets, runner=None, progress=False)
    )
    found = rows.to_pydict()
    for k, point in enumerate(x):
        alone = bv.label(bv.open(point[0]) > 700)
        np.testing.assert_array_equal(np.asarray(out[k]), np.asarray(alone))
        its = bv.regionprops_table(alone, point[1], properties=["label", "area", "intensity_mean"])
        its = its.to_pyarrow().to_pydict()
        of_point = [i for i, t in enumerate(found["t"]) if t == k]
        for name, column in its.items():
            assert [found[name][i] for i in of_point] == column
        assert counts[k] == len(its["label"])
    lines = (tmp_path / "t.csv").read_text().splitlines()
    assert lines[0] == "t,label,area,intensity_mean" and len(lines) == 1 + len(found["t"])
    assert bv.verify(tmp_path / "l.zarr") == []


def test_a_run_goes_on_with_the_points_that_are_left(tmp_path, monkeypatch):
    x = voxels((5, 9, 20, 25))
    v = bv.open(array_of(tmp_path / "in.zarr", x, (1, 9, 20, 25)), axes="tzyx")
    target = (v * 2).to(tmp_path / "out.zarr")
    real, seen = slabs.compute_point, []

    def failing(plan, p, k, *rest):
        seen.append(k)
        if k == 3 and seen.count(3) == 1:
            raise OSError("a disk that fails")
        return real(plan, p, k, *rest)

    monkeypatch.setattr(slabs, "compute_point", failing)
    with pytest.raises(OSError, match="a disk that fails"):
        computed(target)
    result = computed(target, resume=True)
    assert seen == [0, 1, 2, 3, 3, 4]
    np.testing.assert_array_equal(np.asarray(result), x * 2)
    assert bv.verify(tmp_path / "out.zarr", checksums=True) == []


def test_on_a_runner(tmp_path):
    x = voxels()
    v = bv.open(array_of(tmp_path / "in.zarr", x, (1, 2, 9, 20, 25)))
    smooth = bv.gaussian_filter(v, 1)
    mask = smooth > bv.threshold_otsu(smooth)
    table = bv.regionprops_table(bv.label(mask[:, 1]), properties=["area"])
    otsu = bv.threshold_otsu(smooth)
    asked = mask.to(tmp_path / "m.zarr", chunks=(1, 2, 9, 20, 25)), table, otsu
    by_beam = bv.compute(*asked, runner="FnApiRunner", progress=False)
    here = bv.compute(asked[0].volume, table, otsu, runner=None, progress=False)
    np.testing.assert_array_equal(np.asarray(by_beam[0]), here[0])
    assert by_beam[1].equals(here[1])
    asked = mask, bv.flip(smooth, 2)
    for journal in (None, str(tmp_path / "run")):
        alone = bv.compute(*asked, journal=journal, runner="FnApiRunner", progress=False)
        np.testing.assert_array_equal(alone[0], here[0])
        np.testing.assert_array_equal(alone[1], np.asarray(smooth)[:, :, ::-1])
    np.testing.assert_array_equal(by_beam[2], here[2])
    assert bv.verify(tmp_path / "m.zarr") == []


def test_a_million_points_are_planned_as_one(tmp_path):
    shape, chunks = (10**6, 1, 1, 64, 64), (1, 1, 1, 64, 64)
    zarr.open_array(str(tmp_path / "in.zarr"), mode="w", shape=shape, chunks=chunks, dtype="u2")
    v = bv.open(tmp_path / "in.zarr")
    assert v.axes == ("t", "c", "z", "y", "x") and v.shape[0] == 10**6
    planned = bv.plan(bv.gaussian_filter(v, 1).to(tmp_path / "out.zarr"))
    assert len(planned.passes) == 1 and len(planned.passes[0].grid) == 10**6
    assert planned.bytes_read == 10**6 * 64 * 64 * 2
    assert "1000000 time points, each of them" in planned.explain(verbose=True)
    zarr.open_array(str(tmp_path / "c.zarr"), mode="w", shape=(10**6, 1, 8, 8), dtype="u1")
    with pytest.raises(ValueError, match="1,000,000 channels"):
        bv.open(tmp_path / "c.zarr")


def test_the_advice_to_choose_a_channel_keeps_the_time_points():
    v = bv.open(voxels())
    with pytest.raises(ValueError, match=r"one channel is needed.*such as v\[:, 0\] or v\.sel"):
        bv.label(v > 100)
    assert bv.label(v[:, 0] > 100).axes == ("t", "z", "y", "x")


def test_slabs_are_of_one_point():
    from beam_volumes.transforms import ReadSlabs

    v = bv.open(voxels())
    with pytest.raises(ValueError, match=r"one time point.*v\[0\]"):
        ReadSlabs(v[:, 0], 4)
    with pytest.raises(ValueError, match="one channel is needed"):
        ReadSlabs(v[0], 4)


def test_commands_that_need_one_point_say_so(tmp_path, monkeypatch, capsys):
    from beam_volumes.cli.main import main

    monkeypatch.chdir(tmp_path)
    array_of(tmp_path / "in.zarr", voxels((2, 2, 4, 8, 8)), (1, 1, 4, 8, 8))
    recipe = (
        "{input: in.zarr, steps: {a: {op: abs, input: input}}, output: {step: a, path: o.zarr}}"
    )
    (tmp_path / "r.yaml").write_text(recipe)
    for arguments, says in (
        (["info", "in.zarr", "--stats"], "--index t=0"),
        (["bench", "r.yaml"], "index: {t: 0}"),
    ):
        assert main(arguments) == 2
        said = capsys.readouterr().err.strip()
        assert says in said and "\n" not in said


def test_a_number_of_all_points_is_numpys_of_the_whole_array():
    x = voxels((3, 2, 4, 8, 8))
    v, like = bv.open(x), bv.open(x.reshape(-1, 8, 8))
    limit = bv.compute(bv.threshold_otsu(like))
    mask = v > bv.threshold_otsu(v, across="t")
    np.testing.assert_array_equal(computed(mask, slab=(3, 8, 8), workers=2), x > limit)
    np.testing.assert_array_equal(computed(mask[1:, 1]), x[1:, 1] > limit)
    centred = v - bv.mean(v)
    numbers = {
        "otsu": (bv.threshold_otsu(v, across="t"), limit),
        "mean": (v.mean(across="t"), x.mean()),
        "any": (bv.any(v, across="t"), True),
        "lines": (bv.sum(v, axis="z", across="t"), x.sum((0, 3 - 1)).reshape(2, 8, 8)),
        "named": (bv.max(v, axis=("t", "y", "x")), x.max((0, 3, 4))),
        "masked": (bv.min(v, mask=v > 300, across="t"), x[x > 300].min()),
        "pairs": (bv.covariance(v, v * v, across="t"), np.cov(x.ravel(), (x * x).ravel())),
        "of each": (bv.max(centred, across="t"), (x - x.mean((1, 2, 3, 4), keepdims=True)).max()),
        "formula": (bv.max(v) / bv.max(v, across="t"), x.max((1, 2, 3, 4)) / x.max()),
        "counts": (bv.histogram(v, 9, across="t")[0], np.histogram(x, 9)[0]),
    }
    found = computed([number for number, _ in numbers.values()] + [mask])
    for name, got, (_, wanted) in zip(numbers, found, numbers.values(), strict=False):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, err_msg=name)
    np.testing.assert_array_equal(found[-1], x > limit)
    floats = bv.open(x.astype("f4"))
    for q in (30, [5, 95]):
        # Two sweeps; the second counts below the first one's number of all points.
        low = computed(bv.percentile(floats, q, across="t"))
        np.testing.assert_array_equal(low, np.percentile(x.astype("f4"), q))
    scaled = computed(v[0, 0] / bv.max(v, across="t"))  # a volume without points
    np.testing.assert_array_equal(scaled, x[0, 0] / x.max())
    planned = bv.plan(v > bv.threshold_otsu(bv.gaussian_filter(v, 1), across="t"))
    assert planned.sweeps["threshold_otsu"] == 2 and len(planned.passes) == 3
    assert "finds threshold_otsu of all points" in planned.explain(verbose=True)


def test_numbers_of_all_points_on_a_runner_and_resumed(tmp_path, monkeypatch):
    x = voxels((4, 2, 6, 20, 16))
    v = bv.open(array_of(tmp_path / "in.zarr", x, (1, 1, 4, 10, 16)))[:, 1]
    x = x[:, 1]
    turned = bv.flip(bv.gaussian_filter(v, 1) > 300, 1)  # stored between the passes of a point
    turned = bv.where(turned, v, 0)
    limit, top = bv.threshold_otsu(turned, across="t"), bv.max(v[0])
    smooth = np.stack([np.asarray(bv.gaussian_filter(p, 1)) for p in x])
    like = np.where((smooth > 300)[:, ::-1], x, 0).reshape(-1, 20, 16)
    wanted = x > bv.compute(bv.threshold_otsu(like))
    target = (v > limit).to(tmp_path / "m.zarr", chunks=(1, 4, 10, 16))
    by_beam = bv.compute(target, limit, runner="FnApiRunner", progress=False)
    np.testing.assert_array_equal(np.asarray(by_beam[0]), wanted)
    assert by_beam[1] == computed(limit) and bv.verify(tmp_path / "m.zarr") == []
    real, seen = slabs.compute_point, []

    def failing(plan, p, k, *rest):
        seen.append((p.index, k))
        if seen.count((1, 2)) == 1 and (p.index, k) == (1, 2):
            raise OSError("a disk that fails")
        return real(plan, p, k, *rest)

    monkeypatch.setattr(slabs, "compute_point", failing)
    target = (v > limit).to(tmp_path / "again.zarr", chunks=(1, 4, 10, 16))
    with pytest.raises(OSError, match="a disk that fails"):
        computed(target)
    result = computed(target, resume=True)
    assert seen == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 2), (1, 3)]
    np.testing.assert_array_equal(np.asarray(result), wanted)
    # One point of it: a pass of points, then one of slabs, which goes on in those it was begun with.
    one = (v[1] > limit).to(tmp_path / "one.zarr", chunks=(2, 10, 16))
    np.testing.assert_array_equal(np.asarray(computed(one, slab=(2, 20, 16))), wanted[1])
    again = computed(one, resume=True)
    np.testing.assert_array_equal(np.asarray(again), wanted[1])
    assert computed(top) == x[0].max()


def test_numbers_of_all_points_are_refused_where_they_rest_on_others():
    v = bv.open(voxels((3, 2, 4, 8, 8)))
    with pytest.raises(ValueError, match=r"across='c': only 't'"):
        v.std(across="c")
    with pytest.raises(ValueError, match=r"min differs between time points.*across='t', too"):
        bv.histogram(v, range=(bv.min(v), bv.max(v)), across="t")
    with pytest.raises(TypeError, match=r"'across': .*rows of tables identify an object"):
        bv.label(v[:, 0] > 3, across="t")


#: Numbers of all time points, and of a volume without points.
ACROSS = {
    "mean": bv.mean,
    "min": bv.min,
    "max": bv.max,
    "sum": bv.sum,
    "std": bv.std,
    "variance": bv.variance,
    "any": bv.any,
    "all": bv.all,
    "count": bv.count_nonzero,
    "percentile": lambda v, **k: bv.percentile(v, 30, **k),
    "percentile of floats": lambda v, **k: bv.percentile(v * 1.5, 30, **k),
    "histogram": lambda v, **k: bv.histogram(v, 5, **k)[0][2],
    "joint histogram": lambda v, **k: bv.joint_histogram(v, v + 1, 4, **k)[0][1, 1],
    "covariance": lambda v, **k: bv.covariance(v, v, **k)[0, 1],
    "correlation": lambda v, **k: bv.correlation(v, v + 1, **k),
    "otsu": bv.threshold_otsu,
    "multiotsu": lambda v, **k: bv.threshold_multiotsu(v, 3, nbins=20, **k)[0],
    "li": bv.threshold_li,
    "yen": bv.threshold_yen,
    "triangle": bv.threshold_triangle,
    "isodata": bv.threshold_isodata,
    "moments": bv.threshold_moments,
}

#: What reaches across slabs, of a volume less a number.
BARRIERS = {
    "label": lambda v: bv.label(v > 3),
    "keep_largest": lambda v: bv.keep_largest(v > 3),
    "remove_small_objects": lambda v: bv.remove_small_objects(v > 3, 4),
    "remove_small_holes": lambda v: bv.remove_small_holes(v > 3, 4),
    "binary_fill_holes": lambda v: bv.binary_fill_holes(v > 3),
    "clear_border": lambda v: bv.clear_border(v > 3),
    "hysteresis": lambda v: bv.apply_hysteresis_threshold(v, 3, 30),
    "keep_labels": lambda v: bv.keep_labels(
        bv.label(v > 3), pa.table({"label": [1, 2], "area": [5, 6]}), "area", high=5
    ),
    "relabel": lambda v: bv.relabel(bv.label(v > 3), {1: 5}, missing="keep"),
    "watershed": bv.watershed,
    "watershed of markers": lambda v: bv.watershed(v, bv.label(v > 30)),
    "reconstruction": lambda v: bv.reconstruction(v - 9, v),
    "h_maxima": lambda v: bv.h_maxima(v, 9),
    "h_minima": lambda v: bv.h_minima(v, 9),
    "local_maxima": bv.local_maxima,
    "distance": lambda v: bv.distance_transform_edt(v > 3),
    "distance by a structure": lambda v: bv.distance_transform_cdt(v > 3, np.ones((3, 3, 3))),
    "cumsum": lambda v: bv.cumsum(v, axis=-3),
    "table": lambda v: bv.regionprops_table(bv.label(v > 3), v),
    "adjacency": lambda v: bv.region_adjacency(bv.watershed(v), v),
    "peaks": lambda v: bv.peak_local_max(v, 1),
    "contingency": lambda v: bv.contingency(bv.label(v > 3), bv.label(v > 9)),
    "boundaries": lambda v: bv.boundary_scores(bv.label(v > 3), bv.label(v > 9), tolerance=1)[0],
    "scores": lambda v: bv.variation_of_information(bv.label(v > 3), bv.label(v > 9))[0],
}


def _rows(result):
    """A result as a list of points; a table without its column of points."""
    if hasattr(result, "to_pydict"):
        columns = {n: c for n, c in result.to_pydict().items() if n != "t"}
        return list(zip(*columns.values(), strict=True))
    return np.asarray(result).tolist()


@thorough
def test_everything_that_reaches_across_slabs_may_rest_on_a_number_of_all_points():
    series = voxels((3, 4, 9, 8), "u1").astype("f4")
    mean = float(series.mean(dtype="f8"))
    each = [computed([make(bv.open(p) - mean) for make in BARRIERS.values()]) for p in series]
    v = bv.open(series, axes="tzyx")
    above = v - bv.mean(v, across="t")
    found = computed([make(above) for make in BARRIERS.values()])
    for name, got, *points in zip(BARRIERS, found, *each, strict=True):
        alone = [_rows(p) for p in points]
        if not hasattr(got, "to_pydict"):
            assert _rows(got) == alone, name
            continue
        rows = [row for point in alone for row in point]
        assert _rows(got) == rows, name
        # A run of one table has no other number of points that it could be counted under.
        assert _rows(computed(BARRIERS[name](above))) == rows, name


@thorough
@pytest.mark.parametrize("points", [3, 1])
def test_a_table_may_rest_on_any_number_of_all_points(points):
    series = voxels((points, 4, 6, 8), "u1")
    v = bv.open(series, axes="tzyx")
    numbers = [number(v, across="t") for number in ACROSS.values()]
    tables = [bv.regionprops_table(bv.label(v > n)) for n in numbers]
    tables.append(bv.regionprops_table(bv.label(v > numbers[0] + numbers[1] / 2)))
    found = computed([*numbers, *tables])
    limits = [*found[: len(numbers)], found[0] + found[1] / 2]
    for name, limit, table in zip([*ACROSS, "two"], limits, found[len(numbers) :], strict=True):
        rows = [computed(bv.regionprops_table(bv.label(bv.open(p) > limit))) for p in series]
        assert table["area"].to_pylist() == [a for r in rows for a in r["area"].to_pylist()], name
    if points == 1:
        assert limits[0] == series.mean() and found[-1]["t"].to_pylist() == [0] * len(found[-1])


def test_a_table_above_a_number_of_all_points_on_a_runner_and_resumed(tmp_path, monkeypatch):
    series = voxels((3, 4, 6, 8), "u1")
    v = bv.open(array_of(tmp_path / "in.zarr", series, (1, 4, 6, 8)), axes="tzyx")
    table = bv.regionprops_table(bv.label(v > bv.mean(v, across="t")))
    wanted = computed(table).to_pydict()
    assert bv.compute(table, runner="FnApiRunner", progress=False).to_pydict() == wanted
    real = slabs.compute_point

    def failing(plan, p, k, *rest):
        if (p.index, k) == (1, 2):
            raise OSError("a disk that fails")
        return real(plan, p, k, *rest)

    with monkeypatch.context() as m, pytest.raises(OSError, match="a disk that fails"):
        m.setattr(slabs, "compute_point", failing)
        computed(table.to(tmp_path / "b.parquet"))
    resumed = computed(table.to(tmp_path / "b.parquet"), resume=True)
    assert pq.read_table(resumed).to_pydict() == wanted
    # A table of one point, after a pass of points.
    one = computed(bv.regionprops_table(bv.label(v[2] > bv.mean(v, across="t"))))
    assert one["area"].to_pylist() == [
        a for t, a in zip(wanted["t"], wanted["area"], strict=True) if t == 2
    ]


def test_the_points_of_each_voxel_give_a_volume():
    x = voxels((3, 2, 4, 8, 8))
    v = bv.open(x)
    np.testing.assert_allclose(computed(bv.mean(v, axis="t")), x.mean(0), rtol=1e-15)
    np.testing.assert_array_equal(computed(v.max(axis=0)), x.max(0))
    np.testing.assert_array_equal(computed(bv.max(v, axis=("t", "c"))), x.max((0, 1)))
    counted = computed(bv.sum(v, axis="t", mask=v > 300))
    np.testing.assert_array_equal(counted, np.where(x > 300, x, 0).sum(0))
    assert bv.percentile(v, [10, 50], axis=("t", "c")).shape == (2, 4, 8, 8)
