"""Each step runs forward or backward passes that train no weight.

## What it detects

- **Forward.** A module runs forward without a backward pass, in each of two steps or more, although other passes in the
  capture train the same module. The rule distinguishes two such cases. In an evaluation, the function around the pass
  reads batches of its own; the whole function counts. In the other case, inputs of the same shapes are also trained, at
  most as often; the time of the function in which nothing is trained counts. The case without own batches needs a
  single optimizer. Recomputation in the backward pass belongs to MEM005.
- **Gradients that nobody uses.** Gradients are accumulated for tensors that no optimizer updates. Either no operator in
  any optimizer's step has the shape of such a tensor, or the gradients are set to zero before the next step. The cost
  is the part of the backward passes after the last useful gradient. The rule needs the shapes of all operators of the
  optimizers, and two of their steps.
- **Backward again.** Nodes of autograd's graph run backward more than once; the number of a node (`sequence`) tells.
  The cost is the time of all runs but one. Such a finding is a preview, for jobs that compute on a processor.

The case *Forward* needs Python frames. All costs are per step.

## Why it costs you

The training waits for work that changes no weight. A second pass over the same batch gives the results of the first.
The backward pass of a part of the model takes twice its forward pass. The gradient of a sum is the sum of the
gradients: one backward pass over the sum gives the same gradients.

## When it is not a problem

Passes that make training data, such as targets or rollouts, are no problem. If the capture holds a rare evaluation, the
rule is silent. Gradients may be for another optimizer that steps so rarely that the capture holds none of its steps.
Several backward passes are needed if you use the gradient of each loss by itself, for example to weight the losses or
to train two adversarial networks.

## What to do

Evaluate every few hundred steps, or on a part of the data. For statistics, use the outputs from which you compute the
loss, with detach. Freeze parameters that you do not train, and detach the outputs of other networks. Add the losses,
and run backward once.

## How to check

Profile again: the function is gone from most steps, AccumulateGrad runs for as many tensors as the optimizer updates,
and no node runs backward twice. The step is shorter by the cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hermes.base.message import Message, Name, Share, message, sentence
from hermes.knowledge.actions import OTHER_SUMS
from hermes.knowledge.confidence import confidence
from hermes.knowledge.host_work import OPTIMIZER
from hermes.model.advice_fit import Fit
from hermes.model.code_measures import BackwardAgain, CodeLine, Unlearned, UnusedGradients
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Loss
from hermes.model.host_measures import HostEvents
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._host import events_of, fact, has_device, mean_steps, won
from hermes.profiles.rules.rule import by_share, rule

LIMIT = Limit(value=0.05, unit="of step", source="docs/evidence/host-limits.md")
_STEPS = 2


@rule("HOT003", state="stable", fault=Fault.FORWARD_UNLEARNED, cases=("CPU-48", "CPU-28"))
def trains_nothing(
    job: Job,
    passes: Rows[Unlearned],
    events: Rows[HostEvents],
    gradients: Rows[UnusedGradients],
    lines: Rows[CodeLine],
    again: Rows[BackwardAgain],
) -> Iterator[Loss]:
    """At most one finding of each kind, of the rank or the function that takes most."""
    yield from _forward(job, passes, events)
    yield from _gradients(job, gradients, lines)
    yield from _backward(job, again)


def _beyond(job: Job, rank: int, ns: int) -> bool:
    """Whether the time is more than the limit's share of the rank's step."""
    step_ns = mean_steps(job).get(rank)
    return by_share(LIMIT, ns / step_ns) if step_ns else False


def _loss(
    job: Job,
    rank: int,
    ns: int,
    said: Message,
    method: Message,
    what: Message,
    *facts: tuple[Message, float, str],
    **more: Any,
) -> Loss:
    """A finding about a part of a rank's step: its message, its gain, and the numbers behind it."""
    step_ns = mean_steps(job)[rank]
    cost = min(ns, step_ns)
    share = cost / step_ns
    return Loss(
        message=of_step(what=said, share=percents(share)),
        cost_ns=cost,
        share=share,
        gain=won(job, rank, cost, method),
        evidence=(
            fact(job, rank, what, share, "of step", LIMIT.value),
            *(fact(job, rank, name, value, unit) for name, value, unit in facts),
        ),
        **more,
    )


def _forward(job: Job, passes: Rows[Unlearned], events: Rows[HostEvents]) -> Iterator[Loss]:
    found = [
        row
        for row in passes
        if _beyond(job, row.rank, row.ns)
        and row.steps_hit == row.steps >= _STEPS
        and (row.loads or _is_second(events, row))
    ]
    row = max(found, key=lambda one: (one.ns, -one.rank, one.line), default=None)
    if row is None:
        return
    said = evaluates(line=row.line) if row.loads else once_more(line=row.line, module=row.module)
    yield _loss(
        job, row.rank, row.ns, said, RARE, time_of(line=row.line),
        (PASSES, row.calls, "calls a step"),
        (TRAINED, row.trained, "calls a step"),
        ranks=tuple(sorted({one.rank for one in found if one.line == row.line})),
        blames=(Blame(row.line, "line"),),
        confidence=confidence("HOT003.loads" if row.loads else "HOT003"),
        lines=(row.line,),
        actions=(_RARELY if row.loads else _FROM_THE_FIRST,),
    )  # fmt: skip


def _is_second(events: Rows[HostEvents], row: Unlearned) -> bool:
    """Whether the passes may be a second pass over trained modules; of several networks one may compute for another."""
    updates = events_of(events, row.rank, OPTIMIZER)
    alone = updates is None or (updates.calls or 0) <= max(updates.steps, 1)
    return alone and row.again and row.trained <= row.calls <= _TWICE * row.trained


def _gradients(job: Job, gradients: Rows[UnusedGradients], lines: Rows[CodeLine]) -> Iterator[Loss]:
    found = [one for one in gradients if _beyond(job, one.rank, one.tail_ns)]
    row = max(found, key=lambda one: (one.tail_ns, -one.rank), default=None)
    if row is None:
        return
    most = max(
        (one for one in lines.of(row.rank) if one.backward_ns and one.place),
        key=lambda one: (one.backward_ns, one.place),
        default=None,
    )
    how = zeroed if row.dropped else unused
    told = row.line or (most.said if most else "")
    yield _loss(
        job, row.rank, row.tail_ns, how(tensors=f"{row.unused:.0f}"), LAST_USED, BEHIND,
        (UNUSED, row.unused, "a step"),
        (UPDATED, row.kept, "a step"),
        fault=Fault.UNUSED_GRADIENTS,
        ranks=tuple(sorted(one.rank for one in found)),
        blames=(Blame(told, "line"),) if told else (),
        confidence=confidence("HOT003.gradients"),
        lines=tuple(dict.fromkeys(one for one in (told, most.said if most else "") if one)),
        actions=(_DETACH if row.dropped else _FREEZE,),
    )  # fmt: skip


def _backward(job: Job, again: Rows[BackwardAgain]) -> Iterator[Loss]:
    found = [row for row in again if not has_device(job, row.rank) and _beyond(job, row.rank, row.ns)]
    row = max(found, key=lambda one: (one.ns, -one.rank), default=None)
    if row is None:
        return
    yield _loss(
        job, row.rank, row.ns, over_again(times=f"{row.times:.0f}"), ONE_PASS, BEYOND_FIRST,
        (RUNS, row.times, "runs"),
        fault=Fault.BACKWARD_AGAIN,
        state="preview",
        ranks=tuple(sorted(one.rank for one in found)),
        blames=(Blame(row.line, "line"),) if row.line else (),
        confidence=confidence("HOT003.backward"),
        lines=(row.line,) if row.line else (),
        actions=(_SUM,),
    )  # fmt: skip


_TWICE = 2
RARE = sentence("hot003.rare")
PASSES = sentence("hot003.passes")
TRAINED = sentence("hot003.trained")
LAST_USED = sentence("hot003.last_used")
BEHIND = sentence("hot003.behind")
UNUSED = sentence("hot003.unused_tensors")
UPDATED = sentence("hot003.updated")
ONE_PASS = sentence("hot003.one_pass")
BEYOND_FIRST = sentence("hot003.beyond_first")
RUNS = sentence("hot003.runs")


@message("hot003.title")
def of_step(*, what: Message, share: Share) -> None:
    """Work that trains nothing takes a share of the step."""


@message("hot003.evaluates")
def evaluates(*, line: Name) -> None:
    """A function evaluates on batches of its own."""


@message("hot003.once_more")
def once_more(*, line: Name, module: Name) -> None:
    """A function runs a trained module once more."""


@message("hot003.time_of")
def time_of(*, line: Name) -> None:
    """The time of the function."""


@message("hot003.zeroed")
def zeroed(*, tensors: Name) -> None:
    """Gradients are set to zero before an optimizer uses them."""


@message("hot003.unused")
def unused(*, tensors: Name) -> None:
    """Gradients of tensors that no optimizer has."""


@message("hot003.again")
def over_again(*, times: Name) -> None:
    """A backward pass runs more than once over the same graph."""


_TRAINING, _OF_TORCH = Fit(phase="training"), Fit(frameworks=("pytorch",), phase="training")
_RARELY = Action(
    title=sentence("hot003.rarely"),
    do=sentence("hot003.rarely_do"),
    verify=sentence("hot003.rarely_verify"),
    risk=sentence("hot003.rarely_risk"),
    source="the capture itself",
    fit=_TRAINING,
    whole=True,
)
_FROM_THE_FIRST = Action(
    title=sentence("hot003.from_the_first"),
    do=sentence("hot003.from_the_first_do"),
    verify=sentence("hot003.from_the_first_verify"),
    risk=sentence("hot003.from_the_first_risk"),
    source="the capture itself",
    fit=_TRAINING,
    whole=True,
)
_FREEZE = Action(
    title=sentence("hot003.freeze"),
    do=sentence("hot003.freeze_do"),
    verify=sentence("hot003.freeze_verify"),
    risk=sentence("hot003.freeze_risk"),
    source="PyTorch documentation: autograd mechanics, setting requires_grad",
    fit=_OF_TORCH,
    whole=True,
)
_DETACH = Action(
    title=sentence("hot003.detach"),
    do=sentence("hot003.detach_do"),
    verify=sentence("hot003.detach_verify"),
    risk=sentence("hot003.detach_risk"),
    source="PyTorch tutorial on DCGAN: the discriminator is trained on fake.detach()",
    fit=_OF_TORCH,
    whole=True,
)
_SUM = Action(
    title=sentence("hot003.sum"),
    do=sentence("hot003.sum_do"),
    verify=sentence("hot003.sum_verify"),
    risk=OTHER_SUMS,
    source="PyTorch documentation: autograd mechanics",
    fit=_TRAINING,
    whole=True,
)
