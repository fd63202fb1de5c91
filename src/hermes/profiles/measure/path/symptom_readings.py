"""Declares the reading of the critical path that symptoms of cases compare."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.host_work import CHECKPOINT
from hermes.knowledge.host_work import REASONS as _REASONS
from hermes.model.job import JobMeasures
from hermes.model.path_measures import PathShare
from hermes.model.symptom import Value, reading

REASONS = tuple(dict.fromkeys((*_REASONS, CHECKPOINT)))
"""Reasons of host time that a reading can name."""


@reading("path.host_share", "what the host did on the critical path", "critical_path[].share", of=REASONS)
def _on_path(measures: JobMeasures, of: str) -> Iterator[Value]:
    """The host's share on the first critical path, which is the slowest rank's."""
    rows = measures.rows(PathShare)
    first = [row for row in rows if (row.rank, row.step, row.across) == (rows[0].rank, rows[0].step, rows[0].across)]
    if rows:
        yield sum(row.share for row in first if (row.component, row.reason) == ("host", of))
