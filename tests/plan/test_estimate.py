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
    one, ten = (bv.estimate(plan, "n2-standard-4", n) for n in (1, 10))
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


def test_machines_that_are_not_known_are_refused(plan):
    for said in ("n2-standart-4", "q9-standard-4", (0, "1GiB"), None):
        with pytest.raises(ValueError, match="is not known: give a name such as"):
            bv.estimate(plan, said)
    with pytest.raises(ValueError, match="workers=0: give the number of machines"):
        bv.estimate(plan, "m5.4xlarge", 0)


def test_the_command(tmp_path, capsys):
    path = stored(tmp_path, membranes()).node.source.name
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f"input: {path}\nsteps: {{label: null}}\noutput: {tmp_path}/out.zarr\n")
    command = ["estimate", str(recipe), "--machine-type", "c3-highcpu-4", "--machines", "2"]
    assert main([*command, "--json", "--vcpu-hour", "0.1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["machines"] == 2 and found["cost"] == pytest.approx(found["vcpu_hours"] * 0.1)
    assert main(command) == 0
    assert "2 machines of c3-highcpu-4 (4 vCPUs, 8 GiB)" in capsys.readouterr().out
    assert main([*command[:3], "huge"]) == 2
