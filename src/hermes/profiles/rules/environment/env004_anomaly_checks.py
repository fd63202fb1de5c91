"""The step checks its own numbers.

## What it detects

Time a step in calls that look for values that are not finite (`isfinite`, `isnan`, `isinf`), and in the tracebacks that
autograd's anomaly detection keeps of every operator: free time of the device meanwhile, or the host's own time where
there is no device. A function that spends two fifths of its time in such calls counts as a whole.

## Why it costs you

A check reads a whole tensor, makes one of truth values, reduces it, and brings the answer to the host, which waits for
it. Anomaly detection formats a Python stack for each forward operator and checks each gradient.

## When it is not a problem

While you look for the first NaN. The check of a gradient scaler is one fused pass over all gradients: it does not
count.

## What to do

Switch anomaly detection off; check the loss only, and every hundred steps; leave checks to a run that looks for a
fault.

## How to check

Run 50 steps without the checks: the step must shorten by the cost.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.knowledge.host_work import CHECKS
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Loss
from hermes.model.host_measures import HostEvents
from hermes.model.job import Job, Rows
from hermes.profiles.rules._host import blamed, bound, event_cost, events_of, host_loss, of_events, on
from hermes.profiles.rules._input import where_verb
from hermes.profiles.rules._limits import DOUBT
from hermes.profiles.rules.rule import rule

LIMIT = DOUBT


@rule("ENV004", state="stable", fault=Fault.CHECKS_OF_NUMBERS, cases=("CPU-22", "ENV-05"))
def anomaly_checks(job: Job, events: Rows[HostEvents]) -> Iterator[Loss]:
    """At most one finding."""
    found = host_loss(job, "checking numbers", LIMIT, lambda split: event_cost(job, events, split.rank, CHECKS))
    row = events_of(events, found.worst.rank, CHECKS) if found else None
    if found is None or row is None:
        return
    traced = any("format_stack" in name or "extract_stack" in name or "anomaly" in name for name, _, _ in row.names)
    yield Loss(
        message=f"{'Anomaly detection' if traced else 'Checking numbers'} {where_verb(job, found)}{on(job, found)}",
        ranks=found.ranks,
        blames=blamed(job, found, *(Blame(name) for name, _, _ in row.names[:2])),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, "nothing is checked in most steps"),
        confidence=confidence("ENV004"),
        evidence=(*found.evidence, *of_events(job, row)),
        actions=(_ANOMALY, _CHECKS) if traced else (_CHECKS,),
    )


_ANOMALY = Action(
    title="Switch anomaly detection off",
    do="torch.autograd.set_detect_anomaly(False), and no detect_anomaly() around the step.",
    verify="No format_stack stands under a forward operator in the next profile.",
    risk="The next NaN is no longer traced to its forward operator.",
    source="PyTorch documentation of autograd: anomaly detection is for debugging only, it slows the program",
)
_CHECKS = Action(
    title="Check numbers rarely",
    do="Take the check out of the hook or the loop; look at loss.isfinite() every hundred steps, and at all tensors "
    "only in a run that looks for the first one that is not finite.",
    verify="isfinite, isnan and isinf are gone from most steps.",
    risk="A NaN is seen some steps later.",
    source="PyTorch performance tuning guide: disable debugging APIs",
)
