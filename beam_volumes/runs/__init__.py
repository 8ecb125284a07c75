"""Runs: the journal, and what is done with it."""

from beam_volumes.runs.journal import Journal, Tally, run_folder
from beam_volumes.runs.manifest import Difference, Manifest, compare
from beam_volumes.runs.progress import (
    Console,
    OnProgress,
    Progress,
    Watch,
    Work,
    reporter,
)
from beam_volumes.runs.record import Ranges, Record, ranges
from beam_volumes.runs.summary import Summary

__all__ = [
    "Console",
    "Difference",
    "Journal",
    "Manifest",
    "OnProgress",
    "Progress",
    "Ranges",
    "Record",
    "Summary",
    "Tally",
    "Watch",
    "Work",
    "compare",
    "ranges",
    "reporter",
    "run_folder",
]
