"""Reads the sums of the profiler's own tool from `analysis.db` and `communication_analyzer.db`.

Traps: microseconds, milliseconds and megabytes (of 10^6 bytes) are doubles. A step is `50` in one table and `step50` in
another. At Level0 only the table of steps exists. Ranks are numbers as text and count within the group.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from hermes.base.units import bytes_of, ns_of_ms, ns_of_us
from hermes.profiles.read.ascend.db.capture_databases import Profile, WantedColumns

TABLES = frozenset({"StepTraceTime", "CommAnalyzerTime", "CommAnalyzerBandwidth", "CommAnalyzerMatrix"})

_MB = 1_000_000
_OPERATION = ("hccl_op_name", "group_name", "step")


def write_summary(profile: Profile) -> None:
    """Write `step_reported`, `comm_reported`, `comm_traffic` and `comm_link`."""
    _write_steps(profile)
    _write_times(profile)
    _write_traffic(profile)
    _write_links(profile)


def _write_steps(profile: Profile) -> None:
    columns = {
        "computing": "compute_ns",
        "communication_not_overlapped": "exposed_comm_ns",
        "overlapped": "overlapped_ns",
        "communication": "comm_ns",
        "free": "free_ns",
        "stage": "stage_ns",
        "bubble": "bubble_ns",
        "preparing": "preparing_ns",
    }
    rows = profile.read(WantedColumns(table="StepTraceTime", texts=("step",), reals=tuple(columns)))
    times = [_scaled(rows[name], ns_of_us).alias(column) for name, column in columns.items()]
    profile.write("step_reported", pl.DataFrame([_step(rows), *times]))


def _write_times(profile: Profile) -> None:
    columns = {
        "elapse_time": "elapse_ns",
        "transit_time": "transit_ns",
        "wait_time": "wait_ns",
        "synchronization_time": "sync_ns",
        "idle_time": "idle_ns",
    }
    wanted = WantedColumns(table="CommAnalyzerTime", texts=(*_OPERATION, "type"), reals=("start_timestamp", *columns))
    rows = profile.read(wanted)
    times = [_scaled(rows[name], ns_of_ms).alias(column) for name, column in columns.items()]
    start = _scaled(rows["start_timestamp"], ns_of_us).alias("start_ns")
    # The sum over a step has 0 for its start.
    start = start.to_frame().select(pl.when(start > 0).then(start).alias("start_ns")).to_series()
    profile.write("comm_reported", pl.DataFrame([*_names(rows), rows["type"].alias("kind"), start, *times]))


def _write_traffic(profile: Profile) -> None:
    wanted = WantedColumns(
        table="CommAnalyzerBandwidth",
        texts=(*_OPERATION, "transport_type"),
        reals=("transit_size", "transit_time", "package_size", "count", "total_duration"),
    )
    rows = profile.read(wanted)
    frame = pl.DataFrame(
        [
            *_names(rows),
            rows["transport_type"].alias("transport"),
            _scaled(rows["transit_size"], _megabytes).alias("bytes"),
            _scaled(rows["transit_time"], ns_of_ms).alias("time_ns"),
            _scaled(rows["package_size"], _megabytes).alias("packet_bytes"),
            rows["count"].cast(pl.Int64, strict=False).alias("packets"),
            _scaled(rows["total_duration"], ns_of_ms).alias("packet_ns"),
        ]
    )
    keys = ["name", "group", "step", "transport"]
    sums = frame.select(*keys, "bytes", "time_ns").unique(keys, keep="first", maintain_order=True)
    packets = frame.filter((pl.col("packet_bytes") > 0) & (pl.col("packets") > 0)).select(
        *keys,
        "packet_bytes",
        "packets",
        (pl.col("packet_bytes") * pl.col("packets")).alias("bytes"),
        pl.col("packet_ns").alias("time_ns"),
    )
    profile.write("comm_traffic", pl.concat([sums, packets], how="diagonal"))


def _write_links(profile: Profile) -> None:
    wanted = WantedColumns(
        table="CommAnalyzerMatrix",
        ints=("src_rank", "dst_rank"),
        texts=(*_OPERATION, "transport_type"),
        reals=("transit_size", "transit_time"),
    )
    rows = profile.read(wanted)
    profile.write(
        "comm_link",
        pl.DataFrame(
            [
                *_names(rows),
                rows["src_rank"],
                rows["dst_rank"],
                rows["transport_type"].alias("transport"),
                _scaled(rows["transit_size"], _megabytes).alias("bytes"),
                _scaled(rows["transit_time"], ns_of_ms).alias("time_ns"),
            ]
        ),
    )


def _names(rows: pl.DataFrame) -> list[pl.Series]:
    return [rows["hccl_op_name"].alias("name"), rows["group_name"].alias("group"), _step(rows)]


def _step(rows: pl.DataFrame) -> pl.Series:
    return rows["step"].str.extract(r"^(?:step)?(\d{1,18})$").cast(pl.Int64)


def _scaled(values: pl.Series, unit: Callable[[str], int]) -> pl.Series:
    """Whole units of doubles, by their shortest decimal text, as the writer had them."""
    return pl.Series(values.name, [_whole(value, unit) for value in values.to_list()], dtype=pl.Int64)


def _whole(value: float | None, unit: Callable[[str], int]) -> int | None:
    if value is None:
        return None
    try:
        return unit(repr(value))
    except ValueError:
        return None


def _megabytes(text: str) -> int:
    return bytes_of(text, _MB)
