"""Nests the calls of a thread, and corrects starts and ends where profilers record calls that overlap.

All moments are on the axis of the calls, where threads stand one behind the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.signedinteger[Any]]
"""Integer arrays: 64 bits for moments, 32 for indices of calls, since a large capture has millions of calls."""
Bools = NDArray[np.bool_]
NONE = -1


def begun_with(start: Ints, end: Ints, runtime: Bools) -> Ints:
    """The starts of calls; a call that begins within a runtime call gets the runtime call's start.

    A runtime call contains nothing that outlasts it: an operator that seems to begin inside one made that call. If most
    of the runtime call lies before the operator, it belongs to the code before, and ended late.
    """
    calls = np.flatnonzero(runtime & (end > start))
    calls = calls[np.argsort(start[calls], kind="stable")]
    if not len(calls):
        return start
    at = np.searchsorted(start[calls], start, side="left") - 1
    call = calls[np.maximum(at, 0)]
    holds = (at >= 0) & ~runtime & (start < end[call]) & (end > end[call])
    makes = holds & (end[call] - start > start - start[call])
    return np.where(makes, start[call], start)


def calls_by_start(start: Ints, end: Ints) -> Ints:
    """The indices of calls sorted by start, longer ones first. Starts are nearly in order, and few are equal."""
    order = np.argsort(start, kind="stable")
    same = np.zeros(len(start) + 1, dtype=bool)
    same[1:-1] = np.diff(start[order]) == 0
    some = np.flatnonzero(same[1:] | same[:-1])
    mine = order[some]
    order[some] = mine[np.lexsort((-end[mine], start[mine]))]
    return order


def nest_sorted_calls(start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """Ends, parents and depths of sorted calls; ends are cut to lie within the parent's.

    Two calls may overlap with neither inside the other. The first is cut if more of the second lies after the first's
    end than before it, as in a mark that one step opens inside a call of the step before. In all other cases the second
    is cut.
    """
    parent, depth = _parents(start, end)
    crossing = np.flatnonzero((parent != NONE) & (end > end[np.maximum(parent, 0)]))
    if not len(crossing):
        return end, parent, depth
    end = end.copy()
    trees = np.append(np.flatnonzero((depth == 0) & (end > start)), len(start))
    for tree in np.unique(np.searchsorted(trees, crossing, side="right") - 1).tolist():
        first, behind = trees[tree], trees[tree + 1]
        some = first + _crossing(start[first:behind], end[first:behind])
        end[some] = _without_crossings(start[some].tolist(), end[some].tolist())
    return end, *_parents(start, end)


def _crossing(start: Ints, end: Ints) -> Ints:
    """The indices of sorted calls that cross another call; the other calls keep their ends, whatever is cut."""
    back = calls_by_start(-end, -start)
    return np.union1d(_outlasted(start, end), back[_outlasted(-end[back], -start[back])])


def _outlasted(start: Ints, end: Ints) -> Ints:
    """The indices of sorted calls within which a call begins that ends later."""
    after = np.arange(1, len(start) + 1)
    behind = np.searchsorted(start, end)
    some = np.flatnonzero(behind > after)
    ranges = np.column_stack([after[some], behind[some]]).ravel()
    return some[np.maximum.reduceat(np.append(end, end[-1:]), ranges)[::2] > end[some]] if len(some) else some


def _without_crossings(start: list[int], end: list[int]) -> list[int]:
    """The ends of sorted calls, cut where two calls cross. `opened` is the stack of calls that may still be open."""
    opened: list[int] = []
    for call, begin in enumerate(start):
        while opened:
            around, stop = opened[-1], end[call]
            inside, after = end[around] - begin, stop - end[around]
            if inside > 0 and after <= inside:
                end[call] = min(stop, end[around])
                break
            if inside > 0:
                end[around] = begin
            opened.pop()
        opened.append(call)
    return end


def _parents(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """For calls by start, longer ones first: the parent of each (-1: none), and how many calls contain it.

    The depth of a call is the number of calls that began before it and have not ended; the last one of the depth above
    is its parent. Where calls cross, that may name a call that has ended, and some call outlasts its parent. Calls
    without any time left stand alone.
    """
    parent, depth = np.full(len(start), NONE, dtype=np.int32), np.zeros(len(start), dtype=np.int32)
    live = np.flatnonzero(end > start)
    # Ends are nearly in order, and depths are small: stable sorts of both are quick.
    ended = np.searchsorted(np.sort(end[live], kind="stable"), start[live], side="right")
    deep = (np.arange(len(live), dtype=np.int64) - ended).astype(np.int32)
    depth[live] = deep
    order = np.argsort(deep.astype(np.int16) if deep.max(initial=0) < 2**15 else deep, kind="stable")
    edges = np.searchsorted(deep[order], np.arange(int(deep.max(initial=-1)) + 2))
    for level in range(1, len(edges) - 1):
        mine, above = order[edges[level] : edges[level + 1]], order[edges[level - 1] : edges[level]]
        parent[live[mine]] = live[above[np.searchsorted(above, mine) - 1]]
    return parent, depth


def of_outermost(own: Ints, start: Ints, end: Ints) -> Ints:
    """For each of the sorted, nested calls the value of its outermost enclosing call (or itself) that is not -1.

    The calls inside a call follow it without a gap, so each outermost call covers a range of indices.
    """
    found = own.copy()
    holders = np.flatnonzero((own != NONE) & (end > start))
    if not len(holders):
        return found
    reach = np.maximum.accumulate(end[holders])
    top = holders[np.append([True], start[holders[1:]] >= reach[:-1])]
    behind = np.searchsorted(start, end[top])
    edges = np.zeros(len(own) + 1, dtype=np.int8)
    edges[top] += 1
    edges[behind] -= 1
    # Calls without any time left stand alone, wherever they are.
    inside = np.flatnonzero(np.cumsum(edges[:-1], dtype=np.int8))
    taken = np.repeat(own[top], behind - top)
    whole = end[inside] > start[inside]
    found[inside[whole]] = taken[whole]
    return found


def innermost(start: Ints, end: Ints, parent: Ints, depth: Ints) -> tuple[Ints, Ints, Ints]:
    """Stretches by innermost call: a call is innermost from its start, its parent again from its end."""
    places = np.flatnonzero(end > start).astype(np.int32)
    start, end, depth = start[places], end[places], depth[places]
    when = np.concatenate([end, start])
    who = np.concatenate([parent[places], places])
    # At one moment ends come before starts, deeper ends and shallower starts first: the last entry holds.
    rank = np.concatenate([-depth, depth + 1]) + (deepest := int(depth.max(initial=0)))
    order = np.argsort(when * (2 * deepest + 2) + rank, kind="stable")
    when, who = when[order], who[order]
    last = np.append(when[1:] != when[:-1], [True]) if len(when) else np.zeros(0, dtype=bool)
    when, who = when[last], who[last]
    open_ = who[:-1] != NONE
    return when[:-1][open_], when[1:][open_], who[:-1][open_]
