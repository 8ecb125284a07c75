"""What the step of a merge takes in a fresh process: ``fresh_merge.py FOLDER``, once `make` has filled it."""

import json
import pickle
import sys
from pathlib import Path

import numpy as np

from beam_volumes.across import components as cc
from beam_volumes.across.rounds.components import component_flow
from beam_volumes.base.geometry import Grid
from beam_volumes.ops.labels.surveys.merge_estimate import MergeEstimate
from beam_volumes.plan.cost.machine import peak_memory
from beam_volumes.transforms.rounds import _Step, pieces

GRID = Grid((16 * 3, 512, 1024), (3, 512, 1024))
LABELLING = cc.Labelling(cc.connectivity_structure(1))


def make(folder: Path, measures: tuple[str, ...]) -> int:
    """The messages to the one step of the merge of sixteen slabs of noise; the bound on it."""
    slabs = component_flow(GRID).rounds[0]
    load = MergeEstimate.of(GRID, 1 << 40)
    state = load.zero()
    with open(folder / "messages", "wb") as file:
        for i in range(len(GRID)):
            labeler = cc.SlabLabeler(GRID, GRID.cell(i), LABELLING, measures)
            for z in range(GRID.box(i).start[0], min(GRID.box(i).stop[0] + 1, GRID.shape[0])):
                labeler.feed(plane(z))
            summary = labeler.finish()
            state = load.merge(state, load.of_slab(summary))
            for address, _, value in slabs.step((i,), [summary]):
                if address == "merge-1":
                    pickle.dump(list(pieces(value)), file)
    return int(load.finish(state))


def plane(z: int) -> np.ndarray:
    return np.random.default_rng(z).random((1, *GRID.shape[1:])) < 0.25


def take(folder: Path) -> dict[str, int]:
    """What the step takes, from its pieces to those it sends."""
    step = _Step(component_flow(GRID).rounds[1], ())
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak is what there is now
    before = peak_memory()
    group = []
    with open(folder / "messages", "rb") as file:
        for _ in range(len(GRID)):
            group += pickle.load(file)
    sent = sum(len(item.value[1]) for item in step.process(((0, 0, 0), group)))
    return {"peak": peak_memory() - before, "sent": sent}


if __name__ == "__main__":
    print(json.dumps(take(Path(sys.argv[1]))))
