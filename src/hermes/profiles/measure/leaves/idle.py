"""What the host did while the device had nothing to do: each gap by the thread that launched the task which ends it.

In this order: the task was launched before the gap began; the host's lead was lost in a call that waited for the
device; else what the thread did, and where that records nothing, what the threads that hand it work did. The
definitions stand in docs/tree.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hermes.base.intervals import Intervals, Ints, covered
from hermes.knowledge.leaf_names import leaf_of_event, leaf_on_host
from hermes.model.leaf import Leaf
from hermes.model.leaf_time import How
from hermes.model.tables import RUNTIME_KINDS
from hermes.profiles.measure.leaves.calls import NONE, NUMBER, Bools, Calls
from hermes.profiles.measure.leaves.pieces import found_in, left_of
from hermes.profiles.measure.leaves.tasks import Tasks

LONG_NS = 100_000
"""What is shorter is the cost of handing work over; from here on it is work of its own. Not sensitive: 30 and 300 us
give the same answers on 37 cases."""
SETUP_NS = 10_000_000
"""No queue is full while the device is idle: a launch of this length loads modules or makes a context."""
SMALL_NS = 5_000
"""An operator of the processor with less time of its own is a way to others."""
BETWEEN_NS = 20_000
"""A frame of Python open for less lies between two calls."""
SILENT_TIMES = 10
"""A device that begins later than so many times its usual latency is silent."""
_OTHERS = 3
"""Threads that may answer where the issuing one and the stepping one record nothing: those with most launches."""
_HOLD_NS = 2_000

HOWS = tuple(How)
_AT = {how: place for place, how in enumerate(HOWS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Stretches of the steps by leaf. `of` is the gap or the task, `what` the call that names it and `site` the call
    that it lies in (-1: none); `leaf` and `how` are numbers of `LEAVES` and `HOWS`. Lengths are `ns`."""

    start: Ints
    ns: Ints
    of: Ints
    leaf: Ints
    how: Ints
    what: Ints
    site: Ints

    def __len__(self) -> int:
        return len(self.start)

    def at(self, places: Ints | Bools) -> Parts:
        """Those at some places, or those that a mask chooses."""
        return Parts(**{name: getattr(self, name)[places] for name in Parts.__slots__})


def joined(parts: list[Parts]) -> Parts:
    """All of them as one."""
    return Parts(**{name: np.concatenate([getattr(one, name) for one in parts]) for name in Parts.__slots__})


class Host:
    """The threads of a rank, and what they did at a time."""

    def __init__(self, calls: Calls, *, device: bool) -> None:
        self.calls, self.device = calls, device
        self.main = _main(calls)
        self.others = _others(calls, self.main)

    def doing(self, start: Ints, end: Ints, thread: Ints, of: Ints) -> Parts:
        """What a thread did in each stretch (on the clock of the rank); where it records nothing, what others did."""
        axis = self.calls.axis
        found: list[Parts] = []
        site = np.full(len(start), NONE, dtype=np.int64)
        for way in (None, self.main, *self.others):
            mine = thread if way is None else np.full(len(start), way, dtype=np.int64)
            ask = (mine != NONE) & ((thread != mine) if way is not None else True) if len(start) else np.zeros(0, bool)
            if not ask.any():
                continue
            low, high = axis.at(mine[ask], start[ask]), axis.at(mine[ask], end[ask])
            shift = start[ask] - low
            starts, ends, who = self.calls.timeline
            pieces, at = found_in(low, high, starts, ends)
            strong = ~self.calls.weak[who[at]] if len(at) else np.zeros(0, dtype=bool)
            rows = np.flatnonzero(ask)[pieces.of[strong]]
            found.append(
                self._told(
                    pieces.start[strong] + shift[pieces.of[strong]], pieces.lengths[strong], of[rows],
                    who[at[strong]], (ends - starts)[at[strong]], site[rows],
                )
            )  # fmt: skip
            # Ranges name the place of what is left, whoever answers.
            calls = ~self.calls.weak[who]
            start, end, thread, of, site = self._rest(
                (start, end, thread, of, site), ask, (low, high, shift), (starts[calls], ends[calls])
            )
        found.append(self._holes(start, end, of, site))
        return joined(found)

    def _rest(
        self, rows: tuple[Ints, ...], ask: Bools, on_axis: tuple[Ints, Ints, Ints], strong: tuple[Ints, Ints]
    ) -> tuple[Ints, ...]:
        low, high, shift = on_axis
        left = left_of(low, high, *strong)
        back = np.flatnonzero(ask)[left.of]
        start, end, thread, of, site = rows
        middle = self.calls.innermost(left.start)
        near = np.where((site[back] == NONE) & (middle != NONE), middle, site[back])
        same = ~ask
        return (
            np.concatenate([left.start + shift[left.of], start[same]]),
            np.concatenate([left.end + shift[left.of], end[same]]),
            np.concatenate([thread[back], thread[same]]),
            np.concatenate([of[back], of[same]]),
            np.concatenate([near, site[same]]),
        )

    def _told(self, start: Ints, ns: Ints, of: Ints, who: Ints, whole: Ints, near: Ints) -> Parts:
        """The leaf of the innermost call of each stretch; `whole` is how long it is innermost without a break."""
        calls = self.calls
        length = calls.end[who] - calls.start[who]
        kind = np.array(calls.kinds)[calls.kind[who]] if len(who) else np.zeros(0, dtype="U1")
        runtime = np.isin(kind, RUNTIME_KINDS)
        python, operator = kind == "python", kind == "op"
        block, special, own = calls.block[who], calls.special[who], calls.runtime_leaf[who]
        long_block = (block != NONE) & (calls.end[block] - calls.start[block] >= LONG_NS) & self.device
        is_small = operator & (calls.self_ns[who] < SMALL_NS if not self.device else whole < LONG_NS)
        number, none = NUMBER, np.full(len(who), NONE, dtype=np.int64)
        rules: list[tuple[Bools, NDArray[np.int64] | int, How, Ints]] = [
            (calls.first[who], number[Leaf.FIRST_CALL], How.CALL, who),
            (special != NONE, self._special[np.maximum(special, 0)], How.CALL, special),
            (long_block, number[Leaf.HOST_OPERATOR], How.CALL, block),
            (runtime & (own != NONE), own, How.CALL, who),
            # A copy of pageable memory is made by the host, whatever its call is named.
            (runtime & calls.copying[who] & (length >= LONG_NS), number[Leaf.BLOCKING_COPY], How.CALL, who),
            (runtime & (length >= SETUP_NS), number[Leaf.FIRST_CALL], How.CALL, who),
            (runtime & (length >= LONG_NS), number[Leaf.LONG_LAUNCH], How.CALL, who),
            (runtime, number[Leaf.DISPATCH], How.LAUNCH_CALLS, none),
            (python & (whole < BETWEEN_NS), number[Leaf.DISPATCH], How.BETWEEN_CALLS, none),
            (python, number[Leaf.PYTHON], How.CALL, who),
            (operator & (calls.launching[who] | is_small), number[Leaf.DISPATCH], How.OPERATORS, calls.operator[who]),
            (operator, number[Leaf.HOST_OPERATOR] if self.device else self._computes[who], How.CALL, who),
        ]
        leaf = np.full(len(who), number[Leaf.DISPATCH], dtype=np.int64)
        how, what, open_ = np.full(len(who), _AT[How.BETWEEN_CALLS]), none.copy(), np.ones(len(who), dtype=bool)
        for test, value, way, name in rules:
            now = open_ & test
            leaf[now] = value[now] if isinstance(value, np.ndarray) else value
            how[now], what[now] = _AT[way], name[now]
            open_ &= ~test
        site = np.where(long_block & (leaf == number[Leaf.HOST_OPERATOR]), block, who)
        return Parts(start=start, ns=ns, of=of, leaf=leaf, how=how, what=what, site=self._sited(site, near))

    def _sited(self, site: Ints, near: Ints) -> Ints:
        """The call that tells the place: the one, or where that has no line, range or operator, what a thread named."""
        bare = (self.calls.line[site] == NONE) & (self.calls.range[site] == NONE)
        return np.where(bare & (near != NONE) & (self.calls.operator[site] == NONE), near, site)

    @cached_property
    def _special(self) -> Ints:
        """By call the number of the leaf that its name tells; that of other compute for all others."""
        leaves = [leaf_of_event(name) or Leaf.OTHER_COMPUTE for name in self.calls.names]
        return np.array([NUMBER[leaf] for leaf in leaves], dtype=np.int64)[self.calls.name]

    @cached_property
    def _computes(self) -> Ints:
        """By call the number of the leaf of an operator that the processor computes."""
        return np.array([NUMBER[leaf_on_host(name)] for name in self.calls.names], dtype=np.int64)[self.calls.name]

    def _holes(self, start: Ints, end: Ints, of: Ints, site: Ints) -> Parts:
        """Times in which no thread records anything: short ones lie between two calls."""
        ns = end - start
        following = self._next_of_main(end)
        short = ns < LONG_NS
        leaf = np.where(short, NUMBER[Leaf.DISPATCH], NUMBER[Leaf.NOT_RECORDED])
        how = np.where(short, _AT[How.BETWEEN_CALLS], _AT[How.BEFORE])
        return Parts(start=start, ns=ns, of=of, leaf=leaf, how=how, what=np.where(short, NONE, following), site=site)

    def _next_of_main(self, moments: Ints) -> Ints:
        """The next call of the stepping thread that is more than a range; -1 where there is none."""
        if self.main == NONE or not len(moments):
            return np.full(len(moments), NONE, dtype=np.int64)
        starts, _, who = self.calls.timeline
        strong = ~self.calls.weak[who]
        starts, who = starts[strong], who[strong]
        at = np.searchsorted(starts, self.calls.axis.at(np.full(len(moments), self.main), moments))
        inside = at < len(starts)
        found = np.where(inside, who[np.minimum(at, max(len(who) - 1, 0))] if len(who) else NONE, NONE)
        return np.where(inside & (self.calls.thread[np.maximum(found, 0)] == self.main), found, NONE)


def _main(calls: Calls) -> int:
    """The thread of the step marks; else the one with most operators and calls of the runtime."""
    marks = calls.thread[calls.of_kind("step")]
    if len(marks):
        return int(np.bincount(marks).argmax())
    active = calls.thread[calls.of_kind("op", *RUNTIME_KINDS)]
    active = active if len(active) else calls.thread
    return int(np.bincount(active).argmax()) if len(active) else NONE


def _others(calls: Calls, main: int) -> tuple[int, ...]:
    """Threads that run operators, those with most launches first."""
    with_ops = np.unique(calls.thread[calls.of_kind("op")])
    count = np.bincount(
        calls.thread[calls.launching & ~calls.of_kind("python", "mark")], minlength=len(calls.axis.threads)
    )
    ranked = sorted((int(one) for one in with_ops if one != main), key=lambda one: (-int(count[one]), one))
    return tuple(ranked[:_OTHERS])


def idle_parts(starts: Ints, ends: Ints, tasks: Tasks, calls: Calls, host: Host, busy: Intervals) -> Parts:
    """The leaves of gaps, which are in order and apart; `of` is the place of the gap."""
    gaps = np.arange(len(starts), dtype=np.int64)
    at = np.searchsorted(tasks.start, ends)
    known = (at < len(tasks)) & (tasks.start[np.minimum(at, len(tasks) - 1)] == ends)
    at = np.where(known, at, 0)
    thread = np.where(known, tasks.thread[at], NONE)
    begun, done = np.where(known, tasks.call_ns[at], NONE), np.where(known, tasks.called_ns[at], NONE)
    launched = known & (begun != NONE)
    usual, least = _latency(starts, ends, begun, done, launched, tasks)
    silent = max(SILENT_TIMES * usual, LONG_NS)
    graph = launched & (at > 0) & (tasks.launch[at] != NONE) & (tasks.launch[at] == tasks.launch[np.maximum(at - 1, 0)])
    is_long = done - begun >= LONG_NS
    before = launched & (begun < starts) & ~(is_long & (done > starts)) & (ends - begun > 1.5 * least)
    queued = before | graph
    site = np.where(launched & (tasks.issue[at] != NONE), calls.innermost(tasks.issue[at]), NONE)
    late = queued & ~graph & (ends - starts > silent)
    why = np.where(graph, _AT[How.INSIDE_GRAPH], _AT[How.BEHIND])
    found = [_without_call(starts, ends, gaps, queued & ~late, Leaf.QUEUED, why, site),
             _without_call(starts, ends, gaps, late, Leaf.SILENT, why, site)]  # fmt: skip
    stop = np.where(launched, np.clip(done, starts, ends), ends)
    asks = ~queued & (stop > starts)
    issuing = np.where(thread[asks] == NONE, host.main, thread[asks])
    found.append(host.doing(starts[asks], stop[asks], issuing, gaps[asks]))
    rest = ~queued & (ends > stop)
    quiet = rest & (ends - stop > silent)
    why = np.full(len(ends), _AT[How.LATENCY])
    found.append(_without_call(stop, ends, gaps, rest & ~quiet, Leaf.DISPATCH, why, site))
    found.append(_without_call(stop, ends, gaps, quiet, Leaf.SILENT, why, site))
    return _ended(_charged(_held(joined(found), calls), calls, busy), int(tasks.end.max()))


def _held(parts: Parts, calls: Calls) -> Parts:
    """Silence of the device while the host is in a long copying call belongs to that call: it holds the driver."""
    long_ = calls.end - calls.start >= LONG_NS
    copies = np.flatnonzero(calls.of_kind(*RUNTIME_KINDS) & calls.copying & long_)
    silent = parts.leaf == NUMBER[Leaf.SILENT]
    if not len(copies) or not silent.any():
        return parts
    begin = calls.rows["start_ns"].to_numpy()[copies]
    order = np.argsort(begin, kind="stable")
    copies, begin = copies[order], begin[order]
    # Where threads copy at the same time, the first of the calls keeps the time.
    end = np.maximum.accumulate(begin + (calls.end - calls.start)[copies])
    begin = np.maximum(begin, np.append(begin[:1], end[:-1]))
    some = end > begin
    copies, begin, end = copies[some], begin[some], end[some]
    quiet = parts.at(silent)
    stop = quiet.start + quiet.ns
    pieces, at = found_in(quiet.start, stop, begin, end)
    count = len(pieces)
    held = Parts(
        start=pieces.start, ns=pieces.lengths, of=quiet.of[pieces.of],
        leaf=np.full(count, NUMBER[Leaf.BLOCKING_COPY]), how=np.full(count, _AT[How.CALL]), what=copies[at],
        site=copies[at],
    )  # fmt: skip
    left = left_of(quiet.start, stop, begin, end)
    rest = replace(quiet.at(left.of), start=left.start, ns=left.lengths)
    return joined([parts.at(~silent), held, rest])


def _ended(parts: Parts, last_ns: int) -> Parts:
    """What lies behind the last task of the device is the end of the capture, whatever the host does then."""
    return replace(parts, leaf=np.where(parts.start >= last_ns, NUMBER[Leaf.END], parts.leaf))


def _latency(
    starts: Ints, ends: Ints, begun: Ints, done: Ints, launched: Bools, tasks: Tasks
) -> tuple[int, int]:  # fmt: skip
    """How late a task begins behind its launch on an empty queue: the median, and what is hardly ever undercut."""
    free = launched & (done >= starts) & (done <= ends)
    usual = int(np.median((ends - done)[free])) if free.any() else 0
    late = (tasks.start - tasks.call_ns)[(tasks.call_ns != NONE) & (tasks.start > tasks.call_ns)]
    return usual, int(np.quantile(late, 0.05)) if len(late) else 0


def _without_call(start: Ints, end: Ints, gaps: Ints, which: Bools, leaf: Leaf, how: Ints, site: Ints) -> Parts:
    """Parts of some gaps that are no call's: the device is behind, or late."""
    count = int(which.sum())
    return Parts(
        start=start[which], ns=(end - start)[which], of=gaps[which], leaf=np.full(count, NUMBER[leaf]),
        how=how[which], what=np.full(count, NONE), site=site[which],
    )  # fmt: skip


def _charged(parts: Parts, calls: Calls, busy: Intervals) -> Parts:
    """Dispatch that the host's lead would have hidden is charged to the call that waited for the device before.

    A call that waits while the device works loses as much lead as the device works in it. Dispatch that shows later
    pays that back, in order: of the demand `d` and the lead lost `a`, as running sums, `c(n) = min(c(n-1) + d, a(n))`.
    """
    waits = np.isin(calls.runtime_leaf, [NUMBER[Leaf.SYNCHRONISATION], NUMBER[Leaf.BLOCKING_COPY]])
    held = np.flatnonzero(waits & (calls.end - calls.start > _HOLD_NS))
    # A wait inside another is that one.
    inner = calls.parent[held]
    held = held[~((inner != NONE) & waits[np.maximum(inner, 0)])]
    if not len(held) or not len(parts):
        return parts
    begin = calls.rows["start_ns"].to_numpy()[held]
    order = np.argsort(begin, kind="stable")
    held, begin = held[order], begin[order]
    end = begin + (calls.end - calls.start)[held]
    lost = np.cumsum(covered(busy, begin, end))
    order = np.argsort(parts.start, kind="stable")
    parts = parts.at(order)
    demand = np.cumsum(np.where(parts.leaf == NUMBER[Leaf.DISPATCH], parts.ns, 0))
    before = np.searchsorted(begin, parts.start + parts.ns)
    credit = np.where(before > 0, lost[np.maximum(before - 1, 0)], 0)
    paid = demand + np.minimum(np.minimum.accumulate(credit - demand), 0)
    taken = np.diff(paid, prepend=0)
    some = np.flatnonzero(taken > 0)
    call = held[np.maximum(before[some] - 1, 0)]
    more = Parts(
        start=parts.start[some], ns=taken[some], of=parts.of[some], leaf=calls.runtime_leaf[call],
        how=np.full(len(some), _AT[How.LOST_LEAD]), what=call, site=call,
    )  # fmt: skip
    rest = Parts(start=parts.start, ns=parts.ns - taken, of=parts.of, leaf=parts.leaf, how=parts.how,
                 what=parts.what, site=parts.site)  # fmt: skip
    return joined([rest, more])
