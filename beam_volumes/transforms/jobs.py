"""A job that a runner has taken, followed by its journal until it ends."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from typing import Any

from apache_beam.runners.runner import PipelineResult

from beam_volumes.runs import Journal
from beam_volumes.runs.failure import revived
from beam_volumes.storage.places.place import is_local

_LOG = logging.getLogger(__name__)


@contextlib.contextmanager
def cancelled_if_hopeless(job: PipelineResult, journal: Journal, launch: str) -> Iterator[None]:
    """Cancel a job as soon as its journal says what all attempts fail of, and raise that.

    The runner knows nothing of it, and would try as often as it is set to.
    """
    ended = threading.Event()
    found: list[dict[str, Any]] = []

    def look() -> bool:
        with contextlib.suppress(OSError, ValueError):  # a storage may not answer for a while
            failure = journal.failure(launch)
            found.extend([] if failure is None else [failure])
        return bool(found)

    def follow() -> None:
        while not ended.wait(1.0 if is_local(journal.spec) else 10.0):
            if look():
                try:
                    job.cancel()
                except Exception as error:  # not every runner can
                    _LOG.warning("the job cannot be cancelled, and is tried in vain: %s", error)
                return

    follower = threading.Thread(target=follow, name="bv-failures", daemon=True)
    follower.start()
    try:
        yield
    except Exception:
        if look():
            raise revived(found[0])  # noqa: B904  # its cause is in the worker
        raise
    finally:
        ended.set()
        follower.join()
    if found:
        raise revived(found[0])
