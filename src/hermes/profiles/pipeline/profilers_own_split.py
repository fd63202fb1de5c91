"""Whether the split of steps that a profiler wrote itself agrees with the tasks that the capture holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hermes.base.errors import Diagnostic
from hermes.base.units import duration
from hermes.knowledge.vendors import STEP_FILE_CONTRADICTS
from hermes.model.measures import AscendSplit

# On real captures both agree to a quarter of a microsecond.
_BEYOND = 0.05
_PARTS: tuple[tuple[str, Callable[[AscendSplit], int]], ...] = (
    ("computing", lambda row: row.compute_ns),
    ("communication", lambda row: row.exposed_comm_ns),
    ("free", lambda row: row.free_ns),
)


def contradictions(where: str, computed: Sequence[AscendSplit], reported: Sequence[AscendSplit]) -> list[Diagnostic]:
    """A note on the step in which both differ most, by more than a twentieth of it; none where they agree."""
    told = {row.step: row for row in reported}
    pairs = [(told[row.step], row) for row in computed if row.step in told]
    if not pairs:
        return []
    file, tasks = max(pairs, key=lambda pair: _gap(*pair))
    if _gap(file, tasks) <= _BEYOND * max(file.stage_ns, tasks.stage_ns):
        return []
    says, gives = (" / ".join(duration(value(row)) for _, value in _PARTS) for row in (file, tasks))
    step = "" if file.step is None else f" of step {file.step}"
    return [
        Diagnostic(
            level="degraded",
            message=f"{STEP_FILE_CONTRADICTS}: {', '.join(name for name, _ in _PARTS)}{step} are {says} by the "
            f"profiler's own file, and {gives} by the tasks that are here",
            where=where,
            lost="trust in every number of this rank, as rows are missing in one of both",
            hint="was a file cut off, or copied from another capture? Copy the whole folder again",
        )
    ]


def _gap(file: AscendSplit, tasks: AscendSplit) -> int:
    return max(abs(value(file) - value(tasks)) for _, value in _PARTS)
