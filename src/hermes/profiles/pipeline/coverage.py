"""What a report rests on: which ranks and steps were captured, and how the profiler's own numbers differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from hermes.base.errors import Diagnostic
from hermes.knowledge.vendors import STEP_FILE_CONTRADICTS, STEP_FILE_NOTE
from hermes.model.measures import AscendSplit, StepSplit
from hermes.model.report import Coverage
from hermes.profiles.pipeline.job_outline import JobOutline

_EXACT_NS = 10
"""Ascend's own file keeps picoseconds of double noise and Stage in quarters of a microsecond."""


def coverage(job: JobOutline, notes: Sequence[Diagnostic], roots: Mapping[str, int] = MappingProxyType({})) -> Coverage:
    """What was captured, and what is missing: the gravest first. `roots` are the ranks by where they were read from."""
    collected, steps = job.collected, job.steps
    candidates = {
        "world size recorded by the job": max(job.worlds, default=0),
        "members of its process groups": max(job.highest, default=0),
    }
    source, expected = max(candidates.items(), key=lambda pair: pair[1])
    missing: list[str] = []
    if expected > len(collected):
        missing.append(f"only {_ranks(collected)} of {expected} {'was' if len(collected) == 1 else 'were'} collected")
    elif not expected and job.every.height:
        count = "1 rank was" if len(collected) == 1 else f"{len(collected)} ranks were"
        missing.append(f"{count} read; how many the job has is not recorded")
    measured = {split.rank for split in steps.every if split.compute_ns is not None}
    blind = [rank for rank in collected if rank not in measured]
    if blind:
        missing.append(f"no device task was recorded on {_ranks(blind)}")
    numbers = {frozenset(split.step for split in steps.of(rank)) for rank in collected}
    if any(split.step is not None for split in steps.every) and len(numbers) > 1:
        missing.append("the ranks were not captured on the same steps")
    missing.extend(_lost(notes, roots))
    # What casts doubt on all that follows is said before anything else.
    missing.sort(key=lambda sentence: not sentence.startswith(STEP_FILE_CONTRADICTS))
    return Coverage(
        ranks_seen=collected,
        ranks_expected=expected if expected >= len(collected) and expected else None,
        ranks_expected_source=source if expected >= len(collected) and expected else "not recorded",
        steps=tuple(sorted({split.step for split in steps.every if split.step is not None})),
        missing=tuple(missing),
    )


def _lost(notes: Sequence[Diagnostic], roots: Mapping[str, int]) -> list[str]:
    """What damaged files cost, each once, with the ranks that it is said of where there are several."""
    said: dict[str, set[int]] = {}
    for note in notes:
        if note.level == "degraded" and note.lost:
            own = said.setdefault(f"{note.message}: lost {note.lost}", set())
            own |= {rank for root, rank in roots.items() if note.where == root or note.where.startswith(f"{root}/")}
    several = len(set(roots.values())) > 1
    return [f"{text}; on {_ranks(sorted(ranks))}" if several and ranks else text for text, ranks in said.items()]


def _ranks(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 4 and list(ranks) == list(range(ranks[0], ranks[-1] + 1)):
        return f"ranks {ranks[0]} to {ranks[-1]}"
    shown = ", ".join(map(str, ranks[:-1][:8]))
    return f"ranks {shown} and {ranks[-1]}" if len(ranks) < 10 else f"{len(ranks)} ranks ({shown}, …)"


def difference(rows: Sequence[AscendSplit], splits: Sequence[StepSplit]) -> str:
    """Says how Ascend's definition differs from ours, and where the reported numbers differ from the computed ones."""
    if not rows:
        return ""
    said = [STEP_FILE_NOTE]
    copies = [split.copy_exposed_ns for split in splits if split.copy_exposed_ns]
    if copies:
        said.append(f"Exposed copies here: at most {max(copies) / 1e6:.3f} ms per step.")
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
            said.append(f"Reported and computed {name} differ by up to {gap / 1e3:.3f} us.")
        elif gap > _EXACT_NS:
            said.append(
                f"Reported {name} is off by up to {gap / 1e3:.3f} us: the profiler rounds times of the "
                f"epoch to quarters of a microsecond."
            )
    return " ".join(said)
