"""The manifests for Kubernetes agree with the settings for one machine, and name one another."""

from pathlib import Path

import yaml

TEMPLATES = Path(__file__).parent.parent / "templates"


def test_the_manifests_agree():
    folder = TEMPLATES / "flink-operator"
    flink = yaml.safe_load((folder / "flink.yaml").read_text())
    server, service = yaml.safe_load_all((folder / "job-server.yaml").read_text())
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
    assert container["env"] == [{"name": "JAVA_TOOL_OPTIONS", "value": stack}]
    assert {p["containerPort"] for p in container["ports"]} == set(ports.values())
