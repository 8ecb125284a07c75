"""What a runner stores between the steps of a pipeline, as Beam's own fuser decides it."""

import apache_beam as beam
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.worker import bundle_processor
from apache_beam.transforms.environments import EmbeddedPythonEnvironment


def stored_slabs(pipeline):
    """Names of steps with slabs that a runner stores: before a shuffle, a flatten or a side input.

    A collection of ours without a type counts, too: it may be of slabs.
    """
    environment = EmbeddedPythonEnvironment.default()
    proto, context = pipeline.to_runner_api(return_context=True, default_environment=environment)
    _, stages = FnApiRunner().create_stages(proto)
    found = set()
    for step in (step for stage in stages for step in stage.transforms):
        if step.spec.urn == bundle_processor.DATA_OUTPUT_URN:
            (name,) = step.inputs.values()
            if name in context.pcollections.get_id_to_proto_map():
                collection = context.pcollections.get_by_id(name)
                kind = collection.element_type
                is_unknown = kind in (None, beam.typehints.Any) and is_ours(collection.producer)
                if is_unknown or ".Slab'" in str(kind).replace("SlabKey", ""):
                    found.add(f"{collection.producer.full_label}: {kind}")
    return found


def is_ours(step):
    """Whether a step is part of a transform of this package."""
    while step is not None:
        if type(step.transform).__module__.startswith("beam_volumes."):
            return True
        step = step.parent
    return False


def recording(monkeypatch):
    """From now on, what `stored_slabs` finds in each pipeline of this process that is run: a list of sets."""
    run, found = FnApiRunner.run_pipeline, []

    def recorded(self, pipeline, options):
        found.append(stored_slabs(pipeline))
        return run(self, pipeline, options)

    monkeypatch.setattr(FnApiRunner, "run_pipeline", recorded)
    return found
