"""The names of the precision package that other packages may use; each is imported when first used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hermes.base.lazy_imports import lazy_names

if TYPE_CHECKING:
    from hermes.precision import golden as golden
    from hermes.precision import launch_recording as launch_recording
    from hermes.precision import messages as messages
    from hermes.precision import recording_notes as recording_notes
    from hermes.precision.check.api import Check as Check
    from hermes.precision.check.api import check as check
    from hermes.precision.check.setup_differences import Difference as Difference
    from hermes.precision.compare import Comparison as Comparison
    from hermes.precision.compare import compare as compare
    from hermes.precision.document import document as document
    from hermes.precision.document import overview as overview
    from hermes.precision.document import part_of as part_of
    from hermes.precision.messages import Deviation as Deviation
    from hermes.precision.replay import Replay as Replay
    from hermes.precision.replay import replay as replay
    from hermes.precision.write import csv_of as csv_of
    from hermes.precision.write import operators_table as operators_table
    from hermes.precision.write import write_columns as write_columns

_HOMES = {
    "Check": "hermes.precision.check.api",
    "Comparison": "hermes.precision.compare",
    "Deviation": "hermes.precision.messages",
    "Difference": "hermes.precision.check.setup_differences",
    "Replay": "hermes.precision.replay",
    "check": "hermes.precision.check.api",
    "compare": "hermes.precision.compare",
    "document": "hermes.precision.document",
    "golden": "hermes.precision.golden",
    "launch_recording": "hermes.precision.launch_recording",
    "messages": "hermes.precision.messages",
    "recording_notes": "hermes.precision.recording_notes",
    "overview": "hermes.precision.document",
    "part_of": "hermes.precision.document",
    "replay": "hermes.precision.replay",
    "csv_of": "hermes.precision.write",
    "operators_table": "hermes.precision.write",
    "write_columns": "hermes.precision.write",
}

__getattr__ = lazy_names(__name__, _HOMES)


def steps(path: Path) -> tuple[tuple[int, int], ...]:
    """The rank and step of each step in a recording."""
    from hermes.precision.compare import read

    return read(path).steps
