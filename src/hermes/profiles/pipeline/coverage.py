"""Computes the coverage of a report: captured ranks and steps, missing data, the profiler's other numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from hermes.base.errors import Diagnostic
from hermes.base.message import Message, Text
from hermes.model.report import Coverage
from hermes.model.step_measures import AscendSplit, StepSplit
from hermes.profiles import messages
from hermes.profiles.pipeline import messages as said
from hermes.profiles.pipeline.job_outline import JobOutline

_EXACT_NS = 10
"""Rounding of Ascend's own step file in ns: double noise of picoseconds, and Stage in quarters of a microsecond."""


def coverage(job: JobOutline, notes: Sequence[Diagnostic], roots: Mapping[str, int] = MappingProxyType({})) -> Coverage:
    """Which ranks and steps were captured, and what is missing, gravest first.

    `roots` gives, for each path that was read, the rank of its capture.
    """
    collected, steps = job.collected, job.steps
    candidates = {said.BY_WORLD: max(job.worlds, default=0), said.BY_GROUPS: max(job.highest, default=0)}
    source, expected = max(candidates.items(), key=lambda pair: pair[1])
    missing: list[tuple[bool, Message]] = []
    if expected > len(collected):
        missing.append((False, _only(collected, expected)))
    elif not expected and job.every.height:
        missing.append((False, said.size_unknown(n=len(collected))))
    measured = steps.devices
    blind = [rank for rank in collected if rank not in measured and rank not in job.summed]
    if blind:
        missing.append((False, said.blind(ranks=blind)))
    numbers = {frozenset(split.step for split in steps.of(rank)) for rank in collected}
    if any(split.step is not None for split in steps.every) and len(numbers) > 1:
        missing.append((False, said.OTHER_STEPS))
    missing.extend(_lost(notes, roots))
    # A loss that casts doubt on all other numbers is named first.
    missing.sort(key=lambda one: not one[0])
    return Coverage(
        ranks_seen=collected,
        ranks_expected=expected if expected >= len(collected) and expected else None,
        ranks_expected_source=source if expected >= len(collected) and expected else said.NOT_RECORDED,
        steps=tuple(sorted({split.step for split in steps.every if split.step is not None})),
        missing=tuple(text for _, text in missing),
    )


def certainty(coverage: Coverage, notes: Sequence[Diagnostic]) -> float:
    """How certain findings are: 1 for a complete input, less if files are damaged or ranks are missing."""
    degraded = any(note.level == "degraded" for note in notes)
    partial = bool(coverage.ranks_expected and coverage.ranks_expected > len(coverage.ranks_seen))
    return (0.7 if degraded else 1.0) * (0.9 if partial else 1.0)


def _only(collected: Sequence[int], expected: int) -> Message:
    if not collected:
        return said.no_ranks(expected=expected)
    return said.only_ranks(n=len(collected), ranks=collected, expected=expected)


def _lost(notes: Sequence[Diagnostic], roots: Mapping[str, int]) -> list[tuple[bool, Message]]:
    """The losses from damaged files, each once, with its ranks if there are several.

    The first value of each pair says whether the loss casts doubt on the kernels.
    """
    found: dict[tuple[Text, Text], set[int]] = {}
    for note in notes:
        if note.level == "degraded" and note.lost:
            own = found.setdefault((note.message, note.lost), set())
            own |= {rank for root, rank in roots.items() if note.where == root or note.where.startswith(f"{root}/")}
    several = len(set(roots.values())) > 1
    return [
        (lost == messages.LOST_RANK_TRUST, said.lost(what=what, lost=lost, ranks=ranks if several and ranks else None))
        for (what, lost), ranks in found.items()
    ]


def difference(rows: Sequence[AscendSplit], splits: Sequence[StepSplit]) -> tuple[Text, ...]:
    """Texts on how Ascend's definition of step parts differs from Hermes', and where reported times differ."""
    if not rows:
        return ()
    told: list[Text] = [said.STEP_FILE]
    copies = [split.copy_exposed_ns for split in splits if split.copy_exposed_ns]
    if copies:
        told.append(said.exposed_copies(most=max(copies)))
    reported = {(row.rank, row.step): row for row in rows if row.source == "reported"}
    parts: tuple[tuple[str, Callable[[AscendSplit], int]], ...] = (
        ("compute", lambda row: row.compute_ns),
        ("exposed communication", lambda row: row.exposed_comm_ns),
        ("overlapped", lambda row: row.overlapped_ns),
        ("free", lambda row: row.free_ns),
        ("stage", lambda row: row.stage_ns),
        ("preparing", lambda row: row.preparing_ns or 0),
    )
    pairs = [(row, other) for row in rows if row.source == "computed" and (other := reported.get((row.rank, row.step)))]
    worst = {name: max((abs(value(row) - value(other)) for row, other in pairs), default=0) for name, value in parts}
    for name, gap in worst.items():
        if gap > 250:
            told.append(said.parts_differ(part=name, gap=gap))
        elif gap > _EXACT_NS:
            told.append(said.part_rounded(part=name, gap=gap))
    return tuple(told)
