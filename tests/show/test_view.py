"""Neuroglancer sees the right voxels, from any storage or computation."""

import argparse
import http.client
import json
import signal
import socket
import subprocess
import sys
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.base.text import parsed_json
from beam_volumes.cli.verbs.view import items
from beam_volumes.show.viewer.chunks import Chunks
from beam_volumes.show.viewer.serving import Server
from tests.show import browser
from tests.tiers import thorough
from tests.waiting import PATIENCE, wait_until

EM = np.random.default_rng(0).integers(0, 255, (40, 70, 90)).astype("u1")


def get(url, **headers):
    with urlopen(Request(url, headers=headers)) as answer:
        return answer.status, answer.read(), answer.headers


def status(url, **headers):
    try:
        return get(url, **headers)[0]
    except HTTPError as error:
        return error.code


def assembled(chunks, k):
    """A scale as a viewer puts it together: x first, by the metadata alone."""
    scale = chunks.info()["scales"][k]
    size, (step,) = scale["size"], scale["chunk_sizes"]
    dtype = np.dtype(chunks.info()["data_type"]).newbyteorder("<")
    whole = np.empty(size, dtype)
    for start in np.ndindex(*(-(-n // c) for n, c in zip(size, step, strict=True))):
        a = [i * c for i, c in zip(start, step, strict=True)]
        b = [min(i + c, n) for i, c, n in zip(a, step, size, strict=True)]
        name = "_".join(f"{i}-{j}" for i, j in zip(a, b, strict=True))
        part = np.frombuffer(chunks.chunk(scale["key"], name), dtype)
        shape = [j - i for i, j in zip(a, b, strict=True)]
        whole[tuple(map(slice, a, b))] = part.reshape(shape, order="F")
    return whole.T


@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "u4", "f4"])
def test_chunks_are_the_voxels(dtype, tmp_path):
    voxels = (EM > 127) if dtype == "?" else EM.astype(dtype)
    bv.compute(bv.open(voxels).to(str(tmp_path / "v.zarr"), chunks=(1, 70, 90)), runner=None)
    v = bv.open(str(tmp_path / "v.zarr"))
    assert np.array_equal(
        assembled(Chunks(v[3:, :, 5:].node, v.space, False), 0), voxels[3:, :, 5:]
    )
    for made in (v.node, (v.astype("f8") + 1).node):
        chunks = Chunks(made, v.space, False)
        assert np.array_equal(assembled(chunks, 0), voxels.astype("f4") + (made is not v.node))
    for name in ("0-64_0-64_0-63", "1-64_0-64_0-40", "64-128_0-64_0-40", "x", "0-0_0-0_0-0"):
        assert chunks.chunk("0", name) is None
    assert chunks.chunk("7", "0-64_0-64_0-40") is None


def test_what_is_large_has_coarser_scales():
    voxels = np.broadcast_to(np.arange(700, dtype="u2"), (3, 600, 700))
    v = bv.open(np.ascontiguousarray(voxels), voxel_size=(50, 10, 10), unit="nm")
    chunks = Chunks(v.node, v.space, False)
    scales = chunks.info()["scales"]
    assert [s["size"] for s in scales] == [[700, 600, 3], [350, 300, 3], [175, 150, 3]]
    assert [s["resolution"] for s in scales] == [[10, 10, 50], [20, 20, 50], [40, 40, 50]]
    assert np.array_equal(assembled(chunks, 2), voxels[:, 2::4, 2::4])


def test_the_server_gives_what_is_offered_and_nothing_else(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "secret").write_text("no")
    (tmp_path / "open" / "chunk").write_bytes(bytes(range(100)))
    (tmp_path / "open" / "link").symlink_to(tmp_path / "secret")
    server = Server()
    server.folder("files", str(tmp_path / "open"))

    def fails(path):
        raise ValueError("no such voxels")

    server.answers("fails", fails)
    with server:
        file = server.url + "files/chunk"
        code, body, headers = get(file)
        assert (code, body, headers["Accept-Ranges"]) == (200, bytes(range(100)), "bytes")
        for asked, want in (
            ("3-9", (3, 10)),
            ("90-", (90, 100)),
            ("-5", (95, 100)),
            ("98-200", (98, 100)),
        ):
            code, body, headers = get(file, Range=f"bytes={asked}")
            assert (code, body) == (206, bytes(range(*want)))
            assert headers["Content-Range"] == f"bytes {want[0]}-{want[1] - 1}/100"
        assert status(file, Range="bytes=100-") == 416
        assert status(server.url + "files/link") == status(server.url + "files/..%2fsecret") == 404
        assert status(server.url + "files/") == status(server.url + "other") == 404
        assert status(server.url + "fails/1") == 500 and "no such voxels" in server.failed[0]
        assert status(file, Host="evil.example:80") == 403
        assert status(file.replace(server.word, "guess")) == 403
        place = urlsplit(file)
        connection = http.client.HTTPConnection(place.netloc)
        connection.request("HEAD", place.path)
        answer = connection.getresponse()
        assert (answer.status, answer.read(), answer.headers["Content-Length"]) == (200, b"", "100")
        connection.request("POST", place.path, b"x")
        assert connection.getresponse().status == 403


def test_requests_without_the_secret_keep_no_failure_and_no_connection():
    """Failures are printed when the view ends; those with the secret do not contain it."""
    server = Server()
    with server:
        place = urlsplit(server.url)
        for path in ("http://[/guess/a", f"http://[{place.path}a"):
            with socket.create_connection((place.hostname, place.port), PATIENCE) as connection:
                connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n".encode())
                assert connection.recv(100).startswith(b"HTTP/1.1 400")
        assert server.failed == ["http://[/a: ValueError: Invalid IPv6 URL"]
        with socket.create_connection((place.hostname, place.port), PATIENCE) as connection:
            connection.sendall(f"GET /guess/a HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n".encode())
            assert connection.makefile("rb").read().startswith(b"HTTP/1.1 403")  # up to its end


def told(viewer):
    """The state that a client receives."""
    with urlopen(viewer.url.replace("v/view/index.html", "events/view?c=me&gc=&gs=")) as events:
        lines = [events.readline() for _ in range(3)]
    found = [json.loads(line.removeprefix(b"data: ")) for line in lines if line.strip()]
    assert [f["k"] for f in found] == ["c", "s"]
    return found[1]["s"]


@pytest.mark.parametrize(("client", "scheme"), [("2.40.1", "precomputed"), ("2.41.2", "zarr3")])
def test_ome_zarr_05_is_read_as_it_is_by_clients_that_can(tmp_path, monkeypatch, client, scheme):
    monkeypatch.setattr("beam_volumes.show.viewer.client.version", lambda _: client)
    name = str(tmp_path / "em.ome.zarr")
    bv.compute(bv.open(EM, voxel_size=(20, 10, 10), unit="nm").to(name), runner=None)
    with bv.view(bv.open(name)) as viewer:
        (layer,) = told(viewer)["layers"]
        assert layer["source"]["url"].startswith(f"{scheme}://http://127.0.0.1:")


@pytest.mark.parametrize(
    ("verb", "path", "headers", "body"),
    [
        ("GET", "a", {"Range": f"bytes={'9' * 5000}-"}, None),
        ("GET", "a", {"Content-Length": "9" * 5000}, None),
        ("GET", "a", {"X": "y" * 100_000}, None),
        ("GET", "a/" + "b" * 70_000, {}, None),
        ("POST", "state", {"Content-Length": "9" * 5000}, None),
        ("POST", "state", {"Content-Length": "²"}, None),
        ("POST", "state", {}, b"["),
        ("POST", "state", {}, b"[" * 100_000),
        ("POST", "state", {}, b"[1]"),
        ("POST", "state", {}, b"\xff\xfe"),
    ],
)
def test_requests_that_are_none_print_no_traceback(verb, path, headers, body, capsys):
    server = Server()
    taken = []
    server.answers("a", lambda path: (b"", "text/plain"))
    server.post_handlers["state"] = lambda body: (
        taken.append(parsed_json(body)["s"]) or (b"", "text/plain")
    )
    host = urlsplit(server.url)
    with server:
        connection = http.client.HTTPConnection(host.hostname, host.port, timeout=PATIENCE)
        connection.putrequest(verb, f"{host.path}{path}")
        if body is not None:
            headers = {**headers, "Content-Length": str(len(body))}
        for name, value in headers.items():
            connection.putheader(name, value.encode("latin-1"))
        connection.endheaders(body)
        assert connection.getresponse().status in (200, 400, 403, 404, 414, 416, 431)
        connection.close()
        assert urlopen(server.url + "a").status == 200  # it goes on
    assert not taken and capsys.readouterr().err == ""


def test_layers(tmp_path):
    """Whole OME-Zarr on a disk is read directly; others, and expressions, by our chunks."""
    em = bv.open(EM, voxel_size=(40, 10, 10), unit="nm", origin=(0, 20, 0))
    name = str(tmp_path / "em.ome.zarr")
    bv.compute(em.to(name, chunks=32, ome_version="0.4"), runner=None)
    cells = bv.label(bv.gaussian_filter(em, 2) > bv.threshold_otsu(bv.gaussian_filter(em, 2)))
    table = bv.regionprops_table(cells, properties=["area", "bbox"])
    bv.compute(table.to(str(tmp_path / "t.csv")), runner=None)
    stored = bv.open(name)
    channels = bv.stack([em, em > 100], names=["a", "b"])
    with bv.view(stored, stored[1:], cells, channels, str(tmp_path / "t.csv")) as viewer:
        layers = told(viewer)["layers"]
        native, cropped, labels, first, second, regions = layers
        assert native["source"]["url"].startswith("zarr2://http://127.0.0.1:")
        assert get(f"{native['source']['url'].removeprefix('zarr2://')}/.zattrs")[0] == 200
        kinds = " ".join(x["type"] for x in layers)
        assert kinds == "image image segmentation image image annotation"
        assert first["name"].endswith(" a") and second["name"].endswith(" b")
        matrix = cropped["source"]["transform"]["matrix"]
        assert [row[3] for row in matrix] == [0, 2, 1]
        url = labels["source"]["url"].removeprefix("precomputed://")
        body = get(f"{url}/0/0-64_0-64_0-40")[1]
        want = np.asarray(cells)
        assert np.array_equal(np.frombuffer(body, "<u4").reshape(40, 64, 64), want[:, :64, :64])
        rows = table.to_pyarrow().to_pydict()
        assert len(regions["annotations"]) == len(rows["label"])
        largest = int(np.argmax(rows["area"]))
        box = [rows[f"bbox-{k}"][largest] for k in (2, 1, 0)]
        assert regions["annotations"][0]["pointA"] == [box[0], box[1] + 2, box[2]]
        change = {"s": {"layers": []}, "g": 5, "c": "me", "pg": "0"}
        place = viewer.url.replace("v/view/index.html", "state/view")
        with urlopen(Request(place, json.dumps(change).encode(), method="POST")) as answer:
            assert json.load(answer) == {"g": "me/5"}
        assert told(viewer) == {"layers": []} and viewer.failed == []


def test_a_run_is_all_that_it_wrote(tmp_path):
    """Volumes, each once for all its levels, and tables; names of earlier layers are not reused."""
    cells = bv.label(bv.open(EM) > 200)
    table = bv.regionprops_table(cells, properties=["area", "centroid"])
    name = str(tmp_path / "cells.ome.zarr")
    targets = cells.to(name, levels=2, chunks=32), table.to(str(tmp_path / "t.csv"))
    bv.compute(*targets, bv.stack([EM, EM]).to(str(tmp_path / "c.zarr")), runner=None)
    args = argparse.Namespace(
        paths=[f"{name}.run"], crop=None, set=[], voxel_size=None, unit=None, origin=None,
        axes=None, index=None, dataset=None, level=None, mpp=None, option=[],
    )  # fmt: skip
    found = items(args)
    assert [type(item).__name__ for item in found.values()] == ["Volume", "Volume", "str"]
    assert sorted(found) == ["c", "cells", "t"]
    assert found["c"].shape == (2, *EM.shape) and found["cells"].shape == EM.shape


def test_mistakes(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="has no voxels to view"):
        bv.view(np.zeros((0, 4, 5)))
    with pytest.raises(TypeError, match="expected a Volume"):
        bv.view(3)
    (tmp_path / "t.csv").write_text("label,area\n1,2\n")
    with pytest.raises(ValueError, match="measure bbox or centroid"):
        bv.view(str(tmp_path / "t.csv"))
    monkeypatch.setattr(bv.options, "max_inmemory", 100)
    with pytest.raises(ValueError, match="must be computed as a whole"):
        bv.view(bv.label(bv.open(EM) > 3))
    monkeypatch.setattr("beam_volumes.show.viewer.client.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'beam-volumes\[view\]'"):
        bv.view(EM)


def test_the_command(tmp_path):
    """It prints the link, serves a recipe's volumes before they are computed, and ends by Ctrl-C."""
    np.save(tmp_path / "em.npy", EM)
    recipe = "input: em.npy\nsteps:\n  mean: mean\n  above: {op: greater, inputs: [input, mean]}\n"
    (tmp_path / "r.yaml").write_text(recipe + "output: above.zarr\n")
    # A shell that runs the tests in the background may ignore Ctrl-C, and so would its children.
    program = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from beam_volumes.cli.main import main; sys.exit(main())"
    )
    command = [sys.executable, "-c", program, "view", "em.npy", "r.yaml", "--print"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=tmp_path, **pipes) as process:
        try:
            url = process.stdout.readline().strip()
            assert b"neuroglancer" in get(url)[1].lower()
            base = url.replace("v/view/index.html", "")
            assert get(f"{base}v0c0/info")[0] == 200
            body = get(f"{base}v1c0/0/0-64_0-64_0-40")[1]
            want = (EM.mean() < EM)[:, :64, :64]
            assert np.array_equal(np.frombuffer(body, "u1").reshape(40, 64, 64), want)
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0, process.stderr.read()
            assert process.stderr.read().splitlines()[-1].strip() in ("", "serving until Ctrl-C")
        finally:
            process.kill()  # if it has not ended: no process waits for it


@pytest.fixture
def chromium():
    """Pages are looked at where chromium is installed; where CI is set it has to be."""
    browser.require()


def panels(png, rows=2, columns=2, top=60):
    """How many colours each panel of a screenshot has."""
    import imagecodecs

    picture = imagecodecs.png_decode(png)[top:, :, :3].astype(np.int64)
    colours = picture @ [1 << 16, 1 << 8, 1]
    return [
        len(np.unique(part))
        for row in np.array_split(colours, rows)
        for part in np.array_split(row, columns, axis=1)
    ]


@thorough
@pytest.mark.usefixtures("chromium")
def test_a_browser_shows_the_layers(tmp_path):
    """Each panel has more than its background, and no request fails."""
    em = bv.open(EM, voxel_size=(20, 10, 10), unit="nm")
    smooth = bv.gaussian_filter(em, 2)
    name = str(tmp_path / "em.ome.zarr")
    bv.compute(em.to(name, chunks=32), runner=None)
    cells = bv.label(smooth > bv.mean(smooth))
    table = bv.regionprops_table(cells, properties=["area", "bbox"])
    bv.compute(table.to(str(tmp_path / "t.csv")), runner=None)
    items = bv.open(name), smooth, cells, str(tmp_path / "t.csv")
    with bv.view(*items) as viewer, browser.Page((900, 700)) as page:
        page.open(viewer.url)
        shows = f"document.querySelectorAll('.neuroglancer-layer-item').length >= {len(items)}"
        page.until(shows)
        wait_until(
            lambda: min(panels(page.picture())) > 100, "voxels in all panels", check=page.listen
        )
        told = "viewer.layerManager.managedLayers.map(l => l.layer.dataSources[0].loadState)"
        page.until(f"{told}.every(s => s && !s.error)")
        assert page.failures == [] and page.messages == [] and viewer.failed == []


@thorough
@pytest.mark.usefixtures("chromium")
def test_a_browser_shows_the_report(tmp_path):
    """Its sliders change the sections, and it asks for nothing."""
    bv.compute(bv.open(EM).to(str(tmp_path / "em.ome.zarr"), chunks=20), runner=None)
    from beam_volumes.show.pages.report import report

    place = tmp_path / "report.html"
    place.write_text(report(str(tmp_path / "em.ome.zarr")))
    with browser.Page((1200, 1400)) as page:
        page.open(place.as_uri())
        page.until("document.querySelectorAll('figure img').length == 3")
        wait_until(
            lambda: min(panels(page.picture(), 4, 1, 0)) > 5, "the sections", check=page.listen
        )
        before = page.picture()
        moved = (
            "r = document.querySelector('input'); r.value = 0; r.dispatchEvent(new Event('input'));"
        )
        page.until(moved + "document.querySelector('output').textContent == 'z = 0'")
        wait_until(lambda: page.picture() != before, "other sections", check=page.listen)
        assert page.failures == [] and page.messages == []
        assert {u.partition(":")[0] for u in page.requests.values()} <= {"file", "data"}
