"""Reads what a database says about itself: rank, device, chip, host, and the job's settings and groups."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from hermes.profiles.read.ascend.capture_folders import Json, rank_number
from hermes.profiles.read.ascend.db.capture_databases import Profile, WantedColumns
from hermes.profiles.read.ascend.db.sqlite_database import Database
from hermes.profiles.read.ascend.profiler_info import Member, job_of, json_beside, settings
from hermes.profiles.read.hermes_capture import samples, thread_runs
from hermes.profiles.read.reader_interface import legible

_STAMP = re.compile(r"(?<!\d)(\d{17})(?!\d)")
_ROOT_SUFFIXES = ("_ascend_pt", "_ascend_ms")
_PROF = re.compile(r"^PROF_\d+_\d+_[0-9A-Za-z]+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseInfo:
    """Facts about a capture for the tables of communication:

    `members` are rows of `group`, `communicators` names by hash.
    """

    rank: int
    world_size: int | None
    members: tuple[Member, ...]
    communicators: dict[str, str]


def root_of(path: Path) -> Path:
    """The folder of the capture that a file belongs to."""
    for folder in path.parents:
        if folder.name.endswith(_ROOT_SUFFIXES):
            return folder
    for folder in path.parents:
        if _PROF.match(folder.name):
            return folder
    return path.parent.parent if path.parent.name == "ASCEND_PROFILER_OUTPUT" else path.parent


def capture_of(root: Path) -> str:
    """The last moment (17 digits) in the name of a capture's folder; else the name."""
    stamps = _STAMP.findall(root.name)
    return stamps[-1] if stamps else legible(root.name)


def mapped_rank(database: Database) -> int | None:
    """The rank in RANK_DEVICE_MAP, if the table names only one."""
    ranks = database.fetch("RANK_DEVICE_MAP", {"rankId": "int"})["rankId"].drop_nulls().unique().to_list()
    return rank_number(ranks[0]) if len(ranks) == 1 else None


def write_about(profile: Profile, rank: int, sidecars: Sequence[Path], communicators: dict[str, str]) -> DatabaseInfo:
    """Write `rank` and `setting`; return the facts that the groups need."""
    info: Json = {}
    stored = profile.read(WantedColumns(table="META_DATA", texts=("name", "value"))).drop_nulls("name")
    metadata: Json = {name: _parsed(value) for name, value in stored.iter_rows()}
    for path in sidecars:
        (info if path.name.startswith("profiler_info") else metadata).update(json_beside(path, profile.sink))
    job = job_of(info, metadata)
    profile.write("setting", settings(info, metadata))
    profile.write("sample", samples(metadata.get("hermes_lines"), 0))
    profile.write("thread_run", thread_runs(metadata.get("hermes_lines")))
    root = root_of(profile.databases[0].path)
    row = {
        "capture": capture_of(root),
        "format": "ascend-db",
        "framework": _framework(profile, root) or job.framework,
        "vendor": "ascend",
        "chip": _chip(profile, rank),
        "device_id": _device(profile, rank),
        "host": _host(profile),
        "level": job.level,
        "world_size": job.world_size,
        **job.places,
        "epoch_ns": 0,
    }
    profile.write("rank", pl.DataFrame([row], infer_schema_length=None))
    return DatabaseInfo(rank=rank, world_size=job.world_size, members=job.members, communicators=communicators)


def _parsed(value: str | None) -> object:
    try:
        return json.loads(value or "null")
    except (ValueError, RecursionError):
        return value


def _framework(profile: Profile, root: Path) -> str | None:
    names = " ".join(database.path.name for database in profile.databases)
    if root.name.endswith("_ascend_ms") or "mindspore" in names:
        return "mindspore"
    return "pytorch" if root.name.endswith("_ascend_pt") or "PYTORCH_API" in profile.tables else None


def _device(profile: Profile, rank: int) -> int | None:
    mapped = profile.read(WantedColumns(table="RANK_DEVICE_MAP", ints=("rankId", "deviceId"))).drop_nulls()
    devices = mapped.filter(pl.col("rankId") == rank)["deviceId"].unique().to_list()
    if not devices:
        devices = (
            profile.read(WantedColumns(table="TASK", ints=("deviceId",)))["deviceId"].drop_nulls().unique().to_list()
        )
    return devices[0] if len(devices) == 1 else None


def _chip(profile: Profile, rank: int) -> str | None:
    chips = profile.read(WantedColumns(table="NPU_INFO", ints=("id",), texts=("name",))).drop_nulls("name")
    device = _device(profile, rank)
    own = chips.filter(pl.col("id") == device)["name"].to_list() if device is not None else []
    names = own or chips["name"].unique().to_list()
    return names[0] if len(names) == 1 else None


def _host(profile: Profile) -> str | None:
    """The host as name and id: the name alone may be the same on many machines, whose clocks differ."""
    rows = profile.read(WantedColumns(table="HOST_INFO", texts=("hostUid", "hostName"))).unique().rows()
    if len(rows) != 1:
        return None
    uid, name = rows[0]
    return f"{name} ({uid})" if name and uid else name or uid
