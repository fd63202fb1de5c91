"""Gradients are reduced after each micro-batch.

## What it detects

DistributedDataParallel runs forward several times for each step of the optimizer, and all-reduces of the same sizes
come as often: each micro-batch reduces the sum of gradients anew. The cost is the part of the communication that all
but the last take, as far as nothing hides it; without a device also that of their copies between gradients and buckets,
which are the host's work. It needs the ranges that PyTorch records for these, and the shapes of collectives.

## Why it costs you

Only the sum over all micro-batches is used: with k of them, k - 1 of k bytes are sent for nothing.

## When it is not a problem

When memory does not suffice for gradients that are kept unsharded between micro-batches (FSDP).

## What to do

Put all but the last micro-batch under `model.no_sync()`.

## How to check

Profile again: collectives of a step are as many as buckets, and exposed communication is shorter.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.knowledge.host_work import BUCKETS, OPTIMIZER, REDUCING
from hermes.model.compute_measures import OperatorCost
from hermes.model.fault import Fault
from hermes.model.finding import Action, Evidence, Gain, Loss
from hermes.model.host_measures import HostEvents
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.overlap_measures import StepOverlap
from hermes.profiles.rules._comm import exposed_comm
from hermes.profiles.rules._component import Spent, loss
from hermes.profiles.rules._host import bound, event_cost, events_of, has_device
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules.gain_messages import on_shared_cores
from hermes.profiles.rules.rule import rule

LIMIT = NOISE
ALIKE = Limit(
    value=0.1,
    unit="that counts may differ from whole multiples, for steps that the capture cuts",
    source="counts of a capture whose first and last steps are cut",
)


@rule("COM010", state="stable", fault=Fault.REDUCTION_PER_MICRO_BATCH, cases=("COM-08",))
def reduction_per_micro_batch(
    job: Job, overlaps: Rows[StepOverlap], events: Rows[HostEvents], ops: Rows[OperatorCost]
) -> Iterator[Loss]:
    """At most one finding."""
    passes = {rank: times for rank in job.steps.counts if (times := _repeated(events, ops, rank)) > 1}
    found = loss(
        job,
        "communication of all micro-batches but the last",
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
        message=f"Gradients are reduced {times} times for each step of the optimizer; all but one take "
        f"{found.share:.0%} of the step",
        ranks=found.ranks,
        blames=(),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=_gain(job, overlaps, events, found, times),
        confidence=confidence("COM010"),
        evidence=(
            *found.evidence,
            Evidence(
                what="forward passes of DistributedDataParallel for each step of the optimizer",
                value=float(times),
                unit="passes, each with its all-reduces",
                threshold=1.0,
                where=f"rank {found.worst.rank}",
            ),
        ),
        actions=(
            Action(
                title="Reduce at the last micro-batch only",
                do="with model.no_sync() if number < last else contextlib.nullcontext(): loss(model(x)).backward(); "
                "Lightning: accumulate_grad_batches; Accelerate: accumulate().",
                verify="Collectives of a step are as many as buckets.",
                risk="none: the sums are the same.",
                source="PyTorch documentation of DistributedDataParallel.no_sync",
            ),
        ),
    )


def _copies(job: Job, events: Rows[HostEvents], rank: int) -> int:
    """Nanoseconds a step of the host in copies between gradients and buckets, 0 with a device: there it runs ahead."""
    return 0 if has_device(job, rank) else event_cost(job, events, rank, BUCKETS) or 0


def _gain(job: Job, overlaps: Rows[StepOverlap], events: Rows[HostEvents], found: Spent, times: int) -> Gain:
    """What nothing hides; on a processor up to all of it, for there transfers take cores from what is beside them."""
    gain = bound(job, found, "one reduction for all micro-batches")
    rank = found.worst.rank
    rows = [row for row in overlaps if (row.rank, row.step) == (rank, found.worst.step)]
    busy = sum(part.busy_ns for row in rows for part in row.parts if part.component == "communication")
    high = min(round((busy + _copies(job, events, rank)) * (1 - 1 / times)), found.worst.window_ns)
    if has_device(job, rank) or high <= gain.high_ns:
        return gain
    return Gain(low_ns=gain.low_ns, high_ns=high, method=on_shared_cores(method=gain.method))


def _repeated(events: Rows[HostEvents], ops: Rows[OperatorCost], rank: int) -> int:
    """How often gradients are reduced for each step of the optimizer; 0 where it is not known, or only once."""
    forward, updates = events_of(events, rank, REDUCING), events_of(events, rank, OPTIMIZER)
    if forward is None or updates is None or not forward.calls or not updates.calls:
        return 0
    times = round(forward.calls / updates.calls)
    sent = [
        row.calls / len(row.ranks) / updates.calls
        for row in ops
        if rank in row.ranks and row.operator == "c10d::allreduce_"
    ]
    # A size that several buckets have comes a multiple of times.
    repeated = [count for count in sent if count >= times * (1 - ALIKE.value)]
    return times if times > 1 and repeated and len(repeated) == len(sent) else 0
