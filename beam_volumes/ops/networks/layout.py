"""The layout of a network's patches over a volume, from the user's parameters and the network's results."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from beam_volumes.base.geometry import Triple
from beam_volumes.ops.networks.models import Model
from beam_volumes.ops.networks.patches import Patches
from beam_volumes.ops.networks.trial import Trial, tried
from beam_volumes.ops.networks.turns import Turns
from beam_volumes.ops.parameters.building import triple

#: Default voxels of a patch, and of a batch.
_PATCH_VOXELS, _BATCH_VOXELS = 1 << 21, 1 << 18
#: Voxels of alternative patches for a plan, if the size of patches does not change results.
_OTHERS = tuple(1 << bits for bits in (25, 24, 23, 22, 20, 19, 18, 17, 16))
#: Voxels by which a patch is extended, so coarser results of it grow, too.
_MORE = 48
#: Default maximum of patches per batch.
_MAXIMUM = 16


@dataclass(frozen=True)
class Asked:
    """The user's parameters for patches, along z, y and x; None for the default."""

    mode: str
    patch: Triple | None
    context: tuple[Triple, Triple] | None
    stride: Triple | None
    overlap: Triple | None
    blend: str
    slices: int
    batch: int | None
    edges: tuple[str, str, str]
    cval: float
    turns: Turns
    flat: bool
    fixed: tuple[int | None, ...]
    #: Whether the result depends on the size of patches, for any network.
    bound: bool


@dataclass(frozen=True)
class Layout:
    """The selected layout, and the results of the trial."""

    model: Model
    patches: Patches
    batch: int
    trial: Trial
    #: Alternative patches, and their number per batch, with the same voxels as result.
    others: tuple[tuple[Patches, int], ...] = ()


def laid_out(model: Model, channels: int, shape: Triple, asked: Asked) -> Layout:
    """Lay out patches over a volume; ValueError if the network fails or parameters do not fit."""
    if asked.context is not None:
        asked = replace(asked, context=_further(asked.context, asked))
    patch = _patch(shape, asked)
    batch = asked.batch or _batch(patch)
    trial = _tried(model, batch, channels, patch, asked)
    asked.turns.check(trial.channels)
    scale = _scale(model, channels, patch, trial, asked)
    rest = triple([p - m * s for p, m, s in zip(patch, trial.shape, scale, strict=True)])
    stride = triple([math.lcm(s, t) for s, t in zip(scale, asked.stride or (1, 1, 1), strict=True)])
    known = asked.context is not None or any(rest[asked.flat :])
    valid = asked.mode == "valid" or (asked.mode == "auto" and known)
    if asked.turns:
        _check_turns(patch, rest, scale, asked, valid, model)
    lay = _valid if valid else _blended
    patches = lay(model, shape, patch, scale, stride, rest, trial, asked)
    others = _others(patches, batch, stride, asked) if trial.repeatable else ()
    return Layout(model, patches, batch, trial, others)


def _further(context: tuple[Triple, Triple], asked: Asked) -> tuple[Triple, Triple]:
    """Add the margin that turns discard to a context, so patches start at multiples of the stride."""

    def further(own: int, a: int) -> int:
        margin, stride = asked.turns.margin[a], asked.stride[a] if asked.stride else 1
        # A reach of 23 becomes 24 for a stride of 4, but a reach of 24 must become 28.
        return own + (margin if (own + margin) % stride == 0 else -(-margin // stride) * stride)

    before, after = (triple([further(n, a) for a, n in enumerate(side)]) for side in context)
    return before, after


def _tried(model: Model, batch: int, channels: int, patch: Triple, asked: Asked) -> Trial:
    """Try a network on a patch, and subtract the margins that turns discard."""
    trial = tried(model, "predict", batch, channels, patch)
    left = triple([n - 2 * m for n, m in zip(trial.shape, asked.turns.margin, strict=True)])
    if min(left) < 1:
        raise ValueError(
            f"predict: patch={patch}: the result of {model.name} has {trial.shape} voxels, and the longest "
            f"offset discards {asked.turns.margin} at each face; use a larger patch"
        )
    return replace(trial, shape=left)


def _batch(patch: Triple) -> int:
    return max(1, min(_MAXIMUM, _BATCH_VOXELS // math.prod(patch)))


def _others(
    patches: Patches, batch: int, stride: Triple, asked: Asked
) -> tuple[tuple[Patches, int], ...]:
    """Alternative patches if the user has not set them and voxels do not change; else smaller batches."""
    found: list[tuple[Patches, int]] = []
    if asked.patch is None and not patches.blended and not asked.bound:
        # Each patch discards this much.
        around = triple(
            [p - m * s for p, m, s in zip(patches.patch, patches.made, patches.scale, strict=True)]
        )
        for voxels in _OTHERS:
            own = _kept(patches, around, stride, asked, voxels)
            if min(own) < 1:
                continue
            patch = triple([a + o for a, o in zip(around, own, strict=True)])
            made = triple([o // s for o, s in zip(own, patches.scale, strict=True)])
            other = replace(patches, patch=patch, made=made, step=made)
            if other not in (patches, *(o for o, _ in found)):
                found.append((other, asked.batch or _batch(patch)))
    if not found and asked.batch is None:
        found = [(patches, 1 << k) for k in reversed(range(batch.bit_length())) if 1 << k < batch]
    return tuple(found)


def _kept(patches: Patches, around: Triple, stride: Triple, asked: Asked, voxels: int) -> list[int]:
    """The input extent of a patch without the context, for patches of up to a number of voxels.

    The shortest axes are filled first, so that as few patches as possible share the longest ones.
    """
    fixed = [a for a in range(3) if asked.fixed[a] or (asked.flat and a == 0)]
    kept = [p - n for p, n in zip(patches.patch, around, strict=True)]
    left = voxels / math.prod(patches.patch[a] for a in fixed)
    free = sorted({0, 1, 2}.difference(fixed), key=lambda a: patches.of[a] + around[a])
    for k, a in enumerate(free):
        room = math.floor(left ** (1 / (len(free) - k)) + 1e-9)
        kept[a] = _cell(patches.of[a], stride[a], room - around[a])
        left /= kept[a] + around[a]
    for a in (swapped := [a for a in asked.turns.swapped if a in free]):
        kept[a] = max(kept[b] for b in swapped)
    return [n // s * s for n, s in zip(kept, stride, strict=True)]


def _cell(extent: int, stride: int, room: int) -> int:
    """The extent of equal cells up to ``room``, in multiples of the stride, as few as possible."""
    cell = max(stride, room)
    cell = -(-extent // max(1, -(-extent // cell))) or 1
    return -(-cell // stride) * stride


def _patch(shape: Triple, asked: Asked) -> Triple:
    """The input size of the network by default: up to `_PATCH_VOXELS`."""
    if asked.patch is not None:
        return (asked.slices if asked.flat else asked.patch[0], *asked.patch[1:])
    stride = asked.stride or (1, 1, 1)
    before, after = asked.context or ((0, 0, 0), (0, 0, 0))
    sides = [a for a in range(3) if shape[a] > 1 and not (asked.flat and a == 0)]
    room = math.floor((_PATCH_VOXELS / asked.slices) ** (1 / max(1, len(sides))) + 1e-9)
    patch = []
    for a in range(3):
        fixed, around = asked.fixed[a], before[a] + after[a]
        own = _cell(shape[a], stride[a], room - around) + around
        patch.append(asked.slices if asked.flat and a == 0 else fixed or own)
    swapped = [a for a in asked.turns.swapped if not asked.fixed[a]]
    for a in swapped:
        patch[a] = max(patch[b] for b in swapped)
    return triple(patch)


def _scale(model: Model, channels: int, patch: Triple, trial: Trial, asked: Asked) -> Triple:
    """Voxels per voxel of the result, measured with a longer patch if ambiguous."""
    scale = [1, 1, 1]
    for a in range(asked.flat, 3):
        p, m = patch[a], trial.shape[a]
        if p == m or (m > 1 and 2 * m > p + 1):
            continue
        more = _MORE * (asked.stride or (1, 1, 1))[a]
        longer = triple([n + more * (b == a) for b, n in enumerate(patch)])
        try:
            added = _tried(model, 1, channels, longer, asked).shape[a] - m
        except ValueError:
            added = 0  # the size is fixed: use the result's size
        scale[a] = more // added if added > 0 else max(1, p // m)
    return triple(scale)


def _valid(
    model: Model, shape: Triple, patch: Triple, scale: Triple, stride: Triple, rest: Triple,
    trial: Trial, asked: Asked,
) -> Patches:  # fmt: skip
    """Patches for mode "valid": each voxel comes from one patch, and the context is discarded."""
    half = triple([r // 2 for r in rest])
    if asked.context is not None:
        before, after = asked.context
        if asked.flat:
            before, after = (half[0], *before[1:]), (rest[0] - half[0], *after[1:])
    elif any(rest[asked.flat :]):
        before, after = half, triple([r - h for r, h in zip(rest, half, strict=True)])
    else:
        raise ValueError(
            f'predict: mode="valid" needs the context of {model.name}: give context=, or see probe_model'
        )
    cell, skipped = [], []
    for a, axis in enumerate("zyx"):
        own = patch[a] - before[a] - after[a]
        own -= own % stride[a]
        if own < 1:
            raise ValueError(
                f"predict: a patch of {patch[a]} along {axis} is too small for a context of {before[a]} "
                f"and {after[a]} and a stride of {stride[a]}; use "
                f"patch={before[a] + after[a] + stride[a]} or more"
            )
        skip = before[a] - half[a]
        if skip < 0 or skip % scale[a] or skip // scale[a] + own // scale[a] > trial.shape[a]:
            raise ValueError(
                f"predict: {model.name} crops {rest[a]} voxels of a patch along {axis}, and the context is "
                f"{before[a]} and {after[a]}: it must be at least as large, and differ by multiples of "
                f"{scale[a]}"
            )
        cell.append(own // scale[a])
        skipped.append(skip // scale[a])
    made = triple(cell)
    return Patches(
        shape, patch, scale, before, made, made, triple(skipped), asked.edges, asked.cval
    )


def _blended(
    model: Model, shape: Triple, patch: Triple, scale: Triple, stride: Triple, rest: Triple,
    trial: Trial, asked: Asked,
) -> Patches:  # fmt: skip
    """Patches for mode "blend": they overlap, and are added with weights."""
    half = triple([r // 2 for r in rest])
    made = trial.shape
    step = []
    for a, axis in enumerate("zyx"):
        size = made[a] * scale[a]
        if asked.overlap is not None and (a or not asked.flat):
            shared = asked.overlap[a]
        else:
            shared = size // 2 if size > 1 else 0
            shared += (size - shared) % stride[a]
        if not 0 <= shared < size or (size - shared) % stride[a]:
            raise ValueError(
                f"predict: overlap={shared} along {axis}: results of {model.name} have {size} voxels per "
                f"patch; use a smaller overlap, with patches at multiples of {stride[a]}"
            )
        step.append((size - shared) // scale[a])
    return Patches(
        shape, patch, scale, half, made, triple(step), (0, 0, 0), asked.edges, asked.cval, True
    )


def _check_turns(
    patch: Triple, rest: Triple, scale: Triple, asked: Asked, valid: bool, model: Model
) -> None:
    """Refuse patches that the network does not support when turned."""
    before, after = asked.context or ((0, 0, 0), (0, 0, 0))
    uneven = any(r % 2 for r in rest) or (valid and before != after)
    swapped = asked.turns.swapped
    if asked.flat and 0 in swapped:
        raise ValueError(
            f"predict: augment={asked.turns.name!r} turns z, too, but {model.name} accepts slices; use "
            'augment="d4"'
        )
    alike = {(patch[a], rest[a], scale[a], before[a]) for a in swapped}
    if uneven or len(alike) > 1:
        axes = " and ".join("zyx"[a] for a in swapped)
        raise ValueError(
            f"predict: augment={asked.turns.name!r} needs the same context before and after"
            + (f", and patches with equal extents along {axes}" if swapped else "")
            + f"; the patch is {patch}, and {model.name} crops {rest}"
        )
    if any(asked.turns.margin) and max(scale) > 1:
        raise ValueError(
            f"predict: offsets= with augment= need a network with one voxel per voxel; {model.name} returns "
            f"one for {' x '.join(map(str, scale))}"
        )
