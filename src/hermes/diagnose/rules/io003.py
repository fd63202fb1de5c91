"""Workers are started anew.

## What it detects

Time in which the loop makes an iterator of the loader and with it new worker processes (`DataLoader.__iter__`), and in
which it then waits for their first batch, per step, as a share of the step. Only Python frames tell it (`with_stack`),
so a capture without them says nothing.

## Why it costs you

Each new worker imports, opens the dataset and fills its queue before the first batch comes. Nothing else runs
meanwhile.

## When it is not a problem

When the capture holds the only start of a long epoch: the share of an epoch is what counts, and a short capture
overstates it.

## What to do

Keep the workers: `persistent_workers=True`, the loader made once outside of the loop over epochs. Do the same for the
loader of the evaluation.

## How to check

The process numbers of the workers stay the same over epochs, and the first step of an epoch is as fast as the others.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.analyze.measures import StepSplit
from hermes.diagnose.finding import Action, Finding
from hermes.diagnose.rule import Measures, Rule, Threshold
from hermes.diagnose.rules._component import Loss
from hermes.diagnose.rules._host import blamed, bound, counted, counted_step, fact, host_loss, on, seen_or_counted
from hermes.diagnose.rules._input import WAITED, fetches_of, first_waits_ns, starting

_WHAT = "starting iterators of the loader"
LIMIT = Threshold(value=0.05, unit="of step", source="docs/evidence/host-limits.md")


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""
    # What is left out of the steps before, as evaluations are, starts iterators of its own.
    found, earlier = seen_or_counted(_in_capture(measures), _before(measures))
    row = fetches_of(measures, found.worst.rank) if found else None
    if found is None or row is None:
        return
    yield Finding(
        code="IO003",
        layer="io",
        cause="workers started anew",
        title=f"Starting the loader anew takes {found.share:.0%} of the step{on(measures, found)}",
        ranks=found.ranks,
        blames=blamed(measures, found),
        cost_ns=found.cost_ns,
        calls=0.0 if earlier else None,
        share=found.share,
        gain=bound(measures, found, "workers stay over epochs"),
        confidence=round(0.6 * measures.certainty, 2),
        evidence=(
            *found.evidence,
            fact(measures, row.rank, "iterators made a step", (row.epochs or 0) / max(1, row.steps), "iterators"),
            fact(measures, row.rank, "making them", (row.epoch_ns or 0) / max(1, row.steps), "ns a step"),
            fact(measures, row.rank, "waits for first batches", first_waits_ns(row) / max(1, row.steps), "ns a step"),
        ),
        actions=(
            Action(
                title="Keep the workers over epochs",
                do="loader = DataLoader(…, num_workers=8, persistent_workers=True), made once, outside of the loop "
                "over epochs; the same for the loader of the evaluation.",
                verify="DataLoader.__iter__ takes a small part of the next capture around the start of an epoch.",
                risk="The memory of the workers stays taken, and changes of the dataset object do not reach them.",
                source="PyTorch documentation of torch.utils.data: persistent_workers",
            ),
        ),
    )


def _in_capture(measures: Measures) -> Loss | None:
    def cost(split: StepSplit) -> int | None:
        row = fetches_of(measures, split.rank)
        if row is None or row.epoch_ns is None:
            return None
        return (row.epoch_ns + first_waits_ns(row)) // max(1, row.steps)

    return host_loss(measures, _WHAT, LIMIT, cost)


def _before(measures: Measures) -> Loss | None:
    def cost(split: StepSplit) -> int | None:
        row, waited = fetches_of(measures, split.rank), counted(measures, split.rank, WAITED)
        return None if row is None or waited is None else round(waited * starting(row))

    return host_loss(measures, _WHAT, LIMIT, cost, counted_step(measures, WAITED))


RULE = Rule(code="IO003", page=__doc__ or "", find=find, cases=("IO-06", "IO-24"))
