"""What became of elements, for a driver that no runner hands results to: each leaves a file."""

from __future__ import annotations

import pickle
from typing import Any

import apache_beam as beam

from beam_volumes.storage.places.place import Place
from beam_volumes.sweep.stage import digest
from beam_volumes.transforms.failures import Failed


class Report(beam.DoFn):
    """Write what `ComputeAll` gave for a path, or its failure, to a place that the driver can read."""

    def __init__(self, place: str):
        self.place = place

    def process(self, element: tuple[str, dict[str, Any]] | Failed) -> None:
        told: tuple[str, dict[str, Any], str | None]
        if isinstance(element, Failed):
            told = (element.volume, {}, element.message)
        else:
            told = (*element, None)
        place, name = Place.of(self.place), f"{digest(told[0])}.pickle"
        place.write(name, pickle.dumps(told, protocol=5))


def read_reports(place: str) -> dict[str, tuple[dict[str, Any], str | None]]:
    """By path, an element's results and its error."""
    where = Place.of(place)
    found = {}
    for data in where.read_many([n for n in where.names() if n.endswith(".pickle")]):
        if data is not None:
            path, results, error = pickle.loads(data)
            found[path] = (results, error)
    return found
