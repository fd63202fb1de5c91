"""Which rows a renderer draws: the parts of a step, one step for each rank, what must be said first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hermes.model.measures import AscendSplit, StepSplit
from hermes.model.path_measures import PathPart, StepPath
from hermes.model.report import Report
from hermes.model.typical_step import JobSteps
from hermes.report.format import microseconds

COMPONENTS: tuple[tuple[str, str], ...] = (
    ("compute", "compute"),
    ("comm", "exposed communication"),
    ("copy", "exposed copy"),
    ("free", "free"),
)
"""Key and name of the four parts that add up to the window of a step, in the order they are drawn."""

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
"""Component of a critical path and the key of its colour, in the order they are drawn."""

WINDOW_KINDS: tuple[tuple[str, str], ...] = (
    ("device", "first to last device task"),
    ("host", "the framework's own mark"),
    ("found", "found by the period of its launches: no step was marked"),
    ("capture", "the whole capture: no step was marked"),
)
"""What each kind of step window spans."""

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
"""Our short word and Ascend's column name, in the order of `ascend_values`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AscendPair:
    """One step of one rank by Ascend's definition: what Hermes computed and what the profiler reported."""

    rank: int
    step: int | None
    computed: AscendSplit | None
    reported: AscendSplit | None

    @property
    def differences(self) -> tuple[tuple[str, int], ...]:
        """Field and reported minus computed in nanoseconds, where both are there and differ."""
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
        """`rank 0, step 50`."""
        return place(self.rank, self.step)


def place(rank: int | None, step: int | None) -> str:
    """`rank 0, step 50`; what is not known is left out."""
    words = [f"rank {rank}"] if rank is not None else []
    return ", ".join([*words, f"step {step}"] if step is not None else words)


def parts(step: StepSplit) -> tuple[int, int, int, int] | None:
    """Nanoseconds of the four `COMPONENTS`, or None when the split was not measured."""
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
    """The slowest, the median and the fastest of at least one row, by window."""
    ordered = sorted(rows, key=lambda row: (row.window_ns, row.rank))
    return (
        ("slowest", ordered[-1]),
        ("median", ordered[(len(ordered) - 1) // 2]),
        ("fastest", ordered[0]),
    )


def ascend_values(row: AscendSplit) -> tuple[int | None, ...]:
    """The nanoseconds of a row in the order of `ASCEND_FIELDS`."""
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
    """The rows of Ascend's definition by rank and step, computed beside reported, in the order they came."""
    rows: dict[tuple[int, int | None], dict[str, AscendSplit]] = {}
    for row in report.ascend:
        rows.setdefault((row.rank, row.step), {})[row.source] = row
    return tuple(
        AscendPair(rank=rank, step=step, computed=pair.get("computed"), reported=pair.get("reported"))
        for (rank, step), pair in rows.items()
    )


def difference_sentence(pair: AscendPair) -> str:
    """In which fields the profiler's own numbers depart from ours, and by how much; empty when in none."""
    if not pair.differences:
        return ""
    fields = ", ".join(f"{word} by {_signed(ns)} us" for word, ns in pair.differences)
    return f"the profiler's own file differs in {fields}"


def _signed(ns: int) -> str:
    return f"{'+' if ns > 0 else ''}{microseconds(ns)}"


def path_title(path: StepPath) -> str:
    """Whose path it is, and whether it was followed to the ranks that were waited for."""
    before = ", before the window" if path.stretch == "preparing" else ""
    followed = ", across ranks" if path.across else ""
    return f"{place(path.rank, path.step)}{before}{followed}"


def path_components(path: StepPath) -> list[tuple[str, int]]:
    """What each component takes of a path, in the order of `PATH_KEYS`; they add up to the window."""
    sums = {component: sum(part.ns for part in path.parts if part.component == component) for component in PATH_KEYS}
    return [(component, ns) for component, ns in sums.items() if ns]


def path_part(path: StepPath, part: PathPart) -> str:
    """One part in words; the rank is said where the path has several."""
    of = f"rank {part.rank} " if len({one.rank for one in path.parts}) > 1 else ""
    if part.component == "wait":
        return f"{of}waits for {part.reason}" if part.reason else f"{of}waits"
    return f"{of}{part.component}{f' ({part.reason})' if part.reason else ''}"
