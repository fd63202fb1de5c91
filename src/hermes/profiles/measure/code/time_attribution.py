"""Attributes the stepping thread's time, and each device task, to a function of the user's code."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from hermes.base.enclosing_calls import enclosing
from hermes.base.intervals import Intervals, Ints, union_of_intervals
from hermes.knowledge.blocking_calls import is_blocking
from hermes.knowledge.host_work import host_reason
from hermes.knowledge.vendor_traits import traits
from hermes.model.tables import RUNTIME_KINDS
from hermes.profiles.measure.code.calling_functions import CallingFunctions, owners, python_is_framework
from hermes.profiles.measure.code.line_samples import told_of
from hermes.profiles.measure.host.select_host_calls import (
    CALLS,
    calls_of_threads,
    dispatching,
    is_on_threads,
    meetings,
    outermost,
    spans,
)
from hermes.profiles.measure.registry import RankTables
from hermes.profiles.measure.structure.modules import asked_of

PYTHON, FRAMEWORK, OPERATOR, LAUNCH, WAIT, BACKWARD = range(6)
CLASSES = ("python", "framework", "operator", "launch", "wait", "backward")
_LAYER = ("op", "python", "mark")
HOST_OP = ("kind", "name", "pid", "tid", "start_ns", "dur_ns", "self_ns", "stack_id", "sequence", "forward_tid")
_CALL = ("kind", "name", "pid", "tid", "start_ns", "dur_ns", "self_ns")
_KINDS = pl.Enum([*_LAYER, "runtime", "gap"])
_NARROW = (pl.col("owner", "step").cast(pl.Int32), pl.col("what").cast(pl.Int8), pl.col("kind").cast(_KINDS))
_TRAINS = r"^Optimizer\.(step|zero_grad)#|run_backward"
_LANE = ("pid", "tid", "start_ns")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """The time of the user's functions: `parts` has one row for each stretch or call.

    `owner` is a label of `owners` or -1, `step` the index of the step, `what` one of `CLASSES`, `name` the name of the
    call, `ns` its time. `device` has `name`, `label`, `what` and `ns` of each device task. `bounds` are the steps.
    `events` are calls whose names tell a `reason`; `loop` is the stepping thread. `trained` are labels of functions
    whose operators have backward operators, and of functions that step an optimizer or run a backward pass.
    """

    owners: CallingFunctions
    parts: pl.DataFrame
    device: pl.DataFrame
    bounds: Intervals
    loop: pl.DataFrame
    events: pl.DataFrame
    trained: frozenset[int]


def attribution_of(rank: RankTables) -> Attribution | None:
    """The attribution of a rank's time; None if neither frames nor stacks were recorded, or nothing ran."""
    kinds = rank.table("host_op")["kind"].unique().to_list()
    stack = rank.data.table("stack", "stack_id", "frames")
    if not stack.height and "python" not in kinds:
        return None
    threads = _threads(rank)
    kept = pl.col("kind").is_in([*_LAYER, *CALLS]) & is_on_threads(threads)
    rows = rank.table("host_op").lazy().filter(kept).select(HOST_OP).collect()
    found = owners(rows, stack, told_of(rank))
    loop = threads.head(1)
    bounds = _bounds(rank, calls_of_threads(rows.select("pid", "tid", "start_ns", "dur_ns"), loop))
    if found is None or not len(bounds):
        return None
    nodes, events = _nodes(rows, found), _events(rows)
    # The widest tables are released as soon as possible: a trace may hold millions of calls.
    own = rows.select(_CALL).lazy().filter(is_on_threads(loop))
    below = outermost(own.filter(pl.col("kind").is_in(RUNTIME_KINDS)).collect())
    upper = own.filter(pl.col("kind").is_in(_LAYER)).collect()
    del rows, own
    # With a device, a call of a collective launches work; without one, the call waits for other ranks until it is done.
    meets = meetings(upper) if not traits(rank.vendor).device else upper.clear()
    parts = _host(upper, below, found, nodes, bounds, loop, meets)
    return Attribution(
        owners=found, parts=parts, device=_device(rank, found, nodes), bounds=bounds, loop=loop, events=events,
        trained=frozenset(nodes["label"].unique()) | _training(parts),
    )  # fmt: skip


def _training(parts: pl.DataFrame) -> frozenset[int]:
    """The labels of functions that step an optimizer or run a backward pass themselves."""
    rows = parts.lazy().filter((pl.col("kind") != "op") & pl.col("name").str.contains(_TRAINS))
    return frozenset(rows.select(pl.col("owner").unique()).collect()["owner"].to_list())


def _threads(rank: RankTables) -> pl.DataFrame:
    """The threads that feed the device; first the thread of the step marks, or else the busiest thread."""
    columns = ("kind", "pid", "tid", "forward_tid")
    calls = rank.table("host_op").select(columns).filter(pl.col("kind").is_in(["step", "op"]))
    found = dispatching(calls)
    steps = calls.filter(pl.col("kind") == "step").select("pid", "tid").unique()
    if steps.height:
        first = steps.head(1)
    else:
        busiest = calls.group_by("pid", "tid").len().sort("len", "pid", "tid", descending=[True, False, False])
        first = busiest.select("pid", "tid").head(1)
    return pl.concat([first, found.join(first, on=["pid", "tid"], how="anti", nulls_equal=True)])


def _events(rows: pl.DataFrame) -> pl.DataFrame:
    names = {name: told for name in rows["name"].unique() if (told := host_reason(str(name)))}
    kept = rows.filter(pl.col("name").is_in(list(names))).select("name", "pid", "tid", "start_ns", "dur_ns")
    return kept.with_columns(pl.col("name").replace_strict(names, return_dtype=pl.String).alias("reason"))


def _bounds(rank: RankTables, own: pl.DataFrame) -> Intervals:
    """The time of the steps; the whole capture if no step is marked."""
    step = rank.table("step")
    if step.height:
        starts = step.sort("start_ns")["start_ns"].to_numpy()
        ends = (step.sort("start_ns")["start_ns"] + step.sort("start_ns")["dur_ns"]).to_numpy()
        # Marks of two steps may overlap by the profiler's rounding.
        ends = np.minimum(ends, np.append(starts[1:], ends[-1:]))
        return Intervals(starts.astype(np.int64), ends.astype(np.int64))
    span = spans(own).span
    return (
        union_of_intervals(np.array([span[0]]), np.array([span[1]]))
        if span
        else union_of_intervals(np.array([0]), np.array([0]))
    )


def _nodes(rows: pl.DataFrame, found: CallingFunctions) -> pl.DataFrame:
    """Backward operators, with the `label` of the forward operator of each; operators without one are left out."""
    known = rows.filter((pl.col("kind") == "op") & pl.col("sequence").is_not_null() & (pl.col("sequence") >= 0))
    forward = known.filter(pl.col("forward_tid").is_null())
    label, _ = found.of(forward)
    ran = (
        forward.select("sequence").with_columns(pl.Series("label", label, dtype=pl.Int64)).filter(pl.col("label") >= 0)
    )
    # Several forward operators share a sequence number: the last one has the autograd node.
    ran = ran.unique("sequence", keep="last", maintain_order=True)
    backward = known.filter(pl.col("forward_tid").is_not_null())
    return backward.join(ran, on="sequence", how="inner", maintain_order="left")


def _host(
    upper: pl.DataFrame, below: pl.DataFrame, found: CallingFunctions, nodes: pl.DataFrame, bounds: Intervals,
    loop: pl.DataFrame, meets: pl.DataFrame,
) -> pl.DataFrame:  # fmt: skip
    start = upper["start_ns"].to_numpy()
    place = np.searchsorted(bounds.starts, start, side="right") - 1
    ends = start + upper["dur_ns"].to_numpy()
    whole = (place >= 0) & (ends <= bounds.ends[np.maximum(place, 0)])
    own = upper.filter(pl.Series(whole)).with_columns(pl.Series("step", place[whole], dtype=pl.Int32))
    long = upper.filter(pl.Series(~whole))
    del upper
    own = _classed(own, found, nodes, meets)
    columns = ("owner", "step", "what", "name", "kind", "start_ns", "dur_ns", "ns")
    moved, rest = _moved(own, below), _gaps(long, own, found, bounds, loop)
    every = (own, *(one.with_columns(pl.col("ns").alias("dur_ns")) for one in (moved, rest)))
    return pl.concat([one.select(columns).with_columns(_NARROW) for one in every])


def _classed(own: pl.DataFrame, found: CallingFunctions, nodes: pl.DataFrame, meets: pl.DataFrame) -> pl.DataFrame:
    """The rows with `owner`, `what` and `ns`: the class of each row, and its time without direct inner calls."""
    label, began = found.of(own)
    is_op = (own["kind"] == "op").to_numpy()
    framed = found.source == "frames"
    framework = python_is_framework(own, began) if framed else np.ones(own.height, dtype=bool)
    what = np.where(is_op, OPERATOR, np.where(framework, FRAMEWORK, PYTHON))
    if meets.height and own.height:
        what = np.where(enclosing(meets, own).is_not_null().to_numpy(), WAIT, what)
    if nodes.height and own.height:
        node = enclosing(nodes, own).fill_null(-1).to_numpy()
        # A function of the user's code may run below a node, such as the backward of a custom autograd function.
        since = nodes["start_ns"].to_numpy()[np.maximum(node, 0)]
        behind = (node >= 0) & (since > began)
        label = np.where(behind, nodes["label"].to_numpy()[np.maximum(node, 0)], label)
        what = np.where(behind, BACKWARD, what)
    return own.with_columns(
        pl.Series("owner", label, dtype=pl.Int32), pl.Series("what", what, dtype=pl.Int8),
        pl.col("self_ns").alias("ns"), pl.col("kind").cast(pl.String),
    )  # fmt: skip


def _moved(own: pl.DataFrame, below: pl.DataFrame) -> pl.DataFrame:
    """Give runtime calls to the owner of the call around them, and subtract their time from that call's class."""
    place = enclosing(own, below)
    known = place.is_not_null()
    around = own.select("owner", "step", "what", pl.col("name").alias("outer"))[place.filter(known)]
    inner = below.filter(known)
    names = inner["name"].unique()
    waits = inner["name"].is_in([name for name in names if is_blocking(name)])
    what = pl.select(pl.when(waits).then(WAIT).otherwise(LAUNCH).cast(pl.Int8).alias("what"))["what"]
    rows = pl.concat([around, inner.select("name", "start_ns", pl.col("dur_ns").alias("ns"))], how="horizontal")
    # Backward calls stay whole: the waits of calls inside them are not told apart.
    rows = rows.with_columns(what.alias("now")).filter(pl.col("what") != BACKWARD)
    kind = pl.lit("runtime").alias("kind")
    there = rows.select("owner", "step", pl.col("now").alias("what"), "name", kind, "start_ns", "ns")
    less = rows.select("owner", "step", "what", pl.col("outer").alias("name"), kind, "start_ns", -pl.col("ns"))
    return pl.concat([there, less])


def _gaps(
    long: pl.DataFrame, own: pl.DataFrame, found: CallingFunctions, bounds: Intervals, loop: pl.DataFrame
) -> pl.DataFrame:
    """Give time of the steps outside all calls to the innermost function that was open meanwhile."""
    gaps = union_of_intervals(bounds.starts, bounds.ends) - spans(own)
    pieces = _cut(gaps, _edges(long, bounds))
    moments = pl.DataFrame({"start_ns": pieces.starts}, schema={"start_ns": pl.Int64}).join(loop, how="cross")
    label, began = found.of(moments)
    # Of the framework's frames that were open meanwhile, the innermost decides.
    framework = np.zeros(moments.height, dtype=bool)
    if found.source == "frames" and long.height:
        none = pl.lit(0).cast(pl.Int64).alias("dur_ns")
        empty = moments.select(pl.lit("gap").alias("kind"), pl.lit("").alias("name"), *_LANE, none)
        probe = pl.concat([long.select("kind", "name", *_LANE, "dur_ns"), empty], how="vertical_relaxed")
        since = np.concatenate([np.full(long.height, 2**62), began])
        framework = python_is_framework(probe, since)[long.height :]
    what = np.where(framework, FRAMEWORK, PYTHON)
    step = np.searchsorted(bounds.starts, pieces.starts, side="right") - 1
    return pl.DataFrame(
        {
            "owner": label, "step": step, "what": what, "start_ns": pieces.starts, "ns": pieces.ends - pieces.starts,
        },
        schema={name: pl.Int64 for name in ("owner", "step", "what", "start_ns", "ns")},
    ).with_columns(pl.lit("").alias("name"), pl.lit("gap").alias("kind"))  # fmt: skip


def _edges(long: pl.DataFrame, bounds: Intervals) -> Ints:
    starts = long["start_ns"].to_numpy()
    return np.unique(np.concatenate([starts, starts + long["dur_ns"].to_numpy(), bounds.starts]))


def _cut(gaps: Intervals, edges: Ints) -> Intervals:
    """The same time, cut at each edge."""
    if not len(gaps):
        return gaps
    inside = edges[(edges > gaps.starts[0]) & (edges < gaps.ends[-1])]
    place = np.searchsorted(gaps.starts, inside, side="right") - 1
    inside = inside[(inside > gaps.starts[place]) & (inside < gaps.ends[place])]
    starts = np.sort(np.concatenate([gaps.starts, inside]))
    ends = np.sort(np.concatenate([gaps.ends, inside]))
    return Intervals(starts, ends)


def _device(rank: RankTables, found: CallingFunctions, nodes: pl.DataFrame) -> pl.DataFrame:
    """Device tasks by the function that launched them; tasks whose launch is unknown are left out."""
    asked = rank.once(asked_of)
    label, began = found.of(asked)
    behind = np.zeros(asked.height, dtype=bool)
    if nodes.height and asked.height:
        node = enclosing(nodes, asked).fill_null(-1).to_numpy()
        behind = (node >= 0) & (nodes["start_ns"].to_numpy()[np.maximum(node, 0)] > began)
        label = np.where(behind, nodes["label"].to_numpy()[np.maximum(node, 0)], label)
    return pl.DataFrame(
        {"name": asked["name"], "label": label, "ns": asked["dur_ns"], "backward": behind},
        schema={"name": pl.String, "label": pl.Int64, "ns": pl.Int64, "backward": pl.Boolean},
    )
