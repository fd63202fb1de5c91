"""From what was measured of each rank to what is measured of the job: no table of a rank is read here."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from hermes.base.errors import Diagnostic
from hermes.model.comm_measures import Communication
from hermes.model.compute_measures import Compute
from hermes.model.declare import declared
from hermes.model.host_measures import HostSide, RankSettings
from hermes.model.job import Job, JobMeasures, Rows, flattened
from hermes.model.leaf_time import LeafTime, spent
from hermes.model.measures import ArrivalWait, TaskWait
from hermes.model.report import Coverage
from hermes.model.structure_measures import Structure
from hermes.profiles.measure.communication.arrivals import rank_waits
from hermes.profiles.measure.communication.fused import FusedCalls, FusedOperator, fused_operators
from hermes.profiles.measure.compute.kernels import RankCompute
from hermes.profiles.measure.compute.roofline import compute_of
from hermes.profiles.measure.host.settings import settings
from hermes.profiles.pipeline.job_exchange import JobExchange
from hermes.profiles.pipeline.job_leaves import job_leaves, leaves_of_splits
from hermes.profiles.pipeline.job_outline import JobOutline
from hermes.profiles.pipeline.rank_exchange import RankExchange
from hermes.profiles.pipeline.rank_measures import RankMeasures

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Combined:
    """What was measured of a job: `of_ranks` are the rows that ranks measured themselves, the rest is of all ranks."""

    of_ranks: dict[type, Rows[object]]
    host: HostSide
    compute: Compute
    communication: Communication
    structure: Structure
    rank_waits: tuple[ArrivalWait, ...]

    def rows(self, kind: type[T]) -> tuple[T, ...]:
        """The rows of one kind of all ranks, in rank order."""
        return tuple(self.of_ranks.get(kind, ()))  # type: ignore[arg-type]

    def declared_rows(self) -> tuple[object, ...]:
        """The rows of kinds that the report declares."""
        return tuple(row for kind in declared() for row in self.of_ranks.get(kind, ()))

    def measures(
        self, job: JobOutline, coverage: Coverage, notes: Sequence[Diagnostic], more: Iterable[object] = ()
    ) -> JobMeasures:
        """All rows by kind; `more` are those that are made elsewhere."""
        rows = [row for own in self.of_ranks.values() for row in own]
        known = {id(row) for row in rows}
        sides = flattened(self.host, self.compute, self.communication, self.structure)
        fresh = [row for row in sides if id(row) not in known]
        about = Job(
            steps=job.steps,
            inputs={one.rank: one.path for one in job.inputs},
            vendors=job.vendors,
            certainty=certainty(coverage, notes),
            spent=spent((row for row in self.rows(LeafTime) if row.rank in job.steps.devices), job.steps.counts),
        )
        return JobMeasures(about, [*job.steps.every, *rows, *fresh, *self.rank_waits, *more])


def certainty(coverage: Coverage, notes: Sequence[Diagnostic]) -> float:
    """1 for a whole input, less where something is missing."""
    degraded = any(note.level == "degraded" for note in notes)
    partial = bool(coverage.ranks_expected and coverage.ranks_expected > len(coverage.ranks_seen))
    return (0.7 if degraded else 1.0) * (0.9 if partial else 1.0)


def combine(job: JobOutline, measured: list[RankMeasures], exchanged: list[RankExchange]) -> Combined:
    """The measures of a job, of ranks in any order.

    Both lists are empty afterwards: what thousands of ranks sent is let go of as soon as it is taken in.
    """
    by_kind = _by_kind(measured)
    measured.clear()
    compute = compute_of(_computed(by_kind), job.steps.every)
    collected = frozenset(job.collected)
    if TaskWait in by_kind:
        by_kind[TaskWait] = [
            replace(row, peer_collected=row.peer in collected) if row.peer in collected else row
            for row in by_kind[TaskWait]
            if isinstance(row, TaskWait)
        ]
    told = [row for row in by_kind.get(RankSettings, []) if isinstance(row, RankSettings)]
    times = list(job_leaves([one.leaves for one in sorted(exchanged, key=lambda one: one.rank)]))
    known = {row.rank for row in times}
    times += leaves_of_splits(split for split in job.steps.every if split.rank not in known)
    if times:
        by_kind[LeafTime] = times  # type: ignore[assignment]
    talk = JobExchange(job, exchanged)
    exchanged.clear()
    meets = [row for row in by_kind.pop(FusedCalls, []) if isinstance(row, FusedCalls)]
    if meets:
        by_kind[FusedOperator] = list(fused_operators(meets, job.members))
    of_ranks = {kind: Rows(rows) for kind, rows in by_kind.items()}
    communication, structure = talk.communication, talk.structure(compute.steps)
    # What the ranks sent of their communication is no longer needed, and waits take much room.
    del talk
    return Combined(
        of_ranks=of_ranks,
        host=replace(_filled(HostSide, of_ranks), settings=settings(told)),
        compute=compute,
        communication=communication,
        structure=structure,
        rank_waits=rank_waits(job.every, job.held_up, collected),
    )


def _by_kind(measured: Sequence[RankMeasures]) -> dict[type, list[object]]:
    found: dict[type, list[object]] = {}
    for one in sorted(measured, key=lambda one: one.rank):
        for row in one.rows:
            found.setdefault(type(row), []).append(row)
    return found


def _computed(by_kind: dict[type, list[object]]) -> Iterator[RankCompute]:
    return (row for row in by_kind.pop(RankCompute, []) if isinstance(row, RankCompute))


def _filled(container: type[T], of_ranks: dict[type, Rows[object]]) -> T:
    """A container whose fields are tables: each gets the rows of the kind that its type names."""
    hints = typing.get_type_hints(container)
    found: dict[str, object] = {}
    for one in fields(container):  # type: ignore[arg-type]
        kind = typing.get_args(hints[one.name])[:1]
        if isinstance(hints[one.name], types.GenericAlias) and kind and kind[0] in of_ranks:
            found[one.name] = tuple(of_ranks[kind[0]])
    return container(**found)
