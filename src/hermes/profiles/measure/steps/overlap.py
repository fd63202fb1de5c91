"""Measures overlap in a step: the exclusive time of every combination of components, by one sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from hermes.base.intervals import Intervals, exclusive
from hermes.knowledge.host_work import DATA
from hermes.knowledge.vendor_traits import MARKED_ALONE
from hermes.model.overlap_measures import OverlapPart, OverlapState, StepOverlap
from hermes.model.step_measures import StepSplit
from hermes.profiles.measure.host.select_host_calls import calls_within, names_reason, spans, working_intervals
from hermes.profiles.measure.registry import RankTables, per_rank
from hermes.profiles.measure.steps.breakdown import tasks_of_lanes, typical_of
from hermes.profiles.measure.steps.device_of_step import step_calls

# The order in which components hide each other: a component is exposed only while none before it runs.
ORDER = ("compute", "communication", "copy", "data input", "host")
# On a machine without accelerator the operators of the host are the computing.
_ORDER_OF_CPU = ("host", "communication", "data input")
_MOST_GROUPS = 40
_DIRECTION = {"h2d": "host to device", "d2h": "device to host", "d2d": "on the device", "p2p": "between devices",
              "h2h": "on the host", "set": "fill"}  # fmt: skip


def step_overlap(
    split: StepSplit,
    kernel: pl.DataFrame,
    comm_op: pl.DataFrame,
    host_op: pl.DataFrame,
    gc: pl.DataFrame,
    groups: Mapping[str, str],
) -> StepOverlap:
    """The window of one step of one rank, by the components that ran at once.

    `kernel` needs `component, direction, start_ns, dur_ns, step`, `comm_op` `group, library` for the first two,
    `host_op` `kind, name, pid, tid, start_ns, dur_ns` of at least this stretch; `groups` names the groups. The tasks
    are those of the step's split: compute, communication and copies have the same totals.
    """
    start, end = split.start_ns, split.start_ns + split.window_ns
    # Compute beside operations that are only marked is not recorded.
    comm_op = comm_op.filter(pl.col("library").fill_null("") != MARKED_ALONE)
    tasks = tasks_of_lanes(split, kernel, comm_op, groups)
    calls = calls_within(host_op, start, end)
    order = _ORDER_OF_CPU if split.compute_ns is None else ORDER
    found = [*_device(tasks), *_host(calls, calls_within(gc, start, end), alone=split.compute_ns is None)]
    found = [one for one in found if one[0] in order and one[3].clip(start, end).total]
    states = exclusive([own for _, _, _, own in found], start, end)
    parts = tuple(
        _part(bit, found, states, order, own.clip(start, end).total) for bit, (_, _, _, own) in enumerate(found)
    )
    labels = [part.label for part in parts]
    named_states = [
        OverlapState(components=tuple(label for bit, label in enumerate(labels) if key >> bit & 1), ns=ns)
        for key, ns in states.items()
    ]
    seen = {part.component for part in parts}
    return StepOverlap(
        rank=split.rank,
        step=split.step,
        window_ns=split.window_ns,
        parts=parts,
        states=tuple(sorted(named_states, key=lambda state: (-state.ns, state.components))),
        absent=tuple(component for component in ORDER if component not in seen),
    )


_Found = tuple[str, str | None, int, Intervals]
"""A component, its group, its number of events, and its times."""


def _device(tasks: pl.DataFrame) -> Iterator[_Found]:
    """The components of the device; of many groups the busiest, and the other groups as one."""
    tasks = tasks.with_columns(
        pl.when(pl.col("component") == "comm").then(pl.col("lane").fill_null("group not recorded")).otherwise("lane")
    )  # fmt: skip
    sums = tasks.filter(pl.col("component") == "comm").group_by("lane").agg(pl.col("dur_ns").sum().alias("ns"))
    ranked = sums.sort("ns", "lane", descending=[True, False], nulls_last=True)["lane"].to_list()
    shown = ranked[:_MOST_GROUPS]
    lane = pl.when((pl.col("component") != "comm") | pl.col("lane").is_in(shown)).then("lane").otherwise(
        pl.lit("of other groups")
    )  # fmt: skip
    parts = tasks.with_columns(lane.alias("lane")).partition_by("component", "lane", as_dict=True)
    words = {"compute": "compute", "comm": "communication", "copy": "copy"}
    for (component, group), rows in sorted(
        parts.items(), key=lambda one: (list(words).index(str(one[0][0])), str(one))
    ):
        name = _DIRECTION.get(str(group), str(group)) if component == "copy" and group is not None else group
        yield words[str(component)], None if name is None else str(name), rows.height, spans(rows)


def _host(calls: pl.DataFrame, gc: pl.DataFrame, *, alone: bool) -> Iterator[_Found]:
    fetches = calls.filter(names_reason(DATA) & pl.col("kind").is_in(["op", "mark", "python"]))
    yield "data input", None, fetches.height, spans(fetches)
    active = calls.filter(~pl.col("kind").is_in(["step", "mark", "python"])).height + gc.height
    yield "host", None, active, working_intervals(calls, gc, alone=alone)


def _part(
    bit: int, found: list[_Found], states: Mapping[int, int], order: tuple[str, ...], busy_ns: int
) -> OverlapPart:
    component, group, events, _ = found[bit]
    place = order.index(component)
    before = sum(1 << other for other, one in enumerate(found) if order.index(one[0]) < place)
    return OverlapPart(
        component=component,
        group=group,
        events=events,
        busy_ns=busy_ns,
        exposed_ns=sum(ns for key, ns in states.items() if key >> bit & 1 and not key & before),
        alone_ns=states.get(1 << bit, 0),
    )


@per_rank(StepOverlap, needs={"kernel": ("direction",), "comm_op": ("group",)})
def overlap_of(rank: RankTables) -> StepOverlap | None:
    """The overlap in the typical step of a rank."""
    split = rank.once(typical_of)
    if split is None:
        return None
    names = _distinct(rank.table("group").select("group", "name").drop_nulls().unique(maintain_order=True))
    calls = rank.once(step_calls)
    return step_overlap(split, rank.table("kernel"), rank.table("comm_op"), calls, rank.table("gc"), names)


def _distinct(groups: pl.DataFrame) -> dict[str, str]:
    """Names of groups by key; two groups of one name get the end of their key appended."""
    counts = dict(groups["name"].value_counts().iter_rows())
    return {str(key): str(name) if counts[name] == 1 else f"{name} {str(key)[-6:]}" for key, name in groups.iter_rows()}
