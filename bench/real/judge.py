"""Compares a report with an expert's opinion, and with what no report may say; pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bench.real.expert import Opinion
from hermes.base.say import say
from hermes.model.plan import Advice
from hermes.model.report import Report
from hermes.model.typical_step import JobSteps
from hermes.profiles.advise.ranges import Known
from hermes.profiles.advise.room import Room

AMONG = 3
"""An expert's other cause is to be among so many actions."""
ONLY_OF: Mapping[str, str] = {
    "cuda": r"torch\.cuda\.|\bcudnn\b|\bNCCL_|nvidia-smi|\bCUDA_[A-Z]|allow_tf32|PYTORCH_CUDA",
    "rocm": r"\bRCCL_|\bHIP_[A-Z]|rocm-smi|\bROCR_|MIOPEN_|PYTORCH_HIP",
    "ascend": r"torch_npu|torch\.npu\.|\bHCCL_|TORCH_HCCL|\bASCEND_|npu-smi|\baclnn|TASK_QUEUE_ENABLE|PYTORCH_NPU",
}
"""Words that mean something on one kind of chip alone. PyTorch for ROCm is spoken to as `torch.cuda`."""
OF_TRAINING = r"micro-?batch|accumulat|backward\(|GradScaler|optimizer|DistributedDataParallel|no_sync"
"""Words of advice that only a job that trains can follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One report beside its opinion; `faults` are sentences, each of something that must not be said."""

    opinion: Opinion
    bound: str
    causes: tuple[str, ...]
    first: bool
    others: bool
    faults: tuple[str, ...]
    gain: tuple[float, float] | None

    @property
    def holds_measured(self) -> bool | None:
        """Whether the range of the gain holds what the published cure gave; None without one."""
        if self.opinion.measured is None:
            return None
        return self.gain is not None and self.gain[0] <= self.opinion.measured.share <= self.gain[1]


def judge(report: Report, opinion: Opinion) -> Judgement:
    """What the report says of the bound, of the first causes, and what it says in vain."""
    causes = tuple(_fault(one) for one in report.plan.actions)
    wanted = {str(cause) for cause in opinion.first}
    others = {str(cause) for cause in opinion.wide}
    return Judgement(
        opinion=opinion,
        bound=report.verdict.bound,
        causes=causes,
        first=(causes[0] in wanted) if causes else not wanted,
        others=not others or bool(others & {*causes[:AMONG]}),
        faults=(*_untrue(report, opinion), *impossible(report), *foreign(report, opinion)),
        gain=_gain(report, opinion),
    )


def _untrue(report: Report, opinion: Opinion) -> Iterator[str]:
    if report.verdict.bound not in opinion.bounds:
        yield f"bound by {report.verdict.bound}, and not by {' or '.join(opinion.bounds)}"
    never = {str(cause) for cause in opinion.never}
    yield from (f"{_fault(one)} is no cause here" for one in report.plan.actions if one.fault in never)


def impossible(report: Report) -> Iterator[str]:
    """Gains beyond the cost, the step, or what physics leaves, and stories that do not agree."""
    step = report.plan.floor.step_ns
    known = Known(floor=report.plan.floor, room=Room.of(JobSteps(report.steps)))
    for one in report.findings:
        if one.gain.high_ns > known.most_ns(one.cost_ns, one.replay):
            yield f"{one.code}: a gain of {one.gain.high_ns} ns for a cost of {one.cost_ns}"
        if step and one.cost_ns > step:
            yield f"{one.code}: a cost of {one.cost_ns} ns in a step of {step}"
        if one.gain.low_ns > one.gain.high_ns or one.gain.low_ns < 0:
            yield f"{one.code}: a range from {one.gain.low_ns} to {one.gain.high_ns} ns"
        if one.share > 1:
            yield f"{one.code}: {one.share:.0%} of the step"
    told = report.verdict.fault
    if told and report.plan.actions and report.plan.actions[0].fault is not told:
        yield f"the verdict is about {told}, the first action about {_fault(report.plan.actions[0])}"


def _fault(one: Advice) -> str:
    return str(one.fault or "")


def foreign(report: Report, opinion: Opinion) -> Iterator[str]:
    """Advice for another kind of chip, or on training where nothing is trained."""
    for one in report.plan.actions:
        for chip, words in ONLY_OF.items():
            if chip not in opinion.devices and (found := re.search(words, _said(one))):
                yield f"{'/'.join(one.codes)}: {found.group()!r} is of {chip}"
        if opinion.inference and (found := re.search(OF_TRAINING, _said(one), re.IGNORECASE)):
            yield f"{'/'.join(one.codes)}: {found.group()!r} to a job that does not train"


def _said(one: Advice) -> str:
    return "\n".join((say(one.title), say(one.do), one.after))


def _gain(report: Report, opinion: Opinion) -> tuple[float, float] | None:
    if opinion.measured is None:
        return None
    wanted = str(opinion.measured.fault)
    return next(((one.share_low, one.share_high) for one in report.plan.actions if _fault(one) == wanted), None)
