"""Overlap, input, host and memory of every rank, from the cached tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from hermes.analyze import (
    checks,
    dense_tables,
    dispatch,
    host_events,
    input_pipeline,
    joins,
    memory,
    orders,
    padding,
    spread_pairs,
    starts,
    unused,
)
from hermes.analyze.breakdown import median_split, middle_split
from hermes.analyze.calls import spans, within
from hermes.analyze.host_measures import (
    Before,
    Contention,
    Dispatch,
    Fetches,
    Holder,
    HostEvents,
    HostSide,
    InputCopies,
    InputQueue,
    InputRates,
    MemoryGrowth,
    MemoryPeak,
    QueueDepth,
    Recompute,
    Shapes,
    StepHost,
    StepOverlap,
    SyncCall,
    UnusedGradients,
)
from hermes.analyze.measures import StepSplit
from hermes.analyze.overlap import step_overlap
from hermes.analyze.tensor_measures import DenseTable, MixedOrders, Padding, RankShape
from hermes.base.intervals import Intervals
from hermes.knowledge.host_work import LAYERS
from hermes.workflow.load import RankData

# What `gather` wants of these wide tables; who loads them takes these columns along.
KERNEL = ("device_id", "launch_ns", "direction", "bytes", "correlation")
HOST_OP = ("pid", "tid")
_CALLS = (
    "kind", "name", "pid", "tid", "start_ns", "dur_ns", "forward_tid", "stack_id", "sequence", "correlation",
)  # fmt: skip
_SHAPED = ("name", "pid", "tid", "start_ns", "dur_ns", "shapes")
_NODES = ("pid", "tid", "start_ns", "dur_ns", "sequence", "forward_tid")
# A call at the end of a step leaves the device free behind it.
_AFTER_NS = 1_000_000_000
# Beyond so many fetches the first tell what the others do.
_FETCHES_LOOKED_AT = 200
_FLOW = ("kind", "src_pid", "src_tid", "src_ns", "dst_tid", "dst_ns")


@dataclass(slots=True)
class Gathered:
    """The measures of all ranks so far."""

    overlap: list[StepOverlap] = field(default_factory=list)
    fetches: list[Fetches] = field(default_factory=list)
    rates: list[InputRates] = field(default_factory=list)
    queues: list[InputQueue] = field(default_factory=list)
    copies: list[InputCopies] = field(default_factory=list)
    steps: list[StepHost] = field(default_factory=list)
    dispatch: list[Dispatch] = field(default_factory=list)
    depths: list[QueueDepth] = field(default_factory=list)
    syncs: list[SyncCall] = field(default_factory=list)
    events: list[HostEvents] = field(default_factory=list)
    shapes: list[Shapes] = field(default_factory=list)
    contention: list[Contention] = field(default_factory=list)
    settings: dict[int, pl.DataFrame] = field(default_factory=dict)
    peaks: list[MemoryPeak] = field(default_factory=list)
    growth: list[MemoryGrowth] = field(default_factory=list)
    recompute: list[Recompute] = field(default_factory=list)
    unused: list[UnusedGradients] = field(default_factory=list)
    holders: list[Holder] = field(default_factory=list)
    padded: list[Padding] = field(default_factory=list)
    tables: list[DenseTable] = field(default_factory=list)
    kept_joins: list[RankShape] = field(default_factory=list)
    spread: list[RankShape] = field(default_factory=list)
    orders: list[MixedOrders] = field(default_factory=list)
    before: list[Before] = field(default_factory=list)

    def side(self) -> HostSide:
        """What the report shows."""
        return HostSide(
            overlap=tuple(self.overlap),
            fetches=tuple(self.fetches),
            rates=tuple(self.rates),
            queues=tuple(self.queues),
            copies=tuple(self.copies),
            steps=tuple(self.steps),
            dispatch=tuple(self.dispatch),
            depths=tuple(self.depths),
            syncs=tuple(self.syncs),
            events=tuple(self.events),
            shapes=tuple(self.shapes),
            contention=tuple(self.contention),
            settings=host_events.settings(self.settings),
            peaks=tuple(self.peaks),
            growth=tuple(self.growth),
            recompute=tuple(self.recompute),
            unused=tuple(self.unused),
            holders=tuple(self.holders),
            padding=tuple(self.padded),
            tables=tuple(self.tables),
            kept_joins=tuple(self.kept_joins),
            spread=tuple(self.spread),
            orders=tuple(self.orders),
            before=tuple(self.before),
        )


@dataclass(frozen=True, kw_only=True)
class Tables:
    """One rank's tables as far as they are loaded already."""

    data: RankData
    vendor: str
    splits: Sequence[StepSplit]
    step: pl.DataFrame
    kernel: pl.DataFrame
    comm_op: pl.DataFrame
    host_op: pl.DataFrame

    @cached_property
    def device(self) -> pl.DataFrame:
        """The device's tasks, collectives as operations, with their launches."""
        columns = ["component", "device_id", "start_ns", "dur_ns", "launch_ns", "step"]
        work = ["compute", "copy"] if self.comm_op.height else ["compute", "copy", "comm"]
        own = self.kernel.filter(pl.col("component").is_in(work)).select(columns)
        devices = own["device_id"].drop_nulls().unique()
        device = int(devices[0]) if len(devices) == 1 else None
        if not self.kernel.height and "hccl" not in self.comm_op["library"]:
            return own
        comm = self.comm_op.with_columns(
            pl.lit("comm").alias("component"), pl.lit(device, dtype=pl.Int64).alias("device_id")
        )
        return pl.concat([own, comm.select(columns)])

    @cached_property
    def parts(self) -> dict[str, Intervals]:
        """When the device did what, over the capture."""
        return {
            name: spans(self.device.filter(pl.col("component") == name)) for name in ("compute", "comm", "copy")
        }  # fmt: skip

    @cached_property
    def busy(self) -> Intervals | None:
        """When the device worked; None where no task of it is recorded."""
        parts = self.parts
        return parts["compute"] | parts["comm"] | parts["copy"] if self.device.height else None

    @cached_property
    def typical(self) -> StepSplit | None:
        """The step of median window."""
        return (median_split(self.splits) or middle_split(self.splits)) if self.splits else None


def _recurrent(data: RankData) -> pl.DataFrame | None:
    """The recurrent layers of a rank with their backward; None where there are none."""
    layers = data.where("host_op", (*_NODES, "name"), pl.col("name").is_in(LAYERS))
    if not layers.height:
        return None
    return host_events.recurrent(layers, data.where("host_op", (*_NODES, "name"), pl.col("sequence") >= 0))


def gather(rank: Tables, into: Gathered) -> None:
    """All measures of one rank; its tables `kernel` and `host_op` with the columns above and those of the report."""
    data, splits, step, host_op = rank.data, rank.splits, rank.step, rank.host_op
    setting, gc = data.table("setting"), data.table("gc")
    into.settings[data.rank] = setting
    captured = sum(split.whole_ns for split in splits) // max(1, len(splits))
    earlier = host_events.before(data.rank, setting, host_events.records(host_op) / max(1, len(splits)), captured)
    into.before.extend([earlier] if earlier else [])
    notable = host_events.notable(host_op)
    loop = host_op.filter(pl.col("kind") == "step").select("pid", "tid").unique()
    checked = checks.checks(host_op)
    alone = rank.busy is None
    events = host_events.host_events(
        splits, step, notable, gc, setting, rank.busy, loop, checked, data.rank,
        _recurrent(data) if alone else None,
        host_events.made_into_tensors(notable, host_op, loop),
        host_op,
    )  # fmt: skip
    into.events.extend(events)
    into.events.append(starts.starts(data.rank, notable, host_op, loop, step, max(1, len(splits)), rank.busy))
    cores = host_events.contention(data.rank, data.table("counter", "source", "name", "value"))
    into.contention.extend([cores] if cores else [])
    found = host_events.shapes(data.rank, data.table("kernel", "component", "type", "input_shapes", "op_state", "step"))
    into.shapes.extend([found] if found else [])
    wanted = {
        *padding.PADS,
        padding.LOOKUP,
        *dense_tables.LOOKUPS,
        *dense_tables.BACKWARDS,
        *joins.KEEPING,
        spread_pairs.COSINE,
        spread_pairs.EXPAND,
    }
    calls = data.where("host_op", ("name", "shapes", "dtypes"), pl.col("name").is_in(sorted(wanted)))
    into.padded.extend(padding.padding(data.rank, calls))
    into.tables.extend(dense_tables.dense_tables(data.rank, calls))
    into.kept_joins.extend(joins.kept_joins(data.rank, calls))
    into.spread.extend(spread_pairs.spread_pairs(data.rank, calls))
    if alone:
        wide = data.where("host_op", orders.COLUMNS, (pl.col("kind") == "op") & pl.col("shapes").str.contains(";"))
        into.orders.extend(orders.mixed_orders(data.rank, wide, max(1, len(splits))))
    _input(rank, notable, cores, into)
    _memory(rank, notable, into)
    if rank.typical is not None and rank.typical.window_ns > 0:
        _step(rank, rank.typical, setting, gc, into)


def _input(rank: Tables, notable: pl.DataFrame, cores: Contention | None, into: Gathered) -> None:
    data = rank.data
    calls = input_pipeline.fetch_rows(notable)
    linked = rank.device.drop_nulls("launch_ns")
    rows = input_pipeline.InputRows(
        rank=data.rank,
        splits=rank.splits,
        notable=notable,
        inside=_inside(rank, calls),
        framed=bool((rank.host_op["kind"] == "python").any()),
        busy=rank.busy,
        launched=linked["launch_ns"].sort().to_numpy(),
        begun=linked["start_ns"].sort().to_numpy(),
    )
    found = input_pipeline.fetches(rows)
    into.fetches.extend([found] if found else [])
    copies = input_pipeline.copies_in(data.rank, rank.kernel, rank.parts["compute"] | rank.parts["comm"])
    into.copies.extend([copies] if copies else [])
    rates = input_pipeline.rates(found, rank.splits, copies, cores)
    into.rates.extend([rates] if rates else [])
    into.queues.extend(input_pipeline.queues(rows, found, data.table("input_queue")))


def _inside(rank: Tables, calls: pl.DataFrame) -> pl.DataFrame:
    """What runs inside the fetches of a loop that reads its data itself, with the stacks of its operators."""
    columns = ("kind", "name", "pid", "tid", "start_ns", "dur_ns", "stack_id")
    single = calls.filter(pl.col("name").str.contains("SingleProcess"))
    if not single.height:
        return rank.host_op.clear().with_columns(pl.lit(None, dtype=pl.String).alias("frames"))
    parts = [
        rank.data.between("host_op", columns, start, start + length).filter(
            (pl.col("tid") == tid) & (pl.col("start_ns") > start) & (pl.col("start_ns") < start + length)
        )
        for start, length, tid in single.select("start_ns", "dur_ns", "tid").head(_FETCHES_LOOKED_AT).iter_rows()
    ]
    stack = rank.data.table("stack", "stack_id", "frames")
    return pl.concat(parts).join(stack, on="stack_id", how="left")


def _memory(rank: Tables, notable: pl.DataFrame, into: Gathered) -> None:
    data = rank.data
    curve = data.table("memory")
    into.peaks.extend(memory.peaks(data.rank, curve, rank.step))
    into.growth.extend(memory.growth(data.rank, curve, rank.step))
    allocation = data.table("allocation", "name", "bytes", "alloc_ns", "release_ns")
    if allocation.height:
        frames = notable.filter((pl.col("kind") == "python") & pl.col("name").str.starts_with("nn.Module: "))
        longest = rank.step["dur_ns"].max()

        def nodes(first_ns: int, last_ns: int) -> pl.DataFrame:
            # The forward operator of a block's backward one ran in the same step.
            before = longest if isinstance(longest, int) else last_ns - first_ns
            return data.between("host_op", _NODES, first_ns - before, last_ns + 1).drop_nulls("sequence")

        into.holders.extend(memory.holders(data.rank, allocation, frames, nodes))


def _step(rank: Tables, split: StepSplit, setting: pl.DataFrame, gc: pl.DataFrame, into: Gathered) -> None:
    """The measures of the step of median window."""
    mark = rank.step.filter(pl.col("step") == split.step) if split.step is not None else rank.step.clear()
    start = int(mark["start_ns"][0]) if mark.height else split.start_ns
    end = start + int(mark["dur_ns"][0]) if mark.height else split.start_ns + split.window_ns
    first, last = min(start, split.start_ns), max(end, split.start_ns + split.window_ns)
    calls = rank.data.between("host_op", _CALLS, first, last)
    groups = rank.data.table("group", "group", "name").drop_nulls().unique(maintain_order=True)
    names = _distinct(groups)
    into.overlap.append(step_overlap(split, rank.kernel, rank.comm_op, calls, gc, names))
    device = _reaching(rank.device, first, last)
    owned = pl.col("step") == split.step if split.step is not None else pl.lit(value=True)
    rows = dispatch.StepRows(
        split=split,
        start_ns=start,
        end_ns=end,
        tasks=device.with_columns(owned.fill_null(value=False).alias("owned")),
        host_op=calls,
        gc=within(gc, start, end),
        stack=rank.data.table("stack", "stack_id", "frames"),
        compute=rank.parts["compute"].clip(first, last + _AFTER_NS),
        comm=rank.parts["comm"].clip(first, last + _AFTER_NS),
        copy=rank.parts["copy"].clip(first, last + _AFTER_NS),
        recorded=rank.busy is not None,
    )
    host = dispatch.step_host(rows)
    into.steps.extend([host] if host else [])
    fed = dispatch.dispatch(rows, host, setting, rank.vendor)
    into.dispatch.extend([fed] if fed else [])
    into.depths.extend(dispatch.queue_depths(rows))
    into.syncs.extend(dispatch.sync_calls(rows))
    arrows = rank.data.between("flow", _FLOW, first, last)
    kernel = _reaching(rank.kernel, first, last)
    again = memory.recompute(split, calls, kernel, arrows)
    into.recompute.extend([again] if again else [])
    begun = calls.filter((pl.col("start_ns") >= first) & (pl.col("start_ns") < last))
    marks = rank.host_op.filter(pl.col("name").str.starts_with(unused.OPTIMIZER))
    idle = unused.unused_gradients(
        split, begun, marks, lambda since, until: rank.data.between("host_op", _SHAPED, since, until), kernel, arrows
    )
    into.unused.extend([idle] if idle else [])


def _reaching(device: pl.DataFrame, first_ns: int, last_ns: int) -> pl.DataFrame:
    """Tasks that were launched before the end of a stretch, or began before it, and end behind its start."""
    begun = pl.col("start_ns") < last_ns
    return device.filter(
        (pl.coalesce(pl.col("launch_ns") < last_ns, begun) | begun) & (pl.col("start_ns") + pl.col("dur_ns") > first_ns)
    )


def _distinct(groups: pl.DataFrame) -> dict[str, str]:
    """Names of groups by key; two groups of one name keep the end of their key."""
    counts = dict(groups["name"].value_counts().iter_rows())
    return {str(key): str(name) if counts[name] == 1 else f"{name} {str(key)[-6:]}" for key, name in groups.iter_rows()}
