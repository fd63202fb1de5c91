"""Makes tables of the rank matrix: one column for each metric, one row for each rank or block of ranks."""

from __future__ import annotations

from hermes.model.structure_measures import MatrixRow, Metric, RankMatrix, Spread
from hermes.report.format import duration
from hermes.report.format import number as written
from hermes.report.table_cells import Cell, Column, Table, absent, table, whole_number_cell, words


def matrix_tables(matrix: RankMatrix) -> tuple[Table, ...]:
    """The table of each metric's spread, and the table of the matrix itself."""
    return _metrics(matrix), _matrix(matrix)


def _metrics(matrix: RankMatrix) -> Table:
    return table(
        "rank_matrix-metrics", "Spread over ranks", "Each metric over all ranks, per step.", _METRICS, matrix.metrics
    )


def _matrix(matrix: RankMatrix) -> Table:
    """A row for each rank, or for a block of ranks with its median; a cell's note names the block's extreme rank."""
    columns: list[Column[MatrixRow]] = [Column(title="Ranks", cell=_of_ranks)]
    columns += [
        Column(
            title=metric.name.capitalize(), cell=_cell(at, metric.unit), unit=metric.unit if metric.unit == "ns" else ""
        )
        for at, metric in enumerate(matrix.metrics)
    ]
    about = (
        "Each rank, per step."
        if matrix.ranks_per_row == 1
        else (f"{matrix.ranks_per_row} ranks a row: their median, and the largest with its rank.")
    )
    return table("rank_matrix", "Rank matrix", about, columns, matrix.rows)


def _of_ranks(row: MatrixRow) -> Cell:
    text = str(row.first_rank) if row.ranks == 1 else f"{row.first_rank} to {row.last_rank}"
    return Cell(text=text, value=str(row.first_rank))


class _cell:  # noqa: N801
    """Makes the cell of one metric in a row of the rank matrix."""

    def __init__(self, at: int, unit: str) -> None:
        self._at, self._unit = at, unit

    def __call__(self, row: MatrixRow) -> Cell:
        spread = row.cells[self._at]
        if spread is None:
            return absent()
        note = f"most {_value(spread.most, self._unit)} on {spread.most_rank}" if row.ranks > 1 else ""
        return Cell(text=_value(spread.median, self._unit), value=repr(spread.median), note=note)


def _value(value: float, unit: str) -> str:
    return duration(round(value)) if unit == "ns" else written(value)


def _at(spread: Spread, unit: str, which: str) -> Cell:
    value, rank = (spread.most, spread.most_rank) if which == "most" else (spread.least, spread.least_rank)
    return Cell(text=_value(value, unit), value=repr(value), note=f"rank {rank}")


_METRICS: tuple[Column[Metric], ...] = (
    Column(title="Metric", cell=lambda row: words(row.name), words=True),
    Column(title="Unit", cell=lambda row: words("" if row.unit == "ns" else row.unit), words=True),
    Column(title="Least", cell=lambda row: _at(row.spread, row.unit, "least")),
    Column(
        title="Median", cell=lambda row: Cell(text=_value(row.spread.median, row.unit), value=repr(row.spread.median))
    ),
    Column(title="Most", cell=lambda row: _at(row.spread, row.unit, "most")),
    Column(title="Ranks", cell=lambda row: whole_number_cell(row.spread.ranks)),
)
