"""Curves over time with as many points as a page has pixels: minimum and maximum of each bucket, so no peak is lost."""

from __future__ import annotations

from hermes.base.errors import InputError
from hermes.web import messages
from hermes.web.table_pages import TableBrowser

_MOST_BUCKETS = 2_000
_COLUMNS = {
    "memory": ("allocated_bytes", "reserved_bytes", "active_bytes"),
    "counter": ("value",),
}
_KEYS = {"memory": ("component",), "counter": ("source", "name", "series")}


def curve(
    browser: TableBrowser,
    table: str,
    rank: int,
    key: tuple[str, ...],
    buckets: int,
    span: tuple[int, int] | None = None,
) -> dict[str, object]:
    """`first_ns`, `last_ns` and, for each column, `[[place, least, most], …]`; place counts buckets from the first.

    Raises `InputError` for another table, or a key that does not fit it.
    """
    if table not in _COLUMNS or len(key) != len(_KEYS.get(table, ())):
        raise InputError(messages.no_curve(table=repr(table), count=str(len(key))), where="table")
    if not 1 <= buckets <= _MOST_BUCKETS:
        raise InputError(messages.buckets(most=str(_MOST_BUCKETS)), where="buckets")
    where = " AND ".join(f'"{name}" = ?' for name in _KEYS[table])
    bounds = f"SELECT min(ts_ns), max(ts_ns) FROM {{source}} WHERE {where}"
    found = browser.query(bounds, table, rank, key)
    if not found or found[0][0] is None:
        return {"first_ns": None, "last_ns": None, "columns": {}}
    first, last = found[0]
    if span:
        first, last = max(first, span[0]), min(last, span[1])
    width = max(1, -(-(last - first + 1) // buckets))
    listed = _COLUMNS[table]
    found = browser.query(_buckets_sql(table, listed, first, last, width), table, rank, key)
    columns = {
        column: [[row[0], row[1 + 2 * at], row[2 + 2 * at]] for row in found if row[1 + 2 * at] is not None]
        for at, column in enumerate(listed)
    }
    return {
        "first_ns": str(first),
        "last_ns": str(last),
        "bucket_ns": width,
        "columns": {name: points for name, points in columns.items() if points},
    }


def _buckets_sql(table: str, columns: tuple[str, ...], first: int, last: int, width: int) -> str:
    where = " AND ".join(f'"{name}" = ?' for name in _KEYS[table])
    both = ", ".join(f'min("{column}"), max("{column}")' for column in columns)
    return (
        f"SELECT (ts_ns - {first}) // {width} AS place, {both} FROM {{source}} "
        f"WHERE {where} AND ts_ns BETWEEN {first} AND {last} GROUP BY place ORDER BY place"
    )
