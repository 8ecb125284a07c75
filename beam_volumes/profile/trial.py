"""Timing a recipe on a part of its inputs, with outputs that lie where the real ones would and vanish."""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace

import beam_volumes as bv
from beam_volumes.graph.nodes import SourceNode
from beam_volumes.graph.volume import Volume
from beam_volumes.kernels.jit import Compiled, compilations
from beam_volumes.plan.cost import machine
from beam_volumes.plan.plan import Plan
from beam_volumes.plan.planner import Wanted, make_plan
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.profile.advice import Setting, advise
from beam_volumes.profile.measure import Measured, foreseen, measure, timed
from beam_volumes.recipes import catalogue
from beam_volumes.recipes.build import build
from beam_volumes.recipes.document import RecipeError
from beam_volumes.recipes.recipe import Recipe
from beam_volumes.storage.places.place import Place, Spec, is_local, join, sibling

#: Voxels by which kernels are compiled, and those by which it is seen how many take `SECONDS`.
WARM, FIRST = 1 << 18, 1 << 21
#: What a run of the crop should take.
SECONDS = 4.0
#: Seconds of CPU that are too few for advice.
LITTLE = 0.2

Crop = Callable[[Volume], Volume]


@dataclass(frozen=True)
class Profile:
    """What `profile_recipe` found."""

    #: What the crop took.
    measured: Measured
    #: Shapes of the part of the largest input that was computed, and of that input.
    crop: tuple[int, ...]
    shape: tuple[int, ...]
    #: Kernels that were compiled first. That is not in the times.
    kernels: tuple[Compiled, ...]
    #: The plan for the inputs as the recipe has them.
    plan: Plan
    #: What this plan would take; or what the crop's own plan would, where the whole has other passes.
    whole: Measured
    #: What could be changed, a sentence each.
    advice: tuple[str, ...]


def profile_recipe(recipe: Recipe, crop: str | None, options: RunOptions) -> Profile:
    """Time a recipe in this process; nothing of it is left.

    Parameters
    ----------
    recipe : Recipe
        Its own options count where ``options`` are None.
    crop : str or None
        A box ``z0:z1,y0:y1,x0:x1`` of every input; None is one in the middle that takes some seconds.
    options : RunOptions
        Memory and workers.

    Raises
    ------
    ValueError
        If the recipe cannot be planned, or ``crop`` holds nothing.
    """
    options = replace(options, base=None).or_else(**recipe.options)
    inputs, targets = _built(recipe)
    whole = make_plan(targets, options)
    largest = max(inputs, key=lambda v: v.size)
    chosen: Crop = (lambda v: catalogue.crop(v, crop)) if crop is not None else (lambda v: v)
    inside = chosen(largest)

    def plan_of(voxels: int) -> AbstractContextManager[Plan]:
        part = middle(inside, voxels)
        return _planned(recipe, lambda v: part(chosen(v)), targets, options)

    with compilations() as kernels:
        with plan_of(WARM) as plan:
            timed(plan)
        voxels = inside.size
        if crop is None and voxels > FIRST:
            with plan_of(FIRST) as plan:
                _, took, _ = timed(plan)
            voxels = round(FIRST * max(1.0, SECONDS / took))
        with plan_of(voxels) as plan:
            known = len(kernels)
            measured = measure(plan)
            if len(kernels) > known:
                measured = measure(plan)
    expected, advice = _expected(measured, whole, targets, options)
    if measured.cpu < LITTLE:
        larger = ": take a larger crop" if inside.size < largest.size else ""
        advice = [f"{measured.cpu:.2f} s of CPU are too little to tell what to change{larger}"]
    shape = middle(inside, voxels)(inside).shape
    return Profile(measured, shape, largest.shape, (*kernels,), whole, expected, (*advice,))


def _built(recipe: Recipe) -> tuple[list[Volume], tuple[Wanted, ...]]:
    """The inputs of a recipe, each of one channel at one point in time, and its targets."""
    inputs: list[Volume] = []

    def noted(volume: Volume) -> Volume:
        if volume.space.leading:
            axes = {axis: 0 for axis in volume.space.leading}
            raise ValueError(
                f"{volume!r}: what is timed is one channel at one point in time; choose them in the recipe's "
                f"input, e.g. index: {axes}"
            )
        inputs.append(volume)
        return volume

    return inputs, build(recipe, noted).targets


def _expected(
    measured: Measured, whole: Plan, targets: Sequence[Wanted], options: RunOptions
) -> tuple[Measured, list[str]]:
    """What the whole would take by what was measured of a crop, and what could be changed."""
    more = min(4 * whole.memory, machine.machine_memory() * 3 // 4)
    roomier = None
    if more > 1.5 * whole.memory:
        roomier = make_plan(targets, replace(options, memory=more))
    expected = foreseen(measured, whole)
    if expected is None:
        times = sum(p.voxels for p in whole.passes) / max(1, measured.voxels)
        expected, roomier = replace(measured, seconds=times * measured.seconds), None
    return expected, advise(expected, Setting(roomier, machine.cores(), os.getloadavg()[0]))


@contextmanager
def _planned(
    recipe: Recipe, crop: Crop, like: Sequence[Wanted], options: RunOptions
) -> Iterator[Plan]:
    """The plan of a cropped recipe, with outputs that are removed in the end."""
    shapes: list[str] = []

    def cropped(volume: Volume) -> Volume:
        part = crop(volume)
        shapes.append(" x ".join(map(str, part.shape)))
        return part

    try:
        targets = build(recipe, cropped).targets
    except RecipeError as error:  # of the whole inputs there was none
        raise ValueError(
            f"{error} (for a crop of {shapes[0]}: --crop Z0:Z1,Y0:Y1,X0:X1 chooses another)"
        ) from error
    run = uuid.uuid4().hex[:12]
    places: list[Spec] = []
    plan = None
    try:
        moved = [
            _moved(t, real, run, k, places)
            for k, (t, real) in enumerate(zip(targets, like, strict=True))
        ]
        plan = make_plan(moved, options)
        yield plan
    finally:
        if plan is not None and plan.scratch_place is not None:
            places.append(plan.scratch_place)
        for place in places:
            Place.of(place).remove()


def _moved(target: Wanted, real: Wanted, run: str, k: int, places: list[Spec]) -> Wanted:
    """A target in a temporary place, stored as the real one."""
    if not isinstance(target, bv.Target | bv.TableTarget):
        return target
    place = trial_place(target.sink.kvstore, run)
    places.append(place)
    where = join(place, str(k), target.sink.name.rstrip("/").rpartition("/")[2])
    if isinstance(target, bv.TableTarget):
        return replace(target, sink=replace(target.sink, kvstore=where))
    assert isinstance(real, bv.Target)
    sink = target.sink
    z, y, x = map(min, real.sink.chunk, sink.shape)
    chunk = (z, y, x)
    shard = real.sink.shard
    if shard is not None:  # whole chunks, that cover the crop or less
        z, y, x = (
            c * min(s // c, -(-n // c)) for s, c, n in zip(shard, chunk, sink.shape, strict=True)
        )
        shard = (z, y, x)
    return bv.Target(target.volume, replace(sink, kvstore=where, chunk=chunk, shard=shard))


def trial_place(output: Spec, run: str) -> Spec:
    """A temporary folder on the disk, or in the bucket, that an output will lie on.

    Examples
    --------
    >>> trial_place({"driver": "gcs", "bucket": "b", "path": "c/mask.zarr/"}, "7")["path"]
    'c/mask.zarr.bench-7/'
    """
    if not is_local(output):
        return join(sibling(output, f".bench-{run}"), directory=True)
    folder = os.path.dirname(os.path.abspath(output["path"].rstrip("/")))
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return {**output, "path": f"{folder}/.beam-volumes-bench-{run}/"}


def middle(volume: Volume, voxels: int) -> Crop:
    """What crops a volume to about so many voxels in its middle, and others to the same part of them.

    Examples
    --------
    >>> whole, half = bv.open(np.zeros((64, 200, 300), "u1")), bv.open(np.zeros((64, 100, 150), "u1"))
    >>> part = middle(whole, 32 * 64 * 64)
    >>> part(whole).shape, part(half).shape
    ((48, 48, 48), (48, 24, 24))
    """
    chunks = dict(zip("zyx", _chunk(volume), strict=True))
    cells = [min(n, chunks.get(axis, 1)) for axis, n in zip(volume.axes, volume.shape, strict=True)]
    sides = box_of_cells(volume.shape, cells, voxels)
    if math.prod(sides) > 4 * voxels or any(
        s < min(n, 16) for s, n in zip(sides, volume.shape, strict=True)
    ):
        sides = near_cube(volume.shape, voxels)
    ranges = {}
    for axis, n, side in zip(volume.axes, volume.shape, sides, strict=True):
        # Whole chunks, if they are not larger, and what coarser volumes have voxels of.
        step = chunks.get(axis, 1) if 1 < chunks.get(axis, 1) <= side else 8 if side >= 16 else 1
        side = n if side == n else max(1, side // step * step)
        start = (n - side) // 2 // step * step
        ranges[axis] = (n, start, start + side)

    def part(other: Volume) -> Volume:
        cuts = []
        for axis, size in zip(other.axes, other.shape, strict=True):
            n, start, stop = ranges.get(axis, (1, 0, 1))
            finer, coarser = max(1, round(size / n)), max(1, round(n / size))
            whole = (start, stop) == (0, n) or size == 1
            cuts.append(
                slice(None)
                if whole
                else slice(start * finer // coarser, -(-stop * finer // coarser))
            )
        return other[tuple(cuts)]

    return part


def _chunk(volume: Volume) -> tuple[int, int, int]:
    return volume.node.source.chunk if isinstance(volume.node, SourceNode) else (1, 1, 1)


def box_of_cells(shape: Sequence[int], cells: Sequence[int], voxels: int) -> tuple[int, ...]:
    """The sides of a box of whole cells, of about so many voxels if a cell has fewer.

    Examples
    --------
    >>> box_of_cells((200, 512, 900), (16, 512, 512), 1 << 24)
    (64, 512, 512)
    """
    sides = list(cells)
    while math.prod(sides) < voxels:
        able = [a for a, n in enumerate(shape) if sides[a] < n]
        if not able:
            break
        axis = min(able, key=lambda a: sides[a])
        sides[axis] = min(shape[axis], 2 * sides[axis])
    return tuple(sides)


def near_cube(shape: Sequence[int], voxels: int) -> tuple[int, ...]:
    """The sides of a box of about so many voxels that fits into a shape, as equal as they can be.

    Examples
    --------
    >>> near_cube((10, 500, 900), 9000)
    (10, 30, 30)
    """
    left, sides = float(voxels), list(shape)
    order = sorted(range(len(shape)), key=lambda a: shape[a])
    for k, axis in enumerate(order):
        side = max(1, round(left ** (1 / (len(order) - k))))
        sides[axis] = min(shape[axis], side)
        left /= max(1, sides[axis])
    return tuple(sides)
