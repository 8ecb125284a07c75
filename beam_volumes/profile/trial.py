"""Time a recipe on a part of its inputs, with temporary outputs next to the real ones."""

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

#: Number of voxels for compiling kernels, and for estimating how many voxels take `SECONDS`.
WARM, FIRST = 1 << 18, 1 << 21
#: Intended duration of a run of the crop.
SECONDS = 4.0
#: With fewer CPU seconds, there is no advice.
LITTLE = 0.2

Crop = Callable[[Volume], Volume]


@dataclass(frozen=True)
class Profile:
    """The result of `profile_recipe`."""

    #: The measurement of the crop.
    measured: Measured
    #: Shapes of the computed part of the largest input, and of that input.
    crop: tuple[int, ...]
    shape: tuple[int, ...]
    #: Kernels that were compiled first; times exclude compilation.
    kernels: tuple[Compiled, ...]
    #: The plan for the complete inputs.
    plan: Plan
    #: The prediction for this plan, or for the crop's plan if the passes differ.
    whole: Measured
    #: Suggestions, one sentence each.
    advice: tuple[str, ...]


def profile_recipe(recipe: Recipe, crop: str | None, options: RunOptions) -> Profile:
    """Time a recipe in this process with ``options``, then its own, without leaving outputs.

    ``crop`` is a box ``z0:z1,y0:y1,x0:x1`` of every input, by default one that takes a few seconds.
    """
    options = replace(options, base=None).or_else(**recipe.options)
    inputs, targets = _built(recipe)
    whole = make_plan(targets, options)
    largest = max(inputs, key=lambda v: v.size)

    def chosen(v: Volume) -> Volume:  # with all channels
        return v if crop is None else catalogue.crop(v, "," * len(v.space.leading) + crop)

    inside = chosen(largest)
    size = math.prod(_spatial(inside)[1])

    def plan_of(voxels: int) -> AbstractContextManager[Plan]:
        part = middle(inside, voxels)
        return _planned(recipe, lambda v: part(chosen(v)), targets, options)

    with compilations() as kernels:
        with plan_of(WARM) as plan:
            timed(plan)
        voxels = size
        if crop is None and size > FIRST:
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
        advice = [f"{measured.cpu:.2f} s of CPU are too short for suggestions{larger}"]
    shape = middle(inside, voxels)(inside).shape
    return Profile(measured, shape, largest.shape, (*kernels,), whole, expected, (*advice,))


def _built(recipe: Recipe) -> tuple[list[Volume], tuple[Wanted, ...]]:
    """Return the targets of a recipe and its inputs, which must be single time points."""
    inputs: list[Volume] = []

    def noted(volume: Volume) -> Volume:
        if "t" in volume.space.leading:
            raise ValueError(
                f"{volume!r}: bench needs one time point; choose it in the recipe's input, e.g. "
                "index: {t: 0}"
            )
        inputs.append(volume)
        return volume

    return inputs, build(recipe, noted).targets


def _expected(
    measured: Measured, whole: Plan, targets: Sequence[Wanted], options: RunOptions
) -> tuple[Measured, list[str]]:
    """Predict the whole run from the measurement of a crop, and suggest changes."""
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
    """Plan a cropped recipe with temporary outputs, which are removed afterwards."""
    shapes: list[str] = []

    def cropped(volume: Volume) -> Volume:
        part = crop(volume)
        shapes.append(" x ".join(map(str, part.shape)))
        return part

    try:
        targets = build(recipe, cropped).targets
    except RecipeError as error:  # the complete inputs were valid
        raise ValueError(
            f"{error} (for a crop of {shapes[0]}; choose another with --crop Z0:Z1,Y0:Y1,X0:X1)"
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
    """Move a target to a temporary place, with the storage options of the real one."""
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
    if shard is not None:  # whole chunks that cover the crop or less
        z, y, x = (
            c * min(s // c, -(-n // c)) for s, c, n in zip(shard, chunk, sink.shape, strict=True)
        )
        shard = (z, y, x)
    return bv.Target(target.volume, replace(sink, kvstore=where, chunk=chunk, shard=shard))


def trial_place(output: Spec, run: str) -> Spec:
    """Return a temporary folder on the same disk, or in the same bucket, as an output.

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
    """Return a function that crops a volume to about ``voxels`` in its middle, and others alike.

    Channels are kept.

    >>> whole, half = bv.open(np.zeros((64, 200, 300), "u1")), bv.open(np.zeros((64, 100, 150), "u1"))
    >>> part = middle(whole, 32 * 64 * 64)
    >>> part(whole).shape, part(half).shape
    ((48, 48, 48), (48, 24, 24))
    """
    axes, shape = _spatial(volume)
    chunks = dict(zip("zyx", _chunk(volume), strict=True))
    cells = [min(n, chunks.get(axis, 1)) for axis, n in zip(axes, shape, strict=True)]
    sides = box_of_cells(shape, cells, voxels)
    if math.prod(sides) > 4 * voxels or any(
        s < min(n, 16) for s, n in zip(sides, shape, strict=True)
    ):
        sides = near_cube(shape, voxels)
    ranges = {}
    for axis, n, side in zip(axes, shape, sides, strict=True):
        # Align to chunks that fit, or else to 8 voxels for coarser volumes.
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


def _spatial(volume: Volume) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The axes of a volume without channels, and its shape along them."""
    leading = len(volume.space.leading)
    return volume.axes[leading:], volume.shape[leading:]


def _chunk(volume: Volume) -> tuple[int, int, int]:
    node = volume.nodes[0]
    return node.source.chunk if isinstance(node, SourceNode) else (1, 1, 1)


def box_of_cells(shape: Sequence[int], cells: Sequence[int], voxels: int) -> tuple[int, ...]:
    """Return the sides of a box of whole cells with about ``voxels``, at least one cell.

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
    """Return the sides of a nearly cubic box of about ``voxels`` that fits into a shape.

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
