"""Failed elements as rows of a separate PCollection: dead letters."""

from __future__ import annotations

import contextlib
import copy
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType, NoneType, UnionType
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_type_hints

import apache_beam as beam
from apache_beam.pvalue import TaggedOutput
from apache_beam.runners.runner import PipelineResult
from apache_beam.typehints import Iterable, Tuple, with_input_types, with_output_types

from beam_volumes.base.text import printable
from beam_volumes.runs import Journal
from beam_volumes.runs.failure import revived
from beam_volumes.storage.places.claims import Superseded
from beam_volumes.storage.places.place import is_local
from beam_volumes.transforms import pipeline_metrics
from beam_volumes.transforms.waiting import in_global_window

_BAD = "bad"
_Step = TypeVar("_Step", bound="Excepting")


_Row = TypeVar("_Row", bound=type)


def row_type(kind: _Row) -> _Row:
    """Register a NamedTuple as a Beam row with typed fields, as a class decorator.

    Beam does not resolve annotations that are strings, as all in this package are. Without types,
    other SDKs could not read the fields.

    >>> from typing import NamedTuple
    >>> @row_type
    ... class Found(NamedTuple):
    ...     z: "int"
    >>> str(beam.coders.registry.get_coder(Found).schema.fields[0].type).split()
    ['atomic_type:', 'INT64']
    """
    kinds: Any = kind
    kinds.__annotations__ = {name: _known(t) for name, t in get_type_hints(kind).items()}
    beam.coders.registry.register_coder(kind, beam.coders.RowCoder)
    return kind


def _known(kind: Any) -> Any:
    """``int | None`` as a type that Beam supports."""
    return Union[get_args(kind)] if isinstance(kind, UnionType) else kind  # noqa: UP007


@row_type
class Failed(NamedTuple):
    """A failed element of a step: a row that other SDKs and Beam YAML can read.

    Steps with `with_exception_handling` return these rows instead of raising errors.

    Parameters
    ----------
    step : str
        Name of the transform, such as ``"ApplyStages"``.
    volume : str
        Name of the volume; for `ComputeAll`, the element.
    box : str
        The range of voxels, as ``"[0:16, 0:512, 0:512]"``; empty for all voxels.
    stage : str
        The functions that were applied.
    error : str
        Name of the error's type.
    message : str
        Message of the error.

    Examples
    --------
    >>> bv.Failed("ReadSlabs", "em.zarr", "[0:2, 0:4, 0:4]", "read", "OSError", "gone").error
    'OSError'
    """

    step: str
    volume: str
    box: str
    stage: str
    error: str
    message: str


#: Elements that went well, and those that failed.
_Counts: Any = Tuple[int, int]
#: From an element to its volume, box and stage.
Where = Callable[[Any], tuple[str, str, str]]


class Excepting:
    """A transform that can return failures instead of raising errors: ``(good, bad)``."""

    #: Share of elements that may fail; None raises errors.
    threshold: float | None = None

    def with_exception_handling(self: _Step, *, threshold: float = 1) -> _Step:
        """Return ``(good, bad)``: the results, and a `Failed` for each failed element.

        ``threshold``, float, default: 1: the pipeline fails at its end if a larger share of
        elements fails.
        Returns a transform for the same input.
        Raises ValueError: if the threshold is not between 0 and 1.
        """
        if not 0 <= threshold <= 1:
            raise ValueError(f"threshold={threshold}: give a share of the elements, from 0 to 1")
        handling = copy.copy(self)
        handling.threshold = threshold
        return handling

    def type_check_outputs(self, out: Any) -> None:
        """Check the type of results; failures have their own type."""
        good = next(iter(out.values())) if isinstance(out, dict) else out
        super().type_check_outputs(good[0] if isinstance(good, tuple) else good)  # type: ignore[misc]

    def tried(
        self,
        elements: beam.PCollection,
        label: str,
        function: Callable[..., Any],
        hint: Any,
        where: Where,
        hints: Mapping[str, str] = MappingProxyType({}),
        /,
        **sides: Any,
    ) -> Any:
        """Apply a function to each element, to a PCollection or to ``(good, bad)``.

        ``hints``: resource hints of the step.
        """
        if self.threshold is None:
            step = beam.Map(function, **sides).with_output_types(hint).with_resource_hints(**hints)
            return elements | label >> step
        step = beam.ParDo(_Trying(type(self).__name__, function, where), **sides)
        step.with_resource_hints(**hints)
        out = elements | label >> step.with_outputs(_BAD, main="good")
        good, bad = out["good"], out[_BAD]
        good.element_type, bad.element_type = hint, Failed
        self.check(good, bad, label)
        return good, bad

    def check(self, good: beam.PCollection, bad: beam.PCollection, label: str) -> None:
        """Fail the pipeline if too many elements have failed."""
        if self.threshold is None or self.threshold == 1:
            return
        counts = [
            some
            | f"{label}: {name} in no window" >> in_global_window(good, bad)
            | f"{label}: {name}" >> beam.Map(lambda _, one: one, one).with_output_types(_Counts)
            for name, some, one in (("good", good, (1, 0)), ("bad", bad, (0, 1)))
        ]
        _ = (
            tuple(counts)
            | f"{label}: all" >> beam.Flatten()
            | f"{label}: count" >> beam.CombineGlobally(_sums).without_defaults()
            | f"{label}: share"
            >> beam.Map(_check, type(self).__name__, self.threshold).with_output_types(NoneType)
        )


def failed(step: str, where: tuple[str, str, str], error: Exception) -> Failed:
    """Make a row of an error; errors that do not depend on the element are raised."""
    if isinstance(error, Superseded):
        raise error
    return Failed(step, *where, type(error).__name__, printable(str(error)))


class _Trying(beam.DoFn):
    """Applies a function; returns a row for each element that fails."""

    def __init__(self, step: str, function: Callable[..., Any], where: Where):
        self.step, self.function, self.where = step, function, where

    def process(self, element: Any, **sides):  # type: ignore[no-untyped-def]  # Beam checks it
        try:
            result = self.function(element, **sides)
        except Exception as error:
            pipeline_metrics.FAILED.inc()
            yield TaggedOutput(_BAD, failed(self.step, self.where(element), error))
            return
        yield result


@with_input_types(Iterable[_Counts])
@with_output_types(_Counts)
def _sums(counts: Any) -> tuple[int, int]:
    good = bad = 0
    for g, b in counts:
        good, bad = good + g, bad + b
    return good, bad


def _check(counts: tuple[int, int], step: str, threshold: float) -> None:
    good, bad = counts
    if bad > threshold * (good + bad):
        raise ValueError(
            f"{step}: {bad:,} of {good + bad:,} elements have failed, more than the share of "
            f"{threshold} that threshold= allows"
        )


_LOG = logging.getLogger(__name__)


@contextlib.contextmanager
def cancelled_if_hopeless(job: PipelineResult, journal: Journal, launch: str) -> Iterator[None]:
    """Cancel a job and raise the error as soon as the journal has one that all attempts share.

    Without this, the runner would retry as often as it is configured to.
    """
    ended = threading.Event()
    found: list[dict[str, Any]] = []

    def look() -> bool:
        with contextlib.suppress(OSError, ValueError):  # storage may be unavailable for a while
            failure = journal.failure(launch)
            found.extend([] if failure is None else [failure])
        return bool(found)

    def follow() -> None:
        while not ended.wait(1.0 if is_local(journal.spec) else 10.0):
            if look():
                try:
                    job.cancel()
                except Exception as error:  # not supported by every runner
                    _LOG.warning("the job cannot be cancelled and keeps retrying: %s", error)
                return

    follower = threading.Thread(target=follow, name="bv-failures", daemon=True)
    follower.start()
    try:
        yield
    except Exception:
        if look():
            raise revived(found[0])  # noqa: B904  # its cause is in the worker
        raise
    finally:
        ended.set()
        follower.join()
    if found:
        raise revived(found[0])
