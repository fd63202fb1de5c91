"""Everything that a report shows, as one value; `workflow` fills it, the renderers draw it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from hermes.base.errors import Diagnostic
from hermes.base.message import Text
from hermes.model.comm_measures import Communication
from hermes.model.compute_measures import Compute
from hermes.model.fault import Fault
from hermes.model.files_seen import FilesSeen
from hermes.model.finding import Loss
from hermes.model.host_measures import HostSide
from hermes.model.job import Job, JobMeasures, as_kind, flattened
from hermes.model.leaf import Leaf
from hermes.model.measures import (
    ArrivalWait,
    AscendSplit,
    ClockOffset,
    CommunicationTop,
    HostCallTop,
    KernelTop,
    LinkSpeed,
    OperatorTop,
    PeerWait,
    RankTotal,
    StepSplit,
    StreamBusy,
    TaskWait,
    TopRow,
)
from hermes.model.path_measures import StepFree, StepPath, path_rows
from hermes.model.plan import EMPTY, Plan
from hermes.model.structure_measures import Structure
from hermes.model.typical_step import JobSteps


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One capture that was read; `tp` to `ep` are the coordinates of its rank in the job, None where not recorded."""

    path: str
    format: str
    rank: int
    capture: str
    level: str | None
    chip: str | None
    vendor: str
    degraded: tuple[Text, ...]
    host: str | None = None
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    cp: int | None = None
    ep: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What the numbers rest on. `missing` says what is missing, the gravest first."""

    ranks_seen: tuple[int, ...]
    ranks_expected: int | None
    ranks_expected_source: Text
    steps: tuple[int, ...]
    missing: tuple[Text, ...]
    files: tuple[FilesSeen, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer: where most time can be won, on which rank, and in which step it shows.

    `leaf` is the kind of time of which most can be won, None where nothing can be won beyond the noise; `share` is the
    part of the steps that it takes, else that of the largest kind. `bound` is what that kind is: `compute`,
    `communication`, `copy`, `host` (the device is idle) or `unknown`. `awaited` is the rank that
    others wait for most, collected or not. `fault` is that of the first explanation.
    """

    bound: str
    message: Text
    rank: int | None
    step: int | None
    leaf: Leaf | None = None
    share: float | None = None
    awaited: int | None = None
    fault: Fault | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Top:
    """The four "top" tables."""

    kernels: tuple[TopRow, ...]
    operators: tuple[TopRow, ...]
    host_calls: tuple[TopRow, ...]
    communication: tuple[TopRow, ...]


@dataclass(frozen=True, kw_only=True)
class Report:
    """One analysis of one input; `more` are rows of measures that no other field holds."""

    version: str
    title: str
    verdict: Verdict
    inputs: tuple[Input, ...]
    coverage: Coverage
    steps: tuple[StepSplit, ...]
    ascend: tuple[AscendSplit, ...]
    ascend_notes: tuple[Text, ...]
    totals: tuple[RankTotal, ...]
    streams: tuple[StreamBusy, ...]
    clocks: tuple[ClockOffset, ...]
    paths: tuple[StepPath, ...]
    free: tuple[StepFree, ...]
    compute: Compute
    rank_waits: tuple[PeerWait, ...]
    waits: tuple[PeerWait, ...]
    links: tuple[LinkSpeed, ...]
    communication: Communication = field(default_factory=Communication)
    structure: Structure = field(default_factory=Structure)
    top: Top
    findings: tuple[Loss, ...]
    plan: Plan = EMPTY
    diagnostics: tuple[Diagnostic, ...]
    host: HostSide = field(default_factory=HostSide)
    more: tuple[object, ...] = ()

    @cached_property
    def measures(self) -> JobMeasures:
        """Every row of the report by its kind."""
        top = self.top
        rows: list[object] = [
                *self.steps, *self.ascend, *self.totals, *self.streams, *self.clocks, *self.links,
                *(as_kind(TaskWait, row) for row in self.waits),
                *(as_kind(ArrivalWait, row) for row in self.rank_waits),
                *(as_kind(KernelTop, row) for row in top.kernels),
                *(as_kind(OperatorTop, row) for row in top.operators),
                *(as_kind(HostCallTop, row) for row in top.host_calls),
                *(as_kind(CommunicationTop, row) for row in top.communication),
                *path_rows(self.paths, self.free),
                *flattened(self.host, self.compute, self.communication, self.structure),
        ]  # fmt: skip
        known = {type(row) for row in rows}
        return JobMeasures(
            Job(steps=JobSteps(self.steps)), [*rows, *(row for row in self.more if type(row) not in known)]
        )

    @property
    def degraded(self) -> bool:
        """Whether any input was damaged or doubtful."""
        return any(note.level == "degraded" for note in self.diagnostics)
