"""A network over a volume, beside ONNX Runtime on the same patches and threads.

Run ``python benchmarks/predict.py MODEL.onnx``; ``--shape``, ``--patch``, ``--context`` and ``--stride`` say
how, ``--runs`` how often both are timed, in turns. Raw is what a session takes for as many patches as the
plan has, with nothing around it; ours is `compute` to an array. Loading the model and trying it are not
timed.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import onnxruntime

import beam_volumes as bv
from beam_volumes.ops.networks.stages import Predict


def numbers(text):
    found = [int(n) for n in text.split(",")]
    return found * 3 if len(found) == 1 else found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--shape", type=numbers, default=[96, 96, 96])
    parser.add_argument("--patch", type=numbers, default=[96, 96, 96])
    parser.add_argument("--context", type=int, default=24)
    parser.add_argument("--stride", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
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
    print(f"{patches} patches of {args.patch}, of each {stage.patches.efficiency:.0%} kept")
    print(f"raw ONNX Runtime {a:.2f} s, {patches / a:.2f} patches a second")
    print(f"predict          {b:.2f} s, {patches / b:.2f} patches a second: {a / b:.0%} of raw")


if __name__ == "__main__":
    main()
