"""Orders findings: causes before what they cause, no loss counted twice, noise left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from hermes.model.finding import Cause, Finding
from hermes.model.plan import Advice, NoiseFloor, Unprofiled
from hermes.profiles.advise.profiler_cost import unprofiled_gain
from hermes.profiles.rules.parts import above
from hermes.profiles.whatif.replay import Prediction

Replay = Callable[[tuple[str, ...]], Prediction | None]
"""What changes of a step give together; None where no step can be replayed."""


MOSTLY = 0.5
"""A finding of whose cost others explain more than this part only describes them."""
LIKELY = 0.5
"""What is less likely than this explains no other finding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Findings with what each may claim, the largest first.

    `findings` are above the noise floor, those that their parts explain behind them; `minor` are below it. `preview`
    are those of rules that are not trusted yet: they explain nothing and make no plan. `unprofiled` is the step that
    gains are meant for, where the capture tells it.
    """

    findings: tuple[Finding, ...]
    minor: tuple[Finding, ...]
    preview: tuple[Finding, ...] = ()
    floor: NoiseFloor
    unprofiled: Unprofiled | None = None

    @property
    def problems(self) -> tuple[Finding, ...]:
        """Findings that claim something of their own; a place to look claims nothing that its causes explain."""
        return tuple(one for one in self.findings if _counts(one, self.floor) and not _looked_into(one))

    def as_planned(self, actions: Sequence[Advice]) -> tuple[Finding, ...]:
        """The problems in the order of what is to be done about them, so that verdict and actions are one story."""
        place = {code: at for at, action in reversed([*enumerate(actions)]) for code in action.codes}
        return tuple(sorted(self.problems, key=lambda one: place.get(one.code, len(place))))


def rank(
    findings: Sequence[Finding], replay: Replay, floor: NoiseFloor, unprofiled: Unprofiled | None = None
) -> Ranking:
    """The findings in the order in which they are worth acting on, with gains of the step that is meant."""
    if unprofiled is not None:
        findings = [replace(finding, gain=unprofiled_gain(unprofiled, finding.gain)) for finding in findings]
    trusted = [finding for finding in findings if finding.state == "stable"]
    whole = [finding for finding in trusted if _counts(finding, floor)]
    parts = [[part for part in whole if _is_part(part, broad, _least(broad, replay))] for broad in whole]
    claims = [_remainder(broad, own, replay) for broad, own in zip(whole, parts, strict=True)]
    return Ranking(
        findings=_behind_parts(claims),
        minor=tuple(sorted((one for one in trusted if not _counts(one, floor)), key=_key)),
        preview=tuple(sorted((one for one in findings if one.state == "preview" and _counts(one, floor)), key=_key)),
        floor=floor,
        unprofiled=unprofiled,
    )


def untold(problems: Sequence[Finding]) -> Finding | None:
    """Exposed communication of which nobody recorded how much is waiting, where it is more than all else could give.

    What it is must be known before anything else is worth doing.
    """
    exposed = next((one for one in problems if one.cause is Cause.EXPOSED_COMMUNICATION and not one.replay), None)
    known = max((one.gain.expected_ns for one in problems if one is not exposed), default=0)
    return exposed if exposed and not exposed.explained_by and exposed.cost_ns > known else None


def weight(finding: Finding) -> float:
    """What a finding is expected to give, in nanoseconds: its gain times how far it is to be believed."""
    return finding.gain.expected_ns * finding.confidence


def _key(finding: Finding) -> tuple[bool, float, int, int, str, tuple[str, ...]]:
    # A job that is about to end for want of memory wins nothing by being faster.
    ends = not finding.endangers
    return (
        ends,
        -weight(finding),
        -finding.gain.high_ns,
        -finding.cost_ns,
        finding.code,
        tuple(map(str, finding.blames)),
    )


def _counts(finding: Finding, floor: NoiseFloor) -> bool:
    """Whether a finding is more than noise: of time, or of what ends the job."""
    return finding.endangers or finding.gain.high_ns >= floor.beside(finding.cost_ns)


def _least(broad: Finding, replay: Replay) -> float:
    """The share of a wait that a cause must explain by itself.

    A replay tells what several causes give together. Without a device there is none, and what they share is not known.
    """
    return 0.0 if replay(broad.replay) else MOSTLY


def _is_part(part: Finding, broad: Finding, least: float) -> bool:
    """Whether `part` is a cause inside of what `broad` only describes, or makes a rank late that others wait for.

    The latter by at least this share of the wait.
    """
    if part is broad:
        return False
    if broad.code in above(part.within):
        # What ranks wait for is on others than themselves.
        waits = broad.layer in ("communication", "parallelism")
        return waits or not broad.ranks or bool({*part.ranks} & {*broad.ranks})
    late = awaited(broad)
    if part.gain.expected_ns < least * broad.cost_ns or part.confidence < LIKELY:
        return False
    return late is not None and awaited(part) is None and part.layer != "communication" and _strikes(part, late, broad)


def _strikes(part: Finding, late: int, broad: Finding) -> bool:
    """Whether a cause lies on the rank that is late, and not just as well on those that wait for it."""
    if any(one.is_rank and one.rank == late for one in part.blames):
        return True
    return late in part.ranks and not {*broad.ranks} <= {*part.ranks}


def awaited(finding: Finding) -> int | None:
    """The rank that others wait for, where that is all the finding says."""
    if finding.cause is not Cause.STRAGGLER or not finding.blames:
        return None
    return finding.blames[0].rank if finding.blames[0].is_rank else None


def _remainder(broad: Finding, parts: Sequence[Finding], replay: Replay) -> Finding:
    """A finding with the gain that is left once its parts are cured."""
    if not parts:
        return broad
    codes = tuple(dict.fromkeys(part.code for part in sorted(parts, key=_key)))
    claimed = _together(parts, replay)
    low = _low_beyond(broad, parts, replay, claimed)
    gain = replace(
        broad.gain,
        low_ns=low,
        high_ns=max(low, broad.gain.high_ns - claimed),
        method=f"what is left beyond {' and '.join(codes)}: {broad.gain.method}",
    )
    return replace(broad, gain=gain, explained_by=codes)


def _low_beyond(broad: Finding, parts: Sequence[Finding], replay: Replay, claimed: int) -> int:
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


def _together(parts: Sequence[Finding], replay: Replay) -> int:
    """What cures of parts give together: by replay, and at least the most that one promises."""
    replayed = replay(tuple(dict.fromkeys(spec for part in parts for spec in part.replay)))
    return max([part.gain.expected_ns for part in parts] + ([replayed.low_ns] if replayed else []))


def _looked_into(finding: Finding) -> bool:
    """Whether a finding only says where to look, and others say what is there."""
    return finding.cause is Cause.STARVED_DEVICE and _only_describes(finding)


def _only_describes(finding: Finding) -> bool:
    """Whether other findings, its parts, explain most of what it costs."""
    return bool(finding.explained_by) and finding.gain.expected_ns < (1 - MOSTLY) * finding.cost_ns


def _behind_parts(claims: Iterable[Finding]) -> tuple[Finding, ...]:
    """By weight; what is explained by others stands behind the first of them, and behind all where little is left."""
    every = tuple(claims)
    causes = _by_weight(one for one in every if not _only_describes(one))
    return (*causes, *_by_weight(one for one in every if _only_describes(one)))


def _by_weight(claims: Iterable[Finding]) -> tuple[Finding, ...]:
    ordered: list[Finding] = []
    # What has more parts may have one of the others as its part.
    for finding in sorted(claims, key=lambda one: (len(one.explained_by), _key(one))):
        at = next((place for place, one in enumerate(ordered) if _key(finding) < _key(one)), len(ordered))
        first = min((place for place, one in enumerate(ordered) if one.code in finding.explained_by), default=-1)
        ordered.insert(max(at, first + 1), finding)
    return tuple(ordered)
