"""Runs: the journal, progress, summaries and verification."""

from beam_volumes.runs.console import Bar, Lines, reporter
from beam_volumes.runs.journal import Journal, Tally, run_folder
from beam_volumes.runs.manifest import Difference, Manifest, compare
from beam_volumes.runs.progress import (
    OnProgress,
    Progress,
    Watch,
    Work,
)
from beam_volumes.runs.record import Ranges, Record, ranges
from beam_volumes.runs.summary import Summary

__all__ = [
    "Bar",
    "Difference",
    "Journal",
    "Lines",
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
