"""Follows the path of waits through the ranks of a job: back in time, and at each binding wait to the awaited rank.

Each nanosecond of the path is one leaf of one rank. The path tells what the job's time is, and which ranks the others
wait for: those that spend more in a leaf than the others do between the same meetings. See docs/tree.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median_low

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hermes.model.leaf import Leaf
from hermes.model.leaf_time import How, LeafTime
from hermes.model.limit import Limit
from hermes.profiles.measure.leaves.spells import RankSpells
from hermes.profiles.measure.stack_rank_tables import stacked
from hermes.profiles.tree.leaf_kinds import WORTH

Floats = NDArray[np.float64]
PathKey = tuple[Leaf, How, str, str, int | None]
"""Key of a part of the path: leaf, kind of leaf, operator or call, place; and the rank, see `WaitPath`."""
SPREAD = Limit(
    value=4.5, unit="median absolute deviations of the other ranks", source="three standard deviations of even ranks"
)
"""A rank spends more in a leaf than others only beyond this spread of the others."""
CHANGED = Limit(
    value=0.8, unit="of the path lies on one rank before a change and on another after it",
    source="the rest are meetings at which other ranks are a little later",
)  # fmt: skip
COMPARED = 64
"""The most other ranks, evenly chosen, with which a rank is compared."""
BINDING = {"rank": pl.Int64, "arrival_ns": pl.Int64, "last": pl.Int64, "last_start_ns": pl.Int64}
"""The columns of binding waits: a rank, the last arrival on its clock, the rank that arrived, and when on its clock."""
LEADS = {"rank": pl.Int64, "start_ns": pl.Int64, "second": pl.Int64, "lead_ns": pl.Int64}
"""The columns of leads: the last rank of a meeting, its start on its clock, the rank before it, and how long before."""
NO_LEADS = pl.DataFrame(schema=LEADS)


@dataclass(frozen=True, kw_only=True)
class FollowedRank:
    """A rank that the path may follow: its leaves, their sums by spell, and what to add for the common clock.

    `covered_ns` is the moment up to which the rank's operations were compared with those of others; None: to the end.
    """

    rank: int
    rows: Sequence[LeafTime]
    spells: RankSpells
    offset_ns: int = 0
    covered_ns: int | None = None

    @cached_property
    def _edges(self) -> Floats:
        starts = self.spells.starts["start_ns"].to_numpy()
        return np.append(starts, self.spells.steps["end_ns"].to_numpy().max()).astype(np.float64)

    @cached_property
    def _sums(self) -> Floats:
        """The time of each row in all spells before each edge: rows by edges."""
        found = np.zeros((len(self.rows), len(self._edges)))
        sums = self.spells.sums
        np.add.at(found, (sums["row"].to_numpy(), sums["spell"].to_numpy() + 1), sums["ns"].to_numpy())
        return np.cumsum(found, axis=1)

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """The leaves of the rank."""
        return tuple(dict.fromkeys(row.leaf for row in self.rows))

    @cached_property
    def leaf_of(self) -> NDArray[np.int64]:
        """For each row the index of its leaf in `leaves`."""
        return np.array([self.leaves.index(row.leaf) for row in self.rows], dtype=np.int64)

    @cached_property
    def _by_leaf(self) -> Floats:
        found = np.zeros((len(self.leaves), len(self._edges)))
        np.add.at(found, self.leaf_of, self._sums)
        return found

    def spent(self, stretches: Sequence[Stretch]) -> Floats:
        """The time of each row in stretches of the common clock; a part of a spell counts in proportion."""
        return self._within(self._sums, stretches)

    def spent_by_leaf(self, stretches: Sequence[Stretch]) -> Mapping[Leaf, float]:
        """The time of each leaf in stretches of the common clock."""
        return dict(zip(self.leaves, self._within(self._by_leaf, stretches).tolist(), strict=True))

    def _within(self, sums: Floats, stretches: Sequence[Stretch]) -> Floats:
        begin = np.array([one.begin_ns for one in stretches]) - self.offset_ns
        end = np.array([one.end_ns for one in stretches]) - self.offset_ns
        return np.array([(np.interp(end, self._edges, row) - np.interp(begin, self._edges, row)).sum() for row in sums])


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A stretch of the path on one rank, in ns of the common clock."""

    rank: int
    begin_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """By how many ns a late rank arrives after the second, summed over its meetings on the path.

    Curing the late rank alone gives at most that. `second` is the rank that most often arrives before it.
    """

    second: int
    ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of the path from one rank to another, some ns after its begin; `step` is None without marks."""

    first: int
    then: int
    after_ns: int
    step: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitPath:
    """The path of waits: `times` in ns of each leaf, kind, call and place; `stretches` from the end to the begin.

    The rank of a time is that on which the path lies while the rank spends more than others do, else None: then all
    ranks spend the same. Of a wait the rank is the awaited one. `steps` counts the marked steps that the path spans;
    `marks` are their numbers and begins on the last rank of the path. `leads` has the ranks that are last at meetings.
    """

    times: Mapping[PathKey, int]
    stretches: tuple[Stretch, ...] = ()
    steps: int = 0
    marks: tuple[tuple[int, int], ...] = ()
    leads: Mapping[int, Lead] = field(default_factory=dict)

    @property
    def by_rank(self) -> Mapping[int, int]:
        """The time in ns for which the path lies on each rank."""
        found = Counter[int]()
        for one in self.stretches:
            found[one.rank] += one.end_ns - one.begin_ns
        return found

    @property
    def change(self) -> Change | None:
        """The moment from which the path lies on another rank. None if it lies on one rank, or changes often."""
        ranks = [rank for rank, _ in Counter(self.by_rank).most_common(2)]
        if len(ranks) < 2:
            return None
        ordered = self.stretches[::-1]
        whole = sum(one.end_ns - one.begin_ns for one in ordered)
        lasts = {
            rank: np.array([(one.end_ns - one.begin_ns) * (one.rank == rank) for one in ordered]) for rank in ranks
        }
        sums = {rank: np.append([0], np.cumsum(own)) for rank, own in lasts.items()}
        found = []
        for first, then in (ranks, ranks[::-1]):
            kept = sums[first] + sums[then][-1] - sums[then]
            at = int(np.argmax(kept))
            found.append((int(kept[at]), int(min(sums[first][at], sums[then][-1] - sums[then][at])), first, then, at))
        kept_ns, least_ns, first, then, at = max(found)
        if kept_ns < CHANGED.value * whole or least_ns < WORTH.value * whole or at == len(ordered):
            return None
        moment = ordered[at].begin_ns
        step = max((step for step, begin in self.marks if begin <= moment), default=None)
        return Change(first=first, then=then, after_ns=moment - ordered[0].begin_ns, step=step)


def path_of_waits(ranks: Sequence[FollowedRank], binding: pl.DataFrame, leads: pl.DataFrame = NO_LEADS) -> WaitPath:
    """The path through the ranks; `binding` has the columns `BINDING`, `leads` those of `LEADS`.

    Without ranks the path is empty.
    """
    if not ranks:
        return WaitPath(times={})
    steps = _Steps(ranks)
    followed = {one.rank: one for one in ranks}
    stretches = tuple(_walked(followed, binding, steps))
    on = dict[int, list[Stretch]]()
    for one in stretches:
        on.setdefault(one.rank, []).append(one)
    whole = sum(one.end_ns - one.begin_ns for one in stretches)
    others = [ranks[at] for at in np.unique(np.linspace(0, len(ranks) - 1, COMPARED).round().astype(int))]
    times, led = Counter[PathKey](), dict[int, Lead]()
    for rank, own in on.items():
        mine = followed[rank]
        if (lead := _led(mine, own, leads)) is not None:
            led[rank] = lead
        spent = mine.spent(own)
        more = _more(mine, spent, own, [one for one in others if one.rank != rank], whole)
        for row, ns, beyond in zip(mine.rows, spent.round().astype(int).tolist(), more.tolist(), strict=True):
            key = (row.leaf, row.how, row.what, row.place)
            times[(*key, row.awaited if row.leaf is Leaf.WAIT else None)] += ns - beyond
            times[(*key, rank)] += beyond
    return WaitPath(
        times={key: ns for key, ns in times.items() if ns > 0}, stretches=stretches,
        steps=steps.count, leads=led, marks=steps.marks(stretches[0].rank) if stretches else (),
    )  # fmt: skip


class _Steps:
    """The steps that all ranks have, on the common clock; the whole capture if no marked step is common to all.

    Where operations are no longer compared, waits are not known: then the steps end with the last compared one.
    """

    def __init__(self, ranks: Sequence[FollowedRank]) -> None:
        offset = {one.rank: one.offset_ns for one in ranks}
        rows = stacked((one.rank, one.spells.steps) for one in ranks)
        rows = rows.with_columns(pl.col("rank").replace_strict(offset, return_dtype=pl.Int64).alias("offset"))
        covered = {one.rank: one.covered_ns for one in ranks if one.covered_ns is not None}
        until = pl.col("rank").replace_strict(covered, default=None, return_dtype=pl.Int64)
        marked = rows.filter(pl.col("step") >= 0)
        compared = marked.filter(until.is_null() | (pl.col("end_ns") <= until)) if covered else marked
        common = _of_all(compared, len(ranks))
        common = common if common.height else _of_all(marked, len(ranks))
        self._marked = common.height > 0
        self._rows = (common if self._marked else rows).with_columns(
            pl.col("start_ns", "end_ns") + pl.col("offset")
        ).sort("rank", "start_ns")  # fmt: skip
        spans = self._rows.group_by("rank").agg(pl.col("start_ns").min(), pl.col("end_ns").max(), pl.len())
        self.windows = {rank: (begin, end) for rank, begin, end, _ in spans.iter_rows()}
        self.count = int(spans["len"].min()) if self._marked else 0  # type: ignore[arg-type]

    def marks(self, rank: int) -> tuple[tuple[int, int], ...]:
        """The numbers of the steps and their begins on one rank; none without marks."""
        rows = self._rows.filter(pl.col("rank") == rank).select("step", "start_ns")
        return tuple(rows.iter_rows()) if self._marked else ()


def _of_all(rows: pl.DataFrame, ranks: int) -> pl.DataFrame:
    """The rows of the steps that this number of ranks has."""
    return rows.filter(pl.col("rank").n_unique().over("step") == ranks)


def _walked(ranks: Mapping[int, FollowedRank], binding: pl.DataFrame, steps: _Steps) -> Iterator[Stretch]:
    """The stretches of the path, from the end of the steps back to their begin; each lies before the one before it."""
    windows, waits = steps.windows, _Waits(ranks, binding)
    # Ranks that never meet have no common clock: then the slowest rank is the path.
    last = {one: end if waits else end - begin for one, (begin, end) in windows.items()}
    rank = max(last, key=lambda one: (last[one], -one))
    moment = windows[rank][1]
    # The steps may end with a wait. On the way back, each arrival is earlier than the last one.
    arrival = waits.before(rank, moment + 1)
    while moment > windows[rank][0]:
        begin = windows[rank][0] if arrival is None else max(arrival[0], windows[rank][0])
        if begin < moment:
            yield Stretch(rank=rank, begin_ns=begin, end_ns=moment)
        if arrival is None or arrival[0] <= windows[rank][0]:
            return
        moment, rank = arrival
        arrival = waits.before(rank, moment)


class _Waits:
    """The binding waits of each rank, on the common clock."""

    def __init__(self, ranks: Mapping[int, FollowedRank], binding: pl.DataFrame) -> None:
        offset = {rank: one.offset_ns for rank, one in ranks.items()}
        rows = binding.with_columns(
            pl.col("arrival_ns") + pl.col("rank").replace_strict(offset, default=None, return_dtype=pl.Int64),
            pl.col("last_start_ns") + pl.col("last").replace_strict(offset, default=None, return_dtype=pl.Int64),
        )
        # The path goes on at the arrival: a wait of which both ranks tell another moment is not that of one meeting.
        rows = rows.filter(pl.col("arrival_ns") == pl.col("last_start_ns")).sort("rank", "arrival_ns", "last")
        self._rank, self._arrival, self._last = (rows[name].to_numpy() for name in ("rank", "arrival_ns", "last"))

    def __bool__(self) -> bool:
        """Whether any wait binds."""
        return len(self._rank) > 0

    def before(self, rank: int, moment: int) -> tuple[int, int] | None:
        """The latest arrival before a moment for which a rank waited: its moment, and the rank that arrived."""
        low, high = np.searchsorted(self._rank, [rank, rank + 1])
        at = int(low + np.searchsorted(self._arrival[low:high], moment)) - 1
        return (int(self._arrival[at]), int(self._last[at])) if at >= low else None


def _led(rank: FollowedRank, own: Sequence[Stretch], leads: pl.DataFrame) -> Lead | None:
    """The lead of a rank over its meetings in its stretches of the path; None if it is last at none."""
    rows = leads.filter(pl.col("rank") == rank.rank)
    start = rows["start_ns"].to_numpy() + rank.offset_ns
    begins, ends = (np.array([getattr(one, name) for one in own[::-1]]) for name in ("begin_ns", "end_ns"))
    at = np.searchsorted(begins, start) - 1
    mine = rows.filter(pl.Series((at >= 0) & (start <= ends[np.maximum(at, 0)]), dtype=pl.Boolean))
    if not mine.height:
        return None
    return Lead(second=int(mine["second"].mode().min()), ns=int(mine["lead_ns"].sum()))  # type: ignore[arg-type]


def _more(
    mine: FollowedRank, spent: Floats, own: Sequence[Stretch], others: Sequence[FollowedRank], whole_ns: int
) -> NDArray[np.int64]:
    """How much more than other ranks a rank spends in each of its rows, in the same time: 0 within their spread.

    Ranks may name the places of the same work differently. So the leaves are compared first, and the rows tell where
    the rank spends more in a leaf.
    """
    found = np.zeros(len(mine.rows), dtype=np.int64)
    # A rank that spends less than what is worth a name is not compared: in a large job the path crosses many ranks.
    if not others or spent.sum() < WORTH.value * whole_ns:
        return found
    told = [one.spent_by_leaf(own) for one in others]
    sums = np.bincount(mine.leaf_of, weights=spent, minlength=len(mine.leaves))
    beyond = {
        leaf: more
        for leaf, ns in zip(mine.leaves, sums.tolist(), strict=True)
        if leaf is not Leaf.WAIT and (more := _beyond(ns, [one.get(leaf, 0.0) for one in told])) > 0
    }
    if sum(beyond.values()) < WORTH.value * whole_ns:
        return found
    usual = _usual_rows(mine.rows, own, others)
    for leaf, more in beyond.items():
        at = np.flatnonzero(mine.leaf_of == mine.leaves.index(leaf))
        parts = np.maximum(spent[at] - usual[at], 0)
        parts = parts if parts.sum() else spent[at]
        share = np.minimum(np.floor(parts * (more / parts.sum())), spent[at].round())
        found[at] = share.astype(np.int64)
    return found


def _beyond(ns: float, others: Sequence[float]) -> float:
    """How much more than the lower median of others, if that is more than their spread; else 0."""
    usual = median_low(others)
    spread = float(np.median([abs(one - usual) for one in others])) if len(others) > 1 else 0.0
    return ns - usual if ns - usual > SPREAD.value * spread else 0.0


def _usual_rows(rows: Iterable[LeafTime], own: Sequence[Stretch], others: Sequence[FollowedRank]) -> Floats:
    """The lower median over other ranks of the time of each row, in the same stretches."""
    keys = [_named(row) for row in rows]
    told = [dict(zip(map(_named, one.rows), one.spent(own).tolist(), strict=True)) for one in others]
    return np.array([median_low(one.get(key, 0.0) for one in told) for key in keys])


def _named(row: LeafTime) -> tuple[Leaf, How, str, str, int | None]:
    return row.leaf, row.how, row.what, row.place, row.awaited
