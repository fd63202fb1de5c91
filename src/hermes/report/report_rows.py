"""Chooses the rows that a report shows: the parts of a step, one step for each rank, and the critical path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hermes.base.errors import Diagnostic
from hermes.base.say import say
from hermes.knowledge.vendor_traits import HOST_ONLY
from hermes.model.path_measures import PathPart, StepPath
from hermes.model.report import Report
from hermes.model.step_measures import AscendSplit, KernelTop, StepSplit
from hermes.model.typical_step import JobSteps
from hermes.report.format import microseconds

COMPONENTS: tuple[tuple[str, str], ...] = (
    ("compute", "compute"),
    ("comm", "exposed communication"),
    ("copy", "exposed copy"),
    ("free", "free"),
)
"""Key and name of the four parts that add up to the window of a step, in drawing order."""

PATH_KEYS: dict[str, str] = {
    "compute": "compute",
    "communication": "comm",
    "wait": "wait",
    "copy": "copy",
    "host": "host",
    "launch": "host",
    "device gap": "free",
    "unexplained": "free",
}
"""Each component of a critical path with the key of its colour, in drawing order."""

WINDOW_KINDS: tuple[tuple[str, str], ...] = (
    ("device", "to the end of its last device task"),
    ("host", "from mark to mark"),
    ("found", "found by the period of its launches: no step was marked"),
    ("capture", "the whole capture: no step was marked"),
)
"""For each kind of step window, the words that say what the window spans."""

ASCEND_FIELDS: tuple[tuple[str, str], ...] = (
    ("compute", "Computing"),
    ("exposed comm", "Communication(Not Overlapped)"),
    ("overlapped", "Overlapped"),
    ("communication", "Communication"),
    ("free", "Free"),
    ("stage", "Stage"),
    ("bubble", "Bubble"),
    ("preparing", "Preparing"),
)
"""Hermes' short word and Ascend's column name of each part, in the order of `ascend_values`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AscendPair:
    """One step of one rank by Ascend's definition: the values that Hermes computed and that the profiler reported."""

    rank: int
    step: int | None
    computed: AscendSplit | None
    reported: AscendSplit | None

    @property
    def differences(self) -> tuple[tuple[str, int], ...]:
        """The fields in which both values exist and differ, with reported minus computed in nanoseconds."""
        if self.computed is None or self.reported is None:
            return ()
        both = zip(ascend_values(self.computed), ascend_values(self.reported), strict=True)
        return tuple(
            (word, theirs - ours)
            for (word, _), (ours, theirs) in zip(ASCEND_FIELDS, both, strict=True)
            if ours is not None and theirs is not None and ours != theirs
        )

    @property
    def place(self) -> str:
        """The rank and step as text: `rank 0, step 50`."""
        return place_of_row(self.rank, self.step)


def place_of_row(rank: int | None, step: int | None) -> str:
    """A rank and a step as text: `rank 0, step 50`; an unknown number is left out."""
    words = [f"rank {rank}"] if rank is not None else []
    return ", ".join([*words, f"step {step}"] if step is not None else words)


def step_components(step: StepSplit) -> tuple[int, int, int, int] | None:
    """Nanoseconds of the four `COMPONENTS` of a step, or None when the step's parts were not measured."""
    compute, comm = step.compute_ns, step.exposed_comm_ns
    copy, free = step.copy_exposed_ns, step.free_ns
    if compute is None or comm is None or copy is None or free is None:
        return None
    return compute, comm, copy, free


def typical(steps: Iterable[StepSplit]) -> tuple[StepSplit, ...]:
    """The typical step of each rank, in rank order."""
    own = JobSteps(steps)
    found = (own.typical(rank) for rank in sorted(own.ranks))
    return tuple(split for split in found if split is not None)


def extremes(rows: Sequence[StepSplit]) -> tuple[tuple[str, StepSplit], ...]:
    """The slowest, the median and the fastest of at least one step, by window."""
    ordered = sorted(rows, key=lambda row: (row.window_ns, row.rank))
    return (
        ("slowest", ordered[-1]),
        ("median", ordered[(len(ordered) - 1) // 2]),
        ("fastest", ordered[0]),
    )


def ascend_values(row: AscendSplit) -> tuple[int | None, ...]:
    """The nanoseconds of a step's parts in the order of `ASCEND_FIELDS`."""
    return (
        row.compute_ns,
        row.exposed_comm_ns,
        row.overlapped_ns,
        row.comm_ns,
        row.free_ns,
        row.stage_ns,
        row.bubble_ns,
        row.preparing_ns,
    )


def ascend_pairs(report: Report) -> tuple[AscendPair, ...]:
    """The rows of Ascend's definition by rank and step, computed beside reported, in their original order."""
    rows: dict[tuple[int, int | None], dict[str, AscendSplit]] = {}
    for row in report.rows(AscendSplit):
        rows.setdefault((row.rank, row.step), {})[row.source] = row
    return tuple(
        AscendPair(rank=rank, step=step, computed=pair.get("computed"), reported=pair.get("reported"))
        for (rank, step), pair in rows.items()
    )


def difference_sentence(pair: AscendPair) -> str:
    """A sentence: the fields in which the profiler's numbers differ from Hermes', and by how much; empty if none."""
    if not pair.differences:
        return ""
    fields = ", ".join(f"{word} by {_signed(ns)} us" for word, ns in pair.differences)
    return f"the profiler's own file differs in {fields}"


def _signed(ns: int) -> str:
    return f"{'+' if ns > 0 else ''}{microseconds(ns)}"


def path_title(path: StepPath) -> str:
    """A title: the rank of the critical path, and whether the path was followed to the ranks that were waited for."""
    followed = ", across ranks" if path.across else ""
    return f"{place_of_row(path.rank, path.step)}{followed}"


def path_components(path: StepPath) -> list[tuple[str, int]]:
    """The time of each component on a critical path, in the order of `PATH_KEYS`; the times add up to the window."""
    sums = {component: sum(part.ns for part in path.parts if part.component == component) for component in PATH_KEYS}
    return [(component, ns) for component, ns in sums.items() if ns]


def path_part(path: StepPath, part: PathPart) -> str:
    """One part of a critical path in words; the rank is named if the path has several ranks."""
    of = f"rank {part.rank} " if len({one.rank for one in path.parts}) > 1 else ""
    if part.component == "wait":
        return f"{of}waits for {part.reason}" if part.reason else f"{of}waits"
    return f"{of}{part.component}{f' ({part.reason})' if part.reason else ''}"


def computes_on_host(report: Report) -> bool:
    """Whether the job computes on the processor alone: then device data is not missing."""
    return (
        bool(report.inputs)
        and all(row.vendor == HOST_ONLY for row in report.inputs)
        and not report.rows(KernelTop)
        and not any(step_components(step) for step in report.steps)
    )


def notes_beyond_gaps(report: Report) -> list[Diagnostic]:
    """The notes on what was not read, without those that a sentence on what is missing says already."""
    said = [say(gap) for gap in report.coverage.missing]
    return [
        note
        for note in report.diagnostics
        if note.level == "degraded" and not any(gap.startswith(say(note.message)) for gap in said)
    ]
