"""Writes the report as a workbook: sheets for findings, actions, and every table with exact values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hermes.base.xlsx import Cell, workbook
from hermes.model.declare import Column, Declared, Kind, columns_of, declared, spread_out
from hermes.model.plan import Advice
from hermes.model.report import Report
from hermes.model.structure_measures import RankMatrix, Spread
from hermes.report.findings_sheet import findings_rows
from hermes.report.format import harmless_line
from hermes.report.json_values import finite, ms
from hermes.report.localized_texts import Tell, teller
from hermes.report.measures_json import block
from hermes.report.sheet_cells import cell, sheet_name

_UNITS: dict[Kind, str] = {"ns": "ms", "us": "us", "moment": "ns", "bytes": "bytes"}
_ACTIONS = (
    ("What to do", "怎么做"), ("How", "具体做法"), ("Gain, least (ms)", "收益下限 (ms)"),
    ("Gain, most (ms)", "收益上限 (ms)"), ("Confidence", "置信度"), ("Findings", "发现"), ("Ranks", "卡"),
    ("Behind it", "责任方"), ("Lines", "代码行"), ("How to check", "如何验证"), ("Risk", "风险"),
    ("Source", "来源"),
)  # fmt: skip
"""The columns of the sheet of actions, in English and Chinese."""


def spreadsheet(report: Report, language: str = "en") -> bytes:
    """The bytes of the workbook, in English (`en`) or Chinese (`zh`); durations are milliseconds a step, as in JSON."""
    tell, at = teller(language), int(language == "zh")
    sheets: dict[str, list[list[Cell]]] = {
        tell("Findings"): findings_rows(report.findings, tell),
        tell("Actions"): [[both[at] for both in _ACTIONS], *(_action(row, tell) for row in report.plan.actions)],
    }
    for title, columns, rows in _tables(report):
        if rows:
            lines = [[cell(row.get(prefix + one.key)) for one, prefix in columns] for row in rows]
            sheets[sheet_name(tell(title), sheets)] = [[_heading(one, tell) for one in columns], *lines]
    matrix = report.rows(RankMatrix).only
    if matrix is not None:
        about = declared()[RankMatrix]
        sheets[sheet_name(tell(about.title), sheets)] = _matrix(matrix, tell)
    return workbook({name: [[_shown(cell, tell) for cell in row] for row in rows] for name, rows in sheets.items()})


def _shown(cell: Cell, tell: Tell) -> Cell:
    return tell(harmless_line(cell)) if isinstance(cell, str) else cell


def _action(row: Advice, tell: Tell) -> list[Cell]:
    return [
        tell(row.title), tell(row.do), ms(row.gain.low_ns), ms(row.gain.high_ns), finite(row.confidence),
        _listed(row.codes),
        _listed(row.ranks), _listed(row.blames), _listed(row.lines), tell(row.verify), tell(row.risk), row.source,
    ]  # fmt: skip


def _listed(values: Sequence[object]) -> str:
    return ", ".join(map(str, values))


def _matrix(matrix: RankMatrix, tell: Tell) -> list[list[Cell]]:
    """Each metric of each rank; for ranks that share a row, the median."""
    units = ["ms" if metric.unit == "ns" else metric.unit for metric in matrix.metrics]
    names = [tell(metric.name) for metric in matrix.metrics]
    heads: list[Cell] = [tell("First rank"), tell("Last rank")]
    heads += [name if name == unit else f"{name} ({unit})" for name, unit in zip(names, units, strict=True)]
    scales = [1_000_000 if metric.unit == "ns" else 1 for metric in matrix.metrics]
    rows: list[list[Cell]] = [
        [row.first_rank, row.last_rank, *(_median(cell, scale) for cell, scale in zip(row.cells, scales, strict=True))]
        for row in matrix.rows
    ]
    return [heads, *rows]


def _median(cell: Spread | None, scale: int) -> Cell:
    return None if cell is None else cell.median / scale


_Table = tuple[str, list[tuple[Column, str]], list[dict[str, Any]]]
"""A sheet: its title, its columns, and its rows by column keys."""


def _tables(report: Report) -> Iterator[_Table]:
    for about in declared().values():
        if about.row is not RankMatrix:
            yield from _of_kind(report, about)


def _of_kind(report: Report, about: Declared) -> Iterator[_Table]:
    """The rows of a measure as in the JSON report; nested rows with a table become a sheet of their own."""
    found = block(report.measures, about)
    rows = [found] if isinstance(found, dict) else found if isinstance(found, list) else []
    inner = {one.name for one in about.opened}
    columns = [(one, prefix) for one, prefix in spread_out(about.columns) if one.name not in inner]
    if not (about.opened and about.one):
        yield about.title, columns, rows
    whose = [(one, "") for one in about.columns if one.name in ("rank", "step")]
    for one in about.opened:
        row = next(column.row for column in about.columns if column.name == one.name)
        parts = [
            {column.key: outer.get(column.key) for column, _ in whose} | part
            for outer in rows
            for part in outer.get(one.name) or ()
        ]
        yield one.title, [*whose, *spread_out(columns_of(row))], parts


def _heading(column: tuple[Column, str], tell: Tell) -> str:
    one, prefix = column
    title = tell(one.title) if one.title and not prefix else f"{prefix}{one.key}"
    unit = _UNITS.get(one.kind, "")
    told = unit and unit not in title.lower() and one.title and not prefix
    return f"{title} ({unit})" if told else title
