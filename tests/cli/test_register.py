"""Registration from the command line, and its tables in chains and recipes."""

import itertools
import json
import re
import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import scipy.ndimage as ndi

import beam_volumes as bv
from beam_volumes.cli.main import main
from beam_volumes.graph.options import MemoryLimit, limited
from beam_volumes.ops.geometry.registration import images
from beam_volumes.ops.geometry.registration.sequences import needs_of_slices
from beam_volumes.plan.cost import speeds
from beam_volumes.recipes.build import build
from beam_volumes.recipes.document import RecipeError
from beam_volumes.recipes.recipe import parse_recipe, read_recipe
from beam_volumes.recipes.registration import planned_registrations, register_inputs


def tissue(*shape):
    smooth = ndi.gaussian_filter(np.random.default_rng(0).normal(size=shape), 2)
    return (128 + 40 * smooth / smooth.std()).clip(0, 255).astype("u1")


def by_recipe(text):
    Path("recipe.yaml").write_text(text)
    assert main(["run", "recipe.yaml"]) == 0


def stored(path):
    """The chunks of an output by name."""
    files = [f for f in Path(path, "c").rglob("*") if f.is_file()]
    return {str(f.relative_to(path)): f.read_bytes() for f in files}


def test_tiles(tmp_path, monkeypatch, capsys):
    """From stage positions to a fused volume, with a report of the bad overlap."""
    monkeypatch.chdir(tmp_path)
    world, true = tissue(8, 70, 150), [(0, 0), (2, 42), (1, 88)]
    for k, (y, x) in enumerate(true):
        tile = world[:, y : y + 60, x : x + 60].copy()
        if k == 2:
            tile[:] = tissue(9, 61, 61)[1:, 1:, 1:]
        tile = bv.open(tile, voxel_size=0.5, unit="um", origin=(0, 0, 22 * k))
        bv.compute(tile.to(f"tiles/{k}.ome.zarr"))
    words = ["register-tiles", *(f"tiles/{k}.ome.zarr" for k in range(3)), "-o", "tiles.csv"]
    # Tile 2 has no link.
    with pytest.warns(UserWarning, match="no link for 1 of 3 tiles, .* positions: 2;"):
        code = main([*words, "--max-shift", "4", "--pairs", "pairs.csv", "--report", "a.html"])
    assert code == 1
    _, transforms = bv.open_tiles("tiles.csv")
    np.testing.assert_allclose(transforms[1, :, 3] - transforms[0, :, 3], (0, 2, 42), atol=0.1)
    page = (tmp_path / "a.html").read_text()
    assert "1 and 2: correlation" in page and "not used" in page
    assert page.count("<img") == 1 and page.count("<svg") == 4
    assert "false" in (tmp_path / "pairs.csv").read_text()
    assert main([*words, "--max-shift", "4"]) == 2
    assert "tiles.csv exists" in capsys.readouterr().err
    assert main([*words[:-1], "other.csv", "--xml", "a.xml", "--pairs", "other-pairs.csv"]) == 2
    assert "is not an XML file of BigStitcher" in capsys.readouterr().err
    assert not Path("other-pairs.csv").exists()
    assert main(["chain", "tiles.csv", "fuse", "--transforms", "tiles.csv", "-o", "all.zarr"]) == 0
    fused = bv.fuse(*bv.open_tiles("tiles.csv"))
    by_recipe("input: tiles.csv\nsteps: {fuse: {transforms: tiles.csv}}\noutput: again.zarr\n")
    bv.compute(fused.to("python.zarr"))
    assert stored("all.zarr") == stored("again.zarr") == stored("python.zarr")
    Path("stage.csv").write_text(
        "path,z,y,x\n" + "".join(f"tiles/{k}.ome.zarr,0,0,{44 * k}\n" for k in range(3))
    )
    with pytest.warns(UserWarning, match="no link for 1 of 3 tiles"):
        by_recipe(
            "input: stage.csv\nregister:\n  register_tiles: {max_shift: 4, table: found.csv, pairs: p.csv, "
            "report: b.html}\nsteps: {fuse: {transforms: found.csv}}\noutput: registered.zarr\n"
        )
    assert stored("registered.zarr") == stored("all.zarr")
    assert (
        Path("p.csv").read_bytes() == Path("pairs.csv").read_bytes()
        and "1 and 2: correlation" in Path("b.html").read_text()
    )


def test_masks_of_tiles(tmp_path, monkeypatch, capsys):
    """From files on the command line, and inputs of a recipe; a value without data as well."""
    monkeypatch.chdir(tmp_path)
    world = np.maximum(tissue(6, 60, 110), 1)
    for k, (y, x) in enumerate([(0, 0), (2, 42)]):
        tile, mask = world[:, y : y + 50, x : x + 60].copy(), np.ones((6, 50, 60), "u1")
        mask[k * 3 :, :20] = tile[k * 3 :, :20] = 0
        bv.compute(bv.open(tile).to(f"{k}.zarr"))
        bv.compute(bv.open(mask).to(f"mask-{k}.zarr"))
    for name in ("", "mask-"):
        rows = "".join(f"{name}{k}.zarr,0,0,{40 * k}\n" for k in range(2))
        Path(f"{name}tiles.csv").write_text("path,z,y,x\n" + rows)
    words = ["register-tiles", "tiles.csv", "--max-shift", "4"]
    assert main([*words, "--mask", "mask-tiles.csv", "-o", "a.csv"]) == 0
    assert main([*words, "--nodata", "0", "-o", "b.csv"]) == 0
    by_recipe(
        "inputs: {tiles: tiles.csv, masks: mask-tiles.csv}\n"
        "register: {register_tiles: {input: tiles, max_shift: 4, mask: masks, table: c.csv}}\n"
        "steps: {fuse: {input: tiles, transforms: c.csv, mask: masks}}\noutput: o.zarr"
    )
    fused = bv.fuse(bv.open_tiles("tiles.csv")[0], "c.csv", nodata=0)
    np.testing.assert_array_equal(np.asarray(bv.open("o.zarr")), np.asarray(fused))
    tables = [re.sub(r"(?m)^[^,]*,", "", Path(f"{n}.csv").read_text()) for n in "abc"]
    assert tables[0] == tables[1] == tables[2]
    table = bv.open_tiles("a.csv")[1]
    np.testing.assert_allclose(table[1, :, 3] - table[0, :, 3], (0, 2, 42), atol=0.1)
    assert main([*words, "--mask", "mask-0.zarr", "-o", "mask-0.zarr", "--overwrite"]) == 2
    assert "mask-0.zarr is also an input" in capsys.readouterr().err
    recipe = parse_recipe(Path("recipe.yaml").read_text().replace("mask: masks, ", ""))
    masked = read_recipe("recipe.yaml")
    plain, more = (planned_registrations(r, 1 << 34)[0] for r in (recipe, masked))
    assert more.predicted_memory >= plain.predicted_memory


def test_slices_and_frames(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    world, shifts = tissue(80, 90), [(0, 0), (3, -4), (1, 2)]
    stack = np.stack([world[8 + y : 72 + y, 8 + x : 72 + x] for y, x in shifts])
    bv.compute(bv.open(stack).to("stack.tif"))
    words = ["register-slices", "stack.tif", "-o", "a.csv", "--reference", "0"]
    assert main([*words, "--report", "a.html"]) == 0
    page = Path("a.html").read_text()
    assert "rows without links" in page and page.count("<svg") == 4
    assert (
        main(["chain", "stack.tif", "apply_transforms", "--transforms", "a.csv", "-o", "b.zarr"])
        == 0
    )
    aligned = np.asarray(bv.open("b.zarr"))[:, 10:-10, 10:-10].astype(int)
    assert abs(aligned - aligned[0]).mean() < 3
    steps = "steps: {apply_transforms: {transforms: %s}}\n"
    by_recipe(f"input: stack.tif\n{steps % 'a.csv'}output: recipe.zarr\n")
    register = "register: {register_slices: {reference: 0, table: t.csv, report: t.html}}"
    both = f"input: stack.tif\n{register}\n{steps % 't.csv'}output: both.zarr\n"
    by_recipe(both)
    assert (
        Path("t.csv").read_bytes() == Path("a.csv").read_bytes()
        and "rows without links" in Path("t.html").read_text()
    )
    capsys.readouterr()
    assert main(["run", "recipe.yaml"]) == 2
    assert (
        "recipe.yaml:2: register_slices: t.csv exists; give a different path, or --overwrite"
        in capsys.readouterr().err
    )
    for name in ("t.csv", "t.html"):
        Path(name).unlink()
    assert main(["run", "recipe.yaml"]) == 2
    assert "output: both.zarr exists" in capsys.readouterr().err and not Path("t.csv").exists()
    assert main(["run", "recipe.yaml", "--overwrite"]) == 0
    assert " register_slices 3/3 slices, " in capsys.readouterr().err
    assert main(["run", "recipe.yaml", "--overwrite", "--quiet"]) == 0
    assert not capsys.readouterr().err
    table = bv.register_slices(bv.open("stack.tif"), reference=0)
    bv.compute(bv.apply_transforms(bv.open("stack.tif"), table).to("python.zarr"))
    assert stored("b.zarr") == stored("recipe.zarr") == stored("python.zarr") == stored("both.zarr")
    movie = ["stack.tif", "--axes", "tyx"]
    assert main(["register-frames", *movie, "-o", "f.csv"]) == 0
    by_recipe(f"input: {{path: stack.tif, axes: tyx}}\n{steps % 'f.csv'}output: f.zarr\n")
    table = bv.register_frames(frames := bv.open("stack.tif", axes="tyx"))
    bv.compute(bv.apply_transforms(frames, table).to("g.zarr"))
    register = "register: {drift: {op: register_frames, table: d.csv, report: d.html}}"
    of_movie = (
        f"input: {{path: stack.tif, axes: tyx}}\n{register}\n{steps % 'd.csv'}output: h.zarr\n"
    )
    by_recipe(of_movie)
    assert stored("f.zarr") == stored("g.zarr") == stored("h.zarr") and Path("d.html").exists()
    capsys.readouterr()
    assert main(["register-frames", *movie, "--report", "f.html"]) == 2
    assert "give its path with -o" in capsys.readouterr().err
    with pytest.raises(FileNotFoundError, match="the table of register_slices or register_frames"):
        bv.apply_transforms(frames, "none.csv")
    assert main(["register-frames", "stack.tif", "--axes", "tyx", "--skip", "2"]) == 0
    assert capsys.readouterr().out.startswith('"t","y","x","m_yy"')
    assert main(["register-slices", "stack.tif", "--model", "elastic"]) == 2
    assert "model=" in capsys.readouterr().err


def test_a_plan_has_what_a_registration_reads_and_needs(tmp_path, monkeypatch, capsys):
    """The smallest memory works, a byte less is refused before anything is read, also for the second one."""
    monkeypatch.chdir(tmp_path)
    world = tissue(80, 90)
    stack = np.stack([world[8 + k : 72 + k, 8:72] for k in (0, 3)])
    bv.compute(bv.open(stack).to("stack.tif"), runner=None)
    for k in range(2):
        tile = bv.open(world[None, :64, 26 * k : 26 * k + 64])
        bv.compute(tile.to(f"tile{k}.tif"), runner=None)
    Path("stage.csv").write_text("path,z,y,x\ntile0.tif,0,0,0\ntile1.tif,0,0,26\n")
    film = "{path: stack.tif, axes: tyx}"
    cases = [
        ("input: stack.tif", "apply_transforms: {transforms", "register_slices", "max_side"),
        (f"input: {film}", "apply_transforms: {transforms", "register_frames", "max_side"),
        ("input: stage.csv", "fuse: {transforms", "register_tiles", "max_shift"),
    ]
    for read, step, name, remedy in cases:
        Path("recipe.yaml").write_text(
            f"{read}\nregister: {{{name}: {{table: t.csv}}, second: {{op: {name}, table: u.csv}}}}\n"
            f"steps: {{{step}: t.csv}}}}\noutput: o.zarr\n"
        )
        assert main(["run", "recipe.yaml", "--dry-run"]) == 0
        lines = capsys.readouterr().out.splitlines()
        planned = (
            rf"{name}, before the plan: reads \d.* of input; memory .* predicted of .* allowed, at least .*; "
            r"takes about \d.* s"
        )
        assert all(re.match(planned, line) for line in lines[:2])
        assert lines[2:] == ["the steps are planned when t.csv, u.csv exists"]
        words = ["estimate", "recipe.yaml", "--machine-type", "2x8GiB"]
        assert main(words) == 0
        lines = capsys.readouterr().out.splitlines()
        assert all(re.match(planned, line) for line in lines[:2])
        assert lines[2:] == ["the steps are estimated when t.csv, u.csv exists"]
        assert main([*words, "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)["registrations"]
        assert [row["name"] for row in rows] == [name, name] and rows[0]["bytes_read"] > 0
        assert rows[0]["core_seconds"] >= rows[0]["seconds"] > 0
        recipe = read_recipe("recipe.yaml")
        smallest = planned_registrations(recipe, 1 << 32)[0].smallest_memory
        says = f"recipe.yaml:2: {name}: memory .* works is {smallest} bytes .* smaller {remedy} needs less"
        with pytest.raises(RecipeError, match=says):
            list(register_inputs(recipe, memory=smallest - 1))
        assert not Path("t.csv").exists()
        assert main(["run", "recipe.yaml", "--dry-run", "--memory", str(smallest - 1)]) == 2
        assert re.search(says, capsys.readouterr().err)
        for file in register_inputs(recipe, memory=smallest):
            Path(file).unlink()


def test_seconds_of_registrations_follow_their_work_and_the_speeds(tmp_path, monkeypatch):
    """More pairs, other models and a slower machine take longer; more cores take less."""
    monkeypatch.chdir(tmp_path)
    bv.compute(bv.open(np.zeros((20, 64, 64), "u1")).to("stack.zarr"), runner=None)

    def planned(how, cores=4):
        recipe = parse_recipe(
            f"input: stack.zarr\nregister: {{register_slices: {{{how}, table: t.csv}}}}\n"
            "steps: {apply_transforms: {transforms: t.csv}}\noutput: o.zarr\n"
        )
        return planned_registrations(recipe, 1 << 34, cores=cores)[0]

    plain = planned("neighbours: 2")
    compared = (19 + 18) * 64 * 64 * images.COSTS["translation"][0] / 1e9
    assert compared < plain.core_seconds < compared + 0.1
    assert str(plain).endswith(" s by rough costs")
    more = planned("neighbours: 4").core_seconds - plain.core_seconds
    assert more == pytest.approx((17 + 16) / (19 + 18) * compared)
    assert planned("neighbours: 2, model: affine").core_seconds > plain.core_seconds
    assert planned("neighbours: 2, skip: [3, 4, 5, 6]").core_seconds < plain.core_seconds
    assert planned("neighbours: 2", cores=1).seconds > 1.5 * plain.seconds
    key = speeds.registration_key("translation", 2)
    slow = speeds.Speeds({key: 1000.0, "Other f": 1.0}, {"a": 0.1}, {"b": 0.1}, 1.0, {})
    monkeypatch.setattr("beam_volumes.recipes.registration.load", lambda: slow)
    measured = planned("neighbours: 2")
    assert measured.core_seconds == pytest.approx(1000 * compared, rel=0.01)
    assert "by rough costs" not in str(measured) and measured.is_measured


def test_a_prior_is_checked_by_plans_as_by_the_call(tmp_path, monkeypatch):
    """Except for the rows of a table that an earlier registration of the recipe writes."""
    monkeypatch.chdir(tmp_path)
    bv.compute(bv.open(tissue(3, 32, 32).astype("u1")).to("0.zarr"), runner=None)
    Path("two.csv").write_text("y,x\n0,0\n0,0\n")

    def planned(prior, trend="trend: 2, "):
        recipe = parse_recipe(
            "input: 0.zarr\nregister:\n"
            "  register_slices: {table: a.csv}\n"
            f"  second: {{op: register_slices, {trend}prior: {prior}, table: b.csv}}\n"
            "steps: {apply_transforms: {transforms: b.csv}}\noutput: out.zarr\n"
        )
        return planned_registrations(recipe, 1 << 34)

    assert len(planned("a.csv")) == 2
    for prior in ("a.csv", "two.csv"):
        with pytest.raises(
            RecipeError, match='register_slices: prior= replaces a trend, and trend="keep"'
        ):
            planned(prior, "")
    with pytest.raises(RecipeError, match="register_slices: prior has 2 entries for 3 slices"):
        planned("two.csv")
    Path("a.csv").write_text("y,x\n0,0\n0,0\n")  # it will be replaced
    assert len(planned("a.csv")) == 2
    with pytest.raises((RecipeError, FileNotFoundError), match=r"missing\.csv"):
        planned("missing.csv")


_REFUSED = {
    "skip: [3]": "skip=3 is not a number from 0 to 2 along",
    "method: keypoints": 'method="keypoints" finds rotations',
    "model: bent": "model='bent' is not available",
    "reference: 7": "reference=7 is not a number",
    "min_quality: 2": "min_quality=2 is not a correlation",
}


@pytest.mark.parametrize(
    ("name", "how"),
    [("register_slices", how) for how in _REFUSED]
    + [("register_frames", how) for how in _REFUSED]
    + [("register_tiles", how) for how in [*_REFUSED][2:]],
)
def test_plans_refuse_the_parameters_that_a_registration_refuses(tmp_path, monkeypatch, name, how):
    monkeypatch.chdir(tmp_path)
    axes = "tyx" if name == "register_frames" else "zyx"
    for k in range(2):
        bv.compute(bv.open(np.zeros((3, 32, 32), "u1"), axes=axes).to(f"{k}.zarr"))
    Path("tiles.csv").write_text("path,z,y,x\n0.zarr,0,0,0\n1.zarr,0,0,20\n")
    given, step = "0.zarr", "apply_transforms"
    if name == "register_tiles":
        given, step = "tiles.csv", "fuse"
    recipe = parse_recipe(
        f"input: {given}\nregister: {{{name}: {{{how}, table: t.csv}}}}\n"
        f"steps: {{{step}: {{transforms: t.csv}}}}\noutput: out.zarr\n"
    )
    with pytest.raises(RecipeError, match=f"{name}: {_REFUSED[how]}"):
        planned_registrations(recipe, 1 << 34)


def test_slices_that_are_too_large_for_an_array_are_refused_by_plans(monkeypatch):
    stack = bv.open(np.zeros((3, 40, 40), "u1"))
    monkeypatch.setattr(bv.options, "max_inmemory", 3 * 40 * 40)
    bv.register_slices(stack)
    monkeypatch.setattr(bv.options, "max_inmemory", 3 * 40 * 40 - 1)
    for function in (bv.register_slices, needs_of_slices):
        with pytest.raises(
            ValueError, match=r"register_slices: the downsampled slices have 4\.7 KiB"
        ):
            function(stack)


def test_memory_of_a_recipe_limits_the_pairs_at_a_time(monkeypatch):
    monkeypatch.setattr(images.os, "cpu_count", lambda: 8)
    needs = images.Needs(None, 0, images=500, compared=1000, pairs=10, remedy="")
    assert needs.threads == 8
    base = 1_000_000 - 3 * needs.pair
    with limited(MemoryLimit(total=1_000_500, base=base)):
        assert needs.threads == 3


@pytest.mark.parametrize("shape", [(400, 400), (50, 60, 50)])
def test_two_images_are_aligned_in_the_bytes_that_are_planned(shape):
    fixed, moving = (tissue(*shape).astype("f4") for _ in range(2))
    marked = np.where(np.indices(shape)[-1] < shape[-1] // 3, np.nan, fixed)
    for model, first in itertools.product(("translation", "affine"), (fixed, marked)):
        tracemalloc.start()
        images.aligned(first, moving, model, [5] * len(shape), np.ones(len(shape)))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= images._bytes(fixed.size)


def test_the_channel_of_tiles(tmp_path, monkeypatch, capsys):
    """By number or name on the command line and in a recipe; names may be numbers in quotes."""
    monkeypatch.chdir(tmp_path)
    film, rng = tissue(60, 100).astype("u1"), np.random.default_rng(0)
    for k, x in enumerate((0, 42)):
        tile = film[:, x : x + 58]
        both = bv.stack([rng.integers(0, 255, tile.shape, "u1"), tile], names=["405", "488"])
        bv.compute(both.to(f"{k}.zarr"))
    Path("tiles.csv").write_text("path,y,x\n0.zarr,0,0\n1.zarr,0,40\n")
    words = ["register-tiles", "tiles.csv", "--max-shift", "6", "--quiet"]
    tables = []
    for channel in ("1", "-1", "'488'"):
        assert main([*words, f"--channel={channel}", "-o", "t.csv", "--overwrite"]) == 0
        by_recipe(
            f"input: tiles.csv\nregister: {{register_tiles: {{channel: {channel}, max_shift: 6, "
            "table: r.csv, report: r.html}}\nsteps: {fuse: {transforms: r.csv}}\noutput: o.zarr"
        )
        assert bv.open("o.zarr").channels == ("405", "488")
        tables += [Path("t.csv").read_text(), Path("r.csv").read_text()]
        for name in ("r.csv", "r.html"):
            Path(name).unlink()
        shutil.rmtree("o.zarr")
    assert len(set(tables)) == 1
    for channel, says in (("488", "a name needs quotes: '488'"), ("1.5", "neither a number nor")):
        capsys.readouterr()
        assert main([*words, "--channel", channel]) == 2
        assert says in capsys.readouterr().err


def test_keypoints_of_rotated_slices(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    slices = np.stack([np.rot90(tissue(80, 80), k) for k in (0, 1, 2)])
    bv.compute(bv.open(slices).to("stack.tif"))
    words = ["register-slices", "stack.tif", "--model", "rigid", "--method", "keypoints"]
    assert main([*words, "--reference", "0", "-o", "a.csv"]) == 0
    by_recipe(
        "input: stack.tif\nregister: {register_slices: {model: rigid, method: keypoints, "
        "reference: 0, table: b.csv}}\nsteps: {apply_transforms: {transforms: b.csv}}\noutput: o.zarr"
    )
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()
    aligned = np.asarray(bv.open("o.zarr")).astype(int)[:, 2:-2, 2:-2]
    assert abs(aligned - aligned[0]).max() <= 2


@pytest.mark.parametrize(
    ("register", "says"),
    [
        (
            "{register_slices: {table: t.csv}}",
            "t.csv does not exist yet: `beam-volumes run` writes it",
        ),
        (
            "{register_slices: {model: rigid}}",
            "register_slices needs table: a path that ends in .csv",
        ),
        ("{register_slices: {table: t.csv, modle: rigid}}", "has no 'modle'.*model"),
        (
            "{a: {op: register, table: t.csv}}",
            "register: has no operation 'register'; use register_slices",
        ),
        ("{register_tiles: {table: t.csv}}", "register_tiles needs tiles: an XML or CSV file"),
        ("{register_slices: {table: t.csv, input: no}}", "needs input: one of input"),
        (
            "{register_slices: {table: t.csv, mask: m.zarr}}",
            "mask: 'm.zarr' is not an input; use one of",
        ),
        ("{register_slices: {table: 's3://b/t.csv'}}", "table: 's3://b/t.csv' is not the path"),
    ],
)
def test_refusals_of_recipes(register, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    steps = "steps: {apply_transforms: {transforms: t.csv}}"
    text = f"input: a.tif\nregister: {register}\n{steps}\noutput: o.zarr"
    with pytest.raises(RecipeError, match=f"recipe:2: .*{says}"):
        build(parse_recipe(text))


def test_resuming_completes_the_files_of_a_registration(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    world, shifts = tissue(80, 90), [(0, 0), (3, -4), (1, 2)]
    stack = np.stack([world[8 + y : 72 + y, 8 + x : 72 + x] for y, x in shifts])
    bv.compute(bv.open(stack).to("stack.tif"), runner=None, progress=False)
    stage = "".join(f"tile{k}.tif,0,0,{26 * k}\n" for k in range(2))
    Path("stage.csv").write_text("path,z,y,x\n" + stage)
    for k in range(2):
        tile = bv.open(world[None, :64, 26 * k : 26 * k + 64])
        bv.compute(tile.to(f"tile{k}.tif"), runner=None, progress=False)
    recipes = [
        "input: stack.tif\nregister: {register_slices: {table: t.csv, report: r.html}}\n",
        "input: stage.csv\nregister: {register_tiles: {max_shift: 4, table: t.csv, pairs: p.csv, "
        "report: r.html}}\n",
    ]
    for text in recipes:
        recipe = parse_recipe(text + "output: o.zarr\n")
        files = list(register_inputs(recipe, overwrite=True))
        whole = {name: Path(name).read_bytes() for name in files}
        assert [*register_inputs(recipe, keep=True)] == []
        for name in files:
            Path(name).unlink()
            assert [*register_inputs(recipe, keep=True)] == [name]
            assert name == "r.html" or Path(name).read_bytes() == whole[name]
        table = whole["t.csv"]
        ends = [n + 1 for n, byte in enumerate(table) if byte == ord("\n")]
        for n in (0, ends[0], ends[1], ends[-1] - 1, len(table) - 4):
            Path("t.csv").write_bytes(table[:n])
            assert [*register_inputs(recipe, keep=True)] == ["t.csv"]
            assert Path("t.csv").read_bytes() == table
        edited = table.replace(b"\n", b"\r\n")
        Path("t.csv").write_bytes(edited)
        assert [*register_inputs(recipe, keep=True)] == []
        Path("t.csv").write_bytes(edited[: ends[1]])
        with pytest.raises(ValueError, match=r"t\.csv is incomplete, and its rows differ"):
            list(register_inputs(recipe, keep=True))
        assert Path("t.csv").read_bytes() == edited[: ends[1]]
        for name in files:
            Path(name).unlink()


@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
def test_a_registration_replaces_no_input_and_no_other_file(
    tmp_path, monkeypatch, capsys, overwrite
):
    monkeypatch.chdir(tmp_path)
    np.save("em.npy", np.zeros((3, 8, 9)))
    before = Path("em.npy").read_bytes()
    for files in ("table: t.csv, report: em.npy", "table: t.csv, report: ./t.csv"):
        by = f"input: em.npy\nregister: {{register_slices: {{{files}}}}}\noutput: o.zarr\n"
        Path("r.yaml").write_text(by)
        assert main(["run", "r.yaml", *overwrite]) == 2
        assert "is also an input or another output" in capsys.readouterr().err
    Path("r.yaml").write_text(
        "input: em.npy\nregister: {register_slices: {table: t.csv}}\noutput: t.csv\n"
    )
    assert main(["run", "r.yaml", *overwrite]) == 2
    assert main(["register-slices", "em.npy", "-o", "em.npy", *overwrite]) == 2
    assert Path("em.npy").read_bytes() == before and not Path("t.csv").exists()
