"""How long a run will still take."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

#: An estimate that is longer than what was said before, by no more than this, is not worth a word.
_SLOWER = 1.5


class Remaining:
    """Estimates from what was seen how long the last pass will end from now.

    What happens before the first step of a pass (workers start, kernels are compiled) says nothing of those
    to come: the pace is that from the first step on, as soon as there is another; until then that of the pass
    before. Between two steps time goes
    down, but for no longer than a step takes, so that nothing is said to be over before it is. Passes to
    come are held to take as long as their weights say.

    ``weights``: what passes take, beside each other.

    One pass of four steps, the first of which takes 20 seconds and the others one:

    >>> left = Remaining([10.0])
    >>> [left.seen(0, part, now) for part, now in [(0, 0), (0.25, 20), (0.5, 21), (0.75, 22)]]
    [None, 60.0, 2.0, 1.0]
    >>> left.seen(0, 0.75, 22.5), left.seen(0, 0.75, 60)
    (0.5, 0.0)
    """

    def __init__(self, weights: Sequence[float]) -> None:
        self._before = [0.0, *accumulate(weights)]
        self._index = -1
        self._seconds: float | None = None  # that a unit of weight takes
        self._said: float | None = None

    def seen(self, index: int, part: float, now: float) -> float | None:
        """What is left in seconds, as ``part`` of a pass is done; None while nothing is known."""
        if index != self._index:
            self._index = index
            self._first = self._last = (now, part)
            self._steps = 0
        if part > self._last[1]:
            self._step(part, now)
        if self._seconds is None:
            return None
        at, done = self._last
        weight = self._before[index + 1] - self._before[index]
        left = (self._before[-1] - self._before[index] - weight * done) * self._seconds
        left -= min(now - at, self._pace)
        if self._said is not None and self._said < left <= _SLOWER * self._said:
            return self._said
        self._said = max(0.0, left)
        return self._said

    def _step(self, part: float, now: float) -> None:
        began, before = self._first
        if self._steps == 1:
            began, before = self._first = self._last
        self._steps += 1
        self._last = now, part
        weight = self._before[self._index + 1] - self._before[self._index]
        known = self._seconds is not None and self._steps == 1  # by the pass before
        if now > began and weight and not known:
            self._seconds = (now - began) / ((part - before) * weight)

    @property
    def _pace(self) -> float:
        """Seconds between two steps."""
        return (self._last[0] - self._first[0]) / max(1, self._steps - 1)
