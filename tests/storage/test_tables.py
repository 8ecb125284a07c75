"""Table files: what is read back is what was written, whatever happens in between."""

import json
import os

import numpy as np
import pyarrow.csv
import pyarrow.dataset
import pytest

from beam_volumes.storage.sink import OutputExistsError
from beam_volumes.storage.tables import ParquetTable, TableSink


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
    with pytest.raises(OSError, match=r"1 of 2 shards were not written, the first \[1\]"):
        sink.finish(2)
    sink.finish(1)
    assert len(sink.read()) == 3
    assert sink.portable == ("://" not in name)


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
    with pytest.raises(OutputExistsError, match="remove it yourself"):
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
