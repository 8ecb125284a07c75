"""A network over a volume, compared with ONNX Runtime on the same patches and threads.

Run ``python benchmarks/predict.py MODEL.onnx``; ``--shape``, ``--patch``, ``--context`` and ``--stride``
describe the work, and ``--runs`` sets how often both are timed, in turns. Raw is the time of a session for
as many patches as the plan has; ours is `compute` to an array. Loading and trying the model are not timed.

``--peers`` blends the same patches by the published formulas of other packages, in numpy, since the
packages need PyTorch. They are chunkflow's inferencer (bump weights, the last patch of a chunk moved
inwards), MONAI's ``sliding_window_inference`` (Gaussian, the last patch moved inwards) and nnU-Net's
predictor (Gaussian, even steps over the image, sums in half precision). Each predicts the whole, and four
parts of it along y and x, with a margin of half a patch that is removed. The output is the time, the peak
of arrays, and how many voxels of the parts differ from the whole.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import time
import tracemalloc

import numpy as np
import onnxruntime

import beam_volumes as bv
from beam_volumes.ops.networks.stages import Predict


def numbers(text):
    found = [int(n) for n in text.split(",")]
    return found * 3 if len(found) == 1 else found


def bump(n):
    t = (np.arange(n) + 1) / (n + 1)
    return np.exp(-1 / (t * (1 - t)))


def gaussian(n):
    return np.exp(-0.5 * ((np.arange(n) - (n - 1) / 2) / (n / 8)) ** 2)


def inwards(size, patch, overlap):
    """Every step from the beginning; the last patch ends with the image."""
    step = patch - overlap
    starts = list(range(0, max(1, size - patch + step), step))
    return [min(a, max(0, size - patch)) for a in starts]


def evened(size, patch, overlap):
    """As nnU-Net's ``compute_steps_for_sliding_window``: steps of one size, rounded."""
    count = math.ceil((size - patch) / (patch - overlap)) + 1
    step = (size - patch) / max(1, count - 1)
    return [round(step * k) for k in range(count)]


#: By name: where patches begin along an axis, their weights, and the dtype of sums.
PEERS = {
    "chunkflow's formula": (inwards, bump, np.float32),
    "MONAI's formula": (inwards, gaussian, np.float32),
    "nnU-Net's formula": (evened, gaussian, np.float16),
}


def blended(volume, run, patch, starts, profile, dtype):
    """Patches added up by weights, and divided by the sum of weights."""
    z, y, x = (profile(n) for n in patch)
    weights = z[:, None, None] * y[:, None] * x
    weights = np.maximum(weights / weights.max(), 1e-4).astype(dtype)
    sums, total = None, np.zeros(volume.shape, dtype)
    for at in itertools.product(
        *(starts(n, p, p // 2) for n, p in zip(volume.shape, patch, strict=True))
    ):
        box = tuple(slice(a, a + p) for a, p in zip(at, patch, strict=True))
        made = run(volume[box])
        if sums is None:
            sums = np.zeros((len(made), *volume.shape), dtype)
        sums[(slice(None), *box)] += (made * weights).astype(dtype)
        total[box] += weights
    return (sums / total).astype(np.float32)


def in_four(volume, predict, patch):
    """Four parts along y and x, each with half a patch around it."""
    out = None
    for j, k in np.ndindex(2, 2):
        own, wider = [slice(None)], [slice(None)]
        for axis, part in ((1, j), (2, k)):
            n, half = volume.shape[axis], patch[axis] // 2
            a, b = part * n // 2, (part + 1) * n // 2
            own.append(slice(a, b))
            wider.append(slice(max(0, a - half), min(n, b + half)))
        made = predict(volume[tuple(wider)])
        inner = (
            slice(o.start - s.start, o.stop - s.start)
            for o, s in zip(own[1:], wider[1:], strict=True)
        )
        if out is None:
            out = np.zeros((len(made), *volume.shape), np.float32)
        out[(slice(None), *own)] = made[(slice(None), slice(None), *inner)]
    return out


def measured(function):
    """What a function gives, the most bytes of numpy's arrays meanwhile, and the seconds of a second run."""
    tracemalloc.start()
    result = function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    begun = time.perf_counter()
    function()
    return result, time.perf_counter() - begun, peak


def compare(args):
    volume = np.random.default_rng(0).random(args.shape, dtype=np.float32)
    patch = args.patch
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    session = onnxruntime.InferenceSession(args.model, options, providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0].name

    def run(voxels):
        return session.run(None, {given: voxels[None, None]})[0][0]

    def say(name, whole, parts, seconds, peak):
        changed = (whole != parts).any(axis=0)
        difference = np.abs(whole - parts).max()
        print(
            f"{name:20s} {seconds:7.1f} s, peak of arrays {peak / 2**20:6.1f} MiB; cut in four, "
            f"{changed.mean():6.1%} of voxels change, by up to {difference:.2g}",
            flush=True,
        )

    for name, how in PEERS.items():

        def peer(part, how=how):
            return blended(part, run, patch, *how)

        whole, seconds, peak = measured(lambda peer=peer: peer(volume))
        say(name, whole, in_four(volume, peer, patch), seconds, peak)
    ways = {"blend": {"mode": "blend", "stride": args.stride}}
    if all(p > 2 * args.context for p in patch):
        ways["valid"] = {"context": args.context, "stride": args.stride}
    for name, way in ways.items():
        found = bv.predict(volume, args.model, patch=patch, batch=1, **way)
        settings = {"threads": args.threads, "workers": 1, "runner": None}
        whole, seconds, peak = measured(lambda f=found, s=settings: bv.compute(f, **s))
        z, y, x = volume.shape
        parts = bv.compute(found, slab=(z, -(-y // 2), -(-x // 2)), **settings)
        say(f"predict, {name}", whole, parts, seconds, peak)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--shape", type=numbers, default=[96, 96, 96])
    parser.add_argument("--patch", type=numbers, default=[96, 96, 96])
    parser.add_argument("--context", type=int, default=24)
    parser.add_argument("--stride", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--peers", action="store_true")
    args = parser.parse_args()
    if args.peers:
        compare(args)
        return
    volume = np.random.default_rng(0).random(args.shape, dtype=np.float32)
    found = bv.predict(
        volume, args.model, patch=args.patch, context=args.context, stride=args.stride, batch=1
    )
    stage = found.nodes[0].operands[0].stage
    assert isinstance(stage, Predict)
    patches = int(np.prod(stage.patches.counts))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    session = onnxruntime.InferenceSession(args.model, options, providers=["CPUExecutionProvider"])
    given = {session.get_inputs()[0].name: np.zeros((1, 1, *args.patch), np.float32)}
    session.run(None, given)
    raw, ours = [], []
    for _ in range(args.runs):
        begun = time.perf_counter()
        for _ in range(patches):
            session.run(None, given)
        raw.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        bv.compute(found, threads=args.threads, workers=1, runner=None)
        ours.append(time.perf_counter() - begun)
    a, b = statistics.median(raw), statistics.median(ours)
    layout = stage.patches
    kept = np.prod(layout.step) * np.prod(layout.scale) / np.prod(layout.patch)
    print(f"{patches} patches of {args.patch}, of each {kept:.0%} kept")
    print(f"raw ONNX Runtime {a:.2f} s, {patches / a:.2f} patches a second")
    print(f"predict          {b:.2f} s, {patches / b:.2f} patches a second: {a / b:.0%} of raw")


if __name__ == "__main__":
    main()
