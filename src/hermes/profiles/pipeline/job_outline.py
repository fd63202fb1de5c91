"""Builds the outline of a job from the outlines of its ranks: clocks, last arrivals at collectives, pipeline stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import polars as pl

from hermes.base.errors import Diagnostic
from hermes.base.number_ranges import unpacked
from hermes.knowledge.recorders import Recorder, recorder_of
from hermes.model.step_measures import ClockOffset
from hermes.model.typical_step import JobSteps
from hermes.profiles.measure.communication import group_ops
from hermes.profiles.measure.communication.last_arrivals import (
    ArrivalsByRank,
    arrivals,
    arrivals_by_starts,
    meetings,
    operations_of_all_ranks,
)
from hermes.profiles.measure.communication.unrecorded_members import JobSize
from hermes.profiles.measure.communication.wait_and_transfer import ID, GroupInfo, Operations, operations
from hermes.profiles.measure.leaves.spells import is_sound
from hermes.profiles.measure.stack_rank_tables import stacked
from hermes.profiles.measure.structure import pipeline
from hermes.profiles.pipeline.pair_operations import pair_operations
from hermes.profiles.pipeline.rank_exchange import GIVEN, RankExchange
from hermes.profiles.pipeline.rank_outline import MOST_OPERATIONS, RankOutline
from hermes.profiles.tree.path_of_waits import BINDING, LEADS, FollowedRank


class JobOutline:
    """The ranks of a job before they are measured: steps, clocks, and which rank arrived last at each collective."""

    def __init__(self, outlines: Sequence[RankOutline]) -> None:
        ordered = sorted(outlines, key=lambda one: one.rank)
        self._outlines = ordered
        self.collected = tuple(one.rank for one in ordered)
        self.inputs = tuple(one.input for one in ordered)
        self.vendors = {one.rank: one.input.vendor for one in ordered}
        self.frameworks = tuple(sorted({one.framework for one in ordered if one.framework is not None}))
        self.summed = frozenset(one.rank for one in ordered if one.summed)
        """The ranks that have sums, and no timeline."""
        self.host = any(one.host for one in ordered)
        """Whether any rank recorded calls of the host."""
        self.steps = JobSteps(split for one in ordered for split in one.splits)
        self.doubts: tuple[Diagnostic, ...] = tuple(note for one in ordered for note in one.doubts)
        self.places = {one.rank: group_ops.RankPlace(host=one.input.host, chip=one.input.chip) for one in ordered}
        self.worlds = Counter(one.world_size for one in ordered if one.world_size)
        self.highest = Counter(one.highest + 1 for one in ordered if one.highest is not None)
        recorded = _groups(ordered)
        # If the job does not tell its number of ranks, its largest group gives a lower bound.
        sizes = [info.size or 0 for info in recorded.values()]
        self.world = max(len(ordered), max(self.worlds, default=0), max(sizes, default=0))
        hosts = {rank: place.host for rank, place in self.places.items()}
        self._late = _late(ordered, self.collected)
        awaited: int = self._late["late"].max() or 0  # type: ignore[assignment]
        size = JobSize(
            collected=self.collected,
            told=max(self.worlds, default=None),
            least=max(self.world, max(self.highest, default=0), max(self.collected, default=0) + 1, awaited + 1),
        )
        paired = pair_operations(
            operations_of_all_ranks({one.rank: one.operations for one in ordered}), recorded, hosts, size
        )
        self.every = paired.every.drop("stream", strict=False)
        self.match_notes = paired.notes
        self.groups: Mapping[str, GroupInfo] = paired.groups
        self.clocks: tuple[ClockOffset, ...] = paired.clocks
        self._covered = {
            one.rank: int(one.operations["start_ns"].max())  # type: ignore[arg-type]
            for one in ordered if one.operations.height >= MOST_OPERATIONS
        }  # fmt: skip
        self._stages = {one.rank: one.input.pp for one in ordered}

    @cached_property
    def recorder(self) -> Recorder | None:
        """The program that recorded the ranks; None if it is unknown, or if there are several."""
        found = {recorder_of(one.input.format, one.framework) for one in self._outlines}
        return found.pop() if len(found) == 1 else None

    @cached_property
    def _offsets(self) -> Mapping[int, tuple[int, int]]:
        return {clock.rank: (clock.offset_ns, clock.error_ns or 0) for clock in self.clocks}

    @cached_property
    def held_up(self) -> pl.DataFrame:
        """Which rank arrived last at each collective, as `arrivals.arrivals` gives it."""
        return arrivals(arrivals_by_starts(self.every, self._offsets), self._late)

    @cached_property
    def arrivals(self) -> ArrivalsByRank:
        """The last arrivals by rank and collective."""
        return ArrivalsByRank(self.held_up, frozenset(self.collected))

    @cached_property
    def made(self) -> Operations:
        """Every collective, split into wait and transfer if its last arrival is known."""
        return operations(self.every, self._offsets, self._late, self.groups)

    @cached_property
    def kinds(self) -> Mapping[str, str | None]:
        """The parallel dimension that each group serves."""
        ops = dict(self.every.group_by("group").agg(pl.col("op").unique()).iter_rows())
        return {
            identity: group_ops.parallel_of(info, set(ops.get(identity, ())), self.world)[0]
            for identity, info in self.groups.items()
        }

    @cached_property
    def members(self) -> Mapping[str, Mapping[int, tuple[int, ...]]]:
        """For each dimension, the members of each rank's group, as far as they are recorded."""
        found: dict[str, dict[int, tuple[int, ...]]] = {}
        for identity, info in self.groups.items():
            kind = self.kinds.get(identity)
            if kind is not None:
                found.setdefault(kind, {}).update(dict.fromkeys(info.members or (), info.members or ()))
        return found

    @cached_property
    def stages(self) -> tuple[dict[int, int], pipeline.Source] | None:
        """The pipeline stage of each rank, and the source of this knowledge; None without a pipeline."""
        lines = [info.members for identity, info in self.groups.items() if self.kinds[identity] == "pp"]
        return pipeline.stages_of(self._stages, [line for line in lines if line], self.made.rows)

    def meetings(self) -> list[dict[int, int]]:
        """The operations that several ranks have and that no rank contradicts: `comm_id` by rank."""
        return meetings(self.made.rows.filter("matched"))

    def binding(self, bound: Mapping[int, pl.DataFrame]) -> pl.DataFrame:
        """The binding waits of all ranks, as `path_of_waits` takes them; `bound` has their `comm_id` by rank."""
        rows = self.made.rows.select("rank", "comm_id", *ID, "start_ns", "arrival_ns", "last", "split")
        own = rows.filter(pl.col("rank") == pl.col("last")).select(*ID, "last", last_start_ns="start_ns")
        those = stacked(sorted(bound.items())).select(pl.col("rank", "comm_id").cast(pl.Int64))
        waits = rows.filter(pl.col("split") & (pl.col("rank") != pl.col("last"))).join(
            those, on=["rank", "comm_id"], how="semi"
        )
        return waits.join(own, on=[*ID, "last"], how="inner").select(BINDING.keys())

    def leads(self) -> pl.DataFrame:
        """How much later than the second the last rank arrives at each meeting, as `path_of_waits` takes it."""
        rows = self.made.rows.filter(pl.col("split")).select("rank", *ID, "start_ns", "wait_ns", "last")
        others = rows.filter(pl.col("rank") != pl.col("last")).sort("wait_ns", "rank")
        second = others.group_by(ID, maintain_order=True).agg(
            pl.col("rank").first().alias("second"), pl.col("wait_ns").first().alias("lead_ns")
        )  # fmt: skip
        own = rows.filter(pl.col("rank") == pl.col("last")).select("rank", *ID, "start_ns")
        return own.join(second, on=ID, how="inner").select(LEADS.keys())

    def followed(self, exchanged: Iterable[RankExchange]) -> Iterator[FollowedRank]:
        """The ranks that a path of waits may follow: those whose time was cut into spells."""
        for one in exchanged:
            if one.spells is not None and is_sound(one.spells, len(one.leaves)):
                yield FollowedRank(
                    rank=one.rank, rows=one.leaves, spells=one.spells,
                    offset_ns=self._offsets.get(one.rank, (0, 0))[0], covered_ns=self._covered.get(one.rank),
                )  # fmt: skip

    def given(self) -> Mapping[int, pl.DataFrame]:
        """For each rank, the columns of its collectives that `exchange` takes."""
        stages = pl.DataFrame(
            list((self.stages[0] if self.stages else {}).items()),
            schema={"rank": pl.Int64, "stage": pl.Int64},
            orient="row",
        )
        last = stages.rename({"rank": "last", "stage": "last_stage"})
        rows = self.made.rows.join(stages, on="rank", how="left", maintain_order="left")
        rows = rows.join(last, on="last", how="left", maintain_order="left").with_columns(
            (pl.col("stage") != pl.col("last_stage")).fill_null(value=False).alias("elsewhere")
        )
        parts = rows.select("rank", *GIVEN).partition_by("rank", as_dict=True, include_key=False)
        empty = rows.select(GIVEN).clear()
        return {rank: parts.get((rank,), empty) for rank in self.collected}


def _groups(outlines: Sequence[RankOutline]) -> dict[str, GroupInfo]:
    """All process groups, each as the first rank that knows its size describes it; of several sizes the largest."""
    found: dict[str, GroupInfo] = {}
    for one in outlines:
        for group in one.groups:
            if group.identity not in found or (found[group.identity].size or 0) < (group.size or 0):
                members = unpacked(group.members) if group.members is not None else None
                found[group.identity] = GroupInfo(label=group.label, members=members, size=group.size)
    return found


def _late(outlines: Sequence[RankOutline], collected: Sequence[int]) -> pl.DataFrame:
    """Arrivals at collectives of ranks that were not collected."""
    named = stacked((one.rank, one.late) for one in outlines)
    return named.filter(~pl.col("late").is_in(list(collected)))
