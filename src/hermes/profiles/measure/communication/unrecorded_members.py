"""Infers the members of groups for which they were not recorded: the ranks that took part equally often, together.

The time from the last arrival to the end of a collective is transfer only if no other rank takes part. So the ranks
that were seen are the members only if nothing tells that there are more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from hermes.model.step_measures import ClockOffset
from hermes.profiles.measure.communication.last_arrivals import contradicted, rows_with_partners
from hermes.profiles.measure.communication.operation_lanes import APART_NS, UNEVEN
from hermes.profiles.measure.communication.wait_and_transfer import GroupInfo

_FEWEST = 3
"""The fewest operations that tell the members of a group: with fewer, other operations may end together by chance."""
_ENOUGH = 0.5
"""The share of a group's operations that all ranks must have. Captures may begin and end at different ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSize:
    """The ranks that were collected, the told number of ranks (None if not recorded), and the least number known."""

    collected: tuple[int, ...]
    told: int | None
    least: int


def inferred_groups(
    every: pl.DataFrame, groups: Mapping[str, GroupInfo], clocks: Sequence[ClockOffset], size: JobSize
) -> dict[str, GroupInfo]:
    """The groups of unknown size whose members the operations tell, by identity.

    All members took part in each operation between the first and the last that all have, none left before the last
    arrived, and all left together. `every` is paired already.
    """
    sized = [group for group, info in groups.items() if info.size is not None]
    known = {clock.rank: (clock.offset_ns, clock.error_ns) for clock in clocks if clock.error_ns is not None}
    rows = rows_with_partners(every, known).filter((pl.col("manner") == "all") & ~pl.col("group").is_in(sized))
    if not rows.height:
        return {}
    rows = rows.with_columns((pl.col("end_ns") + pl.col("offset_ns")).alias("out_ns"))
    # Operations that fit nowhere tell that a rank takes part, too.
    every_rank = every.filter(pl.col("group").is_in(rows["group"].unique().implode())).group_by("group")
    seen = {group: tuple(ranks) for group, ranks in every_rank.agg(pl.col("rank").unique().sort()).iter_rows()}
    alone = _alone(every)
    found = {}
    for group in sorted(seen):
        ranks = seen[group]
        if _may_be_all(ranks, size, alone) and all(rank in known for rank in ranks):
            own = rows.filter(pl.col("group") == group)
            if _together(own, len(ranks)):
                label = groups[group].label if group in groups else group
                found[group] = GroupInfo(label=label, members=ranks, size=len(ranks), source="inferred")
    return found


def _may_be_all(ranks: tuple[int, ...], size: JobSize, alone: frozenset[int]) -> bool:
    """Whether no others can take part: all ranks of the job were collected, and others have no operations of no group.

    Without a told number of ranks nobody knows: ranks 0 and 1 of eight look like a job of two ranks whose link is slow.
    """
    if len(ranks) < 2 or size.told is None or len(size.collected) < size.least:
        return False
    return len(ranks) == len(size.collected) or alone.issubset(ranks)


def _alone(every: pl.DataFrame) -> frozenset[int]:
    """The ranks with operations that no other rank is known to take part in."""
    rows = every.filter(pl.col("manner").is_null() | (pl.col("manner") == "all"))
    lone = pl.col("group").is_null() | (pl.col("rank").n_unique().over("group") == 1)
    return frozenset(rows.filter(lone)["rank"].unique())


def _together(rows: pl.DataFrame, ranks: int) -> bool:
    """Whether this number of ranks takes part in the operations of a group equally often, and leaves them together."""
    each = rows.group_by("key").agg(
        pl.len().alias("seen"),
        pl.col("aligned_ns").min().alias("first_ns"),
        pl.col("aligned_ns").max().alias("last_ns"),
        pl.col("out_ns").min().alias("first_out_ns"),
        pl.col("out_ns").median().alias("middle_ns"),
        (pl.col("out_ns") - pl.col("aligned_ns")).min().alias("quickest_ns"),
        pl.col("error_ns").max(),
    )
    whole = pl.col("seen") == ranks
    so_far = whole.cum_sum()
    each = each.sort("first_ns", "key").with_columns(
        whole.alias("whole"), between=(so_far > 0) & (so_far < whole.sum())
    )
    all_have = each.filter("whole")
    if (
        all_have.height < max(_FEWEST, _ENOUGH * each.height)
        or each.filter(~pl.col("whole") & pl.col("between")).height
    ):
        return False
    if all_have.select(contradicted(pl.col("last_ns"), pl.col("first_out_ns"), pl.col("error_ns")).any()).item():
        return False
    allowed = max(APART_NS, UNEVEN * float(all_have["quickest_ns"].median() or 0))  # type: ignore[arg-type]
    apart = (
        rows.join(all_have.select("key", "middle_ns"), on="key", how="inner")
        .group_by("rank")
        .agg(((pl.col("out_ns") - pl.col("middle_ns")).abs() - pl.col("error_ns")).median().alias("apart_ns"))
    )
    return bool((apart["apart_ns"] <= allowed).all())
