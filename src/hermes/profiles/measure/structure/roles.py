"""Measures the time by role in reinforcement learning, from ranges that name roles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl

from hermes.knowledge.roles import Role, role_of
from hermes.model.role_measures import RoleTime
from hermes.profiles.measure.registry import RankTables, per_rank
from hermes.profiles.measure.structure.modules import asked_of, nodes_of
from hermes.profiles.measure.structure.named_ranges import RANGES, inclusive


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleOfRank:
    """The time of one role on one rank, from its ranges of one name and step.

    Inside another role's range, a range is a part of that role.
    """

    rank: int
    step: int | None
    role: Role
    task: str
    wall_ns: int
    device_ns: int


@per_rank(RoleOfRank)
def roles_of(rank: RankTables) -> tuple[RoleOfRank, ...]:
    """The roles of a rank; empty if its ranges name fewer than two roles, as outside reinforcement learning."""
    named = rank.data.where("host_op", RANGES, pl.col("kind") == "mark")
    known = {name: role for name in named["name"].unique().to_list() if (role := role_of(str(name))) is not None}
    if len(set(known.values())) < 2 or not {"actor", "rollout"} & set(known.values()):
        return ()
    named = named.filter(pl.col("name").is_in(list(known)))
    return tuple(roles(rank.rank, known, named, rank.once(asked_of), rank.once(nodes_of)))


def roles(
    rank: int, known: dict[str, Role], named: pl.DataFrame, asked: pl.DataFrame, nodes: pl.DataFrame
) -> Iterator[RoleOfRank]:
    """The role times by step and name; `known` is the role of each name, the others are as in `ranges.ranges`."""
    named, device, _, above = inclusive(named, asked, nodes)
    outermost = pl.Series("outermost", [place < 0 for place in above])
    rows = named.with_columns(pl.Series("device_ns", device), outermost).filter("outermost")
    summed = rows.group_by("step", "name", maintain_order=True).agg(
        pl.col("dur_ns").sum().alias("wall_ns"), pl.col("device_ns").sum()
    )
    for row in summed.iter_rows(named=True):
        yield RoleOfRank(
            rank=rank, step=row["step"], role=known[row["name"]], task=row["name"], wall_ns=row["wall_ns"],
            device_ns=row["device_ns"],
        )  # fmt: skip


def of_ranges(rows: Iterable[RoleOfRank]) -> Iterator[RoleTime]:
    """The tasks of all ranks by step, without their share of the step."""
    tasks: dict[tuple[int | None, str], list[RoleOfRank]] = {}
    for row in rows:
        tasks.setdefault((row.step, row.task), []).append(row)
    for (step, task), own in tasks.items():
        longest = max(own, key=lambda row: (row.wall_ns, -row.rank))
        yield RoleTime(
            step=step, role=longest.role, task=task, source="ranges", ranks=tuple(sorted(row.rank for row in own)),
            wall_ns=longest.wall_ns, wall_rank=longest.rank, least_ns=min(row.wall_ns for row in own),
            device_ns=longest.device_ns, exposed_comm_ns=None, share=0.0, bounds=False,
        )  # fmt: skip


def shared(rows: Sequence[RoleTime]) -> tuple[RoleTime, ...]:
    """The rows with their shares of their steps, by step and time."""
    walls: dict[int | None, list[int]] = {}
    for row in rows:
        walls.setdefault(row.step, []).append(row.wall_ns)
    ordered = sorted(rows, key=lambda row: (row.step is not None, row.step or 0, -row.wall_ns, row.task))
    return tuple(
        replace(row, share=row.wall_ns / (sum(own := walls[row.step]) or 1), bounds=row.wall_ns == max(own))
        for row in ordered
    )
