"""``beam-volumes bench``: time a recipe on a crop of its inputs, or measure this machine."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

from beam_volumes.base.text import counted, format_bytes, format_duration
from beam_volumes.cli.messages import print_note, print_result
from beam_volumes.cli.options import budgeting, cropping, setting
from beam_volumes.kernels.jit import compilations
from beam_volumes.plan.cost import machine, speeds
from beam_volumes.plan.fit.planned_pass import Pass, pieces
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.profile.measure import COMPUTING, READING, WRITING, Item, Measured
from beam_volumes.profile.trial import Profile, profile_recipe
from beam_volumes.recipes.recipe import read_recipe


def register(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Everything is computed in this process. Outputs are written in the real format next to the real "
        "outputs, and then removed."
    )
    parser.add_argument(
        "recipe", metavar="RECIPE.yaml", nargs="?", help="a path, or a URL in a bucket"
    )
    parser.add_argument(
        "--calibrate",
        action="store_true",
        help="instead, measure the speed of operations, reading and writing on this machine; plans then "
        "show seconds. Takes one or two minutes, or longer if kernels must be compiled",
    )
    setting(parser)
    budgeting(parser)
    cropping(parser, "the part to time (default: a part in the middle that takes a few seconds)")


def act(args: argparse.Namespace) -> None:
    if args.calibrate == (args.recipe is not None):
        raise ValueError("give a recipe to time, or --calibrate to measure this machine, not both")
    if args.calibrate:
        _calibrate()
        return
    recipe = read_recipe(args.recipe, args.set)
    found = profile_recipe(recipe, args.crop, RunOptions.of(vars(args)))
    for line in report(found):
        print_result(line)


def _calibrate() -> None:
    """Measure this machine, and save its speeds for plans."""
    from beam_volumes.cli.verbs import warm_up
    from beam_volumes.profile.calibrate import calibrate

    began = time.perf_counter()
    dtypes = (*warm_up.DTYPES, *warm_up.LABELS)
    with compilations() as kernels:
        found = calibrate(dtypes, warm_up.each_of_catalogue, print_note)
    path = speeds.save(found)
    print_result(
        f"measured {len(found.costs)} operations in {time.perf_counter() - began:.0f} s, with "
        f"{sum(k.seconds for k in kernels):.0f} s to compile {counted(len(kernels), 'kernel')}; saved to "
        f"{path}; plans now show seconds"
    )


def report(trial: Profile) -> Iterator[str]:
    """Yield the lines of the report."""
    m, whole = trial.measured, trial.whole
    yield (
        f"a crop of {_box(trial.crop)} of {_box(trial.shape)} voxels, after compilation of kernels"
        + (
            f": {len(trial.kernels)} in {sum(k.seconds for k in trial.kernels):.1f} s (not included below)"
            if trial.kernels
            else ""
        )
    )
    yield ""
    yield from table(m)
    yield ""
    yield (
        f"as planned: {format_duration(m.seconds, 1)}, "
        f"{m.plan.passes[0].voxels / m.seconds / 1e6:,.1f} Mvoxel/s, "
        f"{counted(m.plan.workers, 'slab')} in flight, {m.busy / m.seconds:.1f} of {machine.cores()} cores "
        "busy"
    )
    waits = ", ".join(f"{_percent(share)} for {kind}s" for kind, share in m.waits.items())
    yield f"share of time that slabs waited for storage: {waits}"
    yield (
        f"memory: peak {format_bytes(m.peak_memory)} of {format_bytes(m.plan.process_memory)} predicted"
    )
    yield ""
    scaled = whole.plan is trial.plan
    how = (
        "scaled by the voxels that its slabs read and compute, including halos"
        if scaled
        else "scaled by voxels, since its passes differ from the crop's"
    )
    yield f"the whole volume: about {format_duration(whole.seconds, 1)}, {how}"
    if scaled:
        parts = (("read", READING), ("compute", COMPUTING), ("write", WRITING))
        shares = [f"{name} {_percent(whole.share(*kinds))}" for name, kinds in parts]
        yield f"its CPU time: {', '.join(shares)}, everything else {_percent(whole.rest / whole.whole)}"
    yield f"its memory: {format_bytes(trial.plan.process_memory)} predicted"
    yield ""
    for text in trial.advice:
        yield f"* {text}"
    if not trial.advice:
        yield "no suggestions"


def table(m: Measured) -> list[str]:
    """List the activities of each pass: CPU seconds, share, and voxels per second."""
    lines = []
    for p in m.plan.passes:
        voxels = f"{_box(p.program.shape)} voxels in {counted(len(p.grid), 'slab')}"
        lines.append(f"pass {p.index + 1}/{len(m.plan.passes)}: {voxels}")
        lines.append(f"  {'':40s} {'CPU s':>8s} {'share':>8s} {'Mvoxel/s':>11s}")
        for item in m.items:
            if item.index == p.index:
                speed = f"{p.voxels / item.cpu / 1e6:,.1f}" if item.cpu else "-"
                lines.append(f"  {_row(_name(m, item), item.cpu, m.whole)} {speed:>11s}")
                lines += _pieces(p, item)
    lines.append(f"  {_row('everything else', m.rest, m.whole)}")
    return lines


def _pieces(p: Pass, item: Item) -> list[str]:
    """Describe the patches or tiles that a step computed, and their number per second."""
    count = pieces(p, item.activity.index) if item.activity.kind == "stage" else 0
    if not count or not item.wall:
        return []
    what = p.program.steps[item.activity.index].stage
    return [f"    {count:,} {what.piece}: {count / item.wall:,.2f} a second" if what else ""]


def _row(name: str, cpu: float, whole: float) -> str:
    return f"{name[:45]:45s} {cpu:8.3f} {100 * cpu / whole:6.1f} %"


def _name(m: Measured, item: Item) -> str:
    """Name an activity by the file name of its place, or by the step of an intermediate."""
    program, a = m.plan.passes[item.index].program, item.activity
    stored = {
        o.sink.name: p.program.steps[o.edge.step].name
        for p in m.plan.passes
        for o in p.program.outputs
        if o.sink in m.plan.intermediates
    }
    if a.kind in ("check", "write"):
        place, doing = (
            program.outputs[a.index].sink.name,
            {"check": "checksums of"}.get(a.kind, "write"),
        )
    else:
        step = program.steps[a.index] if a.kind in ("read", "stage") else None
        if step is None or step.source is None:
            return a.name
        place, doing = step.source.name, a.kind
    if place in stored:
        return f"{doing} {stored[place]}, for this run"
    return f"{doing} {place.rstrip('/').rpartition('/')[2]}"


def _box(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


VERBS = {
    "bench": (register, act),
}
