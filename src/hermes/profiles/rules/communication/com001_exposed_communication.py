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

from hermes.base.message import Message, Name, Share, message, sentence
from hermes.knowledge.confidence import confidence
from hermes.model.comm_measures import GroupOp
from hermes.model.fault import Fault
from hermes.model.finding import Action, Evidence, Gain, Loss
from hermes.model.fit import Fit
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.measures import ExposedOp, PeerWait, StepSplit
from hermes.model.overlap_measures import StepOverlap
from hermes.model.structure_measures import Pipeline
from hermes.profiles.rules._comm import bubble_of, exposed_comm, exposed_transfer, waited_per_step
from hermes.profiles.rules._component import loss, typical
from hermes.profiles.rules._host import has_device
from hermes.profiles.rules.gain_messages import at_most
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
    found = loss(job, COST, limit, lambda split: exposed_comm(overlaps, split))
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
            what=operation(op=op),
            value=float(ns // steps),
            unit="ns",
            threshold=None,
            where=f"rank {found.worst.rank}, mean per step",
        )
        for op, ns in sorted(by_op.items(), key=lambda part: -part[1])[:3]
        if ns
    )
    yield Loss(
        message=exposed_share(share=found.share, doubt=None if recorded else UNRECORDED),
        ranks=found.ranks,
        blames=(),
        cost_ns=found.cost_ns,
        share=found.share,
        # Waiting for another rank does not go away by overlapping, and only compute that hides nothing yet can hide.
        gain=Gain(
            low_ns=0,
            high_ns=max(0, min(found.cost_ns - waiting, idle_compute)),
            method=at_most(when=HIDDEN),
        ),
        confidence=_confidence(job, found.worst.rank, recorded),
        evidence=(*found.evidence, *parts, *_dimensions(job, groups, found.worst.rank)),
        # A replay would hide the waiting for ranks that nobody knows of, too.
        replay=("comm:overlap",) if recorded else (),
        actions=_CURES.get(_largest(job, groups, found.worst.rank), _GRADIENTS),
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
            what=dimension(group=name),
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


COST = sentence("com001.cost")
UNRECORDED = sentence("com001.unrecorded")
HIDDEN = sentence("com001.hidden")
GRADIENTS = sentence("com001.gradients")
GRADIENTS_VERIFY = sentence("com001.gradients_verify")
GRADIENTS_RISK = sentence("com001.gradients_risk")
TENSOR = sentence("com001.tensor")
TENSOR_RISK = sentence("com001.tensor_risk")
EXPERTS = sentence("com001.experts")
EXPERTS_RISK = sentence("com001.experts_risk")
STAGES = sentence("com001.stages")
STAGES_RISK = sentence("com001.stages_risk")


@message("com001.exposed")
def exposed_share(*, share: Share, doubt: Message | None = None) -> None:
    """The finding."""


@message("com001.operation")
def operation(*, op: Name) -> None:
    """What one kind of collective costs."""


@message("com001.dimension")
def dimension(*, group: Name) -> None:
    """What the transfers of a dimension of parallelism cost."""


@message("com001.dimension_verify")
def dimension_verify(*, group: Name) -> None:
    """How to see that they cost less."""


def _gradients(do: Message, fit: Fit, *cases: str) -> Action:
    return Action(
        title=GRADIENTS,
        do=do,
        verify=GRADIENTS_VERIFY,
        risk=GRADIENTS_RISK,
        source="PyTorch documentation of torch.distributed and DistributedDataParallel",
        fit=fit,
        cases=cases,
    )


_MEGATRON = ("megatron", "mindspeed")
_OF_DDP = ("COM-01", "COM-02", "COM-03", "COM-04", "COM-08", "COM-35")
_OF_FLAGS = ("COM-05", "COM-06", "COM-07")
_GRADIENTS = (
    _gradients(sentence("com001.do_ddp"), Fit(libraries=("ddp",), phase="training"), *_OF_DDP),
    _gradients(sentence("com001.do_fsdp"), Fit(libraries=("fsdp",), phase="training"), "PAR-17"),
    _gradients(sentence("com001.do_deepspeed"), Fit(libraries=("deepspeed",), phase="training")),
    _gradients(sentence("com001.do_megatron"), Fit(libraries=_MEGATRON, phase="training"), *_OF_FLAGS),
    _gradients(sentence("com001.do_gradients"), Fit(phase="training"), "COM-08", "COM-35"),
    Action(
        title=GRADIENTS,
        do=sentence("com001.do_any"),
        verify=GRADIENTS_VERIFY,
        risk=sentence("com001.any_risk"),
        source="PyTorch documentation of torch.distributed",
    ),
)


def _of(group: str, title: Message, do: Message, risk: Message, source: str, fit: Fit, *cases: str) -> Action:
    return Action(
        title=title, do=do, verify=dimension_verify(group=group), risk=risk, source=source, fit=fit, cases=cases
    )  # fmt: skip


_CURES: Mapping[str, tuple[Action, ...]] = {
    "tp": (
        _of(
            "tp", TENSOR, sentence("com001.tensor_mindspeed"), TENSOR_RISK,
            "MindSpeed, communication-over-computation.md and mc2.md", Fit(libraries=("mindspeed",)),
            "COM-19", "PAR-07", "PAR-09",
        ),
        _of(
            "tp", TENSOR, sentence("com001.tensor_megatron"), TENSOR_RISK, "Megatron-LM, tp_comm_overlap",
            Fit(libraries=("megatron",)), "PAR-07", "PAR-09",
        ),
        _of(
            "tp", sentence("com001.narrower"), sentence("com001.narrower_do"), sentence("com001.narrower_risk"),
            "case PAR-07", Fit(), "PAR-07", "PAR-09",
        ),
    ),
    "ep": (
        _of(
            "ep", EXPERTS, sentence("com001.experts_mindspeed"), EXPERTS_RISK, "case COM-20",
            Fit(libraries=("mindspeed",)), "COM-20",
        ),
        _of(
            "ep", EXPERTS, sentence("com001.experts_megatron"), EXPERTS_RISK, "case COM-20",
            Fit(libraries=("megatron",)), "COM-20",
        ),
        _of("ep", EXPERTS, sentence("com001.experts_do"), EXPERTS_RISK, "case COM-20", Fit(), "COM-20"),
    ),
    "pp": (
        _of(
            "pp", STAGES, sentence("com001.stages_megatron"), STAGES_RISK, "case COM-36", Fit(libraries=_MEGATRON),
            "COM-36",
        ),
        _of("pp", STAGES, sentence("com001.stages_do"), STAGES_RISK, "case COM-36", Fit(), "COM-36"),
    ),
}  # fmt: skip
"""What to do, by the dimension of parallelism that costs most; for a library first, then for any job."""
