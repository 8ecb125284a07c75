"""What a web server has: the formats of TensorStore, at http://."""

import functools
import http.server
import threading

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.cli.main import main
from beam_volumes.storage import open_source
from tests.storage.test_n5 import foreign as n5
from tests.storage.test_precomputed import SHARDED
from tests.storage.test_precomputed import foreign as precomputed
from tests.storage.test_zipped import voxels, zipped


class Handler(http.server.SimpleHTTPRequestHandler):
    """Gives ranges of files too."""

    asked: list[str] = []  # noqa: RUF012
    #: Messages about missing files.
    absent = 404
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.asked.append(self.path)
        try:
            with open(self.translate_path(self.path), "rb") as file:
                data = file.read()
        except OSError:
            self.send_error(self.absent)
            return
        spans = self.headers.get("Range")
        if spans:
            first, _, last = spans.removeprefix("bytes=").partition("-")
            a = int(first) if first else max(0, len(data) - int(last))
            b = min(len(data), int(last) + 1) if first and last else len(data)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {a}-{b - 1}/{len(data)}")
            data = data[a:b]
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path):
    handler = functools.partial(Handler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def made(tmp_path):
    """Volumes of all formats, by what stands before their names; each holds the same voxels."""
    array = voxels()
    n5(tmp_path / "a.n5", array)
    cube = array.T[..., None]
    precomputed(tmp_path / "p", cube)
    precomputed(tmp_path / "s", cube, sharding=SHARDED)
    zipped(tmp_path / "a.zip", array)
    for name in ("a b.zarr", "a.ome.zarr"):
        bv.compute(bv.open(array).to(tmp_path / name, chunks=16), runner=None)
    return array


PLACES = [
    ("zarr", "a%20b.zarr"),
    ("zarr3", "a.ome.zarr"),
    ("n5", "a.n5"),
    ("precomputed", "p"),
    ("precomputed", "s/"),
    ("zip", "a.zip"),
]


def test_all_formats(tmp_path, server):
    array = made(tmp_path)
    for scheme, name in PLACES:
        source = open_source(f"{scheme}://{server}/{name}")
        assert source.reader.remote and source.portable
        np.testing.assert_array_equal(source.read(), array)
        assert open_source(f"{server}/{name}").token() == source.token()
    expected = np.asarray(bv.maximum_filter(bv.open(array), 3))
    found = bv.compute(bv.maximum_filter(bv.open(f"{server}/a.n5"), 3), runner=None)
    np.testing.assert_array_equal(found, expected)


def test_a_format_before_a_local_place(tmp_path, capsys):
    array = made(tmp_path)
    for scheme, name in PLACES:
        place = str(tmp_path / name.replace("%20", " "))
        np.testing.assert_array_equal(bv.open(f"{scheme}://{place}"), array)
        main(["info", f"{scheme}://{place}"])
        assert "21 x 47 x 33" in capsys.readouterr().out
    for place in (
        f"n5://file://{tmp_path}/a.n5",
        f"{tmp_path}/a.n5|n5:",
        f"file://{tmp_path}/p/|neuroglancer-precomputed:",
        f"{tmp_path}/a.zip|zip:|zarr3:",
    ):
        np.testing.assert_array_equal(bv.open(place), array)
    with pytest.raises(FileNotFoundError, match=r"a\.n5: there is no neuroglancer precomputed"):
        bv.open(f"precomputed://{tmp_path}/a.n5")


def test_what_is_not_there(tmp_path, server):
    for place in (f"{server}/nothing", f"zarr://{server}/nothing"):
        with pytest.raises(FileNotFoundError, match="nothing"):
            bv.open(place)
    with pytest.raises(ValueError, match="web servers are read-only"):
        bv.open(np.zeros((2, 3, 4))).to(f"{server}/a.zarr")


def test_a_chunk_is_asked_for_once(tmp_path, server):
    made(tmp_path)
    source = open_source(f"{server}/p")
    Handler.asked.clear()
    source.read()
    chunks = [path for path in Handler.asked if "4_5_40" in path]
    assert len(chunks) == len(set(chunks)) == 27


def test_a_server_that_refuses_what_is_not_there(tmp_path, server, monkeypatch):
    """Public buckets do, if they cannot be listed."""
    array = made(tmp_path)
    monkeypatch.setattr(Handler, "absent", 403)
    for name in ("a.ome.zarr", "p"):
        assert open_source(f"{server}/{name}").shape == array.shape
    n5(tmp_path / "b.n5", array + 1)
    np.testing.assert_array_equal(bv.open(f"{server}/b.n5"), array + 1)
    with pytest.raises(PermissionError, match="nothing"):
        open_source(f"{server}/nothing")
