"""What a plan would take on machines of a kind: sums of the plan's own numbers, and what does not fit."""

import json

import numpy as np
import pytest
import tensorstore as ts

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
    assert one.hours / 10 < ten.limits["cores"] < one.hours / 4
    assert one.limits["bandwidth"] == one.limits["requests"] == 0  # from a disk to it
    assert ten.hours > max(ten.limits.values()) - 1e-12
    assert one.vcpu_hours == pytest.approx(4 * one.hours)
    assert one.core_hours <= one.vcpu_hours < ten.vcpu_hours
    slabs = sum(len(p.grid) for p in plan.passes)
    assert 1000 * slabs < one.shuffle_bytes < 3000 * slabs < one.found_bytes
    assert one.memory_needed <= 5 << 30
    assert one.request_cost == 0  # of a disk
    assert one.cost(vcpu_hour=1, gib_hour=0.5) == pytest.approx(one.hours * (4 + 8))
    prices = {"vcpu_hour": 0, "gib_hour": 0}
    assert one.cost(shuffle_gib=2**30, request=1, **prices) == one.shuffle_bytes + one.requests
    assert ten.cost(**prices) == pytest.approx(
        5e-6 * ten.requests_written + 0.4e-6 * ten.requests_read
    )
    assert ten.requests_read == sum(p.chunks_read for p in plan.passes)
    assert ten.requests == ten.requests_read + ten.requests_written
    many = bv.estimate(plan, (8, "2GiB"), 100)
    assert (
        len(many.remarks) == 3
        and "machines=100" in str(many)
        and "plan with memory='1GiB'" in str(many)
    )
    assert "more than 8 machines would be idle" in str(many)
    assert "threads=8" in str(many)


def test_bandwidth_limits_a_machine(plan):
    free, slow = (bv.estimate(plan, m) for m in ("4x16GiB", "4x16GiBx1MiB"))
    moved = plan.bytes_read + plan.bytes_written
    assert slow.hours > free.hours == bv.estimate(plan, (4, "16GiB", "1TiB")).hours
    assert slow.hours == pytest.approx(moved / (1 << 20) / 3600)
    assert slow.bound_by == "bandwidth" and free.bound_by == "cores"
    assert slow.to_dict()["machine"] == "4x16GiBx1MiB"


def test_a_store_limits_requests(plan):
    stores = ("s3,writes=1,reads=1e9", {"name": "s3", "reads": 1, "writes": 1e9, "latency": 0})
    of_writes, of_reads = (bv.estimate(plan, "4x16GiB", 2, store=store) for store in stores)
    assert of_writes.bound_by == of_reads.bound_by == "requests"
    assert of_writes.hours == pytest.approx(of_writes.requests_written / 3600, rel=0.01)
    assert of_reads.limits["requests"] == pytest.approx(of_reads.requests_read / 3600)
    # Each of the two machines has as many requests under way as 64 MiB hold.
    slow = bv.estimate(plan, "4x16GiB", 2, store="gcs,latency=100,reads=1e9,writes=1e9")
    waits = [
        100 * max(1, p.bytes_read / 2**26, p.chunks_read / p.chunks_read)
        for p in plan.passes
        if p.chunks_read
    ]
    assert slow.limits["requests"] >= max(waits) / 2 / 3600
    # Rates that double while a run goes on.
    steady, growing = (
        bv.estimate(plan, "4x16GiB", store=f"s3,writes=1,reads=1,latency=0{more}").hours
        for more in ("", ",doubling=60")
    )
    assert growing < steady


def test_stores_that_cannot_be_read_are_refused(plan):
    for given in ("azure", "s3,prefixes", 3, {"prefixes": 2}):
        with pytest.raises(ValueError, match="is not a store; give 's3', 'gcs'"):
            bv.estimate(plan, "4x16GiB", store=given)
    with pytest.raises(ValueError, match="did you mean 'prefixes'"):
        bv.estimate(plan, "4x16GiB", store="s3,prefix=3")
    with pytest.raises(ValueError, match="reads='no' is not a number above 0"):
        bv.estimate(plan, "4x16GiB", store="s3,reads=no")


def test_machines_have_names_and_a_bucket(plan):
    google, amazon = (bv.estimate(plan, m, 3) for m in ("n2-highmem-8", "c6i.2xlarge"))
    assert (google.machine.gib, google.store.name) == (64, "gcs")
    assert (amazon.machine.gib, amazon.store.name) == (16, "s3")
    assert bv.estimate(plan, "r5.large").machine.vcpus == 2
    assert bv.estimate(plan, "n2-highmem-8").store.name == "disk"


def test_outputs_of_very_many_objects_are_advised_against(tmp_path):
    v = bv.open(one_chunk(tmp_path, (5000, 35000, 50000)))
    own = {"chunks": (16, 128, 128), "zarr_version": 2}
    small = bv.plan(v.to("out.zarr", chunks=(16, 64, 64), shards=False))
    old = bv.plan(v.to("out.zarr", **own | {"chunks": (16, 64, 64)}))
    count = 313 * 547 * 782
    mask = (v > bv.mean(v)).to("out.zarr", chunks=(16, 64, 64), shards=False)
    stored = bv.plan(bv.gaussian_filter(v, 1) > bv.threshold_otsu(bv.gaussian_filter(v, 1)), mask)
    assert "outputs with larger shards= would write" in stored.explain()
    for plan, remedy in ((small, "shards=True"), (old, "a format with shards")):
        remark = next(
            r for r in bv.estimate(plan, "8x32GiB", 4, store="gcs").remarks if remedy in r
        )
        assert f"has {count:.2g} objects" in remark and f"${5e-6 * count:,.0f}" in remark
        assert remedy in plan.explain()
    assert "objects" not in bv.plan(v.to("out.zarr", **own)).explain()


def one_chunk(tmp_path, shape):
    """A large volume with metadata and no chunks."""
    path = str(tmp_path / "large.zarr")
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": path}}
    ts.open(spec, create=True, dtype="uint8", shape=shape).result()
    return path


def test_machines_that_cannot_be_read_are_refused(plan):
    for given in (
        "n2-standard",
        "m6i.4large",
        "4x",
        "x1GiB",
        (0, "1GiB"),
        "4x8GiBx0",
        "4x8GiBx1GiBx2",
        None,
    ):
        with pytest.raises(ValueError, match="is not a machine type; give vCPUs and memory"):
            bv.estimate(plan, given)
    with pytest.raises(ValueError, match="machines=0: give the number of machines"):
        bv.estimate(plan, "16x64GiB", 0)


def test_the_command(tmp_path, capsys):
    path = stored(tmp_path, membranes()).node.source.name
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f"input: {path}\nsteps: {{label: null}}\noutput: {tmp_path}/out.zarr\n")
    command = ["estimate", str(recipe), "--machine-type", "4x8GiB", "--machines", "2"]
    assert main([*command, "--json", "--vcpu-hour", "0.1"]) == 0
    found = json.loads(capsys.readouterr().out)
    listed = found["gib_hours"] * 0.0042 + found["request_cost"]
    assert found["cost"] == pytest.approx(found["vcpu_hours"] * 0.1 + listed)
    assert (found["machines"], found["store"]) == (2, "s3")
    assert main([*command, "--store=tape"]) == 2
    assert "'tape' is not a store" in capsys.readouterr().err
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "2 machines of 4 vCPUs and 8 GiB" in said
    assert (
        "sbatch: --nodes=2 --ntasks-per-node=1 --cpus-per-task=4 --mem=7168M --time=0:10:00" in said
    )
    assert main([*command[:3], "n2-standard-4"]) == 0  # which Slurm does not have
    assert "sbatch" not in capsys.readouterr().out
    assert main([*command[:3], "huge"]) == 2
