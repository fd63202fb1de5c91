"""Gradients are reduced after each micro-batch.

## What it detects

DistributedDataParallel runs forward several times for each step of the optimizer, and all-reduces of the same sizes
come as often. Each micro-batch thus reduces the gradients again. The cost is the exposed communication of all
micro-batches but the last. Without a device, the host's copies between gradients and buckets count too. The rule needs
PyTorch's ranges of DistributedDataParallel, and the shapes of collectives.

A rank that is late in each micro-batch is as late for the one reduction that remains. Waits for other ranks are thus no
sure gain. Without the waits of a capture, only the copies are sure.

## Why it costs you

Only the sum over all micro-batches is used. With k micro-batches, k - 1 of k bytes are sent for nothing.

## When it is not a problem

Reducing after each micro-batch is needed if memory is too small to keep unsharded gradients between micro-batches
(FSDP).

## What to do

Run all micro-batches but the last under `model.no_sync()`.

## How to check

Profile again: a step has as many collectives as buckets, and exposed communication is shorter.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Name, Share, message, sentence
from hermes.knowledge.actions import variants
from hermes.knowledge.confidence import confidence
from hermes.knowledge.host_work import BUCKETS, OPTIMIZER, REDUCING
from hermes.model.advice_fit import Fit
from hermes.model.comm_measures import GroupOp
from hermes.model.compute_measures import OperatorCost
from hermes.model.fault import Fault
from hermes.model.finding import Evidence, Gain, Loss
from hermes.model.host_measures import HostEvents
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.overlap_measures import StepOverlap
from hermes.profiles.rules._communication import exposed_comm, waited_by_rank
from hermes.profiles.rules._cost_by_rank import Spent, loss, percents
from hermes.profiles.rules._host import bound, event_cost, events_of, has_device
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules.gain_messages import on_shared_cores
from hermes.profiles.rules.rule import rule

LIMIT = NOISE
ALIKE = Limit(
    value=0.1,
    unit="difference of counts from whole multiples, because the capture cuts steps",
    source="counts of a capture whose first and last steps are cut",
)


@rule("COM010", state="stable", fault=Fault.REDUCTION_PER_MICRO_BATCH, cases=("COM-08",))
def reduction_per_micro_batch(
    job: Job, overlaps: Rows[StepOverlap], events: Rows[HostEvents], ops: Rows[OperatorCost], groups: Rows[GroupOp]
) -> Iterator[Loss]:
    """At most one finding, of gradients that are reduced once for each micro-batch."""
    passes = {rank: times for rank in job.steps.counts if (times := _repeated(events, ops, rank)) > 1}
    found = loss(
        job,
        COST,
        LIMIT,
        lambda split: (
            round((exposed + _copies(job, events, split.rank)) * (1 - 1 / passes[split.rank]))
            if split.rank in passes and (exposed := exposed_comm(overlaps, split)) is not None
            else None
        ),
    )
    if found is None:
        return
    times = passes[found.worst.rank]
    yield Loss(
        message=reduced(times=str(times), share=percents(found.share)),
        ranks=found.ranks,
        blames=(),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=_gain(job, overlaps, events, groups, found, times),
        confidence=confidence("COM010"),
        evidence=(
            *found.evidence,
            Evidence(
                what=PASSES,
                value=float(times),
                unit="passes, each with its all-reduces",
                threshold=1.0,
                where=f"rank {found.worst.rank}",
            ),
        ),
        actions=_REDUCE_LAST,
    )


def _copies(job: Job, events: Rows[HostEvents], rank: int) -> int:
    """Nanoseconds a step of the host in copies between gradients and buckets; 0 with a device, which hides them."""
    return 0 if has_device(job, rank) else event_cost(job, events, rank, BUCKETS) or 0


def _gain(
    job: Job,
    overlaps: Rows[StepOverlap],
    events: Rows[HostEvents],
    groups: Rows[GroupOp],
    found: Spent,
    times: int,
) -> Gain:
    """The gain: exposed transfers without waits; on a processor up to all, as transfers take cores from other work."""
    gain = bound(job, found, ONE_REDUCTION)
    rank = found.worst.rank
    if has_device(job, rank):
        return gain
    rows = [row for row in overlaps if (row.rank, row.step) == (rank, found.worst.step)]
    busy = sum(part.busy_ns for row in rows for part in row.parts if part.component == "communication")
    copies = _copies(job, events, rank)
    high = min(round((busy + copies) * (1 - 1 / times)), found.worst.window_ns)
    waited = waited_by_rank(job, groups).get(rank)
    exposed = exposed_comm(overlaps, found.worst) or 0
    sure = copies + (0 if waited is None else max(0, exposed - waited))
    return Gain(
        low_ns=min(found.cost_ns, round(sure * (1 - 1 / times))),
        high_ns=max(found.cost_ns, high),
        method=on_shared_cores(method=gain.method),
    )


def _repeated(events: Rows[HostEvents], ops: Rows[OperatorCost], rank: int) -> int:
    """How often gradients are reduced for each step of the optimizer; 0 if not known, or only once."""
    forward, updates = events_of(events, rank, REDUCING), events_of(events, rank, OPTIMIZER)
    if forward is None or updates is None or not forward.calls or not updates.calls:
        return 0
    times = round(forward.calls / updates.calls)
    sent = [
        row.calls / len(row.ranks) / updates.calls
        for row in ops
        if rank in row.ranks and row.operator == "c10d::allreduce_"
    ]
    # A size that several buckets share occurs a multiple of times.
    repeated = [count for count in sent if count >= times * (1 - ALIKE.value)]
    return times if times > 1 and repeated and len(repeated) == len(sent) else 0


COST = sentence("com010.cost")
PASSES = sentence("com010.passes")
_REDUCE_LAST = variants(
    "com010.reduce_last",
    {
        "_lightning": Fit(libraries=("lightning",), phase="training"),
        "_accelerate": Fit(libraries=("accelerate",), phase="training"),
        "": Fit(libraries=("ddp",), phase="training"),
    },
    source="PyTorch documentation of DistributedDataParallel.no_sync",
    cases=("COM-08",),
)
ONE_REDUCTION = sentence("com010.one_reduction")


@message("com010.reduced")
def reduced(*, times: Name, share: Share) -> None:
    """Gradients are reduced several times for each step."""
