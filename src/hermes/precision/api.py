"""What others may use of this wing; each name is imported when it is first used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hermes.base.lazy import names_of

if TYPE_CHECKING:
    from hermes.precision import golden as golden
    from hermes.precision import launch as launch
    from hermes.precision.check.api import Difference as Difference
    from hermes.precision.check.api import check as check
    from hermes.precision.check.api import check_document as check_document
    from hermes.precision.check.api import check_text as check_text
    from hermes.precision.compare import Comparison as Comparison
    from hermes.precision.compare import compare as compare
    from hermes.precision.document import document as document
    from hermes.precision.document import overview as overview
    from hermes.precision.document import rows as rows
    from hermes.precision.document import text as text
    from hermes.precision.replay import Replay as Replay
    from hermes.precision.replay import replay as replay
    from hermes.precision.write import write as write
    from hermes.precision.write import write_columns as write_columns

_HOMES = {
    "Comparison": "hermes.precision.compare",
    "Difference": "hermes.precision.check.api",
    "Replay": "hermes.precision.replay",
    "check": "hermes.precision.check.api",
    "check_document": "hermes.precision.check.api",
    "check_text": "hermes.precision.check.api",
    "compare": "hermes.precision.compare",
    "document": "hermes.precision.document",
    "golden": "hermes.precision.golden",
    "launch": "hermes.precision.launch",
    "overview": "hermes.precision.document",
    "replay": "hermes.precision.replay",
    "rows": "hermes.precision.document",
    "text": "hermes.precision.document",
    "write": "hermes.precision.write",
    "write_columns": "hermes.precision.write",
}

__getattr__ = names_of(__name__, _HOMES)


def steps(path: Path) -> tuple[tuple[int, int], ...]:
    """Rank and step of all that a recording holds."""
    from hermes.precision.compare import read

    return read(path).steps
