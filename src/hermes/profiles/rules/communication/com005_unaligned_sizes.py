"""Collectives move sizes that are no multiple of 512 bytes.

## What it detects

The rule finds operations or transfers above 512 bytes whose size is not a multiple of 512, if they take more than a
fifth of the time of transfers (Ascend only). The rule computes their loss against aligned transfers of the same
capture. If there are none, the rule can only tell their exposed time.

## Why it costs you

The copy engines between chips move whole lines of 512 bytes. A size or an address between two lines splits every
transfer.

## When it is not a problem

If only the last slice of a buffer is unaligned, the loss is a small share of the time.

## What to do

Pad gradient and parameter buffers until each rank's share is a multiple of 512 bytes.

## How to check

Profile the same step again: sizes of collectives are multiples of 512, and the speed of transfers rises.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Share, message, sentence
from hermes.knowledge.actions import variants
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_traits import traits
from hermes.model.advice_fit import ANY, Fit
from hermes.model.comm_measures import Alignment, GroupOp
from hermes.model.fault import Fault
from hermes.model.finding import Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.overlap_measures import StepOverlap
from hermes.profiles.rules._communication import exposed_loss
from hermes.profiles.rules._cost_by_rank import percents, steps_of
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import rule

LIMIT = Limit(
    value=0.20,
    unit="of the time of transfers",
    source="byte alignment rule of msprof-analyze: below 20 % of the time its priority is low",
)
FLOOR = NOISE


@rule("COM005", state="stable", fault=Fault.UNALIGNED_SIZES, cases=("COM-11", "COM-12"))
def unaligned_sizes(
    job: Job, overlaps: Rows[StepOverlap], groups: Rows[GroupOp], alignments: Rows[Alignment]
) -> Iterator[Loss]:
    """At most one finding, of transfers or operations with unaligned sizes."""
    if not any(traits(vendor).aligned_sizes for vendor in job.vendors.values()):
        return
    rows = {row.what: row for row in alignments}
    whole = rows.get("operations")
    if whole is None or not whole.time_ns or whole.unaligned_time_ns <= LIMIT.value * whole.time_ns:
        return
    ranks = sorted({rank for group in groups if group.split_rows for rank in group.ranks})
    lost = _lost(whole)
    mean = whole.unaligned_time_ns * (1.0 if lost is None else lost) / steps_of(job, ranks)
    found = exposed_loss(job, overlaps, groups, UNALIGNED, FLOOR, dict.fromkeys(ranks, mean))
    if found is None:
        return
    share = whole.unaligned_time_ns / whole.time_ns
    yield Loss(
        message=unaligned_share(share=percents(share)),
        ranks=found.ranks,
        blames=(),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(
            low_ns=0,
            high_ns=found.cost_ns,
            method=at_most(when=NONE_ALIGNED if lost is None else AS_FAST),
        ),
        confidence=confidence("COM005.none_aligned" if lost is None else "COM005"),
        assumed=lost is None,
        evidence=(
            *found.evidence,
            Evidence(
                what=UNALIGNED,
                value=round(share, 6),
                unit="of the time of all",
                threshold=LIMIT.value,
                where=_speeds(whole),
            ),
        ),
        replay=() if lost is None else (f"comm:*={1 - lost * share:.4g}",),
        actions=_PAD,
    )


def _lost(row: Alignment) -> float | None:
    """The time that aligned operations' speed would save on unaligned ones; None if there is nothing to compare."""
    aligned, other = row.gb_per_s, row.unaligned_gb_per_s
    if not aligned or not other or aligned <= other:
        return None
    return 1 - other / aligned


def _speeds(row: Alignment) -> str:
    known = [
        f"{name} {speed:.3g} GB/s"
        for name, speed in (("aligned", row.gb_per_s), ("unaligned", row.unaligned_gb_per_s))
        if speed
    ]
    return "all ranks and steps" + (f", {', '.join(known)}" if known else "")


UNALIGNED = sentence("com005.unaligned")
_PAD = variants(
    "com005.pad_buffers",
    {"_mindspeed": Fit(libraries=("mindspeed",), phase="training"), "": ANY},
    source="MindSpeed, param-and-grad-buffer-pad.md; msprof-analyze, byte_alignment.yaml",
    cases=("COM-11", "COM-12"),
)
NONE_ALIGNED = sentence("com005.none_aligned")
AS_FAST = sentence("com005.as_fast")


@message("com005.unaligned_share")
def unaligned_share(*, share: Share) -> None:
    """Unaligned sizes cost a share of the step."""
