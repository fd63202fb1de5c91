"""Gradients that are computed for no optimizer, or thrown away before one uses them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from hermes.base.intervals import Ints
from hermes.base.nesting import enclosing
from hermes.knowledge.cost.tensors import per_tensor
from hermes.model.code_measures import UnusedGradients
from hermes.profiles.measure.code.again import started_in
from hermes.profiles.measure.code.attribution import attribution_of
from hermes.profiles.measure.host.calls import outermost
from hermes.profiles.measure.registry import RankTables, per_rank

_HOST_OP = ("kind", "name", "pid", "tid", "start_ns", "dur_ns", "shapes")
_STEP = r"^Optimizer\.step#"
_ZERO = r"^Optimizer\.zero_grad#|torch/nn/modules/module\.py\(\d+\): zero_grad$"
_GRADIENT = "torch::autograd::AccumulateGrad"
_LISTS = r"_foreach_|_fused_"
_MOST_LISTS = 5
"""Parameters, gradients, two moments and their maximum: no operator of an optimizer gets more lists of the same."""
Bools = npt.NDArray[np.bool_]
_LEAST = 2
"""Fewer steps of optimizers say nothing of those that step rarely."""


@per_rank(UnusedGradients, needs={"host_op": _HOST_OP})
def unused_gradients_of(rank: RankTables) -> UnusedGradients | None:
    """None where all are used, or where shapes do not tell all that the optimizers work on."""
    host_op = rank.table("host_op")
    updates = host_op.filter((pl.col("kind") != "python") & pl.col("name").str.contains(_STEP)).sort("start_ns")
    gradients = host_op.filter(pl.col("name") == _GRADIENT).sort("start_ns")
    if updates.height < _LEAST or not gradients.height:
        return None
    ops = host_op.filter((pl.col("kind") == "op") & pl.col("name").str.starts_with("aten::"))
    around = enclosing(updates, ops)
    inside = ops.with_columns(around.alias("update")).filter(around.is_not_null())
    lists = inside.filter(pl.col("name").str.contains(_LISTS))["shapes"].fill_null("")
    # A list of single numbers, as counters of steps are, has no shapes where others have.
    unknown = bool(len(lists)) and not (lists != "").any()
    if not inside.height or unknown:
        return None
    used = _used(inside, updates.height)
    every = frozenset(shape for one in used for shape in one)
    never = np.array([text not in every for text in gradients["shapes"].fill_null("").to_list()], dtype=bool)
    # Where all steps work on the same, as those of one optimizer do, the next one uses what any does.
    if not never.any() and all(one.keys() == every for one in used):
        return None
    passes = outermost(host_op.filter(pl.col("name").str.contains("run_backward"))).sort("start_ns")
    dropped = _dropped(host_op, passes, updates, gradients, used)
    unused = never | dropped
    if unused.any():
        unused |= _beyond(passes, updates, gradients, used, unused)
    if unused.all() or not unused.any():
        return None
    tails = _tails(passes, gradients["start_ns"].to_numpy(), unused)
    steps = max(1, rank.table("step").height or updates.height)
    found = rank.once(attribution_of)
    worst = passes.filter(pl.Series(tails > 0, dtype=pl.Boolean))
    return UnusedGradients(
        rank=rank.rank, kept=int((~unused).sum()) / steps, unused=int(unused.sum()) / steps,
        tail_ns=int(tails.sum()) // steps, optimizer_steps=updates.height,
        dropped=bool(dropped.sum() > never.sum()), line=started_in(rank, found, worst) if found else "",
    )  # fmt: skip


def _used(inside: pl.DataFrame, updates: int) -> list[Mapping[str, int]]:
    """By step of an optimizer the shapes that it works on, and on how many tensors of each, at most."""
    shapes: list[dict[str, int]] = [{} for _ in range(updates)]
    calls = inside.select("update", "name", "shapes").drop_nulls()
    for update, name, text, many in calls.group_by("update", "name", "shapes").len().iter_rows():
        listed = [shape for shape in per_tensor(text) if shape]
        first = Counter(_first(listed)) if re.search(_LISTS, name) else Counter(listed[:1])
        for shape in listed:
            shapes[update][shape] = max(shapes[update].get(shape, 0), first[shape] * many)
    return list(shapes)


def _first(listed: Sequence[str]) -> Sequence[str]:
    """The first of the lists of tensors that an operator was given, which all have the same shapes."""
    for lists in range(_MOST_LISTS, 1, -1):
        many = len(listed) // lists
        if many * lists == len(listed) and [*listed[:many]] * lists == [*listed]:
            return listed[:many]
    return listed


def _beyond(
    passes: pl.DataFrame, updates: pl.DataFrame, gradients: pl.DataFrame, used: Sequence[Mapping[str, int]],
    unused: Bools,
) -> Bools:  # fmt: skip
    """Gradients of a pass beyond as many as the next steps work on tensors of that shape.

    What is used comes first, as layers near to the loss do; only where the last gradient whose shape alone tells is an
    unused one.
    """
    when, steps = gradients["start_ns"].to_numpy(), updates["start_ns"].to_numpy()
    shapes = gradients["shapes"].fill_null("").to_list()
    found = np.zeros(len(when), dtype=bool)
    begins = passes["start_ns"].to_numpy()
    for at, (start, length) in enumerate(passes.select("start_ns", "dur_ns").iter_rows()):
        inside = np.flatnonzero((when >= start) & (when < start + length)).tolist()
        until = begins[at + 1] if at + 1 < len(begins) else np.iinfo(np.int64).max
        between = used[int(np.searchsorted(steps, start)) : int(np.searchsorted(steps, until))]
        have = Counter(shapes[one] for one in inside if not unused[one])
        most = {shape: sum(one.get(shape, 0) for one in between) for shape in have}
        clear = [one for one in inside if unused[one] or have[shapes[one]] <= most[shapes[one]]]
        if not between or not clear or not unused[clear[-1]]:
            continue
        seen: Counter[str] = Counter()
        for one in inside:
            seen[shapes[one]] += 1
            found[one] = not unused[one] and seen[shapes[one]] > most[shapes[one]] > 0
    return found


def _dropped(
    host_op: pl.DataFrame, passes: pl.DataFrame, updates: pl.DataFrame, gradients: pl.DataFrame,
    used: Sequence[Mapping[str, int]],
) -> Bools:  # fmt: skip
    """Gradients that the next steps of optimizers do not use, and that are set to zero before one uses them.

    The next steps are those between the pass and the next one; of passes with none between them the last one's.
    """
    begins, steps = passes["start_ns"].to_numpy(), updates["start_ns"].to_numpy()
    zeros = np.sort(host_op.filter(pl.col("name").str.contains(_ZERO))["start_ns"].to_numpy())
    when = gradients["start_ns"].to_numpy()
    found = np.zeros(len(when), dtype=bool)
    if not len(begins) or not len(zeros):
        return found
    for at, (moment, shape) in enumerate(zip(when.tolist(), gradients["shapes"].fill_null("").to_list(), strict=True)):
        first = int(np.searchsorted(steps, moment))
        if first == len(steps):
            continue
        behind = int(np.searchsorted(begins, steps[first]))
        until = begins[behind] if behind < len(begins) else np.iinfo(np.int64).max
        last = int(np.searchsorted(steps, until))
        if any(shape in one for one in used[first:last]):
            continue
        then = next((step for step in range(last, len(steps)) if shape in used[step]), None)
        if then is None:
            continue
        # The last pass before that step must begin behind the zeros, or they would have wiped out what it computed.
        own = begins[int(np.searchsorted(begins, steps[then])) - 1]
        found[at] = np.searchsorted(zeros, own) > np.searchsorted(zeros, steps[first])
    return found


def _tails(passes: pl.DataFrame, when: Ints, unused: Bools) -> Ints:
    """By backward pass the time behind its last gradient that is used, up to its last one that is not."""
    tails = np.zeros(passes.height, dtype=np.int64)
    for at, (start, length) in enumerate(passes.select("start_ns", "dur_ns").iter_rows()):
        inside = (when >= start) & (when < start + length)
        mine, idle = when[inside & ~unused], when[inside & unused]
        # A pass of which nothing is used may be for an optimizer that steps seldom.
        if len(mine) and len(idle):
            tails[at] = max(0, int(idle.max()) - int(mine.max()))
    return tails
