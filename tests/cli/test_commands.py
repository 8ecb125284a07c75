"""The verbs: output, files and exit codes."""

import json
import os
import re
import subprocess
import sys

import imagecodecs
import numpy as np
import pytest
import tensorstore as ts

import beam_volumes as bv
from beam_volumes.cli.messages import message
from beam_volumes.cli.options import parse_index
from beam_volumes.cli.verbs import demo
from beam_volumes.plan import planner
from tests.tiers import thorough
from tests.waiting import PATIENCE

RECIPE = """\
input: {path: slices, voxel_size: 5, unit: nm}
steps:
  smooth: {op: gaussian_filter, sigma: 1}
  mask: {op: greater, inputs: [smooth, t]}
  t: {op: threshold_otsu, input: input}
outputs:
  - {step: mask, path: out.ome.zarr}
  - {step: t}
"""


@pytest.fixture
def recipe(work):
    (work / "r.yaml").write_text(RECIPE)
    return "r.yaml"


def test_run(recipe, command):
    code, out, err = command("run", recipe, "--runner", "none", "--memory", "1GiB", "--workers", 1)
    assert code == 0, err
    em = bv.open("slices")
    t = bv.threshold_otsu(em)
    assert out.splitlines() == [f"mask: {os.path.abspath('out.ome.zarr')}", f"t: {int(t)}"]
    assert np.array_equal(bv.open("out.ome.zarr"), bv.gaussian_filter(em, 1) > t)
    for what in (
        r"pass 1/2: threshold_otsu; 1 slab",
        r"pass 2/2: smooth, mask, write .*out.ome.zarr",
        r"memory .* predicted of 1.0 GiB allowed; reads .* \(1.00x\), writes .* before compression",
        r"pass 2/2 .*1/1 slabs",
        r"done in \d+\.\d s",
        r"14,400 voxels swept in .* Mvoxel/s",
        r"read .*, wrote 7.0 KiB",
        r"peak memory .* of .* predicted for a process",
    ):
        assert re.search(what, err), what
    assert "\r" not in err


def test_a_run_is_planned_once(recipe, command, monkeypatch):
    cut, cuts = planner.cut, []
    monkeypatch.setattr(planner, "cut", lambda *args: cuts.append(0) or cut(*args))
    code, _, err = command("run", recipe, "--runner", "none")
    assert code == 0 and len(cuts) == 1
    assert err.index("pass 2/2: smooth") < err.index("1/1 slabs")  # told before it runs
    assert command("run", recipe, "--dry-run")[0] == 0 and len(cuts) == 2


def test_an_output_that_exists_is_refused_replaced_or_continued(recipe, command):
    none = ("--runner", "none")
    assert command("run", recipe, *none)[0] == 0
    code, _, err = command("run", recipe, *none)
    assert code == 2
    assert re.fullmatch(
        r"beam-volumes: error: the output .* exists: .*\n", err.splitlines(True)[-1]
    )
    assert command("run", recipe, *none, "--overwrite")[0] == 0
    assert command("run", recipe, *none, "--resume")[0] == 0
    code, _, err = command("run", recipe, *none, "--resume", "--set", "smooth.sigma=2")
    assert code == 2
    assert "cannot resume" in err


def test_dry_run_writes_nothing(recipe, work, command):
    before = sorted(os.listdir(work))
    code, out, _ = command("run", recipe, "--runner", "none", "--dry-run")
    assert code == 0
    assert out.startswith("2 passes")
    assert "smooth (float32) of" in out
    assert sorted(os.listdir(work)) == before


def test_crop_is_a_run_on_part_of_every_input(recipe, command):
    code, _, err = command("run", recipe, "--runner", "none", "--crop", "2:9,,5:-5")
    assert code == 0, err
    part = bv.open("slices")[2:9, :, 5:-5]
    result = bv.open("out.ome.zarr", unit="nm")
    assert result.shape == (7, 20, 20)
    assert result.origin == (10, 0, 25)
    assert np.array_equal(result, bv.gaussian_filter(part, 1) > bv.threshold_otsu(part))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["run", "none.yaml"], "none.yaml: No such file or directory"),
        (["run", "r.yaml", "--set", "smooth.sigmma=1"], "--set .*did you mean 'sigma'"),
        (["run", "r.yaml", "--crop", "1-2"], "the box '1-2' is not of the form"),
        (
            ["run", "r.yaml", "--crop", "50:60"],
            "the box '50:60' contains no voxel of a volume of 12 x 20 x 30",
        ),
        (["run", "r.yaml", "--crop", "1:2,,,"], "has 4 ranges for the axes z, y, x"),
        (["run", "r.yaml", "--memory", "2GoB"], "memory '2GoB' is not a size"),
        (["run", "r.yaml", "--memory", "10MB"], "The smallest memory that works is"),
        (["run", "r.yaml", "--wrokers=2"], "unknown argument --wrokers; did you mean '--workers'"),
        (
            ["run", "r.yaml", "--runner", "Direct", "--memry", "2GB"],
            "unknown argument --memry; did you mean '--memory'",
        ),
        (["run", "slices/z0.tif"], "slices/z0.tif: is not text"),
        (["info", "nowhere"], "nowhere does not exist"),
        (["info", "slices", "--levle=1"], "unknown argument --levle; did you mean '--level'"),
        (["info", "slices", "--level", "1"], "level"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(arguments, message, recipe, command):
    if "--runner" not in arguments and arguments[0] == "run":
        arguments = [*arguments, "--runner", "none"]
    code, out, err = command(*arguments)
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert re.match("beam-volumes: error: .*" + message, err)


def test_debug_shows_where_an_error_comes_from(recipe, command):
    code, _, err = command("run", recipe, "--crop", "?", "--debug")
    assert code == 2
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("beam-volumes: error: ")


def test_other_errors_and_interrupts(recipe, command, monkeypatch):
    def fail(error):
        def run(*args, **kwargs):
            raise error

        monkeypatch.setattr("beam_volumes.drive.compute.run", run)
        return command("run", recipe, "--runner", "none")

    code, _, err = fail(RuntimeError("a worker\nhas died [while running 'Sweep']\nTraceback"))
    assert code == 1
    last = err.splitlines()[-1]
    assert last == "beam-volumes: error: a worker has died (--debug shows where)"
    assert fail(KeyError("x"))[2].splitlines()[-1].startswith("beam-volumes: error: KeyError: 'x'")
    assert fail(KeyboardInterrupt())[0] == 130


def test_names_of_files_do_not_reach_a_terminal_as_they_are(work, command):
    bad = work / "slices" / "z0\x1b]0;title\x07\x1b[2J\r.tif"
    bad.write_bytes(b"junk")
    for debug in ([], ["--debug"]):
        code, out, err = command("info", "slices", *debug)
        assert code == 2 and r"z0\x1b]0;title\x07\x1b[2J" in err
        assert not {"\x1b", "\x07", "\r"} & set(out + err)


def test_a_pipelines_long_error_is_told_by_its_last_line():
    text = 'bundle failed:\nTraceback (most recent call last):\n  File "x"\nbeam_volumes.OddError: too odd\n'
    assert message(RuntimeError(text)) == "too odd"


def test_no_verb_and_help(command):
    assert command()[0] == 2
    code, out, _ = command("run", "--help")
    assert code == 0
    assert "--dry-run" in out


def test_info_of_slices_and_arrays(work, command):
    code, out, _ = command("info", "slices")
    assert code == 0
    assert re.search(r"shape +12 x 20 x 30 \(z y x\)", out)
    assert re.search(r"dtype +uint8", out)
    assert re.search(r"size +7.0 KiB \(7,200 voxels\)", out)
    assert re.search(r"chunks +1 x 20 x 30, 600 B each", out)
    assert re.search(r"format +a directory or glob of PNG, JPEG or TIFF slices", out)
    v = bv.open("slices", voxel_size=(40, 4, 4), unit="nm")
    bv.compute(v.to("a.zarr", chunks=5), v.to("b.ome.zarr"), runner=None)
    assert re.search(r"voxel size +40 x 4 x 4 nanometer", command("info", "a.zarr")[1])
    out = command("info", "b.ome.zarr")[1]
    assert re.search(r"format +OME-Zarr", out)
    assert re.search(r"level 0 +0: 12 x 20 x 30 \(z y x\), chunks 12 x 20 x 30", out)
    spec = {"driver": "zarr3", "kvstore": f"file://{work}/a.zarr/"}
    assert "12 x 20 x 30" in command("info", json.dumps(spec))[1]


def test_info_of_groups(work, command):
    (work / "g.zarr").mkdir()
    (work / "g.zarr" / ".zgroup").write_text('{"zarr_format": 2}')
    assert "is a zarr group without arrays" in command("info", "g.zarr")[1]
    for name, shape in (("raw", [4, 5, 6]), ("deep/labels", [7, 8])):
        if "/" in name:
            (work / "g.zarr" / "deep").mkdir()
            (work / "g.zarr" / "deep" / ".zgroup").write_text('{"zarr_format": 2}')
        spec = {"driver": "zarr", "kvstore": f"file://{work}/g.zarr/{name}/"}
        ts.open(spec, create=True, dtype="uint16", shape=shape).result()
    code, out, _ = command("info", "g.zarr")
    assert code == 0
    assert "raw: 4 x 5 x 6 (z y x), uint16, 240 B" in out
    assert "deep/labels: 7 x 8 (y x)" in out
    assert "7 x 8 (y x)" in command("info", "g.zarr", "--dataset", "deep/labels")[1]


def test_info_of_channels(work, command):
    spec = {"driver": "zarr3", "kvstore": f"file://{work}/c.zarr/"}
    ts.open(spec, create=True, dtype="uint8", shape=[3, 4, 5, 6]).result()
    assert "3 x 4 x 5 x 6 (c z y x)" in command("info", "c.zarr")[1]
    assert "4 x 5 x 6" in command("info", "c.zarr", "--index", "c=1")[1]
    assert parse_index("t=0, c=DAPI") == {"t": 0, "c": "DAPI"}
    with pytest.raises(ValueError, match="write it as"):
        parse_index("c")


def test_demo(work, command):
    for _ in range(2):
        code, out, err = command("demo", "--shape", "16,64,64", "--runner", "none")
        assert code == 0, err
    assert "demo/preview.png" in out
    image = imagecodecs.png_decode((work / "demo" / "preview.png").read_bytes())
    assert image.shape == (64, 3 * 64 + 2 * 8, 3)
    assert 0.05 < (image[:, 72:136] == 255).mean() < 0.95
    count = int(re.search(r"^count: (\d+)$", out, re.M)[1])
    assert count == np.asarray(bv.open("demo/cells.ome.zarr")).max() > 0
    assert "label,area,centroid-0,centroid-1,centroid-2,intensity_mean\n1," in out
    code, _, err = command(
        "run", "demo/recipe.yaml", "--runner", "none", "--crop", "0:8", "--set", "out=t"
    )
    assert code == 0, err
    assert bv.open("t/membranes.ome.zarr").shape == (8, 64, 64)


def test_the_demos_slices_are_the_same_every_time(work):
    demo.write_specimen("a", (3, 40, 50))
    demo.write_specimen("b", (3, 40, 50))
    a = np.asarray(bv.open("a"))
    assert np.array_equal(a, bv.open("b"))
    assert a.std() > 20


def test_the_demos_recipe_is_among_the_templates():
    path = os.path.join(os.path.dirname(__file__), "../../templates/recipes/cells.yaml")
    with open(path) as file:
        assert file.read() == demo.RECIPE.replace("@", "demo")


@thorough
def test_the_program_with_its_default_runner(recipe, work, command):
    arguments = [sys.executable, "-m", "beam_volumes.cli.main", "run", recipe]
    done = subprocess.run(
        [*arguments, "--direct_running_mode=in_memory"],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "WARNING" not in done.stderr
    em = bv.open("slices")
    assert np.array_equal(
        bv.open("out.ome.zarr"), bv.gaussian_filter(em, 1) > bv.threshold_otsu(em)
    )
    (work / "slices" / "z5.tif").write_bytes(b"broken")
    code, _, err = command("run", recipe, "--overwrite")
    assert code in (1, 2)
    assert "Traceback" not in err
    assert "z5.tif" in err.splitlines()[-1]


def test_remedies_are_told_as_options():
    text = "x exists: pass overwrite=True to replace it, resume=True to continue it"
    assert (
        message(ValueError(text)) == "x exists: --overwrite to replace it, --resume to continue it"
    )


def test_a_second_demo_takes_the_slices_of_the_first(tmp_path):
    def made(shape=(3, 16, 20), seed=0):
        demo.make_slices(tmp_path, shape, seed)
        return {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in slices.glob("*")}

    slices = tmp_path / "slices"
    first = made()
    assert len(first) == 3 and made() == first
    (slices / "z0001.tif").write_bytes(b"mine")
    os.utime(slices / "z0001.tif", ns=(2**62, 2**62))  # whatever clock the disk has
    again = made()
    assert {n: data for n, (_, data) in again.items()} == {n: d for n, (_, d) in first.items()}
    assert len(made((4, 16, 20))) == 4
    (slices / "z0002.tif").unlink()
    assert len(made((4, 16, 20))) == 4
