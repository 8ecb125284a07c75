"""A run slow enough to be killed: ``slow_run.py INPUT OUTPUT RUNNER MODE RESUME``."""

import sys
import time

import beam_volumes as bv


def slowly(block):
    time.sleep(0.05)
    return block


def target(source: str, out: str):
    """Two passes: Otsu of a smoothed volume, then an opening of what lies above it."""
    smooth = bv.map_overlap(
        slowly, bv.gaussian_filter(bv.open(source), 1), depth=1, name="slowly", version=1
    )
    mask = bv.binary_opening(smooth > bv.threshold_otsu(smooth))
    return mask.to(out, chunks=(4, 16, 16), codec=None)


if __name__ == "__main__":
    source, out, runner, mode, resume = sys.argv[1:]
    bv.compute(
        target(source, out),
        runner=None if runner == "none" else runner,
        options=[f"--direct_running_mode={mode}"] if runner != "none" else None,
        workers=2,
        threads=1,
        slab=(4, 32, 32),
        resume=resume == "resume",
        progress=False,
    )
    print("finished")
