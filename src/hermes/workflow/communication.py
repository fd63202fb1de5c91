"""Communication and structure of a job: what needs all ranks at once, around the pass over single ranks.

Before the pass, operations of all ranks are brought together and split at their last arrival; in it, each rank adds
what only its own tables tell, as sums; after it, the measures are made of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl

from hermes.align.offsets import ClockOffset, clock_offsets
from hermes.analyze import balance, contention, group_ops, lateness, matrix, pipeline, slow_ranks, transfers
from hermes.analyze.arrivals import Arrival, by_peer, identified
from hermes.analyze.collectives import GroupInfo, Operations, group_info, operations, with_compute, with_tasks
from hermes.analyze.comm_measures import Communication, Contention, LinkPair
from hermes.analyze.measures import StepSplit
from hermes.analyze.structure_measures import Balance, Pipeline, RankMatrix, Structure
from hermes.base.intervals import EMPTY, Intervals, flat
from hermes.workflow.load import Loaded, RankData

_COMM_OP = (
    "comm_id", "op", "group", "name", "sequence", "peer", "start_ns", "dur_ns", "step", "bytes", "library",
)  # fmt: skip
_WAIT = ("rank", "comm_id", "task", "plane", "peer_rank", "start_ns", "dur_ns", "bytes", "link")


class Exchange:
    """The communication of all ranks; give it each rank's tables by `add`, then ask for the measures."""

    def __init__(self, loaded: Loaded) -> None:
        self._collected = tuple(rank.rank for rank in loaded.ranks)
        self._world = len(self._collected)
        self._places: dict[int, group_ops.Place] = {}
        self._stages: dict[int, int | None] = {}
        self._groups: dict[str, GroupInfo] = {}
        self._tables: dict[int, pl.DataFrame] = {}
        recorded: dict[int, Sequence[int]] = {}
        self.comm_op: dict[int, pl.DataFrame] = {}
        self.peers: dict[int, dict[int, Arrival]] = {}
        for rank in loaded.ranks:
            self._meet(rank, recorded)
        hosts = {rank: place.host for rank, place in self._places.items()}
        self.clocks: tuple[ClockOffset, ...] = clock_offsets(hosts, self.comm_op) if len(hosts) > 1 else ()
        offsets = {clock.rank: (clock.offset_ns, clock.error_ns or 0) for clock in self.clocks}
        self._made = operations(self.comm_op, offsets, self.peers, recorded, self._groups)
        self._placed = self._place()
        self._own = {key[0]: own for key, own in self._made.rows.partition_by("rank", as_dict=True).items()}
        self._rows: list[pl.DataFrame] = []
        self._traffic: list[pl.DataFrame] = []
        self._sums: list[pl.DataFrame] = []
        self._reported: list[pl.DataFrame] = []
        self._contention: list[Contention] = []
        self._waits: dict[int, pipeline.StageWait] = {}
        self._tokens: dict[int, pl.DataFrame] = {}
        self._experts: dict[int, pl.DataFrame] = {}

    def _meet(self, rank: RankData, recorded: dict[int, Sequence[int]]) -> None:
        row = rank.table("rank", "host", "chip", "pp", "world_size").row(0, named=True)
        group = rank.table("group")
        waits = rank.table("comm_task", *_WAIT)
        self._places[rank.rank] = group_ops.Place(host=row["host"], chip=row["chip"])
        self._stages[rank.rank] = row["pp"]
        self._world = max(self._world, row["world_size"] or 0)
        for identity, info in group_info(group).items():
            self._groups.setdefault(identity, info)
            # Where the job does not say how many ranks it has, its largest group does, at least.
            self._world = max(self._world, info.size or 0)
        self.comm_op[rank.rank] = identified(rank.rank, rank.table("comm_op", *_COMM_OP), group)
        self.peers[rank.rank] = by_peer(waits, self._collected)
        named = waits.filter((pl.col("task") == "notify_wait") & pl.col("peer_rank").is_not_null())
        recorded[rank.rank] = named["comm_id"].drop_nulls().unique().to_list()

    def add(self, rank: RankData, kernel: pl.DataFrame, comm_task: pl.DataFrame, splits: Sequence[StepSplit]) -> None:
        """What one rank's own tables tell of its operations. `kernel` and `comm_task` hold the columns of `analyze`."""
        if len(self._collected) > 1:
            self._load_of(rank, kernel)
        own = self._own.get(rank.rank)
        moves = transfers.moves_of(comm_task)
        if not moves.height:
            self._reported.append(transfers.reported_links(rank.table("comm_link"), rank.table("group")))
        if own is None:
            return
        computes = kernel.filter(pl.col("component") == "compute")
        starts = computes["start_ns"].to_numpy()
        compute = flat(starts, starts + computes["dur_ns"].to_numpy()) if computes.height else EMPTY
        own = with_compute(with_tasks(own, comm_task), compute)
        self._rows.append(own)
        if moves.height:
            self._traffic.append(group_ops.traffic_by_group(own, moves))
            self._sums.append(transfers.transfer_sums(own, moves))
        self._beside(rank, own, kernel, compute)
        steps = sum(split.step is not None for split in splits) or 1
        stages = self._placed[0] if self._placed else {}
        wait = pipeline.stage_wait(rank.rank, own, compute, steps, stages)
        if wait:
            self._waits[rank.rank] = wait

    def _beside(self, rank: RankData, own: pl.DataFrame, kernel: pl.DataFrame, compute: Intervals) -> None:
        if not own["hidden_ns"].sum() or not len(compute):
            return
        rows = kernel.filter(pl.col("component") == "compute").with_columns(
            pl.coalesce("input_shapes", pl.format("{} blocks", "blocks")).alias("input_shapes")
        )
        self._contention += contention.compute_contention(own, rows)

    def _load_of(self, rank: RankData, kernel: pl.DataFrame) -> None:
        """Tokens by the shapes of what looked them up and of what the experts multiplied."""
        called = rank.where(
            "host_op", ("name", "step", "shapes"), pl.col("name").is_in((*balance.EMBEDDINGS, *balance.EXPERTS))
        )
        tokens = balance.tokens_of(called.filter(pl.col("name").is_in(balance.EMBEDDINGS)))
        experts = balance.expert_tokens_of(called.filter(pl.col("name").is_in(balance.EXPERTS)))
        if not tokens.height and kernel["type"].is_in(balance.EMBEDDINGS).any():
            looked = rank.where("kernel", ("step", "input_shapes"), pl.col("type").is_in(balance.EMBEDDINGS))
            tokens = balance.tokens_of(looked.rename({"input_shapes": "shapes"}))
        if tokens.height:
            self._tokens[rank.rank] = tokens
        kinds = kernel["type"].drop_nulls().unique()
        ran = kinds.filter(kinds.str.starts_with(balance.EXPERT_KERNELS)).to_list()
        if not experts.height and ran:
            grouped = rank.where("kernel", ("step", "input_shapes"), pl.col("type").is_in(ran))
            experts = balance.expert_tokens_of(grouped.rename({"input_shapes": "shapes"}))
        if experts.height:
            self._experts[rank.rank] = experts

    def communication(self) -> Communication:
        """The measures of communication."""
        chips = {rank: place.chip for rank, place in self._places.items()}
        reported = pl.concat(self._reported) if self._reported else _NO_LINKS
        if not self._rows:
            return Communication(links=self._placed_links(transfers.link_pairs(_NO_SUMS, reported, chips)))
        rows = pl.concat(self._rows)
        sums = pl.concat(self._sums) if self._sums else _NO_SUMS
        traffic = pl.concat(self._traffic) if self._traffic else _NO_TRAFFIC
        fits = group_ops.latency_fits(rows, self._groups)
        groups = group_ops.group_ops(rows, traffic, self._groups, self._places, self._world)
        return Communication(
            kinds=group_ops.group_kinds(groups),
            groups=groups,
            fits=fits,
            slow_ranks=slow_ranks.slow_ranks(self._made, self._collected),
            arrivals=lateness.group_arrivals(rows, self._groups, self._world),
            links=self._placed_links(transfers.link_pairs(sums, reported, chips)),
            packets=transfers.packets(sums),
            alignment=transfers.alignment(sums, rows),
            stalls=transfers.stalls(sums, rows),
            contention=contention.merged([*self._contention, *contention.comm_contention(rows, self._groups)]),
            notes=_notes(self._made, rows, fitted=bool(fits)),
        )

    def _placed_links(self, links: Sequence[LinkPair]) -> tuple[LinkPair, ...]:
        """The links with whether both ranks are on one host; a rank that was not collected has none."""
        hosts = {rank: place.host for rank, place in self._places.items() if place.host is not None}
        return tuple(
            replace(link, same_host=hosts[link.rank] == hosts[link.peer])
            if link.rank in hosts and link.peer in hosts
            else link
            for link in links
        )

    def structure(self, splits: Sequence[StepSplit], talk: Communication) -> Structure:
        """Pipeline, balance and rank matrix; `splits` of all ranks."""
        layout = {identity: info for identity, info in self._groups.items() if info.members}
        kinds = self._kinds()
        line: Pipeline | None = pipeline.pipeline(*self._placed, self._waits, splits) if self._placed else None
        members = {
            kind: {
                f"{info.label} {info.members[0]}": info.members
                for identity, info in layout.items()
                if kinds.get(identity) == kind and info.members
            }
            for kind in ("dp", "ep")
        }
        even: tuple[Balance, ...] = (
            *balance.balances("tokens", "shapes of embedding lookups", self._tokens, members["dp"], splits),
            *balance.balances(
                "expert tokens", "shapes of grouped multiplications", self._experts, members["ep"], splits
            ),
        )
        return Structure(pipeline=line, balances=even, matrix=self._matrix(splits, talk))

    def _place(self) -> tuple[dict[int, int], pipeline.Source] | None:
        """The stage of each rank."""
        kinds = self._kinds()
        lines = [info.members for identity, info in self._groups.items() if kinds[identity] == "pp" and info.members]
        return pipeline.stages_of(self._stages, lines, self._made.rows)

    def _kinds(self) -> dict[str, str | None]:
        ops = dict(self._made.rows.group_by("group").agg(pl.col("op").unique()).iter_rows())
        return {
            identity: group_ops.parallel_of(info, set(ops.get(identity, ())), self._world)[0]
            for identity, info in self._groups.items()
        }

    def _matrix(self, splits: Sequence[StepSplit], talk: Communication) -> RankMatrix | None:
        steps: dict[int, list[StepSplit]] = {}
        for split in splits:
            steps.setdefault(split.rank, []).append(split)
        counts = {rank: max(sum(split.step is not None for split in own), 1) for rank, own in steps.items()}
        rows = pl.concat(self._rows) if self._rows else None
        metrics: list[tuple[str, str, Mapping[int, float]]] = [
            (name, "ns", matrix.medians(steps, field)) for name, field in matrix.OF_STEPS
        ]
        metrics += [(name, "ns", matrix.per_step(rows, column, counts)) for name, column in matrix.OF_OPERATIONS]
        metrics += [
            ("bubble", "ns", {rank: wait.bubble_ns / wait.steps for rank, wait in self._waits.items()}),
            ("held the others up", "ns", matrix.held(talk.slow_ranks, counts) if rows is not None else {}),
            ("link speed", "GB/s", matrix.speeds(self._sums)),
            ("tokens", "tokens", matrix.means(self._tokens)),
            ("expert tokens", "tokens", matrix.means(self._experts)),
        ]
        return matrix.rank_matrix(self._collected, metrics)


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
