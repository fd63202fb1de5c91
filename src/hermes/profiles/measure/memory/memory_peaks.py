"""Measures memory peaks, fragmentation, growth over steps, recomputation and holders of a rank's device memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import polars as pl

from hermes.base.enclosing_calls import enclosing
from hermes.base.intervals import Intervals
from hermes.model.memory_measures import Holder, MemoryGrowth, MemoryPeak, Recompute
from hermes.model.step_measures import StepSplit
from hermes.model.tables import RUNTIME_KINDS
from hermes.profiles.measure.host.select_host_calls import spans

_HOLDERS = 200
_LEAST_STEPS = 3
BACKWARD = "autograd::engine::evaluate_function"
"""The prefix of names of nodes of the backward pass."""


def peaks(rank: int, memory: pl.DataFrame, step: pl.DataFrame) -> Iterator[MemoryPeak]:
    """The memory peak of each allocator that holds memory; components of CANN without memory are left out."""
    allocated, reserved = pl.col("allocated_bytes"), pl.col("reserved_bytes")
    # Compute all components at once: a capture has some eighty, and a handful hold memory.
    summed = (
        memory.sort("ts_ns", maintain_order=True)
        .group_by("component", "device_id", maintain_order=True)
        .agg(
            pl.len().alias("samples"),
            allocated.max().alias("allocated"),
            reserved.max().alias("reserved"),
            pl.col("active_bytes").max().alias("active"),
            pl.col("ts_ns").filter(allocated == allocated.max()).first().alias("at"),
            allocated.filter(reserved == reserved.max()).first().alias("of_reserved"),
        )
        .filter((pl.col("allocated") > 0) | (pl.col("reserved") > 0))
        .sort("component", "device_id")
    )
    for row in summed.iter_rows(named=True):
        yield MemoryPeak(
            rank=rank,
            component=row["component"],
            device_id=row["device_id"],
            samples=row["samples"],
            allocated_bytes=row["allocated"],
            allocated_at_ns=row["at"],
            allocated_step=_step_at(step, row["at"]),
            reserved_bytes=row["reserved"],
            active_bytes=row["active"],
            fragmentation=_fragmentation(row["of_reserved"], row["reserved"]),
        )


def _curves(memory: pl.DataFrame) -> Iterator[tuple[tuple[str, int | None], pl.DataFrame]]:
    parts = memory.sort("ts_ns", maintain_order=True).partition_by("component", "device_id", as_dict=True)
    for (component, device), rows in sorted(parts.items(), key=lambda one: str(one[0])):
        yield (str(component), None if device is None else int(str(device))), rows


def _fragmentation(allocated: int | None, reserved: int | None) -> float | None:
    """The share of reserved memory that no tensor uses; None if either is not recorded (a driver's total)."""
    return None if allocated is None or not reserved else 1 - allocated / reserved


def _step_at(step: pl.DataFrame, moment: int | None) -> int | None:
    if moment is None:
        return None
    holds = step.filter((pl.col("start_ns") <= moment) & (pl.col("start_ns") + pl.col("dur_ns") > moment))
    return int(holds["step"][0]) if holds.height else None


def growth(rank: int, memory: pl.DataFrame, step: pl.DataFrame) -> Iterator[MemoryGrowth]:
    """The growth by step of each allocator, from three steps on, by its bytes at the begin of each step."""
    marks = step.sort("start_ns").select(pl.col("start_ns").alias("ts_ns"))
    if marks.height < _LEAST_STEPS:
        return
    for (component, device), rows in _curves(memory.drop_nulls("allocated_bytes")):
        held = marks.join_asof(rows.select("ts_ns", "allocated_bytes"), on="ts_ns", strategy="backward")
        values = held["allocated_bytes"].to_numpy()
        known = ~held["allocated_bytes"].is_null().to_numpy()
        # The slope is fitted over the steps with a sample before them, by their index.
        places, heights = np.flatnonzero(known).astype(np.float64), values[known].astype(np.float64)
        if len(heights) < _LEAST_STEPS or rows["allocated_bytes"].max() == 0:
            continue
        slope, base = np.polyfit(places, heights, 1)
        rest = float(((heights - (slope * places + base)) ** 2).sum())
        spread = float(((heights - heights.mean()) ** 2).sum())
        yield MemoryGrowth(
            rank=rank,
            component=component,
            device_id=device,
            steps=len(heights),
            bytes_per_step=round(float(slope), 1) if spread else 0.0,
            r2=round(1 - rest / spread, 6) if spread else 1.0,
        )


def recompute(split: StepSplit, calls: pl.DataFrame, kernel: pl.DataFrame, flow: pl.DataFrame) -> Recompute | None:
    """Forward operators that ran inside the backward pass, with the kernels that they launched.

    An operator gets an autograd number of its own only while gradients are recorded. Inside a backward node that
    happens if activations are recomputed, or if the backward pass itself is to be differentiated. None if no backward
    pass, or no such number, is recorded.
    """
    nodes = calls.filter(pl.col("name").str.starts_with(BACKWARD))
    if not nodes.height or not calls["sequence"].is_not_null().any():
        return None
    ops = calls.filter((pl.col("kind") == "op") & (pl.col("sequence") >= 0) & pl.col("forward_tid").is_null())
    inside = ops.filter(enclosing(nodes, ops).is_not_null())
    again = intervals_by_thread(inside)
    host_ns = sum(when.total for when in again.values())
    device, known = device_time_of_launches(again, calls, kernel, flow)
    compute = kernel.filter(pl.col("component") == "compute")
    end = split.start_ns + split.window_ns
    return Recompute(
        rank=split.rank,
        step=split.step,
        ops=inside.height,
        host_ns=host_ns,
        device_ns=device.total if known else None,
        compute_ns=spans(compute).clip(split.start_ns, end).total if compute.height else None,
    )


def intervals_by_thread(rows: pl.DataFrame) -> dict[tuple[int | None, int | None], Intervals]:
    """For each thread (`pid`, `tid`), the times in which it was in one of the rows."""
    parts = rows.partition_by("pid", "tid", as_dict=True)
    return {(pid, tid): spans(own) for (pid, tid), own in parts.items()}


def device_time_of_launches(
    again: dict[tuple[int | None, int | None], Intervals], calls: pl.DataFrame, kernel: pl.DataFrame, flow: pl.DataFrame
) -> tuple[Intervals, bool]:
    """When the device computed what was launched in these stretches, and whether launches are linked at all.

    Launches are linked by arrows from operators (Ascend) or by the correlation of runtime calls on the same thread
    (CUDA, ROCm).
    """
    compute = kernel.filter(pl.col("component") == "compute")
    arrows = flow.filter(pl.col("kind") == "operator").select(
        "src_pid", "src_tid", "src_ns", pl.col("dst_ns").alias("start_ns"), pl.col("dst_tid").alias("stream")
    )
    runtime = calls.filter(pl.col("kind").is_in(RUNTIME_KINDS) & pl.col("correlation").is_not_null())
    chosen = [compute.clear()]
    for (pid, tid), when in again.items():
        if not len(when):
            continue
        leave = arrows.filter(pl.col("src_pid").eq_missing(pid) & pl.col("src_tid").eq_missing(tid))
        leave = leave.filter(pl.Series(moments_inside(when, leave["src_ns"]), dtype=pl.Boolean))
        chosen.append(compute.join(leave.select("start_ns", "stream"), on=["start_ns", "stream"], how="semi"))
        own = runtime.filter(pl.col("pid").eq_missing(pid) & pl.col("tid").eq_missing(tid))
        own = own.filter(pl.Series(moments_inside(when, own["start_ns"]), dtype=pl.Boolean))
        chosen.append(compute.join(own.select("correlation"), on="correlation", how="semi"))
    return spans(pl.concat(chosen)), bool(arrows.height or runtime.height)


def moments_inside(when: Intervals, moments: pl.Series) -> list[bool]:
    """A mask of the moments that lie in one of these stretches; there must be at least one stretch."""
    at = moments.to_numpy()
    place = np.searchsorted(when.starts, at, side="right") - 1
    inside = (place >= 0) & (at < when.ends[np.maximum(place, 0)])
    return [bool(one) for one in inside]


def holders(
    rank: int, allocation: pl.DataFrame, modules: pl.DataFrame, nodes: Callable[[int, int], pl.DataFrame]
) -> tuple[Holder, ...]:
    """Blocks held at the memory peak of the capture, by module and operator; largest first.

    With several devices, the blocks are those of the device that held most.

    `modules` are the Python frames of modules (`name, pid, tid, start_ns, dur_ns`). `nodes` returns the operators with
    an autograd number (`sequence`, and `forward_tid` on backward operators) between two moments: memory of a backward
    operator belongs to the module of its forward operator.
    """
    if not allocation.height:
        return ()
    at, allocation = _fullest(allocation)
    held = allocation.filter(
        (pl.col("alloc_ns") <= at) & (pl.col("release_ns").is_null() | (pl.col("release_ns") > at))
    )
    summed = (
        held.with_columns(pl.Series("module", _modules_of(held, modules, nodes), dtype=pl.String))
        .group_by("module", "name")
        .agg(pl.len().alias("blocks"), pl.col("bytes").sum())
        .sort("bytes", "module", "name", descending=[True, False, False])
    )
    total = int(held["bytes"].sum()) or 1
    return tuple(
        Holder(
            rank=rank,
            module=row["module"],
            operator=row["name"],
            blocks=row["blocks"],
            bytes=row["bytes"],
            share=row["bytes"] / total,
        )
        for row in summed.head(_HOLDERS).iter_rows(named=True)
    )


def _modules_of(
    held: pl.DataFrame, modules: pl.DataFrame, load: Callable[[int, int], pl.DataFrame]
) -> list[str | None]:
    """The module that was running when each block was allocated; None if no module was running."""
    if not modules.height:
        return [None] * held.height
    names = modules["name"].str.strip_prefix("nn.Module: ")
    moments = held.select(pl.col("alloc_ns").alias("start_ns"))
    found = _open_at(modules, names, moments)
    taken = held["alloc_ns"].to_numpy()
    nodes = load(int(taken.min()), int(taken.max()))
    if not nodes.height:
        return found
    forward = nodes.filter(pl.col("forward_tid").is_null()).select("sequence", "start_ns")
    ran_in = pl.Series("module", _open_at(modules, names, forward), dtype=pl.String)
    by_number = forward.with_columns(ran_in).drop_nulls("module").unique("sequence", keep="first", maintain_order=True)
    backward = nodes.filter(pl.col("forward_tid").is_not_null())
    numbers = backward.join(by_number.select("sequence", "module"), on="sequence", how="left", maintain_order="left")
    later = _open_at(backward, numbers["module"], moments)
    return [
        own if own is not None or one is None else f"{one} (backward)" for own, one in zip(found, later, strict=True)
    ]


def _open_at(calls: pl.DataFrame, names: pl.Series, moments: pl.DataFrame) -> list[str | None]:
    """The name of the innermost of these calls that is open at each moment, on the thread that has most of them."""
    if not calls.height:
        return [None] * moments.height
    busiest = calls.group_by("pid", "tid").len().sort("len", "pid", "tid", descending=[True, False, False])
    pid, tid, _ = busiest.row(0)
    placed = moments.with_columns(pl.lit(pid, dtype=pl.Int64).alias("pid"), pl.lit(tid, dtype=pl.Int64).alias("tid"))
    listed = names.to_list()
    return [None if at is None else listed[at] for at in enclosing(calls, placed).to_list()]


def _fullest(allocation: pl.DataFrame) -> tuple[int, pl.DataFrame]:
    """The first moment of the highest use of any device, and the blocks of that device."""
    devices = "device_id" in allocation.columns
    parts = allocation.partition_by("device_id", maintain_order=True) if devices else [allocation]
    held = [_most_held(part) for part in parts]
    fullest = max(range(len(parts)), key=lambda place: held[place][0])
    return held[fullest][1], parts[fullest]


def _most_held(allocation: pl.DataFrame) -> tuple[int, int]:
    """The most bytes that blocks held at once, and the first moment of that."""
    freed = allocation.drop_nulls("release_ns")
    moments = np.concatenate([allocation["alloc_ns"].to_numpy(), freed["release_ns"].to_numpy()])
    change = np.concatenate([allocation["bytes"].to_numpy(), -freed["bytes"].to_numpy()])
    # Blocks released at a moment are gone before blocks are allocated at it.
    order = np.lexsort((change, moments))
    held = np.cumsum(change[order])
    most = int(np.argmax(held))
    return int(held[most]), int(moments[order][most])
