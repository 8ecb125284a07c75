"""Dataflow's job graph, as its runner makes it without the service: steps, shuffles, memory, options.

The bucket is a server of a few lines in this process. Nothing is submitted; what is tested is what
would be.
"""

import contextlib
import io
import json
import re
import runpy
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import apache_beam as beam
import numpy as np
import pytest
import tensorstore as ts
import yaml
from apache_beam.options.pipeline_options import DebugOptions
from apache_beam.runners.dataflow.dataflow_runner import DataflowRunner
from apache_beam.runners.dataflow.internal import apiclient
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from scipy import ndimage

import beam_volumes as bv
from beam_volumes.cli.main import main
from beam_volumes.drive.compute import DESCRIBED
from beam_volumes.drive.launch import describe, one_process
from beam_volumes.drive.pipelines import pipeline_options
from beam_volumes.plan import accelerators as hiring
from beam_volumes.recipes.build import build
from beam_volumes.recipes.recipe import read_recipe
from beam_volumes.runs.journal import ENDED
from beam_volumes.session.begin import begin
from tests.ops.networks.conftest import unet_file as unet_file
from tests.transforms.trees import membranes, stored

TEMPLATE = Path(__file__).parents[2] / "templates" / "dataflow"
HOW = ["--memory=3GiB", "--workers=1", "--threads=4"]
OPTIONS = [
    "--project=some-project",
    "--region=europe-west4",
    "--temp_location=gs://bucket/tmp",
    "--dry_run=True",
    "--no_auth",
]
RECIPE = {
    "inputs": {"em": "gs://bucket/em.zarr"},
    "steps": {
        "smooth": {"op": "gaussian_filter", "input": "em", "sigma": 1},
        "threshold": "threshold_otsu",
        "bright": {"op": "greater", "inputs": ["smooth", "threshold"]},
        "cells": {"op": "label"},
        "table": {"op": "regionprops_table", "intensity": "em", "properties": ["area"]},
        "count": {"op": "num_labels", "input": "cells"},
    },
    "outputs": [
        {"step": "cells", "path": "gs://bucket/cells.zarr", "chunks": [8, 24, 28]},
        {"step": "table", "path": "gs://bucket/cells.parquet"},
        {"step": "count"},
    ],
}


@pytest.fixture(scope="module")
def bucket(tmp_path_factory):
    """A folder that is gs://bucket, which can be read and not written."""
    folder = tmp_path_factory.mktemp("bucket")
    asked = []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self):
            path = urlsplit(self.path).path
            name = unquote(path.partition("/o/")[2])
            asked.append(name)
            found = name and (folder / name).is_file()
            data = (folder / name).read_bytes() if found else b"{}"
            self.send_response(200 if found or not name else 404)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_POST(self):
            asked.append(f"written: {self.path}")
            self.send_error(403)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENSORSTORE_GCS_HTTP_URL", f"http://127.0.0.1:{server.server_port}")
        patch.setenv("GOOGLE_AUTH_TOKEN_FOR_TESTING", "x")
        stored(folder, membranes((20, 24, 28)), "em.zarr")
        (folder / "recipe.yaml").write_text(yaml.safe_dump(RECIPE, sort_keys=False))
        yield folder, asked
    server.shutdown()
    server.server_close()


@contextlib.contextmanager
def described():
    """The jobs that DataflowRunner describes meanwhile."""
    found = []
    run_pipeline = DataflowRunner.run_pipeline

    def kept(self, *args, **kwargs):
        result = run_pipeline(self, *args, **kwargs)
        found.append(result.job)
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DataflowRunner, "run_pipeline", kept)
        patch.setattr("beam_volumes.cli.main.quiet", lambda: None)  # it is for the whole process
        yield found


@pytest.fixture(scope="module")
def job(bucket):
    """The recipe's job by the command line, with options of Beam's and Dataflow's."""
    command = ["run", "gs://bucket/recipe.yaml", *HOW, "--runner=DataflowRunner", *OPTIONS]
    command += ["--sdk_container_image=europe-docker.pkg.dev/p/r/beam-volumes:1"]
    command += ["--labels=team=em", "--labels=run=7", "--dataflow_service_options=enable_prime"]
    command += ["--machine_type=n2-standard-4", "--max_num_workers=50"]
    with described() as jobs, contextlib.redirect_stdout(io.StringIO()) as said:
        assert main(command) == 0
    assert said.getvalue() == f"{DESCRIBED}\n"
    (found,) = jobs
    return found


@pytest.fixture(scope="module")
def planned(bucket):
    """The plan of the same."""
    built = build(read_recipe("gs://bucket/recipe.yaml"))
    return bv.plan(*built.targets, memory="3GiB", workers=1, threads=4)


@pytest.fixture(scope="module")
def steps(job):
    """The job's steps by name."""
    found = job.proto_pipeline.components.transforms.values()
    return {t.unique_name: t for t in found if not t.subtransforms}


def coder_of(components, collection):
    """The coder of a PCollection, in words."""

    def said(name):
        found = components.coders[name]
        kind = found.spec.urn.removeprefix("beam:coder:").removesuffix(":v1")
        inner = ", ".join(said(c) for c in found.component_coder_ids)
        return f"{kind}({inner})" if inner else kind

    return said(components.pcollections[collection].coder_id)


def test_steps_are_named_by_pass_and_what_they_do(steps, planned):
    assert len(planned.passes) == 4
    sweeps = {name for name in steps if "/Sweep/" in name}
    assert sweeps == {f"Pass {k}/Sweep/ParDo(_Sweep)" for k in (1, 2, 3, 4)}
    assert {"Prepare", "Pass 3/Finish merge", "Pass 4/Written 1", "End"} <= set(steps)
    for round_ in ("merge-1", "down-0", "ranks"):
        assert any(name.startswith(f"Pass 3/Survey 1/{round_}/") for name in steps)


def test_nothing_that_is_shuffled_can_be_voxels(job, steps):
    """A shuffle carries numbers of slabs, and bytes that our steps have made of their messages.

    What has another type is pickled, so that its coder says nothing. That are the keys of messages, what
    Beam's own Reshuffle adds to an element, and the states of reductions.
    """
    components = job.proto_pipeline.components
    carried = {}
    for step in steps.values():
        if step.spec.urn == "beam:transform:group_by_key:v1":
            (given,) = step.inputs.values()
            name = re.sub(r"^Pass \d/|/GroupByKey$", "", step.unique_name)
            name = re.sub(r"^Survey \d/Group .*", "Survey", name)
            carried.setdefault(name, set()).add(coder_of(components, given))
    slab = "kv(tuple(varint), kv(varint, bytes))"
    span = "kv(varint, varint)"  # the first slab, and the one after the last
    assert carried == {
        "Spread/ReshufflePerKey": {
            f"kv(varint, tuple({span}, nullable(pickled_python), pickled_python))"
        },
        "Answered": {slab},
        "Survey": {"kv(pickled_python, bytes)"},
        "Merge": {"kv(string_utf8, tuple(string_utf8, varint, pickled_python))"},
    }


def test_all_steps_of_a_pass_ask_for_the_memory_it_needs_and_few_bundles(job, steps, planned):
    environments = job.proto_pipeline.components.environments
    asked = {}
    for name, step in steps.items():
        if step.environment_id:
            hints = environments[step.environment_id].resource_hints
            kinds = ("min_ram_bytes", "max_active_bundles_per_worker")
            # A composite is no step: the runner uses its parts.
            inside = asked if not step.subtransforms else {}
            inside.setdefault(name.partition("/")[0], set()).add(
                tuple(int(hints.get(f"beam:resources:{kind}:v1", 0)) for kind in kinds)
            )
    gib = [hiring.needed(planned, k) for k in range(4)]
    assert gib == [2, 2, 4, 4]  # what is found may take what the budget of 3 GiB leaves
    for k, n in enumerate(gib, 1):
        # More bundles than slabs may be in flight would only wait, each with a thread of its own.
        assert asked.pop(f"Pass {k}") == {(n << 30, planned.workers)}
    assert set(map(frozenset, asked.values())) == {frozenset({(0, 0)})}


def test_every_transform_makes_a_job(bucket, unet_file):
    """All in one pipeline; nothing that Dataflow would shuffle is a slab, but where it meets its labels."""
    pipeline = beam.Pipeline("DataflowRunner", options=pipeline_options(OPTIONS))
    em = bv.open("gs://bucket/em.zarr")
    read = bv.ReadSlabs(em, depth=5, halo=1)
    slabs = pipeline | read
    bright = slabs | bv.ApplyStages(lambda v: bv.median_filter(v, 3) > 140)
    labels = bright | bv.LabelSlabs(read)
    mask = bv.ReadSlabs(em > 140, depth=5, halo=((0, 1),) * 3)
    label = bv.LabelComponents(mask)
    merged = pipeline | "Mask" >> mask | label | bv.MergeEquivalences(label)
    apart = merged["answers"] | bv.RelabelSlabs(em > 140, label)
    planes = slabs | beam.MapTuple(lambda key, slab: (key, slab.voxels.sum(0)))
    _ = planes | bv.SlabScan(read, np.add)
    _ = labels | bv.WriteSlabs("gs://bucket/labels.zarr", like=em, partial=True)
    _ = apart | "Apart" >> bv.WriteSlabs("gs://bucket/apart.zarr", like=em, partial=True)
    _ = labels | bv.RegionTable(read, em, ["area"])
    _ = slabs | bv.MeasureSlabs(read, mean=bv.mean, count=lambda v: bv.label(v > 140).num_labels)
    cut = bv.ReadSlabs(em, depth=5, halo=((6, 10), 0, 0))
    network = bv.Predict(cut, unet_file, lambda p: p[1] > 0.5, patch=(6, 8, 10))
    _ = pipeline | "Cut" >> cut | network
    pattern = "gs://bucket/slices/{z}.png"
    _ = pipeline | bv.WatchSlices(pattern, (20, 24, 28), "u1", depth=5)
    paths = pipeline | beam.Create(["gs://bucket/em.zarr"])
    _ = paths | bv.ReadAll(depth=5)
    _ = paths | bv.ComputeAll(lambda path: (bv.open(path) + 1).to(f"{path}.out"))
    _ = pipeline | bv.RegisterTiles([em, em], [(0, 0, 0), (0, 0, 20)])
    _ = pipeline | bv.RegisterSlices(em)
    with described() as jobs:
        pipeline.run()
    components = jobs[0].proto_pipeline.components
    steps = [s for s in components.transforms.values() if not s.subtransforms]
    assert {*bv.transforms.__all__} - {"Failed", "Slab", "SlabGrid", "SlabKey"} - {"Compute"} <= {
        s.unique_name.partition("/")[0] for s in steps
    }
    carried = {}
    for s in steps:
        if s.spec.urn == "beam:transform:group_by_key:v1":
            (given,) = s.inputs.values()
            name = re.sub(r".*/(Spread/|Group ).*", r"\1", s.unique_name)
            carried.setdefault(name, set()).add(coder_of(components, given))
    planned = "tuple(string_utf8, pickled_python, varint)"
    spread = "kv(varint, tuple({}, nullable(pickled_python), pickled_python))"
    pair = "kv(varint, varint)"
    counted = "tuple(string_utf8, varint, pickled_python)"
    assert carried == {
        "Spread/": {spread.format(kind) for kind in ("varint", "string_utf8", planned, pair)},
        **{
            f"{name}/All/All/CombinePerKey/GroupByKey": {
                f"kv(pickled_python, kv({pair}, pickled_python))"
            }
            for name in ("RegisterSlices", "RegisterTiles")
        },
        "Group ": {"kv(pickled_python, bytes)"},
        "SlabScan/GroupByKey": {"kv(pickled_python, bytes)"},
        # Tables of slabs are measured as other results of slabs.
        **{
            f"{name}/{step}": {kind}
            for name in ("MeasureSlabs", "RegionTable")
            for step, kind in {
                "Merge/GroupByKey": f"kv(string_utf8, {counted})",
                "Together": "kv(tuple(varint), kv(string_utf8, pickled_python))",
                "Count/GroupByKey": "kv(tuple(varint), varint)",
            }.items()
        },
        # Where a slab that somebody has made meets the ids of its labels.
        "LabelSlabs/Relabel/Meet/Group": {"kv(pickled_python, kv(string_utf8, pickled_python))"},
        "RelabelSlabs/Meet/Group": {"kv(pickled_python, kv(string_utf8, bytes))"},
        # The boxes of slabs that are written, to be counted.
        **{
            f"{name}/Are there/CombineGlobally(CountCombineFn)/CombinePerKey/GroupByKey": {
                "kv(pickled_python, pickled_python)"
            }
            for name in ("WriteSlabs", "Apart")
        },
    }


def test_machines_are_asked_for_without_the_user(bucket, unet_file):
    """In a pipeline of somebody's, and by `compute`: memory for each pass, a GPU where a network runs."""
    em = bv.open("gs://bucket/em.zarr")
    made = bv.predict(em, unet_file, patch=(16, 16, 20), context=6, stride=2, normalize=(0, 255))
    cells = bv.label(made[1] > 0.5).to("gs://bucket/net.zarr")
    gpu = "type:nvidia-tesla-t4;count:1;install-nvidia-driver"
    how = {"memory": "3GiB", "workers": 1, "threads": 4, "accelerator": gpu}
    with described() as jobs:
        bv.compute(cells, runner="DataflowRunner", options=OPTIONS, **how)
        pipeline = beam.Pipeline("DataflowRunner", options=pipeline_options(OPTIONS))
        step = bv.Compute(cells, **how)
        (done,) = (pipeline | step).values()
        _ = done | bv.ComputeAll(lambda path: {"mean": bv.mean(bv.open(path))}, memory="6GiB")
        bright = (bv.gaussian_filter(em, 1) > 9).to("gs://bucket/bright.zarr")
        on_gpu = {"device": "cuda", "device_memory": "1GiB", "memory": "3GiB", "workers": 1}
        _ = pipeline | "OnGpu" >> bv.Compute(bright, **on_gpu)
        pipeline.run()
    plan = step.session.plan
    asked = {
        f"Pass {k + 1}": {(hiring.needed(plan, k), gpu if hiring.is_accelerated(plan, k) else "")}
        for k in range(len(plan.passes))
    }
    assert {accelerator for ((_, accelerator),) in asked.values()} == {gpu, ""}
    for job in jobs:
        components = job.proto_pipeline.components
        found = {}
        for s in components.transforms.values():
            if s.environment_id and not s.subtransforms:
                hints = components.environments[s.environment_id].resource_hints
                ram = int(hints.get("beam:resources:min_ram_bytes:v1", 0)) >> 30
                accelerator = hints.get("beam:resources:accelerator:v1", b"").decode()
                name = s.unique_name.removeprefix("Compute/").partition("/")[0]
                found.setdefault(name, set()).add((ram, accelerator))
        assert {name: found[name] for name in asked} == asked
    assert (7, "") in found["ComputeAll"]
    assert gpu in {accelerator for _, accelerator in found["OnGpu"]}


def test_options_of_dataflow_are_carried(job):
    """By what would be sent to the service."""
    sent = apiclient.Environment([], job.options, "2.0", "", job.proto_pipeline).proto
    assert "enable_prime" in sent.service_options
    (pool,) = sent.worker_pools
    assert pool.machine_type == "n2-standard-4"
    assert pool.autoscaling_settings.max_num_workers == 50
    images = {i.container_image for i in pool.sdk_harness_container_images}
    assert images == {"europe-docker.pkg.dev/p/r/beam-volumes:1"}
    # One process with all of a machine's cores, as plans count.
    assert "no_use_multiple_sdk_containers" in sent.experiments
    assert "use_multiple_sdk_containers" not in sent.experiments
    assert dict(job.proto.labels) == {"team": "em", "run": "7"}


def test_a_described_job_is_no_run_that_wrote_nothing(bucket, job, caplog):
    _, asked = bucket
    em = bv.open("gs://bucket/em.zarr")
    how = {"runner": "DataflowRunner", "options": OPTIONS}
    assert bv.compute((em + 1).to("gs://bucket/more.zarr"), **how) is None
    assert DESCRIBED in caplog.text
    for lost in ([bv.mean(em)], [(em + 1).to("gs://bucket/more.zarr"), em[0]]):
        with pytest.raises(ValueError, match="give every volume and table a path"):
            bv.compute(*lost, **how)
    assert not [name for name in asked if name.startswith("written")]


def test_a_described_job_ends_as_a_run_does(tmp_path):
    """Carried out by FnApiRunner, which ignores hints and missing waiters."""
    em = stored(tmp_path, membranes(), chunks=(5, 24, 28))
    noisy = bv.map_overlap(lambda b: b + 1, em, name="noisy", version=1, deterministic=False)
    labels = bv.label(noisy > bv.mean(noisy)).to(tmp_path / "labels.zarr", chunks=(4, 24, 28))
    session = begin(bv.plan(labels, slab=(4, 24, 28)))
    place = Path(session.plan.scratch_place["path"])
    describe(session, FnApiRunner(), pipeline_options(None))
    assert session.journal.marked(ENDED) and not place.exists()
    array = np.asarray(em).astype("u1") + 1
    expected, _ = ndimage.label(array > array.mean())
    np.testing.assert_array_equal(bv.open(str(tmp_path / "labels.zarr")), expected)


def test_an_expert_may_have_a_process_for_each_core():
    options = pipeline_options(["--experiments=use_multiple_sdk_containers"])
    one_process(options)
    assert options.view_as(DebugOptions).experiments == ["use_multiple_sdk_containers"]


# The Flex Template.


def test_the_launcher_makes_a_run_of_the_templates_parameters(bucket, capsys, monkeypatch):
    wanted = []

    def noted(plan, options, **how):
        wanted.append({name for name in ("overwrite", "resume") if getattr(options, name)})
        return begin(plan, options, **how)

    monkeypatch.setattr("beam_volumes.drive.compute.begin", noted)
    arguments = runpy.run_path(str(TEMPLATE / "main.py"))["arguments"]
    given = {
        "recipe": "gs://bucket/recipe.yaml",
        "inputs": "em=gs://bucket/em.zarr",
        "outputs": "0=gs://bucket/a/cells.zarr|1=gs://bucket/a/cells.parquet",
        "set": "steps.smooth.sigma=2|steps.cells.connectivity=3",
        "memory": "3GiB",
        "workers": "1",
        "threads": "4",
        "crop": ":10,,2:",
        "max_retries": "2",
        "labels": "team=em|run=7",
        "overwrite": "true",
        "sdk_container_image": "europe-docker.pkg.dev/p/r/beam-volumes:1",
    }
    for parameter in json.loads((TEMPLATE / "metadata.json").read_text())["parameters"]:
        if parameter["name"] in given:
            assert re.search(parameter["regexes"][0], given[parameter["name"]]), parameter["name"]
        else:
            assert parameter["isOptional"], parameter["name"]
    options = [f"--{name}={value}" for name, value in given.items()]
    with described() as jobs:
        assert main(arguments([*options, *OPTIONS])) == 0
    (job,) = jobs
    assert dict(job.proto.labels) == {"team": "em", "run": "7"}
    told = capsys.readouterr().err
    for said in (
        "gs://bucket/a/cells.zarr, write gs://bucket/a/cells.parquet",
        "x 24 x 26",
        "3.0 GiB",
    ):
        assert said in told
    resumed = [o.replace("overwrite", "resume") for o in options]
    with described():
        assert main(arguments([*resumed, *OPTIONS])) == 0
    assert wanted == [{"overwrite"}, {"resume"}]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("recipe", "recipe.yaml"),
        ("recipe", "gs://bucket/recipe.txt"),
        ("inputs", "em=/data/em.zarr"),
        ("outputs", "cells=gs://bucket/cells.zarr"),
        ("set", "sigma"),
        ("memory", "much"),
        ("workers", "0"),
        ("crop", "1-2"),
        ("resume", "yes"),
        ("labels", "Team=EM"),
    ],
)
def test_the_template_refuses(name, value):
    parameters = json.loads((TEMPLATE / "metadata.json").read_text())["parameters"]
    (regex,) = next(p["regexes"] for p in parameters if p["name"] == name)
    assert not re.search(regex, value)


@pytest.mark.thorough
def test_the_graph_of_a_petabyte_is_small(tmp_path):
    """Labels and their table of 0.875 PB in millions of slabs; Dataflow takes graphs of up to 10 MB."""
    shape, chunks = (500_000, 350_000, 5_000), (128, 1024, 1024)
    grid = {"name": "regular", "configuration": {"chunk_shape": chunks}}
    metadata = {"shape": shape, "data_type": "uint8", "chunk_grid": grid}
    spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/em.zarr", "metadata": metadata}
    ts.open(spec, create=True).result()
    em = bv.open(tmp_path / "em.zarr")
    cells = bv.label(bv.gaussian_filter(em, 1) > bv.threshold_otsu(em))
    table = bv.regionprops_table(cells, em, properties=("label", "area", "intensity_mean"))
    p = beam.Pipeline()
    p | bv.Compute(cells.to(tmp_path / "cells.zarr"), table.to(tmp_path / "cells.parquet"))
    assert p.to_runner_api().ByteSize() < 3_000_000
