"""Rounds of keyed merges as Beam steps, and messages of any size as elements of few megabytes."""

from __future__ import annotations

import hashlib
import pickle
import struct
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import imagecodecs
from apache_beam.pvalue import AsSingleton, TaggedOutput
from apache_beam.typehints import Tuple

from beam_volumes.across.rounds import Flow, Key, Round

#: Of a piece. Runners buffer elements whole, and some fail on larger ones.
MOST_PIECE = 4 << 20
#: Messages of fewer bytes are not compressed: it takes longer than to carry them.
_SMALL = 1024
_PICKLE = b"\x80"  # what a pickle begins with, and a zstd frame does not
#: Which message a piece is of, which of how many it is.
_HEAD = struct.Struct("<16sII")

#: A key, and a piece of a message or a value.
Keyed: Any = Tuple[Tuple[int, ...], bytes]
Decoded: Any = Tuple[Tuple[int, ...], Any]


def pieces(value: Any, most: int = MOST_PIECE) -> Iterator[bytes]:
    """A picklable value as pieces of few megabytes, compressed.

    Examples
    --------
    >>> some = [*pieces("ab" * 1000), *pieces([1, 2], most=8)]
    >>> whole(some[::-1] + some)
    [[1, 2], 'abab...
    """
    data = pickle.dumps(value, protocol=5)
    if len(data) >= _SMALL:
        data = bytes(imagecodecs.zstd_encode(data, level=1))
    name = hashlib.blake2b(data, digest_size=16).digest()
    count = -(-len(data) // most)
    for i in range(count):
        yield _HEAD.pack(name, i, count) + data[i * most : (i + 1) * most]


def whole(some: Iterable[bytes]) -> list[Any]:
    """All values that pieces are of, in no particular order; equal ones once.

    Pieces may come in any order and repeatedly.
    """
    parts: dict[bytes, dict[int, bytes]] = {}
    counts: dict[bytes, int] = {}
    for piece in some:
        name, i, counts[name] = _HEAD.unpack_from(piece)
        parts.setdefault(name, {})[i] = piece
    values = []
    for name in list(parts):
        of = parts.pop(name)
        if len(of) != counts[name]:
            raise ValueError(f"{len(of)} pieces of a message came, of {counts[name]}")
        data = b"".join(memoryview(of[i])[_HEAD.size :] for i in range(len(of)))
        is_plain = data.startswith(_PICKLE)
        values.append(pickle.loads(data if is_plain else imagecodecs.zstd_decode(data)))
    return values


class RunFlow(beam.PTransform):
    """Run a flow of rounds: PCollection[(key, value)] to a dict of a PCollection for each port.

    What is given to the first round goes to it as it is, one value for each key; before each round
    after it messages are grouped by key, in pieces of at most 4 MiB.

    Parameters
    ----------
    flow : Flow
    ready : PCollection, optional
        Of one element: no round but the first starts before it is there, or if it never is.
    decoded : tuple of str
        Ports whose PCollections hold ``(key, value)``; values must be small. Those of the others hold
        ``(key, piece)``: group them by key, with whatever else is wanted there, and make them `whole`.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import apache_beam as beam
    >>> from beam_volumes.across.rounds import Flow, Round
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

    def __init__(
        self,
        flow: Flow,
        ready: beam.PCollection | None = None,
        decoded: tuple[str, ...] = ("numbers", "rows"),
    ):
        super().__init__()
        self.flow, self.ready, self.decoded = flow, ready, decoded

    def expand(self, given: beam.PCollection) -> dict[str, beam.PCollection]:
        sent: dict[str, list[beam.PCollection]] = {r.name: [] for r in self.flow.rounds}
        sent |= {port: [] for port in self.flow.ports}

        def arrived(name: str) -> beam.PCollection:
            hint = Decoded if name in self.decoded else Keyed
            all_sent = tuple(sent[name])
            if len(all_sent) == 1:
                return all_sent[0]
            flatten = beam.Flatten(pipeline=given.pipeline).with_output_types(hint)
            return all_sent | f"To {name}" >> flatten

        for k, r in enumerate(self.flow.rounds):
            if k == 0:
                step = beam.ParDo(_First(r, self.decoded))
                out = given | r.name >> step.with_outputs(*r.to)
            else:
                groups = arrived(r.name) | f"Group {r.name}" >> beam.GroupByKey()
                wait = {} if self.ready is None else {"ready": AsSingleton(self.ready)}
                step = beam.ParDo(_Step(r, self.decoded), **wait)
                out = groups | r.name >> step.with_outputs(*r.to)
            for address in r.to:
                out[address].element_type = Decoded if address in self.decoded else Keyed
                sent[address].append(out[address])
        return {port: arrived(port) for port in self.flow.ports}


class _First(beam.DoFn):
    """The round that values are given to as they are."""

    def __init__(self, r: Round, decoded: tuple[str, ...]):
        self.round, self.decoded = r, decoded

    def process(self, given: tuple[Key, Any]) -> Iterator[TaggedOutput]:
        return self.sent(given[0], [given[1]])

    def sent(self, key: Key, values: list[Any]) -> Iterator[TaggedOutput]:
        for address, to, value in self.round.step(key, values):
            for item in [value] if address in self.decoded else pieces(value):
                yield TaggedOutput(address, (to, item))


class _Step(_First):
    """A round after that; ``ready`` only makes Beam wait."""

    def process(
        self, group: tuple[Key, Iterable[bytes]], ready: Any = None
    ) -> Iterator[TaggedOutput]:
        return self.sent(tuple(group[0]), whole(group[1]))
