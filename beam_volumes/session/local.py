"""Running a session in this process, without a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from beam_volumes.session.session import Session
from beam_volumes.sweep.resources import release


def run_local(session: Session) -> dict[str, Any]:
    """Run every pass; returns the numbers known at the end, by token.

    Workers are threads: stages release the GIL.
    """
    session.prepare()
    known: dict[str, Any] = {}
    try:
        for index in range(len(session.plan.passes)):
            states = session.merge(index, _sweeps(session, index, known))
            known = session.finish_pass(index, states, known)
    finally:
        release()
    return known


def _sweeps(session: Session, index: int, known: dict[str, Any]) -> Iterator[dict[str, Any]]:
    slabs = iter(range(len(session.plan.passes[index].grid)))
    workers = session.plan.workers
    if workers == 1:
        for i in slabs:
            yield session.slab(index, i, known)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="slab") as pool:
        flying: set[Future[dict[str, Any]]] = set()
        try:
            while True:
                # Slabs are drawn as workers come free: there may be millions.
                while len(flying) < workers and (slab := next(slabs, None)) is not None:
                    flying.add(pool.submit(session.slab, index, slab, known))
                if not flying:
                    return
                done, flying = wait(flying, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        finally:
            for future in flying:
                future.cancel()
