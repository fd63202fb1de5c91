"""Finds where the training thread starts threads and processes, and ends its worker pools."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from hermes.base.intervals import Intervals
from hermes.knowledge.host_work import CHECKPOINT, COMPILATION, DATA, ENDING, RESULTS, STARTING
from hermes.knowledge.input_work import END_FRAME, EPOCH_FRAME
from hermes.model.host_measures import HostEvents
from hermes.profiles.measure.host.host_events import in_steps, recorded_in, rows_inside, sum_of_kind
from hermes.profiles.measure.host.select_host_calls import calls_of_threads, names_reason, outermost, spans

_LANE = ["pid", "tid"]


def starts_of_threads(
    rank: int,
    notable: pl.DataFrame,
    host_op: pl.DataFrame,
    loop: pl.DataFrame,
    step: pl.DataFrame,
    steps: int,
    busy: Intervals | None,
) -> HostEvents:
    """Starts of threads and processes on the threads of the training loop, with the ends of worker pools.

    `notable` are the notable rows of `host_op`; `loop` holds `pid`, `tid` of the thread that runs the training loop.
    Workers of data loaders and compilers are left out: they belong to data loading and compilation.
    """
    rows = in_steps(calls_of_threads(notable, loop) if loop.height else notable, step)
    own = outermost(pl.concat([rows.filter(names_reason(STARTING)), ended_pools(rows)]))
    loader = pl.col("name").str.to_lowercase().str.contains(f"{EPOCH_FRAME}|{END_FRAME}")
    own = rows_inside(own, spans(own) - spans(notable.filter(loader | names_reason(COMPILATION))))
    found = sum_of_kind(rank, STARTING, own, own, step, steps, busy, "Python frames")
    when = spans(own)
    return replace(
        found,
        recorded=recorded_in(when, host_op, loop),
        inside=tuple((kind, (when & spans(notable.filter(names_reason(kind)))).total) for kind in (DATA, CHECKPOINT)),
    )


def ended_pools(rows: pl.DataFrame) -> pl.DataFrame:
    """Ends of worker pools after a wait for results since the last start: other ends may still wait for work."""
    ends, marks = (
        rows.filter(names_reason(ENDING)),
        rows.filter(names_reason(STARTING) | names_reason(RESULTS)).sort("start_ns"),
    )
    last = marks.select(*_LANE, "start_ns", names_reason(RESULTS).alias("waited"))
    found = ends.sort("start_ns").join_asof(last, on="start_ns", by=_LANE, strategy="backward", check_sortedness=False)
    return found.filter(pl.col("waited").fill_null(value=False)).select(rows.columns)
