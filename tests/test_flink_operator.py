"""The manifests for Kubernetes agree with the settings for one machine, and name one another."""

from pathlib import Path

import apache_beam as beam
import numpy as np
import yaml

import beam_volumes as bv
from beam_volumes.plan.accelerators import DEFAULT
from beam_volumes.transforms.machines import asking, hires

TEMPLATES = Path(__file__).parent.parent / "templates"


def test_the_manifests_agree():
    folder = TEMPLATES / "flink-operator"
    flink = yaml.safe_load((folder / "flink.yaml").read_text())
    server, settings, service = yaml.safe_load_all((folder / "job-server.yaml").read_text())
    run = yaml.safe_load((folder / "run.yaml").read_text())
    spec, said = flink["spec"], dict(flink["spec"]["flinkConfiguration"])
    for role in ("jobManager", "taskManager"):
        said[f"{role.lower()}.memory.process.size"] = spec[role]["resource"]["memory"]
    lines = (TEMPLATES / "flink" / "settings.yaml").read_text().splitlines()
    assert said == dict(line.split(": ") for line in lines if line and line[0].islower())
    _, workers = spec["taskManager"]["podTemplate"]["spec"]["containers"]
    (driver,) = run["spec"]["template"]["spec"]["containers"]
    assert driver["image"] == workers["image"]
    options = dict(a.removeprefix("--").split("=") for a in driver["args"] if a.startswith("--"))
    assert options["environment_config"] == f"localhost:{workers['args'][-1]}"
    slots = int(said["taskmanager.numberOfTaskSlots"])
    assert int(options["workers"]) == slots
    assert int(options["parallelism"]) == slots * spec["taskManager"]["replicas"]
    # --memory of a run, and 1 GiB for the pool.
    assert workers["resources"]["limits"]["memory"] == "9Gi" and options["memory"] == "8GiB"
    (container,) = server["spec"]["template"]["spec"]["containers"]
    assert f"--flink-master={flink['metadata']['name']}-rest:8081" in container["args"]
    ports = {p["name"]: p["port"] for p in service["spec"]["ports"]}
    assert options["job_endpoint"] == f"{service['metadata']['name']}:{ports['jobs']}"
    stack = said["env.java.opts.jobmanager"]
    assert {e["name"]: e["value"] for e in container["env"]} == {
        "JAVA_TOOL_OPTIONS": stack,
        "FLINK_CONF_DIR": "/conf",
    }
    volumes = server["spec"]["template"]["spec"]["volumes"]
    assert {"name": "settings", "configMap": {"name": settings["metadata"]["name"]}} in volumes
    assert {p["containerPort"] for p in container["ports"]} == set(ports.values())


def test_a_gpu_is_a_limit_of_the_workers_and_no_hint():
    text = (TEMPLATES / "flink-operator" / "flink.yaml").read_text()
    note = "}  # and nvidia.com/gpu: 1 for --device cuda"
    flink = yaml.safe_load(text.replace(note, ", nvidia.com/gpu: 1}"))
    _, workers = flink["spec"]["taskManager"]["podTemplate"]["spec"]["containers"]
    assert workers["resources"]["limits"] == {"memory": "9Gi", "nvidia.com/gpu": 1}
    median = bv.median_filter(bv.open(np.zeros((9, 9, 9), "u1")), 3)
    plan = bv.plan(median, device="cuda", device_memory="1GiB")

    def hints(runner):
        step = asking(beam.Map(len), plan, 0, hires(runner), None)
        return step.get_resource_hints()

    assert hints("FlinkRunner") == hints("PortableRunner") == {}
    assert hints("DataflowRunner")["beam:resources:accelerator:v1"].decode() == DEFAULT
