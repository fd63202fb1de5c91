"""Checks whether the profiler's own split of steps agrees with the tasks in the capture."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hermes.base.errors import Diagnostic
from hermes.base.units import duration
from hermes.model.step_measures import AscendSplit
from hermes.profiles import messages

# On real captures, the profiler's split and the tasks agree to a quarter of a microsecond.
_BEYOND = 0.05
_PARTS: tuple[tuple[str, Callable[[AscendSplit], int]], ...] = (
    ("computing", lambda row: row.compute_ns),
    ("communication", lambda row: row.exposed_comm_ns),
)
"""The parts of a step that the profiler and Hermes both count from tasks.

Free time is not compared: it depends on where a step ends. Versions of the profiler end a step at its last task, or at
the first task of the next step.
"""


def contradictions(where: str, computed: Sequence[AscendSplit], reported: Sequence[AscendSplit]) -> list[Diagnostic]:
    """A note on the step whose reported and computed parts differ most, by more than a twentieth; else none."""
    told = {row.step: row for row in reported}
    pairs = [(told[row.step], row) for row in computed if row.step in told]
    if not pairs:
        return []
    file, tasks = max(pairs, key=lambda pair: _gap(*pair))
    if _gap(file, tasks) <= _BEYOND * max(file.stage_ns, tasks.stage_ns):
        return []
    says, gives = ([duration(value(row)) for _, value in _PARTS] for row in (file, tasks))
    return [
        Diagnostic(
            level="degraded",
            message=messages.step_file_contradicts(
                parts=[name for name, _ in _PARTS], says=says, gives=gives, step=file.step
            ),
            where=where,
            lost=messages.LOST_RANK_TRUST,
            hint=messages.DO_COPY_WHOLE,
        )
    ]


def _gap(file: AscendSplit, tasks: AscendSplit) -> int:
    return max(abs(value(file) - value(tasks)) for _, value in _PARTS)
