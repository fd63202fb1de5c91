"""The measures of a whole job: its steps, and rows of every kind, indexed by rank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, TypeVar

from hermes.model.leaf import Leaf
from hermes.model.typical_step import JobSteps

Row = TypeVar("Row", covariant=True)


class Rows(tuple[Row, ...], Generic[Row]):
    """Rows of one kind of measure, in the order in which they were measured; `of` gives the rows of one rank."""

    @cached_property
    def _by_rank(self) -> Mapping[int, tuple[Row, ...]]:
        own: dict[int, list[Row]] = {}
        for row in self:
            own.setdefault(getattr(row, "rank"), []).append(row)  # noqa: B009 - not every kind of row has a rank
        return {rank: tuple(rows) for rank, rows in own.items()}

    def of(self, rank: int) -> tuple[Row, ...]:
        """The rows of one rank, for kinds of rows that have a rank."""
        return self._by_rank.get(rank, ())

    @property
    def only(self) -> Row | None:
        """The first row, or None: for kinds that a job has at most once."""
        return self[0] if self else None


@dataclass(frozen=True, kw_only=True)
class Job:
    """The facts that rules know of a job beside its measures: steps, files and vendors by rank, and completeness.

    `vendors` are `ascend`, `nvidia`, `amd`, `cpu`. `certainty` is 1 for a whole input, less where data is missing.
    `spent` holds the leaves of each rank, in nanoseconds a step; `lengths` holds each rank's mean step. `leaves` are
    the leaves that the rule being run explains.
    """

    steps: JobSteps
    inputs: Mapping[int, str] = field(default_factory=dict)
    vendors: Mapping[int, str] = field(default_factory=dict)
    certainty: float = 1.0
    spent: Mapping[int, Mapping[Leaf, int]] = field(default_factory=dict)
    lengths: Mapping[int, int] = field(default_factory=dict)
    leaves: frozenset[Leaf] = frozenset()

    def room_ns(self, rank: int, leaves: frozenset[Leaf]) -> int | None:
        """The nanoseconds that a rank spends a step in these leaves; None if no leaf was measured or given."""
        own = self.spent.get(rank)
        return sum(own.get(leaf, 0) for leaf in leaves) if own and leaves else None


def by_kind(rows: Iterable[object], known: dict[type, list[object]] | None = None) -> dict[type, list[object]]:
    """The rows by their class, behind those of `known`, which is changed."""
    found = {} if known is None else known
    for row in rows:
        found.setdefault(type(row), []).append(row)
    return found


class JobMeasures:
    """All measured rows of a job by kind, that is, by the class of the row.

    `chosen` are rows that are given by kind. The kind may be a parent class: where several kinds measure the same, the
    rows that count.
    """

    def __init__(self, job: Job, rows: Iterable[object] = (), chosen: Mapping[type, Iterable[object]] = {}) -> None:
        self.job = job
        self._of: dict[type, Rows[object]] = {kind: Rows(own) for kind, own in (by_kind(rows) | dict(chosen)).items()}

    def rows(self, kind: type[Row]) -> Rows[Row]:
        """The rows of a kind; empty where nothing of it was measured."""
        return self._of.get(kind, Rows())  # type: ignore[return-value]

    @property
    def kinds(self) -> tuple[type, ...]:
        """The kinds that have at least one row."""
        return tuple(kind for kind, rows in self._of.items() if rows)

    def with_rows(self, rows: Iterable[object]) -> JobMeasures:
        """The same measures with `rows` in place of the rows of their kinds."""
        made = JobMeasures(self.job, rows)
        made._of = self._of | made._of
        return made
