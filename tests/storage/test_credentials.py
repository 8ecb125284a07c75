"""Passwords, tokens and signatures: used where they are needed, and written nowhere."""

import json
import pickle
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import cloudpickle
import numpy as np
import pytest
import tensorstore as ts

import beam_volumes as bv
from beam_volumes.cli.main import main
from beam_volumes.recipes.recipe import recipe_from
from beam_volumes.runs.manifest import Manifest
from beam_volumes.storage.places import credentials
from beam_volumes.storage.places.credentials import check_no_secrets
from beam_volumes.storage.places.place import kvstore_spec

SECRET = "hunter2hunter2"


class Guarded(SimpleHTTPRequestHandler):
    """Serves files to clients with the password."""

    def do_GET(self):
        if self.headers.get("Authorization") == f"Bearer {SECRET}":
            super().do_GET()
        else:
            self.send_error(401)

    def log_message(self, *_):
        return None


@pytest.fixture
def server(tmp_path):
    """The address of a folder that asks for a password, in which there is a volume."""
    array = np.arange(120, dtype="u1").reshape(4, 5, 6)
    (tmp_path / "served").mkdir()
    bv.compute(bv.open(array).to(tmp_path / "served" / "in.zarr"), runner=None, keep_journal=False)
    guarded = ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Guarded, directory=str(tmp_path / "served"))
    )
    thread = threading.Thread(target=guarded.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{guarded.server_port}", array
    guarded.shutdown()
    thread.join()
    guarded.server_close()


def guarded(address, value):
    store = {"driver": "http", "base_url": address, "path": "/in.zarr/"}
    return {"driver": "zarr3", "kvstore": {**store, "headers": [f"Authorization: {value}"]}}


def test_a_secret_in_the_environment_is_used_and_kept_nowhere(server, tmp_path, monkeypatch):
    address, array = server
    monkeypatch.setenv("ENTRY", SECRET)
    v = bv.open(guarded(address, "Bearer ${ENTRY}"))
    np.testing.assert_array_equal(np.asarray(v[1:]), array[1:])
    target = (v + 1).to(tmp_path / "out.zarr")
    written = bv.compute(target, bv.mean(v), runner="FnApiRunner", progress=False)[0]
    np.testing.assert_array_equal(np.asarray(written), array + 1)
    held = [cloudpickle.dumps(bv.plan(target)), pickle.dumps(v.node.source), repr(v).encode()]
    held += [f.read_bytes() for f in (tmp_path / "out.zarr.run").rglob("*") if f.is_file()]
    assert len(held) > 6 and not any(SECRET.encode() in data for data in held)
    assert any(b"ENTRY" in data for data in held)
    # It does not change the computation: a new one continues the run.
    bv.compute(target, bv.mean(v), resume=True, runner=None, progress=False)


def test_a_secret_that_is_wrong_or_not_there_is_not_told(server, monkeypatch, capsys):
    address, _ = server
    spec = guarded(address, "Bearer ${ENTRY}")
    with pytest.raises(OSError, match="variable ENTRY, which is not set"):
        bv.open(spec)
    monkeypatch.setenv("ENTRY", wrong := "wrong4wrong4")
    with pytest.raises(PermissionError, match=address) as caught:
        bv.open(spec)
    assert wrong not in str(caught.value)
    assert main(["info", json.dumps(spec)]) == 2
    assert main(["info", json.dumps(guarded(address, f"Bearer {SECRET}"))]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 2 and wrong not in said and SECRET not in said


HTTP = {"driver": "http", "base_url": "https://example.org"}
LITERAL = {
    "header": {**HTTP, "headers": [f"Authorization: Bearer {SECRET}"]},
    "header with a variable": {**HTTP, "headers": ["Accept: a", "X-Key: ${A} " + SECRET]},
    "cookie": {**HTTP, "headers": [f"Cookie: id={SECRET}"]},
    "password": {**HTTP, "base_url": f"https://me:{SECRET}@example.org"},
    "user": f"https://{SECRET}@example.org/in.zarr/",
    "signed address": f"https://example.org/in.zarr/?a=b&X-Amz-Signature={SECRET}",
    "signed path": {**HTTP, "path": f"in.zarr?sig={SECRET}"},
    "endpoint": {"driver": "s3", "bucket": "abc", "endpoint": f"http://me:{SECRET}@example.org"},
    "layers": {"driver": "kvstack", "layers": [{"base": {**HTTP, "headers": [f"A: {SECRET}"]}}]},
    "archive": {"driver": "zip", "base": f"https://me:{SECRET}@example.org/a.zip"},
}


@pytest.mark.parametrize("name", LITERAL)
@pytest.mark.parametrize("place", ["array", "view", "output", "journal", "table", "bare", "opened"])
def test_a_literal_secret_is_refused_where_it_would_be_kept(name, place, tmp_path):
    store = LITERAL[name]
    spec = {"driver": "zarr3", "kvstore": store}
    v = bv.open(np.zeros((2, 3, 4), "u1"))
    acts = {
        "array": lambda: bv.open(spec),
        "view": lambda: bv.open({"driver": "cast", "dtype": "float32", "base": spec}),
        "output": lambda: v.to(store),
        "journal": lambda: bv.compute(v.to(tmp_path / "a.zarr"), journal=store, runner=None),
        "table": lambda: bv.regionprops_table(bv.label(v)).to(store),
        "bare": lambda: bv.open(store),
        "opened": lambda: bv.open(ts.Spec(spec)),
    }
    with pytest.raises((ValueError, TypeError)) as caught:
        acts[place]()
    assert SECRET not in str(caught.value)
    if place in ("array", "view", "opened"):
        assert "written into plans" in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_an_endpoint_of_the_environment_holds_no_password(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://me:{SECRET}@example.org:9000")
    with pytest.raises(ValueError, match="Authorization") as caught:
        kvstore_spec("s3://bucket/a.zarr")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "spec",
    [
        {**HTTP, "headers": ["User-Agent: me", "accept: */*", "X-Key: ${KEY}", "Cookie: id=${A}"]},
        {**HTTP, "path": "a@b/in.zarr/?level=2"},
        {"driver": "s3", "bucket": "abc", "aws_credentials": {"type": "profile", "profile": "me"}},
        {"driver": "file", "path": "/tmp/a?token=1/me:you@here"},
        "https://example.org:8000/a/keys/in.zarr/",
    ],
)
def test_what_is_no_secret_is_taken(spec):
    check_no_secrets({"driver": "zarr3", "kvstore": spec})


@pytest.fixture
def expanded(monkeypatch):
    """The headers with variables replaced by their values."""
    found = []
    monkeypatch.setenv("ENTRY", SECRET)
    monkeypatch.setattr(credentials, "_expanded", lambda header: found.append(header) or header)
    return found


SENDING = {"driver": "http", "base_url": "http://127.0.0.1:9", "path": "/in.zarr/"}
SENDING["headers"] = ["X-Key: Bearer ${ENTRY}"]
STORES = {
    "plain": SENDING,
    "layers": {"driver": "kvstack", "layers": [{"base": SENDING}]},
    "archive": {"driver": "zip", "base": SENDING},
}


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("key", ["spec", "path"])
def test_a_recipe_sends_no_environment_variable(name, key, expanded, tmp_path, capsys):
    # What looks like a variable of the recipe is one of the environment once it is put together.
    store = json.loads(json.dumps(STORES[name]).replace("${ENTRY}", "${dollar}{ENTRY}"))
    spec = {"driver": "cast", "dtype": "u1", "base": {"driver": "zarr3", "kvstore": store}}
    document = {"variables": {"dollar": "$"}, "input": {key: spec}, "output": "a.zarr"}
    (tmp_path / "r.yaml").write_text(json.dumps(document))
    assert main(["check", str(tmp_path / "r.yaml")]) == 2
    assert "variable ENTRY, which is not sent" in capsys.readouterr().err
    with pytest.raises(ValueError, match="variable ENTRY, which is not sent"):
        recipe_from(document)
    assert not expanded


@pytest.mark.parametrize("name", STORES)
def test_a_beam_yaml_file_sends_no_environment_variable(name, expanded, tmp_path):
    yaml = pytest.importorskip("beam_volumes.yaml")
    bv.compute(bv.open(np.ones((2, 3, 4), "u1")).to(tmp_path / "a.zarr"), runner=None)
    recipe = {
        "input": str(tmp_path / "a.zarr"),
        "steps": {"mean": None},
        "outputs": [{"step": "mean"}],
    }
    with pytest.raises(ValueError, match="variable ENTRY, which is not sent"):
        yaml.ComputeRecipe(recipe, journal=STORES[name])
    with pytest.raises(ValueError, match="no variable is called 'ENTRY'"):
        yaml.ComputeRecipe(
            {**recipe, "input": {"spec": {"driver": "zarr3", "kvstore": STORES[name]}}}
        )
    assert not expanded


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("made", ["volume", "table"])
def test_a_manifest_sends_no_environment_variable(name, made, expanded, tmp_path):
    v = bv.open(np.ones((2, 3, 4), "u1"))
    target = v.to(tmp_path / "a.zarr") if made == "volume" else None
    target = target or bv.regionprops_table(bv.label(v)).to(tmp_path / "a.csv")
    bv.compute(target, runner=None, progress=False)
    path = next(tmp_path.glob("*.run")) / "manifest.json"
    manifest = Manifest.from_json(path.read_bytes())
    for output in manifest.outputs:
        output["kvstore"] = STORES[name]
    path.write_bytes(manifest.to_json())
    with pytest.raises(ValueError, match="variable ENTRY, which is not sent"):
        bv.verify(path.parent)
    assert not expanded


def test_a_spec_on_the_command_line_may_name_a_variable(server, monkeypatch, capsys):
    address, array = server
    monkeypatch.setenv("ENTRY", SECRET)
    spec = json.dumps(guarded(address, "Bearer ${ENTRY}"))
    assert main(["chain", spec, "max", "--runner", "none"]) == 0
    assert str(array.max()) in capsys.readouterr().out
