"""What a plan would take on machines of a kind: sums of the plan's own numbers, and what does not fit."""

import json

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.cli.main import main
from tests.transforms.trees import membranes, stored


@pytest.fixture
def plan():
    v = bv.open(np.zeros((256, 512, 512), "u1"))
    smooth = bv.gaussian_filter(v, 2)
    cells = bv.label(smooth > bv.mean(smooth)).to("cells.zarr")
    return bv.plan(cells, memory="3GiB", workers=2, threads=4, slab=(16, 512, 512))


def test_it_adds_up_what_the_plan_says(plan):
    one, ten = (bv.estimate(plan, "4x16GiB", n) for n in (1, 10))
    assert one.bytes_read == plan.bytes_read and one.bytes_written == plan.bytes_written
    # Ten machines are ten times as fast only if slabs are shared out evenly.
    assert one.hours / 10 < ten.hours < one.hours / 4
    assert one.vcpu_hours == pytest.approx(4 * one.hours)
    assert one.core_hours <= one.vcpu_hours < ten.vcpu_hours
    slabs = sum(len(p.grid) for p in plan.passes)
    assert 1000 * slabs < one.shuffle_bytes < 3000 * slabs < one.found_bytes
    assert one.memory_needed <= 5 << 30
    assert one.cost() == 0
    assert one.cost(vcpu_hour=1, gib_hour=0.5) == pytest.approx(one.hours * (4 + 8))
    assert one.cost(shuffle_gib=2**30, request=1) == one.shuffle_bytes + one.requests
    many = bv.estimate(plan, (8, "2GiB"), 100)
    assert len(many.remarks) == 3 and "plan with memory='1GiB'" in str(many)
    assert "more than 8 machines would have nothing to do" in str(many)
    assert "threads=8" in str(many)


def test_bandwidth_limits_a_machine(plan):
    free, slow = (bv.estimate(plan, m) for m in ("4x16GiB", "4x16GiBx1MiB"))
    moved = plan.bytes_read + plan.bytes_written
    assert slow.hours > free.hours == bv.estimate(plan, (4, "16GiB", "1TiB")).hours
    assert slow.hours == pytest.approx(moved / (1 << 20) / 3600)
    assert slow.to_dict()["machine"] == "4x16GiBx1MiB"


def test_machines_that_cannot_be_read_are_refused(plan):
    for given in ("n2-standard-4", "4x", "x1GiB", (0, "1GiB"), "4x8GiBx0", "4x8GiBx1GiBx2", None):
        with pytest.raises(ValueError, match="is no machine; give vCPUs and memory"):
            bv.estimate(plan, given)
    with pytest.raises(ValueError, match="workers=0: give the number of machines"):
        bv.estimate(plan, "16x64GiB", 0)


def test_the_command(tmp_path, capsys):
    path = stored(tmp_path, membranes()).node.source.name
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f"input: {path}\nsteps: {{label: null}}\noutput: {tmp_path}/out.zarr\n")
    command = ["estimate", str(recipe), "--machine-type", "4x8GiB", "--machines", "2"]
    assert main([*command, "--json", "--vcpu-hour", "0.1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["machines"] == 2 and found["cost"] == pytest.approx(found["vcpu_hours"] * 0.1)
    assert main(command) == 0
    assert "2 machines of 4 vCPUs and 8 GiB" in capsys.readouterr().out
    assert main([*command[:3], "huge"]) == 2
