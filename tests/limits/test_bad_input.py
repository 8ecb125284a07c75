"""Bad input, broken files and full disks: one clear error, or a right result."""

import subprocess
import sys

import imagecodecs
import numpy as np
import pyarrow as pa
import pytest

import beam_volumes as bv
from beam_volumes.runs.journal import Journal, run_folder
from tests.tiers import few

ARRAY = np.random.default_rng(0).integers(1, 255, (8, 40, 50), np.uint8)


def chain(v):
    smooth = bv.gaussian_filter(v, 1)
    return bv.binary_opening(smooth > bv.threshold_otsu(smooth))


def compute(target, **how):
    return bv.compute(target, runner=None, progress=False, **how)


def slices(folder, array=ARRAY, first=5):
    """A stack of PNG slices numbered without leading zeros: 5, 6, ..., 12."""
    folder.mkdir()
    for z, plane in enumerate(array):
        (folder / f"s{z + first}.png").write_bytes(imagecodecs.png_encode(plane))
    return folder


def one_line(error: pytest.ExceptionInfo) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def test_slices_are_read_in_natural_order(tmp_path):
    assert np.array_equal(np.asarray(bv.open(slices(tmp_path / "s"))), ARRAY)


def test_a_missing_slice_is_named_when_the_stack_is_opened(tmp_path):
    (slices(tmp_path / "s") / "s9.png").unlink()
    with pytest.raises((ValueError, OSError), match=r"s9\.png") as error:
        bv.open(tmp_path / "s")
    one_line(error)


def test_a_slice_of_another_size_is_named(tmp_path):
    odd = slices(tmp_path / "s") / "s10.png"
    odd.write_bytes(imagecodecs.png_encode(ARRAY[0, :-1]))
    with pytest.raises((ValueError, OSError), match=r"s10\.png.*39.*40") as error:
        compute(chain(bv.open(tmp_path / "s")).to(tmp_path / "out.zarr"))
    one_line(error)


@pytest.mark.parametrize("runner", few([None, "FnApiRunner"], [None]))
def test_a_truncated_slice_is_named_and_the_run_resumed_when_it_is_mended(tmp_path, runner):
    folder = slices(tmp_path / "s")
    whole = (folder / "s11.png").read_bytes()
    (folder / "s11.png").write_bytes(whole[:300])
    target = chain(bv.open(folder)).to(tmp_path / "out.zarr", chunks=(2, 40, 50))
    options = dict(runner=runner, progress=False, slab=(2, 40, 50))
    with pytest.raises(OSError, match=r"s11\.png") as error:
        bv.compute(target, **options)
    one_line(error)
    done = set(Journal.open(run_folder(tmp_path / "out.zarr")).finished(0))
    assert 0 in done and 3 not in done
    (folder / "s11.png").write_bytes(whole)
    result = bv.compute(target, resume=True, **options)
    assert np.array_equal(np.asarray(result), np.asarray(chain(bv.open(ARRAY))))


@pytest.mark.parametrize("codec", [None, "zstd"])
def test_a_corrupt_chunk_is_named(tmp_path, codec):
    volume = compute(bv.open(ARRAY).to(tmp_path / "in.zarr", chunks=(4, 40, 50), codec=codec))
    chunk = tmp_path / "in.zarr" / "c" / "1" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes()[:100])
    with pytest.raises(OSError, match=r"in\.zarr.*damaged") as error:
        compute(chain(volume).to(tmp_path / "out.zarr"))
    one_line(error)


def test_an_unwritable_output_is_refused_before_anything_is_read():
    with pytest.raises(OSError, match=r"/proc/nothing\.zarr") as error:
        compute((bv.open(ARRAY) + 1).to("/proc/nothing.zarr"))
    one_line(error)


FULL = """
import resource, sys
import beam_volumes as bv
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
target = (bv.open(sys.argv[1]) + 1).to(sys.argv[2], chunks=(16, 64, 64), codec=None)
try:
    bv.compute(target, runner=None, progress=False)
except OSError as error:
    print(error)
"""


def test_a_full_disk_is_said_and_the_run_resumed_when_there_is_room(tmp_path):
    noise = np.random.default_rng(0).integers(0, 200, (32, 64, 64), np.uint8)
    volume = compute(bv.open(noise).to(tmp_path / "in.zarr"))
    out = tmp_path / "out.zarr"
    command = [sys.executable, "-c", FULL, str(tmp_path / "in.zarr"), str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "out.zarr" in done.stdout and "resume=True" in done.stdout
    assert done.stdout.count("\n") == 1
    again = compute((volume + 1).to(out, chunks=(16, 64, 64), codec=None), resume=True)
    assert np.array_equal(np.asarray(again), noise + 1)


def test_nan_stops_a_threshold_unless_left_out(tmp_path):
    array = ARRAY.astype(np.float32)
    array[3, 4, 5] = np.nan
    v = bv.open(array)
    with pytest.raises(ValueError, match=r'NaN.*nan="omit"') as error:
        compute(chain(v).to(tmp_path / "out.zarr"))
    one_line(error)
    assert np.isfinite(float(bv.threshold_otsu(v, nan="omit")))


@pytest.mark.parametrize("shape", [(0, 5, 5), (4, 0, 5), (4, 5, 0)])
def test_an_empty_volume_is_written_empty_and_has_no_threshold(tmp_path, shape):
    v = bv.open(np.zeros(shape, np.uint8))
    written = compute(bv.gaussian_filter(v, 1).to(tmp_path / "out.zarr"))
    assert written.shape == shape
    assert np.asarray(bv.median_filter(v, 3)).shape == shape
    assert int(bv.sum(v)) == 0
    with pytest.raises(ValueError, match="no voxels"):
        float(bv.threshold_otsu(v))


def test_one_voxel(tmp_path):
    v = bv.open(np.full((1, 1, 1), 7, np.uint8))
    result = compute(bv.median_filter(bv.gaussian_filter(v, 3), 5).to(tmp_path / "out.ome.zarr"))
    assert np.asarray(result).tolist() == [[[7.0]]]
    assert int(bv.threshold_otsu(v)) == 7


def test_what_needs_one_channel_says_how_to_choose_it(tmp_path):
    import tensorstore as ts

    metadata = {
        "shape": [3, 4, 5, 6],
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 4, 5, 6]}},
        "dimension_names": ["c", "z", "y", "x"],
    }
    store = {"driver": "file", "path": str(tmp_path / "in.zarr")}
    ts.open({"driver": "zarr3", "kvstore": store, "metadata": metadata}, create=True).result()
    with pytest.raises(ValueError, match=r"one channel is needed.*v\[0\]") as error:
        bv.label(bv.open(tmp_path / "in.zarr"))
    one_line(error)
    assert bv.open(tmp_path / "in.zarr", index={"c": 2}).shape == (4, 5, 6)


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (lambda v: bv.gaussian_filter(v, 1, mode="periodic"), "periodic"),
        (lambda v: bv.gaussian_filter(v, "15 nm"), "voxel size"),
        (lambda v: bv.gaussian_filter(v, (1, 2)), "2 entries for 3 axes"),
        (lambda v: bv.median_filter(v), "size= or footprint="),
        (lambda v: bv.minimum_filter(v, 3, origin=2), "origin"),
        (lambda v: bv.binary_erosion(v, iterations=0), "iterations"),
        (lambda v: v + bv.open(ARRAY[:-1]), "do not match"),
        (lambda v: v[None], "bv.stack"),
        (lambda v: v.to("x.docx"), "x.docx"),
        (lambda v: bv.plan(v + 1, memory="lots"), "lots"),
        (lambda v: bv.compute(v + 1, runner=None, workers=0), "workers"),
        (lambda v: bv.compute(v + 1, runner=None, slab=(3, 40, 50), window=0), "window"),
    ],
)
def test_mistakes_are_said_in_one_line_before_any_work(request_, says):
    with pytest.raises((ValueError, IndexError), match=says) as error:
        request_(bv.open(ARRAY))
    one_line(error)


MASK = ARRAY > 120
TABLE = pa.table({"a": [1, 2]})
LABELS = (ARRAY // 40).astype(np.int32)


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (lambda m, v, s: bv.label(m, 0), "connectivity=0"),
        (lambda m, v, s: bv.label(m, structure=np.ones((3, 3))), r"structure of shape \(3, 3\)"),
        (lambda m, v, s: bv.binary_fill_holes(m, np.ones((5, 5, 5))), r"\(5, 5, 5\)"),
        (lambda m, v, s: bv.binary_propagation(m, mask=s), "do not match"),
        (lambda m, v, s: bv.label(m, dtype="f4"), "labels must be integers"),
        (lambda m, v, s: bv.remove_small_objects(v * 0.5, 3), "integers"),
        (lambda m, v, s: bv.keep_largest(m, True), "k=True"),
        (lambda m, v, s: bv.clear_border(m, 1.5), "buffer_size=1.5"),
        (lambda m, v, s: bv.relabel(v * 0.5, {1: 2}), "float"),
        (lambda m, v, s: bv.relabel(v, 7), "mapping of int"),
        (lambda m, v, s: bv.relabel(v, {1: 300}, dtype="u1"), "300 does not fit uint8"),
        (lambda m, v, s: bv.relabel(v, ([1, 1], [2, 3])), "label 1"),
        (lambda m, v, s: bv.relabel(v, {1: 2}, missing="drop"), "missing='drop'"),
        (lambda m, v, s: bv.relabel(v, TABLE), "columns a; give"),
        (lambda m, v, s: bv.relabel(v, TABLE, columns=("a", "b")), "columns a; give"),
        (lambda m, v, s: bv.keep_labels(v, TABLE, "a"), "no range is given"),
        (lambda m, v, s: bv.keep_labels(v, TABLE, "b", low=1), "columns a; give"),
        (lambda m, v, s: bv.keep_labels(v, TABLE, "a", low=2, high=1), "low=2 and high=1"),
        (lambda m, v, s: bv.relabel(v, "nowhere.parquet"), r"nowhere\.parquet"),
        (lambda m, v, s: bv.regionprops_table(v * 0.5), "float"),
        (lambda m, v, s: bv.regionprops_table(v, s), "do not match"),
        (lambda m, v, s: bv.regionprops_table(v, properties=["volume"]), "volume"),
        (lambda m, v, s: bv.regionprops_table(v, properties=["intensity_mean"]), "intensity"),
        (lambda m, v, s: bv.regionprops_table(v, spacing="voxel_size"), "voxel_size="),
        (lambda m, v, s: bv.region_adjacency(v, s), "do not match"),
        (lambda m, v, s: bv.region_adjacency(v, v, value="min"), "min"),
        (lambda m, v, s: bv.region_adjacency(v, v, bins=4), "range"),
        (lambda m, v, s: bv.regionprops_table(v).to("x.xlsx"), r"x\.xlsx.*\.parquet"),
        (lambda m, v, s: bv.regionprops_table(v).to("s3://b/x.csv"), r"write \.parquet"),
        (lambda m, v, s: bv.regionprops_table(v).to("x.csv", format="tsv"), "tsv"),
        (lambda m, v, s: bv.distance_transform_edt(m, 0), "above 0"),
        (lambda m, v, s: bv.distance_transform_edt(m, (1, 2)), "2 entries for 3 axes"),
        (lambda m, v, s: bv.distance_transform_cdt(m, return_indices=True), "return_indices"),
        (lambda m, v, s: bv.distance_transform_edt(m, max_distance="9 nm"), "voxel_size"),
        (lambda m, v, s: bv.signed_distance(m, max_distance=-1), "above 0"),
        (lambda m, v, s: bv.cumsum(v, 3), "0 to 2"),
        (lambda m, v, s: bv.cumsum(v, None), "axis=None"),
        (lambda m, v, s: bv.max(v, "t"), "axis='t'"),
        (lambda m, v, s: bv.apply_hysteresis_threshold(v, 1, "high"), "high"),
    ],
)
def test_mistakes_across_slabs_are_said_in_one_line_and_leave_nothing(
    request_, says, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, TypeError, OSError), match=says) as error:
        request_(bv.open(MASK), bv.open(LABELS), bv.open(LABELS[:-1]))
    one_line(error)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("target", "says", "runner"),
    [
        (lambda v, p: bv.relabel(v, {0: 0, 1: 2}).to(f"{p}.zarr"), "no value for label", None),
        (
            lambda v, p: bv.label(v % 2, dtype="i1", by_value=True, background=None).to(
                f"{p}.zarr"
            ),
            "int8",
            None,
        ),
        (lambda v, p: bv.regionprops_table(0 - v).to(f"{p}.parquet"), "the label -", None),
        (lambda v, p: bv.regionprops_table(v, v / 0.0).to(f"{p}.csv"), 'nan="omit"', "FnApiRunner"),
    ],
)
def test_what_only_the_voxels_tell(target, says, runner, tmp_path):
    """An error of the sweep or the merge: one line, and no voxel and no row is left behind."""
    compute(bv.open(LABELS).to(tmp_path / "in.zarr"))
    wanted = target(bv.open(tmp_path / "in.zarr"), tmp_path / "out")
    with pytest.raises((ValueError, OverflowError), match=says) as error:
        bv.compute(wanted, runner=runner, progress=False)
    one_line(error)
    assert not [f for f in tmp_path.glob("out*/c/**/*") if f.is_file()]
    assert not [f for f in tmp_path.glob("*/part-*")]
    assert not (tmp_path / "out.csv").exists()
