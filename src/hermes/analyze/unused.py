"""Gradients that no optimizer uses, and the work of the backward pass that leads to them alone."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from hermes.analyze.calls import outermost, spans
from hermes.analyze.host_measures import BackwardPart, UnusedGradients
from hermes.analyze.measures import StepSplit
from hermes.analyze.memory import BACKWARD, by_thread, inside, launched
from hermes.base.intervals import Intervals
from hermes.base.nesting import enclosing
from hermes.cost.tensors import elements_of

OPTIMIZER = "Optimizer.step#"
_GRADIENT = "torch::autograd::AccumulateGrad"
_ADDS = ("aten::add_", "aten::add")
_KNOWN_SHARE = 0.1
"""Where the optimizer sees the shapes of fewer gradients than this, it may update flat or sharded parameters."""
_MATCHED_SHARE = 0.5
_MATCHED_OF_FEW = 0.9
"""What it works on must be gradients' shapes, by elements of different shapes: and more so where it sees so few."""
_OTHERS = 5
"""How many optimizers' steps on either side are asked whether they use what those of this step do not."""
_SHOWN = 3
# Each rank updates some of the parameters, and gets the others.
_SHARED_OUT = r"(?i)#(\w*(zero|shard|distributed)\w*|oss)\."
# A gradient of a matrix that is used transposed passes through these.
_PASSES_ON = re.compile(
    r"\b(T|Transpose|Permute|View|UnsafeView|Reshape\w*|ToCopy|Expand|(Uns|S)queeze|Sum)Backward\d*$"
)

Shaped = Callable[[int, int], pl.DataFrame]
"""Loads operators with shapes (`name, pid, tid, start_ns, dur_ns, shapes`) that overlap a stretch."""


@dataclass(frozen=True, slots=True)
class _Wasted:
    """Places of nodes that lead to unused gradients alone, and of those that compute one on their way to others."""

    whole: set[int] = field(default_factory=set)
    partly: set[int] = field(default_factory=set)


def unused_gradients(
    split: StepSplit,
    calls: pl.DataFrame,
    marks: pl.DataFrame,
    shaped: Shaped,
    kernel: pl.DataFrame,
    flow: pl.DataFrame,
) -> UnusedGradients | None:
    """What the backward pass of a step computes for parameters that no optimizer has, told by their shapes.

    `calls` are those of the step, `marks` the optimizers' steps of the capture. None where the step
    has no optimizer, or shapes do not tell what that updates.
    """
    if not marks.height or not (calls["name"] == _GRADIENT).any():
        return None
    begun = calls["start_ns"].to_numpy()
    first, last = int(begun.min()), int(begun.max())
    marks = outermost(marks)
    own = marks.filter(pl.col("start_ns").is_between(first, last))
    if not own.height or own["name"].str.contains(_SHARED_OUT).any():
        return None
    rows = shaped(first, last + 1)
    gradients = _gradients(calls, rows)
    shapes = Counter(shape for shape in gradients["shape"] if shape)
    worked_on = _worked_on(own, rows)
    known = _updated(worked_on, shapes)
    if known is None:
        return None
    nodes, wasted, unused = calls.clear(), _Wasted(), Counter[str]()
    dropped = _dropped(gradients, calls, own["start_ns"].to_list(), worked_on)
    if dropped.any() or not known.issuperset(shapes):
        known |= _used_elsewhere(marks, first, last, shaped)
        nodes = outermost(calls.filter(pl.col("name").str.starts_with(BACKWARD)))
        gradients = _told(gradients, known, dropped, _forward(calls, nodes))
        unused.update(gradients.filter("unused")["shape"])
        wasted = _wasted(nodes, gradients)
    part = _parts(nodes, calls, kernel, flow)
    compute = kernel.filter(pl.col("component") == "compute")
    end = split.start_ns + split.window_ns
    return UnusedGradients(
        rank=split.rank,
        step=split.step,
        gradients=shapes.total(),
        unused=unused.total(),
        dropped=int(dropped.sum()),
        shapes=tuple(sorted(unused.items(), key=lambda one: (-elements_of(one[0]), one[0]))[:_SHOWN]),
        whole=part(wasted.whole),
        partly=part(wasted.partly - wasted.whole),
        compute_ns=spans(compute).clip(split.start_ns, end).total if compute.height else None,
    )


def _gradients(calls: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """`start_ns` and `shape` of all gradients of the step, by time; that of a scalar, or one unknown, is empty."""
    found = rows.filter(pl.col("name") == _GRADIENT).select("pid", "tid", "start_ns", "shapes")
    own = calls.filter(pl.col("name") == _GRADIENT).select("pid", "tid", "start_ns")
    shape = pl.col("shapes").fill_null("").str.split(";").list.first().alias("shape")
    return (
        own.join(found, on=["pid", "tid", "start_ns"], how="left", nulls_equal=True)
        .sort("start_ns")
        .select("start_ns", shape)
    )


def _reach(rows: pl.DataFrame) -> tuple[int, int]:
    starts, lengths = rows["start_ns"].to_numpy(), rows["dur_ns"].to_numpy()
    return int(starts.min()), int((starts + lengths).max())


def _updated(worked_on: Sequence[set[str]], gradients: Counter[str]) -> set[str] | None:
    """The shapes that these optimizers work on; None where that cannot be the shapes of all they update."""
    if any(shapes.isdisjoint(gradients) for shapes in worked_on):
        return None
    found = set[str]().union(*worked_on)
    few = sum(gradients[shape] for shape in found) < _KNOWN_SHARE * gradients.total()
    matched = sum(elements_of(shape) for shape in found.intersection(gradients))
    least = _MATCHED_OF_FEW if few else _MATCHED_SHARE
    return found if matched >= least * sum(map(elements_of, found)) else None


def _worked_on(marks: pl.DataFrame, rows: pl.DataFrame) -> list[set[str]]:
    """Shapes of the operators of each optimizer's step; what it runs before them may be the loop's own (a closure)."""
    rows = rows.with_columns(enclosing(marks, rows).alias("mark")).drop_nulls("mark")
    kept = (pl.col("start_ns") + pl.col("dur_ns")).filter(pl.col("name") == _GRADIENT)
    rows = rows.filter(pl.col("start_ns") >= kept.max().over("mark").fill_null(0))
    found: list[set[str]] = [set() for _ in range(marks.height)]
    for mark, text in rows.drop_nulls("shapes").select("mark", "shapes").unique().iter_rows():
        found[mark].update(shape for shape in text.split(";") if shape)
    return found


def _used_elsewhere(marks: pl.DataFrame, first_ns: int, last_ns: int, shaped: Shaped) -> set[str]:
    """Shapes that optimizers of other steps work on: two may take turns, or gradients be kept for a later one."""
    before = marks.filter(pl.col("start_ns") < first_ns).tail(_OTHERS)
    after = marks.filter(pl.col("start_ns") > last_ns).head(_OTHERS)
    found: set[str] = set()
    for mark in pl.concat([before, after]).iter_slices(1):
        found.update(*_worked_on(mark, shaped(*_reach(mark))))
    return found


def _forward(calls: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """Operators that record a graph outside the backward pass: it is over when one begins."""
    rows = calls.filter((pl.col("kind") == "op") & (pl.col("sequence") >= 0) & pl.col("forward_tid").is_null())
    return rows.filter(enclosing(nodes, rows).is_null()).sort("start_ns")


def _dropped(
    gradients: pl.DataFrame, calls: pl.DataFrame, begun: Sequence[int], worked_on: Sequence[set[str]]
) -> pl.Series:
    """Whether a gradient gives way to the next of its shape before an optimizer uses it, though one uses that.

    Another optimizer steps between the two, as a critic's does before the network learns that it judges, and the next
    is not added to the one that was there. Behind the last of a step comes the first: the next step is like it.
    """
    added = _added(calls)
    moments: dict[str, list[int]] = {}
    for moment, shape in gradients.iter_rows():
        moments.setdefault(shape, []).append(moment)
    reach = [*begun, *gradients["start_ns"]]
    lap = max(reach) - min(reach) + 1
    steps, used = [*begun, *(moment + lap for moment in begun)], [*worked_on, *worked_on]

    def given_up(moment: int, shape: str) -> bool:
        own = [*moments[shape], *(other + lap for other in moments[shape])]
        step = bisect_right(steps, moment)
        place = bisect_right(own, steps[step])
        if not shape or place == len(own) or moments[shape][place % len(moments[shape])] in added:
            return False
        between = used[step : bisect_right(steps, own[place])]
        return any(shape in one for one in used) and not any(shape in one for one in between)

    return pl.Series("dropped", [given_up(*row) for row in gradients.iter_rows()], dtype=pl.Boolean)


def _added(calls: pl.DataFrame) -> set[int]:
    """When gradients began to be kept that were added to others."""
    kept = calls.filter(pl.col("name") == _GRADIENT)
    within = enclosing(kept, calls.filter(pl.col("name").is_in(_ADDS))).drop_nulls()
    return set(kept["start_ns"].gather(within))


def _told(gradients: pl.DataFrame, known: set[str], dropped: pl.Series, forward: pl.DataFrame) -> pl.DataFrame:
    """The gradients with when their backward pass began, at the earliest, and whether they are unused.

    One alone in a pass may be that of an input, which the program reads, or which a checkpoint needs.
    """
    unused = (pl.col("shape") != "") & (~pl.col("shape").is_in(list(known)) | dropped)
    begun = gradients.join_asof(forward.select("start_ns", since="start_ns"), on="start_ns", strategy="backward")
    return begun.with_columns(pl.col("since").fill_null(-1), unused=unused).with_columns(
        unused=pl.col("unused") & (pl.col("unused").sum().over("since") > 1)
    )


def _wasted(nodes: pl.DataFrame, gradients: pl.DataFrame) -> _Wasted:
    """A node runs before all that it leads to: behind the last gradient that is used, it leads to none."""
    wasted = _Wasted()
    begun, names = nodes["start_ns"].to_numpy(), nodes["name"].to_list()
    for (since,), own in gradients.partition_by("since", as_dict=True).items():
        moments = own.filter("unused")["start_ns"].to_numpy()
        if not len(moments):
            continue
        used = max(own.filter(~pl.col("unused"))["start_ns"], default=since)
        wasted.whole.update(np.flatnonzero((begun > used) & (begun < moments.max())).tolist())
        first = int(np.searchsorted(begun, since))
        for at in np.searchsorted(begun, moments[moments < used], side="right") - 1:
            if _GRADIENT in names[at]:
                _on_the_way(int(at), first, names, wasted)
    return wasted


def _on_the_way(at: int, first: int, names: list[str], wasted: _Wasted) -> None:
    """The node that computed the gradient which this one keeps: the last before it that does not just hand it on."""
    wasted.whole.add(at)
    producer = at - 1
    while producer >= first and (_GRADIENT in names[producer] or _PASSES_ON.search(names[producer])):
        producer -= 1
    if producer >= first:
        wasted.partly.add(producer)


def _parts(
    nodes: pl.DataFrame, calls: pl.DataFrame, kernel: pl.DataFrame, flow: pl.DataFrame
) -> Callable[[set[int]], BackwardPart]:
    def part(places: set[int]) -> BackwardPart:
        when = by_thread(nodes[sorted(places)])
        device, known = launched(when, calls, kernel, flow)
        return BackwardPart(
            host_ns=sum(one.total for one in when.values()),
            device_ns=device.total if known else None,
            calls=sum(_begun_in(thread, stretch, calls) for thread, stretch in when.items()),
        )

    return part


def _begun_in(thread: tuple[int | None, int | None], when: Intervals, calls: pl.DataFrame) -> int:
    pid, tid = thread
    own = calls.filter(pl.col("pid").eq_missing(pid) & pl.col("tid").eq_missing(tid))
    return sum(inside(when, own["start_ns"]))
