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
from numba.core import event, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, compile_result
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined]
from numba.core.registry import CPUDispatcher, cpu_target

from beam_volumes.kernels.cache import KernelCache, config


class _CalleeLibrary(JITCodeLibrary):
    """Code that only becomes machine code as a part of its callers."""

    def _optimize_final_module(self) -> None:
        """Do nothing: callers are optimized with all that they call."""

    def _finalize_final_module(self) -> None:
        self._finalized = True

    def serialize_using_object_code(self) -> Any:
        return self.serialize_using_bitcode()


class _CalleeCache(KernelCache):
    @staticmethod
    def _rebuild(target_context: Any, code: Any, fndesc: Any, env: Any, sig: Any, *_: Any) -> Any:
        library = _CalleeLibrary(target_context.codegen(), code[0])
        library._final_module = binding.parse_bitcode(code[-1])
        library._finalize_final_module()
        return compile_result(
            target_context=target_context, typing_context=target_context.typing_context,
            entry_point=object(), fndesc=fndesc, environment=env, signature=sig, library=library,
        )  # fmt: skip


class _CalleePipeline(Compiler):
    def __init__(self, typingctx: Any, targetctx: Any, library: Any, *rest: Any) -> None:
        library = library or _CalleeLibrary(targetctx.codegen(), "callee")
        super().__init__(typingctx, targetctx, library, *rest)


class _Callee(CPUDispatcher):
    """A kernel as other kernels see it: without machine code, and without a way to call it from Python."""

    def __init__(self, py_func: Any, targetoptions: Any) -> None:
        options = {**targetoptions, "no_cpython_wrapper": True}
        super().__init__(py_func, targetoptions=options, pipeline_class=_CalleePipeline)
        self._compiler = _CalleeCompiler(
            py_func, self.targetdescr, options, self.locals, _CalleePipeline
        )

    def add_overload(self, cres: Any) -> None:
        self.overloads[tuple(cres.signature.args)] = cres


class _CalleeCompiler(_FunctionCompiler):
    def _customize_flags(self, flags: Any) -> Any:
        flags.no_compile = True
        return flags

    def compile(self, args: Any, return_type: Any) -> Any:
        found = super().compile(args, return_type)
        # Numba finds the code by its entry point. Only Python would call it.
        found = found._replace(entry_point=object())
        context = self.targetdescr.target_context
        context.insert_user_function(found.entry_point, found.fndesc, [found.library])
        return found


class _Kernel(CPUDispatcher):
    """A function with machine code for the types with which Python calls it."""

    # Numba makes machine code of every function that it compiles, also of those that only other compiled
    # functions call, and optimizes their code again for each level of calls.

    def __init__(self, py_func: Any, locals: Any = None, targetoptions: Any = None) -> None:
        super().__init__(py_func, locals, targetoptions)
        self._callee = _Callee(py_func, targetoptions)

    @property
    def _numba_type_(self) -> Any:
        return types.Dispatcher(self._callee)

    def add_overload(self, cres: Any) -> None:
        super().add_overload(cres)
        for (
            env
        ) in cres._find_referenced_environments():  # of callees, which errors with values need
            cres.codegen.set_env(env.env_name, env)


def _compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles functions with these options and caches them on disk."""
    options |= {
        "nopython": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True
    }  # fmt: skip

    def compile_and_keep(function: Callable[..., Any]) -> Any:
        if config.DISABLE_JIT:
            return function
        dispatcher: Any = _Kernel(function, targetoptions=options)
        dispatcher._cache = KernelCache(dispatcher)
        dispatcher._callee._cache = _CalleeCache(dispatcher._callee)
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
    """Load the modules that numba otherwise imports to compile the first kernel."""
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
