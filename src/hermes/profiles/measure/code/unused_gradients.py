"""Finds gradients that no optimizer uses, or that are zeroed before an optimizer uses them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from hermes.base.enclosing_calls import enclosing
from hermes.base.intervals import Ints
from hermes.knowledge.cost.tensors import per_tensor
from hermes.model.code_measures import UnusedGradients
from hermes.profiles.measure.code.repeated_calls import started_in
from hermes.profiles.measure.code.time_attribution import attribution_of
from hermes.profiles.measure.host.select_host_calls import outermost
from hermes.profiles.measure.registry import RankTables, per_rank

_HOST_OP = ("kind", "name", "pid", "tid", "start_ns", "dur_ns", "shapes")
_STEP = r"^Optimizer\.step#"
_ZERO = r"^Optimizer\.zero_grad#|torch/nn/modules/module\.py\(\d+\): zero_grad$"
_GRADIENT = "torch::autograd::AccumulateGrad"
_LISTS = r"_foreach_|_fused_"
_MOST_LISTS = 5
"""The most equal lists that an optimizer's operator gets: parameters, gradients, two moments and their maximum."""
Bools = npt.NDArray[np.bool_]
_LEAST = 2
"""Fewer optimizer steps do not show optimizers that step rarely."""


@per_rank(UnusedGradients, needs={"host_op": _HOST_OP})
def unused_gradients_of(rank: RankTables) -> UnusedGradients | None:
    """The unused gradients of a rank; None if all are used, or if shapes do not tell all that the optimizers update."""
    host_op = rank.table("host_op")
    updates = host_op.filter((pl.col("kind") != "python") & pl.col("name").str.contains(_STEP)).sort("start_ns")
    gradients = host_op.filter(pl.col("name") == _GRADIENT).sort("start_ns")
    if updates.height < _LEAST or not gradients.height:
        return None
    ops = host_op.filter((pl.col("kind") == "op") & pl.col("name").str.starts_with("aten::"))
    around = enclosing(updates, ops)
    inside = ops.with_columns(around.alias("update")).filter(around.is_not_null())
    lists = inside.filter(pl.col("name").str.contains(_LISTS))["shapes"].fill_null("")
    # A list of single numbers, such as step counters, has no shapes where other lists have.
    unknown = bool(len(lists)) and not (lists != "").any()
    if not inside.height or unknown:
        return None
    used = _used(inside, updates.height)
    every = frozenset(shape for one in used for shape in one)
    never = np.array([text not in every for text in gradients["shapes"].fill_null("").to_list()], dtype=bool)
    # If all optimizer steps update the same tensors, as with one optimizer, the next step uses what any step uses.
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
    """For each optimizer step, the largest number of tensors of each shape that it updates."""
    shapes: list[dict[str, int]] = [{} for _ in range(updates)]
    calls = inside.select("update", "name", "shapes").drop_nulls()
    for update, name, text, many in calls.group_by("update", "name", "shapes").len().iter_rows():
        listed = [shape for shape in per_tensor(text) if shape]
        first = Counter(_first(listed)) if re.search(_LISTS, name) else Counter(listed[:1])
        for shape in listed:
            shapes[update][shape] = max(shapes[update].get(shape, 0), first[shape] * many)
    return list(shapes)


def _first(listed: Sequence[str]) -> Sequence[str]:
    """The first of the equal lists of tensors that an operator was given."""
    for lists in range(_MOST_LISTS, 1, -1):
        many = len(listed) // lists
        if many * lists == len(listed) and [*listed[:many]] * lists == [*listed]:
            return listed[:many]
    return listed


def _beyond(
    passes: pl.DataFrame, updates: pl.DataFrame, gradients: pl.DataFrame, used: Sequence[Mapping[str, int]],
    unused: Bools,
) -> Bools:  # fmt: skip
    """For each gradient, whether its pass has more gradients of that shape than the next optimizer steps update.

    Used gradients come first, as in layers near the loss. The rule holds only if the last gradient known by its shape
    alone is unused.
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
    """For each gradient, whether no next optimizer step uses it before it is zeroed.

    The next optimizer steps lie between the gradient's backward pass and the pass after it. Backward passes without a
    step between them share the optimizer steps after the last of these passes.
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
        # The last pass before that step must begin after the zeroing, or its own gradients would have been wiped out.
        own = begins[int(np.searchsorted(begins, steps[then])) - 1]
        found[at] = np.searchsorted(zeros, own) > np.searchsorted(zeros, steps[first])
    return found


def _tails(passes: pl.DataFrame, when: Ints, unused: Bools) -> Ints:
    """For each backward pass, the time in ns from its last used gradient to its last unused gradient."""
    tails = np.zeros(passes.height, dtype=np.int64)
    for at, (start, length) in enumerate(passes.select("start_ns", "dur_ns").iter_rows()):
        inside = (when >= start) & (when < start + length)
        mine, idle = when[inside & ~unused], when[inside & unused]
        # A pass without any used gradient may serve an optimizer that steps seldom.
        if len(mine) and len(idle):
            tails[at] = max(0, int(idle.max()) - int(mine.max()))
    return tails
