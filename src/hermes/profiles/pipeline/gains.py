"""Predicted gains of findings: the replay of what stands for their cure."""

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
from hermes.profiles.advise.noise import LEAST
from hermes.profiles.advise.room import Room, of_host
from hermes.profiles.load import Loaded
from hermes.profiles.pipeline.job_outline import JobOutline
from hermes.profiles.pipeline.paths import StepLoader
from hermes.profiles.pipeline.whatif import step_of
from hermes.profiles.rules.gain_messages import more_changes, of_replay
from hermes.profiles.whatif.changes import parse
from hermes.profiles.whatif.job import JobStep
from hermes.profiles.whatif.replay import Prediction, predict

# Beyond so many ranks a replay of each finding takes longer than all the rest; `hermes whatif` has no such limit.
_RANKS = 64
_NAMED, _LETTERS = 3, 60
# So far beyond what a rule counted a replay of it is believed.
_BEYOND = 1.5
UNEXPLAINED = Limit(value=0.05, unit="of window", source="docs/evidence/noise.md")


class StepReplay:
    """Replays changes of the slowest rank's typical step, each set of them once; the step is built when asked for."""

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
        """What changes give together; None where no step can be replayed, or nothing is to be changed."""
        if not specs or self._step is None:
            return None
        asked = frozenset(specs)
        if asked not in self._known:
            self._known[asked] = predict(self._step, [parse(spec) for spec in specs])
        return self._known[asked]


def with_gains(findings: Sequence[Loss], replay: StepReplay, path: StepPath | None, room: Room) -> tuple[Loss, ...]:
    """The findings with gains from a replay where one is possible; the rest keep their bound.

    Nothing costs more than the step, and no cure gives more than what it cures costs: a replay may find more, where the
    loss hides others, and those are for their own cures. Where much of the critical path has no explanation, a replay
    misses what stands behind that: then the bound is what a finding is held to.
    """
    told = path is None or path.unexplained_share <= UNEXPLAINED.value
    return tuple(_within(_with_gain(finding, replay, told=told), room) for finding in findings)


def _within(finding: Loss, room: Room) -> Loss:
    """Gain at most cost, cost at most the step."""
    if finding.endangers:
        return finding
    cost = finding.cost_ns
    if finding.gain.replayed and of_host(finding.replay):
        # A replay also sees what the host's loss did to other ranks, and what it kept from running beside other work.
        cost = max(cost, min(finding.gain.low_ns, round(_BEYOND * cost), room.host_ns))
    if finding.gain.replayed and finding.fault is Fault.STRAGGLER:
        # A wait that names its peer is one of several: a replay sees all collectives that the rank holds up.
        cost = max(cost, min(finding.gain.low_ns, room.waits_ns))
    cost = min(cost, room.step_ns) if room.step_ns else cost
    high = min(finding.gain.high_ns, cost)
    gain = replace(finding.gain, low_ns=min(finding.gain.low_ns, high), high_ns=high)
    share = finding.share * cost / finding.cost_ns if finding.cost_ns else finding.share
    return replace(finding, cost_ns=cost, share=min(share, 1.0), gain=gain)


def _method(specs: Sequence[str], method: Text) -> Message:
    """How the replay was made, in a line: names of kernels may be hundreds of letters long."""
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
        # Layers that are given to a stage whose gradients take longest make the step longer: no bound says otherwise.
        high = 0
    if finding.fault is Fault.STRAGGLER:
        if not found.settled and 2 * low < finding.gain.high_ns:
            # Of one step nobody knows what made the rank begin late: it gives at least what it loses within.
            return replace(finding, gain=replace(finding.gain, low_ns=min(low, finding.gain.high_ns)))
        # Where making the rank as fast as the others gives nothing, it was late by chance, as others are in turn.
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
