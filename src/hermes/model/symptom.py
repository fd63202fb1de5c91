"""Symptoms: named readings of a job's measures, by which a case says when it fits.

A reading gives all its values, one a rank, group, link, and so on; no value where nothing was measured. A symptom holds
or fails by the value that fits worst. A module that measures something declares its readings in the same file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import Any

from hermes.model.declare import columns_of, declared
from hermes.model.job import JobMeasures

Value = float | str
Read = Callable[[JobMeasures, str], Iterator[Value]]

ANY = ("*",)
"""Marks a reading whose brackets may hold any name, such as an operator or a setting; `*` matches any rest."""
UNSET = "unset"
"""The value that a reading gives for a setting that is known to be unset."""

WINDOW = "the window of the rank's typical step"
STEPS = "the steps of the capture"
SLOWEST = "the window of the slowest rank"


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """A declared reading of measures: `unit` is `share` (0 to 1), `ratio`, `ms`, `bytes`, `count` or `text`.

    `of` lists what may stand in the reading's brackets; if empty, it has no brackets. `fields` are paths in
    `hermes.report/1`.
    """

    name: str
    unit: str
    meaning: str
    fields: tuple[str, ...]
    of: tuple[str, ...]
    read: Read


_SYMPTOMS: dict[str, Symptom] = {}


def symptoms() -> Mapping[str, Symptom]:
    """Every reading that was declared so far, by its name."""
    return dict(_SYMPTOMS)


def reading(
    name: str, meaning: str, fields: str, *, unit: str = "share", of: tuple[str, ...] = ()
) -> Callable[[Read], Read]:
    """Declare a function as the reading `name`; `fields` are paths in the report, separated by spaces."""

    def declare(read: Read) -> Read:
        _keep(Symptom(name=name, unit=unit, meaning=meaning, fields=tuple(fields.split()), of=of, read=read))
        return read

    return declare


def ratio(
    kind: type[Any], name: str, meaning: str, over: str, *under: str, unit: str = "share", less: str = "", by: str = "",
    of: tuple[str, ...] = (), total: bool = False, absent: float | None = None,
) -> None:  # fmt: skip
    """Declare a reading that divides a field by the product of other fields, in each row of a kind.

    Args:
        kind: the kind of rows that the reading uses.
        name: the name of the reading, as symptoms write it.
        meaning: what the reading says, in words.
        over: the field that is divided.
        under: the fields to divide by, or `WINDOW`, `STEPS`, `SLOWEST`.
        unit: the unit of the reading, see `Symptom`.
        less: a field that is subtracted from `over` first.
        by: the field by which the brackets choose rows; `any` in the brackets stands for all rows.
        of: what the brackets may hold.
        total: whether the rows of one rank are added up.
        absent: the value where rows of the kind exist and none is chosen, for rows that are only written if not empty.
    """
    own = _Ratio(kind=kind, over=over, under=under, less=less, by=by, total=total, absent=absent, ms=unit == "ms")
    names = [one for one in (over, less, *under) if one and one not in (WINDOW, STEPS, SLOWEST)]
    paths = [_path(kind, one) for one in names] + (["steps[].window_ms"] if {WINDOW, SLOWEST} & set(under) else [])
    _keep(Symptom(name=name, unit=unit, meaning=meaning, fields=tuple(dict.fromkeys(paths)), of=of, read=own))


def text(
    kind: type[Any], name: str, meaning: str, field: str, *, by: str = "", of: tuple[str, ...] = (), first: bool = False
) -> None:
    """Declare a reading that gives a text field of each row of a kind, or of the first row that has a text."""

    def read(measures: JobMeasures, chosen: str) -> Iterator[Value]:
        rows = (row for row in measures.rows(kind) if not by or chosen in ("any", getattr(row, by)))
        said = (str(value) for row in rows if (value := getattr(row, field)))
        yield from [*said][: 1 if first else None]

    _keep(Symptom(name=name, unit="text", meaning=meaning, fields=(_path(kind, field),), of=of, read=read))


def _keep(symptom: Symptom) -> None:
    if symptom.name in _SYMPTOMS:
        raise ValueError(f"{symptom.name!r} is declared twice")
    _SYMPTOMS[symptom.name] = symptom


def _path(kind: type, name: str) -> str:
    about = declared()[kind]
    return f"{about.path}{'' if about.one else '[]'}.{_key(kind, name)}"


def _key(kind: Any, name: str) -> str:
    first, _, rest = name.partition(".")
    for column in columns_of(kind):
        if column.name == first:
            return f"{column.prefix}{_key(column.row, rest)}" if rest and column.row else column.key
    raise ValueError(f"{kind.__name__} has no column {name!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ratio:
    kind: type[Any]
    over: str
    under: tuple[str, ...]
    less: str
    by: str
    total: bool
    absent: float | None
    ms: bool

    def __call__(self, measures: JobMeasures, of: str) -> Iterator[Value]:
        rows = measures.rows(self.kind)
        chosen = [row for row in rows if not self.by or of == "any" or fnmatchcase(str(getattr(row, self.by)), of)]
        values = [(row, self._value(measures, row)) for row in chosen]
        if self.total:
            sums: dict[object, float] = {}
            for row, value in values:
                rank = getattr(row, "rank", None)
                sums[rank] = sums.get(rank, 0.0) + (value or 0.0)
            yield from sums.values()
        else:
            yield from (value for _, value in values if value is not None)
        if rows and not chosen and self.absent is not None:
            yield self.absent

    def _value(self, measures: JobMeasures, row: object) -> float | None:
        value = number(measures, row, self.over)
        if value is None:
            return None
        value -= (number(measures, row, self.less) or 0.0) if self.less else 0.0
        for name in self.under:
            under = number(measures, row, name)
            if not under:
                return None
            value /= under
        return value / 1_000_000 if self.ms else value


def number(measures: JobMeasures, row: object, name: str) -> float | None:
    """A field of a row, or a divisor: the window of the row's typical step, or the number of steps; else None."""
    steps = measures.job.steps
    value: object
    if name == STEPS:
        value = max((len(steps.of(rank)) for rank in steps.ranks), default=0)
    elif name == SLOWEST:
        value = max((split.window_ns for split in steps.typical_of_each), default=None)
    elif name == WINDOW:
        split = steps.typical(getattr(row, "rank", -1))
        value = split.window_ns if split else None
    else:
        value = attrgetter(name)(row)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
