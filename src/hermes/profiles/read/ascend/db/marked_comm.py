"""Finds collectives of a capture that records none (Level_none): torch_npu's marks around them name them in JSON.

Traps: the quotes inside the text may be escaped; all values may be text; the device's half of a mark is a task with its
connection id. As in the profiler's own tool, operations of a group are numbered by kind, since they have no names.
"""

from __future__ import annotations

import json

import polars as pl

from hermes.base.units import whole_number
from hermes.profiles.read.ascend.capture_folders import Json
from hermes.profiles.read.ascend.db.capture_databases import Profile, WantedColumns

_MARK = WantedColumns(
    table="MSTX_EVENTS", ints=("startNs", "connectionId"), names=("message",), required=("startNs", "message")
)
_TASK = WantedColumns(
    table="TASK", ints=("startNs", "endNs", "connectionId", "streamId"), required=("startNs", "endNs", "connectionId")
)
_KEYS = frozenset({"streamId", "count", "dataType", "groupName", "opName"})
_LONGEST = 4096
_SCHEMA = {
    "opId": pl.Int64(), "opName": pl.String(), "opType": pl.String(), "groupName": pl.String(), "algType": pl.String(),
    "dtype": pl.String(), "count": pl.Int64(), "startNs": pl.Int64(), "endNs": pl.Int64(), "connectionId": pl.Int64(),
}  # fmt: skip


def marked_collectives(profile: Profile) -> pl.DataFrame:
    """The collectives that marks name, each with the time of its task on the device."""
    marks = profile.read(_MARK) if {"MSTX_EVENTS", "TASK"} <= profile.tables else pl.DataFrame()
    if not marks.height:
        return pl.DataFrame(schema=_SCHEMA)
    told = {text: one for text in marks["message"].unique().to_list() if (one := _told(text))}
    named = pl.DataFrame(
        [(text, *_cells(one)) for text, one in told.items()],
        schema={"message": pl.String(), "opType": pl.String(), "groupName": pl.String(), "dtype": pl.String(),
                "count": pl.Int64()},
        orient="row",
    )  # fmt: skip
    marks = marks.join(named, on="message", how="inner", maintain_order="left")
    tasks = profile.read(_TASK).select(pl.exclude("startNs"), pl.col("startNs").alias("began"))
    rows = marks.join(tasks, on="connectionId", how="inner", maintain_order="left").sort("began")
    order = pl.int_range(pl.len()).over("groupName", "opType")
    return rows.select(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("opId"),
        pl.format("{}__{}", "opType", order).alias("opName"),
        "opType", "groupName", pl.lit(None, pl.String).alias("algType"), "dtype", "count",
        pl.col("began").alias("startNs"), "endNs", "connectionId",
    )  # fmt: skip


def _told(text: str) -> Json | None:
    """What a mark says about a collective; None for any other mark."""
    if len(text) > _LONGEST or '"groupName' not in text.replace("\\", ""):
        return None
    try:
        value = json.loads(text.replace('\\"', '"'))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and value.keys() >= _KEYS else None


def _cells(told: Json) -> tuple[str, str, str, int | None]:
    count = str(told["count"])
    return (
        f"hcom_{str(told['opName']).removeprefix('Hccl')}_",
        str(told["groupName"]),
        str(told["dataType"]).upper(),
        whole_number(count),
    )
