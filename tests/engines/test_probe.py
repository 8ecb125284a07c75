"""Workers that lack a requirement are reported in a line, before any output is created."""

import subprocess
import sys

import pytest
import yaml

from beam_volumes.storage.places.place import Place, kvstore_spec
from tests.engines.conftest import free_ports, installed, server
from tests.transforms.trees import membranes, stored
from tests.waiting import PATIENCE

#: Beam's own pool, in an environment in which this package is not installed.
POOL = """
import sys, time
sys.modules["beam_volumes"] = None
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
pool = BeamFnExternalWorkerPoolServicer.start(port=int(sys.argv[1]))
time.sleep(600)
"""


def test_a_worker_without_the_package(tmp_path):
    stored(tmp_path, membranes((4, 12, 14)))
    recipe = {
        "input": str(tmp_path / "in.zarr"),
        "steps": {"label": {}},
        "output": str(tmp_path / "out.zarr"),
    }
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    (port,) = free_ports(1)
    flink = [
        "--runner=FlinkRunner",
        "--flink_version=1.19",
        f"--flink_job_server_jar={installed('job-server.jar')}",
        "--flink_master=[local]",
        "--environment_type=EXTERNAL",
        f"--environment_config=localhost:{port}",
    ]
    command = [sys.executable, "-m", "beam_volumes.cli.main", "run", str(tmp_path / "recipe.yaml")]
    with server(tmp_path / "pool.log", sys.executable, "-c", POOL, str(port), port=port):
        done = subprocess.run([*command, *flink], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2, done.stderr[-3000:]
    said = done.stderr.splitlines()[-1]
    assert said.startswith("beam-volumes: error: the worker on "), said
    assert "cannot work for this run: " in said and "beam_volumes" in said and "; install" in said
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize("store", ["s3", "gcs"])
def test_whether_a_bucket_may_be_written_to(store, request, monkeypatch):
    url, env = request.getfixturevalue(store)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    place = kvstore_spec(f"{url}/probed/out.zarr")
    Place.of(place).check_writable()
    assert Place.of(f"{url}/probed").names("out.zarr/") == []  # and nothing stays there
    other = f"{url}-that-nobody-made/out.zarr"
    with pytest.raises(OSError, match=rf"writing to {other}: "):
        Place.of(other).check_writable()
