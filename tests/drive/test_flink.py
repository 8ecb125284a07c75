"""A job that is cancelled on Flink is gone from the cluster, or the message has the request that ends it."""

import json
import os
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from apache_beam.runners.runner import PipelineResult

from beam_volumes.drive import flink
from beam_volumes.drive.flink import FlinkJob
from beam_volumes.drive.pipelines import cancelled


class Result(PipelineResult):
    """A job server's answer: it says cancelled at once."""

    def __init__(self):
        super().__init__("RUNNING")

    def cancel(self):
        self._state = "CANCELLED"


@contextmanager
def cluster(ends_after, listed_after=0):
    """A REST server with our job, another one, and one that has ended; and what it was asked."""
    asked = {"GET": 0, "PATCH": []}

    class Handler(BaseHTTPRequestHandler):
        def answer(self, content):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def do_GET(self):
            asked["GET"] += self.path == "/jobs/overview"
            state = "RUNNING" if not asked["PATCH"] else "CANCELLING"
            state = "CANCELED" if asked["PATCH"] and asked["GET"] > ends_after else state
            jobs = [("ours", state), ("others", "RUNNING"), ("before", "FINISHED")]
            jobs = jobs[asked["GET"] <= listed_after :]
            names = {"others": "another", "ours": "name", "before": "name"}
            listed = [{"jid": jid, "name": names[jid], "state": s} for jid, s in jobs]
            self.answer({"jobs": listed})

        def do_PATCH(self):
            asked["PATCH"].append(self.path)
            self.answer({})

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("localhost", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}", asked
        server.shutdown()


def test_cancelling_waits_until_flink_has_ended_the_job():
    with cluster(ends_after=4) as (rest, asked):
        assert cancelled(FlinkJob(Result(), rest, "name")) == "the job is cancelled"
    assert asked == {"GET": 5, "PATCH": ["/jobs/ours?mode=cancel"]}


def test_a_job_that_flink_does_not_list_yet_is_cancelled_too(monkeypatch):
    with cluster(ends_after=8, listed_after=4) as (rest, asked):
        assert cancelled(FlinkJob(Result(), rest, "name")) == "the job is cancelled"
        assert asked == {"GET": 9, "PATCH": ["/jobs/ours?mode=cancel"]}
    with cluster(ends_after=0, listed_after=10**6) as (rest, asked):
        ended = Result()
        ended.cancel()  # the job server could not submit it
        assert cancelled(FlinkJob(ended, rest, "name")) == "the job is cancelled"
        monkeypatch.setattr(flink, "_MAX_WAIT", 0.5)
        message = cancelled(FlinkJob(Result(), rest, "name"))
        assert "not listed after" in message and "/jobs/ID?mode=cancel" in message
        assert not asked["PATCH"]


def test_a_job_that_goes_on_is_reported_with_what_ends_it(monkeypatch):
    monkeypatch.setattr(flink, "_MAX_WAIT", 0.5)
    with cluster(ends_after=10**6) as (rest, _):
        message = cancelled(FlinkJob(Result(), rest, "name"))
        assert f"curl -X PATCH '{rest}/jobs/ours?mode=cancel'" in message
        assert message.startswith("the job still runs") and "not ended after" in message
    message = cancelled(FlinkJob(Result(), rest, "name"))  # nothing answers any more
    assert f"curl -X PATCH '{rest}/jobs/ID?mode=cancel'" in message


@pytest.mark.parametrize(
    ("options", "rest"),
    [
        ([], None),
        (["--flink_master=[local]"], None),
        (["--flink_master=node:8081"], "http://node:8081"),
        (["--flink_master=https://node/"], "https://node"),
    ],
)
def test_where_a_cluster_answers(options, rest):
    assert flink.rest_address(flink.PipelineOptions(options)) == rest


def test_a_job_server_that_beam_starts_gets_the_settings_of_jobs(monkeypatch, tmp_path):
    seen = []

    class Pipeline:
        def run(self):
            folder = Path(os.environ["FLINK_CONF_DIR"])
            seen.append([f.read_text() for f in folder.iterdir()])

    monkeypatch.delenv("FLINK_CONF_DIR", raising=False)
    flink.started(Pipeline())
    assert "FLINK_CONF_DIR" not in os.environ
    monkeypatch.setenv("FLINK_CONF_DIR", str(tmp_path))
    flink.started(Pipeline())
    assert seen == [[f"{flink.SETTINGS}\n"], []]


def test_job_servers_of_the_templates_have_the_settings_of_jobs():
    templates = Path(__file__).parents[2] / "templates"
    settings = yaml.safe_load((templates / "flink" / "settings.yaml").read_text())
    operator = (templates / "flink-operator" / "job-server.yaml").read_text()
    maps = [d for d in yaml.safe_load_all(operator) if d["kind"] == "ConfigMap"]
    wanted = yaml.safe_load(flink.SETTINGS)
    assert wanted.items() <= settings.items()
    assert wanted == yaml.safe_load(maps[0]["data"]["flink-conf.yaml"])
