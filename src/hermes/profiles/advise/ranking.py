"""Orders findings: causes before what they cause, no loss counted twice, noise left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from hermes.model.fault import Fault
from hermes.model.finding import Loss
from hermes.model.plan import Advice, NoiseFloor, Unprofiled
from hermes.profiles.advise.profiler_cost import unprofiled_gain
from hermes.profiles.advise.ranges import Known
from hermes.profiles.advise.room import Room
from hermes.profiles.rules.gain_messages import beyond
from hermes.profiles.rules.parts import PLACES, above
from hermes.profiles.tree.spread import expected_ns
from hermes.profiles.whatif.replay import Prediction

Replay = Callable[[tuple[str, ...]], Prediction | None]
"""What changes of a step give together; None where no step can be replayed."""


Claim = Callable[[Loss, int], float]
"""The part of the steps that a finding stands for, given how long a step is."""
MOSTLY = 0.5
"""A finding of whose cost others explain more than this part only describes them."""
_OF_A_FUNCTION = ("compute", "cpu", "io", "communication", "memory")
"""Layers whose findings say what the time of a function is spent on."""
_OF_LOADERS = (Fault.DATA_LOADING, Fault.DATA_READING, Fault.DATA_PROCESSING)
_HOLD_LOADERS = (Fault.GARBAGE_COLLECTION, Fault.FORWARD_UNLEARNED)
"""What may hold the time of loaders in the same function: a pause in it, and an evaluation that reads batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Findings with what each may claim, the largest first.

    `findings` are above the noise floor, those that their parts explain behind them; `minor` are below it. `preview`
    are those of rules that are not trusted yet: they explain nothing and make no plan. `unprofiled` is the step that
    gains are meant for, where the capture tells it.
    """

    findings: tuple[Loss, ...]
    minor: tuple[Loss, ...]
    preview: tuple[Loss, ...] = ()
    floor: NoiseFloor
    unprofiled: Unprofiled | None = None
    room: Room = Room(step_ns=0, host_ns=0)

    @property
    def known(self) -> Known:
        """How well the costs are known."""
        return Known(floor=self.floor, room=self.room)

    @property
    def problems(self) -> tuple[Loss, ...]:
        """Findings that claim something of their own; a place to look claims nothing that its causes explain."""
        return tuple(one for one in self.findings if _counts(one, self.floor) and not _looked_into(one))

    def as_planned(self, actions: Sequence[Advice]) -> tuple[Loss, ...]:
        """The problems in the order of what is to be done about them, so that verdict and actions are one story."""
        place = {code: at for at, action in reversed([*enumerate(actions)]) for code in action.codes}
        return tuple(sorted(self.problems, key=lambda one: place.get(one.code, len(place))))


def rank(
    findings: Sequence[Loss],
    replay: Replay,
    floor: NoiseFloor,
    unprofiled: Unprofiled | None = None,
    room: Room | None = None,
    claim: Claim = lambda _one, _step_ns: 0.0,
) -> Ranking:
    """The findings in the order in which they are worth acting on, with gains of the step that is meant.

    `claim` tells the part of the steps that a finding stands for: those of one leaf stand together. Without it all are
    of one.
    """
    step_ns = unprofiled.step_ns if unprofiled else floor.step_ns
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
        room=room or Room(step_ns=floor.step_ns, host_ns=floor.step_ns),
    )


def weight(finding: Loss) -> float:
    """What a finding is expected to give, in ns: its gain, as such cures gave it, times how likely it is."""
    return expected_ns(finding) * finding.confidence


def _key(finding: Loss) -> tuple[bool, float, float, int, int, str, tuple[str, ...]]:
    # A job that is about to end for want of memory wins nothing by being faster.
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
    """Whether a finding is more than noise: of time, or of what ends the job."""
    return finding.endangers or (not finding.by_chance and finding.gain.high_ns >= floor.beside(finding.cost_ns))


def _least(broad: Loss, replay: Replay) -> float:
    """The share of a wait that a cause must explain by itself.

    A replay tells what several causes give together. Without a device there is none, and what they share is not known.
    """
    return 0.0 if replay(broad.replay) else MOSTLY


def _is_part(part: Loss, broad: Loss, least: float) -> bool:
    """Whether `part` is a cause inside of what `broad` only describes, or makes a rank late that others wait for.

    The latter by at least this share of the wait.
    """
    if part is broad:
        return False
    if broad.code in above(part.within):
        # What ranks wait for is on others than themselves.
        waits = broad.layer in ("communication", "parallelism")
        return waits or not broad.ranks or bool({*part.ranks} & {*broad.ranks})
    if _is_said_of(part, broad):
        return True
    late = awaited(broad)
    # A wait of which no cure gives back more than a part is explained by what makes that part.
    waited = broad.gain.expected_ns if broad.gain.replayed else broad.cost_ns
    if part.gain.expected_ns < least * min(waited, broad.cost_ns) or part.assumed:
        return False
    return late is not None and awaited(part) is None and part.layer != "communication" and _strikes(part, late, broad)


def _gives_it(part: Loss, broad: Loss, replay: Replay) -> bool:
    """Whether most of a wait is gone once something else is cured, and making the rank faster adds little to that."""
    if awaited(broad) is None or awaited(part) is not None or part.fault is Fault.EXPOSED_COMMUNICATION:
        return False
    if part.assumed or not part.replay or not (part.gain.replayed and broad.gain.replayed):
        return False
    alone, both, wait = replay(part.replay), replay((*part.replay, *broad.replay)), replay(broad.replay)
    if alone is None or both is None or wait is None or wait.low_ns <= 0:
        return False
    return alone.low_ns >= MOSTLY * wait.low_ns and both.low_ns - alone.low_ns <= (1 - MOSTLY) * wait.low_ns


def _is_said_of(part: Loss, broad: Loss) -> bool:
    """Whether `part` says what a function does of which `broad` only says that it takes long."""
    if broad.code in PLACES:
        known = part.code not in PLACES and awaited(part) is None and part.layer in _OF_A_FUNCTION
        if known and broad.fault not in (Fault.HOT_FUNCTION, Fault.LONG_STEPS):
            # It knows its cause by itself.
            return part.fault is broad.fault
    else:
        known = broad.fault in _OF_LOADERS and part.fault in _HOLD_LOADERS
    return known and not {*map(_function, broad.lines)}.isdisjoint(map(_function, part.lines))


def _function(line: str) -> tuple[str, str]:
    """The file and the function of a line, wherever in it the line stands."""
    place, _, function = line.partition(" ")
    return place.rsplit(":", 1)[0], function


def _strikes(part: Loss, late: int, broad: Loss) -> bool:
    """Whether a cause lies on the rank that is late, and not just as well on those that wait for it."""
    if any(one.is_rank and one.rank == late for one in part.blames):
        return True
    return late in part.ranks and not {*broad.ranks} <= {*part.ranks}


def awaited(finding: Loss) -> int | None:
    """The rank that others wait for, where that is all the finding says."""
    if finding.fault is not Fault.STRAGGLER or not finding.blames:
        return None
    return finding.blames[0].rank if finding.blames[0].is_rank else None


def _remainder(broad: Loss, parts: Sequence[Loss], replay: Replay) -> Loss:
    """A finding with the gain that is left once its parts are cured."""
    if not parts:
        return broad
    parts = sorted(parts, key=_key)
    # What is assumed takes nothing's place: its time is counted once, and the broader finding stands by itself.
    measured = [part for part in parts if not part.assumed or part.endangers]
    claimed = _together(parts, replay)
    if broad.code in PLACES:
        # Its time is theirs, whatever a cure of them gives.
        claimed = max(claimed, sum(part.cost_ns for part in parts))
    if (broad.code in PLACES or broad.fault in _OF_LOADERS) and claimed < MOSTLY * broad.cost_ns:
        # Nothing is explained by what costs a small part of it.
        measured = []
    codes = tuple(dict.fromkeys(part.code for part in measured))
    low = _low_beyond(broad, parts, replay, claimed)
    gain = replace(
        broad.gain,
        low_ns=low,
        high_ns=max(low, broad.gain.high_ns - claimed),
        method=beyond(codes=dict.fromkeys(part.code for part in parts), method=broad.gain.method),
    )
    return replace(broad, gain=gain, explained_by=codes)


def _low_beyond(broad: Loss, parts: Sequence[Loss], replay: Replay, claimed: int) -> int:
    """What the broader cure gives in a replay when those of its parts are in it already.

    Without a device nothing is replayed, for nothing runs beside the host: there it is what the parts leave.
    """
    own = tuple(dict.fromkeys(spec for part in parts for spec in part.replay))
    if not own:
        return max(broad.gain.low_ns - claimed, 0)
    without, both = replay(own), replay((*own, *broad.replay))
    if without is None or both is None or not broad.replay:
        return max(broad.gain.low_ns - claimed, 0) if broad.gain.replayed and not (without or both) else 0
    return min(max(both.low_ns - without.low_ns, 0), broad.gain.low_ns)


def _together(parts: Sequence[Loss], replay: Replay) -> int:
    """What cures of parts give together: by replay, and at least the most that one promises."""
    replayed = replay(tuple(dict.fromkeys(spec for part in parts for spec in part.replay)))
    return max([part.gain.expected_ns for part in parts] + ([replayed.low_ns] if replayed else []))


def _looked_into(finding: Loss) -> bool:
    """Whether a finding only says where to look, and others say what is there."""
    return (finding.fault is Fault.STARVED_DEVICE or finding.code in PLACES) and _only_describes(finding)


def _only_describes(finding: Loss) -> bool:
    """Whether other findings, its parts, explain most of what it costs."""
    return bool(finding.explained_by) and finding.gain.expected_ns < (1 - MOSTLY) * finding.cost_ns


def _behind_parts(claims: Iterable[Loss]) -> tuple[Loss, ...]:
    """By weight; what is explained by others stands behind the first of them, and behind all where little is left."""
    every = tuple(claims)
    causes = _by_weight(_with_reasons(one, every) for one in every if not _only_describes(one))
    return (*causes, *_by_weight(one for one in every if _only_describes(one)))


def _with_reasons(finding: Loss, claims: Sequence[Loss]) -> Loss:
    """Exposed communication that is mostly waiting for one rank, with what explains that the rank is late.

    Its own gain leaves the waiting out already.
    """
    if finding.fault is not Fault.EXPOSED_COMMUNICATION or finding.explained_by:
        return finding
    late = [
        one for one in claims
        if awaited(one) is not None and one.cost_ns >= MOSTLY * finding.cost_ns and {*one.ranks} & {*finding.ranks}
    ]  # fmt: skip
    return replace(finding, explained_by=tuple(dict.fromkeys(code for one in late for code in one.explained_by)))


def _by_weight(claims: Iterable[Loss]) -> tuple[Loss, ...]:
    ordered: list[Loss] = []
    # What has more parts may have one of the others as its part.
    for finding in sorted(claims, key=lambda one: (len(one.explained_by), _key(one))):
        at = next((place for place, one in enumerate(ordered) if _key(finding) < _key(one)), len(ordered))
        first = min((place for place, one in enumerate(ordered) if one.code in finding.explained_by), default=-1)
        ordered.insert(max(at, first + 1), finding)
    return tuple(ordered)
