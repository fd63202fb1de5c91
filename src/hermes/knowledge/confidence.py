"""The confidence of each kind of finding, by the evidence behind it: one table with sources.

The number orders findings and is shown. Nothing else depends on it: fields of findings tell which finding explains
which.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Confidence(NamedTuple):
    """The chance that a finding of this kind is right, and the source of that number."""

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
    "CMP001.idle_cores": Confidence(0.5, _NONE),
    "CMP001.wrong_core": Confidence(0.5, _NONE),
    "CMP002": Confidence(0.5, _TWO),
    "CMP002.layers": Confidence(0.6, _TWO),
    "CMP002.no_device": Confidence(0.4, "docs/rules/CMP002.md: a compiler for processors may not fuse them"),
    "CMP002.sequences": Confidence(0.5, _NONE),
    "CMP003": Confidence(0.9, f"{_TRUST}: a capture and case CMP-01"),
    "CMP004": Confidence(0.8, _TWO),
    "CMP004.casts": Confidence(0.8, _TWO),
    "CMP004.transposed_copies": Confidence(0.8, f"{_TRUST}: a capture and case CMP-10"),
    "CMP007": Confidence(0.6, f"{_TRUST}: a capture and NVIDIA, Matrix Multiplication Background"),
    "CMP007.none_aligned": Confidence(0.4, "docs/rules/CMP007.md: no aligned product is there to compare with"),
    "CMP009": Confidence(0.6, f"{_TRUST}: a capture and case CMP-03"),
    "CMP009.float64": Confidence(0.7, "docs/rules/CMP009.md: float64 on a processor has half as many numbers a lane"),
    "CMP011": Confidence(0.9, _TOOL),
    "CMP011.low_clock": Confidence(0.9, _TOOL),
    "CMP012": Confidence(0.7, f"{_TRUST}: a capture and case CMP-30"),
    "CMP014": Confidence(0.8, _THREE),
    "CMP015": Confidence(0.45, _ONE),
    "CMP015.table_gradients": Confidence(0.6, f"{_TRUST}: a capture and case CMP-44"),
    "CMP018": Confidence(0.7, f"{_TRUST}: no real capture shows it right"),
    "CMP032": Confidence(0.25, _NEW),
    "CMP033": Confidence(0.7, _THREE),
    "CMP034": Confidence(0.6, f"{_TRUST}: two captures of one of its six forms, distances by their differences"),
    "COM001": Confidence(0.9, _TWO),
    "COM001.no_device": Confidence(0.4, "docs/rules/COM001.md: collectives need the cores that compute beside them"),
    "COM001.unrecorded": Confidence(0.5, "docs/rules/COM001.md: waiting is not recorded apart from transfers"),
    "COM002": Confidence(0.8, f"{_TRUST}: a capture and case COM-21"),
    "COM002.in_fused_kernels": Confidence(0.7, _NONE),
    "COM002.inferred": Confidence(0.7, "docs/rules/COM002.md: the members of the group were not recorded"),
    "COM002.more_work": Confidence(0.6, "docs/rules/COM002.md: the others take over part of its work"),
    "COM002.not_collected": Confidence(0.7, "docs/rules/COM002.md: the awaited rank was not collected"),
    "COM004": Confidence(0.8, _TOOL),
    "COM004.fitted": Confidence(0.6, "docs/rules/COM004.md: the fixed cost is that of a fitted line"),
    "COM004.synchronised_norms": Confidence(0.6, _NEW),
    "COM005": Confidence(0.6, _TOOL),
    "COM005.none_aligned": Confidence(0.3, "docs/rules/COM005.md: no aligned operation is there to compare with"),
    "COM006": Confidence(0.6, _TWO),
    "COM008": Confidence(0.4, _TOOL),
    "COM008.slow_link": Confidence(0.9, _TOOL),
    "COM008.stalled_transfers": Confidence(0.8, _TOOL),
    "COM008.stalled_transfers_no_rank": Confidence(0.5, "docs/rules/COM008.md: no rank was found that stalls"),
    "COM008.wrong_transport": Confidence(0.7, _NONE),
    "COM010": Confidence(0.9, _TWO),
    "CPU002": Confidence(0.7, _TWO),
    "CPU003": Confidence(0.7, _TWO),
    "CPU003.synchronisation": Confidence(0.65, _TWO),
    "CPU004": Confidence(0.75, _TWO),
    "CPU006": Confidence(0.9, _TOOL),
    "CPU008": Confidence(0.5, _NONE),
    "CPU009": Confidence(0.7, _DIRECT),
    "CPU009.no_loop": Confidence(
        0.4, "docs/rules/CPU009.md: a small model has many operators, and no two can be put together"
    ),
    "CPU010": Confidence(0.7, _NO_DEVICE),
    "CPU010.too_few": Confidence(0.2, _NO_DEVICE),
    "CPU011": Confidence(0.8, _TWO),
    "CPU012": Confidence(0.8, _NONE),
    "CPU012.beside_the_loop": Confidence(0.7, _TWO),
    "CPU013": Confidence(0.6, f"{_TRUST}: no real capture of a service"),
    "CPU014": Confidence(0.7, f"{_TRUST}: no real capture beyond its limit"),
    "ENV001.caching_allocator_off": Confidence(0.9, "docs/rules/ENV001.md: every allocation is one of the driver"),
    "ENV001.checks_for_debugging": Confidence(0.5, "docs/rules/ENV001.md: a check may cost little"),
    "ENV001.detailed_logs": Confidence(0.4, "docs/rules/ENV001.md: a log may cost little"),
    "ENV001.launch_blocking": Confidence(0.8, "docs/rules/ENV001.md: every launch waits"),
    "ENV001.task_queue_off": Confidence(0.7, "docs/rules/ENV001.md: every launch is on the thread of Python"),
    "ENV001.uneven_environment": Confidence(0.5, _NONE),
    "ENV002": Confidence(0.3, _NONE),
    "ENV004": Confidence(0.9, _TWO),
    "ENV004.setting": Confidence(0.8, "docs/rules/ENV004.md: the setting is recorded, its tracebacks are not"),
    "ENV005": Confidence(0.9, _TWO),
    "ENV006": Confidence(0.9, f"{_TRUST}: a rule without a row; the calls are the fault itself"),
    "HOT001": Confidence(0.6, _TOOL),
    "HOT001.python": Confidence(0.8, "docs/rules/HOT001.md: the time is in Python itself"),
    "HOT003": Confidence(0.75, _DIRECT),
    "HOT003.backward": Confidence(0.7, _ONE),
    "HOT003.gradients": Confidence(0.8, f"{_TRUST}: five captures"),
    "HOT003.loads": Confidence(0.85, "docs/rules/HOT003.md: the forward passes read batches of a loader"),
    "HOT005": Confidence(0.7, _THREE),
    "HOT005.line": Confidence(0.8, "docs/rules/HOT005.md: the longer steps have a line of their own"),
    "IO001": Confidence(0.9, _TWO),
    "IO001.one_long_fetch": Confidence(0.5, "docs/rules/IO001.md: one long wait may be the start of the program"),
    "IO001.slow_sample": Confidence(0.7, _NONE),
    "IO001.slow_workers": Confidence(0.85, _TOOL),
    "IO001.slow_workers_unsure": Confidence(
        0.5, "docs/rules/IO001.md: the cores may be full, or one long wait the start of the program"
    ),
    "IO001.workers_anew": Confidence(0.6, _TWO),
    "IO006": Confidence(0.7, _TWO),
    "IO007": Confidence(0.9, f"{_TRUST}: a capture and case IO-13"),
    "MEM001": Confidence(0.8, _TWO),
    "MEM001.of_batches": Confidence(0.8, _NONE),
    "MEM002": Confidence(0.8, f"{_TRUST}: fires on three captures, all of which hold the start of the program"),
    "MEM002.in_pieces": Confidence(0.5, _NONE),
    "MEM004": Confidence(0.6, _NONE),
    "MEM005": Confidence(0.7, _TWO),
    "MEM006": Confidence(0.6, _NO_DEVICE),
    "MEM007": Confidence(0.9, _NONE),
    "PAR001": Confidence(0.8, _TOOL),
    "PAR001.bubble": Confidence(0.7, _TOOL),
    "PAR001.estimated": Confidence(0.5, "docs/rules/PAR001.md: the time of a stage is estimated"),
    "PAR001.few_micro_batches": Confidence(0.4, _NONE),
    "PAR003": Confidence(0.9, _TOOL),
    "PAR003.experts": Confidence(0.7, _NONE),
    "fleet.check": Confidence(0.9, "docs/evidence/node-check.md: planted slow nodes and healthy sweeps"),
    "fleet.probe": Confidence(0.9, "docs/evidence/probe.md: planted losses, delays and slow links"),
    "fleet.straggler": Confidence(0.8, "docs/fleet.md: own time over the ranks of all hosts, as on one host"),
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
"""The confidence by a rule's code, or by package and kind of evidence.

`CODE.evidence` is for other evidence of a rule.
"""


def confidence(name: str) -> float:
    """The confidence of findings that rest on this evidence; raises `KeyError` for a name that is not in the table."""
    return CONFIDENCE[name].value
