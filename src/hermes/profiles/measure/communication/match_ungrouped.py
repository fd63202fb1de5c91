"""Finds the members of collectives without a recorded group, by order, kind, size, and end.

All members of a collective leave it together. Two ranks share a communicator if their operations agree in order, kind
and size, and end together within the error of the clocks. No rank may leave before the other arrives. Operations that
do not fit stay without a group: a wrong match would blame the wrong rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from hermes.base.intervals import Ints
from hermes.base.message import Message
from hermes.model.tables.collective_keys import SYNCHRONISING
from hermes.profiles.measure.communication import messages
from hermes.profiles.measure.communication.last_arrivals import identity
from hermes.profiles.measure.communication.wait_and_transfer import GroupInfo

# Ends of one collective on one clock differ by the transport's latency: 1 to 10 us within a host, on eight V100 and on
# 910B. Ends of independent communicators of one job drift apart by a multiple of that.
_APART_NS = 20_000
_ONE_HOST_NS = 100_000
"""Clocks of the devices of one host differ: by 24 and 31 us in captures of two and four V100."""
# The share of a transfer's shortest time by which some ranks may end earlier, if its parts are uneven.
_UNEVEN = 0.05
_CAUSAL = 0.9
_ENOUGH = 0.5
# The fewest operations to compare: with fewer, a constant offset between two clocks could explain any ends.
_FEWEST = 3
_MOST_COMPARED = 20_000
# Operations to which all members give equal bytes: another size is another operation.
_EQUAL_SIZES = ("all_reduce", "all_gather", "reduce_scatter")
_WHATEVER = ("send_recv", "unknown")
_SHOWN = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedGroups:
    """The operations of all ranks with the groups that were found, those groups, and notes about them."""

    every: pl.DataFrame
    groups: Mapping[str, GroupInfo]
    notes: tuple[Message, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Lane:
    """The operations of one rank on one stream, in order: their rows, indices, kinds, starts and ends."""

    rank: int
    host: str | None
    stepped: bool
    rows: Ints
    places: Ints
    codes: Ints
    starts: Ints
    ends: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fit:
    """The fit of two lanes: the median difference of their ends in ns, and the lag of the second in operations."""

    apart_ns: float
    shift: int


@dataclass(slots=True, kw_only=True)
class _Cluster:
    """Lanes of several ranks that form one communicator; shifts are against the first lane."""

    lanes: list[_Lane] = field(default_factory=list)
    shifts: list[int] = field(default_factory=list)

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(sorted(lane.rank for lane in self.lanes))


def match_ungrouped(every: pl.DataFrame, hosts: Mapping[int, str | None], world: int) -> MatchedGroups:
    """The operations `every`, from `operations_of_all_ranks`, with groups and keys added where they can be told.

    `every` also needs `stream`. The members of a found group are certain only if all ranks of the `world` were
    collected.
    """
    open_rows = pl.col("group").is_null() & pl.col("peer").is_null()
    rows = every.with_row_index("row").filter(open_rows & pl.col("op").is_in([*SYNCHRONISING, *_WHATEVER]))
    if rows["rank"].n_unique() < 2:
        return MatchedGroups(every=every, groups={}, notes=())
    budget = [_MOST_COMPARED]
    found = _clusters(_lanes(rows, hosts, ("rank", "stream")), budget)
    alone = [lane.rows for cluster in found if len(cluster.lanes) == 1 for lane in cluster.lanes]
    found = [cluster for cluster in found if len(cluster.lanes) > 1]
    if alone:
        # If several communicators share a stream, match operation by operation.
        left = rows.filter(pl.col("row").is_in(np.concatenate(alone).tolist()))
        single = _clusters(_lanes(left, hosts, ("rank", "stream", "op", "size")), budget)
        found += [cluster for cluster in single if len(cluster.lanes) > 1]
    complete = len(hosts) >= world
    told = _told(found, every, complete=complete)
    groups = {
        identity("by order", ranks): GroupInfo(
            label=rank_ranges_text(ranks), members=ranks if complete else None, size=len(ranks) if complete else None
        )
        for ranks in {cluster.ranks for cluster in found}
    }
    return MatchedGroups(every=_with(every, told), groups=groups, notes=_notes(rows.height, told.height, found))


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


def _lanes(rows: pl.DataFrame, hosts: Mapping[int, str | None], by: Iterable[str]) -> list[_Lane]:
    size = pl.when(pl.col("op").is_in(_EQUAL_SIZES)).then("bytes").fill_null(-1).alias("size")
    by = [*by]
    # Kinds that a name does not tell apart count as one kind.
    kind = pl.when(pl.col("op").is_in(["all_to_all", *_WHATEVER])).then(pl.lit("any")).otherwise("op").alias("kind")
    rows = rows.sort("rank", "start_ns", "comm_id").with_columns(size, kind)
    nth = pl.int_range(pl.len()).over(*by, "step", "kind", "size")
    rows = rows.with_columns(pl.struct("kind", "size").rank("dense").cast(pl.Int64).alias("code"), nth.alias("nth"))
    # Number kinds over all ranks: numbers are equal if step, kind, size and order are equal.
    place = pl.struct(pl.col("step").fill_null(-1), "code", "nth").rank("dense").cast(pl.Int64)
    parts = rows.with_columns(place.alias("place")).partition_by(by, maintain_order=True)
    return [_lane(part, hosts) for part in parts]


def _lane(part: pl.DataFrame, hosts: Mapping[int, str | None]) -> _Lane:
    starts = part["start_ns"].to_numpy()
    rank = int(part["rank"][0])
    return _Lane(
        rank=rank,
        host=hosts.get(rank),
        stepped=not part["step"].has_nulls(),
        rows=part["row"].to_numpy().astype(np.int64),
        places=part["place"].to_numpy(),
        codes=part["code"].to_numpy(),
        starts=starts,
        ends=starts + part["dur_ns"].to_numpy(),
    )


def _clusters(lanes: Sequence[_Lane], budget: list[int]) -> list[_Cluster]:
    """Pair each lane with the lanes of other ranks that end together with it; the best match if there are several."""
    made: list[_Cluster] = []
    for lane in lanes:
        best: tuple[float, _Cluster, int] | None = None
        for cluster in made:
            if budget[0] <= 0 or any(one.rank == lane.rank for one in cluster.lanes):
                continue
            budget[0] -= 1
            fit = _fit(cluster.lanes[0], lane)
            if fit is not None and (best is None or fit.apart_ns < best[0]):
                best = (fit.apart_ns, cluster, fit.shift)
        cluster = best[1] if best else _Cluster()
        if best is None:
            made.append(cluster)
        cluster.lanes.append(lane)
        cluster.shifts.append(best[2] if best else 0)
    return made


def _fit(one: _Lane, other: _Lane) -> _Fit | None:
    """How well two lanes end together; None if they cannot be one communicator."""
    if one.stepped and other.stepped:
        _, here, there = np.intersect1d(one.places, other.places, return_indices=True)
        if len(here) < _ENOUGH * min(len(one.places), len(other.places)):
            return None
        apart = _apart(one, other, here, there)
        return None if apart is None else _Fit(apart_ns=apart, shift=0)
    fits = [
        _Fit(apart_ns=apart, shift=shift)
        for shift, here, there in _alignments(one, other)
        if (apart := _apart(one, other, here, there)) is not None
    ]
    return min(fits, key=lambda fit: fit.apart_ns, default=None)


def _alignments(one: _Lane, other: _Lane) -> Iterator[tuple[int, Ints, Ints]]:
    """Possible alignments of two lanes if no step is marked, as captures begin anywhere: by start, by end, by time."""
    near = np.searchsorted(one.ends, other.ends - _APART_NS)
    values, counts = np.unique(near - np.arange(len(near)), return_counts=True)
    for shift in dict.fromkeys([0, len(one.codes) - len(other.codes), int(values[counts.argmax()])]):
        first, last = max(shift, 0), min(len(one.codes), len(other.codes) + shift)
        if last - first < max(_ENOUGH * min(len(one.codes), len(other.codes)), 1):
            continue
        here = np.arange(first, last)
        if np.array_equal(one.codes[here], other.codes[here - shift]):
            yield shift, here, here - shift


def _apart(one: _Lane, other: _Lane, here: Ints, there: Ints) -> float | None:
    gaps = one.ends[here] - other.ends[there]
    shortest = np.minimum(one.ends[here] - one.starts[here], other.ends[there] - other.starts[there])
    allowed = max(_APART_NS, _UNEVEN * float(np.median(shortest)))
    for offset in _offsets(one, other, gaps, allowed):
        apart = float(np.median(np.abs(gaps - offset)))
        last_start = np.maximum(one.starts[here], other.starts[there] + offset)
        first_end = np.minimum(one.ends[here], other.ends[there] + offset)
        if apart <= allowed and float(np.mean(last_start <= first_end + allowed)) >= _CAUSAL:
            return apart
    return None


def _offsets(one: _Lane, other: _Lane, gaps: Ints, allowed: float) -> Iterator[int]:
    """Possible offsets of the second lane's clock: the one that most ends agree on, which is small on one host."""
    same = one.host is not None and one.host == other.host
    if same or one.host is None or other.host is None:
        yield 0
    if len(gaps) < _FEWEST:
        return
    ordered = np.sort(gaps)
    reach = np.searchsorted(ordered, ordered + 2 * allowed, side="right") - np.arange(len(ordered))
    best = int(reach.argmax())
    offset = int(np.median(ordered[best : best + reach[best]]))
    if reach[best] >= max(_FEWEST, _ENOUGH * len(gaps)) and (not same or abs(offset) <= _ONE_HOST_NS):
        yield offset


def _told(found: Sequence[_Cluster], every: pl.DataFrame, *, complete: bool) -> pl.DataFrame:
    """By row of `every`: its group, its key in the group, and the operation if more than two ranks exchange."""
    parts = []
    for number, cluster in enumerate(found):
        for lane, shift in zip(cluster.lanes, cluster.shifts, strict=True):
            stepped = lane.stepped and cluster.lanes[0].stepped
            place = lane.places if stepped else np.arange(len(lane.rows)) + shift
            parts.append(
                pl.DataFrame(
                    {
                        "row": lane.rows,
                        "own_group": identity("by order", cluster.ranks),
                        "own_key": [f"{number} {at}" for at in place.tolist()],
                        "many": len(cluster.lanes) > 2 and complete,
                    }
                )
            )
    schema = {"row": pl.UInt32, "own_group": pl.String, "own_key": pl.String, "many": pl.Boolean}
    told = pl.concat(parts) if parts else pl.DataFrame(schema=schema)
    return told.cast({"row": every.with_row_index("row").schema["row"]})


def _with(every: pl.DataFrame, told: pl.DataFrame) -> pl.DataFrame:
    rows = every.with_row_index("row").join(told, on="row", how="left", maintain_order="left")
    mine = pl.col("own_key").is_not_null()
    # A kernel of sends and receives that many ranks leave together is an all-to-all.
    several = (pl.col("op") == "send_recv") & pl.col("many").fill_null(value=False)
    return rows.with_columns(
        pl.coalesce("own_group", "group").alias("group"),
        pl.coalesce("own_key", "key").alias("key"),
        pl.when(mine).then(pl.lit("all")).otherwise("manner").alias("manner"),
        pl.when(several).then(pl.lit("all_to_all")).otherwise("op").alias("op"),
    ).select(every.columns)


def _notes(rows: int, told: int, found: Sequence[_Cluster]) -> tuple[Message, ...]:
    notes = []
    if told:
        names = ", ".join(dict.fromkeys(rank_ranges_text(cluster.ranks) for cluster in found[:_SHOWN]))
        notes.append(messages.groups_found(of=str(rows), found=str(told), ranks=names.removeprefix("ranks ")))
    if told < rows:
        notes.append(messages.ungrouped(operations=str(rows - told)))
    return tuple(notes)
