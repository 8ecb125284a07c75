"""Each output has a record of its origin, which no foreign reader minds."""

import json
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
import zarr

import beam_volumes as bv
from beam_volumes.cli.main import main
from beam_volumes.plan.planner import make_plan
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.session.begin import begin
from beam_volumes.session.slabs import sweep_slab
from beam_volumes.storage.formats.format import PROVENANCE

IMAGE = np.random.default_rng(3).integers(0, 256, (6, 20, 30)).astype("u1")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def em():
    bv.compute(bv.open(IMAGE, voxel_size=8, unit="nm").to("em.zarr"), runner=None)
    return bv.open("em.zarr")


def told(path):
    def refuse(name):
        raise ValueError(f"{name} is no JSON")

    return json.loads(Path(path).read_text(), parse_constant=refuse)


PLACES = {
    "a.zarr": f"a.zarr/{PROVENANCE}",
    "a.ome.zarr": f"a.ome.zarr/0/{PROVENANCE}",
    "a.n5": f"a.n5/{PROVENANCE}",
    "a.npy": f".a.npy.parts/{PROVENANCE}",
    "a.h5": f".a.h5.parts/{PROVENANCE}",
}


@pytest.mark.parametrize("path", PLACES)
def test_beside_every_output(path, capsys):
    smooth = bv.gaussian_filter(em(), "16 nm")
    bv.compute(smooth[1:].to(path), runner=None)
    found = told(PLACES[path])
    assert found["output"].endswith(path)
    assert found["versions"]["beam_volumes"] == bv.__version__
    assert found["versions"]["numpy"] == np.__version__
    assert found["begun"] < found["ended"]
    (source,) = found["inputs"]
    assert source["name"].endswith("em.zarr")
    assert source["voxel_size"] == [8, 8, 8]
    assert source["files"][0]["file"].endswith("em.zarr/zarr.json")
    assert len(source["digest"]) == 32
    (step,) = [s for s in found["steps"] if s.get("step") == "gaussian_filter"]
    assert step["parameters"]["dtype"] == "float32"
    assert set(step["of"]) <= {s["id"] for s in found["steps"]}
    assert found["plan"]["passes"]
    assert bv.verify(path) == []
    assert main(["info", path]) == 0
    said = capsys.readouterr().out
    assert "em.zarr" in said.partition("made of")[2].splitlines()[0]
    assert "gaussian_filter" in said.partition("made with")[2]


def test_of_tables_and_several_outputs():
    labels = bv.label(em() > 200)
    table = bv.regionprops_table(labels)
    bv.compute(labels.to("l.zarr"), table.to("t.parquet"), table.to("t.csv"), runner=None)
    one, *others = (told(f"{p}/{PROVENANCE}") for p in ("l.zarr", "t.parquet", ".t.csv.parts"))
    for other in others:
        assert {**other, "output": 0, "ended": 0, "file": 0} == {
            **one,
            "output": 0,
            "ended": 0,
            "file": 0,
        }
    import pyarrow.parquet as pq

    assert pq.read_table("t.parquet").num_rows == int(labels.num_labels)
    assert bv.verify("l.zarr") == []
    again = bv.compute(table.to("t.parquet"), runner=None, overwrite=True)
    assert again.endswith("t.parquet")


def test_recipes_are_told():
    em()
    recipe = {"input": "em.zarr", "steps": {"gaussian_filter": {"sigma": 1}}, "output": "a.zarr"}
    Path("recipe.yaml").write_text(json.dumps(recipe))
    set_ = ["--set", "steps.gaussian_filter.sigma=2", "--crop", "1:5,,"]
    assert main(["run", "recipe.yaml", *set_, "--runner", "none", "--quiet"]) == 0
    found = told(f"a.zarr/{PROVENANCE}")["recipe"]
    assert found["steps"]["gaussian_filter"]["sigma"] == 2
    assert found["crop"] == "1:5,,"


@pytest.mark.parametrize("options", [{}, {"ome_version": "0.4"}])
def test_groups_are_listed_as_before(options):
    bv.compute(em().to("a.ome.zarr", **options), runner=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        group = zarr.open_group("a.ome.zarr", mode="r")
        assert [name for name, _ in group.members()] == ["0"]
        np.testing.assert_array_equal(group["0"][:], IMAGE)
        np.testing.assert_array_equal(zarr.open_array("em.zarr", mode="r")[:], IMAGE)


def test_overwriting_removes_it_and_verify_misses_it():
    v = em()
    bv.compute((v + 1).to("a.zarr"), runner=None)
    first = told(f"a.zarr/{PROVENANCE}")["run"]
    session = begin(make_plan([(v + 2).to("a.zarr")], RunOptions()), RunOptions(overwrite=True))
    session.prepare()
    assert not os.path.exists(f"a.zarr/{PROVENANCE}")
    sweep_slab(session, 0, 0, {}, {})
    assert bv.verify("a.zarr") == []  # the run has not ended
    session.end()
    assert told(f"a.zarr/{PROVENANCE}")["run"] == session.run_id != first
    before = Path(f"a.zarr/{PROVENANCE}").read_bytes()
    session.end()
    assert Path(f"a.zarr/{PROVENANCE}").read_bytes() == before
    os.remove(f"a.zarr/{PROVENANCE}")
    assert "is missing or damaged" in bv.verify("a.zarr")[0]
    Path(f"a.zarr/{PROVENANCE}").write_text("{")
    assert "damaged" in bv.verify("a.zarr")[0]
    Path(f"a.zarr/{PROVENANCE}").write_text('{"run": "another"}')
    assert "another run" in bv.verify("a.zarr")[0]


def test_a_resumed_run_tells_when_it_was_begun():
    target = (em() + 1).to("a.zarr", chunks=(3, 20, 30))
    asked = RunOptions(slab=(3, 20, 30))
    session = begin(make_plan([target], asked), asked)
    session.prepare()
    sweep_slab(session, 0, 1, {}, {})
    begun = json.loads(Path("a.zarr.run/manifest.json").read_text())["created"]
    bv.compute((bv.open("em.zarr") + 1).to("a.zarr", chunks=(3, 20, 30)), runner=None, resume=True)
    found = told(f"a.zarr/{PROVENANCE}")
    assert found["run"] == session.run_id
    assert found["steps"]
    assert abs(begun - np.datetime64(found["begun"][:26], "us").astype(float) / 1e6) < 1e-3


def test_a_file_that_another_program_has_replaced_is_not_told_of(capsys):
    bv.compute(em().to("a.npy"), runner=None)
    np.save("a.npy", IMAGE[:3])
    assert main(["info", "a.npy"]) == 0
    assert "made by" not in capsys.readouterr().out


def test_what_has_no_run_has_none(capsys):
    zarr.create_array("foreign.zarr", shape=(4, 5, 6), dtype="u1")
    assert main(["info", "foreign.zarr"]) == 0
    assert "made by" not in capsys.readouterr().out
    Path(f"foreign.zarr/{PROVENANCE}").write_text("[1, 2]")
    assert main(["info", "foreign.zarr", "--json"]) == 0
    assert "provenance" not in capsys.readouterr().out


def test_odd_parameters_are_texts():
    nan = bv.where(em() > 3, np.nan, 1.0)
    odd = bv.map_overlap(lambda a: a, bv.convolve(nan, np.ones((1, 9, 9))), depth=0)
    bv.compute(odd.to("a.zarr"), runner=None)
    text = json.dumps(told(f"a.zarr/{PROVENANCE}")["steps"])
    assert "lambda" in text
    assert "0x" not in text
