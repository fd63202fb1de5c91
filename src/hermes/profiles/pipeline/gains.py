"""Predicts the gains of findings, by replaying the change that stands for their fix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from hermes.base.errors import InputError
from hermes.base.message import Message, Text
from hermes.model.fault import Fault
from hermes.model.finding import Loss
from hermes.model.limit import Limit
from hermes.model.path_measures import StepPath
from hermes.profiles.advise.bound_gains import GainBound, within_step
from hermes.profiles.advise.noise import LEAST
from hermes.profiles.load import Loaded
from hermes.profiles.pipeline.critical_paths import StepLoader
from hermes.profiles.pipeline.job_outline import JobOutline
from hermes.profiles.pipeline.load_replay_step import step_of
from hermes.profiles.rules.gain_messages import more_changes, of_replay
from hermes.profiles.whatif.changes import parse
from hermes.profiles.whatif.replay import Prediction, predict
from hermes.profiles.whatif.step_event_graph import JobStep

# With more ranks, a replay of each finding takes longer than the rest of the analysis; `hermes whatif` has no limit.
_RANKS = 64
_NAMED, _LETTERS = 3, 60
UNEXPLAINED = Limit(value=0.05, unit="of window", source="docs/evidence/noise.md")


class StepReplay:
    """Replays changes of the slowest rank's typical step, each set once; the first replay builds the step."""

    def __init__(self, loaded: Loaded, job: JobOutline, load: StepLoader) -> None:
        self._loaded, self._job, self._load = loaded, job, load
        self._known: dict[frozenset[str], Prediction] = {}

    @cached_property
    def _step(self) -> JobStep | None:
        if len(self._loaded.ranks) > _RANKS:
            return None
        try:
            return step_of(self._loaded, self._job, self._load)
        except InputError:
            # Without a step on the device there is nothing to replay, and the report says so.
            return None

    def __call__(self, specs: Sequence[str]) -> Prediction | None:
        """The gain of changes that are made together; None if no step can be replayed, or there is no change."""
        if not specs or self._step is None:
            return None
        asked = frozenset(specs)
        if asked not in self._known:
            self._known[asked] = predict(self._step, [parse(spec) for spec in specs])
        return self._known[asked]


def with_gains(
    findings: Sequence[Loss], replay: StepReplay, path: StepPath | None, room: GainBound
) -> tuple[Loss, ...]:
    """The findings with gains from a replay if it is possible; the other findings keep their bound.

    No loss exceeds the step. `within_step` bounds gains: a replay may also give what belongs to other fixes. If much of
    the critical path has no explanation, a replay misses what that time hides: then the gain is only a bound.
    """
    told = path is None or path.unexplained_share <= UNEXPLAINED.value
    return tuple(within_step(_with_gain(finding, replay, told=told), room) for finding in findings)


def _method(specs: Sequence[str], method: Text) -> Message:
    """One line that says how the replay was made; kernel names are cut, since they may be hundreds of letters long."""
    short = [spec if len(spec) <= _LETTERS else f"{spec[: _LETTERS - 1]}…" for spec in specs[:_NAMED]]
    more = more_changes(n=len(specs) - _NAMED) if len(specs) > _NAMED else None
    return of_replay(changes=short, more=more, method=method)


def _with_gain(finding: Loss, replay: StepReplay, *, told: bool) -> Loss:
    found = replay(finding.replay)
    if found is None:
        return finding
    low = max(found.low_ns, 0)
    high = max(low, finding.gain.high_ns)
    if told and found.settled and found.low_ns < -LEAST.value * found.step_ns:
        # More layers on the stage whose gradients take longest lengthen the step: then no bound promises a gain.
        high = 0
    if finding.fault is Fault.STRAGGLER:
        if not found.settled and 2 * low < finding.gain.high_ns:
            # A single step does not tell why the rank began late: the fix gives at least what the rank loses within the
            # step.
            return replace(finding, gain=replace(finding.gain, low_ns=min(low, finding.gain.high_ns)))
        # If making the rank as fast as the others gives nothing, the rank was late by chance, as other ranks are in
        # turn.
        high = max(low, min(finding.gain.high_ns, found.high_ns))
    return replace(
        finding,
        gain=replace(
            finding.gain,
            low_ns=low,
            high_ns=high,
            method=_method(finding.replay, finding.gain.method),
            basis="replayed" if told else "bound",
        ),
    )
