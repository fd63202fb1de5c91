"""Aligns two sequences of operators: an inserted or missing operator does not shift the others."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence

from hermes.precision.operator_names import family
from hermes.precision.recorded_step import OperatorCall, RecordedStep

_MOST_EDITS = 400
"""The most edits between two anchors for which the shortest way is searched; beyond, calls are paired by order."""


def align_operators(golden: RecordedStep, target: RecordedStep) -> list[tuple[int | None, int | None]]:
    """Pairs of indices in the two steps, in order; None for an operator without a counterpart."""
    if len(golden.ops) == len(target.ops) and all(
        _same(golden, target, a, b) for a, b in zip(golden.ops, target.ops, strict=True)
    ):
        return [(at, at) for at in range(len(golden.ops))]
    tokens = _tokens(golden, {}), _tokens(target, {})
    pairs = dict(_pairs(*tokens))
    # The parameter of a gradient says more than its position: calls in a loop look alike.
    marks = {two: one for one, two in pairs.items() if golden.ops[one].phase == "forward"}
    first = _tokens(golden, {one: one for one in marks.values()})
    pairs = dict(_pairs(first, _tokens(target, marks)))
    return _merged(pairs, len(golden.ops), len(target.ops))


def _same(golden: RecordedStep, target: RecordedStep, a: OperatorCall, b: OperatorCall) -> bool:
    """Whether two calls have the same token, and belong to the same call of the forward pass."""
    if a.forward != b.forward or a.phase != b.phase or a.module != b.module or len(a.outputs[:4]) != len(b.outputs[:4]):
        return False
    if a.name != b.name and family(a.name) != family(b.name):
        return False
    first, second = golden.values, target.values
    shapes = all(first[one].shape == second[two].shape for one, two in zip(a.outputs[:4], b.outputs[:4], strict=True))
    return shapes and (bool(a.module) or a.parameter == b.parameter)


def _tokens(step: RecordedStep, marks: dict[int, int]) -> list[Hashable]:
    return [_token(step, op, marks) for op in step.ops]


def _token(step: RecordedStep, op: OperatorCall, marks: dict[int, int]) -> Hashable:
    shapes = tuple(step.values[one].shape for one in op.outputs[:4])
    if marks and op.phase == "forward" and op.number in marks:
        return marks[op.number]
    of = marks.get(op.forward, -1) if op.forward is not None else None
    return (family(op.name), op.module or op.parameter, op.phase, shapes, of)


def _pairs(first: Sequence[Hashable], second: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Counterparts in two sequences: equal ends, then tokens that occur once on both sides, then the shortest edit."""
    found: list[tuple[int, int]] = []
    waiting = [(0, len(first), 0, len(second))]
    while waiting:
        low, high, left, right = waiting.pop()
        while low < high and left < right and first[low] == second[left]:
            found.append((low, left))
            low, left = low + 1, left + 1
        while low < high and left < right and first[high - 1] == second[right - 1]:
            high, right = high - 1, right - 1
            found.append((high, right))
        if low == high or left == right:
            continue
        anchors = _anchors(first[low:high], second[left:right])
        if not anchors:
            found += [(low + one, left + two) for one, two in _edit(first[low:high], second[left:right])]
            continue
        ends = [(low - 1, left - 1), *((low + one, left + two) for one, two in anchors), (high, right)]
        found += ends[1:-1]
        waiting += [(start[0] + 1, end[0], start[1] + 1, end[1]) for start, end in itertools.pairwise(ends)]
    return found


def _anchors(first: Sequence[Hashable], second: Sequence[Hashable]) -> list[tuple[int, int]]:
    """The longest increasing sequence of tokens that occur once on both sides."""
    ones, twos = Counter(first), Counter(second)
    places = {token: at for at, token in enumerate(second) if twos[token] == 1}
    pairs = [(at, places[token]) for at, token in enumerate(first) if ones[token] == 1 and token in places]
    return _rising(pairs)


def _rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    import bisect

    tails: list[int] = []
    at_tail: list[int] = []
    before: list[int | None] = []
    for number, (_, place) in enumerate(pairs):
        at = bisect.bisect_left(tails, place)
        before.append(at_tail[at - 1] if at else None)
        if at == len(tails):
            tails.append(place)
            at_tail.append(number)
        else:
            tails[at], at_tail[at] = place, number
    found: list[tuple[int, int]] = []
    number_or_none = at_tail[-1] if at_tail else None
    while number_or_none is not None:
        found.append(pairs[number_or_none])
        number_or_none = before[number_or_none]
    return found[::-1]


def _edit(first: Sequence[Hashable], second: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Pairs of Myers' shortest edit, or pairs by order of occurrence if the edit would take too long."""
    reach: dict[int, int] = {1: 0}
    trail: list[dict[int, int]] = []
    for edits in range(min(len(first) + len(second), _MOST_EDITS) + 1):
        trail.append(dict(reach))
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (
                diagonal != edits and reach.get(diagonal - 1, -1) < reach.get(diagonal + 1, -1)
            )
            x = reach[diagonal + 1] if down else reach[diagonal - 1] + 1
            y = x - diagonal
            while x < len(first) and y < len(second) and first[x] == second[y]:
                x, y = x + 1, y + 1
            reach[diagonal] = x
            if x >= len(first) and y >= len(second):
                return _walk_back(trail, len(first), len(second), first, second)
    return _by_occurrence(first, second)


def _walk_back(
    trail: list[dict[int, int]], x: int, y: int, first: Sequence[Hashable], second: Sequence[Hashable]
) -> list[tuple[int, int]]:
    found = []
    for edits in range(len(trail) - 1, -1, -1):
        reach = trail[edits]
        diagonal = x - y
        down = diagonal == -edits or (diagonal != edits and reach.get(diagonal - 1, -1) < reach.get(diagonal + 1, -1))
        previous = diagonal + 1 if down else diagonal - 1
        start = reach.get(previous, 0)
        start_y = start - previous
        while x > start and y > start_y and x > 0 and y > 0 and first[x - 1] == second[y - 1]:
            x, y = x - 1, y - 1
            found.append((x, y))
        if edits:
            x, y = start, start_y
    return found[::-1]


def _by_occurrence(first: Sequence[Hashable], second: Sequence[Hashable]) -> list[tuple[int, int]]:
    places: dict[Hashable, list[int]] = defaultdict(list)
    for at, token in enumerate(second):
        places[token].append(at)
    taken: Counter[Hashable] = Counter()
    pairs = []
    for at, token in enumerate(first):
        if taken[token] < len(places[token]):
            pairs.append((at, places[token][taken[token]]))
            taken[token] += 1
    return _rising(pairs)


def _merged(pairs: dict[int, int], golden: int, target: int) -> list[tuple[int | None, int | None]]:
    found: list[tuple[int | None, int | None]] = []
    at = 0
    for one in range(golden):
        two = pairs.get(one)
        if two is None:
            found.append((one, None))
            continue
        found += [(None, extra) for extra in range(at, two)]
        found.append((one, two))
        at = two + 1
    found += [(None, extra) for extra in range(at, target)]
    return found
