"""Runs in threads of this process."""

import itertools
import weakref

from beam_volumes.across.rounds.flow import Flow, Round, run
from beam_volumes.session.local import Spill


class Along(Round):
    """Sends on each message."""

    def step(self, key, values):
        return [(self.to[0], key, value) for value in values]


def test_messages_of_a_round_take_disk_until_the_round_ends():
    """Of a run of terabytes, messages of all rounds have no place on a disk."""
    boxes, most = [], [0]

    class Counted(Spill):
        def __init__(self):
            super().__init__()
            boxes.append(weakref.ref(self))

        def put(self, key, value):
            super().put(key, value)
            most[0] = max(most[0], sum(box._end for ref in boxes if (box := ref())))

    names = [str(k) for k in range(7)]
    flow = Flow(tuple(Along(a, (b,)) for a, b in itertools.pairwise(names)), (names[-1],))
    given = Counted()
    for k in range(10):
        given.put((k,), bytes(10_000))
    each = given._end
    first = [given]
    del given
    found = run(flow, first.pop(), make=Counted)[names[-1]]
    assert [len(found.load(value)) for _, value in found] == [10_000] * 10
    assert each > 100_000 and most[0] <= 2 * each
