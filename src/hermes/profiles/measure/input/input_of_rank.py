"""Measures the input pipeline of one rank: fetches, copies, rates and queues."""

from __future__ import annotations

import polars as pl

from hermes.model.input_measures import Fetches, InputCopies, InputQueue, InputRates
from hermes.profiles.measure.host.host_of_rank import cores_of, notable_of
from hermes.profiles.measure.input import fetches as pipeline
from hermes.profiles.measure.registry import RankTables, per_rank
from hermes.profiles.measure.steps.breakdown import splits_of
from hermes.profiles.measure.steps.device_of_step import busy_of, parts_of, tasks_of

# With more fetches, the first ones are taken to stand for the others.
_FETCHES_LOOKED_AT = 200


def rows_of(rank: RankTables) -> pipeline.InputRows:
    """What a rank's capture holds about its input."""
    notable = rank.once(notable_of)
    linked = rank.once(tasks_of).drop_nulls("launch_ns")
    return pipeline.InputRows(
        rank=rank.rank,
        splits=splits_of(rank),
        notable=notable,
        inside=_inside(rank, pipeline.fetch_rows(notable)),
        framed=bool((rank.table("host_op")["kind"] == "python").any()),
        busy=rank.once(busy_of),
        launched=linked["launch_ns"].sort().to_numpy(),
        begun=linked["start_ns"].sort().to_numpy(),
    )


def _inside(rank: RankTables, calls: pl.DataFrame) -> pl.DataFrame:
    """The calls and frames inside the fetches of a loop that reads its data itself, with operators' stacks."""
    columns = ("kind", "name", "pid", "tid", "start_ns", "dur_ns", "stack_id")
    single = calls.filter(pl.col("name").str.contains("SingleProcess"))
    if not single.height:
        return rank.table("host_op").clear().with_columns(pl.lit(None, dtype=pl.String).alias("frames"))
    parts = [
        rank.data.between("host_op", columns, start, start + length).filter(
            (pl.col("tid") == tid) & (pl.col("start_ns") > start) & (pl.col("start_ns") < start + length)
        )
        for start, length, tid in single.select("start_ns", "dur_ns", "tid").head(_FETCHES_LOOKED_AT).iter_rows()
    ]
    stack = rank.data.table("stack", "stack_id", "frames")
    return pl.concat(parts).join(stack, on="stack_id", how="left")


def _fetches(rank: RankTables) -> Fetches | None:
    return pipeline.fetches(rank.once(rows_of))


def _copies(rank: RankTables) -> InputCopies | None:
    parts = rank.once(parts_of)
    return pipeline.copies_in(rank.rank, rank.table("kernel"), parts["compute"] | parts["comm"])


@per_rank(Fetches)
def fetches_of(rank: RankTables) -> Fetches | None:
    """How the training loop got its batches."""
    return rank.once(_fetches)


@per_rank(InputCopies, needs={"kernel": ("component", "start_ns", "dur_ns", "direction", "bytes", "name")})
def copies_of(rank: RankTables) -> InputCopies | None:
    """Copies from the host to the device."""
    return rank.once(_copies)


@per_rank(InputRates, beside=("counter",))
def rates_of(rank: RankTables) -> InputRates | None:
    """The rate of each stage of the input."""
    return pipeline.rates(rank.once(_fetches), splits_of(rank), rank.once(_copies), rank.once(cores_of))


@per_rank(InputQueue, beside=("input_queue",))
def queues_of(rank: RankTables) -> tuple[InputQueue, ...]:
    """The queues that a batch passes on its way to the device."""
    return tuple(pipeline.queues(rank.once(rows_of), rank.once(_fetches), rank.table("input_queue")))
