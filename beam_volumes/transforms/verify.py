"""The verification of a run as Beam steps: items are spread over the workers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsIter
from apache_beam.typehints import Dict

from beam_volumes.runs.failure import errors_as_data
from beam_volumes.runs.verify import Verification
from beam_volumes.transforms.passes import spread


def build(
    pipeline: beam.Pipeline, verification: Verification, ready: beam.PCollection | None = None
) -> None:
    """Make the steps of a verification; the findings are in its journal.

    ``ready``: the first step waits until this is complete.
    """
    wait = {} if ready is None else {"ready": AsIter(ready)}
    prepare = beam.Map(_prepare, verification, **wait).with_output_types(Dict[str, Any])
    prepared = pipeline | "Ask for all" >> beam.Impulse() | "Prepare" >> prepare
    items = spread(prepared, len(verification.check))
    _ = items | "Verify" >> beam.ParDo(_Verify(verification))


def _prepare(_: Any, verification: Verification, ready: Any = None) -> dict[str, Any]:
    with errors_as_data(verification.secret):
        verification.prepare()
    return {}


class _Verify(beam.DoFn):
    """Checks an item and records its findings."""

    def __init__(self, verification: Verification):
        self.verification = verification

    def setup(self) -> None:
        self.check = self.verification.check.alike()

    def process(self, item: tuple[tuple[int], Any]) -> Iterable[Any]:
        with errors_as_data(self.verification.secret):
            self.verification.verify(item[0][0], self.check)
        return ()
