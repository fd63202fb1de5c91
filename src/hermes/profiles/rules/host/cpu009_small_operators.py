"""A job without an accelerator spends its steps in calls of small operators.

## What it detects

Time of the typical step in which the host is in operators or Python, less the operators that last at least 10 us, and
at most 30 us for each call of a shorter one, as a share of the step; of jobs that compute on the processor itself,
where most calls of operators are shorter than that.

Where Python frames tell that a function of the program calls a module, an operator or a function of its own again and
again with nothing else between, the finding names that loop; where none is told it is a preview. A function that is
called 16 times for one of its caller counts, and a module or an operator 32 times: fewer may be the layers of a model.

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

from hermes.knowledge.confidence import confidence
from hermes.knowledge.host_work import OPERATOR, PYTHON
from hermes.model.code_measures import CalledAgain
from hermes.model.compute_measures import OperatorCost
from hermes.model.fault import Fault
from hermes.model.finding import Action, Gain, Loss
from hermes.model.host_measures import Before, StepHost
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._component import steps_of
from hermes.profiles.rules._compute import named, new_parts
from hermes.profiles.rules._host import before_of, blamed, fact, has_device, host_loss, on
from hermes.profiles.rules.rule import by_share, rule

LIMIT = Limit(value=0.3, unit="of step", source="docs/evidence/cpu009.md")
SMALL_NS = Limit(value=10_000, unit="ns", source="docs/evidence/cpu009.md")
MOST = Limit(value=0.5, unit="of calls", source="docs/evidence/cpu009.md")
LOOP = Limit(
    value=0.0625,
    unit="of the calls of an operator on the same shapes in a step is one of them: then they are a loop",
    source="docs/evidence/cpu009.md",
)
NOTABLE = Limit(
    value=0.05, unit="of step are the calls of the loop, without backward", source="docs/evidence/cpu009.md"
)
LOOPS = Limit(value=0.5, unit="of calls under 10 us are in loops", source="docs/evidence/cpu009.md")
CALL_NS = Limit(value=30_000, unit="ns a call", source="docs/evidence/cpu009.md")


@rule(
    "CPU009",
    state="stable",
    fault=Fault.SMALL_OPERATORS,
    cases=(
        "CPU-29",
        "CPU-12",
        "CPU-14",
        "CPU-15",
        "CPU-16",
        "CPU-23",
        "CPU-26",
        "CMP-13",
        "CMP-33",
        "CMP-40",
        "CMP-41",
        "MEM-14",
    ),
)
def small_operators(
    job: Job,
    host_steps: Rows[StepHost],
    ops: Rows[OperatorCost],
    again: Rows[CalledAgain],
    unprofiled: Rows[Before],
) -> Iterator[Loss]:
    """At most one finding."""
    found = host_loss(job, "calls of small operators", LIMIT, lambda split: _cost(job, host_steps, ops, split.rank))
    if found is None:
        return
    rank = found.worst.rank
    small = [row for row in _rows(ops, rank) if _is_small(row)]
    looped = _looped(job, small)
    most = sorted(small, key=lambda row: (-row.calls, row.operator, row.shapes))
    loop = max(again.of(rank), key=lambda row: (row.ns, row.line), default=None)
    # Calls whose inputs grow from one to the next depend on each other: CMP033 says what to do about them.
    one_by_one = not loop or bool(new_parts(ops)) or not by_share(NOTABLE, loop.ns / found.worst.window_ns)
    loop = None if one_by_one else loop
    named_loop = f": {loop.line} calls {loop.what} {loop.times:.0f} times in a row" if loop else ""
    yield Loss(
        message=f"Calls of small operators take {found.share:.0%} of the step{on(job, found)}{named_loop}",
        state="stable" if loop else "preview",
        lines=(loop.line,) if loop else (),
        ranks=found.ranks,
        blames=blamed(job, found, *named(most)),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=_gain(unprofiled, rank, found.cost_ns, found.share, loop),
        confidence=confidence("CPU009" if by_share(LOOPS, looped) else "CPU009.no_loop"),
        assumed=not by_share(LOOPS, looped),
        evidence=(
            *found.evidence,
            fact(job, rank, "calls under 10 us", _share(ops, rank), "of calls", MOST.value),
            fact(job, rank, "of these in loops", looped, LOOPS.unit, LOOPS.value),
            *(fact(job, rank, f"median call of {row.operator}", row.median_ns, "ns") for row in most[:3]),
        ),
        actions=(
            *((_batched(loop),) if loop else ()),
            Action(
                title="Put small operators together",
                do="Replace loops over samples, heads or parameters by one operator with one axis more (torch.bmm, "
                "torch.stack before, broadcasting); enlarge the batch; give the optimizer fused=True or "
                "foreach=True.",
                verify="Fewer calls of operators a step, and a shorter step.",
                risk="Sums in another order: last digits differ.",
                source="PyTorch performance tuning guide; documentation of torch.optim: fused, foreach",
            ),
        ),
    )


def _gain(unprofiled: Rows[Before], rank: int, cost_ns: int, share: float, loop: CalledAgain | None) -> Gain:
    """At most the calls but one of a loop; of the step without a profiler where it is known: that lengthens calls."""
    method = "bound: what small operators do is put together"
    row = before_of(unprofiled, rank)
    left = 1 - 1 / loop.times if loop else 1.0
    if row is None:
        return Gain(low_ns=0, high_ns=round(cost_ns * left), method=method)
    return Gain(low_ns=0, high_ns=min(round(row.step_ns * share * left), cost_ns), method=method, before=True)


def _batched(loop: CalledAgain) -> Action:
    return Action(
        title=f"Make one call of the {loop.times:.0f} at {loop.line}",
        do=f"{loop.what} is called once for each item. Put the items along one axis and call it once for all: "
        "torch.stack of inputs before it, torch.bmm or torch.einsum with stacked weights for many layers of one shape, "
        "torch.func.vmap for a function, nn.LSTM or nn.GRU in place of cells.",
        verify="Fewer calls of operators a step, and a shorter step.",
        risk="Sums in another order: last digits differ.",
        source="PyTorch performance tuning guide; documentation of torch.func.vmap",
        whole=True,
    )


def _cost(job: Job, host_steps: Rows[StepHost], ops: Rows[OperatorCost], rank: int) -> int | None:
    """Nanoseconds of a step in calls beside operators that are worth theirs; None where none is recorded."""
    host = next(iter(host_steps.of(rank)), None)
    rows = _rows(ops, rank)
    if has_device(job, rank) or host is None or not rows or _share(ops, rank) <= MOST.value:
        return None
    large = sum(row.ns / steps_of(job, row.ranks) for row in rows if not _is_small(row))
    calls = sum(row.calls / steps_of(job, row.ranks) for row in rows if _is_small(row))
    return min(max(host.of(OPERATOR, PYTHON) - round(large), 0), round(calls * CALL_NS.value))


def _rows(ops: Rows[OperatorCost], rank: int) -> list[OperatorCost]:
    return [row for row in ops if rank in row.ranks]


def _is_small(row: OperatorCost) -> bool:
    return row.median_ns < SMALL_NS.value


def _looped(job: Job, small: Collection[OperatorCost]) -> float:
    """The share of small calls that an operator makes again and again on the same shapes."""
    calls = sum(row.calls for row in small)
    again = sum(row.calls for row in small if row.calls * LOOP.value >= steps_of(job, row.ranks))
    return again / calls if calls else 0.0


def _share(ops: Rows[OperatorCost], rank: int) -> float:
    """Small calls, of all."""
    rows = _rows(ops, rank)
    calls = sum(row.calls for row in rows)
    return sum(row.calls for row in rows if _is_small(row)) / calls if calls else 0.0
