"""Apply transforms to a pipeline, or to a PCollection, and wait for its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam import typehints
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions
from apache_beam.pvalue import AsIter, PBegin
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import GlobalWindows, TimestampCombiner, TimestampedValue
from apache_beam.typehints import Dict, List, Tuple, with_input_types, with_output_types
from apache_beam.utils.timestamp import Timestamp

from beam_volumes.storage.places.extent import Bytes


def in_global_window(*given: beam.PCollection) -> beam.PTransform:
    """Move elements to the global window, to group them when all elements of ``given`` have arrived.

    `windowed_as` moves the results back.
    """
    how: dict[str, Any] = {}
    if not all(some.is_bounded for some in given):
        # A volume is complete or not. In streaming, Beam's default trigger cannot wait for this.
        how["trigger"] = AfterWatermark(late=AfterCount(1))
        how["accumulation_mode"] = AccumulationMode.DISCARDING
    if not all(isinstance(some.windowing.windowfn, GlobalWindows) for some in given):
        # Results belong to the window of the last element that they depend on.
        how["timestamp_combiner"] = TimestampCombiner.OUTPUT_AT_LATEST
    return beam.WindowInto(GlobalWindows(), **how)


def windowed_as(
    given: beam.PCollection,
    result: beam.PCollection,
    name: str = "results",
    latest: AsIter | None = None,
) -> beam.PCollection:
    """Return the result of a step with the windowing of its input, trigger included.

    ``latest``: the time of the last element of the input, for results of steps that only wait for it.
    """
    windowing = given.windowing
    if result.windowing == windowing:
        return result
    if latest is not None:
        at_latest = beam.Map(_at_latest, latest).with_output_types(result.element_type)
        result = result | f"Time of {name}" >> at_latest
    into = beam.WindowInto(windowing, allowed_lateness=windowing.allowed_lateness)
    return result | f"Windows of {name}" >> into


def _at_latest(element: Any, latest: Iterable[Any], time: Any = beam.DoFn.TimestampParam) -> Any:
    return TimestampedValue(element, max([time, *latest]))


def refuse_written_twice(pipeline: beam.Pipeline, step: beam.PTransform, outputs: Any) -> None:
    """Refuse outputs of a step that another step of the pipeline writes, as its ``written`` lists.

    At run time, one of the steps would report that the other run has taken its output.
    """
    own = [(output.name, Bytes(output.extents)) for output in outputs]
    others = list(pipeline.transforms_stack[0].parts)
    while others:
        other = others.pop()
        others += other.parts
        if other.transform is step:
            continue
        for output in getattr(other.transform, "written", ()):
            theirs = Bytes(output.extents)
            for name in (name for name, place in own if place.meet(theirs)):
                raise ValueError(
                    f"{type(step).__name__}: the step {other.full_label!r} of this pipeline also "
                    f"writes {name}; write to another path, or Flatten the slabs before a single "
                    "WriteSlabs"
                )


def beginning(
    given: Any, step: str
) -> tuple[beam.Pipeline, dict[str, Any], Callable[..., beam.PCollection]]:
    """The pipeline of a step, and the side input that its first function waits for.

    >>> beginning([1, 2], "ReadSlabs")
    Traceback (most recent call last):
    TypeError: ReadSlabs is applied to a pipeline, or to a PCollection that it waits for; not to a list
    """
    # Returns ``pipeline``; ``wait``: empty, or ``{"ready": side input}`` for the first step after
    # `Impulse` or `Create`; ``windowed``: of a result and its name, the result with the windowing of
    # the PCollection that the step waits for.
    # Raises TypeError: if a step is applied to anything but a pipeline or a PCollection.
    # Raises ValueError: if the pipeline's options select threads that lose elements.
    if isinstance(given, beam.Pipeline | PBegin):
        pipeline: beam.Pipeline = given if isinstance(given, beam.Pipeline) else given.pipeline
        refuse_threads(pipeline.options)
        return pipeline, {}, lambda result, name="results": result
    if not isinstance(given, beam.PCollection):
        raise TypeError(
            f"{step} is applied to a pipeline, or to a PCollection that it waits for; "
            f"not to a {type(given).__name__}"
        )
    refuse_threads(given.pipeline.options)
    # Yields the time of the latest element when all elements of all windows have arrived.
    times = beam.Map(_time).with_output_types(Timestamp)
    ready = AsIter(
        given
        | "Times" >> times
        | "Waited for" >> in_global_window(given)
        | "Are there" >> beam.CombineGlobally(_latest).without_defaults()
    )
    return given.pipeline, {"ready": ready}, partial(windowed_as, given, latest=ready)


@with_input_types(typehints.Iterable[Timestamp])
@with_output_types(Timestamp)
def _latest(times: Any) -> Timestamp:
    return max(times)  # type: ignore[no-any-return]


def _time(_: Any, time: Any = beam.DoFn.TimestampParam) -> Timestamp:
    return time  # type: ignore[no-any-return]


class WaitOn(beam.PTransform):
    """Values of several PCollections under their common keys: a dict of them to ``(key, dict of lists)``."""

    # As `CoGroupByKey`, with keys of a type that is known: runners of other SDKs compare the coders of keys
    # before and after a group by key, and Beam forgets the type between.

    def __init__(self, key: Any, value: Any = Any):
        super().__init__()
        self.key, self.value = key, value

    def expand(self, given: dict[str, beam.PCollection]) -> beam.PCollection:
        kind = Tuple[self.key, Tuple[str, self.value]]
        named = [
            some | f"Name {name}" >> beam.Map(_named, name).with_output_types(kind)
            for name, some in given.items()
        ]
        found = Tuple[self.key, Dict[str, List[self.value]]]
        by_name = beam.Map(_by_name, [*given]).with_output_types(found)
        flat = tuple(named) | "All" >> beam.Flatten().with_output_types(kind)
        return flat | "Group" >> beam.GroupByKey() | "By name" >> by_name


def _named(pair: tuple[Any, Any], name: str) -> tuple[Any, tuple[str, Any]]:
    return pair[0], (name, pair[1])


def _by_name(
    group: tuple[Any, Iterable[tuple[str, Any]]], names: list[str]
) -> tuple[Any, dict[str, list[Any]]]:
    found: dict[str, list[Any]] = {name: [] for name in names}
    for name, value in group[1]:
        found[name].append(value)
    return group[0], found


def refuse_threads(options: PipelineOptions) -> None:
    """Refuse the mode of Beam's local runner that loses elements."""
    if options.view_as(DirectOptions).direct_running_mode == "multi_threading":
        raise ValueError(
            "direct_running_mode=multi_threading is refused: it silently loses elements, so slabs "
            "would be missing from outputs that look finished; use in_memory (threads) or "
            "multi_processing"
        )
