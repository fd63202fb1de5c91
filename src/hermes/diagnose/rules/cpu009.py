"""A job without an accelerator spends its steps between small operators.

## What it detects

Time of a step, as a mean over the capture, in which the host is in operators or Python, less the operators that last at
least 10 us, and at most 30 us for each call of a shorter one, as a share of the step; of jobs that compute on the
processor itself, where most calls of operators are shorter than that. On a slow processor a call of a loop lasts longer
and computes no more: up to 30 us, on 16,384 numbers at most, it counts as a shorter one. Checks of numbers (ENV004),
conversions of lists (IO007), calls of collectives and waits for them do not count, nor do recurrent layers of the
framework, which are loops of small operators themselves. Gradients of pieces taken out of a tensor in a loop count
whole: each is as large as the tensor. Where the optimizer makes most of these calls, what it takes is what can be won:
it has a fused form.

Where less than half of these calls come from a loop, which is an operator on the same shapes 16 times a step or more,
the finding has little confidence: a small model has many operators, and no two of them can be put together.

## Why it costs you

Each call of an operator costs some microseconds of Python, dispatch and autograd, whatever it computes. Where the call
computes for less than that, the step pays for calls: a loop over rows, heads or parameters makes hundreds of them.

## When it is not a problem

When the model is small and the batch must be: then nothing is left to put together. The profiler itself lengthens each
call, with stacks most: the share is smaller without it.

## What to do

Put calls together: one operator over a further axis in place of a loop, a batched product, a fused optimizer, a larger
batch.

## How to check

Profile again: fewer calls of operators a step, and a shorter step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from hermes.analyze.compute_measures import OperatorCost
from hermes.cost.tensors import elements_of
from hermes.diagnose.finding import Action, Finding, Gain
from hermes.diagnose.rule import Measures, Rule, Threshold, by_share
from hermes.diagnose.rules._component import Loss, steps_of
from hermes.diagnose.rules._compute import named
from hermes.diagnose.rules._host import (
    before_of,
    blamed,
    counted,
    event_cost,
    events_of,
    fact,
    has_device,
    host_loss,
    on,
    outside,
    step_ns,
)
from hermes.knowledge.host_work import (
    CHECKPOINT,
    CHECKS,
    COLLECTIVES,
    COMPILATION,
    CONVERSION,
    DATA,
    GC,
    OPERATOR,
    OPTIMIZER,
    PIECES,
    PYTHON,
    RECURRENT,
    STARTING,
)

LIMIT = Threshold(value=0.3, unit="of step", source="docs/evidence/cpu009.md")
SMALL_NS = Threshold(value=10_000, unit="ns", source="docs/evidence/cpu009.md")
MOST = Threshold(value=0.5, unit="of calls", source="docs/evidence/cpu009.md")
LEFT = Threshold(value=0.55, unit="of it is left at most", source="docs/evidence/cpu009.md")
ONE = Threshold(
    value=0.125, unit="of the pieces of a step is one of them: then they are a loop", source="docs/evidence/cpu009.md"
)
LOOP = Threshold(
    value=0.0625,
    unit="of the calls of an operator on the same shapes in a step is one of them: then they are a loop",
    source="docs/evidence/cpu009.md",
)
LOOPS = Threshold(value=0.5, unit="of calls under 10 us are in loops", source="docs/evidence/cpu009.md")
CALL_NS = Threshold(value=30_000, unit="ns a call", source="docs/evidence/cpu009.md")

_TINY = 16_384
"""Numbers of a call that costs more than what it computes, however long it lasts: `docs/evidence/cpu009.md`."""
_MODEL = 0.4


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""
    found = host_loss(measures, "between small operators", LIMIT, lambda split: _cost(measures, split.rank))
    if found is None:
        return
    rank = found.worst.rank
    steps_ns, earlier = _optimizer(measures, found)
    small = [row for row in _rows(measures, rank) if _is_small(row)]
    looped = _looped(measures, small)
    most = sorted(small, key=lambda row: (-row.calls, row.operator, row.shapes))
    yield Finding(
        code="CPU009",
        layer="cpu",
        cause="small operators",
        title=f"Calls of small operators take {found.share:.0%} of the step{on(measures, found)}",
        ranks=found.ranks,
        blames=blamed(measures, found, *named(most)),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=_gain(steps_ns, "updates of parameters are")
        if steps_ns
        else _gain(found.cost_ns, "what small operators do is"),
        calls=0.0 if earlier else None,
        confidence=round((0.7 if by_share(LOOPS, looped) else _MODEL) * measures.certainty, 2),
        evidence=(
            *found.evidence,
            fact(measures, rank, "calls under 10 us", _share(measures, rank), "of calls", MOST.value),
            fact(measures, rank, "of these in loops", looped, LOOPS.unit, LOOPS.value),
            *(fact(measures, rank, f"median call of {row.operator}", row.median_ns, "ns") for row in most[:3]),
        ),
        actions=(
            Action(
                title="Put small operators together",
                do="Replace loops over samples, heads or parameters by one operator with one axis more (torch.bmm, "
                "torch.stack before, broadcasting), give the optimizer fused=True or foreach=True, and enlarge the "
                "batch.",
                verify="Fewer calls of operators a step, and a shorter step.",
                risk="Sums in another order: last digits differ.",
                source="PyTorch performance tuning guide; documentation of torch.optim: fused, foreach",
            ),
        ),
    )


def _cost(measures: Measures, rank: int) -> int | None:
    """Nanoseconds of a step in calls beside operators that are worth theirs; None where none is recorded."""
    host_ns, rows = _host_ns(measures, rank), _rows(measures, rank)
    if has_device(measures, rank) or host_ns is None or not rows or _share(measures, rank) <= MOST.value:
        return None
    large = calls = 0.0
    for row in rows:
        steps = steps_of(measures, row.ranks)
        if _is_small(row) or _is_tiny(measures, row):
            calls += row.calls / steps
        else:
            large += row.ns / steps
    pieces = _pieces(measures, rank)
    # Other Python of the step is no fault of its operators.
    other = sum(event_cost(measures, rank, kind) or 0 for kind in (CHECKS, CONVERSION, RECURRENT))
    other += outside(measures, rank, STARTING, (DATA, CHECKPOINT))
    # DistributedDataParallel waits for its buckets inside of its backward pass, and not in calls of collectives.
    waits = (measures.waited_per_step(wait) for wait in measures.waits if wait.rank == rank)
    other += max(event_cost(measures, rank, COLLECTIVES) or 0, _idle(measures, rank), *waits, 0)
    own = max(host_ns - max(round(large) - pieces, 0) - other, 0)
    return min(own, round(calls * CALL_NS.value) + pieces)


def _idle(measures: Measures, rank: int) -> int:
    """How long a typical step communicates while the host calls no operator."""
    rows = (row.parts for row in measures.host.overlap if row.rank == rank)
    return sum(part.alone_ns for parts in rows for part in parts if part.component == "communication")


def _host_ns(measures: Measures, rank: int) -> int | None:
    """What a step is in operators or Python, as a mean: of the typical one, and what others are longer for no other
    reason. A loop may play in one step what it learns from in four.
    """
    split = measures.median_of(rank)
    host = next((step for step in measures.host.steps if step.rank == rank), None)
    if split is None or host is None:
        return None
    lengths = [step_ns(one) for one in measures.splits if one.rank == rank]
    known = sum(event_cost(measures, rank, kind) or 0 for kind in (GC, COMPILATION, CHECKPOINT))
    fetches = (row for row in measures.host.fetches if row.rank == rank)
    known += sum((row.wait_ns + (row.epoch_ns or 0)) // max(1, row.steps) for row in fetches)
    return host.of(OPERATOR, PYTHON) + max(sum(lengths) // len(lengths) - step_ns(split) - known, 0)


def _pieces(measures: Measures, rank: int) -> int:
    """What gradients of pieces take a step where a loop makes them: each is as large as what it is a piece of."""
    row = events_of(measures, rank, PIECES)
    if row is None or row.ns is None or (row.calls or 0) * ONE.value < row.steps:
        return 0
    return row.ns // max(1, row.steps)


def _optimizer(measures: Measures, found: Loss) -> tuple[int, bool]:
    """What optimizers take a step where they are most of the loss, else nothing, and whether the monitor counted it."""
    rank = found.worst.rank
    before, earlier = before_of(measures, rank), counted(measures, rank, "optimizer_ns")
    if before and earlier and earlier > MOST.value * found.share * before.step_ns:
        return earlier, True
    ns = min(event_cost(measures, rank, OPTIMIZER) or 0, found.cost_ns)
    return (ns, False) if ns > MOST.value * found.cost_ns else (0, False)


def _gain(cost_ns: int, what: str) -> Gain:
    method = f"{what} put together"
    return Gain(low_ns=round(cost_ns * (1 - LEFT.value)), high_ns=cost_ns, method=f"the host's own time: {method}")


def _rows(measures: Measures, rank: int) -> list[OperatorCost]:
    return [row for row in measures.compute.operators if rank in row.ranks]


def _is_small(row: OperatorCost) -> bool:
    return row.median_ns < SMALL_NS.value


def _is_tiny(measures: Measures, row: OperatorCost) -> bool:
    """Whether a loop calls it with so few numbers that it lasts no longer for what it computes."""
    if row.median_ns >= CALL_NS.value or not _in_loop(measures, row):
        return False
    return 0 < max(map(elements_of, row.shapes.split(";"))) <= _TINY


def _in_loop(measures: Measures, row: OperatorCost) -> bool:
    return row.calls * LOOP.value >= steps_of(measures, row.ranks)


def _looped(measures: Measures, small: Collection[OperatorCost]) -> float:
    """The share of small calls that an operator makes again and again on the same shapes."""
    calls = sum(row.calls for row in small)
    again = sum(row.calls for row in small if _in_loop(measures, row))
    return again / calls if calls else 0.0


def _share(measures: Measures, rank: int) -> float:
    """Small calls, of all."""
    rows = _rows(measures, rank)
    calls = sum(row.calls for row in rows)
    return sum(row.calls for row in rows if _is_small(row)) / calls if calls else 0.0


RULE = Rule(
    code="CPU009",
    page=__doc__ or "",
    find=find,
    cases=(
        "CPU-29", "CPU-12", "CPU-14", "CPU-15", "CPU-16", "CPU-23", "CPU-26", "CMP-13", "CMP-33", "CMP-40",
        "CMP-41", "MEM-14",
    ),
)  # fmt: skip
