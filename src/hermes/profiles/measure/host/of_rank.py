"""The host of one rank over its capture: its notable calls once for all, and what is measured of them."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from hermes.knowledge.blocking import causes_of
from hermes.knowledge.host_work import COMPUTING, LAYERS
from hermes.model.host_measures import Before, Contention, HostEvents, Shapes
from hermes.model.measures import HostStall
from hermes.profiles.measure.host import host_events as events
from hermes.profiles.measure.host.calls import computing, dispatching, of_threads
from hermes.profiles.measure.host.checks import checks
from hermes.profiles.measure.host.host_stalls import breaks, stalls
from hermes.profiles.measure.host.starts import starts
from hermes.profiles.measure.registry import RankTables, per_rank
from hermes.profiles.measure.steps.breakdown import splits_of
from hermes.profiles.measure.steps.device import busy_of

_HOST_OP = ("rank", "kind", "name", "pid", "tid", "start_ns", "dur_ns", "self_ns")
_NODES = ("pid", "tid", "start_ns", "dur_ns", "sequence", "forward_tid")


def notable_of(rank: RankTables) -> pl.DataFrame:
    """The calls whose names tell of input, compilation, allocation, logging, or a module."""
    return events.notable(rank.table("host_op"))


def loop_of(rank: RankTables) -> pl.DataFrame:
    """The threads that mark the steps."""
    return rank.table("host_op").filter(pl.col("kind") == "step").select("pid", "tid").unique()


@per_rank(Before, needs={"host_op": _HOST_OP})
def before_of(rank: RankTables) -> Before | None:
    """What the capture says of the steps before it."""
    splits = splits_of(rank)
    captured = sum(split.whole_ns for split in splits) // max(1, len(splits))
    calls = events.records(rank.table("host_op")) / max(1, len(splits))
    return events.before(rank.rank, rank.table("setting"), calls, captured)


@per_rank(HostEvents, needs={"host_op": _HOST_OP})
def events_of(rank: RankTables) -> Iterator[HostEvents]:
    """What took the host, one row for each kind of call."""
    splits, host_op = splits_of(rank), rank.table("host_op")
    loop, notable, busy = rank.once(loop_of), rank.once(notable_of), rank.once(busy_of)
    step = rank.table("step")
    layers = _recurrent(rank) if busy is None else None
    lists = events.made_into_tensors(notable, host_op, loop)
    yield from events.host_events(
        splits, step, notable, rank.table("gc"), rank.table("setting"), busy, loop, checks(host_op), rank.rank,
        layers, lists, host_op,
    )  # fmt: skip
    if busy is not None:
        own = computing(of_threads(host_op, dispatching(host_op)))
        yield events.summed(
            rank.rank, COMPUTING, own, own, step, max(1, len(splits)), busy, "operators without a launch"
        )
    yield starts(rank.rank, notable, host_op, loop, step, max(1, len(splits)), busy)


def _recurrent(rank: RankTables) -> pl.DataFrame | None:
    """The recurrent layers of a rank with their backward; None where there are none."""
    layers = rank.data.where("host_op", (*_NODES, "name"), pl.col("name").is_in(LAYERS))
    if not layers.height:
        return None
    return events.recurrent(layers, rank.data.where("host_op", (*_NODES, "name"), pl.col("sequence") >= 0))


def cores_of(rank: RankTables) -> Contention | None:
    """How busy the cores of the host were."""
    usage = rank.data.where("counter", ("source", "name", "value"), pl.col("source") == events.USAGE)
    return events.contention(rank.rank, usage)


@per_rank(Contention)
def contention_of(rank: RankTables) -> Contention | None:
    """How busy the cores of the host were."""
    return rank.once(cores_of)


@per_rank(Shapes)
def shapes_of(rank: RankTables) -> Shapes | None:
    """Dynamic shapes of a rank."""
    kernel = rank.data.table("kernel", "component", "type", "input_shapes", "op_state", "step")
    return events.shapes(rank.rank, kernel)


@per_rank(HostStall, needs={"host_op": _HOST_OP})
def stalls_of(rank: RankTables) -> tuple[HostStall, ...]:
    """What calls of one cause cost a rank."""
    host_op = rank.table("host_op")
    causes = causes_of(host_op["name"].unique().sort())
    when = breaks(host_op, rank.table("gc"))
    return stalls(splits_of(rank), host_op, rank.table("kernel"), rank.table("comm_op"), causes, when)
