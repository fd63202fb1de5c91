"""Deterministic mode fills each new tensor before an operator writes to the tensor.

## What it detects

Calls of `aten::fill_` directly inside an allocating operator, such as `aten::empty`, in the rank's typical step. The
rule counts the time of the kernels that these calls launch. Without a device the rule counts the time of the calls.

## Why it costs you

`torch.use_deterministic_algorithms(True)` also turns on `torch.utils.deterministic.fill_uninitialized_memory`. PyTorch
then writes every new tensor twice: once with NaN or the largest integer, and once with the result.

## When it is not a problem

While you look for an operator that reads memory which nothing has written.

## What to do

Set `torch.utils.deterministic.fill_uninitialized_memory = False`. The algorithms stay deterministic.

## How to check

The next capture has no `aten::fill_` inside `aten::empty`. Losses of the first steps are equal bit by bit.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Message, Share, message, sentence
from hermes.knowledge.advice_conditions import OF_TORCH
from hermes.knowledge.confidence import confidence
from hermes.model.fault import Fault
from hermes.model.finding import Action, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.profiles.measure.memory.new_memory_fills import NewMemoryFills
from hermes.profiles.rules._cost_by_rank import loss, percents
from hermes.profiles.rules._host import blamed, fact, has_device, window_ns
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import rule
from hermes.profiles.rules.title_messages import some_of

LIMIT = NOISE


@rule("ENV006", state="preview", fault=Fault.FILLED_MEMORY, cases=("CMP-27",))
def filled_memory(job: Job, fills: Rows[NewMemoryFills]) -> Iterator[Loss]:
    """At most one finding."""
    rows = {row.rank: row for row in fills}

    def cost(rank: int) -> int | None:
        row = rows.get(rank)
        return None if row is None else row.device_ns if has_device(job, rank) else row.host_ns

    found = loss(job, FILLING, LIMIT, lambda split: cost(split.rank), window_ns)
    if found is None:
        return
    row = rows[found.worst.rank]
    yield Loss(
        message=fills_take(share=percents(found.share), on=some_of(job, found.ranks)),
        ranks=found.ranks,
        blames=blamed(job, found),
        cost_ns=found.cost_ns,
        share=found.share,
        # On a host the first write of a page also pays for the page, whoever writes.
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method=at_most(when=NOT_FILLED)),
        confidence=confidence("ENV006"),
        evidence=(*found.evidence, fact(job, row.rank, FILLS, row.fills, "a step")),
        actions=(KEEP_UNFILLED,),
    )


FILLING = sentence("env006.filling")
FILLS = sentence("env006.fills")
NOT_FILLED = sentence("env006.not_filled")


@message("env006.fills_take")
def fills_take(*, share: Share, on: Message | None = None) -> None:
    """The finding."""


KEEP_UNFILLED = Action(
    title=sentence("env006.keep_unfilled"),
    do=sentence("env006.keep_unfilled_do"),
    verify=sentence("env006.keep_unfilled_verify"),
    risk=sentence("env006.keep_unfilled_risk"),
    source="PyTorch documentation of torch.utils.deterministic.fill_uninitialized_memory",
    fit=OF_TORCH,
    cases=("CMP-27",),
)
