"""From findings to a plan: replays, ranking, cases that fit, and what to record next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hermes.knowledge.fits import JobKind, fitted_actions
from hermes.knowledge.host_work import OUTSIDE
from hermes.knowledge.vendors import HOST_ONLY, chips
from hermes.model.code_measures import CodeLine
from hermes.model.comm_measures import GroupOp
from hermes.model.compute_measures import ChipUsed
from hermes.model.finding import Loss
from hermes.model.host_measures import Before, StepHost
from hermes.model.job import Job, JobMeasures
from hermes.model.measures import StepSplit
from hermes.model.path_measures import StepPath
from hermes.model.plan import Plan
from hermes.model.report import Coverage, Input
from hermes.model.structure_measures import JobSigns
from hermes.model.typical_step import JobSteps
from hermes.profiles.advise.collect import UNRECORDED, Recorded, next_captures
from hermes.profiles.advise.facts import Facts
from hermes.profiles.advise.fitting import fitting
from hermes.profiles.advise.noise import noise_floor, without_profiler
from hermes.profiles.advise.plan import plan
from hermes.profiles.advise.profiler_cost import unprofiled
from hermes.profiles.advise.ranking import Ranking, rank
from hermes.profiles.advise.room import Room
from hermes.profiles.pipeline.gains import StepReplay, with_gains
from hermes.profiles.rules import ALL
from hermes.profiles.tree.kinds import Kinds
from hermes.profiles.tree.room import within


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a plan rests on beside findings."""

    splits: tuple[StepSplit, ...]
    paths: tuple[StepPath, ...]
    inputs: tuple[Input, ...]
    coverage: Coverage
    frameworks: tuple[str, ...] = ()
    before: tuple[Before, ...] = ()
    hosts: tuple[StepHost, ...] = ()
    code: tuple[CodeLine, ...] = ()
    signs: tuple[JobSigns, ...] = ()
    groups: tuple[GroupOp, ...] = ()
    used: tuple[ChipUsed, ...] = ()

    @property
    def unrecorded_ns(self) -> int:
        """Time of the slowest rank's step in no recorded call, and with no work of a device; 0 where frames tell all.

        What a capture with Python's frames leaves out is no Python.
        """
        split = JobSteps(self.splits).slowest
        if split is None or any(row.rank == split.rank and row.source == "frames" for row in self.code):
            return 0
        parts = (part for host in self.hosts if host.rank == split.rank for part in host.parts)
        outside = (part for part in parts if part.reason == OUTSIDE)
        ns = sum(part.ns if part.device_free_ns is None else part.device_free_ns for part in outside)
        # Marks of steps that overlap give a step the time of others.
        return min(ns, split.window_ns) if ns >= UNRECORDED.value * split.window_ns else 0

    @property
    def job(self) -> JobKind:
        """What advice must fit."""
        said = {one.trains for one in self.signs}
        moved = {one.library for one in self.groups}
        return JobKind(
            chips=chips(one.vendor for one in self.inputs),
            frameworks=self.frameworks,
            libraries=tuple(sorted({name for one in self.signs for name in one.libraries})),
            transports=() if None in moved else tuple(sorted(filter(None, moved))),
            types=self._types,
            trains=True if True in said else False if False in said else None,
        )

    @property
    def _types(self) -> tuple[str, ...]:
        """The types that the matrix units of every chip have; of a processor the rules ask the settings."""
        devices = {one.rank for one in self.inputs if one.vendor != HOST_ONLY}
        known = [{*one.matrix} if devices & {*one.ranks} else set() for one in self.used]
        return tuple(sorted(set.intersection(*known))) if known else ()


def ranked(findings: Sequence[Loss], replay: StepReplay, seen: Evidence, kinds: Kinds, job: Job) -> Ranking:
    """The findings with advice that fits and replayed gains, causes before what they cause, noise apart."""
    kind = seen.job
    findings = [replace(one, actions=fitted_actions(one.actions, kind)) for one in findings]
    floor = noise_floor(seen.splits, seen.paths)
    # Replays are of the step as it was captured, and of a device: its profiler hardly lengthens that one's work.
    step = None if job.steps.devices else unprofiled(seen.before, seen.splits)
    known = step or unprofiled(seen.before, seen.splits)
    if known is not None and known.captured_spread_ns is not None:
        captured = sum(split.rank == known.rank for split in seen.splits)
        floor = without_profiler(floor, known.captured_spread_ns, known.steps + captured)
    room = Room.of(job.steps)
    gained = with_gains(findings, replay, seen.paths[0] if seen.paths else None, room)
    return rank([within(job, one) for one in gained], replay, floor, step, room, kinds.claim)


def advised(ranking: Ranking, replay: StepReplay, seen: Evidence, measures: JobMeasures) -> Plan:
    """The plan; the symptoms of cases are held against the measures."""
    facts, job = Facts(measures), seen.job
    rules = {rule.code: rule for rule in ALL}
    fits = [fitting(rules[one.code], facts, job) for one in ranking.problems]
    captures = next_captures(ranking, _recorded(seen, facts))
    made = plan(ranking, fits, replay, captures, facts.steps)
    return replace(made, unrecorded_ns=seen.unrecorded_ns)


def _recorded(seen: Evidence, facts: Facts) -> Recorded:
    stacks = {str(value).lower() for value in facts.values("setting", "with_stack")}
    return Recorded(
        ranks=seen.coverage.ranks_seen,
        expected=seen.coverage.ranks_expected,
        levels=tuple(sorted({one.level for one in seen.inputs if one.level})),
        stacks=None if not stacks else "true" in stacks or "1" in stacks,
        vendors=tuple(sorted({one.vendor for one in seen.inputs})),
        steps=facts.steps,
        unrecorded_ns=seen.unrecorded_ns,
        step_ns=max((split.window_ns for split in seen.splits), default=0),
    )
