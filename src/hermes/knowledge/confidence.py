"""How sure a finding is, by what it rests on: one table with sources.

The number orders findings and is shown. Nothing else depends on it: what explains what is told by fields of findings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Confidence(NamedTuple):
    """The chance that a finding of this kind is right, and where that comes from."""

    value: float
    source: str


_TRUST = "docs/evidence/trust.md"
_NEW = f"{_TRUST}: a rule without a row"
_TWO = f"{_TRUST}: two captures"
_THREE = f"{_TRUST}: three captures"
_TOOL = f"{_TRUST}: a released tool finds the same by the same measure"
_NONE = f"{_TRUST}: no real capture"
_DIRECT = f"{_TRUST}: direct evidence"
_ONE = f"{_TRUST}: one capture"
_NO_DEVICE = f"{_TRUST}: jobs without a device only"

_FIRST_CONTACT = (
    "docs/precision.md, Figures: at first contact with 85 planted faults 62 answers were right (28 of 43, 34 of 42)"
)

CONFIDENCE: Final[Mapping[str, Confidence]] = {
    "CMP001": Confidence(0.6, _TWO),
    "CMP001.estimated": Confidence(0.5, "docs/rules/CMP001.md: no counter of the matrix units was recorded"),
    "CMP002": Confidence(0.5, _TWO),
    "CMP002.no_device": Confidence(0.4, "docs/rules/CMP002.md: a compiler for processors may not fuse them"),
    "CMP003": Confidence(0.9, f"{_TRUST}: a capture and case CMP-01"),
    "CMP004": Confidence(0.8, _TWO),
    "CMP005": Confidence(0.8, _TWO),
    "CMP006": Confidence(0.8, f"{_TRUST}: a capture and case CMP-10"),
    "CMP007": Confidence(0.6, f"{_TRUST}: a capture and NVIDIA, Matrix Multiplication Background"),
    "CMP007.none_aligned": Confidence(0.4, "docs/rules/CMP007.md: no aligned product is there to compare with"),
    "CMP008": Confidence(0.9, _TOOL),
    "CMP009": Confidence(0.6, f"{_TRUST}: a capture and case CMP-03"),
    "CMP009.float64": Confidence(0.7, "docs/rules/CMP009.md: float64 on a processor has half as many numbers a lane"),
    "CMP010": Confidence(0.5, _NONE),
    "CMP011": Confidence(0.9, _TOOL),
    "CMP012": Confidence(0.7, f"{_TRUST}: a capture and case CMP-30"),
    "CMP013": Confidence(0.6, _TWO),
    "CMP014": Confidence(0.8, _THREE),
    "CMP015": Confidence(0.45, _ONE),
    "CMP016": Confidence(0.6, f"{_TRUST}: a capture and case CMP-44"),
    "CMP018": Confidence(0.7, f"{_TRUST}: no real capture shows it right"),
    "CMP030": Confidence(0.5, _NONE),
    "CMP031": Confidence(0.5, _NONE),
    "CMP032": Confidence(0.25, _NEW),
    "CMP033": Confidence(0.7, _THREE),
    "CMP034": Confidence(0.6, f"{_TRUST}: two captures of one of its six forms, distances by their differences"),
    "COM001": Confidence(0.9, _TWO),
    "COM001.no_device": Confidence(0.4, "docs/rules/COM001.md: collectives need the cores that compute beside them"),
    "COM001.unrecorded": Confidence(0.5, "docs/rules/COM001.md: waiting is not recorded apart from transfers"),
    "COM002": Confidence(0.8, f"{_TRUST}: a capture and case COM-21"),
    "COM002.more_work": Confidence(0.6, "docs/rules/COM002.md: the others take over part of its work"),
    "COM002.not_collected": Confidence(0.7, "docs/rules/COM002.md: the awaited rank was not collected"),
    "COM003": Confidence(0.9, _TOOL),
    "COM004": Confidence(0.8, _TOOL),
    "COM004.fitted": Confidence(0.6, "docs/rules/COM004.md: the fixed cost is that of a fitted line"),
    "COM005": Confidence(0.6, _TOOL),
    "COM005.none_aligned": Confidence(0.3, "docs/rules/COM005.md: no aligned operation is there to compare with"),
    "COM006": Confidence(0.6, _TWO),
    "COM007": Confidence(0.8, _TOOL),
    "COM007.no_rank": Confidence(0.5, "docs/rules/COM007.md: no rank was found that stalls"),
    "COM008": Confidence(0.4, _TOOL),
    "COM009": Confidence(0.7, _NONE),
    "COM010": Confidence(0.9, _TWO),
    "COM011": Confidence(0.6, _NEW),
    "COM020": Confidence(0.7, _NONE),
    "CPU001": Confidence(0.8, _TWO),
    "CPU002": Confidence(0.7, _TWO),
    "CPU003": Confidence(0.7, _TWO),
    "CPU004": Confidence(0.75, _TWO),
    "CPU005": Confidence(0.65, _TWO),
    "CPU006": Confidence(0.9, _TOOL),
    "CPU007": Confidence(0.4, f"{_TRUST}: a capture and case CPU-34"),
    "CPU008": Confidence(0.5, _NONE),
    "CPU009": Confidence(0.7, _DIRECT),
    "CPU009.no_loop": Confidence(
        0.4, "docs/rules/CPU009.md: a small model has many operators, and no two can be put together"
    ),
    "CPU010": Confidence(0.7, _NO_DEVICE),
    "CPU011": Confidence(0.2, _NO_DEVICE),
    "CPU012": Confidence(0.8, _NONE),
    "CPU013": Confidence(0.6, f"{_TRUST}: no real capture of a service"),
    "CPU014": Confidence(0.7, f"{_TRUST}: no real capture beyond its limit"),
    "CPU015": Confidence(0.7, _TWO),
    "ENV001.caching_allocator_off": Confidence(0.9, "docs/rules/ENV001.md: every allocation is one of the driver"),
    "ENV001.checks_for_debugging": Confidence(0.5, "docs/rules/ENV001.md: a check may cost little"),
    "ENV001.detailed_logs": Confidence(0.4, "docs/rules/ENV001.md: a log may cost little"),
    "ENV001.launch_blocking": Confidence(0.8, "docs/rules/ENV001.md: every launch waits"),
    "ENV001.task_queue_off": Confidence(0.7, "docs/rules/ENV001.md: every launch is on the thread of Python"),
    "ENV002": Confidence(0.3, _NONE),
    "ENV003": Confidence(0.5, _NONE),
    "ENV004": Confidence(0.9, _TWO),
    "ENV005": Confidence(0.9, _TWO),
    "HOT001": Confidence(0.6, _TOOL),
    "HOT001.python": Confidence(0.8, "docs/rules/HOT001.md: the time is in Python itself"),
    "HOT002": Confidence(0.6, f"{_TRUST}: measured on programs of ours only"),
    "HOT003": Confidence(0.75, _DIRECT),
    "HOT003.loads": Confidence(0.85, "docs/rules/HOT003.md: the forward passes read batches of a loader"),
    "HOT004": Confidence(0.8, f"{_TRUST}: five captures"),
    "HOT005": Confidence(0.7, _THREE),
    "HOT005.line": Confidence(0.8, "docs/rules/HOT005.md: the longer steps have a line of their own"),
    "HOT006": Confidence(0.7, _ONE),
    "IO001": Confidence(0.9, _TWO),
    "IO001.one_long_fetch": Confidence(0.5, "docs/rules/IO001.md: one long wait may be the start of the program"),
    "IO002": Confidence(0.85, _TOOL),
    "IO002.crowded_or_one_long_fetch": Confidence(
        0.5, "docs/rules/IO002.md: the cores may be full, or one long wait the start of the program"
    ),
    "IO003": Confidence(0.6, _TWO),
    "IO004": Confidence(0.7, _NONE),
    "IO005": Confidence(0.8, _NONE),
    "IO006": Confidence(0.7, _TWO),
    "IO007": Confidence(0.9, f"{_TRUST}: a capture and case IO-13"),
    "MEM001": Confidence(0.8, _TWO),
    "MEM002": Confidence(0.8, f"{_TRUST}: fires on three captures, all of which hold the start of the program"),
    "MEM003": Confidence(0.5, _NONE),
    "MEM004": Confidence(0.6, _NONE),
    "MEM005": Confidence(0.7, _TWO),
    "MEM006": Confidence(0.6, _NO_DEVICE),
    "MEM007": Confidence(0.9, _NONE),
    "PAR001": Confidence(0.8, _TOOL),
    "PAR002": Confidence(0.7, _TOOL),
    "PAR002.estimated": Confidence(0.5, "docs/rules/PAR002.md: the time of a stage is estimated"),
    "PAR003": Confidence(0.9, _TOOL),
    "PAR004": Confidence(0.7, _NONE),
    "PAR005": Confidence(0.4, _NONE),
    "fleet.check": Confidence(0.9, "docs/evidence/node-check.md: planted slow nodes and healthy sweeps"),
    "fleet.probe": Confidence(0.9, "docs/evidence/probe.md: planted losses, delays and slow links"),
    "jobs.change": Confidence(0.9, "docs/evidence/detection.md: a change that the rank sum verifies"),
    "jobs.counters": Confidence(0.7, "docs/evidence/detection.md: a cause read from counters alone"),
    "jobs.numbers": Confidence(0.9, "docs/capture.md: a number that is not finite, or a loss that leaves its range"),
    "jobs.stuck": Confidence(0.95, "docs/capture.md: stacks of all ranks stand still"),
    "migrate.guess": Confidence(0.2, "docs/migration.md: words alone"),
    "migrate.likely": Confidence(0.6, "docs/migration.md: habits of naming; calls the support table does not list"),
    "migrate.proven": Confidence(0.95, "docs/migration.md: names and types that are resolved"),
    "migrate.run": Confidence(1.0, "docs/migration.md: seen in a run of the program itself"),
    "precision.exact": Confidence(
        0.95, f"above the mean of {_FIRST_CONTACT}, since all before agrees in every bit; not counted apart"
    ),
    "precision.near": Confidence(
        0.5, f"below the mean of {_FIRST_CONTACT}, since it is little more than rounding; not counted apart"
    ),
    "precision.replay": Confidence(1.0, "computed again in float64 from recorded inputs"),
    "precision.rounding": Confidence(0.73, _FIRST_CONTACT),
    "precision.setup": Confidence(1.0, "both values stand in the snapshots"),
}  # fmt: skip
"""By the code of a rule, or the wing and what its finding rests on. `CODE.evidence` is for other evidence of a rule."""


def confidence(name: str) -> float:
    """How sure a finding is that rests on this; raises `KeyError` for what the table does not hold."""
    return CONFIDENCE[name].value
