"""Compares a report's fields with an expert's opinion, and finds statements that no report may make."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bench.judgement.first_contact import Wrong
from bench.judgement.opinion import Opinion
from hermes.base.say import say
from hermes.model.leaf import Leaf
from hermes.model.leaf_time import JobLeaf
from hermes.model.plan import Advice
from hermes.model.report import Report
from hermes_testing.invariants import contradictions

ONLY_OF: Mapping[str, str] = {
    "cuda": r"torch\.cuda\.|\bcudnn\b|\bNCCL_|nvidia-smi|\bCUDA_[A-Z]|allow_tf32|PYTORCH_CUDA",
    "rocm": r"\bRCCL_|\bHIP_[A-Z]|rocm-smi|\bROCR_|MIOPEN_|PYTORCH_HIP",
    "ascend": r"torch_npu|torch\.npu\.|\bHCCL_|TORCH_HCCL|\bASCEND_|npu-smi|\baclnn|TASK_QUEUE_ENABLE|PYTORCH_NPU",
}
"""Words that have a meaning only on one kind of chip. PyTorch for ROCm uses `torch.cuda`, too."""
OF_TRAINING = r"micro-?batch|accumulat|backward\(|GradScaler|optimizer|DistributedDataParallel|no_sync"
"""Words of advice that only a training job can follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One report compared with its opinion; `faults` are sentences on forbidden statements in the report.

    `share` is the part of all steps that the leaf of the headline takes, `gain` the range told for the opinion's leaf.
    `most` is the leaf that the headline says to take most of the time.
    """

    opinion: Opinion
    leaf: Leaf | None
    share: float
    rank: int | None
    faults: tuple[str, ...]
    gain: tuple[float, float] | None
    most: Leaf | None

    @property
    def wrong(self) -> Wrong:
        """The part of the headline that differs from the expert's opinion."""
        if self.leaf not in {self.opinion.leaf, self.opinion.also or self.opinion.leaf}:
            return "leaf"
        return "" if self.opinion.rank in {None, self.rank} else "rank"

    @property
    def said(self) -> bool:
        """Whether the headline names the expert's leaf: as what can be won, or as what takes most of the time."""
        return bool({self.leaf, self.most} & {self.opinion.leaf, self.opinion.also or self.opinion.leaf})

    @property
    def holds_measured(self) -> bool | None:
        """Whether the range of the gain holds what the published cure gave; None without one."""
        measured = self.opinion.measured
        if measured is None:
            return None
        return self.gain is not None and self.gain[0] <= measured.share <= self.gain[1]


def judge(report: Report, opinion: Opinion) -> Judgement:
    """Compare the headline with the opinion, and find all forbidden statements of the report."""
    verdict = report.verdict
    rank = verdict.rank if verdict.awaited is None else verdict.awaited
    return Judgement(
        opinion=opinion, leaf=verdict.leaf, share=verdict.share or 0.0, rank=rank,
        faults=(*contradictions(report), *unexplaining(report), *foreign(report, opinion)),
        gain=_gain(report, opinion), most=verdict.most,
    )  # fmt: skip


def unexplaining(report: Report) -> Iterator[str]:
    """The first action, if the tree has none of the leaves that the action explains.

    What a rank spends more than the others is what the others wait for.
    """
    rows = [row for row in report.rows(JobLeaf) if row.total_ns]
    leaves = {row.leaf for row in rows} | {Leaf.WAIT for row in rows if row.rank is not None}
    for action in report.plan.actions[:1]:
        if not leaves & _explained(action):
            yield f"{'/'.join(action.codes)}: the first action explains no leaf of the tree"


def foreign(report: Report, opinion: Opinion) -> Iterator[str]:
    """Advice for another kind of chip, or on training where nothing is trained."""
    for action in report.plan.actions:
        text = "\n".join((say(action.title), say(action.do), action.after))
        for chip, words in ONLY_OF.items():
            if chip not in opinion.devices and (found := re.search(words, text)):
                yield f"{'/'.join(action.codes)}: {found.group()!r} is of {chip}"
        if opinion.inference and (found := re.search(OF_TRAINING, text, re.IGNORECASE)):
            yield f"{'/'.join(action.codes)}: {found.group()!r} to a job that does not train"


def _gain(report: Report, opinion: Opinion) -> tuple[float, float] | None:
    about = (action for action in report.plan.actions if action.about is opinion.leaf)
    return next(((action.share_low, action.share_high) for action in about), None)


def _explained(action: Advice) -> frozenset[Leaf]:
    if action.fault:
        return action.fault.explains
    return frozenset({action.about} if isinstance(action.about, Leaf) else ())
