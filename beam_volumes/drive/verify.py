"""`verify`: check a run in threads of this process, or by a pipeline on any runner."""

from __future__ import annotations

import logging
import os
import socket
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

from beam_volumes.drive.local_pipeline import log_tail
from beam_volumes.drive.runner_names import check_runner, is_local
from beam_volumes.drive.supervise import call_supervised
from beam_volumes.graph.keywords import checked_keywords
from beam_volumes.plan.cost.machine import cores
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.runs.console import reporter
from beam_volumes.runs.failure import new_secret
from beam_volumes.runs.journal import Journal
from beam_volumes.runs.progress import Parts, Watch, Work
from beam_volumes.runs.verify import Check, Findings, Verification
from beam_volumes.session.requirements import ASKED, WorkerRequirements

_LOG = logging.getLogger(__name__)

#: Errors with a clear message, for which the log is not needed.
_CLEAR = (ValueError, TypeError, OSError, OverflowError)


@checked_keywords
def verify(
    run: str | os.PathLike[str] | dict[str, Any],
    *,
    checksums: bool = False,
    max_problems: int = 1000,
    runner: Any = None,
    options: Any = None,
    workers: int | None = None,
    journal: Any = None,
    resume: bool = False,
    progress: bool | Callable[..., None] | None = None,
) -> list[str]:
    """Check that a run is complete and that its outputs can be read.

    Use it after a run, or after copying its outputs. Every slab of every pass must have a record.
    Every write unit in a record must exist and be decodable, and units recorded as empty must not
    exist. Tables must have all their shards.

    Parameters
    ----------
    run : str, os.PathLike or dict
        The first output of the run, its folder ``.run``, or the location of the journal, on a disk
        or in a bucket.
    checksums : bool, default: False
        Whether to compare voxels with the checksums that were recorded on writing.
    max_problems : int, default: 1000
        Stop after this many problems.
    runner : str or apache_beam.runners.PipelineRunner, optional
        None checks in threads of this process. ``"FnApiRunner"`` uses a Beam pipeline on this
        machine, and any other Beam runner uses its workers.
    options : PipelineOptions or list of str, optional
        Beam's options, such as ``["--direct_running_mode=multi_processing"]``.
    workers : int, optional
        Number of slabs to check at a time on this machine; by default one for each core.
    journal : str, os.PathLike or dict, optional
        Folder for the findings so far, from which a stopped verification can continue. The folder
        is removed at the end. Defaults to ``verify`` in the run's folder if a runner is given,
        otherwise no journal.
    resume : bool, default: False
        Whether to continue a stopped verification, which must have the same options.
    progress : bool or callable, optional
        Whether to show progress on standard error, or a function to call with the progress, as in
        `compute`.

    Returns
    -------
    list of str
        One line for each problem; empty if there are none.

    Raises
    ------
    FileNotFoundError
        If there is no run at that location.
    ValueError
        If the verification to continue has different options, or a runner cannot reach a location.

    Notes
    -----
    All voxels are read. Nothing from the run is unpickled, so untrusted runs can be verified. Slabs
    are checked separately, with 64 MiB of decoded voxels in memory at a time, or a single larger
    unit.

    Examples
    --------
    >>> import os
    >>> _ = bv.compute(bv.open(np.ones((4, 5, 6), "u1")).to("out.zarr"), runner=None)
    >>> bv.verify("out.zarr")
    []
    >>> os.remove("out.zarr/c/0/0/0")
    >>> print(*bv.verify("out.zarr"))  # doctest: +ELLIPSIS
    pass 1, slab 0 [0:4, 0:5, 0:6]: unit 0 [0:4, 0:5, 0:6] of ...out.zarr is missing
    """
    asked = RunOptions.of(locals(), beam_options=options)
    check = Check.of(run, checksums, max_problems)
    with closing(problems(check, asked)) as found:
        return list(islice(found, max_problems))


def problems(check: Check, options: RunOptions) -> Generator[str, None, None]:
    """Find the problems of a run one by one, in threads or by a pipeline.

    Of ``options``, runner, Beam's options, workers, journal, resume and progress are used.
    """
    if options.runner is None and options.journal is None and not options.resume:
        yield from check.report(_in_threads(check, options, None))
        return
    verification = Verification.of(check, options.journal, options.resume)
    if options.runner is None:
        verification.prepare()
        found = _in_threads(check, options, verification)
    else:
        _by_pipeline(replace(verification, secret=new_secret()), options)
        found = verification.found()
    try:
        with closing(found):  # no thread writes a record after this
            yield from check.report(found)
    except GeneratorExit:  # enough problems
        verification.journal.remove()
        raise
    verification.journal.remove()


def _watch(check: Check, options: RunOptions, followed: Journal | Parts) -> Watch:
    shown = reporter(options.progress) or (lambda _: None)
    return Watch(followed, [Work("verify", len(check))], shown)


def _in_threads(
    check: Check, options: RunOptions, verification: Verification | None
) -> Generator[Findings, None, None]:
    """Check all items in threads; yield their findings in order."""
    own, parts = threading.local(), Parts()
    workers = options.workers or cores()

    def one(index: int) -> Findings:
        if not hasattr(own, "check"):
            own.check = check.alike()
        if verification is None:
            found: Findings = own.check.item(index)
        else:
            found = verification.verify(index, own.check)
        parts.finish(0, index)
        return found

    with _watch(check, options, parts), ThreadPoolExecutor(workers) as pool:
        flying: deque[Future[Findings]] = deque()
        try:
            for index in range(len(check)):
                flying.append(pool.submit(one, index))
                if len(flying) >= 2 * workers:
                    yield flying.popleft().result()
            while flying:
                yield flying.popleft().result()
        finally:
            for future in flying:
                future.cancel()


def _by_pipeline(verification: Verification, options: RunOptions) -> None:
    """Check all items by a pipeline; the findings are in the journal of the verification."""
    check_runner(options.runner)
    with _watch(verification.check, options, verification.journal):
        if not is_local(options.runner):
            from beam_volumes.drive.launch import verify_elsewhere

            verification.journal.mark(ASKED)
            spec = verification.journal.spec
            needs = WorkerRequirements(verification.journal, socket.gethostname(), (spec,), 0)
            verify_elsewhere(verification, options, needs)
            return
        with tempfile.TemporaryFile() as log:
            try:
                call_supervised(
                    partial(_verify_here, verification, options.beam_options, options.workers),
                    watch=lambda: "verify again with resume=True to continue",
                    output=log,
                )
            except _CLEAR:
                raise
            except Exception:
                _LOG.error(
                    "the log of the verification ends with:\n%s",
                    log_tail(log, verification.secret),
                )
                raise


def _verify_here(verification: Verification, options: Any, workers: int | None) -> None:
    from beam_volumes.drive.pipelines import verify_here

    verify_here(verification, options, workers or cores())
