"""Reads what a Kineto trace says about itself: its rank, the settings of its profiler, its process groups."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from typing import Any

import duckdb
import polars as pl

from hermes.knowledge.vendor_traits import HOST_ONLY, vendor_of
from hermes.model.tables.device_settings import DEVICE_MEMORY
from hermes.profiles.read.chrome import ScannedTrace, sparse_sql
from hermes.profiles.read.hermes_capture import before_rows, end_rows, samples, thread_runs
from hermes.profiles.read.kineto.legacy import DEVICE
from hermes.profiles.read.table_sink import Sink

_INT64_MAX = 2**63 - 1
# Times between 2001 and 2096 in nanoseconds: such a file counts from 1970.
_UNIX_NS = (10**18, 4 * 10**18)
_LONGEST_VALUE = 4_096
_LARGEST_GROUP = 1 << 20
_MOST_MEMBERS = 1 << 21


def write_about(events: ScannedTrace, capture: str, host: str | None, sink: Sink) -> None:
    """Write the tables `rank`, `setting` and `group`; needs the table `kernel`."""
    job = events.header.get("distributedInfo")
    job = job if isinstance(job, dict) else {}
    _write_rank(events, job, capture, host, sink)
    _write_settings(events.header, job, sink, _only(_devices(sink)))
    lines = events.header.get("hermes_lines")
    sink.frame("sample", samples(lines, _epoch(events) or 0))
    sink.frame("thread_run", thread_runs(lines))
    _write_groups(events.con, job, sink)


def _write_rank(events: ScannedTrace, job: dict[str, Any], capture: str, host: str | None, sink: Sink) -> None:
    devices = _devices(sink)
    device = _only(devices)
    chip = _chip(events.header.get("deviceProperties"), device)
    vendor, family = _vendor(events, chip or "", str(job.get("backend") or ""), has_device=bool(devices))
    sink.frame(
        "rank",
        pl.DataFrame(
            {
                "capture": [capture],
                "format": ["kineto"],
                "framework": ["pytorch"],
                "vendor": [vendor],
                "chip": [chip or family],
                "device_id": [device],
                "host": [host],
                "world_size": [_whole(job.get("world_size"))],
                "epoch_ns": [_epoch(events)],
            },
            schema_overrides={"chip": pl.String, "device_id": pl.Int64, "host": pl.String, "world_size": pl.Int64,
                              "epoch_ns": pl.Int64},
        ),
    )  # fmt: skip


def _devices(sink: Sink) -> list[int]:
    """The devices that ran a kernel."""
    kernel = pl.scan_parquet(sink.folder / "kernel.parquet")
    return kernel.select(pl.col("device_id").drop_nulls().unique()).collect()["device_id"].to_list()


def _only(devices: Sequence[int]) -> int | None:
    return devices[0] if len(devices) == 1 else None


def _chip(properties: Any, device: int | None) -> str | None:
    """The name of the device that worked; the common name if all devices are alike."""
    named = [
        (item.get("id"), str(item["name"]))
        for item in (properties if isinstance(properties, list) else [])
        if isinstance(item, dict) and isinstance(item.get("name"), str)
    ]
    own = [name for number, name in named if device is not None and number == device]
    names = {name for _, name in named}
    return own[0] if own else names.pop() if len(names) == 1 else None


def _vendor(events: ScannedTrace, chip: str, backend: str, *, has_device: bool) -> tuple[str, str | None]:
    """The vendor of the device, and its chip family if the chip has no name."""
    vendor, family = vendor_of(chip)
    if vendor is not None:
        return vendor, family
    calls = {
        vendor
        for (vendor,) in events.con.execute(
            "SELECT DISTINCT CASE WHEN name LIKE 'hip%' THEN 'amd' WHEN name LIKE 'cu%' THEN 'nvidia' END AS vendor "
            "FROM event WHERE what IN ('runtime', 'driver')"
        ).fetchall()
    }
    if events.con.execute(f"SELECT 1 FROM event WHERE what = 'kernel' AND pid = '{DEVICE}' LIMIT 1").fetchall():
        return "nvidia", None
    for vendor, key in (("amd", "hip_runtime_version"), ("nvidia", "cuda_runtime_version")):
        if vendor in calls or key in events.header:
            return vendor, None
    if not has_device:
        return HOST_ONLY, None
    categories = events.con.execute(
        "SELECT string_agg(DISTINCT cat, ' ') FROM event "
        "WHERE what IN ('runtime', 'driver', 'kernel', 'memcpy', 'sync')"
    ).fetchall()
    found, family = vendor_of(f"{categories[0][0]} {backend}")
    return found or "unknown", family


def _epoch(events: ScannedTrace) -> int | None:
    """0 if the times count from 1970, else the header's base."""
    ((first,),) = events.con.execute("SELECT min(ts_ns) FROM event WHERE ph = 'X'").fetchall()
    if first is not None and _UNIX_NS[0] <= first <= _UNIX_NS[1]:
        return 0
    return _whole(events.header.get("baseTimeNanoseconds"))


def _whole(value: Any) -> int | None:
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _INT64_MAX
    return value if good else None


def _write_settings(header: dict[str, Any], job: dict[str, Any], sink: Sink, device: int | None) -> None:
    rows: list[tuple[str, str, str | None]] = []
    properties = header.get("deviceProperties")
    for item in properties if isinstance(properties, list) else []:
        if isinstance(item, dict) and device is not None and item.get("id") == device:
            size = _whole(item.get("totalGlobalMem"))
            rows += [("profiler", DEVICE_MEMORY, str(size))] if size else []
    for name, value in header.items():
        if name == "hermes" and isinstance(value, dict) and isinstance(value.get("settings"), dict):
            # What Hermes' own capture records about the process.
            rows += [("environment", own, _text(told)) for own, told in value["settings"].items()]
            rows += before_rows(value)
        elif name == "hermes_end":
            rows += end_rows(value)
        elif name not in ("distributedInfo", "deviceProperties", "traceName", "hermes_lines"):
            rows.append(("version" if name.endswith("_version") else "profiler", name, _text(value)))
    rows += [("job", name, _text(value)) for name, value in job.items() if name != "pg_config"]
    schema = {"source": pl.String, "name": pl.String, "value": pl.String}
    sink.frame("setting", pl.DataFrame(rows, schema=schema, orient="row"))


def _text(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    # A lone half of a surrogate pair has no UTF-8 form.
    return text[:_LONGEST_VALUE].encode("utf-8", "replace").decode("utf-8")


def _write_groups(con: duckdb.DuckDBPyConnection, job: dict[str, Any], sink: Sink) -> None:
    groups: dict[str, tuple[str | None, Sequence[int | None]]] = {}
    config = job.get("pg_config")
    for item in config if isinstance(config, list) else []:
        if isinstance(item, dict) and item.get("pg_name") is not None:
            listed = item.get("ranks")
            ranks = [_whole(rank) for rank in listed] if isinstance(listed, list) else []
            unknown = _unknown(_whole(item.get("pg_size")))
            groups[str(item["pg_name"])] = (_desc(item.get("pg_desc")), ranks or unknown)
    fact = {key: sparse_sql(f"Process Group {key}") for key in ("Name", "Description", "Ranks")}
    recorded = con.execute(
        f"SELECT {fact['Name']}, any_value({fact['Description']}), any_value({fact['Ranks']}), "
        f"any_value(TRY_CAST({sparse_sql('Group size')} AS BIGINT)) "
        f"FROM event WHERE {fact['Name']} <> '' GROUP BY 1 ORDER BY 1"
    ).fetchall()
    for name, desc, ranks, size in recorded:
        if all(rank is None for rank in groups.get(name, (None, ()))[1]):
            groups[name] = (_desc(desc), _members(ranks, size))
    members = (
        (name, desc, member, rank) for name, (desc, ranks) in groups.items() for member, rank in enumerate(ranks)
    )
    rows = list(islice(members, _MOST_MEMBERS))
    schema = {"group": pl.String, "name": pl.String, "member": pl.Int64, "global_rank": pl.Int64}
    sink.frame("group", pl.DataFrame(rows, schema=schema, orient="row"))


def _desc(value: Any) -> str | None:
    return value if isinstance(value, str) and value not in ("", "undefined") else None


def _members(text: str | None, size: int | None) -> Sequence[int | None]:
    """The global ranks of a group; only their number if the list was cut (`[0, 1, ..., 31]`)."""
    try:
        ranks = json.loads(text or "")
    except (ValueError, RecursionError):
        ranks = None
    if isinstance(ranks, list) and ranks and all(_whole(rank) is not None for rank in ranks):
        return ranks
    return _unknown(size)


def _unknown(size: int | None) -> Sequence[None]:
    return [None] * min(max(size or 0, 0), _LARGEST_GROUP)
