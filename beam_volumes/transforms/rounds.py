"""Rounds of keyed merges as Beam steps, with messages of any size split into small elements."""

from __future__ import annotations

import hashlib
import os
import pickle
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton, TaggedOutput
from apache_beam.typehints import Tuple

from beam_volumes.across.rounds.flow import Flow, Key, Round
from beam_volumes.base.codecs import compress, decompress
from beam_volumes.runs.failure import errors_as_data
from beam_volumes.sweep.resources import make_room
from beam_volumes.transforms import pipeline_metrics

#: Bytes of a piece. Runners buffer whole elements: Beam sends them to workers in messages of 1 MB, or of one
#: larger element, and a sort of Flink has 2.8 MiB in a job with the steps of a segmentation.
MAX_PIECE = 512 << 10
#: Messages of fewer bytes are not compressed: that would take longer than sending them.
_SMALL = 1024
_PICKLE = b"\x80"  # the first byte of a pickle, but not of a zstd frame
#: The id of a piece's message, its number, and the number of pieces; 0 pieces: a file has the message.
_HEAD = struct.Struct("<16sII")
#: Messages of fewer bytes are not stored in files: an element with the name of a file takes about as much.
_STORED = 4096

#: A key, and a piece of a message or a value.
Keyed: Any = Tuple[Tuple[int, ...], bytes]


def pieces(value: Any, maximum: int = MAX_PIECE, folder: str = "") -> Iterator[bytes]:
    """Split a picklable value into compressed pieces.

    ``folder``: on this machine, for the values of runners that keep all elements in memory; a
    single piece then names the file with the value.

    >>> some = [*pieces("ab" * 1000), *pieces([1, 2], maximum=8)]
    >>> whole(some[::-1] + some)
    [[1, 2], 'abab...
    """
    data = pickle.dumps(value, protocol=5)
    if len(data) >= _SMALL:
        data = compress(data)
    name = hashlib.blake2b(data, digest_size=16).digest()
    if folder and len(data) >= _STORED:
        yield _HEAD.pack(name, 0, 0) + os.fsencode(_store(data, os.path.join(folder, name.hex())))
        return
    count = -(-len(data) // maximum)
    for i in range(count):
        yield _HEAD.pack(name, i, count) + data[i * maximum : (i + 1) * maximum]


def _store(data: bytes, path: str) -> str:
    """Write a file, named by its content, unless another step has written it; return its path."""
    if not os.path.exists(path):
        with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), delete=False) as file:
            file.write(data)
        os.replace(file.name, path)
    return path


def whole(some: Iterable[bytes]) -> list[Any]:
    """Join pieces to values, each once and in no particular order.

    Pieces may arrive in any order and repeatedly.
    """
    parts: dict[bytes, dict[int, bytes]] = {}
    counts: dict[bytes, int] = {}
    for piece in some:
        name, i, counts[name] = _HEAD.unpack_from(piece)
        parts.setdefault(name, {})[i] = piece
    values = []
    for name in list(parts):
        of = parts.pop(name)
        count = max(1, counts[name])
        if len(of) != count:
            raise ValueError(f"{len(of)} of {count} pieces of a message have arrived")
        data = b"".join(memoryview(of[i])[_HEAD.size :] for i in range(count))
        if not counts[name]:
            with open(data, "rb") as file:
                data = file.read()
        is_plain = data.startswith(_PICKLE)
        values.append(pickle.loads(data if is_plain else decompress(data)))
    return values


@dataclass(frozen=True)
class Take:
    """Converts a key and a value of a port to small elements of a type."""

    elements: Callable[[Key, Any], Iterable[Any]]
    type: Any


def _as_it_is(key: Key, value: Any) -> Iterable[Any]:
    return [(key, value)]


def taking(take: Mapping[str, Take] | None = None) -> dict[str, Take]:
    """Converters for all ports: the given ones, and defaults."""
    return {"numbers": Take(_as_it_is, Tuple[Tuple[int, ...], Any]), **(take or {})}


class RunFlow(beam.PTransform):
    """Run a flow of rounds: PCollection[(key, value)] to a dict of a PCollection for each port.

    >>> from dataclasses import dataclass
    >>> import apache_beam as beam
    >>> from beam_volumes.across.rounds.flow import Flow, Round
    >>> class Parity(Round):
    ...     def step(self, key, values):
    ...         return [("sum", (key[0] % 2,), (key[0], values[0]))]
    >>> class Sum(Round):
    ...     def step(self, key, values):
    ...         return [("numbers", key, sum(dict(values).values()))]
    >>> flow = Flow((Parity("parity", ("sum",)), Sum("sum", ("numbers",))), ("numbers",))
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     given = p | beam.Create([((k,), 10 * k) for k in range(5)])
    ...     _ = (given | RunFlow(flow))["numbers"] | beam.Map(print)
    ((0,), 60)
    ((1,), 40)
    """

    # The first round receives the input as it is, one value for each key. Before each further round,
    # messages are grouped by key, in pieces of at most 512 KiB. Instead of the input it accepts the
    # dict of `FirstRound`.
    #
    # ``ready``: PCollection of one element; rounds after the first wait for it.
    # ``take``: for each port, how a key and a value are converted to elements in
    # the step that computes them. The default for ``"numbers"`` is ``(key, value)``, which must be
    # small. For other ports it is ``(key, piece)``: group these by key, and join them by `whole`.
    # ``secret``: see `beam_volumes.runs.failure`; errors of steps are sent as data.
    # ``folder``: for messages, see `pieces`.

    def __init__(
        self,
        flow: Flow,
        ready: beam.PCollection | None = None,
        take: Mapping[str, Take] | None = None,
        secret: str = "",
        folder: str = "",
    ):
        super().__init__()
        self.flow, self.ready, self.secret, self.folder = flow, ready, secret, folder
        self.take = taking(take)

    def expand(
        self, given: beam.PCollection | dict[str, beam.PCollection]
    ) -> dict[str, beam.PCollection]:
        rounds = self.flow.rounds[1:]
        first = given if isinstance(given, dict) else given | FirstRound(self.flow, take=self.take)
        sent = {address: [some] for address, some in typed(first, self.take).items()}
        for name in (*(r.name for r in rounds), *self.flow.ports):
            sent.setdefault(name, [])

        def arrived(name: str) -> beam.PCollection:
            all_sent = tuple(sent[name])
            if len(all_sent) == 1:
                return all_sent[0]
            flatten = beam.Flatten().with_output_types(_hint(name, self.take))
            return all_sent | f"To {name}" >> flatten

        # Later rounds wait anyway. A runner may limit the number of steps that wait for one input:
        # Flink to 64.
        waiting = self.flow.rounds[0].to
        for r in rounds:
            wait = {}
            if self.ready is not None and r.name in waiting:
                if self.ready.is_bounded:
                    wait["ready"] = AsSingleton(self.ready)
                else:
                    # Flink cannot keep side inputs in the checkpoints of a streaming job. A group
                    # by key waits for all its inputs, including those without elements.
                    nothing = beam.FlatMap(_nothing).with_output_types(_hint(r.name, self.take))
                    sent[r.name].append(self.ready | f"Before {r.name}" >> nothing)
            groups = arrived(r.name) | f"Group {r.name}" >> beam.GroupByKey()
            step = beam.ParDo(_Step(r, self.take, None, self.secret, self.folder), **wait)
            out = groups | r.name >> step.with_output_types(NoneType).with_outputs(*r.to)
            for address, some in typed({to: out[to] for to in r.to}, self.take).items():
                sent[address].append(some)
        return {port: arrived(port) for port in self.flow.ports}


def _nothing(_: Any) -> Iterator[Any]:
    yield from ()


class FirstRound(beam.PTransform):
    """The first round of a flow: a PCollection to a dict of its messages, by address.

    Messages leave the step in pieces. For large values, ``given`` makes ``(key, value)`` from an
    element in the same step, so no runner has to handle them as a whole.
    """

    def __init__(
        self,
        flow: Flow,
        given: Callable[[Any], tuple[Key, Any]] | None = None,
        take: Mapping[str, Take] | None = None,
    ):
        super().__init__()
        self.round, self.given = flow.rounds[0], given
        self.take = taking(take)

    def expand(self, elements: beam.PCollection) -> dict[str, beam.PCollection]:
        step = beam.ParDo(_First(self.round, self.take, self.given))
        step = step.with_output_types(NoneType)
        out = elements | self.round.name >> step.with_outputs(*self.round.to)
        return typed({to: out[to] for to in self.round.to}, self.take)


def typed(
    sent: dict[str, beam.PCollection], take: Mapping[str, Take]
) -> dict[str, beam.PCollection]:
    """The messages by address, with type hints."""
    for address, some in sent.items():
        some.element_type = _hint(address, take)
    return sent


def _hint(address: str, take: Mapping[str, Take]) -> Any:
    return take[address].type if address in take else Keyed


def elements_of(
    r: Round, key: Key, values: list[Any], take: Mapping[str, Take], folder: str = ""
) -> Iterator[tuple[str, Any]]:
    """The messages of a round as elements, each with its address; ``folder`` as in `pieces`."""
    for address, to, value in r.step(key, values):
        if address in take:
            for element in take[address].elements(to, value):
                yield address, element
        else:
            for piece in pieces(value, folder=folder):
                yield address, (to, piece)


@dataclass(frozen=True, eq=False)
class Merges:
    """The merges of several surveys, by token. The step that sweeps slabs begins all of them.

    Summaries are too large for elements, so the first rounds run in that step: `begin` yields its
    tagged outputs, with the tags `tags`. ``takes``, ``secret`` and ``folder``: see `RunFlow`.
    """

    flows: Mapping[str, Flow]
    takes: Mapping[str, Mapping[str, Take]]
    secret: str = ""
    folder: str = ""

    @property
    def tags(self) -> list[str]:
        return [f"{token} {to}" for token, flow in self.flows.items() for to in flow.rounds[0].to]

    def begin(self, key: Key, summaries: Mapping[str, Any]) -> Iterator[TaggedOutput]:
        for token, flow in self.flows.items():
            own, take = [summaries[token]], taking(self.takes[token])
            for to, element in elements_of(flow.rounds[0], key, own, take, self.folder):
                yield TaggedOutput(f"{token} {to}", element)

    def run(
        self, swept: Any, ready: beam.PCollection | None = None
    ) -> dict[str, dict[str, beam.PCollection]]:
        """From the outputs of that step to the ports of each survey; ``ready``: see `RunFlow`."""
        ports = {}
        for n, (token, flow) in enumerate(self.flows.items(), 1):
            sent = {to: swept[f"{token} {to}"] for to in flow.rounds[0].to}
            rest = RunFlow(flow, ready, self.takes[token], self.secret, self.folder)
            ports[token] = sent | f"Survey {n}" >> rest
        return ports


class _First(beam.DoFn):
    """The first round, which receives values directly."""

    def __init__(
        self,
        r: Round,
        take: Mapping[str, Take],
        given: Callable[[Any], tuple[Key, Any]] | None = None,
        secret: str = "",
        folder: str = "",
    ):
        self.round, self.take, self.given, self.secret = r, take, given, secret
        self.folder = folder

    def process(self, element: Any) -> Iterator[TaggedOutput]:
        key, value = element if self.given is None else self.given(element)
        return self.sent(key, [value])

    def sent(self, key: Key, values: list[Any]) -> Iterator[TaggedOutput]:
        with errors_as_data(self.secret):
            for address, element in elements_of(self.round, key, values, self.take, self.folder):
                yield TaggedOutput(address, element)


class _Step(_First):
    """A further round; ``ready`` only makes Beam wait."""

    def process(
        self, group: tuple[Key, Iterable[bytes]], ready: Any = None
    ) -> Iterator[TaggedOutput]:
        make_room()
        values = whole(group[1])
        pipeline_metrics.MERGE_INPUTS.update(len(values))
        return self.sent(tuple(group[0]), values)
