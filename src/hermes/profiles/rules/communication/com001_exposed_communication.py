"""Communication runs while nothing is computed.

## What it detects

The part of a step's window in which a collective or a transfer between ranks runs and no compute kernel does, as a
share of the window, on the step of median length of each rank.

## Why it costs you

The device's compute units stand still. Hidden behind compute, the same communication would cost nothing.

## When it is not a problem

Up to a tenth of the window, when at least half of all communication is hidden: the last bucket of gradients has no
compute beside it, whatever one does. The rule is silent then. Where nothing at all is hidden, on any rank, it speaks
from a fiftieth on: then it is the step that does one after the other.
When most of it is waiting for another rank: then COM002 names that rank, and making communication faster will not help.
In a pipeline, waiting for other stages is exposed too: the PAR rules judge it. When the capture holds a single step at
an odd place (the first step, a step with evaluation).

## What to do

Start gradient collectives while backward still computes, in buckets large enough to use the link; use a faster
algorithm or fewer bytes; see who is waited for first.

## How to check

Profile the same step again: exposed communication per step must fall, and the window with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import OVERLAP_TENSOR_PARALLEL
from hermes.model.comm_measures import GroupOp
from hermes.model.fault import Fault
from hermes.model.finding import Action, Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.measures import ExposedOp, PeerWait, StepSplit
from hermes.model.overlap_measures import StepOverlap
from hermes.model.structure_measures import Pipeline
from hermes.profiles.rules._comm import bubble_of, exposed_comm, exposed_transfer, waited_per_step
from hermes.profiles.rules._component import loss, typical
from hermes.profiles.rules._host import has_device
from hermes.profiles.rules.rule import by_share, rule

LIMIT = Limit(
    value=0.05, unit="of window", source="system rule of TraceLens 0.1: exposed communication above 5 % of the time"
)

ALL = Limit(
    value=0.02,
    unit="of window, where nothing at all of the communication is hidden",
    source="docs/evidence/noise.md",
)
ALWAYS = Limit(value=0.10, unit="of window counts however much is hidden", source="docs/evidence/noise.md")
EXPOSED = Limit(value=0.5, unit="of communication, below ALWAYS", source="docs/evidence/noise.md")


def _notable(overlaps: Rows[StepOverlap], split: StepSplit) -> bool:
    """Whether it is more than overlapping leaves in any case: the last bucket has no compute beside it."""
    exposed = exposed_comm(overlaps, split) or 0
    if not by_share(LIMIT, exposed / split.window_ns):
        return _unhidden(split)
    return by_share(ALWAYS, exposed / split.window_ns) or exposed > EXPOSED.value * (split.comm_ns or 0)


def _unhidden(split: StepSplit) -> bool:
    """Whether a device communicates, and computes beside none of it: that is how a step is written, and no tail."""
    return bool(split.comm_ns and split.compute_ns) and not split.overlapped_comm_ns


@rule(
    "COM001",
    state="stable",
    fault=Fault.EXPOSED_COMMUNICATION,
    cases=(
        "COM-01",
        "COM-02",
        "COM-04",
        "COM-05",
        "COM-06",
        "COM-07",
        "COM-08",
        "COM-19",
        "COM-20",
        "COM-35",
        "COM-36",
        "COM-41",
        "PAR-07",
        "PAR-08",
        "PAR-09",
        "PAR-17",
        "COM-03",
        "PAR-10",
    ),
)
def exposed_communication(
    job: Job,
    waits: Rows[PeerWait],
    exposed: Rows[ExposedOp],
    overlaps: Rows[StepOverlap],
    groups: Rows[GroupOp],
    pipelines: Rows[Pipeline],
) -> Iterator[Loss]:
    """One finding for all ranks that are beyond the limit."""
    limit = ALL if all(map(_unhidden, typical(job))) else LIMIT
    found = loss(job, "exposed communication", limit, lambda split: exposed_comm(overlaps, split))
    if found is None or not _notable(overlaps, found.worst):
        return
    by_op = {row.op: row.exposed_ns for row in exposed.of(found.worst.rank)}
    steps = job.steps.counts.get(found.worst.rank) or 1
    # As in COM002: a capture of many steps must say the same as one of a single step.
    longest = (wait for wait in waits if wait.rank == found.worst.rank)
    waiting = max((waited_per_step(job, wait) for wait in longest), default=0)
    waiting = max(waiting, bubble_of(pipelines, found.worst.rank))
    # Without a device the rest of the step is what could hide it.
    worst = found.worst
    compute = worst.window_ns - found.cost_ns if worst.compute_ns is None else worst.compute_ns
    idle_compute = compute - (worst.overlapped_comm_ns or 0)
    recorded = _recorded(waits, groups, found.worst.rank)
    parts = tuple(
        Evidence(
            what=f"exposed {op}",
            value=float(ns // steps),
            unit="ns",
            threshold=None,
            where=f"rank {found.worst.rank}, mean per step",
        )
        for op, ns in sorted(by_op.items(), key=lambda part: -part[1])[:3]
        if ns
    )
    yield Loss(
        message=f"{found.share:.0%} of the step is communication with nothing computed beside it"
        + ("" if recorded else "; how much of it is waiting for a rank is not recorded"),
        ranks=found.ranks,
        blames=(),
        cost_ns=found.cost_ns,
        share=found.share,
        # Waiting for another rank does not go away by overlapping, and only compute that hides nothing yet can hide.
        gain=Gain(
            low_ns=0,
            high_ns=max(0, min(found.cost_ns - waiting, idle_compute)),
            method="bound: all that is not waiting for one rank is hidden, as far as compute is left to hide it",
        ),
        confidence=_confidence(job, found.worst.rank, recorded),
        evidence=(*found.evidence, *parts, *_dimensions(job, groups, found.worst.rank)),
        # A replay would hide the waiting for ranks that nobody knows of, too.
        replay=("comm:overlap",) if recorded else (),
        actions=(_CURES.get(_largest(job, groups, found.worst.rank), _OVERLAP),),
    )


def _confidence(job: Job, rank: int, recorded: bool) -> float:
    """Without a device sums and copies of a collective are work of a core, which the compute beside it needs."""
    if not has_device(job, rank):
        return confidence("COM001.no_device")
    return confidence("COM001" if recorded else "COM001.unrecorded")


def _dimensions(job: Job, groups: Rows[GroupOp], rank: int) -> tuple[Evidence, ...]:
    """Exposed transfers of each dimension of parallelism, without the waits, and how much of them compute hides."""
    return tuple(
        Evidence(
            what=f"transfers of {name} that nothing hides",
            value=float(round(ns)),
            unit="ns",
            threshold=None,
            where=f"rank {rank}, mean per step",
        )
        for name, ns in sorted(_exposed(job, groups, rank).items(), key=lambda part: (-part[1], part[0]))[:3]
        if round(ns)
    )


def _exposed(job: Job, groups: Rows[GroupOp], rank: int) -> dict[str, float]:
    sums: dict[str, float] = {}
    for group in groups:
        ns = exposed_transfer(job, group)
        if ns is not None and rank in group.ranks:
            name = group.parallel or group.group
            sums[name] = sums.get(name, 0.0) + ns
    return sums


def _recorded(waits: Rows[PeerWait], groups: Rows[GroupOp], rank: int) -> bool:
    """Whether waiting is told apart: by waits of the rank, if its collectives are split from their transfers at all."""
    own = [group for group in groups if rank in group.ranks]
    split = not own or any(group.split_rows for group in own)
    return split and any(wait.rank == rank for wait in waits)


def _largest(job: Job, groups: Rows[GroupOp], rank: int) -> str:
    sums = _exposed(job, groups, rank)
    return max(sorted(sums), key=lambda name: sums[name], default="")


_OVERLAP = Action(
    title="Start collectives as early as their input is ready",
    do="Start each with async_op=True, and wait for it where its result is read; gradients in pieces of 25 to 100 MB, "
    "each reduced while the backward pass still makes the next. DistributedDataParallel(model, bucket_cap_mb=100) with "
    "find_unused_parameters off does so. FSDP: set_modules_to_forward_prefetch and its like for backward. DeepSpeed: "
    "overlap_comm: true. Megatron and MindSpeed: --use-distributed-optimizer --overlap-grad-reduce.",
    verify="Profile again: exposed communication falls, overlapped communication rises.",
    risk="Larger buckets need more memory and start later; kernels beside a collective may slow down (COM006).",
    source="PyTorch documentation of torch.distributed and DistributedDataParallel",
)
_CURES: Mapping[str, Action] = {
    "tp": OVERLAP_TENSOR_PARALLEL,
    "ep": Action(
        title="Hide the all-to-all of experts behind their products",
        do="Run two micro-batches in turn, one in its products while the other is sent; --moe-alltoall-overlap-comm in "
        "MindSpeed; --overlap-moe-expert-parallel-comm in Megatron; keep expert "
        "groups within a node.",
        verify="Transfers of ep that nothing hides fall in the next profile.",
        risk="Memory for the batches in flight.",
        source="case COM-20",
    ),
    "pp": Action(
        title="Overlap sends and receives with compute",
        do="Batched sends and receives that are waited for where they are read; --overlap-p2p-communication with "
        "virtual stages in Megatron.",
        verify="Transfers of pp that nothing hides fall in the next profile.",
        risk="Virtual stages send more often.",
        source="case COM-36",
    ),
}
