"""A pool of worker processes for runners with ``EXTERNAL`` environments.

It differs from Beam's ``apache_beam.runners.worker.worker_pool_main``:

- Several TaskManagers may share a pool. Runners number their workers separately. Beam's pool stops
  the worker that was last started with a number, which may belong to another runner. Here workers
  end when their runner disconnects, also if it was killed.
- Workers may print. Beam's pool gives them a pipe that no process reads: a worker that fills it
  blocks.
- Flink starts new workers for every stage, and each needs seconds for imports. Here they are forked
  from a process that has imported everything and opened nothing (`drive.fork_server`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import grpc
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from apache_beam.utils import thread_pool_executor

from beam_volumes.drive.supervise import Child, kill_group, start


class Pool(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    """Starts a worker process when a runner requests one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._workers: list[tuple[Child, Connection]] = []

    def StartWorker(self, request: Any, context: Any) -> Any:
        """Start a worker that gets its work from the requesting runner."""
        self._end(lambda worker: worker.poll() is not None)
        try:
            worker = start(partial(_work, request.control_endpoint.url, request.worker_id))
        except OSError as error:
            return beam_fn_api_pb2.StartWorkerResponse(error=str(error))
        with self._lock:
            self._workers.append(worker)
        return beam_fn_api_pb2.StartWorkerResponse()

    def StopWorker(self, request: Any, context: Any) -> Any:
        """Do nothing: the worker ends by itself, and another may have the same number."""
        return beam_fn_api_pb2.StopWorkerResponse()

    def close(self) -> None:
        self._end(lambda worker: True)

    def _end(self, which: Callable[[Child], bool]) -> None:
        with self._lock:
            for worker, connection in [w for w in self._workers if which(w[0])]:
                self._workers.remove((worker, connection))
                connection.close()
                kill_group(worker)


def _work(address: str, number: str) -> None:
    from apache_beam.runners.worker.sdk_worker import SdkHarness

    SdkHarness(address, worker_id=number).run()


@contextmanager
def serving(port: int, host: str = "localhost") -> Iterator[int]:
    """Run a pool at a port (0 for any free one) while the context lasts.

    >>> with serving(0) as port:
    ...     print(port > 0)
    True
    """
    pool = Pool()
    # A worker stays connected while it has work: pings keep the channel open.
    options = [("grpc.http2.max_pings_without_data", 0), ("grpc.http2.max_ping_strikes", 0)]
    server = grpc.server(thread_pool_executor.shared_unbounded_instance(), options=options)
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(pool, server)
    try:
        bound = server.add_insecure_port(f"{host}:{port}")
    except RuntimeError as error:
        raise OSError(
            f"port {port} of {host} is in use or not permitted ({error}); choose another"
        ) from None
    server.start()
    try:
        yield bound
    finally:
        server.stop(grace=None).wait()
        pool.close()
