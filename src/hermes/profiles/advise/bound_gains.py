"""Bounds costs and gains: by the leaf, the step, the host's part of the step, and how well costs are known.

All bounds of the analysis are here. A rule or a replay makes a gain, and nothing but this module makes it smaller. A
replay gives one number and no promise. Jobs simulated without their fault, and real pairs of before and after, show how
far the true gain lies from the replayed gain. A gain is reported as that range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import hypot

from hermes.model.fault import Fault
from hermes.model.finding import Gain, Loss
from hermes.model.job import Job
from hermes.model.leaf import HOST_WAITS, LAUNCHES, Leaf, Risk
from hermes.model.plan import NoiseFloor
from hermes.model.step_measures import StepSplit
from hermes.model.typical_step import JobSteps
from hermes.profiles.rules.gain_messages import frees
from hermes.profiles.tree.gain_spread import OF_KIND, spread_of
from hermes.profiles.tree.leaf_kinds import PART, WORK

TOGETHER = 5
"""The number of first actions that are replayed together: you plan further actions after measuring again."""
_OF_HOST = ("host:", "launch:", "sync:")
_BEYOND = 1.5
"""The largest ratio of a replayed gain to the cost that a rule counted, except for launches: a larger one is not
believed."""
_BESIDE, _BESIDE_LAUNCHES = 0.05, 0.5
"""The share of a loss that its count may have missed: the losses of all random jobs lie within the first share."""
_BY_CHANCE = 1.28 * 2**0.5
"""Standard errors of a median within which the difference of two medians lies in four of five cases."""
_WAITS = frozenset({Leaf.WAIT, Leaf.COMMUNICATION})


def at_most(gain: Gain, ns: int) -> Gain:
    """The gain, of which no end exceeds `ns`."""
    middle = None if gain.middle_ns is None else min(gain.middle_ns, ns)
    return replace(gain, low_ns=min(gain.low_ns, ns), high_ns=min(gain.high_ns, ns), middle_ns=middle)


def only_host_changes(specs: Sequence[str]) -> bool:
    """Whether all these changes concern only the host."""
    return all(spec.startswith(_OF_HOST) for spec in specs)


def launches(specs: Sequence[str]) -> bool:
    """Whether one of these changes makes launches faster."""
    return any(spec.startswith("launch:") for spec in specs)


def of_host(finding: Loss) -> bool:
    """Whether only the host can give the finding's gain, in captured steps: by its changes, or as a device is idle."""
    if finding.gain.before or finding.endangers:
        return False
    if finding.replay:
        return only_host_changes(finding.replay)
    return bool(finding.explains) and all(leaf.part == "idle" for leaf in finding.explains)


@dataclass(frozen=True, slots=True, kw_only=True)
class GainBound:
    """The most ns that a step can lose: its length, or for host changes its length less the busy time of the busiest
    device."""

    step_ns: int
    host_ns: int
    mean_ns: int = 0
    """The mean of `host_ns` over all steps: what happens in few steps costs its mean, and not what the typical has."""
    waits_ns: int = 0
    """Exposed communication of the ranks in ns, the longest time for which ranks can wait for each other."""

    @staticmethod
    def of(steps: JobSteps) -> GainBound:
        """The bounds of the job's typical step. No change of a host shortens the device's work on a rank."""
        typical = steps.slowest
        if typical is None:
            return GainBound(step_ns=0, host_ns=0)
        alike = [split for split in steps.every if split.step == typical.step and split.compute_ns is not None]
        # Communication is shorter if another rank comes earlier; a capture of one rank cannot tell.
        alone = len({split.rank for split in steps.every}) == 1
        left: dict[int | None, int] = {}
        for split in steps.every:
            if split.compute_ns is not None:
                left[split.step] = min(_left_of(split, alone=alone), left.get(split.step, split.window_ns))
        host = left.get(typical.step, typical.window_ns)
        mean = sum(left.values()) // len(left) if left else 0
        waits = max((split.exposed_comm_ns or 0 for split in alike), default=0)
        if typical.compute_ns is None:
            return GainBound(step_ns=steps.length_ns, host_ns=steps.length_ns, waits_ns=waits)
        return GainBound(step_ns=typical.window_ns, host_ns=host, mean_ns=mean, waits_ns=waits)


def _left_of(split: StepSplit, *, alone: bool) -> int:
    busy = (split.compute_ns or 0) + (split.copy_exposed_ns or 0)
    return split.window_ns - busy - ((split.exposed_comm_ns or 0) if alone else 0)


def within_step(finding: Loss, room: GainBound) -> Loss:
    """The finding with its cost limited to the step, and its gain limited as `reach_ns` says.

    No replay changes a cost: the cost is what was measured.
    """
    if finding.endangers:
        return finding
    cost = min(finding.cost_ns, room.step_ns) if room.step_ns else finding.cost_ns
    share = finding.share * cost / finding.cost_ns if finding.cost_ns else finding.share
    most = reach_ns(finding, room)
    if room.step_ns:
        most = min(most, room.step_ns)
        most = min(most, max(room.host_ns, room.mean_ns)) if of_host(finding) else most
    return replace(finding, cost_ns=cost, share=min(share, 1.0), gain=at_most(finding.gain, most))


def reach_ns(finding: Loss, room: GainBound) -> int:
    """The most in ns that the fix of a finding may give: its cost, or more if a replay gives more.

    A replay of the host also counts work that waited for what is lost, and other ranks that wait less. A wait that
    names its peer is one of several: a replay of the late rank counts all collectives that the rank delays.
    """
    cost, gain = finding.cost_ns, finding.gain
    if not gain.replayed:
        return cost
    low = gain.expected_ns
    if finding.fault is Fault.STRAGGLER:
        return max(cost, min(low, room.waits_ns))
    if finding.replay and only_host_changes(finding.replay):
        # A slow host also loses time between launches, and the lead that it needs after each wait.
        most = room.host_ns if launches(finding.replay) else min(round(_BEYOND * cost), room.host_ns)
        return max(cost, min(low, most))
    return cost


def _most_of_leaves(job: Job, finding: Loss) -> int | None:
    """The largest time of a rank in the leaves that a finding explains, in ns per step; None for waits and risks."""
    if finding.about is Leaf.WAIT or finding.awaited or finding.endangers:
        return None
    rooms = (job.room_ns(rank, finding.explains) for rank in finding.ranks or job.spent)
    return max((room for room in rooms if room is not None), default=None)


def leaf_of(job: Job, finding: Loss) -> tuple[Leaf, int] | None:
    """The leaf that a finding costs, and the most that it can cost in ns per step; None for waits and risks.

    It is the leaf of the finding's fault, unless its ranks spend less than a tenth of the cost there: then the leaf
    among those that the fault explains in which they spend most. The most is the largest time of a rank in that leaf.
    Work of the device, launching and waiting for the device have several leaves: there their sum counts. No fault costs
    a wait of ranks for each other.
    """
    if _most_of_leaves(job, finding) is None or not isinstance(finding.about, Leaf):
        return None
    # A bubble of a pipeline is a wait of stages for each other.
    explains = finding.explains - ({Leaf.WAIT} if finding.about is not Leaf.PIPELINE_BUBBLE else set())
    times = {leaf: _most(job, finding, frozenset({leaf})) for leaf in sorted(explains)}
    about = finding.about
    if times.get(about, 0) < PART * finding.cost_ns:
        about = max(times, key=lambda leaf: (times[leaf], leaf is about), default=about)
    if about in WORK:
        return about, _most(job, finding, explains)
    alike = next((leaves for leaves in (LAUNCHES, HOST_WAITS) if about in leaves), frozenset({about}))
    return about, _most(job, finding, explains & alike)


def _most(job: Job, finding: Loss, leaves: frozenset[Leaf]) -> int:
    """The largest time of a finding's rank in these leaves, in ns per step."""
    return max((job.room_ns(rank, leaves) or 0 for rank in finding.ranks or job.spent), default=0)


def within_leaf(job: Job, finding: Loss) -> Loss:
    """The finding under the leaf that it costs, with its share of the tree's step.

    The cost is limited as `leaf_of` says, the gain to the time of all leaves that the finding explains. Only a replay
    of faster launches may give more, see `reach_ns`: work in other leaves then begins earlier, also on other ranks.
    """
    most, leaf = _most_of_leaves(job, finding), leaf_of(job, finding)
    if most is None or leaf is None:
        return finding
    about, own = leaf
    cost = min(finding.cost_ns, own)
    step = max((job.lengths.get(rank, 0) for rank in finding.ranks or job.lengths), default=0)
    share = finding.share if finding.gain.before or not step else min(cost / step, 1.0)
    replayed = finding.gain.replayed and launches(finding.replay)
    return replace(
        finding,
        about=about,
        cost_ns=cost,
        share=share,
        gain=finding.gain if replayed else at_most(finding.gain, most),
        room_ns=None if replayed else most + _waits_ns(job, finding),
    )


def _waits_ns(job: Job, finding: Loss) -> int:
    """The waits of several ranks for each other, in ns, which a fix on all of them may also save."""
    ranks = finding.ranks or tuple(job.spent)
    if len(ranks) < 2:
        return 0
    return max((job.room_ns(rank, _WAITS) or 0 for rank in ranks), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostCertainty:
    """How well the costs of a capture are known: the noise of its steps, and the most that a step can lose."""

    floor: NoiseFloor
    room: GainBound

    def most_ns(self, cost_ns: int, specs: Sequence[str] = ()) -> int:
        """The most in ns that a loss of `cost_ns` may cost: at most the step, or what host changes can save.

        Recorded steps differ, as steps after a fix will: both medians are off by chance. A count also misses what a
        cause does to calls and tasks beside it. A count of launches misses what a slow host does between launches.
        """
        beside = _BESIDE_LAUNCHES if launches(specs) else _BESIDE
        off = hypot(beside * cost_ns, _BY_CHANCE * self.floor.ns)
        if self.room.step_ns and specs and only_host_changes(specs):
            return min(round(cost_ns + off), max(self.room.host_ns, min(cost_ns, self.room.mean_ns)))
        return max(min(round(cost_ns + off), self.room.step_ns or self.floor.step_ns), cost_ns)

    def most_of(self, findings: Sequence[Loss], specs: Sequence[str]) -> int:
        """The most in ns that a fix of the findings by these changes may give, see `most_ns` and `reach_ns`."""
        return self.most_ns(sum(reach_ns(one, self.room) for one in findings), specs)

    def held_ns(self, most_ns: int, findings: Sequence[Loss]) -> int:
        """The most in ns that the findings may cost: `most_ns`, but at most the time of the leaves that they explain.

        Several findings of one leaf share the leaf's time once. The leaves of other steps differ by chance, too.
        """
        rooms: dict[Leaf | Risk, int] = {}
        for one in findings:
            if one.room_ns is None:
                return most_ns
            rooms[one.about] = max(rooms.get(one.about, 0), one.room_ns)
        room = sum(rooms.values())
        return min(most_ns, round(room + hypot(_BESIDE * room, _BY_CHANCE * self.floor.ns))) if rooms else most_ns


def ranged(gain: Gain, specs: Sequence[str], most_ns: int) -> Gain:
    """A gain as the range in which its fix lies. No end of the range exceeds `most_ns`.

    A gain that was not replayed stays an upper bound.

    Counted host time with no device beside it is as uncertain as a change of the host's work.
    """
    if not gain.replayed or not gain.low_ns:
        return at_most(gain, most_ns)
    if not specs:
        host = OF_KIND["host"]
        if gain.low_ns <= host.least * gain.high_ns:
            return gain
        high = max(gain.high_ns, min(round(gain.high_ns * host.most), most_ns))
        return replace(gain, low_ns=round(gain.high_ns * host.least), high_ns=high, middle_ns=gain.expected_ns)
    spread = spread_of(specs)
    high = max(min(round(gain.low_ns * spread.most), most_ns), min(gain.low_ns, most_ns))
    return replace(gain, low_ns=round(min(gain.low_ns, high) * spread.least), high_ns=high, middle_ns=gain.expected_ns)


def with_ranges(findings: Sequence[Loss], known: CostCertainty) -> tuple[Loss, ...]:
    """The findings with their gains as ranges, within the time of the leaves that they explain.

    If a replay gives more than the cost and what a count of it may have missed, the method of the gain says why.
    """
    return tuple(replace(one, gain=_in_range(one, known)) for one in findings)


def _in_range(one: Loss, known: CostCertainty) -> Gain:
    gain = ranged(one.gain, one.replay, known.held_ns(known.most_of([one], one.replay), [one]))
    waited = gain.replayed and one.replay and gain.expected_ns > (1 + _BESIDE) * one.cost_ns
    return replace(gain, method=frees(method=gain.method)) if waited else gain
