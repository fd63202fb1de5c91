"""Splits each idle gap of the device into leaves, by the work of the host thread that launched the next task.

The first rule that holds decides. The task was launched before the gap began. The host's lead was lost in a call that
waited for the device. Else the thread's own work decides; without a record of it, the work of the threads that feed it.
docs/tree.md defines the leaves.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hermes.base.intervals import Intervals
from hermes.base.usable_cores import spare_thread
from hermes.knowledge.leaf_names import leaf_on_host
from hermes.model.leaf import Leaf
from hermes.model.leaf_time import How
from hermes.model.tables import RUNTIME_KINDS
from hermes.profiles.measure.leaves.call_trees import IN_UPDATE, NUMBER, RANGES, CallTrees
from hermes.profiles.measure.leaves.charge_calls import charge_copies, charge_waits
from hermes.profiles.measure.leaves.first_calls import first_calls, setup_calls
from hermes.profiles.measure.leaves.labelled_stretches import found_in, stretches_outside
from hermes.profiles.measure.leaves.leaf_stretches import AT, LeafStretches, join_stretches
from hermes.profiles.measure.leaves.lost_lead import charge_lost_lead
from hermes.profiles.measure.leaves.nesting import NONE, Bools, Ints
from hermes.profiles.measure.leaves.tasks import Tasks

LONG_NS = 100_000
"""The host time in ns below which time is the cost of launching work; longer time is work of its own.

The limit is not sensitive: 30 and 300 us give the same answers on 37 cases. A launch takes less, too: a device that
begins a task later has been silent.
"""
SMALL_NS = 5_000
"""An operator of the processor with less self time only calls other operators."""
BETWEEN_NS = 20_000
"""The time in ns below which an open Python frame counts as a gap between two calls."""
_OTHERS = 3
"""The most threads to ask, by launches, if the launching and the stepping thread record nothing."""
_AT_ONCE = 4_096
"""Gaps that are explained at once: the data to explain a gap takes memory."""


class Host:
    """The host threads of a rank, and their work at each moment.

    `begun`: the job had made steps before the capture, so that no call of the capture is the first of its name.
    """

    def __init__(self, calls: CallTrees, *, device: bool, begun: bool = False) -> None:
        self.calls, self.device, self._begun = calls, device, begun
        self.main = stepping_thread(calls)
        self.others = _others(calls, self.main)

    def doing(self, start: Ints, end: Ints, thread: Ints, of: Ints) -> LeafStretches:
        """A thread's work in each stretch, in ns on the rank's clock; other threads' work if the thread has none."""
        edges = [*range(0, len(start), _AT_ONCE), len(start)] if len(start) else [0, 0]
        asked = [slice(low, high) for low, high in itertools.pairwise(edges)]

        def told(some: list[slice]) -> list[LeafStretches]:
            return [self._doing(start[one], end[one], thread[one], of[one]) for one in some]

        if len(asked) == 1:
            return join_stretches(told(asked))
        half = len(asked) // 2
        with spare_thread() as other:
            later = other.submit(told, asked[half:])
            return join_stretches([*told(asked[:half]), *later.result()])

    def _doing(self, start: Ints, end: Ints, thread: Ints, of: Ints) -> LeafStretches:
        axis = self.calls.axis
        found: list[LeafStretches] = []
        site = np.full(len(start), NONE, dtype=np.int64)
        for way in (None, self.main, *self.others):
            mine = thread if way is None else np.full(len(start), way, dtype=np.int64)
            ask = (mine != NONE) & ((thread != mine) if way is not None else True) if len(start) else np.zeros(0, bool)
            if not ask.any():
                continue
            low, high = axis.at(mine[ask], start[ask]), axis.at(mine[ask], end[ask])
            shift = start[ask] - low
            starts, ends, who = self._timeline
            pieces, at = found_in(low, high, starts, ends)
            rows = np.flatnonzero(ask)[pieces.of]
            found.append(
                self._told(
                    pieces.start + shift[pieces.of],
                    pieces.lengths,
                    of[rows],
                    who[at],
                    self._whole[at],
                    site[rows],
                )
            )
            # Ranges name the place of the remaining time, whichever thread answers.
            start, end, thread, of, site = self._rest(
                (start, end, thread, of, site), ask, (low, high, shift), (starts, ends)
            )
        found.append(self._holes(start, end, thread, of, site))
        return join_stretches(found)

    @cached_property
    def _timeline(self) -> tuple[Ints, Ints, Ints]:
        """The timeline of innermost calls, in which a range does not hide the call around it.

        Stretches in which only a range or a waiting frame is open are left out.
        """
        calls = self.calls
        starts, ends, who = calls.timeline
        around = _around(calls)
        strong = np.flatnonzero(~calls.weak[around][who])
        starts, ends, who = starts[strong], ends[strong], around[who[strong]]
        first = np.ones(len(who), dtype=bool)
        first[1:] = (who[1:] != who[:-1]) | (starts[1:] != ends[:-1])
        return starts[first], ends[np.roll(first, -1)], who[first]

    @cached_property
    def _whole(self) -> Ints:
        """The ns during which the call of each stretch of the timeline stays innermost.

        Python of the user's that calls no operator for `LONG_NS` is one stretch, however many functions it calls.
        """
        starts, ends, who = self._timeline
        own = self.calls.in_own_python[who]
        begins = np.ones(len(who), dtype=bool)
        begins[1:] = ~own[1:] | ~own[:-1] | (starts[1:] != ends[:-1])
        run = np.cumsum(begins) - 1
        length = np.bincount(run, weights=ends - starts).astype(np.int64) if len(run) else run
        return np.where(own & (length[run] >= LONG_NS), length[run], ends - starts)

    def _rest(
        self, rows: tuple[Ints, ...], ask: Bools, on_axis: tuple[Ints, Ints, Ints], strong: tuple[Ints, Ints]
    ) -> tuple[Ints, ...]:
        low, high, shift = on_axis
        left = stretches_outside(low, high, *strong)
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

    def _told(self, start: Ints, ns: Ints, of: Ints, who: Ints, whole: Ints, near: Ints) -> LeafStretches:
        """The leaf of the innermost call of each stretch; `whole` is as in `_whole`."""
        calls = self.calls
        length = calls.end[who] - calls.start[who]
        runtime, python, operator = (
            calls.of_kind(*kinds, which=who) for kinds in (RUNTIME_KINDS, ("python",), ("op",))
        )
        block, special, own = calls.block[who], calls.special[who], calls.runtime_leaf[who]
        long_block = (block != NONE) & (calls.end[block] - calls.start[block] >= LONG_NS) & self.device
        passing = self._passing[who] & (calls.self_ns[who] < LONG_NS)
        small = whole < LONG_NS if self.device else passing | (calls.self_ns[who] < SMALL_NS)
        number, none = NUMBER, np.full(len(who), NONE, dtype=np.int64)
        rules: list[tuple[Bools, NDArray[np.int64] | int, How, Ints]] = [
            (self._first[who], number[Leaf.FIRST_CALL], How.CALL, who),
            (calls.standing_before[who], number[Leaf.PROFILER], How.CALL, who),
            (special != NONE, calls.special_leaf[np.maximum(special, 0)], How.CALL, special),
            # Time in a call that waits is the call's, whatever operator makes it.
            (calls.waiting[who], own, How.CALL, who),
            (long_block, number[Leaf.HOST_OPERATOR], How.CALL, block),
            (runtime & (own != NONE), own, How.CALL, who),
            # A copy of pageable memory is made by the host, whatever its call is named.
            (runtime & calls.copying[who] & (length >= LONG_NS), number[Leaf.BLOCKING_COPY], How.CALL, who),
            (self._setup[who], number[Leaf.FIRST_CALL], How.CALL, who),
            (runtime & (length >= LONG_NS), number[Leaf.LONG_LAUNCH], How.CALL, who),
            (runtime, number[Leaf.DISPATCH], How.LAUNCH_CALLS, none),
            (python & (whole < BETWEEN_NS), number[Leaf.DISPATCH], How.BETWEEN_CALLS, none),
            (python, number[Leaf.PYTHON], How.CALL, who),
            (operator & (calls.launching[who] | small), number[Leaf.DISPATCH], How.OPERATORS, calls.operator[who]),
            (operator, number[Leaf.HOST_OPERATOR] if self.device else self._computes[who], How.CALL, who),
        ]
        leaf = np.full(len(who), number[Leaf.DISPATCH], dtype=np.int64)
        how, what, open_ = np.full(len(who), AT[How.BETWEEN_CALLS]), none.copy(), np.ones(len(who), dtype=bool)
        for test, value, way, name in rules:
            now = open_ & test
            leaf[now] = value[now] if isinstance(value, np.ndarray) else value
            how[now], what[now] = AT[way], name[now]
            open_ &= ~test
        site = np.where(long_block & (leaf == number[Leaf.HOST_OPERATOR]), block, who)
        return LeafStretches(start=start, ns=ns, of=of, leaf=leaf, how=how, what=what, site=self._sited(site, near))

    def _sited(self, site: Ints, near: Ints) -> Ints:
        """The call that tells the place: the call itself, or `near` if it has no line, range or operator."""
        bare = (self.calls.line[site] == NONE) & (self.calls.range[site] == NONE)
        return np.where(bare & (near != NONE) & (self.calls.operator[site] == NONE), near, site)

    @cached_property
    def _first(self) -> Bools:
        return np.zeros(len(self.calls), dtype=bool) if self._begun else first_calls(self.calls)

    @cached_property
    def _setup(self) -> Bools:
        return setup_calls(self.calls)

    @cached_property
    def _computes(self) -> Ints:
        """For each call, the leaf number of an operator that the processor computes."""
        calls = self.calls
        by_name = np.array([NUMBER[leaf_on_host(name)] for name in calls.names], dtype=np.int8)[calls.name]
        return np.where(calls.updating, IN_UPDATE[by_name], by_name)

    @cached_property
    def _passing(self) -> Bools:
        """The operators that only pass on work to an inner operator of their class, as `linear` does to `addmm`."""
        calls, passing = self.calls, np.zeros(len(self.calls), dtype=bool)
        inner = np.flatnonzero((calls.parent != NONE) & calls.of_kind("op"))
        holder = calls.parent[inner]
        own = self._computes
        alike = calls.of_kind("op", which=holder) & (own[inner] == own[holder])
        passing[holder[alike & (own[inner] != NUMBER[Leaf.OTHER_COMPUTE])]] = True
        return passing

    def _holes(self, start: Ints, end: Ints, thread: Ints, of: Ints, site: Ints) -> LeafStretches:
        """Stretches in which no thread records anything: short ones lie between two calls, if there are calls."""
        ns = end - start
        following = self._next(np.where(thread == NONE, self.main, thread), end)
        short = (ns < LONG_NS) & self._recorded
        leaf = np.where(short, NUMBER[Leaf.DISPATCH], NUMBER[Leaf.NOT_RECORDED])
        how = np.where(short, AT[How.BETWEEN_CALLS], AT[How.BEFORE])
        return LeafStretches(
            start=start, ns=ns, of=of, leaf=leaf, how=how, what=np.where(short, NONE, following), site=site
        )

    @cached_property
    def _recorded(self) -> bool:
        """Whether anything but marks of steps and ranges was recorded of the host."""
        return bool((~self.calls.of_kind(*RANGES)).any())

    def _next(self, thread: Ints, moments: Ints) -> Ints:
        """The next call of each thread that is more than a range, from each moment on; -1 if there is none."""
        starts, _, who = self._timeline
        if not len(moments) or not len(who):
            return np.full(len(moments), NONE, dtype=np.int64)
        at = np.searchsorted(starts, self.calls.axis.at(np.maximum(thread, 0), moments))
        found = who[np.minimum(at, len(who) - 1)]
        return np.where((at < len(starts)) & (self.calls.thread[found] == thread), found, NONE)


def _around(calls: CallTrees) -> Ints:
    """For each call the call itself; for a range without a known purpose, the innermost call around it, if any."""
    around = calls.places.copy()
    ranges = np.flatnonzero(calls.weak & calls.of_kind(*RANGES))
    holder = ranges
    while len(ranges):
        holder = calls.parent[holder]
        left = holder != NONE
        ranges, holder = ranges[left], holder[left]
        found = ~(calls.weak[holder] & calls.of_kind(*RANGES, which=holder))
        around[ranges[found]] = holder[found]
        ranges, holder = ranges[~found], holder[~found]
    return around


def stepping_thread(calls: CallTrees) -> int:
    """The thread of the step marks; else the thread with most operators and runtime calls."""
    marks = calls.thread[calls.of_kind("step")]
    if len(marks):
        return int(np.bincount(marks).argmax())
    active = calls.thread[calls.of_kind("op", *RUNTIME_KINDS)]
    active = active if len(active) else calls.thread
    return int(np.bincount(active).argmax()) if len(active) else NONE


def _others(calls: CallTrees, main: int) -> tuple[int, ...]:
    """Threads that run operators, those with most launches first."""
    with_ops = np.unique(calls.thread[calls.of_kind("op")])
    count = np.bincount(
        calls.thread[calls.launching & ~calls.of_kind("python", "mark")], minlength=len(calls.axis.threads)
    )
    ranked = sorted((int(one) for one in with_ops if one != main), key=lambda one: (-int(count[one]), one))
    return tuple(ranked[:_OTHERS])


def idle_parts(starts: Ints, ends: Ints, tasks: Tasks, calls: CallTrees, host: Host, busy: Intervals) -> LeafStretches:
    """The leaves of idle gaps, which are in order and disjoint; `of` is the index of the gap."""
    gaps = np.arange(len(starts), dtype=np.int64)
    at = np.searchsorted(tasks.start, ends)
    known = (at < len(tasks)) & (tasks.start[np.minimum(at, len(tasks) - 1)] == ends)
    at = np.where(known, at, 0)
    thread = np.where(known, tasks.thread[at], NONE)
    begun, done = np.where(known, tasks.call_ns[at], NONE), np.where(known, tasks.called_ns[at], NONE)
    launched = known & (begun != NONE)
    least = _least_latency(tasks)
    graph = launched & (at > 0) & (tasks.launch[at] != NONE) & (tasks.launch[at] == tasks.launch[np.maximum(at - 1, 0)])
    is_long = done - begun >= LONG_NS
    before = launched & (begun < starts) & ~(is_long & (done > starts)) & (ends - begun > 1.5 * least)
    queued = before | graph
    site = np.where(launched & (tasks.issue[at] != NONE), calls.innermost(tasks.issue[at]), NONE)
    late = queued & (ends - starts > LONG_NS)
    why = np.where(graph, AT[How.INSIDE_GRAPH], AT[How.BEHIND])
    found = [_without_call(starts, ends, gaps, queued & ~late, Leaf.QUEUED, why, site),
             _without_call(starts, ends, gaps, late, Leaf.SILENT, why, site)]  # fmt: skip
    stop = np.where(launched, np.clip(done, starts, ends), ends)
    asks = ~queued & (stop > starts)
    issuing = np.where(thread[asks] == NONE, host.main, thread[asks])
    found.append(host.doing(starts[asks], stop[asks], issuing, gaps[asks]))
    rest = ~queued & (ends > stop)
    quiet = rest & (ends - stop > LONG_NS)
    why = np.full(len(ends), AT[How.LATENCY])
    latency = _without_call(stop, ends, gaps, rest & ~quiet, Leaf.DISPATCH, why, site)
    found.append(charge_waits(latency, np.where(thread == NONE, host.main, thread), calls, host.doing))
    # Release tens of megabytes of a large capture here.
    del host
    found.append(_without_call(stop, ends, gaps, quiet, Leaf.SILENT, why, site))
    parts = join_stretches(found)
    del found
    return _ended(charge_lost_lead(charge_copies(parts, calls), calls, busy), int(tasks.end.max()))


def within_operations(parts: LeafStretches, start: Ints, end: Ints) -> tuple[LeafStretches, LeafStretches]:
    """Split parts of a job without a device: other parts, and those the stepping thread spends on collectives.

    In the latter the thread records nothing, or only its wait for the collective, while the collective runs on another
    thread. If several run, the one that began first keeps the time; `what` is its index among the given collectives.
    """
    idle = np.isin(parts.leaf, [NUMBER[Leaf.NOT_RECORDED], NUMBER[Leaf.COMMUNICATION]])
    own = parts.at(idle)
    order = np.argsort(start, kind="stable")
    low = np.maximum(start[order], np.append([np.iinfo(np.int64).min], np.maximum.accumulate(end[order])[:-1]))
    some = end[order] > low
    order, low, high = order[some], low[some], end[order][some]
    pieces, at = found_in(own.start, own.start + own.ns, low, high)
    count = len(pieces)
    within = LeafStretches(
        start=pieces.start, ns=pieces.lengths, of=own.of[pieces.of], leaf=np.full(count, NUMBER[Leaf.COMMUNICATION]),
        how=np.full(count, AT[How.CALL]), what=order[at], site=own.site[pieces.of],
    )  # fmt: skip
    left = stretches_outside(own.start, own.start + own.ns, low, high)
    rest = replace(own.at(left.of), start=left.start, ns=left.lengths)
    return join_stretches([parts.at(~idle), rest]), within


def _ended(parts: LeafStretches, last_ns: int) -> LeafStretches:
    """Count time after the last device task as the end of the capture, whatever the host does then."""
    return replace(parts, leaf=np.where(parts.start >= last_ns, NUMBER[Leaf.END], parts.leaf))


def _least_latency(tasks: Tasks) -> int:
    """The shortest time in ns from a launch to the task's start: a 5 per cent quantile."""
    late = (tasks.start - tasks.call_ns)[(tasks.call_ns != NONE) & (tasks.start > tasks.call_ns)]
    return int(np.quantile(late, 0.05)) if len(late) else 0


def _without_call(start: Ints, end: Ints, gaps: Ints, which: Bools, leaf: Leaf, how: Ints, site: Ints) -> LeafStretches:
    """Parts of gaps that belong to no call, since the device is behind or late."""
    count = int(which.sum())
    return LeafStretches(
        start=start[which], ns=(end - start)[which], of=gaps[which], leaf=np.full(count, NUMBER[leaf]),
        how=how[which], what=np.full(count, NONE), site=site[which],
    )  # fmt: skip
