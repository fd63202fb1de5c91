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

from hermes.diagnose.finding import Action, Evidence, Finding, Gain
from hermes.diagnose.rule import Measures, Rule, Threshold
from hermes.diagnose.rules._comm import exposed_comm
from hermes.diagnose.rules._component import Loss, loss
from hermes.diagnose.rules._host import bound, event_cost, events_of, has_device
from hermes.diagnose.rules._limits import NOISE
from hermes.knowledge.host_work import BUCKETS, OPTIMIZER, REDUCING

LIMIT = NOISE
ALIKE = Threshold(
    value=0.1,
    unit="that counts may differ from whole multiples, for steps that the capture cuts",
    source="counts of a capture whose first and last steps are cut",
)


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""
    passes = {rank: times for rank in measures.steps_of_rank if (times := _repeated(measures, rank)) > 1}
    found = loss(
        measures,
        "communication of all micro-batches but the last",
        LIMIT,
        lambda split: (
            round((exposed + _copies(measures, split.rank)) * (1 - 1 / passes[split.rank]))
            if split.rank in passes and (exposed := exposed_comm(measures, split)) is not None
            else None
        ),
    )
    if found is None:
        return
    times = passes[found.worst.rank]
    yield Finding(
        code="COM010",
        layer="communication",
        cause="reductions of micro-batches",
        title=f"Gradients are reduced {times} times for each step of the optimizer; all but one take {found.share:.0%} "
        "of the step",
        ranks=found.ranks,
        blames=(),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=_gain(measures, found, times),
        confidence=round(0.9 * measures.certainty, 2),
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
        within="COM001",
        actions=(
            Action(
                title="Reduce at the last micro-batch only",
                do="with model.no_sync() if number < last else contextlib.nullcontext(): loss(model(x)).backward(); "
                "Lightning and Accelerate do so with accumulate_grad_batches and accumulate().",
                verify="Collectives of a step are as many as buckets.",
                risk="none: the sums are the same.",
                source="PyTorch documentation of DistributedDataParallel.no_sync",
            ),
        ),
    )


def _copies(measures: Measures, rank: int) -> int:
    """Nanoseconds a step of the host in copies between gradients and buckets, 0 with a device: there it runs ahead."""
    return 0 if has_device(measures, rank) else event_cost(measures, rank, BUCKETS) or 0


def _gain(measures: Measures, found: Loss, times: int) -> Gain:
    """What nothing hides; on a processor up to all of it, for there transfers take cores from what is beside them."""
    gain = bound(measures, found, "one reduction for all micro-batches")
    rank = found.worst.rank
    rows = [row for row in measures.host.overlap if (row.rank, row.step) == (rank, found.worst.step)]
    busy = sum(part.busy_ns for row in rows for part in row.parts if part.component == "communication")
    high = min(round((busy + _copies(measures, rank)) * (1 - 1 / times)), found.worst.window_ns)
    if has_device(measures, rank) or high <= gain.high_ns:
        return gain
    method = f"{gain.method}, and what is hidden takes cores from the compute beside it"
    return Gain(low_ns=gain.low_ns, high_ns=high, method=method)


def _repeated(measures: Measures, rank: int) -> int:
    """How often gradients are reduced for each step of the optimizer; 0 where it is not known, or only once."""
    forward, updates = events_of(measures, rank, REDUCING), events_of(measures, rank, OPTIMIZER)
    if forward is None or updates is None or not forward.calls or not updates.calls:
        return 0
    times = round(forward.calls / updates.calls)
    sent = [
        row.calls / len(row.ranks) / updates.calls
        for row in measures.compute.operators
        if rank in row.ranks and row.operator == "c10d::allreduce_"
    ]
    # A size that several buckets have comes a multiple of times.
    repeated = [count for count in sent if count >= times * (1 - ALIKE.value)]
    return times if times > 1 and repeated and len(repeated) == len(sent) else 0


RULE = Rule(code="COM010", page=__doc__ or "", find=find, cases=("COM-08",))
