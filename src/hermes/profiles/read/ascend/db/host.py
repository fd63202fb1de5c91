"""Reads the host side of a database: steps, calls of the framework and of CANN, Python stacks, collections.

Traps: PYTORCH_API's `connectionId` leads through CONNECTION_IDS, where one call has many. Launches, queue pairs and
forward-backward pairs share one number space of ids (newer writers add 5 << 28 to the latter two).
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from hermes.profiles.read.ascend.db.capture_databases import Profile, WantedColumns, number_or_null, shapes, thread
from hermes.profiles.read.assign_rows_to_steps import own_host
from hermes.profiles.read.nest_calls import nest

_API_TYPES = {
    20000: "acl",
    15000: "model",
    10000: "node",
    5500: "hccl",
    5000: "runtime",
    50001: "op",
    50002: "queue",
    50003: "trace",
    50004: "mstx",
}
_CANN_KINDS = {name: name for name in ("acl", "model", "node", "hccl", "runtime")} | {"communication": "hccl"}
_STEP_MARK = r"^ProfilerStep#(\d{1,18})$"
# The connection id of a range or mark without a counterpart on the device.
_UNLINKED_MARK = 4_000_000_000
_DEFAULT_DOMAIN = "default"

_FRAMEWORK = WantedColumns(
    table="PYTORCH_API",
    ints=("startNs", "endNs", "globalTid", "sequenceNumber", "fwdThreadId", "type"),
    keys=("connectionId", "callchainId"),
    names=("name", "inputDtypes", "inputShapes"),
    required=("startNs", "endNs", "name"),
)
_CANN = WantedColumns(
    table="CANN_API",
    ints=("startNs", "endNs", "type", "globalTid", "connectionId"),
    names=("name",),
    required=("startNs", "endNs", "name"),
)
_MARKS = WantedColumns(
    table="MSTX_EVENTS",
    ints=("startNs", "endNs", "globalTid", "connectionId"),
    names=("message", "domainId"),
    required=("startNs", "endNs", "message"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Host data that the device tables need.

    `step` is the table of that name. `calls` has the framework's rows with `link` (an id of CONNECTION_IDS), `kind`,
    `pid`, `tid`, `start_ns`, `sequence`. `cann` has `connection`, `pid`, `tid`, `start_ns` of the CANN calls.
    """

    step: pl.DataFrame
    calls: pl.DataFrame
    cann: pl.DataFrame


def write_host(profile: Profile) -> Host:
    """Write `step`, `host_op`, `stack` and `gc`."""
    calls, cann = _framework(profile), _cann(profile)
    step = _steps(profile, calls)
    profile.write("step", step)
    host = Host(
        step=step,
        calls=calls.select("link", "kind", "pid", "tid", "start_ns", "sequence").drop_nulls("link"),
        cann=cann.select(pl.col("correlation").alias("connection"), "pid", "tid", "start_ns"),
    )
    rows = [calls.drop("link"), cann, _new_marks(profile, calls)]
    del calls, cann
    _write_calls(profile, step, pl.concat(rows, how="diagonal"))
    _write_stacks(profile)
    _write_collections(profile)
    return host


def _write_calls(profile: Profile, step: pl.DataFrame, rows: pl.DataFrame) -> None:
    profile.write("host_op", own_host(step, nest(rows)))


def _new_marks(profile: Profile, calls: pl.DataFrame) -> pl.DataFrame:
    """The ranges and marks that the framework has not recorded too."""
    marks = _marks(profile)
    same = ["name", "tid", "start_ns", "dur_ns"]
    return marks.join(calls.filter(pl.col("kind") == "mark").select(same), on=same, how="anti")


def _framework(profile: Profile) -> pl.DataFrame:
    types = {number: name for number, name in _types(profile).items() if name in ("op", "queue", "trace", "mstx")}
    name, layer = pl.col("name"), pl.col("type").replace_strict(types, default=None, return_dtype=pl.String)
    # If a writer gives no types, the queue is recognised by its names.
    queue = (layer == "queue") | (layer.is_null() & name.str.contains(r"^(Enqueue|Dequeue)(@|$)"))
    kind = (
        pl.when(queue & name.str.starts_with("Enqueue"))
        .then(pl.lit("enqueue"))
        .when(queue)
        .then(pl.lit("dequeue"))
        .when(layer == "trace")
        .then(pl.lit("python"))
        .when(layer == "mstx")
        .then(pl.lit("mark"))
        .when(name.str.contains(_STEP_MARK))
        .then(pl.lit("step"))
        .otherwise(pl.lit("op"))
    )
    rows = profile.spans(profile.read(_FRAMEWORK), _FRAMEWORK.table)
    sequence, forward = pl.col("sequenceNumber"), pl.col("fwdThreadId")
    return rows.select(
        kind.alias("kind"),
        "name",
        *thread(),
        "start_ns",
        "dur_ns",
        shapes("inputShapes").alias("shapes"),
        shapes("inputDtypes").alias("dtypes"),
        pl.when(sequence >= 0).then(sequence).alias("sequence"),
        pl.when(forward > 0).then(forward).alias("forward_tid"),
        pl.col("callchainId").alias("stack_id"),
        pl.lit(None, dtype=pl.Int64).alias("correlation"),
        pl.col("connectionId").alias("link"),
    )


def _cann(profile: Profile) -> pl.DataFrame:
    kinds = {number: _CANN_KINDS[name] for number, name in _types(profile).items() if name in _CANN_KINDS}
    rows = profile.spans(profile.read(_CANN), _CANN.table)
    kind = pl.col("type").replace_strict(kinds, default="acl", return_dtype=pl.String)
    return rows.select(
        kind.alias("kind"), "name", *thread(), "start_ns", "dur_ns", number_or_null("connectionId").alias("correlation")
    )


def _types(profile: Profile) -> dict[int, str]:
    """The number of every layer: a file of CANN alone may not name the framework's layers."""
    return _API_TYPES | profile.enum("ENUM_API_TYPE", {})


def _marks(profile: Profile) -> pl.DataFrame:
    rows = profile.spans(profile.read(_MARKS), _MARKS.table)
    link, domain = pl.col("connectionId"), pl.col("domainId")
    return rows.select(
        pl.lit("mark").alias("kind"),
        pl.col("message").alias("name"),
        *thread(),
        "start_ns",
        "dur_ns",
        pl.when(link != _UNLINKED_MARK).then(link).alias("correlation"),
        pl.when(domain != _DEFAULT_DOMAIN).then(domain).alias("domain"),
    )


def _steps(profile: Profile, calls: pl.DataFrame) -> pl.DataFrame:
    wanted = WantedColumns(table="STEP_TIME", ints=("id", "startNs", "endNs"), required=("id", "startNs", "endNs"))
    rows = profile.spans(profile.read(wanted), wanted.table)
    if rows.height:
        name = pl.format("ProfilerStep#{}", "id").alias("name")
        return rows.select(pl.col("id").alias("step"), "start_ns", "dur_ns", name).sort("start_ns")
    number = pl.col("name").str.extract(_STEP_MARK).cast(pl.Int64, strict=False)
    marked = calls.filter(pl.col("kind") == "step")
    return marked.select(number.alias("step"), "start_ns", "dur_ns", "name").drop_nulls("step").sort("start_ns")


def _write_stacks(profile: Profile) -> None:
    wanted = WantedColumns(
        table="PYTORCH_CALLCHAINS",
        ints=("stackDepth",),
        keys=("id",),
        names=("stack",),
        required=("id", "stackDepth", "stack"),
    )
    rows = profile.read(wanted).sort("id", "stackDepth")
    stacks = rows.group_by("id", maintain_order=True).agg(pl.col("stack").str.join("\n"))
    profile.write("stack", stacks.select(pl.col("id").alias("stack_id"), pl.col("stack").alias("frames")))


def _write_collections(profile: Profile) -> None:
    wanted = WantedColumns(table="GC_RECORD", ints=("startNs", "endNs", "globalTid"), required=("startNs", "endNs"))
    rows = profile.spans(profile.read(wanted), wanted.table)
    profile.write("gc", rows.select(thread()[1], "start_ns", "dur_ns").sort("start_ns"))
