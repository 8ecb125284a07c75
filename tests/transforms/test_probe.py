"""What a worker is asked before a run: the package, versions, room, and places it may write to."""

import pickle
import sys
from dataclasses import dataclass, replace

import pytest
from apache_beam.internal import pickler

import beam_volumes as bv
from beam_volumes.drive.probe import Probe, versions
from beam_volumes.plan.cost import machine
from beam_volumes.runs.failure import raise_original
from beam_volumes.session import requirements as module
from beam_volumes.session.begin import begin
from beam_volumes.session.requirements import ASKED, WorkerRequirements
from tests.transforms.trees import membranes, stored


@dataclass
class Content:
    def check(self):
        return None


def asked(ours, needs=None):
    """A worker's answer, and the driver's reaction; the probe gets there as through a runner."""
    probe = Probe(ours, pickle.dumps(Content() if needs is None else needs), "x1", copies=3)
    there = pickler.loads(pickler.dumps(probe))
    there = pickler.loads(pickler.dumps(there))  # as Beam's workers do
    assert type(there) is not Probe  # nothing but text was sent
    try:
        return list(there.process(b""))
    except Exception as error:
        raise_original(RuntimeError(f"java.lang.Exception: {error} at org.apache..."), "x1")
        raise


@pytest.mark.parametrize(
    ("name", "other"),
    [("Python", "2.7"), ("beam_volumes", "0.0.1"), ("apache_beam", "2.1"), ("numpy", "1")],
)
def test_versions_must_agree(name, other):
    ours = versions()
    assert asked(ours) == [0, 1, 2]
    with pytest.raises(
        OSError, match=rf"has {name} {ours[name]}, .* started with {other}; install"
    ):
        asked({**ours, name: other})


def test_a_worker_that_lacks_a_package_says_so(monkeypatch):
    ours = versions()
    monkeypatch.setitem(sys.modules, "beam_volumes.version", None)
    with pytest.raises(OSError, match=r"the worker on .* cannot work .*beam_volumes.*; install"):
        asked(ours)
    monkeypatch.undo()
    # And if it is another that ours needs, which shows when ours is used.
    needs = pickle.dumps(Content())
    monkeypatch.setitem(sys.modules, __name__, None)
    probe = Probe(ours, needs, "x1")
    with pytest.raises(RuntimeError, match=r"cannot work .*test_probe.*; install"):
        list(probe.process(b""))


def test_places_and_memory(tmp_path, monkeypatch):
    v = stored(tmp_path, membranes((4, 5, 6)))
    session = begin(bv.plan((v + 1).to(tmp_path / "out" / "a.zarr"), memory="2GiB"))
    session.journal.mark(ASKED)
    before = sorted(tmp_path.rglob("*"))
    needs = WorkerRequirements.of(session, "head")
    assert asked(versions(), needs) == [0, 1, 2]
    assert sorted(tmp_path.rglob("*")) == before
    # A place without write access, even for root.
    closed = {"driver": "file", "path": "/proc/out.zarr"}
    with pytest.raises(OSError, match=r"the worker on .*/proc/out\.zarr: .*check the permissions"):
        asked(versions(), replace(needs, places=(*needs.places, closed)))
    monkeypatch.setattr(module, "free_memory", lambda: needs.memory - 1)
    with pytest.raises(OSError, match=rf"of memory, .*give memory={(needs.memory - 1) >> 20}MiB"):
        asked(versions(), needs)
    assert needs.memory == session.plan.process_memory


GROUPS = {
    "2": (
        "0::/pods/a",
        "",
        ("memory.max", "memory.current", "inactive_file"),
        "max",
    ),
    "1": (
        "9:cpu,cpuacct:/x\n4:memory:/pods/a",
        "memory",
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        str(2**63 - 4096),
    ),
}


@pytest.mark.parametrize("version", GROUPS)
def test_control_groups_limit_memory(version, tmp_path):
    """The tightest of a process's group and the groups above it, less their memory without files."""
    lines, top, (most, used, cached), unlimited = GROUPS[version]
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(lines + "\n")

    def group(path, limit, taken, files):
        folder = tmp_path / "sys/fs/cgroup" / top / path
        folder.mkdir(parents=True, exist_ok=True)
        (folder / most).write_text(f"{limit}\n")
        (folder / used).write_text(f"{taken}\n")
        (folder / "memory.stat").write_text(f"anon 5\n{cached} {files}\n")

    own = machine.free_memory(tmp_path) - machine.psutil.virtual_memory().available
    assert 0 < own < 4 << 30
    group("", 700 << 20, 500 << 20, 0)  # as of a container with the path of outside
    assert machine.free_memory(tmp_path) < (200 << 20) + (4 << 30)
    group("pods", 50 << 20, 45 << 20, 3 << 20)
    group("pods/a", unlimited, 45 << 20, 0)
    limits = dict(machine.control_groups(tmp_path))
    assert limits[50 << 20] == 42 << 20 and limits[700 << 20] == 500 << 20
    rss = machine.psutil.Process().memory_info().rss
    assert abs(machine.free_memory(tmp_path) - rss - (8 << 20)) < 2 << 20
    group("pods", 50 << 20, 60 << 20, 0)
    assert abs(machine.free_memory(tmp_path) - rss) < 2 << 20
