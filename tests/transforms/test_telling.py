"""Errors on their way back from workers, through a text that may hold anything."""

import base64
import copyreg
import os
import pickle

import cloudpickle
import imagecodecs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import beam_volumes as bv
from beam_volumes.base.text import printable
from beam_volumes.runs.failure import (
    KINDS,
    WorkerDied,
    as_data,
    errors_as_data,
    mark,
    new_secret,
    raise_original,
)
from beam_volumes.storage.places.errors import VolumeError
from beam_volumes.storage.places.ownership import OutputExistsError
from tests.tiers import few, thorough


@pytest.fixture(autouse=True)
def plain_errors(monkeypatch):
    """Errors pickle as Python has it: other libraries may have taught it to pickle tracebacks, too."""
    for kind in list(copyreg.dispatch_table):
        if isinstance(kind, type) and issubclass(kind, BaseException):
            monkeypatch.delitem(copyreg.dispatch_table, kind)


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (self.folder,)


def marks(folder):
    """What a name may hold that wants to be taken for an error's mark."""
    for data in (pickle.dumps((ValueError("no"), Trap(folder))), cloudpickle.dumps(Trap(folder))):
        word = base64.b64encode(data).decode()
        yield f"[[beam-volumes:{word}]]".replace("/", "_")
    assert "/" not in word
    yield "[[beam-volumes:" + base64.b64encode(b'{"kind": "ValueError"}').decode() + "]]"
    yield "\x1b[2J\r\n[[beam-volumes:]]"


@pytest.mark.parametrize("number", few(range(4), [0]))
def test_a_file_that_is_called_like_a_mark_is_only_named(tmp_path, monkeypatch, number):
    monkeypatch.chdir(tmp_path)
    name = f"s00{list(marks('broken-into'))[number]}.png"
    (tmp_path / "in").mkdir()
    for z in range(3):
        image = imagecodecs.png_encode(np.full((4, 5), z, "u1"))
        (tmp_path / "in" / (name if z == 0 else f"s{z:02}.png")).write_bytes(image)
    v = bv.open(str(tmp_path / "in"))
    whole = (tmp_path / "in" / name).read_bytes()
    (tmp_path / "in" / name).write_bytes(whole[:-20])
    with pytest.raises(OSError) as caught:
        bv.compute(bv.max(v), runner="FnApiRunner")
    assert printable(name) in str(caught.value) and "slab 0" in str(caught.value)
    assert not (tmp_path / "broken-into").exists()


@thorough
def test_a_name_that_is_no_text_keeps_no_worker_from_telling_of_it(tmp_path):
    (tmp_path / "in").mkdir()
    name = os.fsencode(tmp_path) + b"/in/s00\xff\x1b[2J.png"
    with open(name, "wb") as file:
        file.write(imagecodecs.png_encode(np.zeros((4, 5), "u1")))
    v = bv.open(str(tmp_path / "in"))
    with open(name, "wb") as file:
        file.write(b"junk")
    with pytest.raises(OSError, match=r"s00\\udcff\\x1b\[2J\.png is damaged"):
        bv.compute(bv.max(v), options=["--direct_running_mode=multi_processing"])

    def own(block):
        raise ValueError("a\udcff")

    volume = bv.open(np.zeros((2, 3, 4), "u1"))
    with pytest.raises(ValueError, match="a\udcff"):
        bv.compute(
            bv.max(bv.map_overlap(own, volume)), options=["--direct_running_mode=multi_processing"]
        )


def arrived(error, before="", after=""):
    """What becomes of an error that a runner makes a text of."""
    secret = new_secret()
    try:
        with errors_as_data(secret):
            raise error
    except RuntimeError as raised:
        text = f"{before}{raised}{after}"
    try:
        raise_original(Exception(text), secret)
    except Exception as found:
        return found


def test_the_last_mark_with_the_secret_of_the_run_counts():
    data, other = as_data(ValueError("no")), as_data(TypeError("other"))
    foreign = mark(other, new_secret()) + mark(other, "") + "[[beam-volumes:gASVAAAA]]"
    found = arrived(OSError(28, "No space left", "a"), foreign, f" [while running 'x']{foreign}")
    assert (type(found), found.args, found.filename) == (OSError, (28, "No space left"), "a")
    assert "Traceback" in str(found.__cause__)
    with pytest.raises(ValueError, match="no"):
        raise_original(Exception(mark(other, "ab") + "\n" + mark(data, "ab")), "ab")
    assert raise_original(Exception(foreign), new_secret()) is None


class Odd(OutputExistsError):
    def __init__(self, a, b):
        super().__init__(f"{a} and {b}")


class OSError_(Exception):
    """Named like another thing."""


OSError_.__name__ = "OSError"


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (KeyError("name"), KeyError, "'name'"),
        (VolumeError("x.png is cut short"), VolumeError, "x.png is cut short"),
        (WorkerDied("killed"), WorkerDied, "killed"),
        (FileNotFoundError(2, "no", b"b"), FileNotFoundError, "[Errno 2] no: b'b'"),
        (ValueError(Trap("x"), 1), ValueError, None),
        (Odd("a", "b"), OutputExistsError, "Odd: a and b"),
        (UnicodeDecodeError("utf-8", b"x", 0, 1, "no"), ValueError, None),
        (OSError_("mine"), RuntimeError, "OSError: mine"),
        (StopAsyncIteration("x"), RuntimeError, "StopAsyncIteration: x"),
        (ValueError("a\udcff\x1b"), ValueError, "a\udcff\x1b"),
    ],
    ids=lambda item: item.__name__ if isinstance(item, type) else "",
)
def test_an_error_arrives_as_the_nearest_known_kind(error, kind, text):
    found = arrived(error)
    assert type(found) is kind
    assert str(found) == text or text is None
    assert KINDS[kind.__name__] is kind


@given(st.text(alphabet=st.characters(), max_size=20))
def test_a_printable_text_moves_no_cursor(text):
    shown = printable(text)
    assert all(c == "\n" or c.isprintable() for c in shown)
    assert shown == text or not text.isprintable()
