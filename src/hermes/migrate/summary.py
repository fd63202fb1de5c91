"""Summarises a scan: whether the tree can move, how much work that is, and which places prevent it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hermes.base.message import Message, Word
from hermes.knowledge import migration
from hermes.migrate import document_messages as told
from hermes.migrate.scan_model import EFFECT_ORDER, SURE_ORDER, Effort, SourcePlace, Sure, TreeChange, TreeScan
from hermes.model.leaf import Risk

_HOURS = {Effort.NONE: (0.0, 0.0), Effort.MINUTES: (0.1, 0.3), Effort.HOURS: (1.0, 4.0), Effort.DAYS: (8.0, 40.0)}


class CanMove(Word):
    """Whether a program can move to Ascend."""

    YES = "yes"
    WITH_WORK = "with_work"
    NOT_AS_IT_IS = "not_as_it_is"
    NOTHING_TO_DO = "nothing_to_do"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Places with the same message: one import of a library or twenty imports need one decision."""

    place: SourcePlace
    where: Sequence[tuple[str, SourcePlace]]

    @property
    def stands_in_the_way(self) -> bool:
        """Whether a person has to settle these places."""
        return _stands_in_the_way(self.place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The answer of a scan. `hours` is a range for the work that convert does not do."""

    verdict: CanMove
    by_convert: int
    by_hand: int
    files_changed: int
    hours: tuple[float, float]
    obstacles: Sequence[Group]
    effects: dict[str, int]
    apis_used: int
    apis_listed: int
    apis_on_chip: int


def summarize(scan: TreeScan) -> Summary:
    """The answer to `can it move?` for a scanned tree."""
    places = scan.places
    converts = [(path, one) for path, one in places if one.converts and one.effect is not Risk.NOTE]
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


def grouped(places: Iterable[tuple[str, SourcePlace]]) -> list[Group]:
    """Places grouped by equal messages, in the order of the first place of each group."""
    groups: dict[tuple[object, ...], list[tuple[str, SourcePlace]]] = {}
    for path, one in places:
        key = (one.rule, one.what, one.why, one.todo, one.effect, one.sure, one.effort, one.converts)
        groups.setdefault(key, []).append((path, one))
    return [Group(place=group[0][1], where=group) for group in groups.values()]


def _stands_in_the_way(place: SourcePlace) -> bool:
    return not place.converts and place.effect in (Risk.STOPS, Risk.DIFFERS) and place.effort is not Effort.NONE


def _obstacles(places: Iterable[tuple[str, SourcePlace]]) -> list[Group]:
    by_thing: dict[tuple[str, Message], list[tuple[str, SourcePlace]]] = {}
    for path, one in places:
        by_thing.setdefault((one.rule, one.what), []).append((path, one))
    found = [Group(place=group[0][1], where=group) for group in by_thing.values()]
    return sorted(found, key=lambda one: (-_HOURS[one.place.effort][1], -len(one.where), repr(one.place.what)))


def _hours(obstacles: Sequence[Group]) -> tuple[float, float]:
    return sum(_HOURS[one.place.effort][0] for one in obstacles), sum(_HOURS[one.place.effort][1] for one in obstacles)


def _verdict(converts: Sequence[object], obstacles: Sequence[Group]) -> CanMove:
    if any(one.place.effort is Effort.DAYS for one in obstacles):
        return CanMove.NOT_AS_IT_IS
    if obstacles:
        return CanMove.WITH_WORK
    return CanMove.YES if converts else CanMove.NOTHING_TO_DO


def _effects(places: Iterable[SourcePlace]) -> dict[str, int]:
    counted = Counter(place.effect for place in places)
    return {effect.value: counted[effect] for effect in EFFECT_ORDER}


def work(hours: tuple[float, float]) -> Message | None:
    """A range of hours in words; None for no work."""
    low, high = hours
    if high <= 0:
        return None
    if high < 1:
        return told.UNDER_AN_HOUR
    if high <= 12:
        return told.hours(low=max(1, round(low)), high=round(high))
    return told.days(low=max(1, round(low / 8)), high=max(2, round(high / 8)))


def by_importance(places: Iterable[tuple[str, SourcePlace]]) -> list[tuple[str, SourcePlace]]:
    """Places that stop the program first; of the same effect the surest first, then in order of the files."""
    return sorted(
        places,
        key=lambda one: (EFFECT_ORDER.index(one[1].effect), -SURE_ORDER.index(one[1].sure), one[0], one[1].line),
    )


def not_checked(found: TreeScan | TreeChange) -> int:
    """How many files were not read or not understood."""
    return sum(one.level == "degraded" for one in found.skipped)


def is_clean(scan: TreeScan) -> bool:
    """Whether every file was checked, and convert settles all places."""
    return not not_checked(scan) and summarize(scan).verdict in (CanMove.YES, CanMove.NOTHING_TO_DO)


def is_converted(change: TreeChange) -> bool:
    """Whether every file was checked, convert has nothing to change, and no remaining place stops on an NPU."""
    stops = any(
        place.effect is Risk.STOPS and place.sure is not Sure.GUESS for file in change.files for place in file.left
    )
    return not change.changed and not stops and not not_checked(change)
