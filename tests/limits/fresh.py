"""Run a chain in a fresh process and print its memory as JSON: predicted and measured bytes."""

import json
import sys

import numpy as np
import psutil

import beam_volumes as bv
from beam_volumes.plan import budget
from beam_volumes.session.session import peak_memory


def chain(volume):
    """Five neighbourhood operations, two of them in float32."""
    volume = bv.median_filter(volume, 3)
    volume = bv.gaussian_filter(volume, 1)
    volume = bv.uniform_filter(volume, (5, 3, 3), dtype="u1")
    volume = bv.maximum_filter(volume, (3, 7, 7))
    return bv.minimum_filter(volume, 5)


def main(source: str, out: str, ours: str, how: str) -> None:
    options = json.loads(how)
    run = {key: options.pop(key) for key in ("workers", "threads") if key in options}
    # Everything is imported and compiled once on a small volume of the same dtype.
    small = bv.open(np.zeros((8, 32, 32), bv.open(source).dtype))
    bv.compute(chain(small), runner=None, progress=False)
    base = psutil.Process().memory_info().rss
    target = chain(bv.open(source)).to(out, **options)
    # The budget is for our part; the base comes on top.
    memory = int(ours) + bv.plan(target, base=budget.BASE_ALONE, **run).base
    plan = bv.plan(target, memory=memory, base=budget.BASE_ALONE, **run)
    bv.compute(target, memory=memory, runner=None, progress=False, **run)
    print(
        json.dumps(
            {
                "budget": plan.memory,
                "predicted": plan.predicted_memory,
                "predicted_ours": plan.workers * plan.slab_memory,
                "peak": peak_memory(),
                "base": base,
                "predicted_base": plan.base,
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
