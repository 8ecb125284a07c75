"""``beam-volumes info``: describe a volume, a group of volumes, a run, or this machine."""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import beam_volumes as bv
from beam_volumes.base.text import counted, format_bytes, parsed_json
from beam_volumes.cli.messages import FAILED, message, print_result, worded
from beam_volumes.cli.options import budgeting, opening, parse_index, parse_options
from beam_volumes.graph.volume import Volume, of_source
from beam_volumes.kernels import cache
from beam_volumes.kernels.jit import processor
from beam_volumes.plan.cost.machine import cores, machine_memory
from beam_volumes.runs.failure import revived
from beam_volumes.runs.journal import ENDED, Journal, Tally
from beam_volumes.runs.summary import Costs
from beam_volumes.session.provenance import versions
from beam_volumes.storage.formats import unfinished
from beam_volumes.storage.formats.format import Format, Listing, OpenRequest
from beam_volumes.storage.formats.hdf5.files import split
from beam_volumes.storage.inputs.opening import asked_at, open_source
from beam_volumes.storage.outputs import provenance
from beam_volumes.storage.places.place import Place
from beam_volumes.storage.places.stored_size import stored
from beam_volumes.storage.sources.axes import UnclearSpace
from beam_volumes.storage.sources.inspection import Check, codec, others
from beam_volumes.storage.sources.source import Source
from beam_volumes.storage.sources.stack import matching
from beam_volumes.sweep.device import NoDevice
from beam_volumes.sweep.devices import listed
from beam_volumes.sweep.direct import way

#: Number of bins of a histogram, and the characters of its bars.
BINS, BARS = 32, " ▁▂▃▄▅▆▇█"
#: Maximum number of damaged chunks, or volumes of a group, to list; the check stops there.
MAXIMUM = 100
#: Maximum number of files to count; for more, the size is shown as "at least".
_MAX_FILES = 200_000

#: Maximum number of steps to list from the provenance of a volume.
MAX_STEPS = 20

#: The description as plain data; `lines` formats it.
Facts = dict[str, Any]


def register(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Describe the volume, group of volumes or run at a path, or, with --machine, this machine. Only "
        "metadata are read, except with --stats and --check."
    )
    parser.add_argument(
        "path", metavar="PATH", nargs="?", help="a path, glob or URL, or a TensorStore spec as JSON"
    )
    parser.add_argument(
        "--machine",
        action="store_true",
        help="describe this machine instead: processor, memory, CUDA devices, versions and the cache of "
        "compiled kernels",
    )
    parser.add_argument(
        "--stats",
        action="store_true",
        help="read all voxels and print their range, mean and histogram",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="read all chunks or slices, and list damaged ones",
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.epilog = "Exit code 1: --check found damage. 2: the path cannot be opened."
    opening(parser, spacing=False)
    budgeting(parser)


def act(args: argparse.Namespace) -> int:
    if args.machine == (args.path is not None):
        raise ValueError("info needs a PATH or --machine" + (", not both" if args.machine else ""))
    facts = of_machine() if args.machine else found(args)
    if args.json:
        print_result(json.dumps(facts, indent=1, default=str))
    else:
        for line in lines(facts):
            print_result(line)
    return FAILED if facts.get("check", {}).get("damaged") else 0


def found(args: argparse.Namespace) -> Facts:
    """Describe the path in the arguments."""
    spec = parsed_json(args.path) if args.path.startswith("{") else None
    asked = {"index": parse_index(args.index), "dataset": args.dataset, "level": args.level}
    options = parse_options(args.option)
    place, candidates = (None, ()) if spec is not None else asked_at(args.path)
    listing = None
    if place is not None:
        journal = _journal(place)
        if journal is not None:
            return of_run(journal)
        if args.level is None and args.mpp is None and args.axes is None and not options:
            listing = _listing(place, candidates, args.dataset)
        if listing is not None and not listing.is_volume:
            unfinished.warn(None if place.local is None else unfinished.at(place.local))
            return of_group(args.path, args.dataset, listing)
    source, unclear = _opened(
        args.path if spec is None else spec, mpp=args.mpp, axes=args.axes, **asked, **options
    )
    if unclear:
        options["affine"] = "drop"
    if source.asked is not None:
        asked["level"] = source.asked["level"]
    if args.axes is not None:
        asked["index"] = None  # it uses the names given by --axes
    facts = of_volume(source)
    if unclear:
        facts["unclear"] = unclear
    if place is not None and place.local is not None and matching(place.local) is None:
        facts["others"] = others(source, split(place.local)[0])
    if place is not None:
        facts["format"] = _format(place, candidates, OpenRequest(**asked, options=options))
        made_from = provenance.found(place)
        if made_from is not None:
            facts["provenance"] = made_from
    if listing is not None:
        facts |= _choices(args.path, listing, {**asked, **options})
    if args.stats:
        facts["stats"] = statistics(of_source(source), args)
    if args.check:
        facts["check"] = checked(source)
    return facts


def _opened(path: Any, **asked: Any) -> tuple[Source, str]:
    """Open a source; if its placement is unclear, ignore the placement and return the reason."""
    try:
        return open_source(path, **asked), ""
    except UnclearSpace as error:
        if asked.get("affine") is not None:
            raise
        return open_source(path, **{**asked, "affine": "drop"}), " ".join(str(error).split())


# this machine


def of_machine() -> Facts:
    """Describe this machine: processor, memory, versions and compiled kernels."""
    kernels, size = cache.usage()
    return {
        "kind": "machine",
        "versions": versions(),
        "processor": processor(),
        "cores": cores(),
        "memory": machine_memory(),
        "devices": _devices(),
        "direct_storage": way(),
        "kernels": {"path": str(cache.folder()), "kernels": kernels, "bytes": size},
    }


def _devices() -> list[dict[str, Any]] | str:
    """The devices for ``device="cuda"``, or why there are none."""
    try:
        return [found._asdict() for found in listed()]
    except NoDevice as error:
        return str(error)


# a volume


def of_volume(source: Source) -> Facts:
    """Describe a volume from its metadata."""
    space = source.space
    visible = space.visible
    shape = (*source.leading, *(source.shape[a] for a in visible))
    facts: Facts = {
        "kind": "volume",
        "path": source.name,
        "axes": [*space.leading, *space.axes],
        "shape": list(shape),
        "dtype": str(source.dtype),
        "voxels": math.prod(shape),
        "bytes": source.nbytes,
        "chunks": [*source.leading_chunk, *(source.chunk[a] for a in visible)],
        "chunk_bytes": source.chunk_bytes * math.prod(source.leading_chunk),
        "codec": codec(source),
        "voxel_size": None if space.voxel_size is None else [space.voxel_size[a] for a in visible],
        "unit": space.unit,
        "origin": [space.origin[a] for a in visible],
    }
    if space.channels:
        facts["channels"] = list(space.channels)
    if source.remark:
        facts["reading"] = source.remark
    files = stored(source.reader.extents, _MAX_FILES)
    if files is not None:
        facts["stored"] = files._asdict()
    facts["sweep"] = _sweep(source)
    return facts


def _sweep(source: Source) -> Facts:
    """Count the chunks and decoded bytes that one pass over all voxels reads."""
    cells = [source.units_touched(axis, (0, n)) if n else 0 for axis, n in enumerate(source.shape)]
    points = math.prod(
        -(-n // c) for n, c in zip(source.leading, source.leading_chunk, strict=True)
    )
    chunks = math.prod(cells) * points
    each = math.prod(source.read_unit) * source.dtype.itemsize * math.prod(source.leading_chunk)
    return {"chunks": chunks, "bytes": chunks * each}


def statistics(volume: Volume, args: argparse.Namespace) -> Facts:
    """Compute range, mean and histogram of the finite voxels in this process."""
    if volume.dtype == np.dtype(bool):
        n = int(_computed(args, bv.count_nonzero(volume))[0])
        return {"true": n, "false": volume.size - n}
    floats = volume.dtype.kind == "f"
    how: dict[str, Any] = {"nan": "omit"} if floats else {}
    if volume.space.times:
        raise ValueError(
            f"--stats needs one time point, and the volume has {volume.space.times}; choose one with "
            "--index t=0"
        )
    numbers = [f(volume, **how) for f in (bv.min, bv.max, bv.mean, bv.std)]
    counts, edges = bv.histogram(volume, BINS, **how)
    low, high, mean, std, counts, edges = _computed(args, *numbers, counts, edges)
    facts = {
        "min": low.item(),
        "max": high.item(),
        "mean": mean.item(),
        "std": std.item(),
        "histogram": np.asarray(counts).tolist(),
        "edges": np.asarray(edges).tolist(),
    }
    if floats:
        facts["not finite"] = volume.size - int(np.sum(counts))
    return facts


def _computed(args: argparse.Namespace, *wanted: Any) -> tuple[Any, ...]:
    how = {"memory": args.memory, "workers": args.workers, "progress": False}
    results = bv.compute(*wanted, runner=None, **how)
    return results if len(wanted) > 1 else (results,)


def checked(source: Source) -> Facts:
    """Read every chunk, and describe the damaged ones."""
    check = Check(source)
    damaged = []
    for damage in check.problems():
        damaged.append(damage._asdict())
        if len(damaged) == MAXIMUM:
            break
    return {
        "chunks": check.chunks,
        "not stored": check.absent,
        "damaged": damaged,
        "is_all": len(damaged) < MAXIMUM,
    }


def _format(place: Place, candidates: Sequence[Format], request: OpenRequest) -> str:
    for f in candidates:
        if f.open_place(place, request.of_format(f)) is not None:
            return f.title
    names = None if place.local is None else matching(place.local)
    if names:
        return f"{counted(len(names), 'file')}, {_format(Place.of(names[0]), candidates, request)}"
    return "unknown"


# groups and levels


def _listing(place: Place, candidates: Sequence[Format], dataset: str | None) -> Listing | None:
    """Return the listing of the first format that recognizes the place."""
    return next(
        (found for f in candidates if (found := f.listing(place, dataset)) is not None), None
    )


def _choices(path: str, listing: Listing, asked: Mapping[str, Any]) -> Facts:
    facts: Facts = {}
    if listing.datasets:
        facts["datasets"] = list(listing.datasets)
    if listing.levels:
        facts["levels"] = [
            {"path": name, **_brief(path, **{**asked, "level": n})}
            for n, name in enumerate(listing.levels)
        ]
    return facts


def of_group(path: str, dataset: str | None, listing: Listing) -> Facts:
    """Describe the volumes of a group."""
    names = listing.datasets
    if dataset is not None:
        names = tuple(n if n.startswith("/") else os.path.join(dataset, n) for n in names)
    return {
        "kind": "group",
        "path": path,
        "what": listing.what,
        "volumes": [{"dataset": n, **_brief(path, dataset=n)} for n in names[:MAXIMUM]],
        "more": [*names[MAXIMUM:]],
        "is_all": listing.is_all,
    }


def _brief(path: str, **asked: Any) -> Facts:
    try:
        source, _ = _opened(path, **asked)
    except (ValueError, OSError) as error:
        return {"error": " ".join(str(error).split())}
    facts = of_metadata(source)
    return facts


def of_metadata(source: Source) -> Facts:
    """Return the metadata for a one-line description of a volume."""
    visible = source.space.visible
    return {
        "axes": [*source.space.leading, *source.space.axes],
        "shape": [*source.leading, *(source.shape[a] for a in visible)],
        "dtype": str(source.dtype),
        "bytes": source.nbytes,
        "chunks": [*source.leading_chunk, *(source.chunk[a] for a in visible)],
    }


# a run


def _journal(place: Place) -> Journal | None:
    """Return the journal of a run, if the place is its folder."""
    if place.local is not None and not os.path.isdir(place.local):
        return None
    return None if place.read("manifest.json") is None else Journal.open(place.spec)


def of_run(journal: Journal) -> Facts:
    """Describe progress, outputs and costs of a run."""
    manifest = Journal.load(journal.spec)
    assert manifest is not None
    tallies = [Tally(journal, k, p["slabs"]) for k, p in enumerate(manifest.passes)]
    costs = Costs(journal)
    passes = []
    for k, (p, tally) in enumerate(zip(manifest.passes, tallies, strict=True)):
        tally.update()
        while tally.new:
            costs.add(k, tally, len(tally.new))
        passes.append({"slabs": p["slabs"], "done": tally.done, "slab": p["slab"]})
    s = costs.summary(tallies)
    failed = journal.failure(None)
    state = "ended" if journal.marked(ENDED) else "failed" if failed else "not finished"
    return {
        "kind": "run",
        "path": journal.url,
        "run": journal.run_id,
        "begun": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(manifest.created)),
        "beam_volumes": manifest.package,
        "python": manifest.python,
        "state": state,
        "failure": None if failed is None else message(revived(failed)),
        "passes": passes,
        "outputs": [o.get("name") for o in manifest.outputs if not o.get("internal")],
        "inputs": [
            name.removeprefix("input ")
            for name in manifest.fingerprint
            if name.startswith("input ")
        ],
        "predicted": manifest.predicted,
        "seconds": s.seconds,
        "bytes_read": s.bytes_read,
        "bytes_written": s.bytes_written,
        "peak_memory": s.peak_memory,
        "redone": s.redone,
    }


# text


def lines(facts: Facts) -> Iterator[str]:
    """Yield a description as lines of text."""
    kinds = {
        "volume": _volume_lines,
        "group": _group_lines,
        "run": _run_lines,
        "machine": _machine_lines,
    }
    yield from kinds[facts["kind"]](facts)


def _machine_lines(facts: Facts) -> Iterator[str]:
    kernels = facts["kernels"]
    rows = {
        **{name: version or "not installed" for name, version in facts["versions"].items()},
        "processor": f"{facts['processor']}, {counted(facts['cores'], 'core')}",
        "memory": format_bytes(facts["memory"]),
        "devices": facts["devices"]
        if isinstance(facts["devices"], str)
        else "; ".join(
            f"{d['name']}, {format_bytes(d['free'])} of {format_bytes(d['memory'])} free, CUDA {d['cuda']}, "
            f"driver for CUDA {d['driver']}"
            for d in facts["devices"]
        ),
        "direct storage": facts["direct_storage"],
        "kernels": f"{counted(kernels['kernels'], 'compiled kernel')}, {format_bytes(kernels['bytes'])}, "
        f"in {kernels['path']}",
    }
    yield from _table(rows)


def _volume_lines(facts: Facts) -> Iterator[str]:
    unit = f" {facts['unit']}" if facts["unit"] else ""
    size = facts["voxel_size"]
    rows = {
        "path": facts["path"],
        "shape": _size(facts),
        "dtype": facts["dtype"],
        "size": f"{format_bytes(facts['bytes'])} ({facts['voxels']:,} voxels)",
        "chunks": f"{_times(facts['chunks'])}, {format_bytes(facts['chunk_bytes'])} each",
        "codec": facts["codec"],
        "reading": facts.get("reading", ""),
        "also reads": ", ".join(facts.get("others", ())),
        "voxel size": f"{_times(size)}{unit}" if size else "not known",
        "origin": ", ".join(f"{o:g}" for o in facts["origin"]) + unit
        if any(facts["origin"])
        else "",
        "unclear": worded(facts.get("unclear", "")),
        "channels": ", ".join(facts.get("channels", ())),
        "format": facts.get("format", ""),
    }
    if files := facts.get("stored"):
        bound = "" if files["is_all"] else "at least "
        rows["stored"] = (
            f"{bound}{format_bytes(files['bytes'])} in {counted(files['files'], 'file')}"
        )
    sweep = facts["sweep"]
    rows["a sweep"] = f"reads {format_bytes(sweep['bytes'])} in {counted(sweep['chunks'], 'chunk')}"
    if facts.get("datasets"):
        rows["datasets"] = ", ".join(facts["datasets"][:MAXIMUM])
    for n, level in enumerate(facts.get("levels", ())):
        rows[f"level {n}"] = f"{level['path']}: {_one_line(level, chunks=True)}"
    rows |= _provenance_rows(facts.get("provenance"))
    rows |= _stats_rows(facts.get("stats"))
    check = facts.get("check")
    if check is not None:
        good = check["chunks"] - len(check["damaged"])
        absent = check["not stored"]
        rows["check"] = f"{counted(good, 'chunk')} can be read" + (
            f"; {absent:,} of them are not stored and consist of one value" if absent else ""
        )
    yield from _table(rows)
    if check is not None:
        for damage in check["damaged"]:
            yield f"damaged: {damage['where']}: {damage['why']}"
        if not check["is_all"]:
            yield f"and more: the check stopped after {MAXIMUM}"


def _table(rows: Mapping[str, str]) -> Iterator[str]:
    width = max(map(len, rows)) + 2
    for name, text in rows.items():
        if text:
            yield f"{name:<{width}}{text}"


def _provenance_rows(made_from: Facts | None) -> dict[str, str]:
    """Summarise the provenance of a volume; JSON output contains all of it."""
    if made_from is None:
        return {}
    versions, steps = made_from.get("versions") or {}, made_from.get("steps") or []
    inputs = [str(i.get("name")) for i in made_from.get("inputs") or ()]
    named = [str(s["step"]) for s in steps if "step" in s and s.get("of")]
    more = ", ..." if len(named) > MAX_STEPS else ""
    return {
        "made by": f"beam_volumes {versions.get('beam_volumes')}, ended {made_from.get('ended')}",
        "made of": ", ".join(inputs[:MAXIMUM]),
        "made with": ", ".join(named[:MAX_STEPS]) + more,
    }


def _stats_rows(stats: Facts | None) -> dict[str, str]:
    if stats is None:
        return {}
    if "true" in stats:
        return {"voxels": f"{stats['true']:,} are true, {stats['false']:,} false"}
    numbers = ", ".join(f"{k} {stats[k]:g}" for k in ("min", "max", "mean", "std"))
    if stats.get("not finite"):
        numbers += f"; {stats['not finite']:,} voxels are not finite"
    ends = stats["edges"]
    return {"voxels": numbers, "histogram": f"{ends[0]:g} {bars(stats['histogram'])} {ends[-1]:g}"}


def bars(counts: list[int]) -> str:
    """Draw counts as a line of bars; every count except 0 gets a bar.

    >>> bars([0, 1, 400, 800])
    ' ▁▄█'
    """
    highest = max([1, *counts])
    return "".join(BARS[-(-c * (len(BARS) - 1) // highest)] for c in counts)


def _group_lines(facts: Facts) -> Iterator[str]:
    if not facts["volumes"]:
        known = "without arrays" if facts["is_all"] else "with arrays that are not listed"
        yield f"{facts['path']} is {facts['what']} {known}"
        return
    yield f"{facts['path']} is {facts['what']}; choose one of these with --dataset:"
    for volume in facts["volumes"]:
        yield f"  {volume['dataset']}: {_one_line(volume)}"
    if facts["more"]:
        yield f"  and {len(facts['more']):,} more"
    if not facts["is_all"]:
        yield "  and possibly others: the group was not searched completely"


def _run_lines(facts: Facts) -> Iterator[str]:
    rows = {
        "run": f"{facts['run']}, {facts['state']}",
        "begun": f"{facts['begun']} by beam_volumes {facts['beam_volumes']}, Python {facts['python']}",
        "read": f"{format_bytes(facts['bytes_read'])}",
        "memory": f"{format_bytes(facts['peak_memory'])} at the peak of a process",
        "written": f"{format_bytes(facts['bytes_written'])} in {facts['seconds']:.1f} s"
        + (f", {facts['redone']:,} slabs computed more than once" if facts["redone"] else ""),
    }
    for k, p in enumerate(facts["passes"]):
        rows[f"pass {k + 1}"] = f"{p['done']:,} of {p['slabs']:,} slabs of {_times(p['slab'])}"
    if facts["failure"]:
        rows["failed"] = facts["failure"]
    width = max(map(len, (*rows, "output"))) + 2
    for name, text in rows.items():
        yield f"{name:<{width}}{text}"
    for kind in ("input", "output"):
        for name in facts[f"{kind}s"]:
            yield f"{kind:<{width}}{name}"


def _one_line(facts: Facts, chunks: bool = False) -> str:
    if "error" in facts:
        return str(facts["error"])
    if chunks:
        return f"{_size(facts)}, chunks {_times(facts['chunks'])}"
    return f"{_size(facts)}, {facts['dtype']}, {format_bytes(facts['bytes'])}"


def _size(facts: Facts) -> str:
    return f"{_times(facts['shape'])} ({' '.join(facts['axes'])})"


def _times(numbers: Any) -> str:
    return " x ".join(f"{n:g}" if isinstance(n, float) else str(n) for n in numbers)


VERBS = {
    "info": (register, act),
}
