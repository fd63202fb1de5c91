"""The extent of a capture without step marks: from its first event to its last, of host or device.

Such a capture is one step. The split of steps and the time tree both take its bounds from here.
"""

from __future__ import annotations

import polars as pl

from hermes.model.tables import RUNTIME_KINDS, TABLES, empty
from hermes.model.tables.unmarked_steps import WHOLE
from hermes.profiles.measure.steps.device_work import counted_tasks

CALLS = ("op", "python", "mark", "step", "enqueue", "dequeue", *RUNTIME_KINDS)
"""The kinds of rows of `host_op` that are calls of a thread."""
NO_CALLS = empty(TABLES["host_op"]).lazy()

Extent = tuple[int, int]
"""A first moment and a last one, in ns."""


def is_call() -> pl.Expr:
    """Whether a row of `host_op` is a call of a thread with a length: other rows take no time of a step."""
    return pl.col("kind").is_in(CALLS) & (pl.col("dur_ns") > 0)


def is_marked(step: pl.DataFrame) -> bool:
    """Whether steps are known: the framework or a server marked them, or their launches repeat."""
    return step.height > 1 or (step.height == 1 and step["name"][0] != WHOLE)


def capture_extent(
    step: pl.DataFrame, kernel: pl.DataFrame, comm_op: pl.DataFrame, host_op: pl.LazyFrame
) -> Extent | None:
    """The first event and the last of an unmarked capture; None if they are one moment, or nothing was recorded.

    `kernel` needs `component, start_ns, dur_ns, device_id, stream`, `comm_op` `library, start_ns, dur_ns, stream`, and
    `host_op` `kind, start_ns, dur_ns`. The mark of a whole capture, which a reader makes, stands for its calls.
    """
    spans = [_span(step.lazy()) if step.height else _span(host_op.filter(is_call())), _span_of_device(kernel, comm_op)]
    known = [span for span in spans if span is not None]
    if not known:
        return None
    first, last = min(start for start, _ in known), max(end for _, end in known)
    return (first, last) if first < last else None


def _span(rows: pl.LazyFrame) -> Extent | None:
    end = (pl.col("start_ns") + pl.col("dur_ns")).max().alias("end")
    first, last = rows.select(pl.col("start_ns").min(), end).collect().row(0)
    return None if first is None else (first, last)


def _span_of_device(kernel: pl.DataFrame, comm_op: pl.DataFrame) -> Extent | None:
    """The first start and the last end of the device's tasks: a task ends where the next task on its stream begins."""
    own, operations = counted_tasks(kernel, comm_op)
    columns = ("device_id", "stream", "start_ns", (pl.col("start_ns") + pl.col("dur_ns")).alias("end"))
    operations = operations.with_columns(pl.lit(None, dtype=pl.Int64).alias("device_id"))
    rows = pl.concat([own.select(*columns), operations.select(*columns)])
    if not rows.height:
        return None
    # Of the tasks on one stream, only the last can end after all others.
    latest = pl.col("end").filter(pl.col("start_ns") == pl.col("start_ns").max()).max()
    ends = [
        rows.filter(pl.col("stream").is_not_null()).group_by("device_id", "stream").agg(latest)["end"].max(),
        rows.filter(pl.col("stream").is_null())["end"].max(),
        # An operation is no task of one stream.
        operations.select(columns[-1])["end"].max(),
    ]
    return int(rows["start_ns"].min()), max(int(end) for end in ends if end is not None)  # type: ignore[arg-type]
