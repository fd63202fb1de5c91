"""The report: all results of one analysis as one value, filled by `pipeline` and drawn by `report`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from hermes.base.errors import Diagnostic
from hermes.base.message import Text
from hermes.model.fault import Fault
from hermes.model.files_seen import FilesSeen
from hermes.model.finding import Loss
from hermes.model.job import Job, JobMeasures, Row, Rows
from hermes.model.leaf import Leaf
from hermes.model.path_measures import StepPath, path_rows
from hermes.model.plan import EMPTY, Plan
from hermes.model.step_measures import StepSplit
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
    """The ranks and data that the numbers of a report rest on. `missing` lists missing data, the gravest first."""

    ranks_seen: tuple[int, ...]
    ranks_expected: int | None
    ranks_expected_source: Text
    steps: tuple[int, ...]
    missing: tuple[Text, ...]
    files: tuple[FilesSeen, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer: where most time can be won, on which rank, and in which step it shows.

    `leaf` is the kind of time with the largest possible gain; None if no gain exceeds the noise. `share` is its part of
    the steps, or that of the largest kind. `most` is the kind with most of the time. `bound` says what the former kind
    is: `compute`, `communication`, `copy`, `host` (the device is idle) or `unknown`. `awaited` is the rank that others
    wait for most, captured or not. `fault` is the fault of the first explanation.
    """

    bound: str
    message: Text
    rank: int | None
    step: int | None
    leaf: Leaf | None = None
    share: float | None = None
    most: Leaf | None = None
    most_share: float | None = None
    awaited: int | None = None
    fault: Fault | None = None


@dataclass(frozen=True, kw_only=True)
class Report:
    """The report of one analysis of one input; `measured` are rows of every kind that no other field holds."""

    version: str
    title: str
    verdict: Verdict
    inputs: tuple[Input, ...]
    coverage: Coverage
    steps: tuple[StepSplit, ...]
    ascend_notes: tuple[Text, ...]
    paths: tuple[StepPath, ...]
    findings: tuple[Loss, ...]
    plan: Plan = EMPTY
    diagnostics: tuple[Diagnostic, ...]
    measured: tuple[object, ...] = ()

    @cached_property
    def measures(self) -> JobMeasures:
        """Every measured row of the report, by kind."""
        rows = [*self.steps, *path_rows(self.paths), *self.measured]
        return JobMeasures(Job(steps=JobSteps(self.steps)), rows)

    def rows(self, kind: type[Row]) -> Rows[Row]:
        """The rows of one kind; empty where nothing of it was measured."""
        return self.measures.rows(kind)

    @property
    def degraded(self) -> bool:
        """Whether any input file was damaged or doubtful."""
        return any(note.level == "degraded" for note in self.diagnostics)
