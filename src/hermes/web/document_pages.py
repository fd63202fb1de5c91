"""Serves tables of a document in stretches, and the document's summary for a page, without loading large libraries."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hermes.base.errors import InputError
from hermes.model.leaf import Leaf
from hermes.report.shared_assets import declared_words
from hermes.web import messages
from hermes.web.listed_tables import ListedTable, listed

LONGEST_PAGE = 1_000
_SAFE = 2**53
_DRAWN = frozenset(
    {
        "clocks",
        "communication.arrivals",
        "compute.chips",
        "compute.operators",
        "critical_path",
        "critical_path_stretches",
        "diagnostics",
        "findings",
        "idle_stretches",
        "pipeline_boxes",
        "plan.actions",
        "plan.collect",
        "rank_matrix.metrics",
        "rank_matrix.rows",
        "rank_waits",
        "tree",
        "waits",
    }
)
"""Tables that pages draw from the document itself; of other tables, pages get the first row, and ask for more rows."""
_MOST_DRAWN = 5_000
_AT_ONCE_ROWS, _AT_ONCE_BYTES = 30, 6_000
"""Largest number of rows and answer bytes of a table that comes with the document, without a further request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRequest:
    """The request for one stretch of one table. `words` must all occur in a row; `only` are columns with the text they
    must equal; `within` is a stretch of time that rows must overlap."""

    table: str
    rank: int | None = None
    sort: str = ""
    descending: bool = False
    words: tuple[str, ...] = ()
    only: tuple[tuple[str, str], ...] = ()
    within: tuple[int, int] | None = None
    offset: int = 0
    limit: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The requested stretch of a table: columns with their kinds, number of matching rows, number of all rows, and the
    rows."""

    columns: tuple[tuple[str, str], ...]
    total: int
    matching: int
    rows: tuple[tuple[object, ...], ...]


def listed_page(
    table: ListedTable, ask: TableRequest, kept: Callable[[Callable[[], list[int]]], list[int]] = lambda make: make()
) -> Page:
    """A stretch of a table of a document; `kept` may cache the order of rows. Raises `InputError` for an unknown
    column."""
    refuse_unknown(ask, table.columns)
    order = kept(lambda: _document_order(table, ask))
    rows = (table.rows[at] for at in order[ask.offset : ask.offset + ask.limit])
    return Page(
        columns=tuple((name, _kind_of(table, name)) for name in table.columns),
        total=len(table.rows), matching=len(order),
        rows=tuple(tuple(safe(row.get(name)) for name in table.columns) for row in rows),
    )  # fmt: skip


def safe(value: object) -> object:
    """A value as JSON that JavaScript reads without loss: whole numbers beyond a double's precision become text."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return value if -_SAFE < value < _SAFE else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(name): safe(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [safe(item) for item in value]
    return str(value)


def refuse_unknown(ask: TableRequest, names: Sequence[str]) -> None:
    """Raise `InputError` for a column that the table lacks, or a stretch of time if rows have no time."""
    for name in (ask.sort, *(column for column, _ in ask.only)):
        if name and name not in names:
            raise InputError(messages.no_column(column=repr(name), table=ask.table), where="sort or only")
    if ask.within and "start_ns" not in names and "alloc_ns" not in names:
        raise InputError(messages.no_times(table=ask.table), where="within")


def _document_order(table: ListedTable, ask: TableRequest) -> list[int]:
    order = list(range(len(table.rows)))
    if ask.rank is not None and "rank" in table.columns:
        order = [at for at in order if table.rows[at].get("rank") == ask.rank]
    for column, text in ask.only:
        order = [at for at in order if str(table.rows[at].get(column)) == text]
    if ask.words:
        words = [word.lower() for word in ask.words]
        spelt = {at: "\n".join(map(str, table.rows[at].values())).lower() for at in order}
        order = [at for at in order if all(word in spelt[at] for word in words)]
    if ask.sort:
        known = [at for at in order if table.rows[at].get(ask.sort) is not None]
        absent = [at for at in order if table.rows[at].get(ask.sort) is None]
        order = sorted(known, key=lambda at: _sort_key(table.rows[at][ask.sort]), reverse=ask.descending) + absent
    return order


def _sort_key(value: object) -> tuple[int, float, str]:
    """A sort key that puts numbers before texts, and lists by length: columns of mixed kinds can be sorted, too."""
    if isinstance(value, (bool, int, float)):
        return 0, value, ""
    return (0, len(value), "") if isinstance(value, list) else (1, 0, str(value).lower())


def _kind_of(table: ListedTable, name: str) -> str:
    value = next((row[name] for row in table.rows if row.get(name) is not None), None)
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int"
    if isinstance(value, float):
        return "real"
    return "text" if isinstance(value, str) else "list" if isinstance(value, (list, dict)) else "text"


def json_value(value: object) -> bytes:
    """A value as the JSON bytes of an answer."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")


def told_page(page: Page) -> dict[str, object]:
    """A stretch of a table's rows as a JSON answer."""
    return {
        "columns": [{"name": name, "kind": kind} for name, kind in page.columns],
        "total": page.total,
        "matching": page.matching,
        "rows": page.rows,
    }


def summary(document: Mapping[str, object]) -> bytes:
    """The answer with the document, the list of tables, and short tables complete, as pages would ask for them.

    The titles of the measures come with the document: the next server over the same input shows them without loading
    their code. The parts of the tree that leaves belong to come with it, too. Most tables in the document are cut to
    their first row; lists of plain values are complete.
    """
    every = listed(document).values()
    tables = [{"key": table.key, "rows": len(table.rows), "columns": list(table.columns)} for table in every]
    short = {
        table.key: page
        for table in every
        if len(table.rows) <= _AT_ONCE_ROWS
        and len(json_value(page := told_page(listed_page(table, TableRequest(table=table.key))))) <= _AT_ONCE_BYTES
    }
    words = declared_words()
    parts = {leaf.value: leaf.part for leaf in Leaf}
    return json_value(
        {"document": _shortened(document, ""), "tables": tables, "pages": short, "words": words, "parts": parts}
    )


def _shortened(value: Mapping[str, object], prefix: str) -> dict[str, object]:
    return {name: _part(item, f"{prefix}{name}") for name, item in value.items()}


def _part(value: object, key: str) -> object:
    if isinstance(value, Mapping):
        return _shortened(value, f"{key}.")
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return safe(value[: _MOST_DRAWN if key in _DRAWN else 1])
    return safe(value)


def columns_of(table: ListedTable | None, names: Sequence[str]) -> dict[str, list[object]]:
    """Complete columns of a table; empty columns if the table or a column is missing."""
    if table is None or not set(names) <= set(table.columns):
        return {name: [] for name in names}
    return {name: [safe(row.get(name)) for row in table.rows] for name in names}
