"""Measures one rank's host over its capture: events, cores and shapes."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from hermes.knowledge.host_work import COMPUTING, LAYERS
from hermes.model.host_measures import Before, CoreLoad, HostEvents, Shapes
from hermes.profiles.measure.host import host_events as events
from hermes.profiles.measure.host.numeric_checks import numeric_check_calls
from hermes.profiles.measure.host.select_host_calls import calls_of_threads, computing_calls, dispatching
from hermes.profiles.measure.host.thread_starts import starts_of_threads
from hermes.profiles.measure.registry import RankTables, per_rank
from hermes.profiles.measure.steps.breakdown import splits_of
from hermes.profiles.measure.steps.device_of_step import busy_of

_HOST_OP = ("rank", "kind", "name", "pid", "tid", "start_ns", "dur_ns", "self_ns")
_NODES = ("pid", "tid", "start_ns", "dur_ns", "sequence", "forward_tid")


def notable_of(rank: RankTables) -> pl.DataFrame:
    """The calls of a rank whose names tell of input, compilation, allocation, logging, or a module."""
    return events.notable_calls(rank.table("host_op"))


def loop_of(rank: RankTables) -> pl.DataFrame:
    """The threads that mark the steps."""
    return rank.table("host_op").filter(pl.col("kind") == "step").select("pid", "tid").unique()


@per_rank(Before, needs={"host_op": _HOST_OP})
def before_of(rank: RankTables) -> Before | None:
    """The steps before the capture, as the capture describes them."""
    splits = splits_of(rank)
    captured = sum(split.window_ns for split in splits) // max(1, len(splits))
    calls = events.profiler_records(rank.table("host_op")) / max(1, len(splits))
    return events.steps_before_capture(rank.rank, rank.table("setting"), calls, captured)


@per_rank(HostEvents, needs={"host_op": _HOST_OP})
def events_of(rank: RankTables) -> Iterator[HostEvents]:
    """The host events of a rank, one row for each kind of call."""
    splits, host_op = splits_of(rank), rank.table("host_op")
    loop, notable, busy = rank.once(loop_of), rank.once(notable_of), rank.once(busy_of)
    step = rank.table("step")
    layers = _recurrent(rank) if busy is None else None
    lists = events.made_into_tensors(notable, host_op, loop)
    yield from events.host_events(
        splits, step, notable, rank.table("gc"), rank.table("setting"), busy, loop, numeric_check_calls(host_op),
        rank.rank,
        layers, lists, host_op,
    )  # fmt: skip
    if busy is not None:
        own = computing_calls(calls_of_threads(host_op, dispatching(host_op)))
        yield events.sum_of_kind(
            rank.rank, COMPUTING, own, own, step, max(1, len(splits)), busy, "operators without a launch"
        )
    yield starts_of_threads(rank.rank, notable, host_op, loop, step, max(1, len(splits)), busy)


def _recurrent(rank: RankTables) -> pl.DataFrame | None:
    """The recurrent layers of a rank with their backward nodes; None if it has no such layer."""
    layers = rank.data.where("host_op", (*_NODES, "name"), pl.col("name").is_in(LAYERS))
    if not layers.height:
        return None
    return events.recurrent(layers, rank.data.where("host_op", (*_NODES, "name"), pl.col("sequence") >= 0))


def cores_of(rank: RankTables) -> CoreLoad | None:
    """The load of the host's cores during the capture."""
    usage = rank.data.where("counter", ("source", "name", "value"), pl.col("source") == events.USAGE)
    return events.contention(rank.rank, usage)


@per_rank(CoreLoad, beside=("counter",))
def contention_of(rank: RankTables) -> CoreLoad | None:
    """The load of the host's cores during the capture, as a measure."""
    return rank.once(cores_of)


@per_rank(Shapes)
def shapes_of(rank: RankTables) -> Shapes | None:
    """The dynamic shapes of a rank's kernels."""
    kernel = rank.data.table("kernel", "component", "type", "input_shapes", "op_state", "step")
    return events.shapes(rank.rank, kernel)
