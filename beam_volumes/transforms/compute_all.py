"""`ComputeAll`: compute many volumes, each an element, as a whole in one worker."""

from __future__ import annotations

import pickle
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import apache_beam as beam
from apache_beam.transforms.display import DisplayDataItem
from apache_beam.typehints import Dict, Tuple
from apache_beam.typehints.decorators import TypeCheckError

from beam_volumes.base.text import format_bytes
from beam_volumes.graph.nodes import evaluate
from beam_volumes.graph.options import options as settings
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.table import Table, TableTarget
from beam_volumes.graph.volume import Target, Volume
from beam_volumes.plan import accelerators
from beam_volumes.plan.plan import Plan
from beam_volumes.plan.planner import make_plan
from beam_volumes.plan.run_options import RunOptions, documented
from beam_volumes.runs import Journal
from beam_volumes.runs.journal import ENDED
from beam_volumes.runs.manifest import Manifest
from beam_volumes.session.begin import begin
from beam_volumes.session.identity import Request, journal_place
from beam_volumes.session.local import run_local
from beam_volumes.session.resume import differences
from beam_volumes.session.session import Session
from beam_volumes.storage.places.outside import trusted, trusting
from beam_volumes.storage.places.ownership import UNFINISHED
from beam_volumes.storage.places.place import Place
from beam_volumes.sweep.stage import digest, repeating
from beam_volumes.transforms import pipeline_metrics
from beam_volumes.transforms.failures import Excepting, Failed
from beam_volumes.transforms.machines import hires, machine_hints
from beam_volumes.transforms.slab import MAX_BYTES, KeyedSlab, Slab

_CONTINUED = RunOptions(resume=True)

#: The targets of an element, by names of the caller.
Targets = Mapping[str, Target | TableTarget | Table | Scalar]


@documented
class ComputeAll(Excepting, beam.PTransform):
    """Compute every element of a PCollection, such as the path of a volume.

    Use it for many volumes that can each be computed on one machine. A worker computes a whole
    element, slab by slab, within its memory. The result is a PCollection of ``(element, results)``,
    where the results are a dict with the names of the targets as keys. The values are the full
    names of outputs (``volume.to(path)`` and ``table.to(path)``), the numbers of lazy numbers, and
    a `pyarrow.Table` for each table without a path.

    Parameters
    ----------
    function : callable
        A function that maps an element to a dict of named targets: ``volume.to(path)``,
        ``table.to(path)``, tables and lazy numbers. The worker calls this function.
    %(process_memory)s
    workers : int, default: 1
        Number of elements that one process computes at a time. The elements share the memory.
    threads : int, optional
        Number of threads that compute one element; by default the machine's cores.
    run : str, optional
        A name for the run instead of a random one. A pipeline with the same run name as an earlier
        one continues the unfinished elements of that run, and skips finished elements.
    resume : bool, default: False
        Whether to continue elements if an earlier run with the same targets has started to write
        their outputs.
    journal : bool or None, default: True
        Whether to keep a journal, about ten small objects, next to the first output of each
        element. Use None for many small volumes; without a journal, a failed element is computed
        again from the start.
    %(overwrite)s
    resource_hints : bool, optional
        Whether to request ``memory``, if set, from the runner with the resource hint ``min_ram``.
        By default, memory is only requested on Dataflow, which provisions machines accordingly.
    accelerator : str, optional
        The accelerator that machines need, as a Beam resource hint such as
        ``"type:nvidia-tesla-t4;count:1;install-nvidia-driver"``.
    %(max_retries)s

    Raises
    ------
    ValueError
        If a parameter is out of range.
    TypeError
        If ``function`` is not callable, or ``run`` is not a string.
    RuntimeError
        In a worker, if an element fails; the message contains the element.

    See Also
    --------
    Compute : computes one plan with all workers.

    Notes
    -----
    With `with_exception_handling`, failed elements are returned separately and not retried.

    An element is retried if a worker dies or a different part of the pipeline fails. Slabs that
    have a record in the journal next to the element's first output are not computed again. Without
    a journal, an element is skipped if all its results are complete outputs.

    Examples
    --------
    >>> import apache_beam as beam
    >>> def measures(line):
    ...     volume = bv.open(np.array([line], "u1"))  # usually opened from a path
    ...     return {"mean": bv.mean(volume), "cells": bv.label(volume).num_labels}
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     _ = p | beam.Create([[3, 0, 1]]) | bv.ComputeAll(measures) | beam.MapTuple(print)
    [3, 0, 1] {'mean': np.float64(1.3333333333333333), 'cells': 2}
    """

    def __init__(
        self,
        function: Callable[[Any], Targets],
        *,
        memory: int | float | str | None = None,
        workers: int = 1,
        threads: int | None = None,
        run: str | None = None,
        resume: bool = False,
        journal: bool | None = True,
        overwrite: bool = False,
        resource_hints: bool | None = None,
        accelerator: str | None = None,
        max_retries: int = 1,
    ):
        super().__init__()
        if not callable(function):
            raise TypeError(
                f"ComputeAll: {function!r} is not a function from an element to targets"
            )
        if resume and overwrite:
            raise ValueError(
                "ComputeAll: resume=True continues elements and overwrite=True replaces them; "
                "choose one"
            )
        if run is not None and not isinstance(run, str):
            raise TypeError(f"ComputeAll: run={run!r} is not a name; give a string")
        if journal not in (True, False, None):
            raise TypeError(
                f"ComputeAll: journal={journal!r}: an element's journal is next to its first "
                "output; give True, or None for no journal"
            )
        if resume and not journal:
            raise ValueError(
                "ComputeAll: resume=True continues elements by their journals, and "
                f"journal={journal} keeps none: leave one of them out"
            )
        options = RunOptions.of({**locals(), "journal": None}, journal=None if journal else False)
        self.resource_hints = resource_hints
        self.computing = _Each(
            function,
            options,
            digest(run or uuid.uuid4().hex),
            uuid.uuid4().hex,
            settings.durable,
            frozenset(trusted),
        )

    def type_check_inputs(self, elements: beam.PCollection) -> None:
        super().type_check_inputs(elements)
        if elements.element_type in (KeyedSlab, Slab):
            raise TypeCheckError(
                f"{self.label}: ComputeAll accepts elements that stand for whole volumes, such as "
                "paths, and was given slabs: write them with WriteSlabs, which gives the path"
            )

    def expand(self, elements: beam.PCollection) -> Any:
        # Distribute elements that come from a single element over the workers.
        spread = elements | "Spread" >> beam.Reshuffle()
        raises = self.threshold is None
        each = self.computing.or_named if raises else self.computing
        options, ask = self.computing.options, self.resource_hints
        if ask is None:
            ask = hires(elements.pipeline.runner)
        memory = accelerators.of_process(options.memory_bytes) if ask and options.memory else None
        hints = machine_hints(memory, options.accelerator)
        kind = Tuple[elements.element_type or Any, Dict[str, Any]]
        return self.tried(spread, "Each", each, kind, _where, hints)

    def display_data(self) -> dict[str, Any]:
        options, function = self.computing.options, self.computing.function
        return {
            "function": DisplayDataItem(
                getattr(function, "__name__", type(function).__name__), label="Computes"
            ),
            "memory": DisplayDataItem(str(options.memory), label="Memory of a process"),
            "workers": DisplayDataItem(options.slabs_in_flight, label="Elements at a time"),
        }


def _where(element: Any) -> tuple[str, str, str]:
    return element if isinstance(element, str) else _short(element), "", "compute"


class _Each:
    """Computes an element."""

    def __init__(
        self,
        function: Callable[[Any], Targets],
        options: RunOptions,
        run: str,
        pipeline: str,
        durable: bool,
        trusted: frozenset[str],
    ):
        self.function, self.options = function, options
        self.run, self.pipeline = run, pipeline
        self.durable, self.trusted = durable, trusted

    def __call__(self, element: Any) -> tuple[Any, dict[str, Any]]:
        with _admitted(self.options.slabs_in_flight), trusting(self.trusted):
            return element, self.computed(element)

    def or_named(self, element: Any) -> tuple[Any, dict[str, Any]]:
        """Compute an element; errors have its name."""
        try:
            return self(element)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            raise RuntimeError(f"ComputeAll of {_short(element)}: {text}") from error

    def computed(self, element: Any) -> dict[str, Any]:
        # Attempts of an element in the same pipeline share the identity of functions without a
        # name.
        with repeating(self.pipeline, beam.coders.FastPrimitivesCoder().encode(element)):
            targets = _checked(self.function(element))
        planned = make_plan(list(targets.values()), self.options)
        for sink in planned.sinks:
            if not sink.portable:
                raise ValueError(f"{sink.name} is in the memory of a worker; give a path")
        # Equal elements share a run; different voxels for the same output are two runs.
        run_id = f"{self.run}-{digest(sorted(planned.fingerprint.items()))}"
        self._check_others(planned, run_id)
        begun = self._begun(planned, run_id)
        if begun is not None and (results := _finished(planned, begun, targets)) is not None:
            return results
        if self.options.journal is False and _is_complete(planned, run_id, targets):
            return {name: target.sink.name for name, target in targets.items()}
        # An element has one slab in flight; other elements of this process have the remaining
        # shares.
        session = replace(
            self._session(replace(planned, workers=1), run_id, begun),
            sweeps=self.options.slabs_in_flight,
            launch=self.pipeline,
            durable=self.durable,
        )
        try:
            known = run_local(session, count=pipeline_metrics.swept)
            results = {
                name: _result(target, result, known)
                for (name, target), result in zip(
                    targets.items(), session.plan.results, strict=True
                )
            }
            _check_size(results)
            if session.journal is not None:
                kept = {_key(targets[name]): result for name, result in results.items()}
                session.journal.write_scalars(len(session.plan.passes), kept)
            session.end()
        finally:
            if session.journal is None:
                session.remove_scratch()
        return results

    def _check_others(self, planned: Plan, run_id: str) -> None:
        """Refuse outputs that belong to another element of this run."""
        for sink in planned.outputs:
            other = sink.begun_run()
            if other is not None and not _is(run_id, other) and other.startswith(f"{self.run}-"):
                raise ValueError(
                    f"the output {sink.name} belongs to another element of this run; give each "
                    "element its own outputs, or another run= if it was begun with other steps or "
                    "with a function that has no name= and version="
                )

    def _begun(self, planned: Plan, run_id: str) -> Manifest | None:
        """Return the run to continue for an element, if there is one."""
        place = journal_place(planned, self.options.journal)
        begun = None if place is None else Journal.load(place)
        if begun is None or not (self.options.resume or _is(run_id, begun.run_id)):
            return None
        return begun

    def _session(self, planned: Plan, run_id: str, begun: Manifest | None) -> Session:
        # Another attempt continues with the same plan on any machine.
        request = Request(beam=False)
        anew = replace(self.options, resume=False, run_id=run_id)
        if self.options.journal is False:
            # What another attempt has written of it is written again, with the same voxels.
            own = any(_is(run_id, sink.begun_run() or "") for sink in planned.outputs)
            session = begin(planned, replace(anew, overwrite=anew.overwrite or own))
            note = {"start": planned.outputs[0].name, "by": "pipeline"} if planned.outputs else None
            return replace(session, unfinished=note)
        if begun is None:
            return begin(planned, anew, request=request)
        try:
            # It may have stopped before all outputs were created.
            session = begin(planned, _CONTINUED, request=request)
            return replace(session, overwrite=self.options.overwrite)
        except ValueError:
            others = {sink.begun_run() for sink in planned.outputs} - {None, begun.run_id}
            if others or differences(begun, planned):
                raise
        # It cannot continue on this machine, for example because its slabs are too large.
        again = f"{run_id}-{uuid.uuid4().hex[:8]}"
        return begin(planned, replace(anew, overwrite=True, run_id=again), request=request)


def _is(run_id: str, other: str) -> bool:
    """Whether a run belongs to an element, or restarted it."""
    return other == run_id or other.startswith(f"{run_id}-")


def _key(target: Any) -> str:
    """Return an identifier of a result that does not depend on names or order of targets."""
    if isinstance(target, Scalar):
        return target.value.token
    return target.barrier.token if isinstance(target, Table) else target.sink.name


def _finished(planned: Plan, begun: Manifest, targets: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the results of an element if another attempt has finished it and its outputs exist."""
    place = journal_place(planned, None)
    assert place is not None
    journal = Journal(place, begun.run_id)
    if differences(begun, planned) or not journal.marked(ENDED):
        return None
    if any(sink.existing_run() != begun.run_id for sink in planned.outputs):
        return None
    kept = journal.read_scalars(len(begun.passes))  # with the numbers after the last pass
    if kept is None or any(_key(target) not in kept for target in targets.values()):
        return None
    return {name: kept[_key(target)] for name, target in targets.items()}


def _is_complete(planned: Plan, run_id: str, targets: Mapping[str, Any]) -> bool:
    """Whether another attempt without a journal has written all that an element asks for."""
    return all(isinstance(target, Target | TableTarget) for target in targets.values()) and all(
        sink.existing_run() == run_id and UNFINISHED not in sink.state() for sink in planned.outputs
    )


def _checked(targets: Any) -> dict[str, Any]:
    if not isinstance(targets, Mapping) or isinstance(targets, Table) or not targets:
        raise TypeError(f"the function returned {targets!r}, not a dict of targets by name")
    for name, target in targets.items():
        if isinstance(target, Volume):
            raise TypeError(
                f"{name!r} is {target!r}: results contain no voxels; write them with .to(path)"
            )
        if not isinstance(target, Target | TableTarget | Table | Scalar):
            raise TypeError(
                f"{name!r} is {target!r}, not a lazy scalar, a table or a volume.to(path)"
            )
    return dict(targets)


def _short(element: Any, maximum: int = 300) -> str:
    text = repr(element)
    return text if len(text) <= maximum else f"{text[:maximum]}..."


def _result(target: Any, result: Any, known: dict[str, Any]) -> Any:
    """Return the element of a target's result, without voxels."""
    if isinstance(target, Scalar):
        return evaluate(result, known)
    return result.read() if isinstance(target, Table) else result.name


def _check_size(results: Mapping[str, Any]) -> None:
    sizes = {name: len(pickle.dumps(result, protocol=5)) for name, result in results.items()}
    if sum(sizes.values()) > MAX_BYTES:
        name = max(sizes, key=lambda n: sizes[n])
        raise ValueError(
            f"the results are {format_bytes(sum(sizes.values()))}, and {name!r} is the largest "
            f"with {format_bytes(sizes[name])}; elements are at most {format_bytes(MAX_BYTES)}: "
            "write it with .to(path)"
        )


_lock = threading.Lock()
_admitting: dict[int, threading.Semaphore] = {}


@contextmanager
def _admitted(width: int) -> Iterator[None]:
    """Limit the elements that run in this process; runners start any number of threads."""
    with _lock:
        places = _admitting.setdefault(width, threading.Semaphore(width))
    with places:
        yield


class Report(beam.DoFn):
    """Write the results of `ComputeAll` for a path, or its failure, to a folder for the driver."""

    def __init__(self, place: str):
        self.place = place

    def process(self, element: tuple[str, dict[str, Any]] | Failed) -> None:
        report: tuple[str, dict[str, Any], str | None]
        if isinstance(element, Failed):
            report = (element.volume, {}, element.message)
        else:
            report = (*element, None)
        place, name = Place.of(self.place), f"{digest(report[0])}.pickle"
        place.write(name, pickle.dumps(report, protocol=5))


def read_reports(place: str) -> dict[str, tuple[dict[str, Any], str | None]]:
    """Return the results and error of each element, by path."""
    where = Place.of(place)
    found = {}
    for data in where.read_many([n for n in where.names() if n.endswith(".pickle")]):
        if data is not None:
            path, results, error = pickle.loads(data)
            found[path] = (results, error)
    return found
