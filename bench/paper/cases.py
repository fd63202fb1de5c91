"""Published cases as data: figures before and after the fix, their source, and how the state before is reproduced."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from hermes.model.fault import Fault
from hermes_testing import Fault as Planted
from hermes_testing import Job

SUMMARY = "Hermes, USENIX ATC 2025, by its public summary"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One published case; times are of a step, None where none was published.

    `program` stands in `bench/paper/programs` and is captured as a user would; else `job` is modelled, and `cured` is
    the same job after the cure. `faults` are the right names of the cause. `slower` is the range that was published for
    kernels beside transfers, as a share. With `search` `hermes whatif --search communication` predicts the step after.
    """

    name: str
    published: str
    source: str
    faults: tuple[Fault, ...]
    program: str = ""
    job: Job | None = None
    cured: Job | None = None
    before_ms: float | None = None
    after_ms: float | None = None
    slower: tuple[float, float] | None = None
    search: bool = False

    @property
    def made(self) -> Literal["program", "model"]:
        """How the state before the fix is reproduced."""
        return "program" if self.program else "model"


_HEALTHY = Job(ranks=1, steps=6, layers=1, faults=(Planted(kind="slow_rank_compute", amount=18),))
"""A step of 17.2 ms, which is 90 ms less the 72.8 ms between two steps."""
_RESNET = Case(
    name="resnet50_workers",
    published="ResNet-50, 1 to 12 workers: 90 to 18 ms; 72.8 ms before lie between steps",
    source=f"{SUMMARY}; the split: MindSpore r1.7, performance debugging cases (90 to 18.07 ms)",
    faults=(Fault.TOO_FEW_WORKERS,),
    program="resnet50",
    before_ms=90.0,
    after_ms=18.0,
)
_WAITS = Planted(kind="data_wait", amount=72_800)
_OVERLAP = Job(ranks=8, steps=6, hosts=2)


def _contention(percent: int) -> Case:
    return Case(
        name=f"contention_{percent}",
        published="compute beside communication loses 20 to 40%; no step was published",
        source=SUMMARY,
        faults=(Fault.CONTENTION,),
        job=replace(_OVERLAP, contention=percent),
        cured=_OVERLAP,
        slower=(0.20, 0.40),
    )


_FUSED = Job(ranks=8, steps=4, layers=6, links=35, bucket_kb=1_048_576)
"""All gradients in one bucket: a step of 76.3 ms, and nothing of its 21.7 ms of communication is hidden."""
_VGG = Case(
    name="vgg16_buckets",
    published="VGG16, 8 ranks: 21.8 of 76.5 ms are exposed communication, then 3.6 of 56.6 ms",
    source=SUMMARY,
    faults=(Fault.EXPOSED_COMMUNICATION,),
    job=_FUSED,
    cured=replace(_FUSED, bucket_kb=25 * 1_024),
    before_ms=76.5,
    after_ms=56.6,
)

CASES = (
    _RESNET,
    replace(
        _RESNET, name="resnet50_workers_ascend", program="", cured=_HEALTHY,
        job=replace(_HEALTHY, faults=(*_HEALTHY.faults, _WAITS)),
    ),
    *map(_contention, (20, 30, 40)),
    Case(
        name="remote_reading",
        published="slow input is mostly read from afar; no figure was published",
        source=SUMMARY,
        faults=(Fault.DATA_READING,),
        program="remote_reading",
    ),
    _VGG,
    replace(_VGG, name="vgg16_buckets_searched", search=True),
    Case(
        name="foreign_process",
        published="GPT-3, a process of somebody else: 444 to 374 ms a step; 128 to 4 slow steps of 4,989",
        source=SUMMARY,
        faults=(Fault.CORES_FULL,),
        program="foreign_process",
        before_ms=444.0,
        after_ms=374.0,
    ),
    Case(
        name="flapping_port",
        published="networks fail mostly by ports that flap; no figure was published",
        source=SUMMARY,
        faults=(Fault.STALLED_TRANSFERS,),
        job=replace(_OVERLAP, faults=(Planted(kind="retransmission"),)),
        cured=_OVERLAP,
    ),
)  # fmt: skip
