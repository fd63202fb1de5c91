"""Decides, once for each group, which operations of several ranks are the same collective, and who takes part.

All that compares ranks rests on this: clocks, last arrivals, the tree, the replay.

1. Keys that the ranks recorded count, if operations with equal keys overlap and no rank has more of them than another.
2. Otherwise operations are paired anew, by name, kind, size, order and end (`operation_lanes`). So are operations
   without a recorded group, and those of a rank that does not name a group of which it is a member.
3. Members that were not recorded are the ranks that took part (`groups_of_unknown_size`).

Operations that do not fit stay alone: a wrong pair would blame the wrong rank.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from hermes.base.message import Message
from hermes.model.step_measures import ClockOffset
from hermes.model.tables.collective_keys import SYNCHRONISING
from hermes.profiles.align.offsets import clock_offsets
from hermes.profiles.measure.communication import messages
from hermes.profiles.measure.communication.last_arrivals import contradicted, identity, rows_with_partners
from hermes.profiles.measure.communication.operation_lanes import APART_NS, CAUSAL, WHATEVER, Fit, Lane, fit, lanes_of
from hermes.profiles.measure.communication.unrecorded_members import JobSize, inferred_groups
from hermes.profiles.measure.communication.wait_and_transfer import GroupInfo

_MOST_COMPARED = 20_000
_SHOWN = 6
_UNSURE_NS = 5 * APART_NS
"""The error of a clock, three standard deviations, above which the operations that it rests on do not end together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedOperations:
    """The operations of all ranks, with equal `group` and `key` if they are the same; groups, clocks, and notes."""

    every: pl.DataFrame
    groups: Mapping[str, GroupInfo]
    clocks: tuple[ClockOffset, ...]
    notes: tuple[Message, ...]


@dataclass(slots=True, kw_only=True)
class _Cluster:
    """Lanes of several ranks that form one communicator; each fit is to the first lane."""

    lanes: list[Lane] = field(default_factory=list)
    fits: list[Fit] = field(default_factory=list)

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(sorted(lane.rank for lane in self.lanes))

    @property
    def group(self) -> str | None:
        """The recorded group, as the first rank that names it does."""
        return next((lane.group for lane in self.lanes if lane.group is not None), None)


def pair_operations(
    every: pl.DataFrame, groups: Mapping[str, GroupInfo], hosts: Mapping[int, str | None], size: JobSize
) -> PairedOperations:
    """The paired operations of all ranks; `every` comes from `operations_of_all_ranks` and has `stream`.

    `groups` are the recorded groups by identity, and `hosts` has the host of each collected rank.
    """
    if len(hosts) < 2:
        return PairedOperations(every=every, groups=groups, clocks=(), notes=())
    clocks = clock_offsets(hosts, every)
    rows = every.with_row_index("row")
    unnamed = rows.filter(
        pl.col("group").is_null() & pl.col("peer").is_null() & pl.col("op").is_in([*SYNCHRONISING, *WHATEVER])
    )
    doubtful = _doubtful(every, groups, clocks)
    joined = _joinable(rows, groups, set(unnamed["rank"].unique()), hosts)
    anew = _bounded((*doubtful, *joined), rows)
    named = rows.filter(pl.col("group").is_in(anew) & pl.col("manner").is_in(["all", "rooted"]))
    notes: tuple[Message, ...] = ()
    if named.height or unnamed["rank"].n_unique() > 1:
        found = _found(named, unnamed, hosts, groups)
        told, groups = _told(found, every["key"], groups, doubtful, complete=len(hosts) >= size.least)
        notes = _notes(rows, unnamed, told, found)
        every = _with(every, told)
        clocks = clock_offsets(hosts, every)
    inferred = inferred_groups(every, groups, clocks, size)
    if inferred:
        names = (rank_ranges_text(info.members or ()) for info in inferred.values())
        notes += (messages.members_inferred(groups=str(len(inferred)), ranks=_listed(names)),)
    return PairedOperations(every=every, groups={**groups, **inferred}, clocks=clocks, notes=notes)


def _doubtful(
    every: pl.DataFrame, groups: Mapping[str, GroupInfo], clocks: Sequence[ClockOffset]
) -> Mapping[str, bool]:
    """The groups whose recorded keys need not pair the right operations, and whether they surely do not.

    A key that numbers the operations of a capture is wrong where captures begin at different operations: then some rank
    has a key that others do not have, or a rank leaves before another arrives. Clocks that rest on wrong pairs hide
    that, but then their error is large.
    """
    offsets = {clock.rank: (clock.offset_ns, clock.error_ns or 0) for clock in clocks}
    rows = rows_with_partners(every, offsets)
    # Names that number the operations are equal on all ranks, wherever captures begin. All members reduce equal sizes.
    whole = pl.when(pl.col("op") == "all_reduce").then("bytes").alias("whole")
    recorded = every.filter(pl.col("key").is_not_null()).select(whole, numbered=pl.col("key") != pl.col("name"))
    rows = rows.hstack(recorded).filter(pl.col("manner") != "pair")
    last, first_out = pl.col("aligned_ns").max(), (pl.col("end_ns") + pl.col("offset_ns")).min()
    keys = rows.group_by("group", "manner", "key").agg(
        pl.len().alias("seen"),
        pl.col("numbered").any(),
        contradicted(last, first_out, pl.col("error_ns").max()).alias("wrong"),
        (pl.col("whole").min() != pl.col("whole").max()).fill_null(value=False).alias("unlike"),
    )  # fmt: skip
    keys = keys.with_columns((pl.col("wrong") & (pl.col("manner") != "rooted")) | pl.col("unlike"))
    ranks = rows.group_by("group").agg(pl.col("rank").unique())
    found = keys.join(ranks, on="group").group_by("group", maintain_order=True).agg(
        (pl.col("numbered") & (pl.col("seen") < pl.col("rank").list.len())).any().alias("uneven"),
        pl.col("numbered").any(),
        pl.col("wrong").any(),
        (pl.col("wrong").mean() > 1 - CAUSAL).alias("mostly"),
        pl.col("rank").first(),
    )  # fmt: skip
    apart = {clock.rank for clock in clocks if clock.method == "collectives"}
    unsure = {
        clock.rank for clock in clocks
        if clock.method != "same host" and (clock.error_ns is None or clock.error_ns > _UNSURE_NS)
    }  # fmt: skip
    told = {}
    for group, uneven, numbered, wrong, mostly, own in (
        found.filter(pl.col("rank").list.len() > 1).sort("group").iter_rows()
    ):
        most = groups[group].size if group in groups else None
        if uneven or wrong or (most is not None and len(own) > most) or (numbered and not unsure.isdisjoint(own)):
            told[group] = mostly or (uneven and not apart.isdisjoint(own))
    return told


def _bounded(groups: Iterable[str], rows: pl.DataFrame) -> list[str]:
    """The first groups, of which the lanes can be compared in a bounded time."""
    asked = [*dict.fromkeys(groups)]
    ranks = dict(rows.filter(pl.col("group").is_in(asked)).group_by("group").agg(pl.col("rank").n_unique()).iter_rows())
    lanes = np.cumsum([ranks.get(group, 0) for group in asked])
    return [group for group, many in zip(asked, lanes.tolist(), strict=True) if many <= _MOST_COMPARED // 2]


def _joinable(
    rows: pl.DataFrame, groups: Mapping[str, GroupInfo], unnamed: Collection[int], collected: Collection[int]
) -> Iterator[str]:
    """The groups that collected members do not name, and the groups that these may name in its place."""
    recorded = rows.filter(pl.col("manner").is_in(["all", "rooted"]) & pl.col("group").is_not_null())
    seen = {
        group: frozenset(ranks) for group, ranks in recorded.group_by("group").agg(pl.col("rank").unique()).iter_rows()
    }
    members = {group: groups[group].members if group in groups else None for group in seen}
    known = {
        group: frozenset(own).intersection(collected) - seen[group] for group, own in members.items() if own is not None
    }
    whole = {group for group, ranks in seen.items() if group in groups and groups[group].size == len(ranks)}
    others = {
        group: ranks for group, ranks in seen.items()
        if known.get(group) or (members[group] is None and group not in whole)
    }  # fmt: skip
    for group in sorted(group for group, missing in known.items() if missing):
        instead = [
            other for other, own in others.items()
            if other != group and own & known[group] and members[other] in (None, members[group])
        ]  # fmt: skip
        if instead or not known[group].isdisjoint(unnamed):
            yield from (group, *instead)


def _found(
    named: pl.DataFrame, unnamed: pl.DataFrame, hosts: Mapping[int, str | None], groups: Mapping[str, GroupInfo]
) -> list[_Cluster]:
    budget = [_MOST_COMPARED]
    rows = pl.concat(
        [
            named.with_columns(lane=pl.lit(None, dtype=pl.Int64)),
            unnamed.with_columns(lane=pl.col("stream").cast(pl.Int64)),
        ]
    )
    lanes = lanes_of(rows, hosts, ("rank", "group", "lane"))
    made = _clusters(sorted(lanes, key=lambda lane: _order(lane, groups)), groups, budget)
    alone = [cluster.lanes[0].rows for cluster in made if len(cluster.lanes) == 1 and cluster.group is None]
    if alone:
        # If several communicators share a stream, match operation by operation.
        left = unnamed.filter(pl.col("row").is_in(np.concatenate(alone).tolist()))
        made += _clusters(lanes_of(left, hosts, ("rank", "stream", "op", "size")), groups, budget)
    return [cluster for cluster in made if len(cluster.lanes) > 1 or cluster.group is not None]


def _order(lane: Lane, groups: Mapping[str, GroupInfo]) -> tuple[bool, bool, str, int]:
    """First the ranks that know the members of their group, last those that name none."""
    info = groups.get(lane.group or "")
    return lane.group is None, info is None or info.members is None, lane.group or "", lane.rank


def _clusters(lanes: Sequence[Lane], groups: Mapping[str, GroupInfo], budget: list[int]) -> list[_Cluster]:
    """Pair each lane with the lanes of other ranks that end together with it; the best match if there are several."""
    made: dict[str | None, list[_Cluster]] = {}
    names = sorted({lane.group for lane in lanes if lane.group is not None})
    of_rank: dict[int, list[str]] = {}
    for name in names:
        for rank in (groups[name].members or ()) if name in groups else ():
            of_rank.setdefault(rank, []).append(name)
    for lane in lanes:
        best: tuple[_Cluster, Fit] | None = None
        for name in dict.fromkeys((lane.group, *of_rank.get(lane.rank, ()))):
            for cluster in made.get(name, ()):
                if budget[0] <= 0 or not _may_join(cluster, lane, groups):
                    continue
                budget[0] -= 1
                known = name is not None and name in groups and groups[name].members is not None
                found = fit(cluster.lanes[0], lane, recorded=known)
                if found is not None and (best is None or found.apart_ns < best[1].apart_ns):
                    best = cluster, found
        if best is None:
            made.setdefault(lane.group, []).append(_Cluster(lanes=[lane]))
        else:
            best[0].lanes.append(lane)
            best[0].fits.append(best[1])
    return [cluster for own in made.values() for cluster in own]


def _may_join(cluster: _Cluster, lane: Lane, groups: Mapping[str, GroupInfo]) -> bool:
    """Whether what the ranks recorded of their groups allows that a lane belongs to a cluster."""
    if any(one.rank == lane.rank for one in cluster.lanes):
        return False
    named = {one.group for one in (*cluster.lanes, lane)}
    if lane.group == cluster.group:
        return True
    known = [groups[group] for group in named if group is not None and group in groups]
    members = {info.members for info in known if info.members is not None}
    sizes = {info.size for info in known if info.size is not None}
    return len(members) == 1 and len(sizes) == 1 and {*cluster.ranks, lane.rank}.issubset(*members)


def rank_ranges_text(ranks: Sequence[int]) -> str:
    """A short text of ranks: `ranks 0-3, 8-11`."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    texts = [f"{first}-{last}" if last > first else str(first) for first, last in runs]
    return "ranks " + ", ".join(texts[:_SHOWN]) + (f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else "")


_TOLD = {"row": pl.Int64, "own_group": pl.String, "own_key": pl.String, "many": pl.Boolean}


def _told(
    found: Sequence[_Cluster],
    keys: pl.Series,
    groups: Mapping[str, GroupInfo],
    doubtful: Mapping[str, bool],
    *,
    complete: bool,
) -> tuple[pl.DataFrame, dict[str, GroupInfo]]:
    """By row of all ranks its group, its key, and whether more than two ranks exchange; and all groups."""
    made = dict(groups)
    several = [cluster for cluster in found if len(cluster.lanes) > 1]
    times = Counter(cluster.group for cluster in several)
    parts = [pl.DataFrame(schema=_TOLD)]
    for number, cluster in enumerate(several):
        group = cluster.group
        name = group if group is not None and times[group] == 1 else identity(group or "by order", cluster.ranks)
        if group is None:
            made[name] = _by_order(cluster.ranks, complete=complete)
        elif times[group] > 1:
            if group in groups and groups[group].members is not None:
                # The members of one group left apart: then nothing tells which operations are the same.
                parts += [_part(lane.rows, group, None) for lane in cluster.lanes]
                continue
            made[name] = _one_of(group, cluster.ranks, groups.get(group))
        parts += _paired(cluster, name, number, keys, many=group is None and len(cluster.lanes) > 2 and complete)
    for cluster in found:
        own = cluster.group
        if len(cluster.lanes) == 1 and own is not None and own in doubtful and (doubtful[own] or times[own]):
            parts.append(_part(cluster.lanes[0].rows, own, None))
    return pl.concat(parts), made


def _paired(cluster: _Cluster, name: str, number: int, keys: pl.Series, *, many: bool) -> Iterator[pl.DataFrame]:
    """The rows of a cluster: each lane has the keys of the first lane, where its operations fit."""
    first = cluster.lanes[0]
    own = [key if key is not None else f"{number} {at}" for at, key in enumerate(keys.gather(first.rows))]
    yield _part(first.rows, name, own, many=many)
    for lane, one in zip(cluster.lanes[1:], cluster.fits, strict=True):
        mine: list[str | None] = [None] * len(lane.rows)
        for here, there in zip(one.here.tolist(), one.there.tolist(), strict=True):
            mine[there] = own[here]
        yield _part(lane.rows, name, mine, many=many)


def _part(rows: Iterable[int], group: str, keys: Sequence[str | None] | None, *, many: bool = False) -> pl.DataFrame:
    numbers = [*rows]
    return pl.DataFrame(
        {
            "row": numbers,
            "own_group": [group] * len(numbers),
            "own_key": keys if keys is not None else [None] * len(numbers),
            "many": [many] * len(numbers),
        },
        schema=_TOLD,
    )


def _one_of(name: str, ranks: tuple[int, ...], told: GroupInfo | None) -> GroupInfo:
    """One of several groups with the same name: its members are known if they are as many as were told."""
    whole = told is not None and told.size == len(ranks)
    return GroupInfo(
        label=told.label if told else name, members=ranks if whole else None, size=told.size if told else None,
        source="inferred",
    )  # fmt: skip


def _by_order(ranks: tuple[int, ...], *, complete: bool) -> GroupInfo:
    """A group without a name. Its members are certain only if all ranks of the job were collected."""
    return GroupInfo(
        label=rank_ranges_text(ranks), members=ranks if complete else None, size=len(ranks) if complete else None,
        source="inferred",
    )  # fmt: skip


def _with(every: pl.DataFrame, told: pl.DataFrame) -> pl.DataFrame:
    rows = every.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))
    rows = rows.join(told, on="row", how="left", maintain_order="left")
    mine, paired = pl.col("own_group").is_not_null(), pl.col("own_key").is_not_null()
    # A kernel of sends and receives that many ranks leave together is an all-to-all.
    several = (pl.col("op") == "send_recv") & pl.col("many").fill_null(value=False)
    return rows.with_columns(
        pl.coalesce("own_group", "group").alias("group"),
        pl.when(mine).then("own_key").otherwise("key").alias("key"),
        pl.when(paired).then(pl.coalesce("manner", pl.lit("all"))).when(~mine).then("manner").alias("manner"),
        pl.when(several).then(pl.lit("all_to_all")).otherwise("op").alias("op"),
    ).select(every.columns)


def _notes(
    rows: pl.DataFrame, unnamed: pl.DataFrame, told: pl.DataFrame, found: Sequence[_Cluster]
) -> tuple[Message, ...]:
    notes = []
    several = [cluster for cluster in found if len(cluster.lanes) > 1]
    open_rows = unnamed["row"].cast(pl.Int64)
    matched = told.drop_nulls("own_key")
    ungrouped = matched.filter(pl.col("row").is_in(open_rows.implode())).height
    if ungrouped:
        of = [cluster for cluster in several if any(lane.group is None for lane in cluster.lanes)]
        ranks = _listed(rank_ranges_text(cluster.ranks) for cluster in of)
        notes.append(messages.groups_found(of=str(unnamed.height), found=str(ungrouped), ranks=ranks))
    if ungrouped < unnamed.height and unnamed["rank"].n_unique() > 1:
        notes.append(messages.ungrouped(operations=str(unnamed.height - ungrouped)))
    before = rows.select(pl.col("row").cast(pl.Int64), "group", "key").drop_nulls()
    moved = matched.join(before, on="row", how="inner").filter(
        (pl.col("own_group") != pl.col("group")) | (pl.col("own_key") != pl.col("key"))
    )
    if moved.height:
        anew = set(moved["row"])
        of_moved = (one.ranks for one in several if any(not anew.isdisjoint(lane.rows.tolist()) for lane in one.lanes))
        notes.append(messages.paired_anew(operations=str(moved.height), ranks=_listed(map(rank_ranges_text, of_moved))))
    return tuple(notes)


def _listed(names: Iterable[str]) -> str:
    return ", ".join([*dict.fromkeys(names)][:_SHOWN]).removeprefix("ranks ")
