"""What was measured of a whole job: its steps, and rows of every kind, indexed by rank once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from typing import Generic, TypeVar

from hermes.model.leaf import Leaf
from hermes.model.typical_step import JobSteps

Row = TypeVar("Row", covariant=True)


class Rows(tuple[Row, ...], Generic[Row]):
    """Rows of one kind, in the order in which they were measured; `of` gives those of one rank."""

    @cached_property
    def _by_rank(self) -> Mapping[int, tuple[Row, ...]]:
        own: dict[int, list[Row]] = {}
        for row in self:
            own.setdefault(getattr(row, "rank"), []).append(row)  # noqa: B009 - not every kind of row has a rank
        return {rank: tuple(rows) for rank, rows in own.items()}

    def of(self, rank: int) -> tuple[Row, ...]:
        """The rows of a rank, for kinds that have one."""
        return self._by_rank.get(rank, ())

    @property
    def only(self) -> Row | None:
        """The first row; None without one: for kinds that a job has once at most."""
        return self[0] if self else None


@dataclass(frozen=True, kw_only=True)
class Job:
    """What every rule may ask of a job beside its measures: steps, files and vendors by rank, how whole the input is.

    `vendors` are `ascend`, `nvidia`, `amd`, `cpu`. `certainty` is 1 for a whole input, less where something is missing.
    `spent` are the leaves of each rank with a device, in nanoseconds a step; `leaves` those that the rule at hand
    explains.
    """

    steps: JobSteps
    inputs: Mapping[int, str] = field(default_factory=dict)
    vendors: Mapping[int, str] = field(default_factory=dict)
    certainty: float = 1.0
    spent: Mapping[int, Mapping[Leaf, int]] = field(default_factory=dict)
    leaves: frozenset[Leaf] = frozenset()

    def room_ns(self, rank: int, leaves: frozenset[Leaf]) -> int | None:
        """What the rank spends a step in these leaves; None without a device or a leaf."""
        own = self.spent.get(rank)
        return sum(own.get(leaf, 0) for leaf in leaves) if own and leaves else None


def flattened(*parts: object) -> Iterator[object]:
    """Every row in dataclasses whose fields are rows, tuples of rows, or None."""
    for part in parts:
        for one in fields(part) if is_dataclass(part) else ():
            value = getattr(part, one.name)
            values = value if isinstance(value, tuple) else (value,)
            yield from (row for row in values if is_dataclass(row))


Kind = TypeVar("Kind")


def as_kind(kind: type[Kind], row: object) -> Kind:
    """A row as one of another kind with the same fields."""
    return kind(**{one.name: getattr(row, one.name) for one in fields(kind)})  # type: ignore[arg-type]


class JobMeasures:
    """Every row that was measured of a job, by its kind: the class of the row."""

    def __init__(self, job: Job, rows: Iterable[object] = ()) -> None:
        self.job = job
        own: dict[type, list[object]] = {}
        for row in rows:
            own.setdefault(type(row), []).append(row)
        self._of: dict[type, Rows[object]] = {kind: Rows(mine) for kind, mine in own.items()}

    def rows(self, kind: type[Row]) -> Rows[Row]:
        """The rows of a kind; empty where nothing of it was measured."""
        return self._of.get(kind, Rows())  # type: ignore[return-value]
