"""A lazy table as a dict of its columns."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.drive import compute as driving

LABELS = np.array([[[1, 1, 2]], [[3, 0, 2]]], "u4")


def test_a_table_is_a_dict_of_its_columns(monkeypatch):
    pandas = pytest.importorskip("pandas")
    table = bv.regionprops_table(LABELS, LABELS * 2.0, properties=["area", "intensity_mean"])
    runs = []
    run = driving.run
    monkeypatch.setattr(driving, "run", lambda *a, **k: runs.append(1) or run(*a, **k))
    assert list(table) == ["label", "area", "intensity_mean"]
    with pytest.raises(
        TypeError, match=r"use len\(table.columns\) for its columns, and len\(bv.com"
    ):
        len(table)
    assert "area" in table and pickle.loads(pickle.dumps(table)).columns == table.columns
    assert table == table and table != bv.regionprops_table(LABELS) and not runs
    frame = pandas.DataFrame(table)
    assert frame.dtypes.to_dict() == table.columns
    assert frame["area"].tolist() == table["area"].tolist() == [2, 2, 1]
    assert len(runs) == 1
    assert table.compute().equals(table.to_pyarrow())
    for rows in (table, table.compute()):
        array = np.asarray(rows)
        assert array.dtype == np.dtype(list(table.columns.items()))
        assert array["area"].tolist() == [2, 2, 1] and len(array) == len(table.compute()) == 3
    with pytest.raises(KeyError, match="no column 'aera'; the columns are label, area"):
        table["aera"]


def test_a_plan_is_one_line():
    assert repr(bv.plan(bv.regionprops_table(LABELS))).count("\n") == 0
    assert len(repr(bv.plan(bv.regionprops_table(LABELS)))) < 120
