"""Lists the tables for the pages: the document's own tables, the cached tables, and groupings of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_HIDDEN = frozenset({"schema", "tool", "title", "verdict", "coverage"})
Row = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTable:
    """One table of the document: its key (`host.sync_calls`), its columns in order of appearance, its rows."""

    key: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """A query over one cached table; `{source}` stands for its rows, of one rank or of all."""

    table: str
    query: str


_TIMES = (
    "count(*) AS calls, sum(dur_ns)::BIGINT AS total_ns, min(dur_ns) AS min_ns, "
    "quantile_disc(dur_ns, 0.5) AS median_ns, max(dur_ns) AS max_ns, round(stddev_samp(dur_ns))::BIGINT AS deviation_ns"
)
_LONGEST = "arg_max(struct_pack(at := start_ns, rank := rank), dur_ns) AS longest"
_KERNELS = "FROM {source} WHERE component IN ('compute', 'comm', 'copy')"
_SHARE = "sum(dur_ns) / (SUM(sum(dur_ns)) OVER ())::DOUBLE AS share"


def _moments(query: str) -> str:
    """The query with the time and rank of the longest row of each group, where a page can open the timeline."""
    return f"SELECT * EXCLUDE (longest), longest.at AS longest_at_ns, longest.rank AS of_rank FROM ({query})"


def _kernels(*keys: str) -> Grouping:
    listed = ", ".join(keys)
    query = f"SELECT {listed}, component, any_value(unit) AS unit, {_TIMES}, {_SHARE}, {_LONGEST} {_KERNELS} "
    query += f"GROUP BY {listed}, component"
    return Grouping(table="kernel", query=_moments(query))


GROUPINGS: dict[str, Grouping] = {
    "kernels.type": Grouping(
        table="kernel",
        query=_moments(
            f"SELECT coalesce(type, name) AS type, component, any_value(unit) AS unit, {_TIMES}, {_SHARE}, "
            f"{_LONGEST} {_KERNELS} GROUP BY 1, component"
        ),
    ),
    "kernels.name": _kernels("name", "type"),
    "kernels.shape": _kernels("name", "type", "input_shapes", "input_dtypes"),
    "kernels.unit": Grouping(
        table="kernel",
        query=_moments(
            f"SELECT coalesce(unit, 'not recorded') AS unit, component, {_TIMES}, {_SHARE}, {_LONGEST} {_KERNELS} "
            "GROUP BY 1, 2"
        ),
    ),
    "host.names": Grouping(
        table="host_op",
        query=_moments(
            "SELECT name, kind, count(*) AS calls, sum(dur_ns)::BIGINT AS total_ns, sum(self_ns)::BIGINT AS self_ns, "
            "min(dur_ns) AS min_ns, quantile_disc(dur_ns, 0.5) AS median_ns, max(dur_ns) AS max_ns, "
            + _LONGEST
            + " FROM {source} GROUP BY name, kind"
        ),
    ),
    "pmu.names": Grouping(
        table="pmu",
        query="SELECT name, count(*) AS kernels, min(value) AS least, avg(value) AS mean, max(value) AS most "
        "FROM {source} GROUP BY name",
    ),
    "links.pairs": Grouping(
        table="comm_link",
        query='SELECT "group", src_rank, dst_rank, transport, sum(bytes)::BIGINT AS bytes, sum(time_ns)::BIGINT AS '
        "time_ns, sum(bytes) / nullif(sum(time_ns), 0)::DOUBLE AS gb_per_s FROM {source} "
        "WHERE name NOT ILIKE '%total%' GROUP BY ALL",
    ),
    "traffic.transports": Grouping(
        table="comm_traffic",
        query="SELECT transport, packet_bytes, sum(packets)::BIGINT AS packets, sum(bytes)::BIGINT AS bytes, "
        "sum(time_ns)::BIGINT AS time_ns, sum(bytes) / nullif(sum(time_ns), 0)::DOUBLE AS gb_per_s FROM {source} "
        "GROUP BY ALL",
    ),
    "groups.members": Grouping(
        table="group",
        query='SELECT "group", any_value(name) AS name, count(DISTINCT member) AS members, '
        'list(DISTINCT global_rank ORDER BY global_rank) AS ranks FROM {source} GROUP BY "group"',
    ),
    "memory.components": Grouping(
        table="memory",
        query="SELECT component, device_id, count(*) AS samples, max(allocated_bytes) AS allocated_bytes, "
        "max(reserved_bytes) AS reserved_bytes, max(active_bytes) AS active_bytes FROM {source} GROUP BY ALL",
    ),
    "counters.series": Grouping(
        table="counter",
        query="SELECT source, name, series, count(*) AS samples, min(value) AS least, avg(value) AS mean, "
        "max(value) AS most FROM {source} GROUP BY ALL",
    ),
}
"""All groupings by key; the part of the key before the dot is only a name."""


def listed(document: Mapping[str, object]) -> dict[str, ListedTable]:
    """Every list of objects in the document, by its path: a new list of an analysis is shown without further code."""
    return {key: _table(key, rows) for key, rows in _lists(document, "")}


def is_text(value: Mapping[str, object]) -> bool:
    """Whether the values are Hermes' own words, and not rows."""
    return "text" in value and value.keys() <= {"id", "arguments", "text"}


def _lists(value: Mapping[str, object], prefix: str) -> Iterator[tuple[str, list[Row]]]:
    for name, item in value.items():
        if not prefix and name in _HIDDEN:
            continue
        key = f"{prefix}{name}"
        if isinstance(item, Mapping):
            yield from _lists(item, f"{key}.")
        elif isinstance(item, list) and item and all(isinstance(row, Mapping) and not is_text(row) for row in item):
            yield key.removesuffix(".rows"), item


def _table(key: str, rows: list[Row]) -> ListedTable:
    columns = dict.fromkeys(name for row in rows for name in row)
    return ListedTable(key=key, columns=tuple(columns), rows=tuple(rows))
