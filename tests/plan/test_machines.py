"""Plans for several machines: slabs enough for each of them, and what the last ones of a pass take."""

import numpy as np
import pytest
import tensorstore as ts

import beam_volumes as bv
from beam_volumes.plan.cost import machine

SHAPE = (512, 16384, 16384)


@pytest.fixture
def em(tmp_path):
    """A volume with metadata and no chunks."""
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{tmp_path}/em.zarr"}}
    chunks = {"name": "regular", "configuration": {"chunk_shape": [16, 512, 512]}}
    spec["metadata"] = {"shape": SHAPE, "data_type": "uint8", "chunk_grid": chunks}
    ts.open(spec, create=True).result()
    return bv.open(f"{tmp_path}/em.zarr")


def slabs(target, machines):
    plan = bv.plan(target, memory="8GiB", workers=2, threads=8, machines=machines)
    return [(len(p.grid), p.voxels) for p in plan.passes]


def test_each_machine_gets_several_slabs(em):
    """Of each level of a pyramid, too, unless a slab would be tiny or a write unit is larger."""
    target = bv.gaussian_filter(em, 2).to("out.ome.zarr", levels=4)
    for machines in (20, 100):
        for count, voxels in slabs(target, machines):
            assert count >= min(4 * 2 * machines, voxels >> 27), (machines, count, voxels)
    assert max(voxels / count for count, voxels in slabs(target, 1)) > 1 << 30


def test_slices_are_not_read_again_for_more_slabs(em):
    """Chunks as wide as the volume stay whole: slabs are thinner instead of narrower."""
    wide = bv.open(np.broadcast_to(np.uint8(0), (64, 4096, 4096)))
    plan = bv.plan(wide.to("out.zarr", chunks=(1, 4096, 4096)), machines=100, workers=2)
    assert plan.passes[0].read_amplification == 1 and len(plan.passes[0].grid) > 8


def test_a_small_volume_is_not_cut_to_pieces(em):
    plan = bv.plan(bv.mean(em[:64, :1024, :1024]), machines=500, workers=4)
    (p,) = plan.passes
    assert 8 <= len(p.grid) <= 32


def test_the_plan_shows_the_tail_of_a_pass(em):
    plan = bv.plan(bv.mean(em), machines=5, workers=2, slab=(16, 4096, 4096))
    text = plan.explain(verbose=True)
    assert "on each of 5 machines" in text.splitlines()[0]
    assert "51.2 slabs for each of 10 in flight; while the last ones run, about 1.9% of" in text
    assert bv.estimate(plan, "8x32GiB").machines == 5
    few = bv.plan(bv.mean(em), machines=500, workers=2, slab=(16, 4096, 4096))
    assert "all slabs run at the same time, of 1,000 in flight" in few.explain(verbose=True)
    assert bv.plan(bv.mean(em), workers=1).explain(verbose=True).count("in flight") == 1


@pytest.fixture
def slurm(monkeypatch):
    """Sets variables of a job, for a machine with as much memory and as many cores as anybody has."""
    monkeypatch.setattr(machine, "machine_memory", machine.machine_memory.__wrapped__)
    monkeypatch.setattr(machine, "_limits", lambda root: iter(()))
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)
    for name in [name for name in machine.os.environ if name.startswith("SLURM_")]:
        monkeypatch.delenv(name)

    def job(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(f"SLURM_{name}", value)

    return job


@pytest.mark.parametrize(
    "variables, memory, cores",
    [
        ({"MEM_PER_NODE": "1000", "CPUS_PER_TASK": "8", "CPUS_ON_NODE": "32"}, 1000 << 20, 8),
        ({"MEM_PER_CPU": "100", "CPUS_ON_NODE": "4"}, 400 << 20, 4),
    ],
)
def test_a_slurm_job_has_its_own_memory_and_cores(variables, memory, cores, slurm):
    """Also where the cluster limits neither control groups nor the processors of a process."""
    slurm(**variables)
    assert machine.cores() == 64 and machine.machine_memory() > memory  # not in a job
    slurm(JOB_ID="7")
    assert (machine.cores(), machine.machine_memory()) == (cores, memory)
    assert machine.default_memory() == memory // 4 and machine.free_memory() <= memory


def test_a_slurm_job_has_no_more_than_the_machine(slurm):
    before = machine.machine_memory()
    slurm(JOB_ID="7", MEM_PER_NODE=str(10**8), CPUS_PER_TASK="1000")
    assert (machine.cores(), machine.machine_memory()) == (64, before)
    slurm(MEM_PER_NODE="0", CPUS_PER_TASK="all")
    assert (machine.cores(), machine.machine_memory()) == (64, before)
