"""An expansion service, which expands transforms for other SDKs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import apache_beam as beam
import grpc
from apache_beam.coders import RowCoder
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions
from apache_beam.portability import common_urns
from apache_beam.portability.api import (
    beam_artifact_api_pb2_grpc,
    beam_expansion_api_pb2,
    beam_expansion_api_pb2_grpc,
    beam_fn_api_pb2_grpc,
    external_transforms_pb2,
)
from apache_beam.runners.portability.expansion_service import ExpansionServiceServicer
from apache_beam.typehints.schemas import named_tuple_to_schema
from apache_beam.utils import thread_pool_executor

from beam_volumes.base.text import nearest
from beam_volumes.drive.worker_pool import Pool
from beam_volumes.expansion.catalogue import CATALOGUE, plain, urn_of

_BY_URN = {urn_of(name): (name, found) for name, found in CATALOGUE.items()}


def configured(payload: Any) -> beam.PTransform:
    """Return the transform that a client requests and configures by a row."""
    urn = payload.identifier
    if urn not in _BY_URN:
        raise ValueError(
            f"there is no {urn!r}{nearest(urn, _BY_URN)}; there are {', '.join(_BY_URN)}"
        )
    name, transform = _BY_URN[urn]
    row = RowCoder(payload.configuration_schema).decode(payload.configuration_row)
    return transform.configured(name, {k: plain(v) for k, v in row._asdict().items()})


@beam.PTransform.register_urn(
    common_urns.schematransform_based_expand.urn, external_transforms_pb2.SchemaTransformPayload
)
def _from_payload(proto: Any, payload: Any, context: Any) -> beam.PTransform:
    return configured(payload)


class Service(ExpansionServiceServicer):
    """Beam's service, extended by our SchemaTransforms and restricted to them."""

    def DiscoverSchemaTransform(self, request: Any, context: Any = None) -> Any:
        """List the transforms and the fields of their configurations."""
        configs = {
            urn: beam_expansion_api_pb2.SchemaTransformConfig(
                config_schema=named_tuple_to_schema(found.config),
                input_pcollection_names=[found.takes] if found.takes else [],
                output_pcollection_names=found.gives,
                description=found.description,
            )
            for urn, (_, found) in _BY_URN.items()
        }
        return beam_expansion_api_pb2.DiscoverSchemaTransformResponse(
            schema_transform_configs=configs
        )

    def Expand(self, request: Any, context: Any = None) -> Any:
        """Expand a transform; only ours are allowed, which run no code of the client."""
        if request.transform.spec.urn != common_urns.schematransform_based_expand.urn:
            refusal = (
                f"{request.transform.spec.urn!r} is not served here, only these SchemaTransforms: "
            )
            return beam_expansion_api_pb2.ExpansionResponse(error=f"{refusal}{', '.join(_BY_URN)}")
        return super().Expand(request, context)


@contextmanager
def serving(
    port: int, host: str = "localhost", options: Sequence[str] = ()
) -> Iterator[tuple[int, bool]]:
    """Run an expansion service at a port (0 chooses a free one) within the context.

    Yields the port, and whether it also starts workers: not if ``options`` set ``environment_type``.
    """
    pipeline_options = PipelineOptions([*options, "--sdk_location=container"])
    server = grpc.server(thread_pool_executor.shared_unbounded_instance())
    try:
        bound = server.add_insecure_port(f"{host}:{port}")
    except RuntimeError as error:
        raise OSError(
            f"port {port} of {host} is in use or not permitted; choose another --port ({error})"
        ) from None
    pool = None
    portable = pipeline_options.view_as(PortableOptions)
    if portable.environment_type is None:
        pool = Pool()
        beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(pool, server)
        portable.environment_type = "EXTERNAL"
        portable.environment_config = f"{host}:{bound}"
    service = Service(pipeline_options)
    beam_expansion_api_pb2_grpc.add_ExpansionServiceServicer_to_server(service, server)
    beam_artifact_api_pb2_grpc.add_ArtifactRetrievalServiceServicer_to_server(
        service.artifact_service(), server
    )
    server.start()
    try:
        yield bound, pool is not None
    finally:
        server.stop(grace=None).wait()
        if pool is not None:
            pool.close()
