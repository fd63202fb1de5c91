"""The tasks of a rank's device by start: what each is, when it ran, and which call launched it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from hermes.base.intervals import Ints
from hermes.knowledge.vendors import SHOWN_AS_OPERATIONS
from hermes.model.tables import RUNTIME_KINDS
from hermes.profiles.measure.leaves.calls import NONE, Calls

PARTS = ("compute", "comm", "copy")
"""In the order in which they count where several run at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """Tasks by start. `part` is a place in `PARTS`; `kernel` and `comm` are places in those tables, or -1.

    Of each the call that launched it: `thread` (-1: not recorded), `call_ns` and `called_ns` (its start and end, on the
    clock of the rank) and `launch` (the call's correlation, equal in tasks of one launch; -1 without). `issue` is the
    moment of the operator's thread at which the work was issued, on the axis of the calls, or -1. A task ends where the
    next one on its stream begins.
    """

    start: Ints
    end: Ints
    part: Ints
    kernel: Ints
    comm: Ints
    thread: Ints
    call_ns: Ints
    called_ns: Ints
    launch: Ints
    issue: Ints
    step: Ints

    def __len__(self) -> int:
        return len(self.start)


def tasks_of(kernel: pl.DataFrame, comm_op: pl.DataFrame, flow: pl.DataFrame, calls: Calls) -> Tasks:
    """The tasks of a rank.

    Args:
        kernel: `component, start_ns, dur_ns, stream, device_id, correlation, launch_ns, step`.
        comm_op: `library, start_ns, dur_ns, stream, correlation, launch_ns, step`; where there are any, they stand for
            the kernels that communicate.
        flow: `kind, src_pid, src_tid, src_ns, dst_tid, dst_ns`, of the kinds `launch` and `operator`.
        calls: of the same rank.
    """
    rows = _rows(kernel, comm_op).sort("start_ns", "end_ns", "kernel", "comm", maintain_order=True)
    start, end = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    cut = _cut(rows, start, end)
    rows = _launched(rows, flow, calls)
    thread = _ints(rows["thread"])
    return Tasks(
        start=start, end=cut, part=_ints(rows["part"]), kernel=_ints(rows["kernel"]), comm=_ints(rows["comm"]),
        thread=thread, call_ns=_ints(rows["call_ns"]), called_ns=_ints(rows["called_ns"]),
        launch=_ints(rows["correlation"]), issue=_issued(rows, flow, calls), step=_ints(rows["step"]),
    )  # fmt: skip


def _rows(kernel: pl.DataFrame, comm_op: pl.DataFrame) -> pl.DataFrame:
    operations = bool(comm_op.height) and (bool(kernel.height) or SHOWN_AS_OPERATIONS in comm_op["library"])
    own = kernel.with_row_index("kernel").filter(
        pl.col("component").is_in(PARTS[::2] if operations else PARTS)
    ).select(
        pl.col("component").replace_strict({one: at for at, one in enumerate(PARTS)}).cast(pl.Int64).alias("part"),
        "start_ns", "dur_ns", "stream", "device_id", "correlation", "launch_ns", "step",
        pl.col("kernel").cast(pl.Int64), pl.lit(NONE, dtype=pl.Int64).alias("comm"),
    )  # fmt: skip
    if operations:
        more = comm_op.with_row_index("comm").select(
            pl.lit(1, dtype=pl.Int64).alias("part"), "start_ns", "dur_ns", "stream",
            pl.lit(None, dtype=pl.Int64).alias("device_id"), "correlation", "launch_ns", "step",
            pl.lit(NONE, dtype=pl.Int64).alias("kernel"), pl.col("comm").cast(pl.Int64),
        )  # fmt: skip
        own = pl.concat([own, more])
    return own.with_columns((pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns"))


def _ints(values: pl.Series) -> Ints:
    return np.asarray(values.cast(pl.Int64).fill_null(NONE).to_numpy(), dtype=np.int64)


def _cut(rows: pl.DataFrame, start: Ints, end: Ints) -> Ints:
    """Ends: a stream is in order, so no task on it outlasts the start of the next one."""
    following = pl.col("start_ns").shift(-1).over("device_id", "stream")
    latest = rows.select(
        pl.when(pl.col("stream").is_not_null() & (pl.col("kernel") != NONE)).then(following).alias("next")
    )["next"].fill_null(np.iinfo(np.int64).max)  # fmt: skip
    return np.asarray(np.maximum(np.minimum(end, latest.to_numpy()), start), dtype=np.int64)


def _launched(rows: pl.DataFrame, flow: pl.DataFrame, calls: Calls) -> pl.DataFrame:
    """The rows with `thread`, `call_ns`, `called_ns`: of the call with their correlation, else of the arrow to them."""
    own = calls.rows.with_columns(pl.Series("thread", calls.thread)).filter(
        pl.col("correlation").is_not_null() & pl.col("kind").is_in(RUNTIME_KINDS)
    )
    own = own.select(
        "correlation", "thread", pl.col("start_ns").alias("call_ns"),
        (pl.col("start_ns") + pl.col("dur_ns")).alias("called_ns"),
    ).sort("called_ns").unique("correlation", keep="first", maintain_order=True)  # fmt: skip
    rows = rows.join(own, on="correlation", how="left", maintain_order="left")
    arrows = _arrows(flow.filter(pl.col("kind") == "launch"), calls)
    rows = rows.join(
        arrows, left_on=["start_ns", "stream"], right_on=["dst_ns", "dst_tid"], how="left", maintain_order="left"
    )
    return rows.with_columns(
        pl.coalesce("thread", "from_thread").alias("thread"),
        pl.coalesce("call_ns", "src_ns", "launch_ns").alias("call_ns"),
        pl.coalesce("called_ns", "src_ns", "launch_ns").alias("called_ns"),
    ).drop("from_thread", "src_ns")


def _arrows(flow: pl.DataFrame, calls: Calls) -> pl.DataFrame:
    """`dst_ns, dst_tid, from_thread, src_ns`; Ascend gives each layer a process, and threads keep theirs."""
    threads = pl.DataFrame(
        [(tid, place) for place, (_, tid) in enumerate(calls.axis.threads) if tid is not None],
        schema={"src_tid": pl.Int64, "from_thread": pl.Int64}, orient="row",
    ).unique("src_tid", keep="first", maintain_order=True)  # fmt: skip
    found = flow.select("src_tid", "src_ns", "dst_tid", "dst_ns").join(threads, on="src_tid", how="inner")
    found = found.select("dst_ns", "dst_tid", "from_thread", "src_ns").sort("src_ns")
    return found.unique(["dst_ns", "dst_tid"], keep="last", maintain_order=True)


def _issued(rows: pl.DataFrame, flow: pl.DataFrame, calls: Calls) -> Ints:
    """Where on the axis the work was issued: at the start of the operator's arrow, else at the launch."""
    arrows = _arrows(flow.filter(pl.col("kind") == "operator"), calls)
    keys = {"left_on": ["start_ns", "stream"], "right_on": ["dst_ns", "dst_tid"]}
    found = rows.select("start_ns", "stream", "thread", "call_ns").join(
        arrows,
        how="left",
        maintain_order="left",
        **keys,  # type: ignore[arg-type]
    )
    thread = _ints(pl.select(pl.coalesce(found["from_thread"], found["thread"])).to_series())
    moment = _ints(pl.select(pl.coalesce(found["src_ns"], found["call_ns"])).to_series())
    known = (thread != NONE) & (moment != NONE)
    return np.where(known, calls.axis.at(np.maximum(thread, 0), moment), NONE)
