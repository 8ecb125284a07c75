"""Runs of two machines that see each other's files late: the right voxels or one clear error."""

import pytest

from tests.late.conftest import Refused
from tests.tiers import few

WORKS = ["multiplied", "compared", "labelled"]
SLABS = range(3)


@pytest.fixture
def two(disk):
    """Two clients of a disk."""
    return disk.client(), disk.client()


@pytest.fixture
def out(disk, two):
    """The path of an output whose folders exist, and which both clients have found to be empty."""
    path = f"{disk.root}/out.zarr"
    for folder in (path, f"{path}.run"):
        two[0].do("make", folder)
    disk.later()
    for client in two:
        client.do("look", path)
    return path


def check(disk, out, work, factor):
    """The result is right, also for a client that has just come."""
    disk.later()
    new = disk.client()
    assert new.do("verified", out) == []
    assert new.do("holds", work, out, factor)


@pytest.mark.parametrize("how", [{}, {"resume": True}])
def test_a_run_that_is_not_seen_is_not_replaced(disk, two, out, how):
    """The other machine has found no run, and begins one: it is refused, whatever it sees."""
    one, other = two
    other.do("begun", "b", "multiplied", out, 2, how)
    one.do("computed", "multiplied", out, 3)
    with pytest.raises(Refused, match=r"Superseded: .*out\.zarr\.run/: the run \w+ has taken"):
        other.do("run", "b")
    disk.later()
    with pytest.raises(Refused, match=r"OutputExistsError|differs"):
        other.do("computed", "multiplied", out, 2, how)
    check(disk, out, "multiplied", 3)


@pytest.mark.parametrize("work", few(WORKS, ["labelled"]))
def test_a_worker_sees_the_run_late(disk, two, out, work):
    """It waits until it does."""
    one, other = two
    one.do("begun", "r", work, out, 3)
    one.do("prepare", "r")
    other.do("received", "r", one.do("sent", "r"))
    before = disk.clock.now()
    other.do("sweep", "r", 0, 1)
    assert 0 < disk.clock.now() - before <= 61
    one.do("run", "r")
    check(disk, out, work, 3)


def test_a_worker_of_a_run_that_is_gone_does_not_wait_for_ever(disk, two, out):
    one, other = two
    one.do("begun", "r", "multiplied", out, 3)
    one.do("prepare", "r")
    data = one.do("sent", "r")
    one.do("delete", f"{out}.run")
    other.do("received", "r", data)
    with pytest.raises(Refused, match=r"Superseded: .*was removed, or the run has ended"):
        other.do("sweep", "r", 0, 1)


#: What needs that the server is asked for names that a client has not looked for.
asks = pytest.mark.parametrize("disk", ["names"], indirect=True)


@asks
def test_an_output_is_read_back_that_another_machine_has_written(disk, two):
    """A chunk that is not seen would be read as zeros."""
    one, other = two
    out = f"{disk.root}/out.zarr"
    one.do("begun", "r", "read_back", out, 3)
    one.do("prepare", "r")
    for k in SLABS:
        other.do("received", "r", one.do("sent", "r"))
        for slab in SLABS:
            (one, other)[slab % 2].do("sweep", "r", k, slab)
        one.do("finish", "r", k)
    one.do("end", "r")
    assert disk.clock.now() == 0
    check(disk, out, "read_back", 3)


@asks
def test_chunks_are_deleted_that_were_not_listed(disk, two, out):
    """The other machine replaces an output of which it has listed a part by zeros."""
    one, other = two
    one.do("begun", "r", "multiplied", out, 3)
    one.do("prepare", "r")
    one.do("sweep", "r", 0, 0)
    disk.later()
    assert other.do("names", f"{out}/c") == ["0"]
    one.do("run", "r")
    other.do("computed", "multiplied", out, 0, {"overwrite": True})
    assert not any(other.do("read", f"{out}/c/{slab}/0/0") for slab in SLABS)
    check(disk, out, "multiplied", 0)


@pytest.mark.parametrize("work", few(["multiplied", "compared"], ["compared"]))
def test_two_machines_share_the_slabs_of_a_run(disk, two, out, work):
    one, other = two
    one.do("begun", "r", work, out, 3)
    one.do("prepare", "r")
    passes = one.do("passes", "r")
    for k in range(passes):
        other.do("received", "r", one.do("sent", "r"))
        for slab in SLABS:
            (one, other)[slab % 2].do("sweep", "r", k, slab)
        one.do("finish", "r", k)
    one.do("end", "r")
    check(disk, out, work, 3)


@pytest.mark.parametrize("work", few(WORKS, ["labelled"]))
@pytest.mark.parametrize("swept", few([0, 2], [2]))
def test_a_killed_run_is_resumed_elsewhere(disk, two, out, work, swept):
    """The other machine sees none or some of its records, and none of its voxels."""
    one, other = two
    one.do("begun", "r", work, out, 3)
    one.do("prepare", "r")
    disk.later()
    other.do("look", out)
    one.do("sweep", "r", 0, *range(swept))
    one.kill()
    other.do("computed", work, out, 3, {"resume": True})
    check(disk, out, work, 3)


def test_a_run_continues_that_was_given_up(disk, two, out):
    """Both machines write the same voxels, and both may end the run."""
    one, other = two
    one.do("begun", "r", "compared", out, 3)
    one.do("prepare", "r")
    one.do("sweep", "r", 0, 0)
    disk.later()
    other.do("computed", "compared", out, 3, {"resume": True})
    one.do("run", "r")
    check(disk, out, "compared", 3)


def test_a_run_that_was_replaced_writes_nothing_more(disk, two, out):
    one, other = two
    one.do("begun", "r", "multiplied", out, 3)
    one.do("prepare", "r")
    one.do("sweep", "r", 0, 0)
    disk.later()
    other.do("computed", "multiplied", out, 2, {"overwrite": True})
    for step in (("sweep", "r", 0, 1), ("prepare", "r"), ("end", "r")):
        with pytest.raises(Refused, match="Superseded"):
            one.do(*step)
    check(disk, out, "multiplied", 2)


@pytest.mark.parametrize("same", few([True, False], [False]))
def test_two_first_steps_at_once(disk, two, out, same):
    """Of one run, as runners repeat it, or of two: one of these gets the place."""
    one, other = two
    one.do("begun", "r", "multiplied", out, 3)
    if same:
        other.do("received", "r", one.do("sent", "r"))
    else:
        other.do("begun", "r", "multiplied", out, 2)
    for client in two:
        client.begin("run", "r")
    failed = []
    for client in two:
        try:
            client.answer()
        except Refused as error:
            failed.append(str(error))
    assert len(failed) == (0 if same else 1), failed
    assert all(text.startswith("Superseded") for text in failed)
    disk.later()
    new = disk.client()
    assert new.do("verified", out) == []
    assert [new.do("holds", "multiplied", out, factor) for factor in (2, 3)].count(True) == 1
