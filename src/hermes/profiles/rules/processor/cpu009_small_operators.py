"""A job without an accelerator spends its steps in calls of small operators.

## What it detects

The rule is for jobs that compute on a processor and whose operator calls mostly take less than 10 us. The rule counts
the time in operators and Python, without operators of 10 us and more. Each call of a short operator counts at most 30
us. The time is that of the typical step, as a share of the step.

If Python frames show a loop in your program, the finding names the loop; otherwise the finding is a preview. A loop is
a function that calls a module, an operator or another function again and again, with nothing else between. A function
must be called 16 times for one call of its caller, a module or an operator 32 times: fewer calls may be the layers of a
model.

Calls of an operator on the same shapes, 16 times a step or more, also count as a loop. If less than half of the calls
come from a loop, the finding has little confidence: a small model has many different operators that cannot be combined.

## Why it costs you

Each call of an operator costs a few microseconds of Python, dispatch and autograd, whatever it computes. If the
computation is shorter than the call, the step mostly pays for calls. A loop over rows, heads or parameters makes
hundreds of calls.

## When it is not a problem

If the model is small and the batch must be small too, nothing is left to combine. The profiler lengthens each call,
most of all with stacks. Without the profiler the share of small calls is smaller.

## What to do

Combine calls: replace a loop with one operator over a further axis or with a batched product. Use a fused optimizer and
a larger batch.

## How to check

Profile again: fewer calls of operators a step, and a shorter step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from hermes.base.message import Message, Name, Share, message, sentence
from hermes.knowledge.actions import OTHER_SUMS
from hermes.knowledge.advice_conditions import OF_TORCH
from hermes.knowledge.confidence import confidence
from hermes.knowledge.host_work import OPERATOR, PYTHON
from hermes.model.advice_fit import Fit, Phase
from hermes.model.code_measures import CalledAgain
from hermes.model.compute_measures import OperatorCost
from hermes.model.fault import Fault
from hermes.model.finding import Action, Gain, Loss
from hermes.model.host_measures import Before, StepHost
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._compute import named, new_parts
from hermes.profiles.rules._cost_by_rank import percents, steps_of
from hermes.profiles.rules._host import before_of, blamed, fact, has_device, host_loss
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import by_share, rule
from hermes.profiles.rules.title_messages import some_of

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
    """At most one finding, of operator calls that take longer than their work."""
    found = host_loss(job, CALLS, LIMIT, lambda split: _cost(job, host_steps, ops, split.rank))
    if found is None:
        return
    rank = found.worst.rank
    small = [row for row in _rows(ops, rank) if _is_small(row)]
    looped = _looped(job, small)
    most = sorted(small, key=lambda row: (-row.calls, row.operator, row.shapes))
    loop = max(again.of(rank), key=lambda row: (row.ns, row.line), default=None)
    # Calls with growing inputs depend on each other: rule CMP033 reports these.
    one_by_one = not loop or bool(new_parts(ops)) or not by_share(NOTABLE, loop.ns / found.worst.window_ns)
    loop = None if one_by_one else loop
    in_loop = in_a_row(line=loop.line, what=loop.what, times=f"{loop.times:.0f}") if loop else None
    yield Loss(
        message=small_calls(share=percents(found.share), on=some_of(job, found.ranks), loop=in_loop),
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
            fact(job, rank, UNDER, _share(ops, rank), "of calls", MOST.value),
            fact(job, rank, IN_LOOPS, looped, LOOPS.unit, LOOPS.value),
            *(fact(job, rank, median_call(name=row.operator), row.median_ns, "ns") for row in most[:3]),
        ),
        actions=(
            *((_batched(loop),) if loop else ()),
            *_TOGETHER,
        ),
    )


def _gain(unprofiled: Rows[Before], rank: int, cost_ns: int, share: float, loop: CalledAgain | None) -> Gain:
    """The gain: at most all calls of a loop but one; of the step without profiler if known, as it lengthens calls."""
    method = at_most(when=PUT_TOGETHER)
    row = before_of(unprofiled, rank)
    left = 1 - 1 / loop.times if loop else 1.0
    if row is None:
        return Gain(low_ns=0, high_ns=round(cost_ns * left), method=method)
    return Gain(low_ns=0, high_ns=min(round(row.step_ns * share * left), cost_ns), method=method, before=True)


def _batched(loop: CalledAgain) -> Action:
    return Action(
        title=one_call(calls=f"{loop.times:.0f}", line=loop.line),
        do=one_call_do(what=loop.what),
        verify=FEWER,
        risk=OTHER_SUMS,
        source="PyTorch performance tuning guide; documentation of torch.func.vmap",
        fit=OF_TORCH,
        whole=True,
    )


def _cost(job: Job, host_steps: Rows[StepHost], ops: Rows[OperatorCost], rank: int) -> int | None:
    """Nanoseconds of a step in calls, without operators that are worth their call; None if none is recorded."""
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
    """The share of small calls that one operator makes repeatedly on the same shapes."""
    calls = sum(row.calls for row in small)
    again = sum(row.calls for row in small if row.calls * LOOP.value >= steps_of(job, row.ranks))
    return again / calls if calls else 0.0


def _share(ops: Rows[OperatorCost], rank: int) -> float:
    """The share of small calls in all calls."""
    rows = _rows(ops, rank)
    calls = sum(row.calls for row in rows)
    return sum(row.calls for row in rows if _is_small(row)) / calls if calls else 0.0


CALLS = sentence("cpu009.calls")
UNDER = sentence("cpu009.under")
IN_LOOPS = sentence("cpu009.in_loops")
PUT_TOGETHER = sentence("cpu009.put_together")
FEWER = sentence("cpu009.fewer")


@message("cpu009.small_calls")
def small_calls(*, share: Share, on: Message | None = None, loop: Message | None = None) -> None:
    """Calls of operators take more than their work; the loop that makes the calls may be known."""


@message("cpu009.in_a_row")
def in_a_row(*, line: Name, what: Name, times: Name) -> None:
    """The loop that makes the small calls."""


@message("cpu009.median_call")
def median_call(*, name: Name) -> None:
    """How long a call of an operator lasts."""


@message("cpu009.one_call")
def one_call(*, calls: Name, line: Name) -> None:
    """What to do about a loop of small calls."""


@message("cpu009.one_call_do")
def one_call_do(*, what: Name) -> None:
    """How to make one call of many calls."""


def _together(do: Message, phase: Phase, *cases: str) -> Action:
    return Action(
        title=TOGETHER,
        do=do,
        verify=FEWER,
        risk=OTHER_SUMS,
        source="PyTorch performance tuning guide; documentation of torch.optim: fused, foreach",
        fit=Fit(frameworks=("pytorch",), phase=phase),
        cases=cases,
    )


TOGETHER = sentence("cpu009.together")
_TOGETHER = (
    _together(sentence("cpu009.together_training"), "training", "CPU-15", "CPU-16", "CPU-23", "CPU-26"),
    _together(sentence("cpu009.together_inference"), "inference", "CPU-26"),
)
