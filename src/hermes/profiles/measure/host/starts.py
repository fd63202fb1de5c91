"""When the training thread starts threads and processes, and ends the pools that it made."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from hermes.base.intervals import Intervals
from hermes.knowledge.host_work import CHECKPOINT, COMPILATION, DATA, ENDING, RESULTS, STARTING
from hermes.knowledge.input_work import END_FRAME, EPOCH_FRAME
from hermes.model.host_measures import HostEvents
from hermes.profiles.measure.host.calls import named, of_threads, outermost, spans
from hermes.profiles.measure.host.host_events import cut, in_steps, recorded_in, summed

_LANE = ["pid", "tid"]


def starts(
    rank: int,
    notable: pl.DataFrame,
    host_op: pl.DataFrame,
    loop: pl.DataFrame,
    step: pl.DataFrame,
    steps: int,
    busy: Intervals | None,
) -> HostEvents:
    """Starts of threads and processes on the threads of the loop, with the ends of pools.

    `notable` is of `host_op`, `loop` holds `pid`, `tid` of the thread that runs the training loop. Workers of the
    loader and of a compiler are left out: they are no fault of their own.
    """
    rows = in_steps(of_threads(notable, loop) if loop.height else notable, step)
    own = outermost(pl.concat([rows.filter(named(STARTING)), ended(rows)]))
    loader = pl.col("name").str.to_lowercase().str.contains(f"{EPOCH_FRAME}|{END_FRAME}")
    own = cut(own, spans(own) - spans(notable.filter(loader | named(COMPILATION))))
    found = summed(rank, STARTING, own, own, step, steps, busy, "Python frames")
    when = spans(own)
    return replace(
        found,
        recorded=recorded_in(when, host_op, loop),
        inside=tuple((kind, (when & spans(notable.filter(named(kind)))).total) for kind in (DATA, CHECKPOINT)),
    )


def ended(rows: pl.DataFrame) -> pl.DataFrame:
    """Ends of pools before which results were waited for since the last start: others may wait for work there."""
    ends, marks = rows.filter(named(ENDING)), rows.filter(named(STARTING) | named(RESULTS)).sort("start_ns")
    last = marks.select(*_LANE, "start_ns", named(RESULTS).alias("waited"))
    found = ends.sort("start_ns").join_asof(last, on="start_ns", by=_LANE, strategy="backward", check_sortedness=False)
    return found.filter(pl.col("waited").fill_null(value=False)).select(rows.columns)
