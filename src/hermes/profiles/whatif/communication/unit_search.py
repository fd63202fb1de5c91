"""Searches when to gather sharded units and how large to make them, by replaying the step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np

from hermes.base.intervals import Ints, union_of_intervals
from hermes.profiles.measure.path.event_graph import FREE, EventGraph, starts
from hermes.profiles.measure.path.previous_tasks import NONE
from hermes.profiles.whatif.communication.collective_cost import Case, CollectiveCost, Link, costs
from hermes.profiles.whatif.communication.collectives_in_graph import Following
from hermes.profiles.whatif.communication.rebuild_with_buckets import TangledError
from hermes.profiles.whatif.communication.rebuild_with_units import Layout, regathered
from hermes.profiles.whatif.communication.search import (
    WIDEST,
    Exchange,
    GatheredUnits,
    SearchResult,
    UnitPlan,
    length,
    pad_ns,
)
from hermes.profiles.whatif.communication.sharded_units import Sharded, computed_before, sharded, units_gathered_ahead

_EARLIER = (0, 1, 2)
_MERGED = (1, 2, 4)
_APART = 1.25
"""The factor between sizes of gathers or scatters from which their times tell a slope: they differ little in size."""
_AS_MEASURED = 0.05
"""The largest error, as a share of the step, of a replay of the unchanged step that may judge other layouts."""


class UnitSearch:
    """Tries layouts of one step with sharded parameters by replay."""

    def __init__(self, exchange: Exchange, passes: list[Sharded]) -> None:
        self._exchange, self._passes = exchange, passes
        self._job, self._graph = exchange.job, exchange.job.graph
        self._costs: Mapping[Link, CollectiveCost] = costs(self._graph, exchange.operations, apart=_APART)
        self._following = Following(self._graph, self._job.component)
        self._gains: dict[Layout, int] = {}
        # Use the last pass of the step whose length counts.
        self._last = passes[-1]

    def best(self) -> SearchResult:
        """The layout that makes the step shortest, if its gain exceeds the difference between two runs of the job."""
        for layout in self._candidates():
            self._gains[layout] = self._gain(layout)
        best = self._cheapest()
        for layout in (replace(best, forward=0), replace(best, backward=0)):
            if layout != Layout() and layout not in self._gains:
                self._gains[layout] = self._gain(layout)
        return self._judged(self._cheapest())

    def _candidates(self) -> Iterator[Layout]:
        many = len(self._last.forward) - self._last.kept
        for merged in _MERGED:
            if merged > 1 and (2 * merged > many or not self._uses_are_known):
                break
            for earlier in _EARLIER:
                if (merged, earlier) != (1, 0):
                    yield Layout(forward=earlier, backward=earlier, merged=merged)

    @cached_property
    def _uses_are_known(self) -> bool:
        """Whether each gather's first use is known on most ranks: else a merged unit could begin before its data."""
        for one in (*self._last.forward, *self._last.backward):
            known = [self._following.used_ns(node) != FREE for node in one.transfer.values()]
            if 2 * sum(known) <= len(known):
                return False
        return True

    def _cheapest(self) -> Layout:
        """Among layouts as good as the best within two runs' difference, the one with least memory and change."""
        most = max(self._gains.values())
        good = [one for one, gain in self._gains.items() if gain >= most - self._pad_ns]
        return min(good, key=lambda one: (self._held(one), one.forward + one.backward, one.merged))

    def _judged(self, layout: Layout) -> SearchResult:
        pad, step = self._pad_ns, self._step_ns
        cases: tuple[Case, ...] = ("middle", "low", "high") if layout.merged > 1 else ("middle",)
        gains = [self._gain(layout, case) for case in cases]
        low, high = min(gains) - pad, max(gains) + pad
        none = SearchResult(
            plan=None, why="no_unit_gain", tried=len(self._gains), gain_ns=max(0, gains[0]), pad_ns=pad
        )  # fmt: skip
        if abs(self._now_ns - step) > _AS_MEASURED * step:
            return replace(none, why="units_not_told")
        if gains[0] <= pad:
            return none
        if low <= 0 or high - low > WIDEST * step:
            return replace(none, why="units_not_told")
        plan = UnitPlan(
            merged=layout.merged, earlier_forward=layout.forward, earlier_backward=layout.backward,
            step_ns=step, low_ns=low, high_ns=high, now=self._told(Layout()), then=self._told(layout),
            fixed_ns=self._costs[self._last.forward[-1].link].fixed_ns,
        )  # fmt: skip
        return replace(none, units=plan, why="")

    @property
    def _step_ns(self) -> int:
        return self._job.end_ns - self._job.begin_ns

    @property
    def _pad_ns(self) -> int:
        return pad_ns(self._exchange)

    def _gain(self, layout: Layout, case: Case = "middle") -> int:
        return self._now_ns - self._replayed(layout, case)[0]

    @cached_property
    def _now_ns(self) -> int:
        """The unchanged step in ns, also replayed."""
        return self._replayed(Layout(), "middle")[0]

    def _replayed(self, layout: Layout, case: Case) -> tuple[int, EventGraph, Ints]:
        graph = regathered(
            self._graph, self._passes, layout, ahead=self._ahead, computed=self._computed, costs=self._costs, case=case
        )
        start = starts(graph)
        return length(graph, start, self._job.begin_ns), graph, start

    @cached_property
    def _ahead(self) -> tuple[int, int]:
        return units_gathered_ahead(self._graph, self._last, self._following, self._exchange.compute)

    @cached_property
    def _computed(self) -> Mapping[int, int]:
        return computed_before(self._graph, self._passes, self._exchange.compute)

    def _held(self, layout: Layout) -> int:
        """The most bytes of whole parameters that a rank holds: units kept, in use and gathered ahead."""
        sizes = self._last.bytes
        units = [sum(sizes[at] for at in unit) for unit in layout.units(self._last)]
        kept, rest = units[: self._last.kept], units[self._last.kept :]
        own = 1 + max(self._ahead[0] + layout.forward, self._ahead[1] + layout.backward)
        return sum(kept) + max(sum(rest[at : at + own]) for at in range(len(rest)))

    def _told(self, layout: Layout) -> GatheredUnits:
        _, graph, start = self._replayed(layout, "middle")
        units = [sum(self._last.bytes[at] for at in unit) for unit in layout.units(self._last)]
        whole = self._last.whole
        return GatheredUnits(
            units=len(units), largest_bytes=max(units) if whole else None, forward=self._ahead[0] + layout.forward,
            backward=self._ahead[1] + layout.backward, exposed_ns=self._exposed_ns(graph, start),
            held_bytes=self._held(layout) if whole else None,
        )  # fmt: skip

    def _exposed_ns(self, graph: EventGraph, start: Ints) -> int:
        """The longest time in ns in which a rank communicates and does not compute in the step."""
        job, finish = self._job, start + graph.dur
        begin = max((int(finish[node]) for node in graph.origins.values()), default=job.begin_ns)
        many = int(graph.task.max()) + 1
        computes = np.flatnonzero((job.component == "compute") & (job.graph.task != NONE))
        known = job.graph.rank[computes] * many + job.graph.task[computes]
        tasks = (graph.task != NONE) & np.isin(graph.rank * many + graph.task, known)
        # New nodes have neither task nor thread.
        moves = (graph.task == NONE) & (graph.thread == NONE) & (graph.dur > 0)
        found = []
        for rank, sink in graph.sinks.items():
            own = (graph.rank == rank) & (finish > begin) & (start < finish[sink])
            sent, computed = own & moves, own & tasks
            busy = union_of_intervals(np.maximum(start[sent], begin), finish[sent])
            found.append((busy - union_of_intervals(start[computed], finish[computed])).total)
        return max(found, default=0)


def unit_search(exchange: Exchange) -> SearchResult | None:
    """The best layout of the sharded units of a step; None if no parameters are sharded."""
    passes = sharded(exchange.job.graph, exchange.operations, exchange.job.component)
    if not passes:
        return None
    try:
        return UnitSearch(exchange, passes).best()
    except TangledError:
        return SearchResult(plan=None, why="units_not_told")
