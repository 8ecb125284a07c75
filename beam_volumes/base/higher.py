"""Functions of higher layers that methods of lower layers call.

Imports point downward, so `graph` cannot import the operations behind ``v.mean()``. Each protocol
declares functions that a lower layer calls. `beam_volumes.providers` provides the module with these
functions, and imports it on first use: opening a volume imports neither operations nor runners.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

T = TypeVar("T")


class Provided(Generic[T]):
    """Functions that a higher layer provides; a call returns them.

    >>> import math
    >>> numbers = Provided()
    >>> numbers.provide(lambda: math)
    >>> numbers().sqrt(4)
    2.0
    """

    def __init__(self) -> None:
        self._load: Callable[[], T] | None = None

    def provide(self, load: Callable[[], T]) -> None:
        """Set the function that imports and returns the functions."""
        self._load = load

    def __call__(self) -> T:
        assert self._load is not None, "beam_volumes.providers has not been imported"
        return self._load()


if TYPE_CHECKING:  # every import of the package loads this module
    from typing import Protocol

    class Operations(Protocol):
        """The operations that methods of volumes and numbers call."""

        def reduced(
            self,
            name: str,
            volume: Any,
            axis: Any,
            dtype: Any,
            out: Any,
            keepdims: bool,
            /,
            **how: Any,
        ) -> Any: ...
        def stepped(self, volume: Any, steps: Sequence[int], /) -> Any: ...
        def downsample(self, volume: Any, factors: Any, method: str, /) -> Any: ...
        def cumsum(self, volume: Any, axis: int, /) -> Any: ...
        def transpose(self, volume: Any, axes: Any = None, /) -> Any: ...
        def call_function(
            self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], /
        ) -> Any: ...

    class Arithmetic(Protocol):
        """The ufuncs that operators call."""

        def call_ufunc(
            self, item: Any, ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: Any, /
        ) -> Any: ...

    class Driver(Protocol):
        """The functions that compute expressions."""

        def compute(self, *targets: Any, **options: Any) -> Any: ...
        def in_process(self, item: Any, /) -> Any: ...

    class Profile(Protocol):
        """The measurements that the explanation of a plan shows."""

        def census(self, plan: Any, /) -> dict[str, str]: ...

    class Explanation(Protocol):
        """The text that describes a plan."""

        def explained(
            self, plan: Any, timed: bool, verbose: bool, census: dict[str, str], /
        ) -> str: ...

    class Notebook(Protocol):
        """The display of volumes, plans and tables in notebooks."""

        def html(self, item: Any, /) -> str: ...


operations: Provided[Operations] = Provided()
arithmetic: Provided[Arithmetic] = Provided()
driver: Provided[Driver] = Provided()
profile: Provided[Profile] = Provided()
explanation: Provided[Explanation] = Provided()
notebook: Provided[Notebook] = Provided()


def html_of(item: Any) -> str | None:
    """Return the HTML of a volume, plan or table for notebooks; None if it cannot be drawn."""
    try:
        return notebook().html(item)
    except Exception:
        return None
