"""Searches bucket sizes by replaying the step: the best size, its gain and the reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median

import numpy as np

from hermes.base.intervals import Ints
from hermes.profiles.measure.path.event_graph import EventGraph, starts
from hermes.profiles.whatif.communication.collective_cost import Case, CollectiveCost, Link, costs
from hermes.profiles.whatif.communication.collectives_in_graph import Family, Operation, families
from hermes.profiles.whatif.communication.gradient_readiness import Compute, Gradients, Readiness, When, readiness_of
from hermes.profiles.whatif.communication.rebuild_with_buckets import SWITCH_NS, Bucket, Buckets, TangledError, rebuilt
from hermes.profiles.whatif.step_event_graph import JobStep

MB = 1024 * 1024
CAPS_MB = (1, 2, 4, 8, 12, 16, 25, 32, 50, 64, 100, 128, 200, 256, 400, 512, 1024)
"""Bucket sizes in MB that are tried, up to the bytes of all gradients together."""
_REPLAYED = 4
"""How many of the best sizes are replayed, after a cheap estimate from a queue of transfers alone."""
_LONGEST_NS = 300_000
"""A longer time in ns from the last gradient to its collective is a wait for something else."""
WIDEST = 0.1
"""The width of a gain range, as a share of the step, beyond which the range is too uncertain to act on."""
SPREAD = 0.02
"""The share of the step by which two runs of one job differ, unless their steps show a larger difference."""
Scenario = tuple[Case, When]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A step of a job with its collectives and gradients, as the search takes it.

    `spread_ns` is how much the median steps of two such runs differ, judged by the recorded steps.
    """

    job: JobStep
    operations: tuple[Operation, ...]
    compute: Mapping[int, Compute]
    gradients: Mapping[int, Gradients]
    spread_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SentGradients:
    """How the gradients of a step are sent, by the rank group whose last transfer ends last.

    `begins_ns` is the time from the begin of the step to the first transfer. `tail_ns` is the time from the last
    gradient to the end of the last transfer.
    """

    buckets: int
    largest_bytes: int
    begins_ns: int
    tail_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The best bucket size: its gain from `low_ns` to `high_ns` for a step of `step_ns`, and why it is better.

    `told`: autograd's own calls tell when gradients are ready. `fixed_ns` is the time that each collective takes
    whatever its size.
    """

    cap_mb: int
    step_ns: int
    low_ns: int
    high_ns: int
    now: SentGradients
    then: SentGradients
    fixed_ns: int
    told: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GatheredUnits:
    """How sharded units are gathered: how many units before their use in forward and in backward.

    `exposed_ns` is the longest time in which a rank communicates and does not compute. `held_bytes` are the most whole
    parameters that a rank holds at once. Bytes are None if the number of ranks that share a unit is unknown.
    """

    units: int
    largest_bytes: int | None
    forward: int
    backward: int
    exposed_ns: int
    held_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitPlan:
    """The best layout of sharded units: its gain from `low_ns` to `high_ns` for a step of `step_ns`, and why.

    `merged` neighbours form a unit. Gathers are launched the units `earlier_forward` and `earlier_backward` earlier.
    `fixed_ns` is the time that each collective takes whatever its size.
    """

    merged: int
    earlier_forward: int
    earlier_backward: int
    step_ns: int
    low_ns: int
    high_ns: int
    now: GatheredUnits
    then: GatheredUnits
    fixed_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The result of a search: a plan for buckets or for sharded units, or why there is no plan.

    Values of `why` for buckets: `nothing_sent`, `one_size`, `not_told` and `no_gain`; for sharded units:
    `units_not_told` and `no_unit_gain`. `tried` is how many sizes were tried, `gain_ns` the likely gain of the best
    size, `pad_ns` the difference between two runs.
    """

    plan: Plan | None
    units: UnitPlan | None = None
    why: str = ""
    tried: int = 0
    gain_ns: int = 0
    pad_ns: int = 0


@dataclass(slots=True, kw_only=True)
class _Sent:
    """A family of collectives, when its bytes are ready, and what its transfers cost."""

    family: Family
    ready: Readiness
    cost: CollectiveCost
    lag_ns: Mapping[int, int]


class Search:
    """Tries bucket sizes on one step by replay."""

    def __init__(self, exchange: Exchange) -> None:
        self._job, self._graph = exchange.job, exchange.job.graph
        self._exchange = exchange
        self._finish = self._graph.finish
        self._computes = np.asarray(self._job.component == "compute")
        self._costs: Mapping[Link, CollectiveCost] = costs(self._graph, exchange.operations)

    @cached_property
    def sent(self) -> list[_Sent]:
        """The families whose bucket size can be changed; for each group, only families with all gradients of a step."""
        every = families(self._graph, self._exchange.operations, self._job.component)
        found = [one for family in every if (one := self._sent(family)) is not None]
        most: dict[tuple[int, ...], int] = {}
        for one in found:
            most[one.family.ranks] = max(most.get(one.family.ranks, 0), one.family.bytes)
        return [one for one in found if one.family.bytes == most[one.family.ranks]]

    def _sent(self, family: Family) -> _Sent | None:
        cost = self._costs[family.operations[0].link]
        ready = readiness_of(self._graph, family, self._exchange.compute, self._exchange.gradients, self._computes)
        if ready is None:
            return None
        return _Sent(family=family, ready=ready, cost=cost, lag_ns=self._lags(family, ready))

    def _lags(self, family: Family, ready: Readiness) -> Mapping[int, int]:
        """For each rank, the usual ns from a bucket's last gradient to its arrival while no other transfer ran."""
        found = {}
        for rank in family.ranks:
            free = [SWITCH_NS]
            for one, end in zip(family.operations, family.ends, strict=True):
                done = int(self._finish[ready.node(rank, end, "late")])
                at = int(self._graph.start[one.arrival[rank]])
                busy = one.before.get(rank)
                if busy is None or int(self._finish[busy]) < at - SWITCH_NS:
                    free.append(min(max(0, at - done), _LONGEST_NS))
            found[rank] = round(median(free[1:] or free))
        return found

    def best(self) -> SearchResult:
        """The bucket size that makes the step shortest, if its gain exceeds the difference between two runs."""
        if not self.sent:
            return SearchResult(plan=None, why="nothing_sent")
        caps = self._caps()
        queued = {cap: self._queued(cap) for cap in caps}
        near = sorted(cap for cap in caps if queued[cap] <= min(queued.values()) + self._alike_ns)
        # Replay sizes chosen evenly among the sizes that a queue of transfers alone finds equally good.
        chosen = {near[at * (len(near) - 1) // (_REPLAYED - 1)] for at in range(_REPLAYED)}
        gains = {cap: self._gain(cap, ("middle", "middle")) for cap in sorted(chosen)}
        # Among equally good sizes take the largest: each collective costs its launch too.
        cap = max(cap for cap in gains if gains[cap] >= max(gains.values()) - self._alike_ns)
        return self._judged(cap, len(caps))

    def _judged(self, cap: int, tried: int) -> SearchResult:
        gains = [self._gain(cap, scenario) for scenario in self._scenarios()]
        low, high = min(gains) - self._pad_ns, max(gains) + self._pad_ns
        step = self._step_ns
        likely = gains[0]
        none = SearchResult(plan=None, why="no_gain", tried=tried, gain_ns=max(0, likely), pad_ns=self._pad_ns)
        if likely <= self._pad_ns:
            return none
        if low <= 0 or high - low > WIDEST * step:
            told = all(one.cost.told for one in self.sent)
            return replace(none, why="not_told" if told else "one_size")
        first = self.sent[-1]
        plan = Plan(
            cap_mb=cap // MB, step_ns=step, low_ns=low, high_ns=high,
            now=self._told_of(first, None), then=self._told_of(first, cap), fixed_ns=first.cost.fixed_ns,
            told=bool(first.ready.sizes),
        )  # fmt: skip
        return replace(none, plan=plan, why="")

    @property
    def _step_ns(self) -> int:
        return self._job.end_ns - self._job.begin_ns

    @property
    def _pad_ns(self) -> int:
        return pad_ns(self._exchange)

    @property
    def _alike_ns(self) -> int:
        """The difference in ns below which two steps count as equally good."""
        return self._pad_ns // 2

    def _caps(self) -> list[int]:
        """The sizes to try: of sizes that give the same buckets, the smallest."""
        most = max(one.family.bytes for one in self.sent)
        seen: dict[tuple[tuple[int, ...], ...], int] = {}
        for cap in (mb * MB for mb in CAPS_MB):
            seen.setdefault(tuple(bounds(one.ready, cap) for one in self.sent), cap)
            if cap >= most:
                break
        return list(seen.values())

    def _scenarios(self) -> Iterator[Scenario]:
        """The likely case of cost and readiness first, then the other possible cases."""
        yield "middle", "middle"
        cases: tuple[Case, ...] = ("low", "high")
        for case in cases:
            yield case, "middle"
        if not all(one.ready.sizes for one in self.sent):
            yield "middle", "early"
            yield "middle", "late"

    def _queued(self, cap: int) -> int:
        """An estimate in ns: the sum over all families of the end of the last transfer, if compute stays unchanged."""
        return sum(self._queue(one, cap)[-1][1] for one in self.sent)

    def _queue(self, one: _Sent, cap: int | None, scenario: Scenario = ("middle", "middle")) -> list[tuple[int, int]]:
        """The begin and end of each transfer in ns, if compute stays unchanged."""
        found: list[tuple[int, int]] = []
        for bucket in self._buckets(one, cap, scenario).buckets:
            ready = max(int(self._finish[node]) + lag for node, lag in bucket.ready.values())
            begin = max(ready, found[-1][1] + SWITCH_NS) if found else ready
            found.append((begin, begin + bucket.ns))
        return found

    def _buckets(self, one: _Sent, cap: int | None, scenario: Scenario) -> Buckets:
        """The family as buckets of `cap` bytes; without `cap`, its present buckets with the cost of their sizes."""
        case, when = scenario
        ends = one.family.ends if cap is None else bounds(one.ready, cap)
        made = [
            Bucket(
                end=end,
                ns=one.cost.ns(end - start, case),
                ready={rank: (one.ready.node(rank, end, when), one.lag_ns[rank]) for rank in one.family.ranks},
            )
            for start, end in zip((0, *ends), ends, strict=False)
        ]
        return Buckets(family=one.family, buckets=tuple(made))

    def _gain(self, cap: int, scenario: Scenario) -> int:
        """The gain of a bucket size in ns: the replayed step with present buckets less that with new buckets."""
        return self._now_ns - self._length(cap, scenario)

    @cached_property
    def _now_ns(self) -> int:
        """The step with present buckets in ns, also replayed: time that a replay leaves out is in neither step."""
        return self._length(None, ("middle", "middle"))

    def _length(self, cap: int | None, scenario: Scenario) -> int:
        graph = rebuilt(self._graph, [self._buckets(one, cap, scenario) for one in self.sent])
        return length(graph, starts(graph), self._job.begin_ns)

    def _told_of(self, one: _Sent, cap: int | None) -> SentGradients:
        queue = self._queue(one, cap)
        ends = one.family.ends if cap is None else bounds(one.ready, cap)
        last = max(int(self._finish[one.ready.node(rank, ends[-1])]) for rank in one.family.ranks)
        return SentGradients(
            buckets=len(ends),
            largest_bytes=max(end - start for start, end in zip((0, *ends), ends, strict=False)),
            begins_ns=queue[0][0] - self._job.begin_ns,
            tail_ns=max(0, queue[-1][1] - last),
        )


def pad_ns(exchange: Exchange) -> int:
    """The difference in ns between two runs of the same job."""
    return max(round(SPREAD * (exchange.job.end_ns - exchange.job.begin_ns)), exchange.spread_ns)


def bounds(ready: Readiness, cap: int) -> tuple[int, ...]:
    """Where buckets end, in bytes: with the gradient that fills them, as in DistributedDataParallel.

    If the sizes of gradients are unknown, buckets end where they are full.
    """
    total = ready.ends[-1]
    if not ready.sizes:
        return tuple([*range(cap, total, cap), total])
    found, held, at = [], 0, 0
    for size in ready.sizes:
        held, at = held + size, at + size
        if held >= cap:
            found.append(at)
            held = 0
    return tuple(found if not held else [*found, at])


def length(graph: EventGraph, start: Ints, begin_ns: int) -> int:
    """The length of the step in ns on the last rank: from the end of the step before to the end of this step."""
    finish = start + graph.dur
    begin = max((int(finish[node]) for node in graph.origins.values()), default=begin_ns)
    return max((int(finish[node]) for node in graph.sinks.values()), default=begin) - begin


def search(exchange: Exchange) -> SearchResult:
    """The best bucket size for a step."""
    try:
        return Search(exchange).best()
    except TangledError:
        return SearchResult(plan=None, why="not_told")
