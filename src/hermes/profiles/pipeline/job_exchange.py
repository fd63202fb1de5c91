"""Communication and structure of a job, from what its ranks sent: no table of a rank is read here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import polars as pl

from hermes.model.comm_measures import Communication, LinkPair
from hermes.model.compute_measures import StepCompute
from hermes.model.structure_measures import Balance, RankMatrix, Structure
from hermes.profiles.measure.communication import contention, group_ops, lateness, slow_ranks, transfers
from hermes.profiles.measure.communication.collectives import Operations
from hermes.profiles.measure.stacked import beside, stacked
from hermes.profiles.measure.structure import balance, matrix, pipeline
from hermes.profiles.measure.structure.expert_operators import expert_operators
from hermes.profiles.pipeline.job_outline import JobOutline
from hermes.profiles.pipeline.rank_exchange import RankExchange


class JobExchange:
    """The communication of all ranks, from their outlines and what each told of its operations."""

    def __init__(self, job: JobOutline, ranks: Sequence[RankExchange]) -> None:
        self._job = job
        self._ranks = sorted(ranks, key=lambda one: one.rank)

    @cached_property
    def _rows(self) -> pl.DataFrame | None:
        """The operations of ranks that have any, with what runs beside them."""
        parts = [(one.rank, one.hidden) for one in self._ranks if one.hidden is not None]
        if not parts:
            return None
        rows, own = self._job.made.rows, [one.rank for one in self._ranks if one.hidden is not None]
        rows = rows if len(own) == len(self._job.collected) else rows.filter(pl.col("rank").is_in(own))
        self._ranks = [replace(one, hidden=None) for one in self._ranks]
        hidden = stacked(parts)
        parts.clear()
        return beside(rows, hidden, ["rank", "comm_id"])

    @cached_property
    def _sums(self) -> pl.DataFrame:
        return _together((one.sums for one in self._ranks), _NO_SUMS)

    @cached_property
    def communication(self) -> Communication:
        """The measures of communication."""
        job, rows, sums = self._job, self._rows, self._sums
        chips = {rank: place.chip for rank, place in job.places.items()}
        reported = _together((one.reported for one in self._ranks), _NO_LINKS)
        if rows is None:
            return Communication(links=self._placed(transfers.link_pairs(_NO_SUMS, reported, chips)))
        fits = group_ops.latency_fits(rows, job.groups)
        traffic = _together((one.traffic for one in self._ranks), _NO_TRAFFIC)
        groups = group_ops.group_ops(rows, traffic, job.groups, job.places, job.world)
        beside = [row for one in self._ranks for row in one.contention]
        return Communication(
            kinds=group_ops.group_kinds(groups),
            groups=groups,
            fits=fits,
            slow_ranks=slow_ranks.slow_ranks(job.made, frozenset(job.collected)),
            arrivals=lateness.group_arrivals(rows, job.groups, job.world),
            links=self._placed(transfers.link_pairs(sums, reported, chips)),
            packets=transfers.packets(sums),
            alignment=transfers.alignment(sums, rows),
            stalls=transfers.stalls(sums, rows),
            contention=contention.merged([*beside, *contention.comm_contention(rows, job.groups)]),
            notes=(*job.match_notes, *_notes(job.made, rows, fitted=bool(fits))),
        )

    def _placed(self, links: Sequence[LinkPair]) -> tuple[LinkPair, ...]:
        """The links with whether both ranks are on one host; a rank that was not collected has none."""
        hosts = {rank: place.host for rank, place in self._job.places.items() if place.host is not None}
        return tuple(
            replace(link, same_host=hosts[link.rank] == hosts[link.peer])
            if link.rank in hosts and link.peer in hosts
            else link
            for link in links
        )

    def structure(self, computed: Sequence[StepCompute]) -> Structure:
        """Pipeline, balance and rank matrix; `computed` are the steps of all ranks."""
        job = self._job
        waits = {one.rank: one.wait for one in self._ranks if one.wait is not None}
        line = pipeline.pipeline(*job.stages, waits, job.steps) if job.stages else None
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
        single = expert_operators({one.rank: one.expert_calls for one in self._ranks if one.expert_calls is not None},
                                  members["ep"])  # fmt: skip
        return Structure(pipeline=line, balances=even, experts=single, matrix=self._matrix(waits, tokens, experts))

    def _operations(
        self, computed: Sequence[StepCompute], data_parallel: Mapping[str, tuple[int, ...]]
    ) -> tuple[Balance, ...]:
        """How operations are spread over data-parallel ranks, where nothing else spreads them."""
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
        slow = self.communication.slow_ranks
        metrics: list[tuple[str, str, Mapping[int, float]]] = [
            (name, "ns", matrix.medians(steps, field)) for name, field in matrix.OF_STEPS
        ]
        metrics += [(name, "ns", matrix.per_step(rows, column, counts)) for name, column in matrix.OF_OPERATIONS]
        metrics += [
            ("bubble", "ns", {rank: wait.bubble_ns / wait.steps for rank, wait in waits.items()}),
            ("held the others up", "ns", matrix.held(slow, counts) if rows is not None else {}),
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


def _notes(made: Operations, rows: pl.DataFrame, *, fitted: bool) -> tuple[str, ...]:
    said = []
    untold = rows.filter(~pl.col("split"))
    if untold.height:
        said.append(
            f"Of {untold.height} of {rows.height} operations the last arrival is unknown (members were not collected, "
            "their number is not recorded, or the operation has no group): they are not split into wait and transfer."
        )
    unmatched = made.instances.filter(~pl.col("matched")).height
    if unmatched:
        said.append(f"{unmatched} operations seem to begin after they ended elsewhere: their rows do not fit together.")
    if not fitted:
        said.append(
            "No fixed cost of operations was fitted: it needs six operations of three sizes that differ fourfold."
        )
    return tuple(said)
