"""Builds the communication and structure rows of a job from what its ranks sent, without their tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import polars as pl

from hermes.base.message import Message
from hermes.model.comm_measures import CommunicationNote, LinkPair, SlowRank
from hermes.model.compute_measures import StepCompute
from hermes.model.structure_measures import Balance, RankMatrix
from hermes.profiles.measure.communication import contention, group_ops, lateness, messages, slow_ranks, transfers
from hermes.profiles.measure.communication.wait_and_transfer import Operations
from hermes.profiles.measure.stack_rank_tables import left_join_in_order, stacked
from hermes.profiles.measure.structure import balance, matrix, pipeline
from hermes.profiles.measure.structure.expert_operators import expert_operators
from hermes.profiles.pipeline.job_outline import JobOutline
from hermes.profiles.pipeline.rank_exchange import RankExchange


class JobExchange:
    """The communication of all ranks, from their outlines and their exchanges."""

    def __init__(self, job: JobOutline, ranks: Sequence[RankExchange]) -> None:
        self._job = job
        self._ranks = sorted(ranks, key=lambda one: one.rank)

    @cached_property
    def _rows(self) -> pl.DataFrame | None:
        """The collectives of ranks that have any, with the compute that hides them."""
        parts = [(one.rank, one.hidden) for one in self._ranks if one.hidden is not None]
        if not parts:
            return None
        rows, own = self._job.made.rows, [one.rank for one in self._ranks if one.hidden is not None]
        rows = rows if len(own) == len(self._job.collected) else rows.filter(pl.col("rank").is_in(own))
        self._ranks = [replace(one, hidden=None) for one in self._ranks]
        hidden = stacked(parts)
        parts.clear()
        return left_join_in_order(rows, hidden, ["rank", "comm_id"])

    @cached_property
    def _sums(self) -> pl.DataFrame:
        return _together((one.sums for one in self._ranks), _NO_SUMS)

    @cached_property
    def _slow_ranks(self) -> tuple[SlowRank, ...]:
        return () if self._rows is None else slow_ranks.slow_ranks(self._job.made, frozenset(self._job.collected))

    def communication(self) -> Iterator[object]:
        """Yield the communication rows of the job, and notes on what could not be measured."""
        job, rows, sums = self._job, self._rows, self._sums
        chips = {rank: place.chip for rank, place in job.places.items()}
        reported = _together((one.reported for one in self._ranks), _NO_LINKS)
        yield from self._placed(transfers.link_pairs(_NO_SUMS if rows is None else sums, reported, chips))
        if rows is None:
            return
        fits = group_ops.latency_fits(rows, job.groups)
        traffic = _together((one.traffic for one in self._ranks), _NO_TRAFFIC)
        groups = group_ops.group_ops(rows, traffic, job.groups, job.places, job.world)
        beside = [row for one in self._ranks for row in one.contention]
        yield from group_ops.group_kinds(groups)
        yield from groups
        yield from fits
        yield from self._slow_ranks
        yield from lateness.group_arrivals(rows, job.groups, job.world)
        yield from transfers.packets(sums)
        yield from transfers.alignment(sums, rows)
        yield from transfers.stalls(sums, rows)
        yield from contention.merge_ranks([*beside, *contention.comm_contention(rows, job.groups)])
        for note in (*job.match_notes, *_notes(job.made, rows, fitted=bool(fits))):
            yield CommunicationNote(text=note)

    def _placed(self, links: Sequence[LinkPair]) -> Iterator[LinkPair]:
        """The links, marked if both ranks are on one host; unmarked if a rank was not collected."""
        hosts = {rank: place.host for rank, place in self._job.places.items() if place.host is not None}
        for link in links:
            known = link.rank in hosts and link.peer in hosts
            yield replace(link, same_host=hosts[link.rank] == hosts[link.peer]) if known else link

    def structure(self, computed: Sequence[StepCompute]) -> Iterator[object]:
        """Yield the rows of pipeline, balance and rank matrix; `computed` are the compute rows of all steps."""
        job = self._job
        waits = {one.rank: one.wait for one in self._ranks if one.wait is not None}
        if job.stages and (line := pipeline.pipeline(*job.stages, waits, job.steps)) is not None:
            yield line
        members = {
            kind: {
                f"{info.label} {info.members[0]}": info.members
                for identity, info in job.groups.items()
                if info.members and job.kinds.get(identity) == kind
            }
            for kind in ("dp", "ep")
        }
        tokens = {one.rank: one.tokens for one in self._ranks if one.tokens is not None}
        experts = {one.rank: one.experts for one in self._ranks if one.experts is not None}
        source = "shapes of grouped multiplications"
        even: tuple[Balance, ...] = (
            *balance.balances("tokens", "shapes of embedding lookups", tokens, members["dp"], job.steps.every),
            *balance.balances("expert tokens", source, experts, members["ep"], job.steps.every),
        )
        if not even and not job.stages:
            even = self._operations(computed, members["dp"])
        yield from even
        calls = {one.rank: one.expert_calls for one in self._ranks if one.expert_calls is not None}
        yield from expert_operators(calls, members["ep"])
        if (whole := self._matrix(waits, tokens, experts)) is not None:
            yield whole

    def _operations(
        self, computed: Sequence[StepCompute], data_parallel: Mapping[str, tuple[int, ...]]
    ) -> tuple[Balance, ...]:
        """How operations are spread over data-parallel ranks, if no other parallelism spreads them."""
        if not set(self._job.kinds.values()) <= {"dp", "world", None}:
            return ()
        loads, work = balance.operations_of(computed)
        source = "shapes of products, convolutions and attention"
        return balance.balances("operations", source, loads, data_parallel, self._job.steps.every, work)

    def _matrix(
        self,
        waits: Mapping[int, pipeline.StageWait],
        tokens: Mapping[int, pl.DataFrame],
        experts: Mapping[int, pl.DataFrame],
    ) -> RankMatrix | None:
        steps, rows = self._job.steps, self._rows
        counts = {rank: max(sum(split.step is not None for split in steps.of(rank)), 1) for rank in steps.ranks}
        metrics: list[tuple[str, str, Mapping[int, float]]] = [
            (name, "ns", matrix.medians(steps, field)) for name, field in matrix.OF_STEPS
        ]
        metrics += [(name, "ns", matrix.per_step(rows, column, counts)) for name, column in matrix.OF_OPERATIONS]
        metrics += [
            ("bubble", "ns", {rank: wait.bubble_ns / wait.steps for rank, wait in waits.items()}),
            ("held the others up", "ns", matrix.delays_of_ranks(self._slow_ranks, counts)),
            ("link speed", "GB/s", matrix.speeds([self._sums] if self._sums.height else [])),
            ("tokens", "tokens", matrix.means(tokens)),
            ("expert tokens", "tokens", matrix.means(experts)),
        ]
        return matrix.rank_matrix(self._job.collected, metrics)


def _together(parts: Iterable[pl.DataFrame | None], none: pl.DataFrame) -> pl.DataFrame:
    known = [part for part in parts if part is not None]
    return pl.concat(known, rechunk=True) if known else none


_NO_SUMS = pl.DataFrame(
    schema={
        "rank": pl.Int64, "peer_rank": pl.Int64, "transport": pl.String, "task": pl.String, "bytes": pl.Int64,
        "step": pl.Int64, "n": pl.Int64, "time_ns": pl.Int64, "median_ns": pl.Float64, "stalled": pl.Int64,
        "stalled_ns": pl.Float64, "longest_ns": pl.Int64, "at_ns": pl.Int64,
    }
)  # fmt: skip
_NO_TRAFFIC = pl.DataFrame(
    schema={"group": pl.String, "op": pl.String, "transport": pl.String, "bytes": pl.Int64, "time_ns": pl.Int64}
)
_NO_LINKS = pl.DataFrame(
    schema={"rank": pl.Int64, "peer_rank": pl.Int64, "transport": pl.String, "bytes": pl.Int64, "time_ns": pl.Int64}
)


def _notes(made: Operations, rows: pl.DataFrame, *, fitted: bool) -> tuple[Message, ...]:
    said = []
    untold = rows.filter(~pl.col("split"))
    if untold.height:
        said.append(messages.last_arrival_unknown(unknown=str(untold.height), of=str(rows.height)))
    unmatched = made.instances.filter(~pl.col("matched")).height
    if unmatched:
        said.append(messages.rows_unmatched(operations=str(unmatched)))
    if not fitted:
        said.append(messages.NO_FIXED_COST)
    return tuple(said)
