"""Makes the report's tables: every declared measure by its columns, and a few tables of their own form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hermes.model.declare import Column as Declaration
from hermes.model.declare import Declared, Kind, columns_of, declared
from hermes.model.job import Rows
from hermes.model.report import Input, Report
from hermes.model.structure_measures import RankMatrix
from hermes.report import table_cells
from hermes.report.format import numbers
from hermes.report.rank_matrix_tables import matrix_tables
from hermes.report.report_rows import ASCEND_FIELDS, AscendPair, ascend_pairs, ascend_values
from hermes.report.table_cells import HELD, Cell, Column, Heading, Table, table

_OWN_SHAPE = ("step_trace_time.rows", "rank_matrix")
UNITS: dict[Kind, str] = {"ns": "ns", "moment": "ns", "bytes": "bytes"}
WORDS: frozenset[Kind] = frozenset({"name", "word", "flag", "file", "list", "rows"})


def tables(report: Report) -> tuple[Table, ...]:
    """Every table, in the order in which measures are declared; a table without rows is there too."""
    made: list[Table] = []
    for about in declared().values():
        if about.path not in _OWN_SHAPE:
            made += _of_kind(report, about)
    matrix = report.rows(RankMatrix).only
    if matrix is not None and len(report.coverage.ranks_seen) > 1:
        made += matrix_tables(matrix)
    return tuple(made)


def _of_kind(report: Report, about: Declared) -> list[Table]:
    every: Rows[object] = report.rows(about.row)
    rows = [row for row in every if about.shown(row)]
    key = about.path.replace(".", "-")
    if not about.opened:
        return [table(key, about.title, about.about, _columns(about.columns), rows)]
    return [
        table(
            key if len(about.opened) == 1 else f"{key}-{one.name}",
            one.title,
            one.about,
            _opened_columns(about, one.name),
            [(row, part) for row in rows for part in getattr(row, one.name)],
        )
        for one in about.opened
    ]


def _columns(
    columns: Sequence[Declaration], row_of: Callable[[Any], Any] = lambda row: row,
    parent_of: Callable[[Any], Any] = lambda row: row,
) -> list[Column[Any]]:  # fmt: skip
    """The columns that a table shows; `row_of` finds the declared row in the table's row."""
    made: list[Column[Any]] = []
    for one in columns:
        if one.prefix is not None and one.row is not None:
            made += _columns(columns_of(one.row), lambda row, name=one.name: getattr(row_of(row), name))  # type: ignore[misc]
        elif one.title and (one.kind != "rows" or one.keys) and one.json_type != "list of number":
            made.append(
                Column(
                    title=one.title, unit=UNITS.get(one.kind, ""), words=one.kind in WORDS,
                    cell=_cell(one, row_of, parent_of),
                )
            )  # fmt: skip
    return made


def _opened_columns(about: Declared, name: str) -> list[Column[Any]]:
    """The columns of nested rows: first those of the row that holds them, then their own."""
    inner = next(one.row for one in about.columns if one.name == name)
    whose = [one for one in about.columns if one.name in ("rank", "step")]
    return [
        *_columns(whose, lambda pair: pair[0]),
        *_columns(columns_of(inner), lambda pair: pair[1], lambda pair: pair[0]),
    ]


def _cell(one: Declaration, row_of: Callable[[Any], Any], parent_of: Callable[[Any], Any]) -> Callable[[Any], Cell]:
    write = _writer(one)
    if not one.of:
        return lambda row: write(getattr(row_of(row), one.name), 0)
    of, whose = one.of.removeprefix("parent."), parent_of if one.of.startswith("parent.") else row_of
    return lambda row: write(getattr(row_of(row), one.name), getattr(whose(row), of) or 0)


def _writer(one: Declaration) -> Callable[[Any, int], Cell]:
    """The function that formats a value of this column; its second argument is the whole for a duration's share."""
    if one.keys:
        return lambda value, _: table_cells.name(", ".join(" ".join(map(_word, part)) for part in value))
    if one.kind == "ns":
        return table_cells.time
    write = WRITERS[one.kind]
    return lambda value, _: write(value)


def _word(value: object) -> str:
    if value is None:
        return "unset"
    return numbers(value) if isinstance(value, tuple) else str(value)


def _listed(value: tuple[object, ...] | None) -> Cell:
    if value is None:
        return table_cells.known_text_cell(None)
    whole = all(isinstance(one, int) for one in value)
    return table_cells.name(numbers(value) if whole else ", ".join(map(str, value)))  # type: ignore[arg-type]


def _flag(value: bool | None) -> Cell:
    return table_cells.absent() if value is None else table_cells.words("yes" if value else "no")


def _chance(value: float | None) -> Cell:
    if value is None:
        return table_cells.absent()
    return Cell(text="<0.001" if value < 0.001 else f"{value:.3f}", value=repr(value))


WRITERS: dict[Kind, Callable[[Any], Cell]] = {
    "us": table_cells.micro, "moment": table_cells.whole_number_cell, "bytes": table_cells.size_cell,
    "count": table_cells.whole_number_cell, "number": table_cells.decimal, "share": table_cells.fraction_cell,
    "chance": _chance, "name": table_cells.known_text_cell, "word": table_cells.known_text_cell, "flag": _flag,
    "file": table_cells.file, "list": _listed,
}  # fmt: skip


def ascend_table(report: Report) -> Table:
    """The steps by Ascend's definition in microseconds, with the differences to the profiler's own file."""
    rows = [line for pair in ascend_pairs(report) for line in _ascend_lines(pair)]
    headings = [Heading(title=title, unit="", words=title == "Source") for title in ("Rank", "Step", "Source")]
    headings += [Heading(title=name, unit="us", words=False) for _, name in ASCEND_FIELDS]
    return Table(
        key="step-trace-time",
        title="step_trace_time",
        about="In microseconds, with the column names of the profiler's own file.",
        headings=tuple(headings),
        rows=tuple(rows[:HELD]),
        more=max(len(rows) - HELD, 0),
    )


def inputs_table(report: Report) -> Table:
    """The table of the captures that were read."""
    return table("captures", "Captures", "What was read, one capture a row.", _INPUTS, report.inputs)


def _ascend_lines(pair: AscendPair) -> list[tuple[Cell, ...]]:
    lines = []
    for row in (pair.computed, pair.reported):
        if row is not None:
            lines.append(_ascend_line(pair, row.source, ascend_values(row)))
    if pair.differences:
        known = [] if pair.reported is None else ascend_values(pair.reported)
        gaps = dict(pair.differences)
        fields = zip(ASCEND_FIELDS, known, strict=True)
        values = tuple(gaps.get(word, None if ns is None else 0) for (word, _), ns in fields)
        lines.append(_ascend_line(pair, "reported - computed", values))
    return lines


def _ascend_line(pair: AscendPair, source: str, values: Sequence[int | None]) -> tuple[Cell, ...]:
    return (
        table_cells.whole_number_cell(pair.rank),
        table_cells.whole_number_cell(pair.step),
        table_cells.words(source),
        *(table_cells.micro(ns) for ns in values),
    )


_INPUTS: tuple[Column[Input], ...] = (
    Column(title="Path", cell=lambda row: table_cells.name(row.path), words=True),
    Column(title="Rank", cell=lambda row: table_cells.whole_number_cell(row.rank)),
    Column(title="Format", cell=lambda row: table_cells.name(row.format), words=True),
    Column(title="Capture", cell=lambda row: table_cells.name(row.capture), words=True),
    Column(title="Level", cell=lambda row: table_cells.known_text_cell(row.level), words=True),
    Column(title="Vendor", cell=lambda row: table_cells.name(row.vendor), words=True),
    Column(title="Chip", cell=lambda row: table_cells.known_text_cell(row.chip), words=True),
    Column(title="Degraded", cell=lambda row: table_cells.words("yes" if row.degraded else "no"), words=True),
)
