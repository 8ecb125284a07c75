"""What stages, reductions, surveys and completions allocate against what they declare, for all operations."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.tiers import thorough

#: Bytes of Python objects, such as views of rings, that are not declared.
OBJECTS = 12 << 10
#: Bytes of the buffers in which numpy casts operands of a ufunc.
CASTING = 192 << 10
#: Objects of a reduction: integers of any size, and numpy's buffers.
STATES = 64 << 10
#: Voxels of each run: blobs of a dtype, and noise and labels for which plans reserve memory.
RUNS = ("u1", "f4", "u4", "labels")
#: Declarations for which an error of this size cannot be seen, and the reason.
HIDDEN = {
    "ops.labels.surveys.component_surveys._bits_bytes": "the scratch of a kernel, which receives it",
    "ops.labels.surveys.saddle_survey.SaddleSurvey.working_bytes": "most is for pairs of smaller basins",
    "ops.labels.surveys.table_surveys.AdjacencySurvey.fold_bytes": "tables of pairs grow by steps of four",
    "ops.measure.percentiles_along.RadixCountsAlong.cell_bytes": "most is for the number, after the sweep",
    "ops.morphology.surveys._plane_bytes": "planes are compressed, if voxels allow it",
}


def allowance(kind, name):
    """Bytes that are not declared, whatever the shape of a slab."""
    if kind in ("answer", "reserve", "slice", "stage, arrays"):
        return 0
    if name in ("Elementwise", "Fused", "Within"):
        return CASTING
    return STATES if kind == "reduction" else OBJECTS


def is_excess(kind, name, declared, allocated):
    # What a chain holds is counted; copies of rows, while several surveys join theirs, are not.
    joining = declared // 64 if (kind, name) == ("survey", "ChainSurvey") else 0
    return allocated - declared > allowance(kind, name) + joining


def measured(run):
    """The measurements of a fresh process: kind, class and name of each, declared and allocated bytes."""
    command = [sys.executable, "-m", "tests.limits.fresh_scratch", run]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@thorough
def test_operations_allocate_what_they_declare():
    """No more, and no declaration can be eight times too small, however large others of its slab are."""
    excess, seen, lost = [], set(), {}
    with ThreadPoolExecutor(2) as pool:
        found = [item for some in pool.map(measured, RUNS) for item in some]
    for (kind, name, of, *planted), (declared, allocated, *missing) in found:
        more = is_excess(kind, name, declared, allocated)
        if planted and more:
            seen.update(planted)
        elif planted and missing[0] > 2 * allowance(kind, name):
            lost[planted[0]] = f"{missing[0]:,} bytes of {kind} {name} ({of})"
        elif more and not planted:
            excess.append(
                f"{kind} {name} ({of}): {allocated:,} bytes allocated, {declared:,} declared"
            )
    assert not excess, "\n".join(excess)
    unseen = {name: where for name, where in lost.items() if name not in seen}
    assert unseen.keys() == HIDDEN.keys(), unseen
    assert len(seen) > 50
