"""templates/slurm on a cluster of two nodes: the bytes of a run in one process, also of a requeued job."""

import os
import re
import shutil
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.cli.main import main
from tests.engines.conftest import PROJECT, ending_by, free_ports
from tests.waiting import PATIENCE, wait_until

SCRIPT, FLINK = (str(PROJECT / "templates" / "slurm" / name) for name in ("run.sh", "flink.sh"))
CLUSTER = str(PROJECT / "engines" / "slurm.sh")
#: Seconds after which a job that was ended may start again: those of ``cred_expire`` in slurm.sh, and one.
EXPIRED = 6
RECIPE = """\
input: em.zarr
steps:
  smooth: {op: gaussian_filter, sigma: 2}
  threshold: threshold_otsu
  bright: {op: greater, inputs: [smooth, threshold]}
  cells: {op: label}
  table: {op: regionprops_table, properties: [area, centroid]}
outputs:
  - {step: cells, path: cells.zarr, chunks: [4, 16, 16]}
  - {step: table, path: cells.csv}
"""


class Slurm:
    """A cluster, by the programs that its users call."""

    def __init__(self, env):
        self.env = env

    def call(self, *command, check=True, **env):
        done = subprocess.run(
            command,
            env={**self.env, **env},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0 or not check, (command, done.stdout, done.stderr)
        return done.stdout

    def submit(self, *command, **env):
        """The number of a new job."""
        small = ("--mem=1500", "--cpus-per-task=1", "--time=30", "--output=slurm-%a.out")
        return self.call("sbatch", "--parsable", *small, *command, **env).strip()

    def output(self):
        """What the jobs of a folder have printed."""
        return [f.read_text()[-1000:] for f in Path().glob("slurm-*.out")]

    def state(self, job):
        """The state of a job, and how often it was requeued."""
        text = self.call("scontrol", "--oneliner", "show", "job", job)
        return re.search(r"JobState=(\w+)", text)[1], int(re.search(r"Restarts=(\d+)", text)[1])

    def start_again(self, job):
        """Start a requeued job when the credentials of its last start have expired, without more delay."""
        text = self.call("scontrol", "--oneliner", "show", "job", job)
        begin = datetime.fromisoformat(re.search(r"EligibleTime=(\S+)", text)[1])
        time.sleep(max((begin - datetime.now()).total_seconds(), EXPIRED))
        self.call("scontrol", "update", f"JobId={job}", "StartTime=now", check=False)

    def wait_for(self, job, restarts=0):
        """Wait until a job has ended well."""

        def check():
            state, times = self.state(job)
            assert state not in ("FAILED", "TIMEOUT", "CANCELLED"), self.output()
            if state == "PENDING" and times:
                self.start_again(job)

        wait_until(lambda: self.state(job) == ("COMPLETED", restarts), f"the job {job}", check)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    path = f"{os.environ['PATH']}:/usr/sbin"
    for program in ("slurmctld", "slurmd", "munged"):
        assert shutil.which(program, path=path), f"{program} is missing: run `make engines` first"
    folder = tmp_path_factory.mktemp("slurm")
    command = folder / "beam-volumes"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m beam_volumes.cli.main "$@"\n')
    command.chmod(0o755)
    ports = zip(("CONTROL_PORT", "NODE1_PORT", "NODE2_PORT"), map(str, free_ports(3)), strict=True)
    env = {**os.environ, "PATH": path, **dict(ports), "BEAM_VOLUMES": str(command)}
    env["PYTHONPATH"] = str(PROJECT)
    with ending_by('exec "$@"', CLUSTER, "down", str(folder), env=env):
        up = subprocess.run(
            [CLUSTER, "up", str(folder)],
            env=env,
            stdout=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
        )
        assert up.returncode == 0, [f.read_text()[-500:] for f in folder.glob("*.log")]
        yield Slurm({**env, "SLURM_CONF": up.stdout.strip()})


@pytest.fixture
def work(tmp_path, monkeypatch):
    """An empty folder to be in, with the recipe, its volume, and its results from this process."""
    monkeypatch.chdir(tmp_path)
    Path("recipe.yaml").write_text(RECIPE)
    store("em.zarr")
    computed("em.zarr", "want")
    return tmp_path


def store(path, seed=0):
    noise = np.random.default_rng(seed).integers(0, 255, (24, 48, 48), "u1")
    bv.compute(bv.open(noise).to(path, chunks=(4, 48, 48)), runner=None, progress=False)


def computed(volume, folder):
    places = [
        f"outputs.{k}.path={folder}/{name}" for k, name in enumerate(("cells.zarr", "cells.csv"))
    ]
    settings = [word for place in (f"input={volume}", *places) for word in ("--set", place)]
    assert main(["run", "recipe.yaml", "--runner", "none", "--quiet", *settings]) == 0


def content(folder):
    """The bytes of the results in a folder, without provenance, which has times, and the run's id."""
    files = [*Path(folder, "cells.zarr").rglob("*"), Path(folder, "cells.csv")]
    return {
        str(f.relative_to(folder)): re.sub(rb'"run": "\w+"', b"", f.read_bytes())
        for f in files
        if f.is_file() and "provenance" not in f.name
    }


def test_a_job_of_one_node(slurm, work):
    job = slurm.submit(SCRIPT, "recipe.yaml")
    slurm.wait_for(job)
    assert content(".") == content("want") and len(content(".")) > 10


def test_a_job_that_is_requeued_at_its_limit_and_by_a_more_urgent_one(slurm, work):
    slabs = ("--slab", "4,16,16", "--workers", "1", "--threads", "1")
    job = slurm.submit("--comment=long", SCRIPT, "recipe.yaml", *slabs)

    def files(kind):
        return list(work.glob(f"cells.zarr.run/runs/*/{kind}/*/*"))

    def requeued(times, after, stop):
        wait_until(lambda: len(files("records")) > after, "slabs", lambda: check_running(job))
        stop()
        wait_until(lambda: slurm.state(job)[1] == times, "the job to be requeued")
        wait_until(lambda: slurm.state(job)[0] in ("PENDING", "RUNNING"), "its end")
        return len(files("records"))

    def check_running(job):
        assert slurm.state(job)[0] in ("PENDING", "RUNNING"), slurm.output()

    # What Slurm sends before the limit, by --signal=B:USR1@600.
    done = requeued(1, 5, lambda: slurm.call("scancel", "--batch", "--signal=USR1", job))
    assert len(files("starts")) == done  # the slabs in flight were finished
    slurm.start_again(job)
    both = ("--partition=urgent", "--nodes=2", "--exclusive", "--wait", "--wrap=true")
    requeued(2, done + 5, lambda: slurm.submit(*both))
    slurm.wait_for(job, restarts=2)
    assert content(".") == content("want")


def test_an_array_over_volumes(slurm, work):
    names = ("a", "b", "c")
    for k, name in enumerate(names):
        store(f"data/{name}.zarr", k)
        computed(f"data/{name}.zarr", f"want/{name}")
    each = ("--each", "data/*.zarr", "--out", "results")
    slurm.submit("--wait", "--array=1-3", SCRIPT, "recipe.yaml", *each)
    for name in names:
        assert content(f"results/{name}") == content(f"want/{name}")


#: By path: stands in for Flink and for the command, to see how flink.sh starts and ends them.
STANDS_IN = {
    "bin/jobmanager.sh": "echo jobmanager >>started.log; mkdir -p $DIR/www; cd $DIR/www; "
    """echo '{"taskmanagers":2,}' >overview; exec python3 -m http.server $3""",
    "bin/taskmanager.sh": "echo taskmanager-$SLURM_NODEID >>started.log; exec sleep 600",
    "command": 'echo "$@" >>started.log; [ $1 = run ] || exec sleep 600; sleep 1; ls $DIR >folders.log',
}


def test_a_session_of_flink_is_on_all_nodes_and_leaves_nothing(slurm, work):
    for name, text in STANDS_IN.items():
        file = work / "flink" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/bash\n{text}\n")
        file.chmod(0o755)
    shutil.copy(PROJECT / "templates/flink/settings.yaml", work)
    env = {"FLINK_HOME": f"{work}/flink", "BEAM_VOLUMES": f"{work}/flink/command"}
    env |= {"TMPDIR": str(work), "SLOTS": "2"}
    slurm.submit("--wait", "--nodes=2", FLINK, "recipe.yaml", "--quiet", **env)
    started = Path("started.log").read_text().splitlines()
    (run,) = (line for line in started if line.startswith("run "))
    assert run.startswith("run recipe.yaml --quiet --resume") and "--parallelism=4" in run
    assert "--workers 2 --machines 2 --runner FlinkRunner" in run
    (port,) = re.findall(r"--environment_config=localhost:(\d+)", run)
    pools = [f"worker-pool --port {port}"] * 2
    assert sorted(set(started) - {run}) == [
        "jobmanager",
        "taskmanager-0",
        "taskmanager-1",
        pools[0],
    ]
    assert "www" in Path("folders.log").read_text() and not list(work.glob("beam-volumes-*"))
