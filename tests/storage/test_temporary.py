"""Temporary folders are their owner's alone, and end with the process."""

import os
import stat
import subprocess
import sys

import numpy as np

import beam_volumes as bv
from beam_volumes.session import slabs
from beam_volumes.storage.places import temporary

MAKE = """
import os, sys
from beam_volumes.storage.places import temporary
print(temporary.make(), flush=True)
if sys.argv[1] == "die":
    os._exit(9)
sys.stdin.read()
"""


def test_what_a_dead_process_left_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(temporary.tempfile, "gettempdir", lambda: str(tmp_path))
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", MAKE]
    with subprocess.Popen(
        [*command, "live"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as living:
        kept = living.stdout.readline().strip()
        died = subprocess.run(
            [*command, "die"], env=environment, stdout=subprocess.PIPE, text=True, check=False
        )
        dead = died.stdout.strip()
        (tmp_path / "beam-volumes-foreign").mkdir()
        assert os.path.isdir(dead)
        own = temporary.make()
        assert not os.path.exists(dead)
        assert os.path.isdir(kept)
        assert (tmp_path / "beam-volumes-foreign").is_dir()
        assert temporary.make(own) == own
        temporary.remove(own)
        assert not os.path.exists(own)
        living.stdin.close()
    temporary.remove_abandoned(str(tmp_path))
    assert os.listdir(tmp_path) == ["beam-volumes-foreign"]


def test_a_process_searches_once_a_minute(tmp_path, monkeypatch):
    searched, now = [], [1000.0]
    monkeypatch.setattr(temporary, "remove_abandoned", searched.append)
    monkeypatch.setattr(temporary.time, "monotonic", lambda: now[0])
    for name, seconds in [("a", 0.0), ("b", 59.0), ("c", 1.0), ("d", 0.0)]:
        now[0] += seconds
        temporary.remove(temporary.make(str(tmp_path / f"beam-volumes-{name}")))
    assert searched == [str(tmp_path)] * 2


def test_a_dead_owner_is_replaced_between_searches(tmp_path):
    temporary.remove(temporary.make(str(tmp_path / "beam-volumes-first")))
    old = tmp_path / "beam-volumes-same"
    old.mkdir()
    (old / "owner.lock").touch()
    (old / "content").touch()
    assert temporary.make(str(old)) == str(old)
    assert os.listdir(old) == ["owner.lock"]
    temporary.remove_abandoned(str(tmp_path))
    assert old.is_dir()
    temporary.remove(str(old))


def test_unnamed_results_are_not_readable_by_others(tmp_path, monkeypatch):
    monkeypatch.setattr(temporary.tempfile, "gettempdir", lambda: str(tmp_path))
    sweep_slab, modes = slabs.sweep_slab, []

    def looking(*args):
        modes.extend(stat.S_IMODE(p.stat().st_mode) for p in tmp_path.glob("beam-volumes-*"))
        return sweep_slab(*args)

    monkeypatch.setattr(slabs, "sweep_slab", looking)
    volume = bv.open(np.arange(64, dtype="u1").reshape(4, 4, 4))
    bv.compute(bv.regionprops_table(bv.label(volume > 9)), runner=None, progress=False)
    assert modes
    assert set(modes) == {0o700}
    assert not os.listdir(tmp_path)
