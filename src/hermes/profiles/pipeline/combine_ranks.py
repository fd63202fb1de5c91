"""Combines the measures of single ranks into the measures of the job, without reading any table of a rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from hermes.model.compute_measures import StepCompute
from hermes.model.host_measures import RankSettings
from hermes.model.job import Job, JobMeasures, by_kind
from hermes.model.leaf_time import IdleStretch, LeafTime, lengths, spent
from hermes.model.step_measures import ArrivalWait, PeerWait, TaskWait
from hermes.profiles.measure.communication.fused_kernels import FusedCalls, fused_operators
from hermes.profiles.measure.communication.last_arrivals import rank_waits
from hermes.profiles.measure.compute.kernel_sums import RankCompute
from hermes.profiles.measure.compute.roofline import compute_of
from hermes.profiles.measure.host.settings import settings
from hermes.profiles.pipeline.job_exchange import JobExchange
from hermes.profiles.pipeline.job_leaves import job_leaves, leaves_of_splits
from hermes.profiles.pipeline.job_outline import JobOutline
from hermes.profiles.pipeline.rank_exchange import RankExchange
from hermes.profiles.pipeline.rank_measures import RankMeasures

T = TypeVar("T")
_MOST_IDLE = 8
"""The most ranks whose longest idle stretches are told."""


def combine(
    job: JobOutline, measured: list[RankMeasures], exchanged: list[RankExchange], certainty: float
) -> JobMeasures:
    """The measures of a job, from ranks in any order; rows of one kind stand in rank order.

    Both lists are empty afterwards: results of thousands of ranks are released as soon as they are combined.
    """
    kinds = by_kind(row for one in sorted(measured, key=lambda one: one.rank) for row in one.rows)
    measured.clear()
    compute = compute_of(_taken(kinds, RankCompute), job.steps.every)
    collected = frozenset(job.collected)
    recorded = [replace(row, peer_collected=True) if row.peer in collected else row for row in _taken(kinds, TaskWait)]
    arrivals = list(rank_waits(job.every, job.held_up, collected))
    leaves, idle = _leaves(job, exchanged), list(_most_idle(exchanged))
    talk = JobExchange(job, exchanged)
    exchanged.clear()
    rows = [
        *compute,
        *recorded,
        *arrivals,
        *leaves,
        *idle,
        *job.clocks,
        *settings([*_taken(kinds, RankSettings)]),
        *fused_operators([*_taken(kinds, FusedCalls)], job.members),
        *talk.communication(),
        *talk.structure([row for row in compute if isinstance(row, StepCompute)]),
    ]
    # The communication rows that ranks sent are no longer needed, and waits take much memory.
    del talk
    about = Job(
        steps=job.steps,
        inputs={one.rank: one.path for one in job.inputs},
        vendors=job.vendors,
        certainty=certainty,
        spent=spent(leaves, job.steps.counts),
        lengths=lengths(leaves, job.steps.counts),
    )
    chosen: dict[type, Iterable[object]] = {**by_kind(rows, kinds), PeerWait: _waits_that_count(recorded, arrivals)}
    return JobMeasures(about, chosen=chosen)


def _taken(kinds: dict[type, list[object]], kind: type[T]) -> Iterator[T]:
    """The rows of one kind, removed from `kinds`: memory is released once the last row is taken."""
    yield from kinds.pop(kind, ())  # type: ignore[misc]


def _leaves(job: JobOutline, exchanged: Sequence[RankExchange]) -> list[LeafTime]:
    times = list(job_leaves([one.leaves for one in sorted(exchanged, key=lambda one: one.rank)]))
    known = {row.rank for row in times}
    return times + list(leaves_of_splits(split for split in job.steps.every if split.rank not in known))


def _most_idle(exchanged: Sequence[RankExchange]) -> Iterator[IdleStretch]:
    """The longest idle stretches of the ranks that are idle longest in them, in rank order."""
    lost = {one.rank: sum(row.ns for row in one.idle) for one in exchanged}
    chosen = sorted(lost, key=lambda rank: (-lost[rank], rank))[:_MOST_IDLE]
    for one in sorted(exchanged, key=lambda one: one.rank):
        if one.rank in chosen:
            yield from sorted(one.idle, key=lambda row: (-row.ns, row.start_ns))


def _waits_that_count(recorded: Sequence[TaskWait], arrivals: Sequence[ArrivalWait]) -> Iterator[PeerWait]:
    """The waits that count: starts of collectives tell which collected rank arrived last; waits for a peer do not.

    A wait that names its peer also runs while the peer is busy with another link. Such a wait counts only for peers
    whose start was not recorded.
    """
    named = {wait.rank for wait in recorded}
    yield from (wait for wait in recorded if not wait.peer_collected)
    yield from (wait for wait in arrivals if wait.peer_collected or wait.rank not in named)
