"""Types of elements: wrong wiring fails when the pipeline is built, and every output has a type."""

import os
from pathlib import Path

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.typehints import Any, Dict, Tuple
from apache_beam.typehints.decorators import TypeCheckError
from apache_beam.typehints.schemas import named_fields_from_element_type

import beam_volumes as bv
from beam_volumes.transforms.slab import KeyedSlab
from tests.transforms.trees import membranes, stored


@pytest.fixture
def em(tmp_path):
    return stored(tmp_path, membranes((6, 7, 8)))


def made(em, folder):
    """Every transform that takes elements, with an input of a wrong type."""
    read = bv.ReadSlabs(em, depth=3, halo=1)
    label = bv.LabelComponents(read)
    network = bv.Predict(bv.ReadSlabs(em, depth=3), lambda b: b, patch=(3, 7, 8), context=0)
    return {
        "ApplyStages": (bv.ApplyStages(lambda v: v + 1), "slab alone"),
        "ComputeAll": (bv.ComputeAll(lambda path: {"mean": bv.mean(bv.open(path))}), "slabs"),
        "LabelComponents": (label, "summaries"),
        "LabelSlabs": (bv.LabelSlabs(read), "paths"),
        "MeasureSlabs": (bv.MeasureSlabs(read, mean=bv.mean), "grouped"),
        "MergeEquivalences": (bv.MergeEquivalences(label), "slabs"),
        "Predict": (network, "numbers"),
        "ReadAll": (bv.ReadAll(), "slabs"),
        "RegionTable": (bv.RegionTable(read), "rows"),
        "RelabelSlabs": (bv.RelabelSlabs(em, label), "summaries"),
        "SlabScan": (bv.SlabScan(read, np.add), "paths"),
        "WatchSlices": (bv.WatchSlices(folder / "{z}.png", (6, 7, 8), "u1"), "slabs"),
        "WriteSlabs": (bv.WriteSlabs(folder / "never.zarr"), "paths"),
    }


STARTS = {
    "Compute",
    "ReadSlabs",
    "RegisterSlices",
    "RegisterTiles",
}  # they wait for elements of any type


def test_wrong_wiring_fails_when_the_pipeline_is_built(em, tmp_path):
    p = beam.Pipeline("FnApiRunner")
    read = bv.ReadSlabs(em, depth=3, halo=1)
    slabs = p | read
    given = {
        "slabs": slabs,
        "slab alone": slabs | "Slab" >> beam.Values(),
        "grouped": slabs | beam.GroupByKey(),
        "paths": p | beam.Create(["a.zarr"]),
        "numbers": p | "Numbers" >> beam.Create([1]),
        "summaries": slabs | bv.LabelComponents(read),
        "rows": slabs | bv.RegionTable(read),
    }
    wired = made(em, tmp_path)
    transforms = {n for n in bv.transforms.__all__ if issubclass(getattr(bv, n), beam.PTransform)}
    assert wired.keys() | STARTS == transforms
    for name, (transform, mistake) in wired.items():
        with pytest.raises(TypeCheckError):
            given[mistake] | f"Wrong {name}" >> transform
    assert not (tmp_path / "never.zarr").exists()
    merged = given["summaries"] | bv.MergeEquivalences(bv.LabelComponents(read))
    relabel = bv.RelabelSlabs(None, bv.LabelComponents(read))
    with pytest.raises(TypeCheckError, match="slabs"):
        {"answers": merged["answers"], "slabs": merged["answers"]} | "Twice" >> relabel
    with pytest.raises(TypeCheckError, match="answers"):
        {"answers": slabs, "slabs": slabs} | "Slabs twice" >> relabel


def test_what_users_make_by_hand_is_taken(em, tmp_path):
    """Keys without a volume, functions without types, paths of any kind."""
    p = beam.Pipeline("FnApiRunner")
    slabs = p | bv.ReadSlabs(em, depth=3, halo=1)
    plain = beam.MapTuple(lambda key, slab: (key[:3], slab))
    plain = plain.with_output_types(Tuple[Tuple[int, int, int], bv.Slab])
    _ = slabs | plain | bv.ApplyStages(lambda v: v + 1)
    _ = slabs | "Untyped" >> beam.Map(lambda pair: pair) | "Again" >> bv.ApplyStages(lambda v: v)
    for k, path in enumerate(("a.zarr", Path("a.zarr"), ("a", {"path": "a.zarr"}))):
        _ = p | f"Path {k}" >> beam.Create([path]) | f"Read {k}" >> bv.ReadAll()


def outputs(em, folder, p):
    """What every transform gives, by name."""
    read = bv.ReadSlabs(em, depth=3, halo=1)
    slabs, label, paths = p | read, bv.LabelComponents(read), p | beam.Create([em.node.source.name])
    found = bv.label(em > 140)
    table = bv.regionprops_table(found, em)
    compute = bv.Compute(
        em.to(folder / "copy.zarr"),
        found.num_labels,
        table,
        mean=bv.mean(em),
        profile=bv.mean(em, axis="z"),
        pairs=bv.region_adjacency(found),
    )
    watch = bv.WatchSlices(folder / "{z}.png", (6, 7, 8), "u1")
    cut = bv.ReadSlabs(em, depth=3)
    network = bv.Predict(cut, lambda b: b, patch=(3, 7, 8), context=0)
    merged = slabs | label | bv.MergeEquivalences(label)
    measured = slabs | bv.MeasureSlabs(
        read, mean=bv.mean, table=lambda v: bv.regionprops_table(v, properties=["area"])
    )
    failing = bv.ReadAll(depth=3).with_exception_handling()
    good, bad = paths | "Failing" >> failing
    return {
        "ApplyStages": slabs | bv.ApplyStages(lambda v: v > 140),
        "ComputeAll": paths | bv.ComputeAll(lambda path: {"mean": bv.mean(bv.open(path))}),
        "LabelSlabs": slabs | bv.LabelSlabs(read),
        "Predict": p | "Cut" >> cut | network,
        "ReadAll": paths | bv.ReadAll(),
        "ReadAll good": good,
        "ReadAll bad": bad,
        "ReadSlabs": slabs,
        "RegionTable": slabs | bv.RegionTable(read),
        "RelabelSlabs": merged["answers"] | bv.RelabelSlabs(em, label),
        "WriteSlabs": slabs | bv.WriteSlabs(folder / "out.zarr", chunks=(3, 7, 8)),
        **{f"Compute {name}": some for name, some in (p | compute).items()},
        **{f"MeasureSlabs {name}": some for name, some in measured.items()},
        **{f"MergeEquivalences {name}": some for name, some in merged.items()},
        **dict(zip(("WatchSlices slabs", "WatchSlices told"), p | watch, strict=True)),
    }


def test_every_output_has_a_type(em, tmp_path):
    found = {n: o.element_type for n, o in outputs(em, tmp_path, beam.Pipeline()).items()}
    assert Any not in found.values()
    rows = [n for n in found if "table" in n.lower() or n == "Compute pairs"]
    assert len(rows) == 4
    for name in rows:
        fields = dict(named_fields_from_element_type(found.pop(name)))
        assert {*fields.values()} <= {np.int64, np.float64, bool}, fields
        assert not any("-" in f for f in fields)
    copy = f"Compute {tmp_path / 'copy.zarr'}"
    slabs = ("ApplyStages", "LabelSlabs", "Predict", "ReadAll", "ReadAll good", "ReadSlabs")
    assert found == {
        **dict.fromkeys((*slabs, "RelabelSlabs", "WatchSlices slabs"), KeyedSlab),
        **dict.fromkeys(("ReadAll bad", "WatchSlices told"), bv.Failed),
        **dict.fromkeys((copy, "WriteSlabs"), str),
        "ComputeAll": Tuple[str, Dict[str, Any]],
        "Compute label count": int,
        "Compute mean": float,
        "Compute profile": np.ndarray,
        "MeasureSlabs mean": float,
        "MergeEquivalences answers": Tuple[bv.SlabKey, bytes],
        "MergeEquivalences numbers": Tuple[Tuple[()], Dict[str, int]],
    }


def test_rows_of_tables_go_into_beams_own_transforms(em, tmp_path):
    found = bv.label(em > 140)
    with beam.Pipeline("FnApiRunner") as p:
        table = bv.regionprops_table(found, em, properties=["area", "centroid"])
        rows = (p | bv.Compute(rows=table, total=bv.sum(em)))["rows"]
        lower = beam.GroupBy(lower=lambda row: row.centroid_0 < 3)
        areas = rows | lower.aggregate_field("area", sum, "total") | beam.Map(tuple)
        assert_that(areas, equal_to(by_half(np.asarray(found))))
        _ = rows | beam.io.WriteToParquet(str(tmp_path / "rows"))
    assert any(name.startswith("rows") for name in os.listdir(tmp_path))


def by_half(labels):
    totals = {}
    for k in range(1, labels.max() + 1):
        zyx = np.argwhere(labels == k)
        lower = bool(zyx[:, 0].mean() < 3)
        totals[lower] = totals.get(lower, 0.0) + float(len(zyx))
    return list(totals.items())
