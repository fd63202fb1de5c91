"""Builds the plan: turns findings with their cases and replayed gains into ordered actions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from hermes.base.message import Text
from hermes.knowledge.actions import NO_RISK, action
from hermes.knowledge.cases import Case
from hermes.model.finding import Action, Key, Loss
from hermes.model.plan import Advice, Capture, Combined, NoiseFloor, Plan
from hermes.profiles.advise.bound_gains import TOGETHER, CostCertainty, at_most, ranged, with_ranges
from hermes.profiles.advise.matching_cases import MatchingCase, effort
from hermes.profiles.advise.rank_findings import Ranking, Replay, awaited
from hermes.profiles.tree.gain_spread import spread_of

_OTHERS = 3


def plan(
    ranking: Ranking,
    fits: Iterable[Sequence[MatchingCase]],
    replay: Replay,
    captures: Sequence[Capture],
    steps: int,
) -> Plan:
    """The plan for ranked findings; `fits` are the cases of each of `ranking.problems`, in the same order."""
    floor = ranking.floor
    step_ns = max(floor.step_ns, 1)
    made = [
        _advice(finding, own, step_ns, captures) for finding, own in zip(ranking.problems, fits, strict=True)
    ]  # fmt: skip
    behind = {one.key: one.causes for one in ranking.problems}
    claims = {one.key: one.claim for one in reversed(ranking.problems)}
    answered = {one.key: one for one in ranking.findings}
    # Actions below the noise floor go first: no action is placed behind a cause that the plan does not show.
    notable = _notable(
        {one: _in_range(one, answered, ranking.known, step_ns) for one in _merged(made, replay, step_ns)}, ranking
    )
    ordered = _in_turn(notable, claims, behind, replay)
    ranges = [_in_range(one, answered, ranking.known, step_ns) for one in ordered]
    actions = _of_one_step(ranges, answered, step_ns)
    return Plan(
        floor=floor,
        actions=actions,
        combined=_combined(actions, replay, floor, steps, step_ns),
        captures=tuple(captures),
        minor=with_ranges(ranking.minor, ranking.known),
        unprofiled=ranking.unprofiled,
    )


def _notable(ranges: Mapping[Advice, Advice], ranking: Ranking) -> Sequence[Advice]:
    """The actions whose gain exceeds the noise floor, and the actions against a risk that ends the job.

    `ranges` holds each action with the range of its gain. If no action qualifies, the one with the largest gain stays.
    """
    grave = {one.key for one in ranking.problems if one.endangers}
    least = ranking.floor.least_ns
    kept = [one for one, told in ranges.items() if told.gain.high_ns >= least or grave & {*one.answers}]
    return kept or sorted(ranges, key=lambda one: -ranges[one].gain.high_ns)[:1]


def _of_one_step(actions: Sequence[Advice], findings: Mapping[Key, Loss], step_ns: int) -> tuple[Advice, ...]:
    """The actions, in order, as long as their costs together fit into one step.

    Two ranks may lose time at the same moment, so costs can sum to more than the step. Then the later action is left
    out: its rank loses time while another rank loses more. A loss that endangers the job costs no time of the step.
    """
    kept, spent = list[Advice](), 0
    for one in actions:
        own = [findings[key] for key in one.answers if key in findings]
        cost = sum(loss.cost_ns for loss in own if not loss.endangers)
        if not kept or spent + cost <= step_ns:
            kept.append(one)
            spent += cost
    return tuple(kept)


def _in_range(one: Advice, findings: Mapping[Key, Loss], known: CostCertainty, step_ns: int) -> Advice:
    """An action with its gain as a range: how far such fixes were from their replayed gain."""
    own = [findings[key] for key in one.answers if key in findings]
    most = known.held_ns(known.most_of(own, one.specs), own)
    gain = at_most(ranged(one.gain, one.specs, most), step_ns)
    return replace(
        one, gain=gain, share_low=min(gain.low_ns / step_ns, 1.0), share_high=min(gain.high_ns / step_ns, 1.0)
    )


def _advice(finding: Loss, fits: Sequence[MatchingCase], step_ns: int, captures: Sequence[Capture]) -> Advice:
    """The action for a finding: the finding's own action, with the change of the case that fits best."""
    best = (
        None if _describes(finding) else next((fit for fit in fits if _sure(fit) and _about(finding, fit.case)), None)
    )
    case = best.case if best else None
    own = _own(finding, case)
    more = [fit for fit in fits if fit is not best]
    return Advice(
        title=own.title,
        answers=(finding.key,),
        layer=finding.layer,
        fault=finding.fault,
        about=finding.about,
        ranks=finding.ranks,
        blames=finding.blames,
        gain=finding.gain,
        beyond_ns=None,
        share_low=finding.gain.low_ns / step_ns,
        share_high=finding.gain.high_ns / step_ns,
        confidence=finding.confidence,
        effort=_effort(finding, best, captures),
        risk=case.risk if case and case.risk != "none" else own.risk,
        do=own.do,
        before=case.before if case else "",
        after=case.after if case else "",
        versions=case.versions if case else "",
        verify=own.verify,
        source="; ".join([own.source, *(str(one) for one in case.sources)] if case else [own.source]),
        case=case.id if case else "",
        cure=case.cure if case else "",
        confirm=case.confirm if case else "",
        doubts=best.case.not_measured if best else (),
        others=tuple(
            f"{fit.case.id} {fit.case.cause}{' (lead)' if fit.case.is_lead else ''}" for fit in more[:_OTHERS]
        ),
        specs=finding.replay,
        lines=finding.lines,
    )


def _sure(fit: MatchingCase) -> bool:
    """Whether a case may be offered as the change to make: more of its symptoms hold than are unknown."""
    return fit.held > fit.unknown and not fit.case.is_lead


def _about(finding: Loss, case: Case) -> bool:
    """Whether the finding asks for the change of a case."""
    return any(case.id in one.cases for one in finding.actions)


def _describes(finding: Loss) -> bool:
    """Whether no change of a case belongs to a finding: it names a place and no cause, or its action is complete."""
    return awaited(finding) is not None or bool(finding.causes) or any(one.whole for one in finding.actions[:1])


def _own(finding: Loss, case: Case | None) -> Action:
    """The finding's first action that names the case; else the first action."""
    named = (one for one in finding.actions if case is not None and case.id in one.cases)
    return next(named, next(iter(finding.actions), _LOOK))


_LOOK = action("plan.look", risk=NO_RISK, source="the capture itself")


def _effort(finding: Loss, best: MatchingCase | None, captures: Sequence[Capture]) -> str:
    if best:
        return effort(best.case.before, best.case.after)
    if any(finding.code in capture.codes for capture in captures):
        return "another capture"
    return ""


def _merged(made: Iterable[Advice], replay: Replay, step_ns: int) -> tuple[Advice, ...]:
    """Merge actions that say the same into the action of the first finding, with the gain that they give together."""
    found: dict[tuple[Text, Text], Advice] = {}
    for one in made:
        key: tuple[Text, Text] = ("", one.case) if one.case else (one.title, one.do)
        first = found.get(key)
        found[key] = one if first is None else _joined(first, one, replay, step_ns)
    return tuple(found.values())


def _joined(first: Advice, second: Advice, replay: Replay, step_ns: int) -> Advice:
    specs = tuple(dict.fromkeys((*first.specs, *second.specs)))
    together = replay(specs) if first.gain.replayed and second.gain.replayed else None
    low = max(together.low_ns if together else 0, first.gain.low_ns, second.gain.low_ns)
    high = max(low, first.gain.high_ns, second.gain.high_ns)
    return replace(
        first,
        answers=tuple(dict.fromkeys((*first.answers, *second.answers))),
        ranks=tuple(sorted({*first.ranks, *second.ranks})),
        blames=tuple(dict.fromkeys((*first.blames, *second.blames))),
        lines=tuple(dict.fromkeys((*first.lines, *second.lines))),
        gain=replace(first.gain, low_ns=low, high_ns=high),
        share_low=low / step_ns,
        share_high=high / step_ns,
        specs=specs,
    )


def _in_turn(
    actions: Sequence[Advice], claims: Mapping[Key, float], behind: Mapping[Key, Sequence[Key]], replay: Replay
) -> tuple[Advice, ...]:
    """The actions in the order to take them, by leaf; within a leaf the action that adds most comes first.

    `claims` are the shares of the step that findings stand for, by key. In `behind`, a finding that only names a place
    comes after the first of the causes that explain it.
    """
    left, done = list(actions), list[Advice]()
    # A cause that is no action of its own delays no other action.
    planned = {key for one in actions for key in one.answers}
    behind = {key: [cause for cause in causes if cause in planned] for key, causes in behind.items()}
    before: tuple[str, ...] = ()
    reached = 0
    while left and len(done) < TOGETHER:
        gains = [_beyond(one, before, reached, replay) for one in left]
        wanted = [
            (_may(one, left, behind), max(claims.get(key, 0.0) for key in one.answers), _expected(one, gain))
            for one, gain in zip(left, gains, strict=True)
        ]
        best = max(range(len(left)), key=lambda at: (wanted[at], -at))
        one, gained = left.pop(best), gains[best]
        done.append(replace(one, beyond_ns=gained if done else None))
        before = tuple(dict.fromkeys((*before, *one.specs)))
        together = replay(before)
        reached = max(reached, together.low_ns) if together else reached
    return (*done, *left)


def _may(one: Advice, left: Sequence[Advice], behind: Mapping[Key, Sequence[Key]]) -> bool:
    """Whether an action may come next: not all causes that explain it are still to come."""
    # Several findings may be one action: the action does not wait for itself.
    causes = {cause for key in one.answers for cause in behind.get(key, ())} - {*one.answers}
    waiting = {key for other in left for key in other.answers}
    return not causes or not causes <= waiting


def _beyond(one: Advice, before: tuple[str, ...], reached: int, replay: Replay) -> int | None:
    """What an action adds to earlier actions, in ns. At most its own gain: earlier actions may expose what hid it."""
    together = replay((*before, *one.specs)) if one.specs else None
    if together is None:
        return None
    return min(max(together.low_ns - reached, 0), one.gain.high_ns)


def _expected(one: Advice, gained: int | None) -> float:
    """The gain in ns that an action is expected to add at its place; half of a bound if it was not replayed."""
    trusted = gained is not None and one.gain.replayed
    expected = gained if trusted and gained is not None else one.gain.expected_ns
    return expected * spread_of(one.specs).median * one.confidence


def _combined(
    actions: Sequence[Advice], replay: Replay, floor: NoiseFloor, steps: int, step_ns: int
) -> Combined | None:
    """What the first actions give together, as a range of such fixes, and at most the sum of their gains."""
    first = [one for one in actions[:TOGETHER] if one.specs]
    specs = tuple(dict.fromkeys(spec for one in first for spec in one.specs))
    together = replay(specs) if first else None
    if together is None or together.low_ns <= 0:
        return None
    spread = spread_of(specs)
    high = min(round(together.low_ns * spread.most), sum(one.gain.high_ns for one in first), step_ns)
    low = min(max(round(together.low_ns * spread.least), *(one.gain.low_ns for one in first)), high)
    return Combined(
        actions=len(first),
        low_ns=low,
        high_ns=high,
        step_ns=step_ns,
        share=low / step_ns,
        steps=steps,
        # One step stands for all steps only if the steps are alike.
        over_steps_ns=min(together.low_ns, high) * steps if _alike(floor, steps) else None,
    )


_ALIKE = 0.1
"""The spread, as a share of the median step, below which steps count as alike: docs/evidence/noise.md."""


def _alike(floor: NoiseFloor, steps: int) -> bool:
    if steps <= 1:
        return steps == 1
    return floor.of == "steps" and (floor.spread_ns or 0) <= _ALIKE * floor.step_ns
