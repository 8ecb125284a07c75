"""Decorators that compile all kernels.

``fastmath`` is never used: a result is the same sequence of IEEE operations on every CPU. Kernels are
compiled for the dtypes of their arguments on first use, and cached on disk (`kernels.cache`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numba
from llvmlite import binding
from numba.core import event
from numba.core.registry import cpu_target

from beam_volumes.kernels.cache import KernelCache, config


def _compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles functions with these options and caches them on disk."""

    def compile_and_keep(function: Callable[..., Any]) -> Any:
        dispatcher: Any = numba.njit(nogil=True, error_model="numpy", **options)(function)
        if not config.DISABLE_JIT:
            dispatcher._cache = KernelCache(dispatcher)
        return dispatcher

    return compile_and_keep


kernel = _compiled(boundscheck=False)
#: For functions called for every row. Without reference counting, a view of a row needs no atomic operations.
#: Such functions can neither allocate nor call functions that return arrays.
owning_nothing: Any = {"_nrt": False}
row_kernel = _compiled(boundscheck=False, **owning_nothing)
#: For functions of users: not cached on disk, and indices are checked.
made_kernel: Any = numba.njit(nogil=True, boundscheck=False, error_model="numpy")
user_function: Any = numba.njit(nogil=True, boundscheck=True, error_model="numpy")


def load_compiler() -> None:
    """Load the modules that numba otherwise imports with the first kernel."""
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()


@dataclass(frozen=True)
class Compiled:
    """A kernel that was compiled for some types because it was not on disk."""

    name: str
    types: str  #: Types of its arguments.
    seconds: float  #: Includes functions that it calls.


@contextmanager
def compilations(
    on_compile: Callable[[str | None], None] | None = None,
) -> Iterator[list[Compiled]]:
    """Collect the compilations of this process in a list, while the context lasts.

    ``on_compile`` is called with the kernel's name at the start, and with None at the end.

    >>> @numba.njit
    ... def twice(x):
    ...     return x + x
    >>> with compilations() as found:
    ...     _ = twice(np.float32(1)), twice(np.float32(2))
    >>> [(c.name, c.types) for c in found]
    [('twice', 'float32')]
    """
    found: list[Compiled] = []
    with event.install_listener("numba:compile", _Listener(found, on_compile)):
        yield found


class _Listener(event.Listener):
    def __init__(self, found: list[Compiled], on_compile: Callable[[str | None], None] | None):
        self.found, self.on_compile = found, on_compile
        self.begun: list[float] = []

    def on_start(self, event: Any) -> None:
        self.begun.append(time.perf_counter())
        if self.on_compile is not None and len(self.begun) == 1:
            self.on_compile(_name(event))

    def on_end(self, event: Any) -> None:
        if not self.begun:  # it started in another thread before this listener existed
            return
        seconds = time.perf_counter() - self.begun.pop()
        if not self.begun:  # otherwise it is part of another compilation
            types = ", ".join(map(str, event.data["args"]))
            self.found.append(Compiled(_name(event), types, seconds))
            if self.on_compile is not None:
                self.on_compile(None)


def _name(event: Any) -> str:
    return str(event.data["dispatcher"].py_func.__name__)


def processor() -> str:
    """The processor that kernels are compiled for; other processors do not use its cache entries."""
    return os.environ.get("NUMBA_CPU_NAME") or str(binding.get_host_cpu_name())
