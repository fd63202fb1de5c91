"""Compares the operations of two ranks: which of them can be the same collectives, by name, step, order and end.

All members of a collective leave it together, and no rank may leave before the other arrives. Two lanes fit if their
operations agree in kind and size, and end together within the error of the clocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hermes.base.intervals import Ints
from hermes.model.tables.collective_keys import ROOTED

# Ends of one collective on one clock differ by the transport's latency: 1 to 10 us within a host, on eight V100 and on
# 910B. Ends of independent communicators of one job drift apart by a multiple of that.
APART_NS = 20_000
_ONE_HOST_NS = 100_000
"""Clocks of the devices of one host differ: by 24 and 31 us in captures of two and four V100."""
# The share of a transfer's shortest time by which some ranks may end earlier, if its parts are uneven.
UNEVEN = 0.05
CAUSAL = 0.9
"""The share of operations that no rank may leave before the other arrives."""
_ENOUGH = 0.5
# The fewest operations to compare: with fewer, a constant offset between two clocks could explain any ends.
_FEWEST = 3
_NEAR = range(-3, 4)
"""By how many operations captures of one group may begin apart, if no common clock tells it."""
_LATENCY_NS = 10_000
"""The latency of a transport. Of alignments whose ends differ no more, the one with more operations counts."""
# Operations to which all members give equal bytes: another size is another operation.
_EQUAL_SIZES = ("all_reduce", "all_gather", "reduce_scatter")
WHATEVER = ("send_recv", "unknown")
"""Operations of which the name does not tell the kind."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lane:
    """Operations of one rank in order, of one group or one stream.

    `rows` are their rows, `names`, `places` and `codes` numbers that are equal on all ranks where name, place in the
    step, or kind and size are equal. `distinct`: no name occurs twice. `stepped`: each belongs to a step. `together`
    marks operations that all members leave together.
    """

    rank: int
    host: str | None
    group: str | None
    distinct: bool
    stepped: bool
    rows: Ints
    names: Ints
    places: Ints
    codes: Ints
    together: NDArray[np.bool_]
    starts: Ints
    ends: Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fit:
    """The fit of two lanes: the median distance of their ends in ns, and which operation of each is the same.

    `fitting` counts the pairs in which neither rank leaves before the other arrives.
    """

    apart_ns: float
    fitting: int
    here: Ints
    there: Ints


def lanes_of(rows: pl.DataFrame, hosts: Mapping[int, str | None], by: Iterable[str]) -> list[Lane]:
    """The lanes of rows of all ranks, one for each value of the columns `by`; `rows` have `row`, their number."""
    unsized = pl.col("bytes").is_null().any().over("op")
    size = pl.when(pl.col("op").is_in(_EQUAL_SIZES) & ~unsized).then("bytes").fill_null(-1).alias("size")
    by = [*by]
    # Kinds that a name does not tell apart count as one kind.
    kind = pl.when(pl.col("op").is_in(["all_to_all", *WHATEVER])).then(pl.lit("any")).otherwise("op").alias("kind")
    rows = rows.sort("rank", "start_ns", "comm_id").with_columns(size, kind)
    nth = pl.int_range(pl.len()).over(*by, "step", "kind", "size")
    rows = rows.with_columns(pl.struct("kind", "size").rank("dense").cast(pl.Int64).alias("code"), nth.alias("nth"))
    # Number kinds over all ranks: numbers are equal if step, kind, size and order are equal.
    place = pl.struct(pl.col("step").fill_null(-1), "code", "nth").rank("dense").cast(pl.Int64)
    rows = rows.with_columns(place.alias("place"), pl.col("name").rank("dense").cast(pl.Int64).alias("named"))
    return [_lane(part, hosts) for part in rows.partition_by(by, maintain_order=True)]


def _lane(part: pl.DataFrame, hosts: Mapping[int, str | None]) -> Lane:
    starts = part["start_ns"].to_numpy()
    rank = int(part["rank"][0])
    return Lane(
        rank=rank,
        host=hosts.get(rank),
        group=part["group"][0],
        distinct=part["name"].n_unique() == part.height and not part["name"].has_nulls(),
        stepped=not part["step"].has_nulls(),
        rows=part["row"].to_numpy().astype(np.int64),
        names=part["named"].fill_null(-1).to_numpy(),
        places=part["place"].to_numpy(),
        codes=part["code"].to_numpy(),
        together=~part["op"].is_in(ROOTED).to_numpy(),
        starts=starts,
        ends=starts + part["dur_ns"].to_numpy(),
    )


def fit(one: Lane, other: Lane, *, recorded: bool) -> Fit | None:
    """How well two lanes end together; None if they cannot be one communicator.

    `recorded`: both ranks are recorded as members of the group. Then only the pairs are open, and ends may lie apart
    if no other order lets the lanes overlap.
    """
    same = one.group is not None and one.group == other.group
    found = (_ending_together(one, other, here, there) for here, there in _alignments(one, other, same=same))
    best = min(
        (one for one in found if one is not None),
        key=lambda one: (one.apart_ns // _LATENCY_NS, -one.fitting, one.apart_ns), default=None,
    )  # fmt: skip
    return best or (_overlapping(one, other) if same and recorded else None)


def _alignments(one: Lane, other: Lane, *, same: bool) -> Iterator[tuple[Ints, Ints]]:
    """Possible alignments of two lanes: by names that number operations, by steps, or by order."""
    if one.distinct and other.distinct:
        yield from _equal(one.names, other.names)
        if one.group is not None and other.group is not None and min(len(one.rows), len(other.rows)) >= _FEWEST:
            # Names that number the operations of a group tell that other operations are not those.
            return
    stepped = one.stepped and other.stepped
    if stepped:
        yield from _equal(one.places, other.places)
    if same or not stepped:
        for shift in dict.fromkeys((*_shifts(one, other), *(_NEAR if same else ()))):
            yield from _shifted(one, other, shift)


def _equal(one: Ints, other: Ints) -> Iterator[tuple[Ints, Ints]]:
    """The places of equal numbers in both."""
    _, here, there = np.intersect1d(one, other, return_indices=True)
    if len(here) >= max(_ENOUGH * min(len(one), len(other)), 1):
        yield here, there


def _shifts(one: Lane, other: Lane) -> Iterable[int]:
    """By how many operations the second lane may begin later: captures begin anywhere, so by start, end, or time."""
    near = np.searchsorted(one.ends, other.ends - APART_NS)
    values, counts = np.unique(near - np.arange(len(near)), return_counts=True)
    return dict.fromkeys([0, len(one.codes) - len(other.codes), int(values[counts.argmax()])])


def _shifted(one: Lane, other: Lane, shift: int) -> Iterator[tuple[Ints, Ints]]:
    """The alignment of two lanes by order, if all their operations agree in kind and size."""
    first, last = max(shift, 0), min(len(one.codes), len(other.codes) + shift)
    if last - first < max(_ENOUGH * min(len(one.codes), len(other.codes)), 1):
        return
    here = np.arange(first, last)
    if np.array_equal(one.codes[here], other.codes[here - shift]):
        yield here, here - shift


def _ending_together(one: Lane, other: Lane, here: Ints, there: Ints) -> Fit | None:
    both = one.together[here] & other.together[there]
    mine, yours = here[both], there[both]
    if not len(mine):
        return None
    gaps = one.ends[mine] - other.ends[yours]
    shortest = np.minimum(one.ends[mine] - one.starts[mine], other.ends[yours] - other.starts[yours])
    allowed = max(APART_NS, UNEVEN * float(np.median(shortest)))
    for offset in _offsets(one, other, gaps, allowed):
        apart = float(np.median(np.abs(gaps - offset)))
        fitting = _fitting(one, other, mine, yours, offset, allowed)
        if apart <= allowed and fitting >= CAUSAL * len(mine):
            return Fit(apart_ns=apart, fitting=fitting, here=here, there=there)
    return None


def _fitting(one: Lane, other: Lane, here: Ints, there: Ints, offset: int, allowed: float) -> int:
    """The number of pairs in which neither rank leaves before the other arrives."""
    last_start = np.maximum(one.starts[here], other.starts[there] + offset)
    first_end = np.minimum(one.ends[here], other.ends[there] + offset)
    return int(np.sum(last_start <= first_end + allowed))


def _offsets(one: Lane, other: Lane, gaps: Ints, allowed: float) -> Iterator[int]:
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


def _overlapping(one: Lane, other: Lane) -> Fit | None:
    """The alignment by order in which operations overlap on one clock, while they do not with one more or one less.

    The operations of a group follow each other. So a wrong alignment pairs operations that do not overlap.
    """
    if one.host is None or one.host != other.host:
        return None
    near = {shift + more for shift in _shifts(one, other) for more in (-1, 0, 1)}
    fits = []
    for here, there in (pair for shift in sorted(near) for pair in _shifted(one, other, shift)):
        fitting = _fitting(one, other, here, there, 0, 0)
        if fitting >= CAUSAL * len(here):
            apart = float(np.median(np.abs(one.ends[here] - other.ends[there])))
            fits.append(Fit(apart_ns=apart, fitting=fitting, here=here, there=there))
    return fits[0] if len(fits) == 1 else None
