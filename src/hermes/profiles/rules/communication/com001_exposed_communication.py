"""Communication runs while nothing is computed.

## What it detects

The rule counts the time in which a collective or a transfer between ranks runs and no compute kernel runs, as a share
of the window. Each rank is measured on its typical step.

## Why it costs you

The device's compute units are idle while only communication runs. Behind compute, the same communication costs nothing.

## When it is not a problem

Exposed communication of up to a tenth of the window is no problem, if at least half of all communication is hidden. The
last bucket of gradients never has compute beside it. The rule is silent then. If no rank hides any communication, the
rule speaks from a fiftieth of the window on: then the program itself communicates only after it has computed.

If most exposed communication is waiting for another rank, COM002 names that rank, and faster communication will not
help. In a pipeline, waiting for other stages is exposed too; the PAR rules judge such waits. The capture may hold only
one unusual step, such as the first step or a step with evaluation.

## What to do

First see which rank the others wait for. Start gradient collectives while backward still computes, in buckets that are
large enough to use the link. Use a faster algorithm, or send fewer bytes.

## How to check

Profile the same step again: exposed communication per step and the window must both become shorter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hermes.base.message import Message, Name, Share, message, sentence
from hermes.knowledge.confidence import confidence
from hermes.model.advice_fit import Fit
from hermes.model.comm_measures import GroupOp
from hermes.model.fault import Fault
from hermes.model.finding import Action, Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.overlap_measures import StepOverlap
from hermes.model.step_measures import ExposedOp, PeerWait, StepSplit
from hermes.model.structure_measures import Pipeline
from hermes.profiles.rules._communication import bubble_of, exposed_comm, exposed_transfer, waited_per_step
from hermes.profiles.rules._cost_by_rank import loss, typical
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
ALWAYS = Limit(
    value=0.10, unit="of window counts, even if most communication is hidden", source="docs/evidence/noise.md"
)
EXPOSED = Limit(
    value=0.5,
    unit="of communication is exposed; a larger share of the window than 10% counts anyway",
    source="docs/evidence/noise.md",
)


def _notable(overlaps: Rows[StepOverlap], split: StepSplit) -> bool:
    """Whether exposed communication is more than overlap always leaves: no compute runs beside the last bucket."""
    exposed = exposed_comm(overlaps, split) or 0
    if not by_share(LIMIT, exposed / split.window_ns):
        return _unhidden(split)
    return by_share(ALWAYS, exposed / split.window_ns) or exposed > EXPOSED.value * (split.comm_ns or 0)


def _unhidden(split: StepSplit) -> bool:
    """Whether a device hides none of its communication: then the program orders the step so, and no tail is left."""
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
    """A finding for all ranks whose exposed communication is beyond the limit."""
    limit = ALL if all(map(_unhidden, typical(job))) else LIMIT
    found = loss(job, COST, limit, lambda split: exposed_comm(overlaps, split))
    if found is None or not _notable(overlaps, found.worst):
        return
    by_op = {row.op: row.exposed_ns for row in exposed.of(found.worst.rank)}
    steps = job.steps.counts.get(found.worst.rank) or 1
    # As in COM002: a capture of many steps must give the same finding as a capture of one step.
    longest = (wait for wait in waits if wait.rank == found.worst.rank)
    waiting = max((waited_per_step(job, wait) for wait in longest), default=0)
    waiting = max(waiting, bubble_of(pipelines, found.worst.rank))
    # Without a device the rest of the step could hide communication.
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
        # Overlap does not remove waits for other ranks, and only compute that hides nothing yet can hide communication.
        gain=Gain(
            low_ns=0,
            high_ns=max(0, min(found.cost_ns - waiting, idle_compute)),
            method=at_most(when=HIDDEN),
        ),
        confidence=_confidence(job, found.worst.rank, recorded),
        evidence=(*found.evidence, *parts, *_dimensions(job, groups, found.worst.rank)),
        # A replay would also hide waits for ranks without a capture.
        replay=("comm:overlap",) if recorded else (),
        actions=_CURES.get(_largest(job, groups, found.worst.rank), _GRADIENTS),
    )


def _confidence(job: Job, rank: int, recorded: bool) -> float:
    """The confidence; without a device a collective's sums and copies take a core that compute needs."""
    if not has_device(job, rank):
        return confidence("COM001.no_device")
    return confidence("COM001" if recorded else "COM001.unrecorded")


def _dimensions(job: Job, groups: Rows[GroupOp], rank: int) -> tuple[Evidence, ...]:
    """Exposed transfers of each dimension of parallelism, without waits, and how much of them compute hides."""
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
    """Whether waits are told apart: by the rank's waits, if its collectives are split into wait and transfer at all."""
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
    """Exposed communication takes a share of the step."""


@message("com001.operation")
def operation(*, op: Name) -> None:
    """The cost of one kind of collective."""


@message("com001.dimension")
def dimension(*, group: Name) -> None:
    """The cost of the transfers of one dimension of parallelism."""


@message("com001.dimension_verify")
def dimension_verify(*, group: Name) -> None:
    """How to check that the transfers of a dimension cost less."""


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
"""Actions by the dimension of parallelism that costs most; for a library first, then for any job."""
