"""templates/flink/compose.yaml is consistent, and agrees with the cluster that the tests run."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from beam_volumes.cli.main import parser
from beam_volumes.drive.pipelines import pipeline_options
from beam_volumes.plan.cost.machine import parse_bytes

FLINK = Path(__file__).parents[2] / "templates" / "flink"
SCRIPT = (FLINK / "cluster.sh").read_text()
PAGE = (FLINK / "README.md").read_text()
# As texts: neither the script nor Flink's image reads them as YAML.
SETTINGS = yaml.load((FLINK / "settings.yaml").read_text(), yaml.BaseLoader)


@pytest.fixture
def services():
    return yaml.safe_load((FLINK / "compose.yaml").read_text())["services"]


def default(text):
    return re.fullmatch(r"\$\{\w+:-(.*)\}", text)[1]


def commands():
    """The command lines of beam-volumes that the page gives the driver, parsed."""
    (block,) = re.findall(r"^```console\n(.*?)^```", PAGE, re.M | re.S)
    found = [shlex.split(line) for line in block.splitlines() if " run --rm driver " in line]
    return [parser().parse_known_args(words[words.index("driver") + 1 :]) for words in found]


def test_every_taskmanager_has_workers_in_its_network(services):
    managers = [name for name, s in services.items() if s.get("command") == ["taskmanager"]]
    assert len(managers) == 2
    pools = [services[name]["network_mode"].removeprefix("service:") for name in managers]
    assert len(set(pools)) == len(pools)
    docker = (FLINK / "Dockerfile").read_text()
    entry, words = (
        eval(re.search(rf"^{key} (\[.*\])", docker, re.M)[1]) for key in ("ENTRYPOINT", "CMD")
    )
    args, others = parser().parse_known_args(words)
    assert entry == ["beam-volumes"] and args.host == "localhost" and not others
    for pool in pools:
        assert "network_mode" not in services[pool] and "command" not in services[pool]
        assert services[pool]["volumes"] == services["driver"]["volumes"]
        for seen in (services[pool], services["driver"]):
            assert (FLINK / seen["build"]["context"] / seen["build"]["dockerfile"]).samefile(
                FLINK / "Dockerfile"
            )
    for s in services.values():
        for other in s.get("depends_on", []):
            assert other in services
        assert s.get("network_mode", "service:driver").removeprefix("service:") in services
    # Their description on the page.
    dry, run = commands()
    assert dry[0].dry_run and not dry[1] and not run[0].dry_run
    assert dry[0].memory == run[0].memory and dry[0].workers == run[0].workers
    said = pipeline_options(run[1]).get_all_options()
    assert said["environment_config"] == f"localhost:{args.port}"
    assert f"POOL_PORT={{POOL_PORT:-{args.port}}}".replace("{", "${", 1) in SCRIPT
    slots = int(SETTINGS["taskmanager.numberOfTaskSlots"])
    assert run[0].workers == slots
    assert (
        f"--parallelism={len(managers) * slots}" in run[1]
        or said["parallelism"] == len(managers) * slots
    )
    memory = parse_bytes(default(services[pools[0]]["mem_limit"]) + "ib")
    assert memory == parse_bytes(run[0].memory) + (1 << 30)


def test_flink_gets_the_settings_that_the_tests_run_with(services, tmp_path):
    """By the entry point of its containers, which hands the image's own what that understands."""
    seen = tmp_path / "seen"
    for name in ("jobmanager", "taskmanager-1"):
        *shell, text, zeroth = services[name]["entrypoint"]
        text = text.replace("$$", "$").replace("/settings.yaml", str(FLINK / "settings.yaml"))
        text = text.replace("/docker-entrypoint.sh", str(tmp_path / "entry"))
        (tmp_path / "entry").write_text(f'#!/bin/sh\necho "$FLINK_PROPERTIES" >{seen}; echo "$@"\n')
        os.chmod(tmp_path / "entry", 0o755)
        command = [*shell, text, zeroth, *services[name]["command"]]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.split() == services[name]["command"]
        found = dict(line.split(": ") for line in seen.read_text().splitlines())
        assert found == {**SETTINGS, "jobmanager.rpc.address": "jobmanager"}
    assert SETTINGS["restart-strategy.type"] == "failure-rate"
    # Who gives a job to the JobManager has the same stack.
    stack = SETTINGS["env.java.opts.jobmanager"]
    assert "--job_server_jvm_properties=$FLINK_ENV_JAVA_OPTS_JM" in SCRIPT
    environment = services["jobserver"]["environment"]
    assert environment == {"JAVA_TOOL_OPTIONS": stack, "FLINK_CONF_DIR": "/conf"}
    assert services["jobserver"]["volumes"] == ["./settings.yaml:/conf/flink-conf.yaml:ro"]
    version = re.search(r"--flink_version=([\d.]+)", SCRIPT)[1]
    assert services["jobmanager"]["image"].startswith(f"flink:{version}-")
    assert services["jobserver"]["image"].startswith(f"apache/beam_flink{version}_job_server:")
