"""Finds other threads of the process that run while the step needs the interpreter or a core."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Message, Name, Share, message, sentence
from hermes.knowledge.advice_conditions import OF_MINDSPORE, OF_TORCH
from hermes.knowledge.confidence import confidence
from hermes.model.advice_fit import Fit
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Evidence, Gain, Loss
from hermes.model.host_measures import Before
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.measure.host.other_threads import ThreadRuns
from hermes.profiles.rules._code import idle_of
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._host import BEFORE_IT, before_of, fact, has_device, mean_steps
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import by_share, rule
from hermes.profiles.rules.title_messages import some_of

LIMIT = Limit(value=0.15, unit="of step", source="docs/evidence/host-limits.md")


@rule("CPU012", state="stable", fault=Fault.THREAD_BESIDE, cases=("CPU-39",))
def thread_beside(job: Job, threads: Rows[ThreadRuns], unprofiled: Rows[Before]) -> Iterator[Loss]:
    """At most one finding, of the thread that costs most."""
    steps = mean_steps(job)
    costs: dict[int, tuple[int, int, ThreadRuns, Before]] = {}
    for row in threads:
        captured, before = steps.get(row.rank), before_of(unprofiled, row.rank)
        if not captured or before is None or before.cpu_ns is None or not before.step_ns:
            continue
        # No profiler makes a step shorter: the counted time is part of a step without the profiler.
        step_ns = min(captured, before.step_ns)
        still = max(0.0, 1 - before.cpu_ns / before.step_ns - row.waits)
        ns = round(min(row.on_core, still) * step_ns)
        ns = min(ns, idle_of(job, row.rank)) if has_device(job, row.rank) else ns
        if by_share(LIMIT, ns / step_ns) and ns > costs.get(row.rank, (0,))[0]:
            costs[row.rank] = (ns, step_ns, row, before)
    if not costs:
        return
    cost, step_ns, row, before = max(costs.values(), key=lambda one: (one[0], -one[2].rank))
    ranks, share = tuple(sorted(costs)), cost / step_ns
    yield Loss(
        message=beside(thread=row.name or None, line=row.line or None, share=percents(share), on=some_of(job, ranks)),
        ranks=ranks,
        blames=(Blame(row.line, "line"),) if row.line else (),
        cost_ns=cost,
        share=share,
        gain=Gain(low_ns=0, high_ns=cost, method=at_most(when=GOES_ON), before=True),
        confidence=confidence("CPU012.beside_the_loop"),
        evidence=(
            fact(job, row.rank, ON_A_CORE, row.on_core, "of the time", LIMIT.value),
            fact(job, row.rank, FOR_OTHERS, row.waits, "of the looks"),
            *_counted(job, row.rank, before),
        ),
        lines=(row.line,) if row.line else (),
        actions=_WAIT,
    )


def _counted(job: Job, rank: int, before: Before) -> Iterator[Evidence]:
    still = max(0, before.step_ns - (before.cpu_ns or 0))
    yield fact(job, rank, ON_NO_CORE, still, "ns a step", source=BEFORE_IT)
    if before.delay_ns is not None:
        yield fact(job, rank, READY, before.delay_ns, "ns a step", source=BEFORE_IT)


GOES_ON = sentence("cpu012.goes_on")
ON_A_CORE = sentence("cpu012.on_a_core")
FOR_OTHERS = sentence("cpu012.for_others")
ON_NO_CORE = sentence("cpu012.on_no_core")
READY = sentence("cpu012.ready")


@message("cpu012.beside")
def beside(*, thread: Name | None = None, line: Name | None = None, share: Share, on: Message | None = None) -> None:
    """A thread computes or polls beside the step; its name and its line may be known."""


def _wait(do: Message, fit: Fit) -> Action:
    return Action(
        title=WAIT,
        do=do,
        verify=WAIT_VERIFY,
        risk=WAIT_RISK,
        source="case CPU-39; Python documentation: thread state and the global interpreter lock",
        fit=fit,
        whole=True,
        cases=("CPU-39",),
    )


WAIT = sentence("cpu012.wait")
WAIT_VERIFY = sentence("cpu012.wait_verify")
WAIT_RISK = sentence("cpu012.wait_risk")
_WAIT = (
    _wait(sentence("cpu012.wait_torch"), OF_TORCH),
    _wait(sentence("cpu012.wait_mindspore"), OF_MINDSPORE),
)
