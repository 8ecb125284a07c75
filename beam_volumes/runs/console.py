"""Show the progress of a run: a tqdm bar on a terminal and in a notebook, lines elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TextIO

from beam_volumes.base.text import format_duration, printable
from beam_volumes.runs.progress import OnProgress, Parts, Progress, Watch, Work

#: Seconds without a slab until a possible reason is shown.
_PATIENCE = 3.0
#: Seconds until a bar is shown, if the user did not ask for one.
_SHORT = 1.0
#: Seconds until the first line without a terminal, if the user did not ask for progress.
_SILENT = 5.0


class Lines:
    """Writes a line from time to time and at the end of each pass, without a terminal.

    ``after``: seconds from now without any line.
    """

    def __init__(
        self, stream: TextIO | None = None, *, every: float = 10.0, after: float = 0.0
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._every = every
        self._last = time.monotonic()
        self._from = self._last + after

    def __call__(self, progress: Progress) -> None:
        if time.monotonic() < self._from:
            return
        if progress.finished or time.monotonic() - self._last >= self._every:
            self._last = time.monotonic()
            self._stream.write(f"{title(progress)} {state(progress)}\n")
            self._stream.flush()


class Bar:
    """A tqdm bar for each pass, on a terminal or in a notebook.

    ``after``: seconds from now without a bar; shorter runs show none.
    """

    def __init__(self, stream: TextIO | None = None, *, after: float = 0.0) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._from = time.monotonic() + after
        self._bar: Any = None
        self._index = -1

    def __call__(self, progress: Progress) -> None:
        if self._index < 0 and time.monotonic() < self._from:
            return
        if self._bar is None or self._index != progress.index:
            self.close()
            self._index = progress.index
            self._bar = _tqdm(progress, self._stream)
        done = min(progress.total, progress.done + progress.under_way)
        self._bar.n = progress.total if progress.finished else round(done, 3)
        self._bar.ncols = _columns()
        self._bar.unit = state(progress)  # the only field of a bar that accepts any text
        self._bar.refresh()
        if progress.finished:
            self.close()

    def close(self) -> None:
        """Leave the bar as it is."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def reporter(progress: bool | OnProgress | None) -> OnProgress | None:
    """The callback for a ``progress=`` argument; None shows nothing."""
    # True shows a bar on a terminal and in a notebook, and lines elsewhere. None does the same for longer
    # runs.
    if callable(progress):
        return progress
    looked_at = sys.stderr.isatty() or in_notebook()
    if progress:
        return Bar() if looked_at else Lines()
    if progress is not None:
        return None
    return Bar(after=_SHORT) if looked_at else Lines(after=_SILENT)


@contextmanager
def shown_progress(
    name: str, parts: int, unit: str, progress: bool | OnProgress | None
) -> Iterator[Callable[[], None]]:
    """Show progress of work of this process; the block calls the result after each part, in any thread.

    >>> with shown_progress("register_slices", 2, "slices", lambda p: print(p.done, p.unit)) as finished:
    ...     for _ in range(2):
    ...         finished()
    2 slices
    """
    done = Parts()
    with Watch(done, [Work(name, parts, unit=unit)], reporter(progress)):
        yield partial(done.finish, 0, 0)


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    try:
        return "IPKernelApp" in sys.modules["IPython"].get_ipython().config  # type: ignore[attr-defined]
    except (KeyError, AttributeError):
        return False


def _tqdm(p: Progress, stream: TextIO) -> Any:
    """A bar for a pass; in a notebook without ipywidgets it consists of characters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tqdm warns of missing widgets
        from tqdm.auto import tqdm
    return tqdm(
        total=max(1, p.total),
        desc=title(p),
        unit=state(p),
        file=stream,
        bar_format="{desc} {percentage:3.0f}%|{bar}| {unit}",
        ncols=_columns(),
        nrows=24,  # some terminals report 0 rows
        miniters=0,
        mininterval=0,
    )


def _columns() -> int | None:
    """The width of a bar: one less than the terminal's; None in a notebook."""
    return None if in_notebook() else shutil.get_terminal_size().columns - 1


def title(p: Progress) -> str:
    """The name of the pass."""
    return f"pass {p.index + 1}/{p.passes} {printable(p.name)}"


def state(p: Progress) -> str:
    """The progress of a pass, in words."""
    parts = [f"{p.done}/{p.total} {p.unit}"]
    if p.compiling is not None:
        c = p.compiling
        before = f"{c.kernels} kernel{'' if c.kernels == 1 else 's'} so far, {format_duration(c.seconds)}"
        parts.append(f"compiling {c.kernel.lstrip('_')} ({before})")
    elif p.unit == "slabs" and not p.done and not p.under_way and p.seconds >= _PATIENCE:
        parts.append("starting" if p.compiling_is_known else "starting, or compiling kernels")
    if p.bytes_per_second:
        parts.append(f"{p.bytes_per_second / 1e6:,.0f} MB/s")
    if p.finished:
        parts.append(f"{format_duration(p.seconds)}")
    elif p.eta is not None and p.compiling is None:
        parts.append(f"{format_duration(p.eta)} left")
    return ", ".join(parts)
