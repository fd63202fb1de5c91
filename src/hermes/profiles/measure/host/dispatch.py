"""Measures the host in a step: its work by reason, launches, queue depth, and calls that wait for the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import polars as pl

from hermes.base.enclosing_calls import enclosing
from hermes.base.intervals import Intervals, Ints, window
from hermes.knowledge.blocking_calls import LONG_COPY_NS, launches_a_graph
from hermes.knowledge.host_work import DISPATCH
from hermes.knowledge.user_code import is_own
from hermes.knowledge.vendor_traits import ASKED_DIRECTLY, NO_QUEUE, QUEUE_SETTING, traits
from hermes.model.host_measures import Dispatch, HostPart, QueueDepth, StepHost, SyncCall
from hermes.model.step_measures import StepSplit
from hermes.model.tables import RUNTIME_KINDS
from hermes.profiles.measure.host.select_host_calls import (
    blocking_calls,
    calls_of_threads,
    dispatching,
    intervals_by_reason,
    outermost,
    spans,
)

# HTA and other tools call a kernel short if it takes less time than its launch.
_SMALL_NS = 10_000
_FULL = 1_000
_SLICES = 50
_SOURCE_LIMIT = 400


@dataclass(frozen=True, kw_only=True)
class StepRows:
    """One step of one rank: its split, the host's part of the step, and the rows that overlap either.

    `tasks` are device tasks (`component, device_id, start_ns, dur_ns, launch_ns`, collectives as operations); their
    column `owned` says which belong to the step. `host_op` needs `kind, name, pid, tid, start_ns, dur_ns, forward_tid,
    stack_id`; `stack` is the table. `compute`, `comm` and `copy` are the times of the device's work. `pageable` are the
    moments at which calls began that copy pageable memory.
    """

    split: StepSplit
    start_ns: int
    end_ns: int
    tasks: pl.DataFrame
    host_op: pl.DataFrame
    gc: pl.DataFrame
    stack: pl.DataFrame
    compute: Intervals
    comm: Intervals
    copy: Intervals
    recorded: bool
    pageable: frozenset[int] = frozenset()

    @cached_property
    def busy(self) -> Intervals:
        """The times at which the device worked."""
        return self.compute | self.comm | self.copy


def step_host(rows: StepRows) -> StepHost | None:
    """The host's part of the step by reason; None if no call of the host is recorded."""
    if not rows.host_op.height or rows.end_ns <= rows.start_ns:
        return None
    threads = dispatching(rows.host_op)
    calls = calls_of_threads(rows.host_op, threads)
    busy = rows.busy
    mark = window(rows.start_ns, rows.end_ns)
    parts = tuple(
        HostPart(reason=reason, ns=when.total, device_free_ns=(when - busy).total if rows.recorded else None)
        for reason, when in intervals_by_reason(mark, calls, rows.gc)
        if when.total
    )
    queue = rows.host_op.filter(pl.col("kind") == "dequeue")
    return StepHost(
        rank=rows.split.rank,
        step=rows.split.step,
        start_ns=rows.start_ns,
        host_ns=rows.end_ns - rows.start_ns,
        parts=parts,
        threads=threads.height,
        queue_ns=spans(queue).clip(rows.start_ns, rows.end_ns).total if queue.height else None,
    )


def dispatch(rows: StepRows, host: StepHost | None, setting: pl.DataFrame, vendor: str) -> Dispatch | None:
    """How the step's tasks were launched; None if no task is recorded."""
    tasks = rows.tasks.filter(pl.col("owned"))
    if not tasks.height:
        return None
    linked = tasks.drop_nulls("launch_ns").sort("launch_ns", "start_ns")
    launch, start = linked["launch_ns"].to_numpy(), linked["start_ns"].to_numpy()
    busy = rows.busy
    kernels = tasks.filter(pl.col("component") == "compute")
    state, source = _task_queue(rows.host_op, setting, vendor)
    # The device had nothing left: it had been free since the end of the last earlier task.
    free_since = _free_since(busy, start)
    late = (free_since < start) & (launch >= free_since) if len(start) else np.empty(0, dtype=bool)
    work = host.of(*DISPATCH) if host else 0
    kernel_ns = int(kernels["dur_ns"].sum())
    names = rows.host_op["name"].unique()
    graphed = [name for name in names if launches_a_graph(name)]
    graphs = rows.host_op.filter(pl.col("name").is_in(graphed))["start_ns"].unique()
    return Dispatch(
        rank=rows.split.rank,
        step=rows.split.step,
        tasks=tasks.height,
        linked=linked.height,
        interval_ns=int(np.median(np.diff(launch))) if len(launch) > 1 else None,
        kernel_ns=int(np.median(kernels["dur_ns"].to_numpy())) if kernels.height else None,
        ratio=work / kernel_ns if host and kernel_ns else None,
        small=kernels.filter(pl.col("dur_ns") < _SMALL_NS).height,
        late=int(late.sum()),
        late_free_ns=int((start - free_since)[late].sum()),
        graphed=int(tasks["launch_ns"].is_in(graphs.implode()).sum()),
        delay_ns=int(np.median(start - launch)) if len(launch) else None,
        task_queue=state,
        task_queue_source=source,
    )


def _free_since(busy: Intervals, moments: Ints) -> Ints:
    """For each task start, the moment since which the device was free; the start itself if the device was busy."""
    if not len(busy) or not len(moments):
        return moments
    place = np.searchsorted(busy.starts, moments, side="left")
    begins = (place < len(busy)) & (busy.starts[np.minimum(place, len(busy) - 1)] == moments)
    before = np.where(place > 0, busy.ends[np.maximum(place - 1, 0)], moments)
    # Tasks that begin at once share one gap: it counts for the first task.
    first = np.zeros(len(moments), dtype=bool)
    first[np.unique(moments, return_index=True)[1]] = True
    return np.where(begins & first, before, moments)


def _task_queue(calls: pl.DataFrame, setting: pl.DataFrame, vendor: str) -> tuple[Literal["on", "off"] | None, str]:
    """Whether torch_npu hands launches to a thread of its own (`TASK_QUEUE_ENABLE`)."""
    if not traits(vendor).task_queue:
        return None, NO_QUEUE
    told = setting.filter(pl.col("name") == QUEUE_SETTING)["value"].drop_nulls()
    if len(told):
        return ("off" if told[0].strip() == "0" else "on"), f"{QUEUE_SETTING}={told[0][:20]}"
    if calls.filter(pl.col("kind") == "dequeue").height:
        return "on", "calls are taken from a queue"
    if calls.filter(pl.col("kind").is_in(["acl", "node"])).height:
        return "off", ASKED_DIRECTLY
    return None, "not recorded"


def queue_depths(rows: StepRows) -> Iterator[QueueDepth]:
    """The number of launched tasks that have not begun, over the step's window, for each device.

    The number is exact if launches are linked.
    """
    start, end = rows.split.start_ns, rows.split.start_ns + rows.split.window_ns
    linked = rows.tasks.drop_nulls("launch_ns")
    parts = linked.partition_by("device_id", as_dict=True)
    for (device,), own in sorted(parts.items(), key=lambda one: str(one[0])):
        begun = own["start_ns"].to_numpy()
        launched = np.minimum(own["launch_ns"].to_numpy(), begun)
        if start < end:
            yield _depth(rows.split, None if device is None else int(str(device)), launched, begun, start, end)


def _depth(split: StepSplit, device: int | None, launched: Ints, begun: Ints, start: int, end: int) -> QueueDepth:
    edges = np.concatenate([launched.clip(start, end), begun.clip(start, end), [start, end]])
    change = np.concatenate([np.ones(len(launched)), -np.ones(len(begun)), [0, 0]]).astype(np.int64)
    order = np.lexsort((-change, edges))
    edges, depth = edges[order], np.cumsum(change[order])[:-1]
    lengths = np.diff(edges)
    area = np.concatenate([[0], np.cumsum(depth * lengths)])
    total = end - start
    ranked = np.argsort(depth, kind="stable")
    middle = int(np.searchsorted(np.cumsum(lengths[ranked]), (total + 1) // 2))
    slices = start + total * np.arange(_SLICES + 1, dtype=np.int64) // _SLICES
    # The integral of the queue depth is linear between two edges.
    place = np.minimum(np.searchsorted(edges, slices, side="right") - 1, len(depth) - 1)
    integral = area[place] + depth[place] * (slices - edges[place])
    widths = np.maximum(np.diff(slices), 1)
    return QueueDepth(
        rank=split.rank,
        step=split.step,
        device_id=device,
        tasks=len(begun),
        mean=float(area[-1] / total),
        median=int(depth[ranked][min(middle, len(ranked) - 1)]),
        most=int(depth[lengths > 0].max()) if (lengths > 0).any() else 0,
        empty=float(lengths[depth <= 0].sum() / total),
        full=float(lengths[depth >= _FULL].sum() / total),
        curve=tuple(np.round(np.diff(integral) / widths, 3).tolist()),
    )


def sync_calls(rows: StepRows) -> tuple[SyncCall, ...]:
    """Calls that waited for the device in the host's part of the step, by place in the code; longest first."""
    calls = rows.host_op.filter(pl.col("start_ns") >= rows.start_ns).filter(pl.col("start_ns") < rows.end_ns)
    staged = pl.col("start_ns").is_in(list(rows.pageable)) & (pl.col("dur_ns") >= LONG_COPY_NS)
    copies = calls.filter(pl.col("kind").is_in(RUNTIME_KINDS) & staged)
    waits = outermost(pl.concat([blocking_calls(calls), copies])).sort("start_ns")
    if not waits.height:
        return ()
    waits = _placed(waits, rows)
    busy = rows.busy
    split = (rows.compute, rows.comm - rows.compute, rows.copy - rows.compute - rows.comm)
    found = []
    place = pl.when(pl.col("operator") == "").then("name").otherwise("operator").alias("place")
    for (_, source), own in waits.with_columns(place).partition_by("place", "source", as_dict=True).items():
        when, longest = spans(own), own.row(int(own["dur_ns"].arg_max() or 0), named=True)
        compute, comm, copy = ((when & part).total for part in split)
        found.append(
            SyncCall(
                rank=rows.split.rank,
                step=rows.split.step,
                names=tuple(sorted(own["name"].unique())),
                operator=str(own["operator"][0]),
                source=None if source is None else str(source)[:_SOURCE_LIMIT],
                calls=_asked(own),
                wait_ns=when.total,
                compute_ns=compute,
                comm_ns=comm,
                copy_ns=copy,
                idle_ns=when.total - compute - comm - copy,
                refill_ns=_refill(when, busy, rows.tasks, own),
                longest_ns=longest["dur_ns"],
                longest_at_ns=longest["start_ns"],
            )
        )
    return tuple(sorted(found, key=lambda row: (-row.wait_ns, row.names, row.operator, row.source or "")))


def _asked(own: pl.DataFrame) -> int:
    """How often the program asked for a wait: the copy and the wait of one operator count once."""
    around = own["around"]
    return around.drop_nulls().n_unique() + around.null_count()


def _refill(when: Intervals, busy: Intervals, tasks: pl.DataFrame, own: pl.DataFrame) -> int:
    """The device's free time in ns from the end of each call to the first task that begins after it."""
    ends = (own["start_ns"] + own["dur_ns"]).to_numpy()
    starts = tasks["start_ns"].sort().to_numpy()
    if not len(starts):
        return 0
    place = np.searchsorted(starts, ends, side="left")
    until = np.where(place < len(starts), starts[np.minimum(place, len(starts) - 1)], ends)
    frame = pl.DataFrame({"start_ns": ends, "dur_ns": np.maximum(until - ends, 0)})
    return (spans(frame) - busy - when).total


def _placed(waits: pl.DataFrame, rows: StepRows) -> pl.DataFrame:
    """The calls with the operator around them and the line of the user's code, if stacks or frames tell it."""
    ops = rows.host_op.filter(pl.col("kind") == "op")
    at = enclosing(ops, waits)
    around = ops[at.fill_null(0)] if ops.height else None
    known = at.is_not_null()
    operator = around["name"].to_list() if around is not None else [""] * waits.height
    stack_of = _stacks(rows)
    stacks = around["stack_id"].to_list() if around is not None else [None] * waits.height
    own = waits["stack_id"].to_list()
    frames = _frames(rows.host_op, waits)
    named = waits["name"].to_list()
    return waits.with_columns(
        at.alias("around"),
        pl.Series(
            "operator", [op if yes and op != name else "" for op, yes, name in zip(operator, known, named, strict=True)]
        ),
        pl.Series(
            "source",
            [
                _line(stack_of.get(mine if mine is not None else stack if yes else None)) or frame
                for mine, stack, yes, frame in zip(own, stacks, known, frames, strict=True)
            ],
            dtype=pl.String,
        ),
    )


def _stacks(rows: StepRows) -> dict[int | None, str]:
    wanted = rows.host_op["stack_id"].drop_nulls().unique()
    chosen = rows.stack.filter(pl.col("stack_id").is_in(wanted.implode()))
    return dict(chosen.select("stack_id", "frames").iter_rows())


def _line(frames: str | None) -> str | None:
    """The innermost frame of a stack in the user's code; the innermost frame of all if there is none."""
    lines = [line.strip() for line in (frames or "").split("\n") if line.strip()]
    return next((line for line in lines if is_own(line)), lines[0] if lines else None)


def _frames(host_op: pl.DataFrame, waits: pl.DataFrame) -> Sequence[str | None]:
    """The innermost Python frame of the user's code around each call, if frames are recorded."""
    python = host_op.filter(pl.col("kind") == "python")
    own = [name for name in python["name"].unique() if is_own(name)]
    python = python.filter(pl.col("name").is_in(own))
    at = enclosing(python, waits)
    names = python["name"].to_list()
    return [None if place is None else names[place] for place in at.to_list()]
