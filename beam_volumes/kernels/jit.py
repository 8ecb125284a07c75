"""How every kernel is compiled: one decorator, so that one place decides.

Never ``fastmath``: a result must be the same sequence of IEEE operations on every CPU.
Signatures are left open: a kernel is compiled for the dtypes it meets, and kept on disk (`kernels.cache`).
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
    """Return a decorator that compiles a function with these options and keeps the result on disk."""

    def compile_and_keep(function: Callable[..., Any]) -> Any:
        dispatcher: Any = numba.njit(nogil=True, error_model="numpy", **options)(function)
        if not config.DISABLE_JIT:
            dispatcher._cache = KernelCache(dispatcher)
        return dispatcher

    return compile_and_keep


kernel = _compiled(boundscheck=False)
#: For what is called row by row. It owns nothing, so that a view of a row costs no counting of references,
#: which is an atomic operation. It can neither allocate nor call what returns an array.
owning_nothing: Any = {"_nrt": False}
row_kernel = _compiled(boundscheck=False, **owning_nothing)
#: For what is made while we run, of functions of users: not kept on disk, and no index goes astray.
made_kernel: Any = numba.njit(nogil=True, boundscheck=False, error_model="numpy")
user_function: Any = numba.njit(nogil=True, boundscheck=True, error_model="numpy")


def load_compiler() -> None:
    """Load what numba otherwise imports when a process meets its first kernel."""
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()


@dataclass(frozen=True)
class Compiled:
    """A kernel that was compiled for some types, because it was not on disk."""

    name: str
    types: str  #: Of its arguments.
    seconds: float  #: With those that it calls.


@contextmanager
def compilations(
    on_compile: Callable[[str | None], None] | None = None,
) -> Iterator[list[Compiled]]:
    """What this process compiles while the context lasts, in a list that grows.

    ``on_compile`` is called with the kernel's name when compilation begins, and with None when it ends.

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
        if not self.begun:  # it began, in another thread, before this listener was there
            return
        seconds = time.perf_counter() - self.begun.pop()
        if not self.begun:  # else a part of another
            types = ", ".join(map(str, event.data["args"]))
            self.found.append(Compiled(_name(event), types, seconds))
            if self.on_compile is not None:
                self.on_compile(None)


def _name(event: Any) -> str:
    return str(event.data["dispatcher"].py_func.__name__)


def processor() -> str:
    """The processor that kernels are compiled for: only there will those kept on disk be used."""
    return os.environ.get("NUMBA_CPU_NAME") or str(binding.get_host_cpu_name())
