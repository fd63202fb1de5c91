"""From findings to a plan: replays, ranking, cases that fit, and what to record next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hermes.advise.bare import bare
from hermes.advise.collect import Recorded, next_captures
from hermes.advise.facts import Facts
from hermes.advise.fitting import CHIP_OF_VENDOR, Site, fitting
from hermes.advise.noise import noise_floor, without_profiler
from hermes.advise.plan import Plan, plan
from hermes.advise.ranking import Ranking, rank
from hermes.analyze.host_measures import Before
from hermes.analyze.measures import StepPath, StepSplit
from hermes.diagnose.finding import Finding
from hermes.diagnose.rules import ALL
from hermes.report.model import Coverage, Input
from hermes.workflow.gains import StepReplay, with_gains
from hermes.workflow.load import Loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a plan rests on beside findings."""

    splits: tuple[StepSplit, ...]
    paths: tuple[StepPath, ...]
    inputs: tuple[Input, ...]
    coverage: Coverage
    before: tuple[Before, ...] = ()


def ranked(findings: Sequence[Finding], replay: StepReplay, seen: Seen) -> Ranking:
    """The findings with replayed gains, causes before what they cause, noise apart."""
    floor = noise_floor(seen.splits, seen.paths)
    # Replays are of the step as it was captured, and of a device: its profiler hardly lengthens that one's work.
    devices = any(split.compute_ns is not None for split in seen.splits)
    step = None if devices else bare(seen.before, seen.splits)
    if step is not None and step.spread_ns is not None:
        captured = sum(split.rank == step.rank for split in seen.splits)
        floor = without_profiler(floor, step.spread_ns, captured)
    return rank(with_gains(findings, replay, seen.paths[0] if seen.paths else None), replay, floor, step)


def advised(ranking: Ranking, replay: StepReplay, seen: Seen, loaded: Loaded, document: Mapping[str, object]) -> Plan:
    """The plan; `document` is the report without it, which the symptoms of cases are held against."""
    facts, site = Facts(document), _site(seen, loaded)
    rules = {rule.code: rule for rule in ALL}
    fits = [fitting(rules[one.code], facts, site) for one in ranking.problems]
    captures = next_captures(ranking, _recorded(seen, facts))
    return plan(ranking, fits, replay, captures, facts.steps)


def _site(seen: Seen, loaded: Loaded) -> Site:
    frameworks = {
        str(name) for one in loaded.ranks for name in one.table("rank", "framework")["framework"].drop_nulls()
    }
    chips = {CHIP_OF_VENDOR[one.vendor] for one in seen.inputs if one.vendor in CHIP_OF_VENDOR}
    return Site(chips=tuple(sorted(chips)), frameworks=tuple(sorted(frameworks)))


def _recorded(seen: Seen, facts: Facts) -> Recorded:
    stacks = {str(value).lower() for value in facts.values("setting", "with_stack")}
    return Recorded(
        ranks=seen.coverage.ranks_seen,
        expected=seen.coverage.ranks_expected,
        levels=tuple(sorted({one.level for one in seen.inputs if one.level})),
        stacks=None if not stacks else "true" in stacks or "1" in stacks,
        vendors=tuple(sorted({one.vendor for one in seen.inputs})),
        steps=facts.steps,
    )
