"""The same bytes on every engine: filters in one pass and two, labels, tables, distances."""

import subprocess
import sys

import numpy as np
import pytest
import yaml

import beam_volumes as bv
from tests.engines.conftest import DISTINCT, ENGINES, flink_embedded, on_engines, prism
from tests.ops.networks.conftest import unet
from tests.transforms.trees import chunk_files, membranes, stored
from tests.waiting import PATIENCE

# Beam's workers in this process complain when an engine hangs up.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")

CHUNKS = (8, 16, 16)
SLAB = (8, 32, 32)


@pytest.fixture(scope="session")
def em(tmp_path_factory):
    return stored(tmp_path_factory.mktemp("in"), membranes((24, 48, 56)), chunks=CHUNKS)


def filters(em, folder, **how):
    """A fused chain, and a mask with a threshold from an earlier pass."""
    chain = bv.median_filter(em, 3) - bv.gaussian_filter(em, 1) + 0.5
    smooth = bv.gaussian_filter(em, 1.5)
    mask = bv.binary_opening(smooth > bv.threshold_otsu(smooth))
    targets = (
        chain.to(folder / "chain.zarr", chunks=CHUNKS),
        mask.to(folder / "mask.zarr", chunks=CHUNKS),
    )
    _, _, spread = bv.compute(*targets, bv.std(em), slab=SLAB, **how)
    return [chunk_files(t.sink.name) for t in targets], spread


def components(em, folder, **how):
    """Labels through tiles, their table and number, and distances."""
    mask = bv.binary_opening(em > 150)
    labels = bv.label(mask)
    edt = bv.distance_transform_edt(mask)
    targets = (
        labels.to(folder / "labels.zarr", chunks=CHUNKS),
        edt.to(folder / "edt.zarr", chunks=CHUNKS),
    )
    table = bv.regionprops_table(labels, em)
    _, _, rows, count = bv.compute(*targets, table, labels.num_labels, slab=SLAB, **how)
    columns = {name: rows[name].to_numpy().tobytes() for name in rows.column_names}
    return [chunk_files(t.sink.name) for t in targets], columns, count


def points(em, folder, **how):
    """Twenty time points of five channels: a filter, Otsu and labels of each, and a table."""
    x = np.asarray(em)[:8]
    all_ = np.stack([[np.roll(x, 3 * t + c, 1) // (c + 1) for c in range(5)] for t in range(20)])
    source = bv.compute(
        bv.open(all_.astype("u2")).to(folder / "tczyx.zarr", chunks=(1, 5, 8, 16, 16)), runner=None
    )
    smooth = bv.gaussian_filter(source, 1)
    mask = smooth[:, 0] > bv.threshold_otsu(smooth[:, 0])
    labels = bv.label(mask)
    table = bv.regionprops_table(labels, source, properties=["area", "intensity_mean"])
    targets = smooth.to(folder / "smooth.zarr"), labels.to(folder / "points.zarr")
    *_, rows, otsu = bv.compute(*targets, table, bv.threshold_otsu(smooth[:, 0]), **how)
    columns = {name: rows[name].to_numpy().tobytes() for name in rows.column_names}
    return [chunk_files(t.sink.name) for t in targets], columns, otsu.tobytes()


def network(em, folder, batch=1, slab=SLAB, **how):
    """A network with shared patches, the same one blended, and labels of the result."""
    model = unet(folder / "unet.onnx")
    net = {"normalize": (0, 255), "batch": batch}
    valid = bv.predict(em, model, patch=(22, 28, 32), context=6, stride=2, **net)
    blended = bv.predict(em, model, mode="blend", patch=(8, 16, 16), overlap=(4, 4, 6), **net)
    labels = bv.label(valid[1] > bv.threshold_otsu(valid[1]))
    targets = [
        (volume if volume.ndim == 3 else volume.astype("f2")).to(
            folder / f"{name}.zarr", chunks=chunks
        )
        for name, volume, chunks in (
            ("valid", valid, (3, *CHUNKS)),
            ("blended", blended, (3, *CHUNKS)),
            ("cells", labels, CHUNKS),
        )
    ]
    bv.compute(*targets, slab=slab, **how)
    return [chunk_files(t.sink.name) for t in targets]


def tiles(em, folder, **how):
    """Overlapping tiles, registered, and blended and filtered in one pass."""
    places = [(y, x) for y in (0, 18) for x in (0, 22)]
    parts = [em[:, y : y + 30, x : x + 34] for y, x in places]
    stage = [(0.4, y + 0.3, x - 0.2) for y, x in places]
    volume = bv.fuse(parts, bv.register_tiles(parts, stage, max_shift=2)[0])
    target = bv.gaussian_filter(volume, 1).to(folder / "tiles.zarr", chunks=CHUNKS)
    bv.compute(target, slab=SLAB, **how)
    return [chunk_files(target.sink.name)]


@pytest.fixture(scope="session")
def expected(em, tmp_path_factory):
    """What FnApiRunner gives with one worker; of labels scipy has a word too."""
    folder = tmp_path_factory.mktemp("expected")
    works = (filters, components, points, network, tiles)
    found = {f.__name__: f(em, folder, workers=1) for f in works}
    # Of a network other batches, and other slabs, have a word too.
    (folder / "other").mkdir()
    cut = {"slab": (24, 16, 32), "workers": 2, "batch": 3, "runner": None}
    assert network(em, folder / "other", **cut) == found["network"]
    assert all(files for files in [*found["filters"][0], *found["components"][0]])
    from scipy import ndimage

    mask = ndimage.binary_opening(np.asarray(em) > 150)
    labels, count = ndimage.label(mask)
    np.testing.assert_array_equal(bv.open(str(folder / "labels.zarr")), labels)
    assert found["components"][2] == count > 10
    smooth, labels = (bv.open(str(folder / f"{name}.zarr")) for name in ("smooth", "points"))
    for t in (0, 7, 19):
        first = np.asarray(smooth[t, 0])
        mask = first > float(bv.threshold_otsu(first))
        np.testing.assert_array_equal(labels[t], ndimage.label(mask)[0])
    return found


@on_engines(ENGINES)
@pytest.mark.parametrize(("work", "first"), [(filters, "chain"), (components, "labels")])
def test_every_engine_gives_the_same_bytes(engine, work, first, em, expected, tmp_path):
    job, how = engine.job(work.__name__)
    assert work(em, tmp_path, **how) == expected[work.__name__]
    engine.ran(job, tmp_path / f"{first}.zarr")


@on_engines(DISTINCT)
@pytest.mark.parametrize(
    ("work", "first"), [(points, "smooth"), (network, "valid"), (tiles, "tiles")]
)
def test_more_programs_give_the_same_bytes(engine, work, first, em, expected, tmp_path):
    test_every_engine_gives_the_same_bytes(engine, work, first, em, expected, tmp_path)


@on_engines([prism, flink_embedded])
def test_errors_in_workers_arrive_as_they_were_raised(engine, tmp_path):
    v = stored(tmp_path, membranes(), chunks=(5, 24, 28), codec="zstd")
    (tmp_path / "in.zarr" / "c" / "2" / "0" / "0").write_bytes(b"junk")
    with pytest.raises(OSError, match=r"in\.zarr/c/2/0/0.*damaged") as caught:
        bv.compute((v + 1).to(tmp_path / "out.zarr"), **engine.job("damaged")[1])
    for noise in ("Traceback", "while running", "java."):
        assert noise not in str(caught.value)


@on_engines(DISTINCT)
def test_a_recipe_runs_anywhere_by_flags(engine, em, tmp_path):
    """``beam-volumes run RECIPE --runner ...``, with Beam's own options behind it."""
    recipe = {
        "input": em.node.source.name,
        "steps": {"gaussian_filter": {"sigma": 1}},
        "output": {"path": str(tmp_path / "out.zarr"), "chunks": list(CHUNKS)},
    }
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    job, how = engine.job("recipe")
    flags = ["--runner", how["runner"], "--workers", str(how["workers"]), *how["options"]]
    flags += ["--slab", ",".join(map(str, SLAB))]
    command = [sys.executable, "-m", "beam_volumes.cli.main", "run", str(tmp_path / "recipe.yaml")]
    done = subprocess.run([*command, *flags], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr[-3000:]
    engine.ran(job, tmp_path / "out.zarr")
    alone = np.asarray(bv.gaussian_filter(em, 1))
    np.testing.assert_array_equal(bv.open(str(tmp_path / "out.zarr")), alone)
