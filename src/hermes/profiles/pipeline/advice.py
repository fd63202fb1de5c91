"""The advice stage of the analysis: turns findings into a plan by replay, ranking, cases and the next capture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hermes.knowledge.advice_conditions import JobKind, fitted_actions
from hermes.knowledge.recorders import Recorder
from hermes.knowledge.vendor_traits import HOST_ONLY, chips
from hermes.model.code_measures import CodeLine
from hermes.model.comm_measures import GroupOp
from hermes.model.compute_measures import ChipUsed
from hermes.model.finding import Loss
from hermes.model.host_measures import Before
from hermes.model.job import JobMeasures
from hermes.model.leaf import Leaf
from hermes.model.path_measures import StepPath
from hermes.model.plan import Plan, Unprofiled
from hermes.model.report import Coverage, Input
from hermes.model.step_measures import StepSplit
from hermes.model.structure_measures import JobSigns
from hermes.profiles.advise.bound_gains import GainBound, within_leaf
from hermes.profiles.advise.case_symptoms import JobFacts
from hermes.profiles.advise.matching_cases import fitting
from hermes.profiles.advise.next_capture import UNRECORDED, CaptureContents, next_captures
from hermes.profiles.advise.noise import noise_floor, noise_floor_of_step, without_profiler
from hermes.profiles.advise.plan import plan
from hermes.profiles.advise.profiler_cost import unprofiled
from hermes.profiles.advise.rank_findings import Ranking, rank
from hermes.profiles.pipeline.gains import StepReplay, with_gains
from hermes.profiles.rules._limits import FREE
from hermes.profiles.rules.rule import by_share
from hermes.profiles.tree.leaf_kinds import LeafKinds
from hermes.profiles.tree.start_up import start_up


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The evidence of a plan beside its findings: measures, inputs, coverage and frameworks of the job.

    `recorder` is the program that recorded it, if known; `host`: calls of the host were recorded.
    """

    measures: JobMeasures
    inputs: tuple[Input, ...]
    coverage: Coverage
    frameworks: tuple[str, ...]
    recorder: Recorder | None = None
    host: bool = True

    def unrecorded(self, kinds: LeafKinds) -> float:
        """The share of the step in which the host recorded nothing, if it is large; 0 if Python frames were recorded.

        In a capture with Python frames, unrecorded time is not Python.
        """
        if any(row.source == "frames" for row in self.measures.rows(CodeLine)):
            return 0.0
        share = sum(kind.share for kind in kinds.every if kind.leaf is Leaf.NOT_RECORDED)
        return share if share >= UNRECORDED.value else 0.0

    @property
    def job(self) -> JobKind:
        """The job's frameworks, chips and types, which advice must fit."""
        signs = self.measures.rows(JobSigns)
        said = {one.trains for one in signs}
        moved = {one.library for one in self.measures.rows(GroupOp)}
        return JobKind(
            chips=chips(one.vendor for one in self.inputs),
            frameworks=tuple(sorted({*self.frameworks, *(name for one in signs for name in one.frameworks)})),
            libraries=tuple(sorted({name for one in signs for name in one.libraries})),
            transports=() if None in moved else tuple(sorted(filter(None, moved))),
            types=self._types,
            # If nothing tells that a job trains, advice about training is left out.
            trains=True in said,
        )

    @property
    def _types(self) -> tuple[str, ...]:
        """The data types that the matrix units of every chip have; for processors, rules read the settings instead."""
        devices = {one.rank for one in self.inputs if one.vendor != HOST_ONLY}
        known = [{*one.matrix} if devices & {*one.ranks} else set() for one in self.measures.rows(ChipUsed)]
        return tuple(sorted(set.intersection(*known))) if known else ()


def without_profiler_on_host(measures: JobMeasures) -> Unprofiled | None:
    """The step without the profiler, if no device computes: the profiler hardly lengthens the device's work."""
    steps = measures.job.steps
    return None if steps.devices else unprofiled(measures.rows(Before), steps.every)


def ranked(
    findings: Sequence[Loss], replay: StepReplay, seen: Evidence, kinds: LeafKinds, step: Unprofiled | None
) -> Ranking:
    """The findings ranked, with advice that fits and replayed gains: causes before their effects, without noise.

    `step` is that of `without_profiler_on_host`. Replays are of the step as captured, and of a device.
    """
    kind, job = seen.job, seen.measures.job
    splits, before, paths = job.steps.every, seen.measures.rows(Before), seen.measures.rows(StepPath)
    findings = [replace(one, actions=fitted_actions(one.actions, kind)) for one in findings]
    marked = job.steps.marked
    floor = noise_floor_of_step(noise_floor(splits, paths), kinds.step_ns, marked=marked > 0)
    known = step or unprofiled(before, splits)
    if known is not None and known.captured_spread_ns is not None:
        captured = sum(split.rank == known.rank for split in splits)
        floor = without_profiler(floor, known.captured_spread_ns, known.steps + captured)
    room = GainBound.of(job.steps)
    gained = with_gains(findings, replay, paths.only, room)
    bounded = [kinds.placed(within_leaf(job, one)) for one in gained]
    return rank(bounded, replay, floor, step, room, kinds.claim)


def advised(ranking: Ranking, replay: StepReplay, seen: Evidence, measures: JobMeasures, kinds: LeafKinds) -> Plan:
    """The plan for ranked findings; symptoms of cases are compared with the measures."""
    facts, job = JobFacts(measures), seen.job
    fits = [fitting(one, facts, job) for one in ranking.problems]
    unrecorded = seen.unrecorded(kinds)
    captures = next_captures(ranking, _recorded(seen, facts, unrecorded, kinds))
    made = plan(ranking, fits, replay, captures, facts.steps)
    return replace(made, unrecorded=unrecorded)


def _recorded(seen: Evidence, facts: JobFacts, unrecorded: float, kinds: LeafKinds) -> CaptureContents:
    stacks = {str(value).lower() for value in facts.values("setting", "with_stack")}
    return CaptureContents(
        ranks=seen.coverage.ranks_seen,
        expected=seen.coverage.ranks_expected,
        levels=tuple(sorted({one.level for one in seen.inputs if one.level})),
        stacks=None if not stacks else "true" in stacks or "1" in stacks,
        vendors=tuple(sorted({one.vendor for one in seen.inputs})),
        steps=facts.steps,
        unrecorded=unrecorded,
        recorder=seen.recorder,
        host=seen.host,
        idle=any(map(_is_idle, seen.measures.job.steps.typical_of_each)),
        started=start_up(seen.measures.job.steps, kinds),
    )


def _is_idle(split: StepSplit) -> bool:
    """Whether a device is idle for a notable part of a step."""
    return bool(split.window_ns) and by_share(FREE, (split.free_ns or 0) / split.window_ns)
