"""Input, output and journal in buckets: the demo as a user runs it, keys and addresses in the environment.

And the same on servers that fail now and then, are slow, refuse, or never answer.
"""

import gc
import os
import subprocess
import sys
import urllib.request
from urllib.parse import quote

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.cli.main import main
from beam_volumes.cli.specimen import write_specimen
from beam_volumes.cli.verbs.demo import RECIPE
from beam_volumes.runs import Journal, run_folder
from beam_volumes.storage.outputs.table_sink import TableSink
from beam_volumes.storage.places import context
from tests.engines.proxy import Weather, proxy
from tests.waiting import PATIENCE

SLABS = ["--slab", "16,64,64"]
#: By scheme, what names the server's address.
ADDRESS = {"s3": "AWS_ENDPOINT_URL", "gs": "TENSORSTORE_GCS_HTTP_URL"}


def s3_error(code: str, text: str = "") -> bytes:
    return f"<?xml version='1.0'?>\n<Error><Code>{code}</Code><Message>{text}</Message></Error>".encode()


EXPIRED = {
    "s3": (403, s3_error("ExpiredToken", "The provided token has expired.")),
    "gs": (401, b'{"error": {"code": 401, "message": "Invalid Credentials"}}'),
}


@pytest.fixture(params=["s3", "gcs"])
def bucket(request, monkeypatch):
    url, env = request.getfixturevalue(request.param)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return url


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The folder of a small demo that has been run there."""
    folder = tmp_path_factory.mktemp("demo")
    write_specimen(folder / "slices", (40, 64, 64))
    (folder / "recipe.yaml").write_text(RECIPE.replace("@", "."))
    done = start(folder, *SLABS, "--runner=none")
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def arguments(*flags: str, place: str = "") -> list[str]:
    """The command's, with ``place`` in the bucket: what a table is called there differs."""
    settings = [f"outputs.{k}.chunks=[16, 64, 64]" for k in (0, 1)]
    if place:
        settings += [f"input={place}/slices", f"out={place}"]
        settings += [f"outputs.2.path={place}/cells.parquet"]
    return ["run", "recipe.yaml", *(p for s in settings for p in ("--set", s)), *flags]


def start(demo, *flags: str, place: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    """Run the recipe as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "beam_volumes.cli.main", *arguments(*flags, place=place)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=demo,
        env={**os.environ, **env},
    )


def scheme(place: str) -> str:
    return place.partition("://")[0]


def address(place: str) -> str:
    return ADDRESS[scheme(place)]


def upload(demo, place: str) -> None:
    """Put the slices there as another program does."""
    server = os.environ[address(place)]
    bucket, _, folder = place.partition("://")[2].partition("/")
    for file in sorted((demo / "slices").iterdir()):
        key, data = f"{folder}/slices/{file.name}", file.read_bytes()
        if scheme(place) == "s3":
            ask = urllib.request.Request(f"{server}/{bucket}/{key}", data, method="PUT")
        else:
            query = f"uploadType=media&name={quote(key, safe='')}"
            ask = urllib.request.Request(f"{server}/upload/storage/v1/b/{bucket}/o?{query}", data)
        ask.add_header("Content-Type", "image/tiff")
        urllib.request.urlopen(ask).close()


def check(demo, place: str) -> None:
    """The bucket has the bytes that were written to disk."""
    for name in ("membranes.ome.zarr", "cells.ome.zarr"):
        np.testing.assert_array_equal(bv.open(f"{place}/{name}"), bv.open(demo / name))
    table = TableSink.of(f"{place}/cells.parquet").read()
    assert table.num_rows > 1 and table.equals(TableSink.of(demo / "cells.csv").read())


def one_line(error: str) -> str:
    """The error that a command printed, and nothing else from Python."""
    assert "Traceback" not in error, error[-3000:]
    (line,) = [x for x in error.splitlines() if x.startswith("beam-volumes: error: ")]
    return line


def test_the_demo_from_bucket_to_bucket_with_keys_that_expire(bucket, demo, monkeypatch):
    place = f"{bucket}/demo"
    upload(demo, place)
    local = sorted(p.name for p in demo.iterdir())
    weather = Weather(refuses=EXPIRED[scheme(place)], when="cells.ome.zarr/0/c")
    with proxy(os.environ[address(place)], weather) as url:
        monkeypatch.setenv(address(place), url)
        stopped = start(demo, *SLABS, place=place)
        assert stopped.returncode == 2
        line = one_line(stopped.stderr)
        assert "cells.ome.zarr" in line and "check your keys" in line

        weather.refuses = None
        journal = Journal.open(run_folder(f"{place}/membranes.ome.zarr"))
        assert journal is not None
        before = {(p, slab) for p in range(4) for slab in journal.finished(p)}
        assert len(before) == 3 * 3
        done = start(demo, "--resume", place=place)
        assert done.returncode == 0, done.stderr[-3000:]
        check(demo, place)
        swept = {(p, slab): n for p in range(4) for slab, n in journal.attempts_of(p).items()}
        assert len(swept) == 4 * 3 and {swept[slab] for slab in before} == {1}

        again = start(demo, "--runner=none", place=place)
        assert again.returncode == 2 and "--overwrite" in one_line(again.stderr)
    assert sorted(p.name for p in demo.iterdir()) == local


BRIEF_PAUSES = {"initial_delay": "25ms", "max_delay": "1600ms"}
BAD_DAYS = {
    "fails": {"fails": 0.2},
    "slow": {"latency": (0.01, 0.05), "drops": 0.05},
}


@pytest.mark.parametrize("day", BAD_DAYS)
def test_a_server_with_a_bad_day(bucket, demo, day, monkeypatch, capsys):
    """As many tries as ever, with pauses of a tenth: those make a minute of seconds."""
    place, weather = f"{bucket}/{day}", Weather(**BAD_DAYS[day])
    upload(demo, place)
    with proxy(os.environ[address(place)], weather) as url, monkeypatch.context() as patch:
        patch.setenv(address(place), url)
        patch.chdir(demo)
        patch.setattr("beam_volumes.cli.main.quiet", lambda: None)
        patch.setattr(context, "RETRIES", {**context.RETRIES, **BRIEF_PAUSES})
        patch.setattr(context, "_context", None)
        # What is there has to be removed first.
        bv.compute(bv.open(np.ones((4, 4, 4), "u1")).to(f"{place}/cells.ome.zarr"), runner=None)
        code = main(arguments(*SLABS, "--runner=none", "--overwrite", place=place))
        assert code == 0, capsys.readouterr().err[-3000:]
    gc.collect()  # handles in cycles keep the address of the proxy
    check(demo, place)
    bad = weather.done["failed"] + weather.done["failed late"] + weather.done["dropped"]
    assert bad > 0.03 * weather.done.total()


IMPATIENT = """
import sys
from beam_volumes.cli.main import main
from beam_volumes.storage.places import context
context.RETRIES.update(max_retries=2)
sys.exit(main(sys.argv[1:]))
"""


DOWN = {"busy": {"refuses": (503, s3_error("SlowDown"))}, "silent": {"silent": True}}


@pytest.mark.parametrize("how", DOWN)
def test_a_server_that_is_down_is_told_in_time(bucket, how):
    with proxy("", Weather(**DOWN[how])) as url:
        env = {address(bucket): url, "TENSORSTORE_CURL_LOW_SPEED_TIME_SECONDS": "1"}
        done = subprocess.run(
            [sys.executable, "-c", IMPATIENT, "info", f"{bucket}/in.zarr"],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env={**os.environ, **env},
        )
    assert done.returncode == 2
    line = one_line(done.stderr)
    assert f"{bucket}/in.zarr" in line and "unreachable" in line


REFUSALS = {
    "no right": (403, s3_error("AccessDenied", "Access Denied"), "keys"),
    "wrong key": (403, s3_error("SignatureDoesNotMatch", "The signature does not match."), "keys"),
    "no bucket": (404, s3_error("NoSuchBucket", "The bucket does not exist"), "the bucket's name"),
    "another region": (301, s3_error("PermanentRedirect", "Use the endpoint."), "AWS_REGION"),
    "wrong region": (
        400,
        s3_error("AuthorizationHeaderMalformed", "expecting 'eu-west-1'"),
        "AWS_REGION",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_names_the_place_and_the_remedy(case, s3, monkeypatch, capsys, tmp_path):
    status, body, remedy = REFUSALS[case]
    for name, value in s3[1].items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(context, "_context", None)
    monkeypatch.setattr("beam_volumes.cli.main.quiet", lambda: None)
    bv.compute(bv.open(np.ones((4, 4, 4), "u1")).to(tmp_path / "in.zarr"), runner=None)
    (tmp_path / "recipe.yaml").write_text(f"input: {tmp_path}/in.zarr\noutput: {s3[0]}/o/out.zarr")
    capsys.readouterr()
    with proxy("", Weather(refuses=(status, body))) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        for ask in (
            ["info", f"{s3[0]}/o/in.zarr"],
            ["info", f"{s3[0]}/o/*.tif"],
            ["run", str(tmp_path / "recipe.yaml"), "--runner=none"],
        ):
            assert main(ask) == 2
            line = one_line(capsys.readouterr().err)
            assert f"{s3[0]}/o" in line and remedy in line
            assert "http_response" not in line and "damaged" not in line
