"""Finds the forward and backward passes of micro-batches, from launches, sends and receives of a rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from hermes.base.enclosing_calls import enclosing
from hermes.base.intervals import Ints, union_of_intervals
from hermes.model.structure_measures import PassKind
from hermes.model.tables import RUNTIME_KINDS
from hermes.profiles.measure.structure.modules import from_the_queue, launches

KERNEL = ("kernel_id", "component", "stream", "start_ns", "dur_ns", "correlation", "launch_ns")
HOST_OP = ("kind", "name", "pid", "tid", "start_ns", "dur_ns", "correlation", "sequence", "forward_tid")
FLOW = ("kind", "src_pid", "src_tid", "src_ns", "dst_pid", "dst_tid", "dst_ns")
"""Columns of the tables that the search of passes reads."""
_OPTIMIZER = r"^Optimizer\.step"
# Names that programs give to ranges around the passes of a micro-batch: forward_step, backward-compute, FWD, BP.
_FORWARD, _BACKWARD = r"(?i)(^|[^a-z])(forward|fwd|fp)([^a-z]|$)", r"(?i)(^|[^a-z])(backward|bwd|bp)([^a-z]|$)"
_PHASES: tuple[PassKind, ...] = ("compute", "forward", "backward", "optimizer")
_UNKNOWN, _AHEAD, _BACK, _UPDATE = range(4)
# The most switches between the passes of two micro-batches; schedules that overlap two micro-batches switch more often.
_MOST_CHANGES = 8
_LONG_GAP = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRows:
    """The rows of one rank in one step: `kernel` are its compute tasks, `host_op` and `flow` what launched them."""

    kernel: pl.DataFrame
    host_op: pl.DataFrame
    flow: pl.DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatchPass:
    """A stretch in which one pass is computed, in ns on the rank's clock; kernels ran for `busy_ns` of it."""

    kind: PassKind
    start_ns: int
    end_ns: int
    busy_ns: int
    kernels: int


def passes(rows: PassRows, moves: pl.DataFrame) -> tuple[MicroBatchPass, ...]:
    """The passes of a rank in one step, by their start.

    `moves` are its sends and receives (`op, start_ns, dur_ns`): work after a send, or after an awaited receive, belongs
    to another micro-batch. Between two such moments a pass lasts as long as its kind.
    """
    work = rows.kernel.sort("start_ns", "dur_ns", "kernel_id")
    if not work.height:
        return ()
    start, end = work["start_ns"].to_numpy(), (work["start_ns"] + work["dur_ns"]).to_numpy()
    part = np.searchsorted(_cuts(moves, start, end), start, side="right")
    phase = _filled(phases(work, rows.host_op, rows.flow), part)
    box = _apart(_boxes(phase, part), phase, start, end)
    order = np.argsort(box, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(box[order])) + 1)
    found = (_pass(_PHASES[phase[own[0]]], start[own], end[own]) for own in groups)
    return tuple(sorted(found, key=lambda one: (one.start_ns, one.end_ns)))


def _pass(kind: PassKind, start: Ints, end: Ints) -> MicroBatchPass:
    return MicroBatchPass(
        kind=kind,
        start_ns=int(start.min()),
        end_ns=int(end.max()),
        busy_ns=union_of_intervals(start, end).total,
        kernels=len(start),
    )


def _cuts(moves: pl.DataFrame, start: Ints, end: Ints) -> Ints:
    """The moments at which another micro-batch begins: starts of sends, and ends of receives while nothing runs."""
    sends = moves.filter(pl.col("op") != "recv")["start_ns"].to_numpy()
    got = moves.filter(pl.col("op") != "send")
    received = (got["start_ns"] + got["dur_ns"]).to_numpy()
    before = np.searchsorted(start, received, side="left")
    latest = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(end)])
    return np.unique(np.concatenate([sends, received[latest[before] <= received]]).astype(np.int64))


def phases(work: pl.DataFrame, host_op: pl.DataFrame, flow: pl.DataFrame) -> Ints:
    """For each kernel of `work`, the pass that launched it, as an index into `_PHASES`.

    The call around the launch tells the pass: a forward or backward call with an autograd number, or an optimizer's
    step. Without such calls, a range that is named after a pass does.
    """
    asked = _asked(work, host_op, flow)
    kind = np.full(asked.height, _UNKNOWN, dtype=np.int64)
    nodes = host_op.filter(pl.col("sequence").is_not_null())
    if nodes.height:
        kind[_inside(nodes.filter(pl.col("forward_tid").is_null()), asked)] = _AHEAD
        kind[_inside(nodes.filter(pl.col("forward_tid").is_not_null()), asked)] = _BACK
    else:
        marks = host_op.filter(pl.col("kind").is_in(["mark", "op"]))
        for name, meant in ((_FORWARD, _AHEAD), (_BACKWARD, _BACK)):
            kind[_during(marks.filter(pl.col("name").str.contains(name)), asked)] = meant
    kind[_inside(host_op.filter(pl.col("name").str.contains(_OPTIMIZER)), asked)] = _UPDATE
    told = pl.DataFrame({"kernel_id": asked["kernel_id"], "phase": kind}).unique("kernel_id", keep="first")
    every = work.select("kernel_id").join(told, on="kernel_id", how="left", maintain_order="left")
    return every["phase"].fill_null(_UNKNOWN).to_numpy()


def _asked(work: pl.DataFrame, host_op: pl.DataFrame, flow: pl.DataFrame) -> pl.DataFrame:
    runtime = host_op.filter(pl.col("kind").is_in(RUNTIME_KINDS))
    arrows, queued = flow.filter(pl.col("kind") == "operator"), flow.filter(pl.col("kind") == "queue")
    taken = host_op.filter(pl.col("kind") == "dequeue") if queued.height else host_op.clear()
    return from_the_queue(launches(work, runtime, arrows, "kernel_id"), taken, queued)


def _inside(calls: pl.DataFrame, asked: pl.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether each task was launched in one of the calls, on its thread."""
    return enclosing(calls, asked).is_not_null().to_numpy()


def _during(ranges: pl.DataFrame, asked: pl.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether each task was launched in one of the ranges, on any thread: autograd has threads of its own."""
    start = ranges["start_ns"].to_numpy()
    spans, moments = union_of_intervals(start, start + ranges["dur_ns"].to_numpy()), asked["start_ns"].to_numpy()
    at = np.searchsorted(spans.starts, moments, side="right") - 1
    return (at >= 0) & (moments < spans.ends[np.maximum(at, 0)]) if len(spans) else np.zeros(len(moments), dtype=bool)


def _filled(phase: Ints, part: Ints) -> Ints:
    """The phases, with unknown phases taken from the known phases around them in their part.

    Work before the first known pass, or between two passes, belongs to the next pass. Work after the last pass belongs
    to none: there the step is prepared and parameters are updated.
    """
    rows = pl.DataFrame({"part": part, "phase": phase}).with_columns(
        pl.when(pl.col("phase") != _UNKNOWN).then("phase").alias("known")
    )
    filled = rows.select(pl.col("known").backward_fill().over("part").fill_null(_UNKNOWN))
    return filled["known"].to_numpy()


def _apart(box: Ints, phase: Ints, start: Ints, end: Ints) -> Ints:
    """The boxes, with boxes of no pass cut at their long gaps: an optimizer that waits becomes two boxes."""
    order = np.argsort(box, kind="stable")
    own, first, last = box[order], start[order], end[order]
    begins = np.concatenate([[True], own[1:] != own[:-1]])
    number = np.cumsum(begins) - 1
    extent = np.maximum.reduceat(last, np.flatnonzero(begins)) - first[begins]
    gap = np.concatenate([[0], first[1:] - last[:-1]])
    loose = ~np.isin(phase[order], (_AHEAD, _BACK)) & ~begins & (gap > _LONG_GAP * extent[number])
    made = np.empty_like(box)
    made[order] = np.cumsum(begins | loose) - 1
    return made


def _boxes(phase: Ints, part: Ints) -> Ints:
    """The number of the box of each kernel: one for each run of a phase in a part, or one per phase if phases mix."""
    change = np.concatenate([[True], (phase[1:] != phase[:-1]) | (part[1:] != part[:-1])])
    run = np.cumsum(change) - 1
    runs = np.bincount(part[change], minlength=int(part.max()) + 1)
    mixed = runs[part] > _MOST_CHANGES
    key = np.where(mixed, len(phase) + part * len(_PHASES) + phase, run)
    _, number = np.unique(key, return_inverse=True)
    return number.astype(np.int64)
