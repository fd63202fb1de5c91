"""Reads samples from a database: memory, allocations, and counters of the device and the host.

Traps: some samples have no value. Only newer writers have some counters (any numeric column is a series). The queue of
free blocks has rows from before the capture, without a moment of allocation.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from hermes.profiles.read.ascend.db.capture_databases import Profile, WantedColumns

_MOMENT = "timestampNs"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sampled:
    """A table of samples; `name` is a template over the columns of `labels` (numbers) and `names` (ids).

    `series` gives columns their names with units; None takes every other column under its own name.
    """

    table: str
    source: str
    name: str
    labels: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    series: dict[str, str] | None = None


_SAMPLED = (
    _Sampled(table="AICORE_FREQ", source="AI Core Freq", name="AI Core Freq", series={"freq": "MHz"}),
    _Sampled(
        table="HBM",
        source="HBM",
        name="HBM {hbmId}/{type}",
        labels=("hbmId",),
        names=("type",),
        series={"bandwidth": "Bandwidth(B/s)"},
    ),
    _Sampled(
        table="LLC",
        source="LLC",
        name="LLC {llcId}/{mode}",
        labels=("llcId",),
        names=("mode",),
        series={"throughput": "Throughput(B/s)", "hitRate": "Hit Rate(%)"},
    ),
    _Sampled(table="DDR", source="DDR", name="DDR", series={"read": "Read(B/s)", "write": "Write(B/s)"}),
    _Sampled(table="NIC", source="NIC", name="Port {funcId}", labels=("funcId",)),
    _Sampled(table="ROCE", source="RoCE", name="Port {funcId}", labels=("funcId",)),
    _Sampled(table="PCIE", source="PCIe", name="PCIe"),
    _Sampled(table="HCCS", source="HCCS", name="HCCS"),
    _Sampled(table="SIO", source="SIO", name="SIO"),
    _Sampled(table="UB", source="UB", name="UB {portId}", labels=("portId",)),
    _Sampled(table="NETDEV_STATS", source="Netdev", name="Netdev"),
    _Sampled(table="QOS", source="QoS", name="QoS {eventName}", names=("eventName",)),
    _Sampled(table="ACC_PMU", source="Acc PMU", name="Acc PMU {accId}", labels=("accId",)),
    _Sampled(table="SOC_BANDWIDTH_LEVEL", source="Stars Soc Info", name="Stars Soc Info"),
    _Sampled(
        table="CPU_USAGE",
        source="CPU Usage",
        name="CPU {cpuId}",
        labels=("cpuId",),
        series={"usage": "Usage(%)"},
    ),
    _Sampled(table="HOST_MEM_USAGE", source="Host Memory Usage", name="Host Memory", series={"usage": "Usage(%)"}),
    _Sampled(table="HOST_DISK_USAGE", source="Host Disk Usage", name="Host Disk"),
    _Sampled(table="HOST_NETWORK_USAGE", source="Host Network Usage", name="Host Network"),
    _Sampled(
        table="SAMPLE_PMU_TIMELINE",
        source="AI Core",
        name="Core {coreId}",
        labels=("coreId",),
        names=("coreType",),
    ),
)


def write_samples(profile: Profile) -> None:
    """Write `memory`, `allocation` and `counter`."""
    profile.write("memory", _memory(profile))
    profile.write("allocation", _allocations(profile))
    counters = [_counter(profile, sampled) for sampled in _SAMPLED if sampled.table in profile.tables]
    if counters:
        profile.write("counter", pl.concat(counters))


def _memory(profile: Profile) -> pl.DataFrame:
    record = WantedColumns(
        table="MEMORY_RECORD",
        ints=("timestamp", "totalAllocated", "totalReserved", "totalActive", "deviceId"),
        names=("component",),
        required=("timestamp", "component"),
    )
    usage = WantedColumns(
        table="NPU_MEM", ints=(_MOMENT, "hbm", "deviceId"), names=("type",), required=(_MOMENT, "hbm", "type")
    )
    curve = profile.read(record).select(
        "component",
        pl.col("timestamp").alias("ts_ns"),
        pl.col("totalAllocated").alias("allocated_bytes"),
        pl.col("totalReserved").alias("reserved_bytes"),
        pl.col("totalActive").alias("active_bytes"),
        pl.col("deviceId").alias("device_id"),
    )
    # Components are named as in the text export.
    component = pl.col("type").replace({"app": "APP", "device": "Device"})
    device = profile.read(usage).select(
        component.alias("component"),
        pl.col(_MOMENT).alias("ts_ns"),
        pl.col("hbm").alias("reserved_bytes"),
        pl.col("deviceId").alias("device_id"),
    )
    parts = [curve, device, _modules(profile)]
    if curve.is_empty():
        parts.append(
            _engine_events(profile).select("component", "ts_ns", "allocated_bytes", "reserved_bytes", "device_id")
        )
    return pl.concat(parts, how="diagonal").sort("ts_ns", maintain_order=True)


def _allocations(profile: Profile) -> pl.DataFrame:
    wanted = WantedColumns(
        table="OP_MEMORY",
        ints=("size", "allocationTime", "releaseTime", "deviceId"),
        names=("name",),
        required=("size", "name"),
    )
    if wanted.table not in profile.tables:
        return _engine_allocations(profile)
    return (
        profile.read(wanted)
        .filter(pl.col("size") >= 0)
        .drop_nulls("allocationTime")
        .select(
            "name",
            pl.col("size").alias("bytes"),
            pl.col("allocationTime").alias("alloc_ns"),
            pl.col("releaseTime").alias("release_ns"),
            pl.col("deviceId").alias("device_id"),
        )
        .sort("alloc_ns", maintain_order=True)
    )


def _engine_events(profile: Profile) -> pl.DataFrame:
    """The events of the graph engine's own allocator, the only allocator events in a database without a framework."""
    wanted = WantedColumns(
        table="NPU_OP_MEM",
        ints=("addr", "size", _MOMENT, "totalAllocate", "totalReserve", "deviceId"),
        names=("operatorName", "type", "component"),
        required=(_MOMENT, "size", "operatorName", "type", "component"),
    )
    rows = profile.read(wanted).rename({_MOMENT: "ts_ns", "deviceId": "device_id", "operatorName": "name"})
    rows = rows.rename({"totalAllocate": "allocated_bytes", "totalReserve": "reserved_bytes"})
    return rows.sort("ts_ns", maintain_order=True)


def _engine_allocations(profile: Profile) -> pl.DataFrame:
    """Each allocation with the next release at its address, if that is the next event there."""
    lane = ["device_id", "component", "addr"]
    events = _engine_events(profile).drop_nulls("addr")
    next_type, next_time = pl.col("type").shift(-1).over(lane), pl.col("ts_ns").shift(-1).over(lane)
    release = pl.when(next_type == "release").then(next_time)
    taken = events.with_columns(release.alias("release_ns")).filter(pl.col("type") == "allocate")
    return taken.select(
        "name", pl.col("size").alias("bytes"), pl.col("ts_ns").alias("alloc_ns"), "release_ns", "device_id"
    )


def _counter(profile: Profile, sampled: _Sampled) -> pl.DataFrame:
    fixed = {_MOMENT, "deviceId", *sampled.labels, *sampled.names}
    series = sampled.series or {name: name for name in sorted(profile.columns(sampled.table) - fixed)}
    wanted = WantedColumns(
        table=sampled.table,
        ints=(_MOMENT, "deviceId", *sampled.labels),
        reals=tuple(series),
        names=sampled.names,
        required=(_MOMENT,),
    )
    rows = profile.read(wanted)
    parts = [*sampled.labels, *sampled.names]
    template = sampled.name
    for part in parts:
        template = template.replace(f"{{{part}}}", "{}")
    named = [part for part in parts if f"{{{part}}}" in sampled.name]
    cells = [pl.col(part).cast(pl.String).fill_null("?").str.to_titlecase() for part in named]
    name = pl.format(template, *cells) if named else pl.lit(template)
    long = rows.with_columns(name.alias("name")).unpivot(
        on=list(series), index=["name", _MOMENT, "deviceId"], variable_name="series", value_name="value"
    )
    return long.drop_nulls("value").select(
        pl.lit(sampled.source).alias("source"),
        "name",
        pl.col("series").replace(series),
        pl.col(_MOMENT).alias("ts_ns"),
        "value",
        pl.col("deviceId").alias("device_id"),
    )


def _modules(profile: Profile) -> pl.DataFrame:
    """The memory that each software module took; a negative size means that the module does not tell."""
    wanted = WantedColumns(
        table="NPU_MODULE_MEM",
        ints=("moduleId", _MOMENT, "deviceId", "totalReserved"),
        required=("moduleId", _MOMENT, "totalReserved"),
    )
    modules = profile.enum("ENUM_MODULE", {})
    name = pl.col("moduleId").replace_strict(modules, default=None, return_dtype=pl.String)
    return (
        profile.read(wanted)
        .filter(pl.col("totalReserved") >= 0)
        .select(
            name.fill_null(pl.format("module {}", "moduleId")).alias("component"),
            pl.col(_MOMENT).alias("ts_ns"),
            pl.col("totalReserved").alias("reserved_bytes"),
            pl.col("deviceId").alias("device_id"),
        )
    )
