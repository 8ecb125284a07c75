"""What a census of a part expects of the whole volume: components, rows, and the largest step of a merge."""

import re

import numpy as np
import pytest
from scipy import ndimage

import beam_volumes as bv
from beam_volumes.cli.main import main
from beam_volumes.ops.labels.surveys.merge_estimate import MergeEstimate
from beam_volumes.profile import census
from tests.transforms.trees import stored

SHAPE, SLAB = (60, 90, 80), (20, 30, 40)
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
LINE = (
    r"^  {}: about ([\d,]+) \w+, ([\d.]+) (\w+) in the largest step .* by the 40 x 41 x 40 voxels"
)


def noise():
    return np.random.default_rng(0).integers(0, 256, SHAPE, np.uint8)


def blobs():
    smooth = ndimage.gaussian_filter(np.random.default_rng(1).normal(size=SHAPE), 1.5)
    return np.clip(128 + 40 * smooth / smooth.std(), 0, 255).astype("u1")


def expectations(text, name):
    """The counts and bytes of each survey of this name."""
    found = re.findall(LINE.format(re.escape(name)), text, re.M)
    return [(float(n.replace(",", "")), float(size) * UNITS[unit]) for n, size, unit in found]


def is_near(expected, found):
    return found / 2 <= expected <= 2 * found


@pytest.fixture
def steps(monkeypatch):
    """A small part; and the largest steps of merges of components, as runs find them."""
    monkeypatch.setattr(census, "_VOXELS", 1 << 16)
    found, finish = [], MergeEstimate.finish

    def noted(self, state, values=()):
        found.append(int(finish(self, state, values)))
        return np.int64(found[-1])

    monkeypatch.setattr(MergeEstimate, "finish", noted)
    return found


@pytest.mark.parametrize("make", [noise, blobs])
def test_components_and_rows_are_near(make, steps):
    em = bv.open(make())
    labels = bv.label(em > bv.percentile(em, 85))
    targets = labels, bv.regionprops_table(labels, properties=["area"])
    text = bv.plan(*targets, slab=SLAB).explain(census=True)
    _, table = bv.compute(*targets, slab=SLAB, runner=None, progress=False)
    ((count, step),) = expectations(text, "label")
    assert is_near(count, table.num_rows) and is_near(step, max(steps))
    ((rows, _),) = expectations(text, "regionprops_table")
    assert is_near(rows, table.num_rows)


def test_basins_and_edges_are_near(steps):
    em = bv.open(blobs())
    basins = bv.watershed(em)
    pairs = bv.region_adjacency(basins, em)
    text = bv.plan(basins, pairs, slab=SLAB).explain(census=True)
    labels, rows = bv.compute(basins, pairs, slab=SLAB, runner=None, progress=False)
    ((count, step),) = expectations(text, "watershed")
    assert is_near(count, labels.max()) and is_near(step, max(steps))
    ((edges, _),) = expectations(text, "region_adjacency")
    assert is_near(edges, rows.num_rows)


def test_what_cannot_be_counted_is_reported_and_what_is_likely_to_be_refused():
    em = bv.open(noise())
    turned = bv.label(bv.gaussian_filter(em, 1)[:, ::-1] > 130)
    text = bv.plan(turned, slab=SLAB).explain(census=True)
    assert "  label: no census: its inputs have different shapes, or are cropped or turned" in text
    plan = bv.plan(bv.label(em > 200), slab=SLAB)
    assert "about" not in plan.explain().partition("pass 1")[2]
    for p in plan.passes:
        object.__setattr__(p, "merge_limit_bytes", 1000)
    text = plan.explain(census=True)
    assert "more than 1000 B, so the run is likely to be refused after pass 1" in text


def test_on_the_command_line(tmp_path, capsys):
    stored(tmp_path, noise())
    assert main(["label", str(tmp_path / "in.zarr"), str(tmp_path / "out.zarr"), "--census"]) == 0
    assert re.search(r"label: about [\d,]+ components", capsys.readouterr().out)
    assert not (tmp_path / "out.zarr").exists()
