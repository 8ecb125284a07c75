"""Progress and the summary, from records."""

import io
import time
from dataclasses import replace

import numpy as np
import pytest

from beam_volumes.base.geometry import Box
from beam_volumes.runs import (
    Bar,
    Journal,
    Lines,
    Manifest,
    Progress,
    Record,
    Watch,
    Work,
    reporter,
)
from beam_volumes.runs.notes import Compiling
from beam_volumes.runs.progress import Parts, Remaining, last_started
from beam_volumes.session import heartbeat
from beam_volumes.session.heartbeat import reported
from beam_volumes.storage.places.place import Place
from tests.waiting import wait_until


@pytest.fixture
def journal(tmp_path):
    return Journal.create(tmp_path / "x.run", Manifest("one", {}))


def finish(journal, pass_index, *slabs, **fields):
    box = Box((0, 0, 0), (1, 2, 5))
    for slab in slabs:
        attempt = journal.start(pass_index, slab)
        journal.write_record(
            pass_index, slab, Record(slab=slab, box=box, attempt=attempt, **fields)
        )


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_watch_tells_how_far_it_is(journal):
    seen, clock = [], Clock()
    passes = [Work("reduce", 4, 400), Work("write", 2, 200)]
    watch = Watch(journal, passes, seen.append, interval=0.5, clock=clock)
    finish(journal, 0, 0)  # before a resume: not counted for the rate
    watch.poll()
    watch.poll()  # too soon
    assert [(p.done, p.total, p.eta) for p in seen] == [(1, 4, None)]
    clock.now = 2.0
    finish(journal, 0, 1)
    watch.poll()
    assert seen[-1] == Progress(0, 2, "reduce", 2, 4, 2.0, 50.0, eta=8.0, compiling_is_known=True)
    clock.now = 4.0
    finish(journal, 0, 2, 3)
    watch.poll()
    assert [(p.index, p.done, p.finished) for p in seen[-2:]] == [(0, 4, True), (1, 0, False)]
    finish(journal, 1, 0, 1)
    watch.poll(now=True)
    assert (seen[-1].index, seen[-1].finished) == (1, True)
    n = len(seen)
    watch.poll(now=True)
    assert len(seen) == n  # each end is told once


def test_watch_in_a_thread(journal):
    seen = []
    with Watch(journal, [Work("p", 2)], seen.append, interval=0.01):
        wait_until(lambda: seen, "a first look")
        finish(journal, 0, 0, 1)
    assert [p.done for p in (seen[0], seen[-1])] == [0, 2]
    assert sum(p.finished for p in seen) == 1


def test_last_slabs_started(journal):
    finish(journal, 0, 0)
    for slab in (3, 7):
        journal.start(1, slab)
        time.sleep(0.002)
    assert last_started(journal, [1, 20]) == [(1, 7), (1, 3)]
    assert last_started(journal, [1, 20], 1) == [(1, 7)]


def test_records_of_a_run_that_is_replaced_do_not_count(journal):
    finish(journal, 0, 0, 1)
    seen = []
    watch = Watch(replace(journal, run_id="two"), [Work("p", 2)], seen.append)
    watch.poll(now=True)
    assert seen == []
    new = Journal.create(journal.spec, Manifest("two", {}), overwrite=True)
    finish(new, 0, 1)
    watch.poll(now=True)
    assert [p.done for p in seen] == [1]


def test_looks_are_bounded_however_many_slabs_there_are(journal, monkeypatch):
    """100 folders of a thousand: a look lists some in turn, and the last one all."""
    listed, clock, seen = [], Clock(), []
    names_many = Place.names_many

    def counting(self, prefixes):
        prefixes = list(prefixes)
        listed.append(len(prefixes))
        return names_many(self, prefixes)

    monkeypatch.setattr(Place, "names_many", counting)
    finish(journal, 0, *range(0, 100_000, 1000))
    watch = Watch(journal, [Work("p", 100_000)], seen.append, interval=1.0, clock=clock)
    for now in range(4):
        clock.now = 2.0 * now
        watch.poll()
    assert listed == [32] * 4
    assert [p.done for p in seen] == [32, 64, 96, 100]
    watch.poll(now=True)
    assert listed[-1] == 100


def test_a_bucket_is_listed_less_often(journal):
    remote = replace(journal, spec={"driver": "s3", "bucket": "b", "path": "x.run/"})
    assert Watch(remote, [], print)._interval == 10 * Watch(journal, [], print)._interval


def test_an_unreadable_journal_does_not_disturb(journal, monkeypatch, caplog):
    watch = Watch(journal, [Work("p", 1)], print)

    def fail(*_):
        raise OSError("no network")

    monkeypatch.setattr("beam_volumes.storage.places.place.Place.names_many", fail)
    watch.poll()
    assert "no network" in caplog.text


def state(done, total=8, eta=75.0):
    return Progress(0, 2, "sweep", done, total, 12.0, 250e6, eta)


def test_console_elsewhere_writes_lines_now_and_then():
    stream = io.StringIO()
    console = Lines(stream, every=1000)
    for done in range(8):
        console(state(done))
    assert stream.getvalue() == ""
    console(state(8))
    assert stream.getvalue() == "pass 1/2 sweep 8/8 slabs, 250 MB/s, 12 s\n"


def test_a_bar_is_drawn_for_what_takes_its_time():
    stream = io.StringIO()
    Bar(stream, after=1000.0)(state(8))
    assert stream.getvalue() == ""
    bar = Bar(stream)
    bar(replace(state(2), under_way=1.2))
    last = stream.getvalue().split("\r")[-1]
    assert last.startswith("pass 1/2 sweep  40%|") and last.endswith(
        "| 2/8 slabs, 250 MB/s, 1 min 15 s left"
    )
    bar.close()
    bar.close()
    bar(state(8))
    assert stream.getvalue().count("\n") == 2 and "100%" in stream.getvalue()


def test_reporter(monkeypatch):
    assert reporter(print) is print
    assert isinstance(reporter(True), Lines)
    assert reporter(False) is None and isinstance(reporter(None), Lines)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert isinstance(reporter(True), Bar) and isinstance(reporter(None), Bar)
    assert reporter(False) is None


def test_slabs_tell_how_far_they_are(journal, tmp_path):
    """In memory, and in a journal once a second; finished slabs count once."""
    seen = []
    other = Journal.create(tmp_path / "y.run", Manifest("two", {}))
    for followed, parts in ((Parts(), True), (other, False)):
        watch = Watch(followed, [Work("p", 4)], seen.append)
        with reported(*((followed, None) if parts else (None, followed)), 0, 2) as tell:
            if not parts:
                heartbeat._runs["two"]._next = 0.0
            tell(0.25)
            watch.poll(now=True)
            if not parts:
                finish(followed, 0, 2)
        watch.poll(now=True)
        assert [(p.done, p.under_way) for p in seen[-2:]] == [(0, 0.25), (1, 0.0)]


def test_what_is_left_does_not_climb():
    """For a run with compilation in its first steps, different passes and uneven steps."""
    left, now, said = Remaining([30.0, 10.0]), 0.0, []
    rng = np.random.default_rng(0)
    for index, each in ((0, 3.0), (1, 1.0)):
        for k in range(11):
            now += (20.0 if (index, k) == (0, 1) else each * rng.uniform(0.7, 1.3)) if k else 0.0
            said += [left.update(index, k / 10, now + wait) for wait in (0.0, 0.4, 5.0)]
    known = [s for s in said if s is not None]
    assert known == sorted(known, reverse=True) and known[-1] == 0.0 and len(known) > 60


def test_summary(journal):
    finish(journal, 0, 0, started=100.0, seconds=4.0, bytes_read=5, peak_memory=7)
    finish(journal, 0, 1, started=102.0, seconds=4.0, bytes_written=6, peak_memory=9)
    finish(journal, 1, 0, started=1000.0, seconds=4.0)
    journal.start(1, 0)
    s = Watch(journal, [Work("", 3), Work("", 1)], lambda _: None).summary()
    assert (s.slabs, s.redone, s.seconds, s.slab_seconds) == (3, 1, 10.0, 12.0)
    assert (s.voxels, s.bytes_read, s.bytes_written, s.peak_memory) == (30, 5, 6, 9)
    assert s.voxels_per_second == 3.0


def test_costs_are_added_up_while_the_run_goes_on(journal, monkeypatch):
    read_many, read = Place.read_many, []

    def counted(self, keys):
        for key, data in zip(keys := list(keys), read_many(self, keys), strict=True):
            read.extend([key] if key.startswith("records/") else [])
            yield data

    monkeypatch.setattr(Place, "read_many", counted)
    watch = Watch(journal, [Work("a", 1300), Work("b", 2)], lambda _: None)
    for k, begin in enumerate(range(0, 1300, 260)):
        finish(journal, 0, *range(begin, begin + 260), started=begin, seconds=260.0, bytes_read=k)
        journal.start(0, begin)
        before = len(read)
        watch.poll(now=True)
        # Each is read once, when it is seen for the first time.
        assert len(read) == before + 260
    finish(journal, 1, 0, 1, peak_memory=7)
    s = watch.summary()
    assert len(read) == len(set(read)) == 1302
    assert (s.slabs, s.redone, s.voxels, s.bytes_read) == (1302, 5, 13020, 260 * 10)
    assert (s.seconds, s.slab_seconds, s.peak_memory) == (1300.0, 1300 * 260.0, 7)
    assert watch.summary() == s and len(read) == 1302


def test_a_damaged_record_is_told_of_when_costs_are_added_up(journal):
    watch = Watch(journal, [Work("a", 3)], lambda _: None)
    finish(journal, 0, 0, 1, 2)
    journal._folder.write("records/0-000000/000000001", b"{}")
    watch.poll(now=True)
    with pytest.raises(ValueError, match="000000001 is damaged"):
        watch.summary()
    finish(journal, 0, 1)
    assert watch.summary().slabs == 3


def test_what_is_compiled_is_told_while_it_is(journal, monkeypatch):
    begun = 1e9
    monkeypatch.setattr(time, "time", lambda: begun)
    seen, stream = [], io.StringIO()
    watch = Watch(journal, [Work("p", 2)], seen.append)

    def line():
        watch.poll(now=True)
        console = Lines(stream, every=0)
        console(replace(seen[-1], seconds=10.0))
        return stream.getvalue().splitlines()[-1]

    assert line().endswith("0/2 slabs, starting")
    begun += 2.0
    monkeypatch.setattr(time, "time", lambda: begun + 0.4)
    journal.write_compiling(Compiling("_median_3", 7, 11.6, begun))
    assert "0/2 slabs, compiling median_3 (7 kernels so far, 12 s)" in line()
    # What was begun before, or long ago, was begun by who is dead.
    for began in (watch._looks._since - 1, watch._looks._since):
        journal.write_compiling(Compiling("_median_3", 7, 11.6, began))
        assert "compiling" not in line()
    journal.write_compiling(Compiling("_median_3", 7, 11.6, begun))
    with monkeypatch.context() as later:
        later.setattr(time, "time", lambda: begun + 1000)
        assert "compiling" not in line()
    journal.write_compiling(Compiling("_median_3", 0, 0.0, begun))
    other = replace(journal, run_id="two")
    assert other.compiling() == [] and len(journal.compiling()) == 1
    journal.write_compiling(None)
    assert "compiling" not in line()


def test_of_a_journal_in_a_bucket_it_is_not_known_what_is_compiled():
    stream = io.StringIO()
    Lines(stream, every=0)(replace(state(0), bytes_per_second=0, eta=None))
    assert "starting, or compiling kernels" in stream.getvalue()


def test_scripts_without_a_terminal_get_a_line_for_each_pass(monkeypatch):
    """For a long run; one that is over at once prints nothing."""
    now = [0.0]
    monkeypatch.setattr("beam_volumes.runs.console.time.monotonic", lambda: now[0])
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    lines = reporter(None)
    lines(state(8))
    assert stream.getvalue() == ""
    for now[0] in (6.0, 7.0):
        lines(state(8))
    assert stream.getvalue().count("\n") == 2
