"""``overwrite=True`` deletes the package's own files, and nothing next to them."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import beam_volumes as bv
from beam_volumes.cli.main import main
from beam_volumes.storage.outputs.sink import make_sink
from beam_volumes.storage.places.ownership import OutputExistsError
from beam_volumes.storage.places.place import Place
from beam_volumes.storage.places.single_file import write_file
from tests.tiers import thorough

VOXELS = np.arange(4 * 8 * 8, dtype="u1").reshape(4, 8, 8)
QUIET = {"runner": None, "progress": False}


def write(out, voxels=VOXELS, **options):
    return bv.compute(bv.open(voxels).to(out, **options), overwrite=True, **QUIET)


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


FOLDERS = {
    "a.zarr": {},
    "v2.zarr": {"zarr_version": 2},
    "sharded.zarr": {"shards": (4, 8, 8), "chunks": (2, 8, 8)},
    "a.ome.zarr": {"levels": 2},
    "old.ome.zarr": {"ome_version": "0.4"},
    "a.n5": {},
    "a.precomputed": {"levels": 2},
    "sharded.precomputed": {"chunks": (2, 4, 4), "shards": True},
    "slices/*.png": {},
    "slices/cell_*.tif": {},
}
FOREIGN = [
    "notes.txt",
    "labels/zarr.json",
    "0/notes.txt",
    "c/0/readme",
    "photo1.png",
    "cell_7.tif",
    "b.zarr/.zarray",
]


def folder_of(tmp_path, out):
    return (tmp_path / out).parent if "*" in out else tmp_path / out


@pytest.mark.parametrize("out", FOLDERS)
def test_foreign_files_in_an_output_are_not_deleted(tmp_path, out):
    folder = folder_of(tmp_path, out)
    write(tmp_path / out, **FOLDERS[out])
    for name in FOREIGN:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}")
        before = contents(tmp_path)
        with pytest.raises(
            OutputExistsError, match=f"exists and contains {name}, which is not part of it"
        ):
            write(tmp_path / out, VOXELS + 1, **FOLDERS[out])
        assert contents(tmp_path) == before
        (folder / name).unlink()
        with_others = [p for p in folder.rglob("*") if p.is_dir() and not os.listdir(p)]
        for empty in with_others:
            empty.rmdir()
    np.testing.assert_array_equal(write(tmp_path / out, VOXELS + 1, **FOLDERS[out]), VOXELS + 1)


@pytest.mark.parametrize("out", FOLDERS)
def test_outputs_of_another_shape_are_overwritten_whole(tmp_path, out):
    folder = folder_of(tmp_path, out)
    big = np.zeros((12, 40, 36), "u1") + 5
    options = {k: v for k, v in FOLDERS[out].items() if k not in ("levels",)}
    write(tmp_path / out, big, **FOLDERS[out])
    write(tmp_path / out, VOXELS, **options)
    anew = tmp_path / "anew"
    write(anew / out, VOXELS, **options)
    assert set(contents(folder)) == set(contents(folder_of(anew, out)))


@thorough
@pytest.mark.parametrize("out", FOLDERS)
def test_outputs_of_another_dtype_and_back_are_read(tmp_path, out):
    """An old handle of this process does not read the new file."""
    for dtype in ("u1", "u2", "u1", "u2"):
        found = np.asarray(write(tmp_path / out, VOXELS.astype(dtype), **FOLDERS[out]))
        assert found.dtype == dtype and np.array_equal(found, VOXELS)


def test_arrays_beside_an_array_in_a_group_are_not_deleted(tmp_path):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(tmp_path / "g.zarr", mode="w", zarr_format=2)
    group.create_array("raw", data=VOXELS)
    before = contents(tmp_path)
    with pytest.raises(OutputExistsError, match=r"contains \S*raw/\S+, which is not part"):
        write(tmp_path / "g.zarr")
    assert contents(tmp_path / "g.zarr") == {k.relative_to("g.zarr"): v for k, v in before.items()}


def test_an_array_of_another_program_is_overwritten_as_asked(tmp_path):
    zarr = pytest.importorskip("zarr")
    for version in (2, 3):
        zarr.create_array(
            tmp_path / "a.zarr", data=VOXELS, chunks=(3, 3, 3), zarr_format=version, overwrite=True
        )
        np.testing.assert_array_equal(write(tmp_path / "a.zarr", VOXELS + 1), VOXELS + 1)


def test_datasets_beside_the_output_in_its_file_are_not_deleted(tmp_path):
    h5py = pytest.importorskip("h5py")
    write(tmp_path / "a.h5", dataset="volumes/raw")
    write(tmp_path / "a.h5", VOXELS + 1, dataset="volumes/raw")
    for name in ("volumes/labels", "notes"):
        with h5py.File(tmp_path / "a.h5", "a") as file:
            file[name] = VOXELS
        with pytest.raises(OutputExistsError, match=f"/{name}, which is not part of it"):
            write(tmp_path / "a.h5", dataset="volumes/raw")
        with h5py.File(tmp_path / "a.h5", "a") as file:
            np.testing.assert_array_equal(file[name], VOXELS)
            del file[name]


def test_tables_beside_the_shards_of_a_table_are_not_deleted(tmp_path):
    table = bv.regionprops_table(bv.open(VOXELS))
    for _ in range(2):
        bv.compute(table.to(tmp_path / "a.parquet"), overwrite=True, **QUIET)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet" / "mine.parquet")
    with pytest.raises(OutputExistsError, match=r"contains mine\.parquet, which is not part of it"):
        bv.compute(table.to(tmp_path / "a.parquet"), overwrite=True, **QUIET)
    assert pq.read_table(tmp_path / "a.parquet" / "mine.parquet").num_rows == 1


def test_objects_of_a_bucket_that_are_no_part_of_an_output_stay(tmp_path):
    """A folder of a bucket counts as empty where no output is: what lies there is not cleared for one."""
    place = Place.of("memory://overwrite/a.zarr")
    place.write("notes.txt", b"mine")
    sink = make_sink("memory://overwrite/a.zarr", shape=VOXELS.shape, dtype="u1")
    sink.create("run 1")
    assert place.read("notes.txt") == b"mine"
    with pytest.raises(OutputExistsError, match=r"contains notes\.txt, which is not part of it"):
        sink.create("run 2", overwrite=True)
    assert place.json("zarr.json")["attributes"]["beam_volumes"]["run"] == "run 1"


def test_a_full_disk_leaves_the_file_that_was_there(tmp_path):
    (tmp_path / "link.yaml").symlink_to("r.yaml")
    (tmp_path / "r.yaml").write_bytes(b"old")
    (tmp_path / "r.yaml").chmod(0o640)
    program = (
        "import resource, signal, sys\n"
        "from beam_volumes.storage.places.single_file import write_file\n"
        "write_file(sys.argv[1], b'new')\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "write_file(sys.argv[1], bytes(5000))\n"
    )
    words = [sys.executable, "-c", program, str(tmp_path / "link.yaml")]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1 and "link.yaml" in ended.stderr.splitlines()[-1]
    assert (tmp_path / "r.yaml").read_bytes() == b"new" and (tmp_path / "link.yaml").is_symlink()
    assert (tmp_path / "r.yaml").stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(tmp_path)) == ["link.yaml", "r.yaml"]


def test_a_file_that_is_written_anew_keeps_its_owner_and_group(tmp_path, monkeypatch):
    path, given = tmp_path / "r.yaml", []
    path.write_bytes(b"old")
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, 1234, 1235)
        write_file(path, b"new")
        assert (path.stat().st_uid, path.stat().st_gid) == (1234, 1235)

    def refuse(_, *owner):
        given.append(owner)
        raise PermissionError(1, "Operation not permitted")

    before = path.stat()
    monkeypatch.setattr(os, "chown", refuse)
    write_file(path, b"other")
    assert given == [(-1, before.st_gid), (before.st_uid, -1)] and path.read_bytes() == b"other"
    assert path.stat().st_mode & 0o777 == 0o640


@thorough
def test_no_file_of_a_user_is_written_in_place():
    # Unlike these, write_file and Place.write leave the old file if they are interrupted.
    allowed = {
        "cli/verbs/demo.py",  # a note that counts when it is whole
        "cli/verbs/view.py",  # a page in a temporary folder, for the browser
        "drive/flink.py",  # in a temporary folder
        "kernels/cache.py",  # renamed when it is whole
        "ops/networks/onnx_files.py",  # a temporary copy
        "ops/networks/trial.py",  # in /proc
        "storage/formats/contiguous.py",  # the output of a run, marked as unfinished
        "storage/formats/hdf5/format.py",  # as write_whole asks for
        "storage/places/claims.py",  # linked when it is whole
        "storage/places/single_file.py",
    }
    found, top = set(), Path(bv.__file__).parent
    for path in top.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func).rpartition(".")[2]
                given = [ast.unparse(a) for a in (*node.args, *(k.value for k in node.keywords))]
                writes = any(re.fullmatch("'[rwax+bt]*[wax+][rwax+bt]*'", a) for a in given)
                if name in ("write_text", "write_bytes") or (name in ("open", "fdopen") and writes):
                    found.add(path.relative_to(top).as_posix())
    assert found <= allowed


def test_the_demo_keeps_a_recipe_of_the_user(tmp_path, capsys):
    (tmp_path / "recipe.yaml").write_text("input: mine.zarr\noutput: o.zarr\n")
    assert main(["demo", "--out", str(tmp_path)]) == 2
    assert (
        "is not the recipe of the demo; choose a different folder with --out"
        in capsys.readouterr().err
    )
    assert os.listdir(tmp_path) == ["recipe.yaml"]
    assert (tmp_path / "recipe.yaml").read_text().startswith("input: mine.zarr")
