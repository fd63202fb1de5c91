"""The answer of a scan: whether the tree can move, how much work it is, and what stands in the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hermes.knowledge import migration
from hermes.migrate.model import EFFECT_ORDER, SURE_ORDER, Effect, Effort, Place, Sure, TreeScan

_HOURS = {Effort.NONE: (0.0, 0.0), Effort.MINUTES: (0.1, 0.3), Effort.HOURS: (1.0, 4.0), Effort.DAYS: (8.0, 40.0)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Places of one sort that a person has to settle: one import of a library or twenty are one obstacle."""

    rule: str
    what: str
    effort: Effort
    todo: str
    places: Sequence[tuple[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What is said first. `hours` is a range for the work that convert does not do."""

    verdict: str
    by_convert: int
    by_hand: int
    files_changed: int
    hours: tuple[float, float]
    obstacles: Sequence[Obstacle]
    effects: dict[str, int]
    apis_used: int
    apis_listed: int
    apis_on_chip: int


def summarize(scan: TreeScan) -> Summary:
    """The answer to `can it move?`."""
    places = scan.places
    converts = [(path, one) for path, one in places if one.converts and one.effect is not Effect.NOTE]
    by_hand = [(path, one) for path, one in places if _stands_in_the_way(one)]
    obstacles = _obstacles(by_hand)
    used = {name for file in scan.files for name in file.apis}
    table = migration.support(scan.target.torch)
    listed = [name for name in used if name in table]
    return Summary(
        verdict=_verdict(converts, obstacles), by_convert=len(converts), by_hand=len(by_hand),
        files_changed=len({path for path, _ in converts}), hours=_hours(obstacles), obstacles=obstacles,
        effects=_effects(one for _, one in places), apis_used=len(used), apis_listed=len(listed),
        apis_on_chip=sum(scan.target.chip in table[name].chips for name in listed),
    )  # fmt: skip


def _stands_in_the_way(place: Place) -> bool:
    return not place.converts and place.effect in (Effect.STOPS, Effect.DIFFERS) and place.effort is not Effort.NONE


def _obstacles(places: Iterable[tuple[str, Place]]) -> list[Obstacle]:
    groups: dict[tuple[str, str], list[tuple[str, Place]]] = {}
    for path, place in places:
        groups.setdefault((place.rule, place.what), []).append((path, place))
    found = [
        Obstacle(rule=rule, what=what, effort=group[0][1].effort, todo=group[0][1].todo,
                 places=[(path, place.line) for path, place in group])
        for (rule, what), group in groups.items()
    ]  # fmt: skip
    return sorted(found, key=lambda one: (-_HOURS[one.effort][1], -len(one.places), one.what))


def _hours(obstacles: Sequence[Obstacle]) -> tuple[float, float]:
    return sum(_HOURS[one.effort][0] for one in obstacles), sum(_HOURS[one.effort][1] for one in obstacles)


def _verdict(converts: Sequence[object], obstacles: Sequence[Obstacle]) -> str:
    if any(one.effort is Effort.DAYS for one in obstacles):
        return "not as it is"
    if obstacles:
        return "yes, with work by hand"
    return "yes" if converts else "nothing to do"


def _effects(places: Iterable[Place]) -> dict[str, int]:
    counted = Counter(place.effect for place in places)
    return {effect.value: counted[effect] for effect in EFFECT_ORDER}


def work(hours: tuple[float, float]) -> str:
    """A range of hours as a person says it."""
    low, high = hours
    if high <= 0:
        return "no work by hand"
    if high < 1:
        return "less than an hour"
    if high <= 12:
        return f"about {max(1, round(low))} to {round(high)} hours"
    return f"about {max(1, round(low / 8))} to {max(2, round(high / 8))} days"


def by_importance(places: Iterable[tuple[str, Place]]) -> list[tuple[str, Place]]:
    """What stops the program first; of the same effect the surest first, then in order of the files."""
    return sorted(
        places,
        key=lambda one: (EFFECT_ORDER.index(one[1].effect), -SURE_ORDER.index(one[1].sure), one[0], one[1].line),
    )


def is_clean(scan: TreeScan, least: Sure = Sure.LIKELY) -> bool:
    """Whether no code is left that stops on an NPU, as `--check` asks."""
    sure_enough = SURE_ORDER[SURE_ORDER.index(least) :]
    return not any(place.effect is Effect.STOPS and place.sure in sure_enough for _, place in scan.places)
