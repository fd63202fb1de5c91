"""Loads the typical step, its collectives and its gradients, for the search of bucket sizes and sharded units."""

from __future__ import annotations

import numpy as np
import polars as pl

from hermes.base.intervals import Ints
from hermes.base.units import INT64_MAX, whole_number
from hermes.knowledge.cost.tensors import per_tensor
from hermes.knowledge.dtypes import element_type
from hermes.profiles.load import Loaded, present
from hermes.profiles.measure.path.previous_tasks import NONE
from hermes.profiles.measure.path.rank_nodes import RankPart
from hermes.profiles.measure.path.step_path import RankRows
from hermes.profiles.pipeline.job_outline import JobOutline
from hermes.profiles.pipeline.load_replay_step import joined_step, parts_of
from hermes.profiles.pipeline.processor_exchange import processor_step
from hermes.profiles.whatif.communication.collectives_in_graph import operations_of
from hermes.profiles.whatif.communication.gradient_readiness import Compute, Gradients
from hermes.profiles.whatif.communication.search import Exchange, SearchResult, search
from hermes.profiles.whatif.communication.unit_search import unit_search
from hermes.profiles.whatif.step_event_graph import JobStep
from hermes.store.rank_data import RankData

_TAKEN = "torch::autograd::AccumulateGrad"
_HOST_OP = ("name", "pid", "tid", "start_ns", "dur_ns", "step", "shapes", "dtypes")
_FLOW = ("kind", "src_tid", "src_ns", "dst_ns")
_STEP = ("step", "start_ns", "dur_ns")


def communication_plan(loaded: Loaded, outline: JobOutline) -> SearchResult:
    """The buckets or sharded units that make the typical step shortest; `InputError` without a replayable step."""
    exchange = exchange_of(loaded, outline)
    return unit_search(exchange) or search(exchange)


def exchange_of(loaded: Loaded, outline: JobOutline) -> Exchange:
    """The typical step with its collectives and gradients; raises `InputError` if no step can be replayed."""
    if not outline.steps.devices:
        return _of_processors(loaded, outline)
    made = parts_of(loaded, outline)
    job = joined_step(outline, made)
    sizes = {identity: info.size for identity, info in outline.groups.items()}
    data = {rank.rank: present(rank) for rank in loaded.ranks}
    return Exchange(
        job=job,
        operations=tuple(operations_of(job.graph, made.parts, made.rows, sizes)),
        compute={part.rank: _compute(job, part) for part in made.parts},
        gradients={
            part.rank: found
            for part in made.parts
            if (found := _of_part(data[part.rank], part, made.rows[part.rank])) is not None
        },
        spread_ns=_spread_ns(outline),
    )


def _compute(job: JobStep, part: RankPart) -> Compute:
    """The compute tasks of a rank, by the moment of their launch."""
    graph, tasks = job.graph, part.graph.tasks
    nodes = np.flatnonzero((graph.rank == part.rank) & (job.component == "compute"))
    launched = tasks.called_ns[graph.task[nodes]]
    known = launched != NONE
    order = np.argsort(launched[known], kind="stable")
    return Compute(launched_ns=launched[known][order] + part.offset_ns, node=nodes[known][order])


def _of_processors(loaded: Loaded, outline: JobOutline) -> Exchange:
    """The step of a job that computes on processors: a gradient is ready when autograd takes it."""
    offsets = {clock.rank: clock.offset_ns for clock in outline.clocks}
    found = {}
    for data in map(present, loaded.ranks):
        calls = _calls(data, 0, INT64_MAX)
        own = _gradients(calls, calls["start_ns"].to_numpy() + offsets.get(data.rank, 0))
        if own is not None:
            found[data.rank] = own
    made = processor_step(loaded, outline, found)
    return Exchange(
        job=made.job, operations=made.operations, compute=made.compute, gradients=found, spread_ns=_spread_ns(outline)
    )


def _of_part(data: RankData, part: RankPart, rows: RankRows) -> Gradients | None:
    """The gradients of a rank; for each, the moment up to which the tasks that compute it were launched."""
    calls = _calls(data, part.start_ns, part.end_ns)
    launched = _launched(calls["start_ns"].to_numpy(), calls["tid"].to_numpy(), rows.flow)
    return _gradients(calls, launched + part.offset_ns)


def _calls(data: RankData, first_ns: int, last_ns: int) -> pl.DataFrame:
    """The calls in which autograd took gradients whose shapes were recorded."""
    calls = data.between("host_op", _HOST_OP, first_ns, last_ns)
    return calls.filter((pl.col("name") == _TAKEN) & pl.col("shapes").is_not_null()).sort("start_ns")


def _gradients(calls: pl.DataFrame, ready_ns: Ints) -> Gradients | None:
    """The gradients that autograd took; None if any size is unknown."""
    sizes = [_bytes(shape, kind) for shape, kind in calls.select("shapes", "dtypes").iter_rows()]
    if not sizes or None in sizes:
        return None
    return Gradients(
        launched_ns=ready_ns,
        bytes=np.array(sizes, dtype=np.int64),
        step=calls["step"].cast(pl.Int64).fill_null(NONE).to_numpy(),
    )


def _launched(moments: Ints, threads: Ints, flow: pl.DataFrame) -> Ints:
    """For each call, the moment up to which earlier calls were launched: with a queue, when it takes the next."""
    queued = flow.filter(pl.col("kind") == "queue").sort("src_ns")
    found = moments.copy()
    for thread in set(threads.tolist()):
        own = queued.filter(pl.col("src_tid") == thread)
        if not own.height:
            continue
        mine = np.flatnonzero(threads == thread)
        place = np.searchsorted(own["src_ns"].to_numpy(), moments[mine])
        taken = np.maximum.accumulate(own["dst_ns"].to_numpy())
        found[mine] = np.where(place < len(taken), taken[np.minimum(place, len(taken) - 1)], moments[mine])
    return found


def _bytes(shapes: str | None, kinds: str | None) -> int | None:
    """The size of a gradient in bytes, from the first of its recorded shapes and types."""
    shape, kind = (per_tensor(shapes or "") or [""])[0], (kinds or "").split(";")[0]
    known = element_type(kind)
    sides = [whole_number(part.strip()) for part in shape.split(",") if part]
    if known is None or None in sides:
        return None
    size = known.bytes
    for side in sides:
        size *= side or 0
    return size


def _spread_ns(outline: JobOutline) -> int:
    """How much the median steps of two runs of this length differ, in ns, from the steps of the slowest rank.

    The error of a median of normal values is 1.25 times the error of their mean; a difference has the error of both.
    """
    slowest = outline.steps.slowest
    windows = [one.window_ns for one in outline.steps.every if slowest is not None and one.rank == slowest.rank]
    if len(windows) < 3:
        return 0
    of_one = 1.4826 * float(np.median(np.abs(np.array(windows) - np.median(windows))))
    return round(of_one * 1.25 * float(np.sqrt(2 / len(windows))))
