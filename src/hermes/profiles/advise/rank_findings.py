"""Ranks findings: causes come before their effects, no loss is counted twice, and noise is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from hermes.model.fault import Fault
from hermes.model.finding import Loss
from hermes.model.plan import Advice, NoiseFloor, Unprofiled
from hermes.profiles.advise.bound_gains import CostCertainty, GainBound
from hermes.profiles.advise.profiler_cost import unprofiled_gain
from hermes.profiles.rules.gain_messages import beyond
from hermes.profiles.rules.narrower_faults import PLACES, holds
from hermes.profiles.tree.gain_spread import expected_ns
from hermes.profiles.whatif.replay import Prediction

Replay = Callable[[tuple[str, ...]], Prediction | None]
"""Predicts the step with the given changes made together; None if no step can be replayed."""


Claim = Callable[[Loss, int], float]
"""The share of the step that a finding stands for, given the length of a step in ns."""
MOSTLY = 0.5
"""The share of a finding's cost beyond which causes explain it, so that the finding only describes them."""
_OF_A_FUNCTION = ("compute", "cpu", "io", "communication", "memory")
"""Layers whose findings say what the time of a function is spent on."""
_OF_LOADERS = (Fault.DATA_LOADING, Fault.DATA_READING, Fault.DATA_PROCESSING)
_HOLD_LOADERS = (Fault.GARBAGE_COLLECTION, Fault.FORWARD_UNLEARNED)
"""Faults that may take the loaders' time in the same function: a pause in it, or an evaluation that reads batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Findings with the gain that each may claim, the largest first.

    `findings` exceed the noise floor, and follow the findings that explain them; `minor` findings are below the floor.
    `preview` findings come from rules that are not trusted yet: they explain nothing and make no plan. `unprofiled` is
    the step without the profiler, if the capture tells it.
    """

    findings: tuple[Loss, ...]
    minor: tuple[Loss, ...]
    preview: tuple[Loss, ...] = ()
    floor: NoiseFloor
    unprofiled: Unprofiled | None = None
    room: GainBound = GainBound(step_ns=0, host_ns=0)

    @property
    def known(self) -> CostCertainty:
        """How well the costs of the capture are known."""
        return CostCertainty(floor=self.floor, room=self.room)

    @property
    def problems(self) -> tuple[Loss, ...]:
        """Findings with a gain of their own; a finding that only names a place claims only what is unexplained."""
        return tuple(one for one in self.findings if _counts(one, self.floor) and not _looked_into(one))

    def as_planned(self, actions: Sequence[Advice]) -> tuple[Loss, ...]:
        """The problems in the order of the plan's actions, for the verdict; problems without an action come last."""
        place = {key: at for at, action in reversed([*enumerate(actions)]) for key in action.answers}
        return tuple(sorted(self.problems, key=lambda one: place.get(one.key, len(place))))


def rank(
    findings: Sequence[Loss],
    replay: Replay,
    floor: NoiseFloor,
    unprofiled: Unprofiled | None = None,
    room: GainBound | None = None,
    claim: Claim = lambda _one, _step_ns: 0.0,
) -> Ranking:
    """The findings in the order in which to act on them, with gains for the reported step.

    `claim` returns the share of the step that a finding stands for: findings of one leaf stay together. Without
    `claim`, all findings count as one leaf.
    """
    step_ns = floor.step_ns
    if unprofiled is not None:
        findings = [replace(finding, gain=unprofiled_gain(unprofiled, finding.gain)) for finding in findings]
    findings = [replace(finding, claim=claim(finding, step_ns)) for finding in findings]
    trusted = [finding for finding in findings if finding.state == "stable"]
    whole = [finding for finding in trusted if _counts(finding, floor)]
    parts = [
        [part for part in whole if _is_part(part, broad, _least(broad, replay)) or _gives_it(part, broad, replay)]
        for broad in whole
    ]
    claims = [_remainder(broad, own, replay) for broad, own in zip(whole, parts, strict=True)]
    claims = [replace(one, claim=claim(one, step_ns)) for one in claims]
    return Ranking(
        findings=_behind_parts(claims),
        minor=tuple(sorted((one for one in trusted if not _counts(one, floor)), key=_key)),
        preview=tuple(sorted((one for one in findings if one.state == "preview" and _counts(one, floor)), key=_key)),
        floor=floor,
        unprofiled=unprofiled,
        room=room or GainBound(step_ns=floor.step_ns, host_ns=floor.step_ns),
    )


def weight(finding: Loss) -> float:
    """The expected gain of a finding in ns: the typical gain of such fixes times the finding's confidence."""
    return expected_ns(finding) * finding.confidence


def _key(finding: Loss) -> tuple[bool, float, float, int, int, str, tuple[str, ...]]:
    # A job that is about to run out of memory gains nothing by being faster.
    ends = not finding.endangers
    return (
        ends,
        -finding.claim,
        -weight(finding),
        -finding.gain.high_ns,
        -finding.cost_ns,
        finding.code,
        tuple(map(str, finding.blames)),
    )


def _counts(finding: Loss, floor: NoiseFloor) -> bool:
    """Whether a finding exceeds the noise floor, or will end the job."""
    return finding.endangers or (not finding.by_chance and finding.gain.high_ns >= floor.beside(finding.cost_ns))


def _least(broad: Loss, replay: Replay) -> float:
    """The share of a wait that a cause must explain by itself.

    A replay tells what several causes give together. Without a device there is no replay, and what the causes share is
    unknown.
    """
    return 0.0 if replay(broad.replay) else MOSTLY


def _is_part(part: Loss, broad: Loss, least: float) -> bool:
    """Whether `part` is a cause of what `broad` only describes, or delays the rank that others wait for.

    A delay must be at least the share `least` of the wait.
    """
    if part is broad:
        return False
    if part.fault and broad.fault and not part.apart and holds(broad.fault, part.fault):
        # Waits of ranks are caused by other ranks.
        waits = broad.layer in ("communication", "parallelism")
        return waits or not broad.ranks or bool({*part.ranks} & {*broad.ranks})
    if _is_said_of(part, broad):
        return True
    late = awaited(broad)
    # If no fix gives back more than a part of a wait, the cause of that part explains the wait.
    waited = broad.gain.expected_ns if broad.gain.replayed else broad.cost_ns
    if part.gain.expected_ns < least * min(waited, broad.cost_ns) or part.assumed:
        return False
    return late is not None and awaited(part) is None and part.layer != "communication" and _strikes(part, late, broad)


def _gives_it(part: Loss, broad: Loss, replay: Replay) -> bool:
    """Whether another fix removes most of a wait, and making the late rank faster adds little to that fix."""
    if awaited(broad) is None or awaited(part) is not None or part.fault is Fault.EXPOSED_COMMUNICATION:
        return False
    if part.assumed or not part.replay or not (part.gain.replayed and broad.gain.replayed):
        return False
    alone, both, wait = replay(part.replay), replay((*part.replay, *broad.replay)), replay(broad.replay)
    if alone is None or both is None or wait is None or wait.low_ns <= 0:
        return False
    return alone.low_ns >= MOSTLY * wait.low_ns and both.low_ns - alone.low_ns <= (1 - MOSTLY) * wait.low_ns


def _is_said_of(part: Loss, broad: Loss) -> bool:
    """Whether `broad` only says that a function takes long, and `part` says why."""
    if broad.code in PLACES:
        known = part.code not in PLACES and awaited(part) is None and part.layer in _OF_A_FUNCTION
        if known and broad.fault not in (Fault.HOT_FUNCTION, Fault.LONG_STEPS):
            # A finding of another fault knows its cause by itself.
            return part.fault is broad.fault
    else:
        known = broad.fault in _OF_LOADERS and part.fault in _HOLD_LOADERS
    return known and not {*map(_function, broad.lines)}.isdisjoint(map(_function, part.lines))


def _function(line: str) -> tuple[str, str]:
    """The file and the function of a line, wherever in the function the line stands."""
    place, _, function = line.partition(" ")
    return place.rsplit(":", 1)[0], function


def _strikes(part: Loss, late: int, broad: Loss) -> bool:
    """Whether a cause lies on the late rank, and not equally on the ranks that wait for it."""
    if any(one.is_rank and one.rank == late for one in part.blames):
        return True
    return late in part.ranks and not {*broad.ranks} <= {*part.ranks}


def awaited(finding: Loss) -> int | None:
    """The rank that others wait for, if the finding says only that; else None."""
    if finding.fault is not Fault.STRAGGLER or not finding.blames:
        return None
    return finding.blames[0].rank if finding.blames[0].is_rank else None


def _remainder(broad: Loss, parts: Sequence[Loss], replay: Replay) -> Loss:
    """A finding with the gain that remains after its causes are fixed."""
    if not parts:
        return broad
    parts = sorted(parts, key=_key)
    # An assumed cause replaces nothing: its time is counted once, and the broader finding stands by itself.
    measured = [part for part in parts if not part.assumed or part.endangers]
    claimed = _together(parts, replay)
    if broad.code in PLACES:
        # The finding's time belongs to its causes, whatever a fix of the causes gives.
        claimed = max(claimed, sum(part.cost_ns for part in parts))
    if (broad.code in PLACES or broad.fault in _OF_LOADERS) and claimed < MOSTLY * broad.cost_ns:
        # A cause with a small share of the finding's cost explains nothing.
        measured = []
    causes = tuple(dict.fromkeys(part.key for part in measured))
    low = _low_beyond(broad, parts, replay, claimed)
    gain = replace(
        broad.gain,
        low_ns=low,
        high_ns=max(low, broad.gain.high_ns - claimed),
        method=beyond(codes=dict.fromkeys(part.code for part in parts), method=broad.gain.method),
    )
    return replace(broad, gain=gain, causes=causes)


def _low_beyond(broad: Loss, parts: Sequence[Loss], replay: Replay, claimed: int) -> int:
    """The gain in ns of the broader fix in a replay in which its causes are fixed already.

    Without a device nothing is replayed, since nothing runs beside the host: the gain is what the causes leave.
    """
    own = tuple(dict.fromkeys(spec for part in parts for spec in part.replay))
    if not own:
        return max(broad.gain.low_ns - claimed, 0)
    without, both = replay(own), replay((*own, *broad.replay))
    if without is None or both is None or not broad.replay:
        return max(broad.gain.low_ns - claimed, 0) if broad.gain.replayed and not (without or both) else 0
    return min(max(both.low_ns - without.low_ns, 0), broad.gain.low_ns)


def _together(parts: Sequence[Loss], replay: Replay) -> int:
    """The gain in ns of the fixes of several causes together: by replay, and at least the largest single gain."""
    replayed = replay(tuple(dict.fromkeys(spec for part in parts for spec in part.replay)))
    return max([part.gain.expected_ns for part in parts] + ([replayed.low_ns] if replayed else []))


def _looked_into(finding: Loss) -> bool:
    """Whether a finding only names a place to look at, and other findings say what is wrong there."""
    return finding.code in PLACES and _only_describes(finding)


def _only_describes(finding: Loss) -> bool:
    """Whether the finding's causes explain most of its cost."""
    return bool(finding.causes) and finding.gain.expected_ns < (1 - MOSTLY) * finding.cost_ns


def _behind_parts(claims: Iterable[Loss]) -> tuple[Loss, ...]:
    """The findings by weight; a finding that others explain follows its first cause, or comes last with little left."""
    every = tuple(claims)
    causes = _by_weight(_with_reasons(one, every) for one in every if not _only_describes(one))
    return (*causes, *_by_weight(one for one in every if _only_describes(one)))


def _with_reasons(finding: Loss, claims: Sequence[Loss]) -> Loss:
    """Exposed communication that is mostly a wait for one rank, with the causes that make the rank late.

    The finding's own gain leaves the waiting out already.
    """
    if finding.fault is not Fault.EXPOSED_COMMUNICATION or finding.causes:
        return finding
    late = [
        one for one in claims
        if awaited(one) is not None and one.cost_ns >= MOSTLY * finding.cost_ns and {*one.ranks} & {*finding.ranks}
    ]  # fmt: skip
    return replace(finding, causes=tuple(dict.fromkeys(cause for one in late for cause in one.causes)))


def _by_weight(claims: Iterable[Loss]) -> tuple[Loss, ...]:
    ordered: list[Loss] = []
    # A finding with more causes may have another finding as its cause.
    for finding in sorted(claims, key=lambda one: (len(one.causes), _key(one))):
        at = next((place for place, one in enumerate(ordered) if _key(finding) < _key(one)), len(ordered))
        first = min((place for place, one in enumerate(ordered) if one.key in finding.causes), default=-1)
        ordered.insert(max(at, first + 1), finding)
    return tuple(ordered)
