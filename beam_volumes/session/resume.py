"""What a run keeps of itself so that it can be continued from its folder alone.

That is its plan, pickled: a plan is plain data and the functions given to `map_overlap`. It is small
however many slabs there are. Unpickling runs code, so a folder is to be trusted as a program is; the
states in its records are pickles too.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import cloudpickle

from beam_volumes.ops.labels.mappings import ParquetMapping
from beam_volumes.plan.plan import Plan
from beam_volumes.runs.journal import Journal
from beam_volumes.runs.manifest import Manifest
from beam_volumes.storage.formats.tables import ParquetTable
from beam_volumes.storage.opening import reopened
from beam_volumes.storage.source import Source
from beam_volumes.version import __version__


@dataclass(frozen=True)
class Request:
    """What a run was asked for beside its plan.

    Attributes
    ----------
    beam : bool
        Whether it runs as a pipeline.
    note : object
        The caller's, for whoever continues the run: how results are told of.
    """

    beam: bool
    note: Any = None


def python_version() -> str:
    """The version of Python as far as pickles depend on it: ``"3.11"``."""
    return ".".join(platform.python_version_tuple()[:2])


def save_plan(plan: Plan, request: Request | None) -> tuple[bytes | None, str]:
    """A run's plan and request as bytes; or None, and why it cannot be continued from its folder."""
    if request is None:
        return None, "it is a step of a pipeline: run that again with resume=True"
    if not all(sink.portable for sink in plan.sinks):
        return None, "its outputs were memory of the process that began it"
    for p in plan.passes:
        for step in p.program.steps:
            if step.source is not None and not step.source.portable:
                return None, (
                    f"its input {step.source.name} was memory of the process that began it: "
                    "run the program again with resume=True"
                )
    try:
        return cloudpickle.dumps((plan, request)), ""
    except Exception as error:  # what a user's function holds may raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return None, (
            f"its plan does not pickle ({reason}): run the program again with resume=True"
        )


def load_plan(journal: Journal) -> tuple[Plan, Request]:
    """The plan and request of a run, if it can be continued here.

    Raises
    ------
    ValueError
        If not: the message says why, and what to do.
    """
    manifest = Journal.load(journal.spec)
    assert manifest is not None
    _check_versions(journal, manifest)
    if manifest.closed:
        raise ValueError(f"cannot resume {journal.url} from its folder alone: {manifest.closed}")
    data = journal.read_plan()
    if data is None:
        raise ValueError(
            f"cannot resume {journal.url}: its plan is not there; run the program again with resume=True"
        )
    try:
        plan, request = cloudpickle.loads(data)
    except Exception as error:  # unpickling is importing
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(
            f"cannot resume {journal.url}: its plan cannot be loaded here ({reason}); run the program "
            "again with resume=True, or make its modules importable (PYTHONPATH)"
        ) from error
    check_inputs(plan, journal)
    return plan, request


def _check_versions(journal: Journal, manifest: Manifest) -> None:
    for name, then, now in (
        ("beam_volumes", manifest.package, __version__),
        ("Python", manifest.python, python_version()),
    ):
        if then != now:
            raise ValueError(
                f"cannot resume {journal.url}: it was begun with {name} {then or 'unknown'}, and this is "
                f"{now}; continue with that version, or start anew with overwrite=True"
            )


def check_inputs(plan: Plan, journal: Journal) -> None:
    """Refuse inputs that are not what the run was begun with, as far as their metadata tell."""
    found: list[tuple[str, str, Callable[[], str]]] = []
    for p in plan.passes:
        for step in p.program.steps:
            if step.source is not None:
                source = step.source
                found.append((source.name, source.reader.token(), partial(_now, source)))
        for b in p.program.surveys:
            mapping = getattr(b.survey, "mapping", None)
            if isinstance(mapping, ParquetMapping):
                name = mapping.table.name
                found.append((name, mapping.table.token(), partial(_table_now, name)))
    for name, then, now in found:
        try:
            same = now() == then
        except (ValueError, OSError) as error:
            raise type(error)(f"cannot resume {journal.url}: input {name}: {error}") from error
        if not same:
            raise ValueError(
                f"cannot resume {journal.url}: the run differs in input {name}, which has changed since; "
                "start anew with overwrite=True"
            )


def _now(source: Source) -> str:
    return reopened(source).reader.token()


def _table_now(name: str) -> str:
    return ParquetTable.of(name).token()
