"""A large tensor is copied whole to append a little to it.

## What it detects

Joins (`torch.cat`) of which one tensor has nine tenths of the result or more, where the result has 262,144 numbers or
more: memory banks and queues of contrastive learning, caches of keys and values, replay buffers, histories. Together
more than a twentieth of the step. Joins that gradients flow through, and those of torch.roll, do not count. It needs
shapes; on a device they are those of kernels, or of the framework's operators.

On a job without a device the pages of the new tensor count with the join, where Hermes' monitor counted as many page
faults in a step before the capture, and those of the captured steps: then it is a share of a step before the capture.
A number is taken for four bytes.

## Why it costs you

A join writes all of its result into new memory. What grows by a hundredth is read and written whole; a processor's
allocator often gives the old tensor back to the system, and the new one has to be handed out page by page.

## When it is not a problem

When it happens once in many steps, and the profile happens to show it; when the old tensor is needed beside the new
one, as for class tokens or a window that slides over data.

## What to do

Write into a tensor that is made once: over the oldest rows of a ring, or behind the last row of one that is large
enough. Append to a list, and join once, what is only read at the end.

## How to check

Profile the same step again: the join is gone, `copy_` or `index_copy_` of the small part is there in its place, and
page faults of a step fall.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from hermes.analyze.compute_measures import OperatorCost
from hermes.analyze.joins import Joined, joined
from hermes.analyze.measures import StepSplit
from hermes.diagnose.finding import Action, Evidence, Finding, Gain
from hermes.diagnose.rule import Measures, Rule, Threshold
from hermes.diagnose.rules._component import loss
from hermes.diagnose.rules._compute import faster, longest, named, per_step, shown
from hermes.diagnose.rules._host import BEFORE_IT, before_of, fact, has_device, on

LIMIT = Threshold(value=0.05, unit="of step", source="docs/evidence/cmp018.md")
GROWN = Threshold(value=0.9, unit="of the result is one of the tensors, at least", source="docs/evidence/cmp018.md")
MOST = Threshold(value=0.99, unit="of what a join costs is won, at most", source="docs/evidence/cmp018.md")
_LARGE = 262_144
"""Numbers that the result has at least: `docs/evidence/cmp018.md`."""
_WRITTEN = 2
"""What a number that is written in place costs at most, in numbers of a join: `docs/evidence/cmp018.md`."""
_CALL = 32_768
"""What a call that writes in place costs at most, in numbers of a join: `docs/evidence/cmp018.md`."""
_NEARLY = 0.9
"""The monitor counts at least this part of the pages of a tensor where they are new."""
_LEFT = 0.1
"""At least this part of a captured join is its own, however many faults the captured step had."""
_PAGE = 4096
_NUMBER = 4


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""

    def part(row: OperatorCost) -> float:
        return float(row.ns) if _grown(measures, row) else 0.0

    def saved(row: OperatorCost) -> float:
        one = _grown(measures, row)
        return row.ns * _won(one) if one else 0.0

    captured, pages = per_step(measures, part), per_step(measures, lambda row: _pages(_grown(measures, row), row))
    costs = {rank: _cost(measures, rank, ns, round(pages[rank])) for rank, ns in captured.items()}
    steps = _steps(measures, costs)
    found = loss(measures, "joins of a large tensor with small ones", LIMIT, _up_to(costs, steps), steps)
    if found is None:
        return
    worst, rank = longest(measures, part), found.worst.rank
    least = min(MOST.value, sum(map(saved, worst)) / sum(map(part, worst)))
    largest = max((one for row in worst if (one := _grown(measures, row))), key=lambda one: (one.elements, one.shape))
    fresh = costs[rank][1]
    yield Finding(
        code="CMP018",
        layer="compute",
        cause="tensors grown by joining",
        title=f"Copying large tensors to append a little takes {found.share:.0%} of the step{on(measures, found)}; "
        f"{largest.largest / largest.elements:.2%} of {' x '.join(map(str, largest.shape))} was there before",
        ranks=found.ranks,
        blames=named(worst),
        cost_ns=found.cost_ns,
        # Pages are those of steps before the capture, and most of the cost: nothing of it is the profiler's.
        calls=0.0 if fresh else per_step(measures, lambda row: row.calls if part(row) else 0.0).get(rank),
        share=found.share,
        gain=Gain(
            low_ns=round(found.cost_ns * least),
            high_ns=round(found.cost_ns * MOST.value),
            method="only what is new is written, and a number costs at most as much as two of a join",
        ),
        confidence=round(0.6 * measures.certainty, 2),
        evidence=(*found.evidence, *_facts(measures, rank, fresh, round(pages[rank])), *shown(worst, part)),
        replay=faster(measures, saved),
        within="MEM006" if fresh else "",
        actions=_ACTIONS,
    )


_ACTIONS = (
    Action(
        title="Write over the oldest rows of a tensor that is kept",
        do="queue[at : at + n] = new.detach(); at = (at + n) % len(queue), where len(queue) is a multiple of n, or "
        "queue.index_copy_(0, (at + torch.arange(n)) % len(queue), new.detach()). A cache that grows: make it once for "
        "the longest sequence, write keys.narrow(2, at, n).copy_(new), and read keys.narrow(2, 0, at + n).",
        verify="aten::cat on the large tensor is gone, and so are the page faults.",
        risk="Rows of a ring are in another order; what still needs the old values, as a graph that is not yet run "
        "backward, gets the new ones or an error: write after the optimizer's step.",
        source="PyTorch documentation of torch.cat, torch.Tensor.copy_ and torch.Tensor.index_copy_",
    ),
    Action(
        title="Append to a list, and join once",
        do="found.append(out.detach()) in the loop, and torch.cat(found) behind it, where only the end reads all.",
        verify="One call of aten::cat in place of one for each step.",
        risk="All parts stay in memory until then, as they do now.",
        source="PyTorch documentation of torch.cat",
    ),
)


def _grown(measures: Measures, row: OperatorCost) -> Joined | None:
    """What a row of operators joins, where a little is appended to a large tensor and no gradient flows through it."""
    one = joined(row.operator, row.shapes)
    if one is None or one.elements < _LARGE or one.largest < GROWN.value * one.elements:
        return None
    kept = any(own.rank in row.ranks and own.shape == one.text for own in measures.host.kept_joins)
    return None if kept else one


def _won(one: Joined) -> float:
    """What is won at least of what a join costs."""
    return 1 - _WRITTEN * (1 - one.largest / one.elements) - _CALL / one.elements


def _pages(one: Joined | None, row: OperatorCost) -> float:
    """The pages that all calls of a row write."""
    return row.calls * one.elements * _NUMBER / _PAGE if one else 0.0


def _cost(measures: Measures, rank: int, ns: float, pages: int) -> tuple[int, int]:
    """What joins cost a step, and what of it is fresh memory: in steps before the capture, not in captured ones."""
    row = None if has_device(measures, rank) else before_of(measures, rank)
    if row is None or row.minor_faults is None or row.captured_faults is None or not row.fault_ns:
        return round(ns), 0
    if row.minor_faults < _NEARLY * pages:
        return round(ns), 0
    again = min(pages, row.captured_faults) * row.fault_ns
    fresh = min(pages, row.minor_faults) * row.fault_ns
    return round(max(ns - again, _LEFT * ns)) + fresh, fresh


def _steps(measures: Measures, costs: Mapping[int, tuple[int, int]]) -> Callable[[StepSplit], int]:
    """The step that a cost is of: one before the capture where fresh memory of it counts."""

    def length(split: StepSplit) -> int:
        row = before_of(measures, split.rank)
        return row.step_ns if row and costs.get(split.rank, (0, 0))[1] else split.window_ns

    return length


def _up_to(
    costs: Mapping[int, tuple[int, int]], length: Callable[[StepSplit], int]
) -> Callable[[StepSplit], int | None]:
    def cost(split: StepSplit) -> int | None:
        most = length(split) if split.compute_ns is None else split.compute_ns
        return min(costs[split.rank][0], most) if split.rank in costs else None

    return cost


def _facts(measures: Measures, rank: int, fresh: int, pages: int) -> Iterator[Evidence]:
    row = before_of(measures, rank)
    if fresh and row is not None:
        yield fact(measures, rank, "pages of the new tensors", pages, "pages")
        yield fact(measures, rank, "page faults a step", row.minor_faults or 0, "faults", source=BEFORE_IT)
        yield fact(measures, rank, "faults of these pages", fresh, "ns", source="one was measured")


RULE = Rule(code="CMP018", page=__doc__ or "", find=find, cases=("MEM-20", "MEM-14"))
