"""The report of a run: its plan, measurements compared with predictions, and slabs over time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from beam_volumes.base.text import format_bytes
from beam_volumes.plan.cost import memory
from beam_volumes.plan.cost.concurrency import Concurrency
from beam_volumes.plan.picture import plan_svg
from beam_volumes.runs.failure import revived
from beam_volumes.runs.journal import ENDED, Journal, Tally
from beam_volumes.runs.manifest import Manifest
from beam_volumes.runs.record import Record
from beam_volumes.runs.summary import Costs, Summary
from beam_volumes.show.pages import charts
from beam_volumes.show.pages.page import Page
from beam_volumes.storage.outputs.provenance import moment

#: Maximal number of slabs of a pass that are read, and steps of a curve.
MAX_SLABS, STEPS = 4000, 80
#: Maximal number of slabs that are drawn.
_DRAWN = 1500


def add_run(page: Page, journal: Journal) -> Manifest:
    """Add a run to a page, and return its manifest."""
    manifest = Journal.load(journal.spec)
    assert manifest is not None
    page.heading("The run")
    tallies = [Tally(journal, k, p["slabs"]).update() for k, p in enumerate(manifest.passes)]
    records = [(k, r) for k, t in enumerate(tallies) for r in _records(journal, k, t)]
    costs = Costs(journal)
    for k, tally in enumerate(tallies):
        while tally.new:
            costs.add(k, tally, len(tally.new))
    summary = costs.summary(tallies)
    page.table(_facts(journal, manifest, summary))
    _add_passes(page, manifest, tallies)
    if records:
        _add_time(page, manifest, records, sum(t.done for t in tallies))
    page.heading("The plan")
    if "workers" in manifest.predicted:
        internal = {o["name"] for o in manifest.outputs if o.get("internal")}
        page.svg(plan_svg({**manifest.predicted, "passes": manifest.passes}, internal))
    for reason in manifest.predicted.get("reasons", ()):
        page.words(reason)
    page.folded("versions and options", json.dumps(manifest.about, indent=1, default=str))
    return manifest


def _records(journal: Journal, k: int, tally: Tally) -> Iterator[Record]:
    """Yield records of a pass, evenly spaced if there are many."""
    step = max(1, -(-len(tally.new) // MAX_SLABS))
    for _, record in journal.read_records(k, sorted(tally.new)[::step], bodies=False):
        if isinstance(record, Record):
            yield record


def _facts(journal: Journal, manifest: Manifest, s: Summary) -> dict[str, Any]:
    failed = journal.failure(None)
    predicted = manifest.predicted
    state = "ended" if journal.marked(ENDED) else "failed" if failed else "not finished"
    of_process = _of_process(predicted)
    return {
        "state": state,
        "why": None if failed is None else " ".join(str(revived(failed)).split()),
        "run": manifest.run_id,
        "begun": moment(manifest.created),
        "time": f"{s.seconds:.1f} s during which slabs were computed",
        "speed": f"{s.voxels_per_second / 1e6:,.1f} Mvoxel/s, {s.voxels:,} voxels",
        "read": _with_prediction(s.bytes_read, predicted.get("bytes_read")),
        "written": _with_prediction(s.bytes_written, predicted.get("bytes_written")),
        "peak memory of a process": _with_prediction(s.peak_memory, of_process),
        "slabs done more than once": s.redone or None,
        "inputs": ", ".join(
            n.removeprefix("input ") for n in manifest.fingerprint if n.startswith("input ")
        ),
        "beam_volumes": f"{manifest.package}, Python {manifest.python}",
    }


def _of_process(predicted: dict[str, Any]) -> int | None:
    if not {"base", "slab_memory", "workers", "processes", "threads"} <= predicted.keys():
        return None
    concurrency = Concurrency(predicted["workers"], predicted["processes"], predicted["threads"])
    return memory.of_process(predicted["base"], predicted["slab_memory"], concurrency)


def _with_prediction(measured: int, predicted: int | None) -> str:
    text = format_bytes(measured)
    return text if predicted is None else f"{text}; predicted {format_bytes(predicted)}"


def _add_passes(page: Page, manifest: Manifest, tallies: Sequence[Tally]) -> None:
    rows = [
        [
            str(k),
            f"{t.done:,} of {p['slabs']:,}",
            " x ".join(map(str, p["slab"])),
            format_bytes(p["bytes_read"]),
            format_bytes(p["bytes_written"]),
            format_bytes(p["slab_memory"]),
            ", ".join([*p["stages"], *p["folds"], *p["surveys"]])[:120],
        ]
        for k, (p, t) in enumerate(zip(manifest.passes, tallies, strict=True), 1)
    ]
    page.rows(["pass", "slabs", "slab", "reads", "writes", "memory of a slab", "computes"], rows)


def _add_time(
    page: Page, manifest: Manifest, records: Sequence[tuple[int, Record]], done: int
) -> None:
    """Add throughput, memory and slabs over time."""
    began = min(r.started for _, r in records)
    end = max(r.ended for _, r in records) - began or 1e-3
    times, rate = _throughput([r for _, r in records], began, end, done / len(records))
    page.heading("Over time")
    ended = sorted((r.ended - began, r.peak_memory) for _, r in records)
    peaks = np.maximum.accumulate([m for _, m in ended])
    page.side_by_side(
        [
            charts.curve(
                "read and written per second", times, rate, lambda v: f"{format_bytes(int(v))}/s"
            ),
            charts.curve(
                "peak memory of a process",
                [t for t, _ in ended],
                peaks.tolist(),
                lambda v: format_bytes(int(v)),
                _of_process(manifest.predicted),
            ),
        ]
    )
    step = max(1, -(-len(records) // _DRAWN))
    spans = [
        (
            r.started - began,
            r.ended - began,
            k,
            f"pass {k + 1}, slab {r.slab} {r.box}: {r.seconds:.2f} s on {r.host}",
        )
        for k, r in records[::step]
    ]
    page.side_by_side([charts.lanes(spans, [f"pass {k + 1}" for k in range(len(manifest.passes))])])
    if step > 1 or len(records) < done:
        page.words(f"The chart shows some of {done:,} slabs.")


def _throughput(
    records: Sequence[Record], began: float, end: float, share: float
) -> tuple[list[float], list[float]]:
    """Return bytes per second over time, with each slab's spread over its duration."""
    edges = np.linspace(0, end, STEPS + 1)
    total = np.zeros(STEPS)
    for r in records:
        a, b = r.started - began, max(r.ended - began, r.started - began + 1e-6)
        inside = np.clip(np.minimum(edges[1:], b) - np.maximum(edges[:-1], a), 0, None)
        total += inside / (b - a) * (r.bytes_read + r.bytes_written)
    rate = total * share / (end / STEPS)
    return [0.0, *edges[1:].tolist()], [*rate.tolist(), float(rate[-1])]
