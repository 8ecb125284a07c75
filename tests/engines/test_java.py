"""A pipeline in Java, with transforms of our expansion service: labels, rows and bytes are Python's."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import ndimage

import beam_volumes as bv
from tests.engines.conftest import free_ports, installed, server
from tests.transforms.trees import membranes, stored
from tests.waiting import PATIENCE


def beams(port, _):
    """Beam's job service, with FnApiRunner."""
    module = "apache_beam.runners.portability.local_job_service_main"
    return [sys.executable, "-m", module, "--port", str(port)]


def flinks(port, request):
    """The job server of Flink, with a cluster: Java's workers end and start between its stages."""
    cluster = request.getfixturevalue("cluster")
    command = ["java", "-Xss16m", "-jar", installed("job-server.jar"), "--job-port", str(port)]
    folder = cluster.folder / "artifacts"
    other_ports = ["--artifact-port", "0", "--expansion-port", "0"]
    return [*command, *other_ports, "--flink-master", cluster.rest, "--artifacts-dir", str(folder)]


@pytest.mark.parametrize("job_service", [beams, flinks])
def test_a_pipeline_in_java(job_service, tmp_path, request):
    em = stored(tmp_path, membranes((20, 24, 28)))
    jar = installed("java-pipeline.jar")
    service, jobs = free_ports(2)
    ours = [sys.executable, "-m", "beam_volumes.cli.main", "expansion-service", "--port"]
    with (
        server(tmp_path / "service.log", *ours, str(service), port=service),
        server(tmp_path / "jobs.log", *job_service(jobs, request), port=jobs),
    ):
        options = [
            "--runner=PortableRunner",
            f"--jobEndpoint=localhost:{jobs}",
            f"--expansion=localhost:{service}",
            f"--input={em.node.source.name}",
            f"--output={tmp_path / 'cells.zarr'}",
            f"--table={tmp_path / 'joined'}",
        ]
        done = subprocess.run(
            ["java", "-jar", jar, *options], capture_output=True, text=True, timeout=PATIENCE
        )
    assert done.returncode == 0, done.stderr[-3000:]
    bright = np.asarray(bv.gaussian_filter(em, 1)) > 140
    labels, _ = ndimage.label(bright)
    keep = np.bincount(labels.ravel()) >= 20
    keep[0] = False
    want = np.where(keep, np.cumsum(keep), 0)[labels]
    np.testing.assert_array_equal(bv.open(tmp_path / "cells.zarr"), want)
    lines = done.stdout.splitlines()
    # Java counted the voxels of slabs: their cores of 8 slices, and the halo of 1.
    slabs = {line for line in lines if line.startswith("slab ")}
    assert slabs == {
        f"slab {z}: |b1 {np.count_nonzero(bright[max(z - 1, 0) : z + 9])}" for z in (0, 8, 16)
    }
    cells = {int(row[1]): row[2:] for line in lines if (row := line.split())[:1] == ["cell"]}
    ids = range(1, want.max() + 1)
    assert cells.keys() == set(ids) and len(ids) > 1
    means = ndimage.mean(np.asarray(em), want, ids)
    for k, mean in zip(ids, means, strict=True):
        area, found = map(float, cells[k])
        assert area == np.count_nonzero(want == k) and np.isclose(found, mean)

    # In Java, they are flattened and joined with elements of Java's own `Create`.
    def pairs(name):
        return sorted(
            tuple(map(float, line.split()[1:])) for line in lines if line.startswith(name)
        )

    areas = {k: float(np.count_nonzero(want == k)) for k in ids}
    assert pairs("both ") == sorted([*areas.items(), (0, -1), (1, -2)])
    joined = {0: (0, -1), **{k: (area, 0) for k, area in areas.items()}, 1: (areas[1], -2)}
    assert pairs("joined ") == sorted((k, *pair) for k, pair in joined.items())
    # Java's writer of Parquet has written them.
    tables = [pq.read_table(path) for path in tmp_path.glob("joined*.parquet")]
    written = pa.concat_tables(tables).sort_by("label").to_pydict()
    assert written == {
        "label": sorted(joined),
        "area": [joined[k][0] for k in sorted(joined)],
        "background": [joined[k][1] for k in sorted(joined)],
    }
