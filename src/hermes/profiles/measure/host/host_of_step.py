"""Measures the host in one rank's typical step: work by reason, dispatch, and waits for the device."""

from __future__ import annotations

import polars as pl

from hermes.knowledge.blocking_calls import FROM_PAGEABLE
from hermes.model.host_measures import Dispatch, QueueDepth, StepHost, SyncCall
from hermes.profiles.measure.host import dispatch
from hermes.profiles.measure.host.select_host_calls import calls_within
from hermes.profiles.measure.registry import RankTables, per_rank
from hermes.profiles.measure.steps.breakdown import typical_of
from hermes.profiles.measure.steps.device_of_step import busy_of, parts_of, reaching, step_bounds, step_calls, tasks_of

# Time in ns after the step whose tasks are read too: a call at the end of a step leaves the device free after it.
_AFTER_NS = 1_000_000_000


def rows_of(rank: RankTables) -> dispatch.StepRows | None:
    """The rows that overlap a rank's typical step; None without one."""
    split, bounds = rank.once(typical_of), rank.once(step_bounds)
    if split is None or bounds is None:
        return None
    start, end, first, last = bounds
    parts = rank.once(parts_of)
    owned = pl.col("step") == split.step if split.step is not None else pl.lit(value=True)
    return dispatch.StepRows(
        split=split,
        start_ns=start,
        end_ns=end,
        tasks=reaching(rank.once(tasks_of), first, last).with_columns(owned.fill_null(value=False).alias("owned")),
        host_op=rank.once(step_calls),
        gc=calls_within(rank.table("gc"), start, end),
        stack=rank.data.table("stack", "stack_id", "frames"),
        compute=parts["compute"].clip(first, last + _AFTER_NS),
        comm=parts["comm"].clip(first, last + _AFTER_NS),
        copy=parts["copy"].clip(first, last + _AFTER_NS),
        recorded=rank.once(busy_of) is not None,
        pageable=_pageable(rank),
    )


def _pageable(rank: RankTables) -> frozenset[int]:
    copies = rank.table("kernel").filter((pl.col("component") == "copy") & pl.col("name").str.contains(FROM_PAGEABLE))
    return frozenset(copies["launch_ns"].drop_nulls().to_list())


def _host(rank: RankTables) -> StepHost | None:
    rows = rank.once(rows_of)
    return dispatch.step_host(rows) if rows else None


@per_rank(StepHost)
def step_of(rank: RankTables) -> StepHost | None:
    """The host's part of the typical step by reason."""
    return rank.once(_host)


@per_rank(Dispatch)
def dispatch_of(rank: RankTables) -> Dispatch | None:
    """How the host launched the tasks of the typical step."""
    rows = rank.once(rows_of)
    return dispatch.dispatch(rows, rank.once(_host), rank.table("setting"), rank.vendor) if rows else None


@per_rank(QueueDepth)
def depths_of(rank: RankTables) -> tuple[QueueDepth, ...]:
    """The number of tasks that were launched and not begun in the typical step."""
    rows = rank.once(rows_of)
    return tuple(dispatch.queue_depths(rows)) if rows else ()


@per_rank(SyncCall, needs={"kernel": ("component", "name", "launch_ns")})
def syncs_of(rank: RankTables) -> tuple[SyncCall, ...]:
    """The calls in the typical step that waited for the device."""
    rows = rank.once(rows_of)
    return tuple(dispatch.sync_calls(rows)) if rows else ()
