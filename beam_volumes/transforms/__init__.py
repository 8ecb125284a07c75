"""Apache Beam transforms: whole plans, and single steps on slabs of a volume."""

import logging
from contextlib import contextmanager


@contextmanager
def _without_message(text):
    """Suppress a log message of an imported module, and undo its changes to the root logger."""
    root = logging.getLogger()
    handlers = root.handlers[:]

    def other(record):
        return text not in record.getMessage()

    root.addFilter(other)
    try:
        yield
    finally:
        root.removeFilter(other)
        for handler in root.handlers[:]:
            if handler not in handlers and type(handler) is logging.StreamHandler:
                root.removeHandler(handler)  # added by Beam to log the message


# Without Google Cloud's packages, Beam logs a message on every import.
with _without_message("apitools not found"):
    import apache_beam  # noqa: F401

from beam_volumes.transforms.compute import Compute  # noqa: E402
from beam_volumes.transforms.compute_all import ComputeAll  # noqa: E402
from beam_volumes.transforms.failures import Failed  # noqa: E402
from beam_volumes.transforms.slab import Slab, SlabKey  # noqa: E402
from beam_volumes.transforms.steps.components import (  # noqa: E402
    LabelComponents,
    LabelSlabs,
    MergeEquivalences,
    RelabelSlabs,
)
from beam_volumes.transforms.steps.grids import SlabGrid  # noqa: E402
from beam_volumes.transforms.steps.measure import MeasureSlabs, RegionTable  # noqa: E402
from beam_volumes.transforms.steps.predict import Predict  # noqa: E402
from beam_volumes.transforms.steps.read_all import ReadAll  # noqa: E402
from beam_volumes.transforms.steps.register import RegisterSlices, RegisterTiles  # noqa: E402
from beam_volumes.transforms.steps.scan import SlabScan  # noqa: E402
from beam_volumes.transforms.steps.slabs import ApplyStages, ReadSlabs  # noqa: E402
from beam_volumes.transforms.steps.watch import WatchSlices  # noqa: E402
from beam_volumes.transforms.steps.write import WriteSlabs  # noqa: E402

__all__ = [
    "ApplyStages",
    "Compute",
    "ComputeAll",
    "Failed",
    "LabelComponents",
    "LabelSlabs",
    "MeasureSlabs",
    "MergeEquivalences",
    "Predict",
    "ReadAll",
    "ReadSlabs",
    "RegionTable",
    "RegisterSlices",
    "RegisterTiles",
    "RelabelSlabs",
    "Slab",
    "SlabGrid",
    "SlabKey",
    "SlabScan",
    "WatchSlices",
    "WriteSlabs",
]
