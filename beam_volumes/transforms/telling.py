"""Errors on their way back: a runner makes one long text of an error and its traceback in a worker.

What a step raises goes into that text as data, behind a mark that holds a secret of the run. The rest of the
text may hold anything, names of files for one, and nothing of it is believed or executed.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from beam_volumes.across.rounds import Flow, Key, Message, Round
from beam_volumes.plan.plan import Plan
from beam_volumes.runs import Journal
from beam_volumes.runs.failure import as_data, revived
from beam_volumes.session.session import Session, SlabPartials
from beam_volumes.sweep.executor import SlabResult
from beam_volumes.sweep.reduction import Reduction
from beam_volumes.text import printable


def new_secret() -> str:
    """What marks of a run hold: nobody who names files or writes metadata knows it."""
    return secrets.token_hex(16)


@contextlib.contextmanager
def told(secret: str) -> Iterator[None]:
    """Put an exception, as data, into the message of the one that leaves.

    Examples
    --------
    >>> secret = new_secret()
    >>> try:
    ...     with told(secret):
    ...         raise OSError(28, "No space left")
    ... except RuntimeError as error:
    ...     raise_original(Exception(f"Traceback ... {error} [while running 'Sweep']"), secret)
    Traceback (most recent call last):
    OSError: [Errno 28] No space left
    """
    try:
        yield
    except Exception as error:
        data = as_data(error)
        text = printable(f"{type(error).__name__}: {error}")
        leaving = RuntimeError(f"{text} {mark(data, secret)}")
        try:
            data["trace"].encode()
        except UnicodeEncodeError:  # such a text is beyond what workers of Beam can send: they hang
            raise leaving from None
        raise leaving from error


def mark(data: Mapping[str, Any], secret: str) -> str:
    """An error's data as a word that a text may hold."""
    return f"[[beam-volumes:{secret}:{base64.b64encode(json.dumps(data).encode()).decode()}]]"


def unmarked(text: str, secret: str) -> str:
    """A text without marks."""
    return _marks(secret).sub("", text)


def raise_original(error: Exception, secret: str) -> None:
    """Raise the exception that `told` put into a message, if there is one."""
    marks = _marks(secret).findall(str(error))
    if not marks:
        return
    raise revived(json.loads(base64.b64decode(marks[-1])))


def _marks(secret: str) -> re.Pattern[str]:
    return re.compile(rf"\[\[beam-volumes:{secret}:([\w+/=]*)\]\]", re.ASCII)


@dataclass(frozen=True)
class Telling:
    """A session whose steps put what they raise into the message, to be read out of a runner's text."""

    session: Session
    secret: str = field(default_factory=new_secret, repr=False)

    @property
    def plan(self) -> Plan:
        return self.session.plan

    @property
    def journal(self) -> Journal | None:
        return self.session.journal

    @property
    def launch(self) -> str:
        return self.session.launch

    def prepare(self) -> None:
        with told(self.secret):
            self.session.prepare()

    def slab(
        self,
        pass_index: int,
        index: int,
        known: dict[str, Any],
        answers: Mapping[str, Any] | None = None,
        count: Callable[[SlabResult], None] | None = None,
    ) -> SlabPartials:
        with told(self.secret):
            return self.session.slab(pass_index, index, known, answers, count)

    def merge(self, pass_index: int, parts: Any) -> dict[str, Any]:
        with told(self.secret):
            return self.session.merge(pass_index, parts)

    def finish_pass(
        self, pass_index: int, states: dict[str, Any], known: dict[str, Any]
    ) -> dict[str, Any]:
        with told(self.secret):
            return self.session.finish_pass(pass_index, states, known)

    def put_together(self, pass_index: int, pieces: Any) -> dict[str, Any]:
        with told(self.secret):
            return self.session.put_together(pass_index, pieces)

    def by_name(
        self, before: dict[str, Any], known: dict[str, Any], pass_index: int
    ) -> dict[str, Any]:
        return self.session.by_name(before, known, pass_index)

    def reductions(self, pass_index: int) -> dict[str, Reduction]:
        return self.session.reductions(pass_index)

    def flows(self, pass_index: int) -> dict[str, Flow]:
        return {
            token: replace(
                flow, rounds=tuple(Told(r.name, r.to, r, self.secret) for r in flow.rounds)
            )
            for token, flow in self.session.flows(pass_index).items()
        }

    def write_rows(self, token: str, shard: int, columns: Mapping[str, Any]) -> None:
        with told(self.secret):
            self.session.write_rows(token, shard, columns)

    def finish_merge(
        self,
        pass_index: int,
        numbers: Mapping[str, Mapping[str, Any]],
        known: dict[str, Any],
    ) -> dict[str, Any]:
        with told(self.secret):
            return self.session.finish_merge(pass_index, numbers, known)


@dataclass(frozen=True, eq=False)
class Told(Round):
    """A round of a merge, likewise."""

    round: Round
    secret: str = field(repr=False)

    def step(self, key: Key, values: list[Any]) -> Iterable[Message]:
        with told(self.secret):
            yield from self.round.step(key, values)
