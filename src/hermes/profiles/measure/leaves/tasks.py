"""The device tasks of a rank by start: kind, duration, and the call that launched each task."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from hermes.knowledge.vendor_traits import SHOWN_AS_OPERATIONS
from hermes.model.tables import RUNTIME_KINDS
from hermes.profiles.measure.leaves.call_trees import CallTrees
from hermes.profiles.measure.leaves.nesting import NONE, Ints
from hermes.profiles.measure.steps.device_work import DeviceTasks, ends_in_order

PARTS = ("compute", "comm", "copy")
"""Parts of a task's time in the order in which they count if several run at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """Device tasks by start. `part` is an index into `PARTS`; `kernel` and `comm` are indices into those tables, or -1.

    Fields of the launching call: `thread` (-1: not recorded), and its start and end `call_ns` and `called_ns` on the
    rank's clock. `launch` is the call's correlation, equal in tasks of one launch; -1 without one. `launch_ns` is the
    start of the launching call that the reader found, and `step` the step to which the reader gave it. `issue` is the
    moment on the operator's thread at which the work was issued, on the axis of the calls, or -1. A task ends where the
    next task on its stream begins.
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
    launch_ns: Ints
    issue: Ints
    step: Ints

    def __len__(self) -> int:
        return len(self.start)

    @property
    def of_device(self) -> DeviceTasks:
        """The tasks without the links that the leaves need."""
        return DeviceTasks(start=self.start, end=self.end, part=self.part, launch_ns=self.launch_ns, step=self.step)


def tasks_of(kernel: pl.DataFrame, comm_op: pl.DataFrame, flow: pl.DataFrame, calls: CallTrees) -> Tasks:
    """The tasks of a rank.

    Args:
        kernel: `component, start_ns, dur_ns, stream, device_id, correlation, launch_ns, step`.
        comm_op: `library, start_ns, dur_ns, stream, correlation, launch_ns, step`; where there are any, they stand for
            the kernels that communicate.
        flow: `kind, src_pid, src_tid, src_ns, dst_tid, dst_ns`, of the kinds `launch` and `operator`.
        calls: of the same rank.
    """
    rows = _rows(kernel, comm_op).sort("start_ns", "end_ns", "kernel", "comm", maintain_order=True)
    start = rows["start_ns"].to_numpy()
    cut = ends_in_order(rows.with_columns((pl.col("kernel") != NONE).alias("in_order")))
    rows = _launched(rows, flow, calls)
    thread = _ints(rows["thread"])
    return Tasks(
        start=start, end=cut, part=_ints(rows["part"]), kernel=_ints(rows["kernel"]), comm=_ints(rows["comm"]),
        thread=thread, call_ns=_ints(rows["call_ns"]), called_ns=_ints(rows["called_ns"]),
        launch=_ints(rows["correlation"]), launch_ns=_ints(rows["launch_ns"]),
        issue=_issued(rows, flow, calls), step=_ints(rows["step"]),
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


def _launched(rows: pl.DataFrame, flow: pl.DataFrame, calls: CallTrees) -> pl.DataFrame:
    """The rows with `thread`, `call_ns`, `called_ns` of the call with their correlation, else of the arrow to them."""
    at = np.flatnonzero(calls.of_kind(*RUNTIME_KINDS))
    own = calls.recorded("correlation", "start_ns", "dur_ns", which=at).select(
        "correlation", pl.Series("thread", calls.thread[at]), pl.col("start_ns").alias("call_ns"),
        (pl.col("start_ns") + pl.col("dur_ns")).alias("called_ns"),
    )  # fmt: skip
    own = own.drop_nulls("correlation").sort("called_ns").unique("correlation", keep="first", maintain_order=True)
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


def _arrows(flow: pl.DataFrame, calls: CallTrees) -> pl.DataFrame:
    """Arrows as `dst_ns, dst_tid, from_thread, src_ns`; Ascend numbers each layer as a process, threads stay."""
    threads = pl.DataFrame(
        [(tid, place) for place, (_, tid) in enumerate(calls.axis.threads) if tid is not None],
        schema={"src_tid": pl.Int64, "from_thread": pl.Int64}, orient="row",
    ).unique("src_tid", keep="first", maintain_order=True)  # fmt: skip
    found = flow.select("src_tid", "src_ns", "dst_tid", "dst_ns").join(threads, on="src_tid", how="inner")
    found = found.select("dst_ns", "dst_tid", "from_thread", "src_ns").sort("src_ns")
    return found.unique(["dst_ns", "dst_tid"], keep="last", maintain_order=True)


def _issued(rows: pl.DataFrame, flow: pl.DataFrame, calls: CallTrees) -> Ints:
    """The place on the axis at which each task was issued: the start of the operator's arrow, else the launch."""
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
