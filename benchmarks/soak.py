"""Random plans, killed at random and resumed, for as long as asked: their outputs must not differ.

Run ``python benchmarks/soak.py --minutes 10``. Each case is derived from its number: volume, chain, chunks
or shards, slabs, workers, and how it runs. The number also selects a process to kill with -9, and after how
many slabs: the calling process, the driver of the pipeline, or a worker. Some cases have a twin, which
resumes the run while it continues, so slabs, merges and the end are done twice and late. Some have a rival,
which computes another result into the same output. In some, slabs are swept twice at once. The final files
are compared with a run in this process in one piece, and with scipy; a rival's files are compared with its
own result. A difference, an error or a run that hangs ends the soak with exit status 1, and prints how to
repeat the case: ``--seed`` with its number and ``--cases 1``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow.parquet
from scipy import ndimage

import beam_volumes as bv
from beam_volumes.runs import Journal, run_folder
from beam_volumes.runs.failure import WorkerDied
from beam_volumes.session import slabs

#: Seconds after which an attempt counts as hanging.
PATIENCE = 300
#: Exit status of an attempt that noticed a kill, that failed, and that another run has replaced.
KILLED, FAILED, REPLACED = 3, 4, 5
#: Messages of an attempt that another run has replaced.
SAYS_REPLACED = ("has taken over from", "since this run was requested", "nothing more of the")
#: Messages of an attempt to resume the output of a rival.
SAYS_REPLACED += ("this run differs in",)

MULTI = ("--direct_running_mode=multi_processing",)
#: How a case may be run: the runner, its options, and who can be killed.
WAYS: list[tuple[str | None, tuple[str, ...], list[str]]] = [
    (None, (), ["caller"]),
    (None, (), ["caller"]),
    ("FnApiRunner", (), ["caller", "driver"]),
    ("FnApiRunner", MULTI, ["caller", "driver", "worker", "worker"]),
]

Step = tuple[str, Callable[[bv.Volume], bv.Volume], Callable[[np.ndarray], np.ndarray] | None]
#: Names, ours, and scipy's where the numbers are the same to the bit.
GREY: list[Step] = [
    ("median 3", lambda v: bv.median_filter(v, 3), lambda a: ndimage.median_filter(a, 3)),
    (
        "maximum 1 3 5",
        lambda v: bv.maximum_filter(v, (1, 3, 5)),
        lambda a: ndimage.maximum_filter(a, (1, 3, 5)),
    ),
    (
        "minimum 2, mirror",
        lambda v: bv.minimum_filter(v, 2, mode="mirror"),
        lambda a: ndimage.minimum_filter(a, 2, mode="mirror"),
    ),
    ("gaussian 1.2", lambda v: bv.gaussian_filter(v, 1.2), None),
    ("sobel", lambda v: bv.sobel(v), None),
    ("less its mean", lambda v: v - bv.mean(v), None),
]
MASK: list[Step] = [
    ("opening", bv.binary_opening, lambda a: ndimage.binary_opening(a)),
    (
        "dilation 2",
        lambda v: bv.binary_dilation(v, iterations=2),
        lambda a: ndimage.binary_dilation(a, iterations=2),
    ),
    ("fill holes", bv.binary_fill_holes, lambda a: ndimage.binary_fill_holes(a)),
    ("remove small", lambda v: bv.remove_small_objects(v, 12), None),
    ("keep largest", lambda v: bv.keep_largest(v, 3), None),
]
ENDS = ["grey", "mask", "labels", "labels and table", "distance"]
DTYPES = ["u1", "u2", "i2", "i4", "f4", "f8"]


@dataclass(frozen=True)
class Case:
    """A case, derived from its number."""

    number: int
    shape: tuple[int, ...]
    dtype: str
    input_chunks: tuple[int, ...]
    grey: tuple[str, ...]
    threshold: str
    mask: tuple[str, ...]
    end: str
    unit: tuple[int, ...]
    shards: bool
    slab: tuple[int, ...]
    workers: int
    way: int
    #: The process that is killed or started, and how many slabs have begun by then.
    events: tuple[tuple[str, int], ...]
    #: Whether slabs are swept twice at once, where that is done in the process that calls.
    twice: bool

    @classmethod
    def of(cls, number: int) -> Case:
        rng = random.Random(number)
        unit = tuple(rng.choice(c) for c in ([1, 2, 4], [4, 8, 12], [4, 8, 12]))
        slab = tuple(u * rng.randint(1, 3) for u in unit)
        shape = tuple(rng.randint(s, 3 * s) for s in slab)
        way = rng.randrange(len(WAYS))
        slabs = int(np.prod([-(-n // s) for n, s in zip(shape, slab, strict=True)]))
        kills = [
            (rng.choice(WAYS[way][2]), rng.randrange(2 * slabs)) for _ in range(rng.randint(0, 3))
        ]
        chosen = random.Random(-number)  # of its own: what a number meant before it still means
        others = [(chosen.choice(["twin", "rival"]), chosen.randrange(2 * slabs))]
        others = others if chosen.random() < 0.5 else []
        return cls(
            number,
            shape,
            rng.choice(DTYPES),
            tuple(rng.randint(1, 2 * s) for s in slab),
            tuple(rng.choice(GREY)[0] for _ in range(rng.randint(0, 2))),
            rng.choice(["number", "otsu", "percentile"]),
            tuple(rng.choice(MASK)[0] for _ in range(rng.randint(0, 2))),
            rng.choice(ENDS),
            unit,
            rng.random() < 0.4,
            slab,
            rng.randint(1, 3),
            way,
            tuple(sorted(kills + others, key=lambda event: event[1])),
            chosen.random() < 0.3,
        )

    def array(self) -> np.ndarray:
        """Blobs, so that components are many and some large."""
        rng = np.random.default_rng(self.number)
        blobs = ndimage.gaussian_filter(rng.normal(size=self.shape), 1.5)
        grey = 128 + 40 * blobs / max(blobs.std(), 1e-9) + rng.integers(-5, 6, self.shape)
        return np.clip(np.rint(grey), 0, 255).astype(self.dtype)

    def volumes(self, grey: bv.Volume) -> dict[str, Any]:
        """What is to be computed, by the file it goes to."""
        found = self.chain(grey, lambda volume, ours, twin: ours(volume))
        if self.end == "labels and table":
            table = bv.regionprops_table(found, grey, ["num_pixels", "bbox", "intensity_sum"])
            return {"out.zarr": found, "table.parquet": table}
        return {"out.zarr": found}

    def by_scipy(self, grey: np.ndarray) -> np.ndarray:
        """The same by scipy; ours in one piece where scipy has nothing that is equal to the bit."""

        def step(array: np.ndarray, ours: Any, twin: Any) -> np.ndarray:
            return (
                twin(array) if twin is not None else np.asarray(in_one_piece(ours(bv.open(array))))
            )

        return self.chain(grey, step)

    def chain(self, voxels: Any, step: Callable[[Any, Any, Any], Any]) -> Any:
        for name in self.grey:
            voxels = step(voxels, *_named(GREY, name))
        if self.end == "grey":
            return voxels
        voxels = step(voxels, *self._threshold())
        for name in self.mask:
            voxels = step(voxels, *_named(MASK, name))
        if self.end.startswith("labels"):
            return step(
                voxels,
                lambda v: bv.label(v, dtype="u4"),
                lambda a: ndimage.label(a)[0].astype("u4"),
            )
        if self.end == "distance":
            return step(voxels, bv.distance_transform_edt, _distance)
        return voxels

    def _threshold(self) -> tuple[Any, Any]:
        if self.threshold == "otsu":
            return lambda v: v > bv.threshold_otsu(v), None
        if self.threshold == "percentile":
            return lambda v: v > bv.percentile(v, 60), None
        return lambda v: v > 140, lambda a: a > 140

    def targets(self, folder: Path) -> list[Any]:
        how: dict[str, Any] = {"chunks": self.unit}
        if self.shards:
            how = {"chunks": tuple(u // 2 or 1 for u in self.unit), "shards": self.unit}
        wanted = self.volumes(bv.open(folder / "in.zarr"))
        return [
            what.to(folder / name, **(how if name.endswith("zarr") else {}))
            for name, what in wanted.items()
        ]


def _named(steps: Sequence[Step], name: str) -> tuple[Any, Any]:
    return next(step[1:] for step in steps if step[0] == name)


def _distance(mask: np.ndarray) -> np.ndarray:
    if mask.all():  # there is no background: scipy's distances are to nowhere, ours infinite
        return np.full(mask.shape, np.inf, np.float32)
    return ndimage.distance_transform_edt(mask).astype(np.float32)


def in_one_piece(*wanted: Any) -> Any:
    return bv.compute(*wanted, runner=None, workers=1, progress=False)


# A case.


def attempt(number: int, folder: Path, first: bool, anew: bool = False) -> None:
    """Begin or resume a run, or replace its output with ``anew``, in a separate process."""
    case = Case.of(number)
    if case.twice:
        slabs.sweep_slab = _twice(slabs.sweep_slab)
    runner, options, _ = WAYS[case.way]
    # A resumed run may have another number of workers, and need not repeat the slabs, unless passes depend
    # on them: distances within tiles need other passes than distances of whole planes.
    workers = case.workers if first else 1 + case.workers % 3
    slab = case.slab if first or case.end == "distance" else None
    try:
        bv.compute(
            *case.targets(folder),
            runner=runner,
            options=list(options) if runner else None,
            workers=workers,
            slab=slab,
            memory="4GiB",
            resume=not anew,
            overwrite=anew,
            progress=False,
        )
    except WorkerDied:
        sys.exit(KILLED)
    except BaseException:
        _failed(folder)


def _failed(folder: Path) -> None:
    text = traceback.format_exc()
    if any(words in text for words in SAYS_REPLACED):
        sys.exit(REPLACED)
    (folder / "error.txt").write_text(text)
    sys.exit(FAILED)


def _twice(slab: Callable[..., Any]) -> Callable[..., Any]:
    """Every other slab by two threads at once; what the one gives that ends last."""

    def twice(session: Any, pass_index: int, index: int, *rest: Any) -> Any:
        if index % 2:
            return slab(session, pass_index, index, *rest)
        with ThreadPoolExecutor(2) as pool:
            both = [pool.submit(slab, session, pass_index, index, *rest) for _ in range(2)]
            return [one.result() for one in both][1]

    return twice


def rival(number: int, folder: Path) -> None:
    """Replace the output by another result, in a separate process."""
    case = Case.of(number)
    other = (
        bv.open(folder / "in.zarr") ^ 1 if case.dtype[0] in "ui" else -bv.open(folder / "in.zarr")
    )
    try:
        bv.compute(
            other.to(folder / "out.zarr", chunks=case.unit),
            runner=None,
            slab=case.slab,
            overwrite=True,
            progress=False,
        )
    except BaseException:
        _failed(folder)


def begun(folder: Path) -> int:
    """How many attempts at slabs there were."""
    return sum(1 for _ in folder.glob("out.zarr.run/runs/*/starts/*/*"))


def kill(who: str, process: Any) -> None:
    """With -9, someone who is there."""
    caller = psutil.Process(process.pid)
    below = [p for p in caller.children(recursive=True) if "python" in p.name()]
    # With the server that drivers are forked from: it takes them along.
    drivers = [p for p in below if "beam_volumes.drive." in " ".join(p.cmdline())]
    workers = [p for p in below if "sdk_worker_main" in " ".join(p.cmdline())]
    some = {"caller": [caller], "driver": drivers, "worker": workers}[who]
    random.choice(some or [caller]).kill()


def soaked(case: Case, folder: Path, context: Any) -> tuple[Counter[str], str | None]:
    """Run a case; return the events and the problems."""
    happened = Counter(cases=1)
    array = case.array()
    in_one_piece(bv.open(array).to(folder / "in.zarr", chunks=case.input_chunks))
    left = list(case.events)
    first, anew, may_be_rivals = True, False, False
    others: dict[str, Any] = {}
    while True:
        process = context.Process(target=attempt, args=(case.number, folder, first, anew))
        process.start()
        deadline = time.monotonic() + PATIENCE
        until = left[0][1] if left else None
        while process.is_alive() and time.monotonic() < deadline:
            if until is not None and begun(folder) >= until:
                who = left[0][0]
                if who in ("twin", "rival"):
                    happened[f"{who}s"] += 1
                    target, more = (attempt, (False,)) if who == "twin" else (rival, ())
                    others[who] = context.Process(target=target, args=(case.number, folder, *more))
                    others[who].start()
                else:
                    with suppress(psutil.NoSuchProcess):
                        kill(who, process)
                        happened[f"{who}s killed"] += 1
                left, until = left[1:], None
                if who in ("twin", "rival") and left:
                    until = left[0][1]
            process.join(0.003 if until is not None else 0.05)
        if process.is_alive():
            for p in [*psutil.Process(process.pid).children(recursive=True), process]:
                p.kill()
            return happened, f"an attempt has not ended after {PATIENCE} s"
        took = None
        if (other := others.pop("rival", None)) is not None:
            if (wrong := ended(other, folder)) is not None:
                return happened, f"the rival {wrong}"
            took = other.exitcode == 0
            if took and (wrong := rivals_difference(case, folder, array)) is not None:
                return happened, wrong
        if process.exitcode == 0 and not took:
            break
        happened["begun anew" if took else "resumed"] += 1
        may_be_replaced = other is not None or others or may_be_rivals
        expected = {0, KILLED, -9} | ({REPLACED} if may_be_replaced else set())
        if process.exitcode not in expected:
            return happened, f"an attempt {ending_of(process, folder)}"
        still_rivals = may_be_rivals and process.exitcode == REPLACED
        # One that is killed early may not have replaced the rival's run yet.
        may_be_rivals = anew
        anew = bool(took) or still_rivals
        first = anew or (first and Journal.open(run_folder(folder / "out.zarr")) is None)
    for who, other in others.items():
        if (wrong := ended(other, folder)) is not None:
            return happened, f"the {who} {wrong}"
    return happened, difference(case, folder, array)


def ended(process: Any, folder: Path) -> str | None:
    """Wait for the twin or the rival of a run; return the problem with its end."""
    process.join(PATIENCE)
    if process.exitcode is None:
        process.kill()
        return f"has not ended after {PATIENCE} s"
    return None if process.exitcode in (0, KILLED, REPLACED) else ending_of(process, folder)


def ending_of(process: Any, folder: Path) -> str:
    error = folder / "error.txt"
    return f"failed: {error.read_text() if error.exists() else f'exit status {process.exitcode}'}"


def rivals_difference(case: Case, folder: Path, array: np.ndarray) -> str | None:
    """Compare a rival's files with its own result."""
    expected = array ^ array.dtype.type(1) if case.dtype[0] in "ui" else -array
    stored = np.asarray(bv.open(folder / "out.zarr"))
    if stored.dtype != expected.dtype or stored.tobytes() != expected.tobytes():
        return f"out.zarr and its rival differ in {np.count_nonzero(stored != expected)} voxels"
    problems = bv.verify(folder / "out.zarr", checksums=True)
    return f"verify finds of the rival: {problems[:3]}" if problems else None


def _without_signs(array: np.ndarray) -> np.ndarray:
    """The array with 0.0 in place of -0.0."""
    return array + array.dtype.type(0) if array.dtype.kind == "f" else array


def difference(case: Case, folder: Path, array: np.ndarray) -> str | None:
    """Compare the files with the expected result, if there is one."""
    expected = case.volumes(bv.open(array))
    results = in_one_piece(*expected.values())
    results = dict(
        zip(expected, results if isinstance(results, tuple) else (results,), strict=True)
    )
    stored = np.asarray(bv.open(folder / "out.zarr"))
    for name, other in (
        ("this process, in one piece", results["out.zarr"]),
        ("scipy", case.by_scipy(array)),
    ):
        # Which of two zeros scipy's extremes return depends on their order.
        one, two = map(_without_signs, (stored, other)) if name == "scipy" else (stored, other)
        if one.dtype != two.dtype or one.tobytes() != two.tobytes():
            count = np.count_nonzero(stored != other)
            return f"out.zarr ({stored.dtype}) and {name} ({other.dtype}) differ in {count} voxels"
    if "table.parquet" in results:
        table = pyarrow.parquet.read_table(folder / "table.parquet")
        if not results["table.parquet"].equals(table):
            return "table.parquet and the same of this process, in one piece, differ"
        if table["num_pixels"].to_pylist() != np.bincount(stored.ravel())[1:].tolist():
            return "table.parquet and numpy.bincount differ"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, help="number of the first case; any by default")
    parser.add_argument("--cases", type=int, help="so many cases at most")
    args = parser.parse_args()
    # What runs a case is forked from a process that has everything imported, and has opened nothing.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["beam_volumes", "beam_volumes.drive.launch"])
    number = random.randrange(10**6) if args.seed is None else args.seed
    print(f"from case {number} on, for {args.minutes:g} minute(s)", flush=True)
    deadline = time.monotonic() + 60 * args.minutes
    happened: Counter[str] = Counter()
    while time.monotonic() < deadline and (args.cases is None or happened["cases"] < args.cases):
        case = Case.of(number)
        folder = Path(tempfile.mkdtemp(prefix="beam-volumes-soak-"))
        began = time.monotonic()
        more, wrong = soaked(case, folder, context)
        happened += more
        what = [*case.grey, *([case.threshold, *case.mask] if case.end != "grey" else []), case.end]
        print(
            f"{number}: {', '.join(what)}; {WAYS[case.way][0]} {' '.join(WAYS[case.way][1])} "
            f"{', '.join(f'{who} after {n}' for who, n in case.events) or 'undisturbed'}"
            f"{', slabs twice' if case.twice else ''}; "
            f"{time.monotonic() - began:.1f} s",
            flush=True,
        )
        if wrong is not None:
            print(
                f"FAILED: {wrong}\n{case}\nits files: {folder}\n"
                f"repeat: python benchmarks/soak.py --seed {number} --cases 1"
            )
            return 1
        shutil.rmtree(folder, ignore_errors=True)
        number += 1
    print(", ".join(f"{n} {what}" for what, n in happened.items()) + ", no difference")
    return 0


if __name__ == "__main__":
    sys.exit(main())
