"""The engines and object stores of ``make engines``, started for these tests and ended after them.

Nothing here is ever skipped: an engine that does not start fails its tests. Whatever is started ends with
pytest, also when that is interrupted, terminated or killed.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from beam_volumes.runs import run_folder
from tests.waiting import PATIENCE

PROJECT = Path(__file__).parents[2]
INSTALLED = PROJECT / ".engines"
CLUSTER = str(PROJECT / "templates" / "flink" / "cluster.sh")

# A Java process of these tests lives for seconds or minutes: with the quick compiler alone it takes a
# third less of the processor, and with one thread that collects garbage it leaves the rest to the workers.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def pytest_configure(config):
    """Print each test's name when it begins, and stop at SIGTERM as at Ctrl-C."""
    config.option.verbose = max(1, config.option.verbose)

    def stop(*_):
        raise KeyboardInterrupt("terminated")

    signal.signal(signal.SIGTERM, stop)


def installed(path: str) -> str:
    """The path of something that `make engines` installs."""
    found = INSTALLED / path
    assert found.exists(), f"{found} is not there: run `make engines` first"
    return str(found)


@dataclass
class Engine:
    """Something to run on: the arguments of `bv.compute`, and what tells that a job was run there.

    ``mend`` starts what an earlier test may have killed.
    """

    how: dict[str, Any]
    ran: Callable[[str, Path], None]
    mend: Callable[[], None] = lambda: None
    jobs: Iterator[int] = field(default_factory=lambda: iter(range(10**6)))

    def job(self, name: str) -> tuple[str, dict[str, Any]]:
        """A new job's name, and the arguments that run it."""
        self.mend()
        named = f"{name}-{next(self.jobs)}"
        return named, {**self.how, "options": [*self.how["options"], f"--job_name={named}"]}


def free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    for s in held:
        s.bind(("localhost", 0))
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


@contextmanager
def ending_by(script: str, *arguments: str, **options: Any) -> Iterator[None]:
    """Run a script when the context ends, or when this process does, even by a kill."""
    command = ["bash", "-c", f"cat; {script}", "bash", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, **options):
        yield  # leaving closes its standard input, and waits for it


@contextmanager
def server(log: Path, *command: str, port: int, **env: str) -> Iterator[None]:
    """A server process, from when it answers at its port."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env={**os.environ, **env}, start_new_session=True
        )
    with process, ending_by('kill -9 -- "-$1"', str(process.pid)):
        deadline = time.monotonic() + PATIENCE
        while True:
            with suppress(OSError), socket.create_connection(("localhost", port), 1):
                break
            assert process.poll() is None, f"{command[0]} has ended: {log.read_text()[-2000:]}"
            assert time.monotonic() < deadline, f"{command[0]} does not answer; see {log}"
            time.sleep(0.1)
        yield


def swept_by(output: Path) -> set[str]:
    """Which processes have begun slabs of a run: "host pid" of each."""
    runs = Path(run_folder(str(output))["path"], "runs")
    return {f.read_text() for f in runs.glob("*/starts/*/*-*")}


# The engines.


def _fnapi(workers: int, *options: str) -> Engine:
    def ran(job: str, output: Path) -> None:
        processes = swept_by(output)
        assert str(os.getpid()) not in {p.split()[1] for p in processes}
        assert len(processes) == (workers if options else 1)

    how = {"runner": "FnApiRunner", "workers": workers, "options": list(options)}
    return Engine(how, ran)


@contextmanager
def in_memory(tmp: Path) -> Iterator[Engine]:
    yield _fnapi(1)


@contextmanager
def in_memory_2(tmp: Path) -> Iterator[Engine]:
    yield _fnapi(2)


@contextmanager
def multi_processing(tmp: Path) -> Iterator[Engine]:
    yield _fnapi(2, "--direct_running_mode=multi_processing")


@contextmanager
def prism(tmp: Path) -> Iterator[Engine]:
    (port,) = free_ports(1)
    log = tmp / "prism.log"
    command = (installed("bin/prism"), f"--job_port={port}", "--serve_http=false")

    ended = 0

    def ran(job: str, output: Path) -> None:
        # Prism does not report the names of its jobs.
        nonlocal ended
        before, ended = ended, log.read_text().count("pipeline done!")
        assert ended > before

    with server(log, *command, "--log_kind=text", port=port):
        options = [f"--job_endpoint=localhost:{port}", "--environment_type=LOOPBACK"]
        yield Engine({"runner": "PrismRunner", "workers": 2, "options": options}, ran)


@contextmanager
def flink_embedded(tmp: Path) -> Iterator[Engine]:
    """A Flink of its own for each job, in the job server that FlinkRunner starts."""
    log = tmp / "job-server.log"

    def ran(job: str, output: Path) -> None:
        text = log.read_text()
        assert "Flink Mini Cluster started" in text
        assert re.search(rf"Job {job} .* switched from state RUNNING to FINISHED", text)

    options = [
        "--flink_version=1.19",
        f"--flink_job_server_jar={installed('job-server.jar')}",
        "--flink_master=[local]",
        f"--job_server_jvm_properties=-Dorg.slf4j.simpleLogger.logFile={log}",
    ]
    yield Engine({"runner": "FlinkRunner", "workers": 2, "options": options}, ran)


@dataclass
class Cluster:
    """A standalone Flink: its REST address, and the folder of its logs and process ids."""

    rest: str
    folder: Path
    options: list[str]
    env: dict[str, str]

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.rest}/{path}", timeout=PATIENCE) as answer:
            return json.load(answer)

    def job(self, name: str) -> dict[str, Any]:
        """Its description of a job."""
        jobs = [j for j in self.get("jobs/overview")["jobs"] if j["name"] == name]
        assert jobs, f"the cluster knows no job {name}"
        return self.get(f"jobs/{jobs[0]['jid']}")

    def cancel(self) -> None:
        """Cancel all jobs: those that stream do not end when their pipelines are cancelled."""
        for job in self.get("jobs/overview")["jobs"]:
            if job["state"] in ("RUNNING", "RESTARTING"):
                url = f"{self.rest}/jobs/{job['jid']}"
                urllib.request.urlopen(
                    urllib.request.Request(url, method="PATCH"), timeout=PATIENCE
                )

    def restarts(self, name: str) -> int:
        """How often it has restarted a job, after kills or because a loaded machine missed heartbeats."""
        log = (self.folder / "jobmanager.log").read_text()
        return len(
            re.findall(rf"Job {re.escape(name)} .* switched from state RUNNING to RESTARTING", log)
        )

    def mend(self) -> None:
        """Start the killed processes again."""
        _cluster_up(self.folder, self.env)

    def taskmanager(self, number: int) -> int:
        """Its process id; one that was killed is started again."""
        self.mend()
        return int((self.folder / f"taskmanager-{number}.pid").read_text())


def _cluster_up(folder: Path, env: dict[str, str]) -> list[str]:
    """Start a cluster, or its missing processes, by the script for users; return the options it prints."""
    command = [CLUSTER, "up", str(folder)]
    said = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, timeout=PATIENCE)
    logs = "\n".join(f"{f.name}: {f.read_text()[-1000:]}" for f in folder.glob("*.log"))
    assert said.returncode == 0, logs
    return said.stdout.split()


@contextmanager
def flink_cluster(tmp: Path) -> Iterator[Cluster]:
    """A standalone Flink: two TaskManagers, and a pool of workers."""
    installed("flink/bin/taskmanager.sh")
    folder = tmp / "flink"
    rest, rpc, pool = free_ports(3)
    ports = {"REST_PORT": str(rest), "RPC_PORT": str(rpc), "POOL_PORT": str(pool)}
    env = {**os.environ, "PYTHON": sys.executable, **ports}
    with ending_by('exec "$@"', CLUSTER, "down", str(folder), env=env):
        options = _cluster_up(folder, env)
        yield Cluster(f"http://localhost:{rest}", folder, options, env)
        pids = [int(file.read_text()) for file in folder.glob("*.pid")]
    assert len(pids) == 4 and not list(folder.glob("*.pid"))
    assert not any(map(psutil.pid_exists, pids))


def on_cluster(cluster: Cluster) -> Engine:
    """A cluster as an engine: both its TaskManagers take part."""

    def ran(job: str, output: Path) -> None:
        said = cluster.job(job)
        assert said["state"] == "FINISHED"
        hosts = set()
        for vertex in said["vertices"]:
            subtasks = cluster.get(f"jobs/{said['jid']}/vertices/{vertex['id']}")["subtasks"]
            hosts |= {t["taskmanager-id"] for t in subtasks}
        assert hosts == {"taskmanager-1", "taskmanager-2"}
        processes = swept_by(output)
        assert len(processes) > 1
        assert str(os.getpid()) not in {p.split()[1] for p in processes}

    how = {"runner": "FlinkRunner", "workers": 2, "options": cluster.options}
    return Engine(how, ran, cluster.mend)


#: What starts each engine, and the name of the fixture of one that is there already.
ENGINES = [in_memory, in_memory_2, multi_processing, prism, flink_embedded, "flink_standalone"]
#: Engines of their own: the others are these with other workers, and start processes for each job.
DISTINCT = [in_memory, prism, "flink_standalone"]


def on_engines(engines: list[Any]) -> pytest.MarkDecorator:
    """Run a test on some engines."""
    ids = [e if isinstance(e, str) else e.__name__ for e in engines]
    return pytest.mark.parametrize("engine", engines, ids=ids, indirect=True)


@pytest.fixture(scope="session")
def engine(request, tmp_path_factory):
    if isinstance(request.param, str):
        yield request.getfixturevalue(request.param)
        return
    with request.param(tmp_path_factory.mktemp(request.param.__name__)) as started:
        yield started


@pytest.fixture(scope="session")
def _cluster(tmp_path_factory):
    """One for all tests, as it takes a while to start."""
    with flink_cluster(tmp_path_factory.mktemp("flink_standalone")) as started:
        yield started


@pytest.fixture
def cluster(_cluster):
    """The cluster, with all its processes, even if earlier tests have killed some."""
    _cluster.mend()
    return _cluster


@pytest.fixture(scope="session")
def flink_standalone(_cluster):
    """The cluster as an engine."""
    return on_cluster(_cluster)


# The object stores.

BUCKET = "volumes"


@pytest.fixture(scope="session")
def s3(tmp_path_factory):
    """The URL of a bucket of a server that speaks S3, and the environment to reach it in."""
    (port,) = free_ports(1)
    log = tmp_path_factory.mktemp("s3") / "moto.log"
    with server(log, installed("moto/bin/moto_server"), "-p", str(port), port=port):
        url = f"http://localhost:{port}"
        urllib.request.urlopen(urllib.request.Request(f"{url}/{BUCKET}", method="PUT"))
        keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
        yield f"s3://{BUCKET}", {"AWS_ENDPOINT_URL": url, "AWS_REGION": "us-east-1", **keys}


@pytest.fixture(scope="session")
def gcs(tmp_path_factory):
    """The same of one that speaks GCS."""
    (port,) = free_ports(1)
    log = tmp_path_factory.mktemp("gcs") / "fake-gcs-server.log"
    url = f"http://localhost:{port}"
    command = [installed("bin/fake-gcs-server"), "-scheme", "http", "-port", str(port)]
    command += ["-backend", "memory", "-public-host", f"localhost:{port}", "-external-url", url]
    with server(log, *command, port=port):
        body = json.dumps({"name": BUCKET}).encode()
        headers = {"Content-Type": "application/json"}
        urllib.request.urlopen(urllib.request.Request(f"{url}/storage/v1/b", body, headers))
        token = {"GOOGLE_AUTH_TOKEN_FOR_TESTING": "x"}
        yield f"gs://{BUCKET}", {"TENSORSTORE_GCS_HTTP_URL": url, **token}
