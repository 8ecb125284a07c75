"""Table files: rows are read back as they were written, after any failure in between."""

import json
import os
import threading

import numpy as np
import pyarrow.csv
import pyarrow.dataset
import pytest

from beam_volumes.storage.formats.tables import text as text_tables
from beam_volumes.storage.formats.tables.parquet import ParquetTable
from beam_volumes.storage.outputs.table_sink import TableSink
from beam_volumes.storage.places import single_file
from beam_volumes.storage.places.claims import Superseded
from beam_volumes.storage.places.ownership import OutputExistsError
from tests.waiting import PATIENCE


def shards_of(seed=0, sizes=(3, 0, 4)):
    random = np.random.default_rng(seed)
    for n in sizes:
        floats = random.random(n) * 10.0 ** random.integers(-300, 300, n)
        yield {
            "label": random.integers(0, 2**64, n, dtype=np.uint64),
            "count": random.integers(-(2**63), 2**63, n),
            "border": random.random(n) < 0.5,
            "mean-0": np.where(random.random(n) < 0.3, np.nan, floats),
            "least": random.random(n).astype(np.float32),
            "small": random.integers(0, 200, n).astype(np.uint8),
        }


def written(sink, run="run", **how):
    sink.create(run, **how)
    shards = list(shards_of())
    for i in (2, 0, 1, 0):
        sink.write(i, shards[i])
    sink.finish(3)
    sink.finish(3)
    return {name: np.concatenate([s[name] for s in shards]) for name in shards[0]}


def check(sink, expected):
    table = sink.read()
    assert table.column_names == list(expected)
    for name, column in expected.items():
        got = table[name].to_numpy()
        if column.dtype.kind == "f":
            np.testing.assert_array_equal(got, column)
        else:
            assert got.tolist() == column.tolist(), name


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.jsonl", "memory://table/t.parquet"])
def test_written_and_read(name, tmp_path):
    sink = TableSink.of(name if "://" in name else tmp_path / name)
    assert not sink.exists() and sink.existing_run() is None
    expected = written(sink)
    check(sink, expected)
    assert sink.exists() and sink.existing_run() == "run"
    sink.create("run")  # a retry
    check(sink, expected)
    with pytest.raises(OutputExistsError, match="overwrite=True"):
        sink.create("other")
    sink.create("other", overwrite=True)
    assert sink.existing_run() == "other"
    sink.write(0, next(shards_of()))
    with pytest.raises(OSError, match=r"1 of 2 shards were not written, the first .*part-00001"):
        sink.finish(2)
    sink.finish(1)
    assert len(sink.read()) == 3
    assert sink.portable == ("://" not in name)


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_finishes_at_once_do_not_cut_a_table_short(suffix, tmp_path, monkeypatch):
    sink = TableSink.of(tmp_path / f"t.{suffix}")
    shards = list(shards_of())
    sink.create("run")
    for i, shard in enumerate(shards):
        sink.write(i, shard)
    late_reads, early_is_done = threading.Event(), threading.Event()
    replace, pieces = os.replace, text_tables.pieces
    done = []
    late = threading.Thread(target=lambda: done.append(sink.finish(3)))

    def replacing(source, target):  # the early one waits until the late one is in the middle of it
        if threading.current_thread() is not late:
            late.start()
            assert late_reads.wait(PATIENCE)
        replace(source, target)

    def reading(path):
        if threading.current_thread() is late and path.endswith(sink._part(2)):
            late_reads.set()
            assert early_is_done.wait(PATIENCE)
        return pieces(path)

    monkeypatch.setattr(single_file.os, "replace", replacing)
    monkeypatch.setattr(text_tables, "pieces", reading)
    sink.finish(3)
    early_is_done.set()
    late.join()
    assert done == [None]  # nor did it fail
    check(sink, {name: np.concatenate([s[name] for s in shards]) for name in shards[0]})
    assert list(sink.problems("run", checksums=True)) == []


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_rows_that_are_gone_are_found_without_checksums(suffix, tmp_path):
    sink = TableSink.of(tmp_path / f"t.{suffix}")
    written(sink)
    path = tmp_path / f"t.{suffix}"
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for cut, rows in ((lines[:-1], 6), ([*lines[:-1], lines[-1][:-1]], 6), (lines + lines[-1:], 8)):
        path.write_bytes(b"".join(cut))
        (problem,) = sink.problems("run")
        assert problem == f"{path} has {rows} rows, and 7 were written"
    path.write_bytes(b"")
    assert "has 0 rows" in next(sink.problems("run"))
    path.write_bytes(whole)
    assert list(sink.problems("run")) == []


def test_other_programs_read_them(tmp_path):
    for suffix in ("parquet", "csv", "jsonl"):
        written(TableSink.of(tmp_path / f"t.{suffix}"))
    table = pyarrow.dataset.dataset(tmp_path / "t.parquet").to_table()
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    text = (tmp_path / "t.csv").read_text().splitlines()
    assert text[0] == "label,count,border,mean-0,least,small" and len(text) == len(lines) + 1 == 8
    for row, line in zip(table.to_pylist(), lines, strict=True):
        assert line["label"] == row["label"] and line["border"] == row["border"]
        assert (line["mean-0"] is None) == np.isnan(row["mean-0"])
        assert np.float32(line["least"]) == row["least"]
    assert sorted(os.listdir(tmp_path)) == [
        ".t.csv.parts",
        ".t.jsonl.parts",
        "t.csv",
        "t.jsonl",
        "t.parquet",
    ]


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_what_else_is_there(suffix, tmp_path):
    sink = TableSink.of(tmp_path / f"t.{suffix}")
    written(sink)
    if suffix != "parquet":
        os.remove(tmp_path / f"t.{suffix}")
        assert sink.existing_run() is None and not sink.exists()
        written(sink, "next")
    other = TableSink.of(tmp_path / f"o.{suffix}")
    (tmp_path / f"o.{suffix}").mkdir()
    (tmp_path / f"o.{suffix}" / "thesis.tex").write_text("...")
    with pytest.raises(OutputExistsError, match=r"remove it yourself|is not part of it"):
        other.create("run", overwrite=True)
    empty = TableSink.of(tmp_path / f"e.{suffix}")
    empty.create("run")
    empty.write(0, {"label": np.empty(0, np.uint64), "area": np.empty(0)})
    empty.finish(1)
    assert empty.read().column_names == ["label", "area"] and len(empty.read()) == 0


def test_refused(tmp_path):
    with pytest.raises(ValueError, match=r"write \.parquet there"):
        TableSink.of("memory://t.jsonl")
    with pytest.raises(ValueError, match=r"end it with \.parquet, \.csv, \.jsonl"):
        TableSink.of(tmp_path / "t.xlsx")
    with pytest.raises(FileNotFoundError):
        ParquetTable.of(tmp_path / "no.parquet")
    (tmp_path / "bad.parquet").write_text("not at all")
    with pytest.raises(OSError, match="not Parquet"):
        ParquetTable.of(tmp_path / "bad.parquet")


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.jsonl", "memory://late/t.parquet"])
def test_a_late_worker_of_another_run_leaves_the_table_alone(name, tmp_path, monkeypatch):
    """Whether it comes to write, to finish, or is stopped while it does."""
    sink = TableSink.of(name if "://" in name else tmp_path / name)
    shards = list(shards_of())
    expected = {n: np.concatenate([s[n] for s in shards[1:]]) for n in shards[0]}

    def other():
        sink.create("two", overwrite=True, replaces="one")
        for i, shard in enumerate(shards[1:]):
            sink.write(i, shard, "two")
        sink.finish(2, "two")

    sink.create("one", replaces=None)
    sink.write(0, shards[0], "one")
    missing, looks = TableSink._part, []

    def slow(self, shard):
        if not looks:
            looks.append(shard)
            other()
        return missing(self, shard)

    with monkeypatch.context() as patch:
        patch.setattr(TableSink, "_part", slow)  # it has seen that the table is its own
        with pytest.raises(Superseded, match="a run other than one"):
            sink.finish(1, "one")
    for late in (lambda: sink.write(0, shards[0], "one"), lambda: sink.finish(1, "one")):
        with pytest.raises(Superseded):
            late()
    with pytest.raises(Superseded):
        sink.create("one", overwrite=True, replaces=None)
    check(sink, expected)
    assert list(sink.problems("two", checksums=True)) == []
