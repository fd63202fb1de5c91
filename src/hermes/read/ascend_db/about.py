"""What a capture says of itself: rank, device, host, settings, parallel groups.

Traps met here: `rank_id` is a number or text; the groups listed are only those that this rank is in; an
environment variable that is not set is an empty text; `distributed_args` has the sizes of the parallel
dimensions, the place of a rank in them is its place in the group of that name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from hermes.knowledge.ascend import group_hash
from hermes.read.ascend_db.profile import Profile, Wanted
from hermes.read.ascend_db.store import Database
from hermes.read.sink import Sink
from hermes.read.source import legible

_JSON_LIMIT = 64 << 20
_STAMP = re.compile(r"(?<!\d)(\d{17})(?!\d)")
_ROOT_SUFFIXES = ("_ascend_pt", "_ascend_ms")
_PROF = re.compile(r"^PROF_\d+_\d+_[0-9A-Za-z]+$")
_MOST_RANKS = 1 << 24
# Names that frameworks give the groups of each dimension, and the size's name in `distributed_args`.
_DIMENSIONS = {
    "tp": (("tp", "tensor_model_parallel_group"), "tensor_model_parallel_size"),
    "pp": (("pp", "pipeline_model_parallel_group"), "pipeline_model_parallel_size"),
    "dp": (("dp", "data_parallel_group"), "data_parallel_size"),
    "cp": (("cp", "context_parallel_group"), "context_parallel_size"),
    "ep": (("ep", "exp", "expert_model_parallel_group"), "expert_model_parallel_size"),
}

Member = tuple[str, str | None, str | None, int, int | None]
Json = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What the tables of communication need: `members` are rows of `group`, `communicators` names by hash."""

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
    """The moment in the name of a capture's folder, 17 digits, the last one there is; else the name."""
    stamps = _STAMP.findall(root.name)
    return stamps[-1] if stamps else legible(root.name)


def rank_number(value: object) -> int | None:
    """A rank written as number or text; None for anything else, also for -1 of a job of one process."""
    text = str(value).strip() if isinstance(value, int | str) and not isinstance(value, bool) else ""
    # `isdecimal` also accepts digits of other scripts; those are no rank of a profiler.
    if not text.isascii() or not text.isdecimal() or len(text) > 8:
        return None
    number = int(text)
    return number if number < _MOST_RANKS else None


def load_json(path: Path) -> Json:
    """A JSON object of a small file; raises `ValueError` or `OSError` when it is none."""
    with path.open("rb") as file:
        text = file.read(_JSON_LIMIT + 1)
    if len(text) > _JSON_LIMIT:
        raise ValueError("far larger than a profiler writes it")
    try:
        value = json.loads(text.decode("utf-8-sig", "replace"))
    except RecursionError as deep:
        raise ValueError("nested too deeply") from deep
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def rank_in_info(info: Json) -> int | None:
    """The rank that a `profiler_info` file names."""
    inner = info.get("ms_profiler_info")
    found = rank_number(info.get("rank_id"))
    return found if found is not None or not isinstance(inner, dict) else rank_number(inner.get("rank_id"))


def mapped_rank(database: Database) -> int | None:
    """The rank that RANK_DEVICE_MAP names, when it names one only."""
    ranks = database.fetch("RANK_DEVICE_MAP", {"rankId": "int"})["rankId"].drop_nulls().unique().to_list()
    return rank_number(ranks[0]) if len(ranks) == 1 else None


def write_about(profile: Profile, rank: int, sidecars: Sequence[Path], communicators: dict[str, str]) -> About:
    """Write `rank` and `setting`; return what the groups need."""
    info, metadata = _sidecars(profile, sidecars)
    stored = profile.read(Wanted(table="META_DATA", texts=("name", "value"))).drop_nulls("name")
    metadata = {name: _parsed(value) for name, value in stored.iter_rows()} | metadata
    job = _object(metadata.get("distributed_args"))
    members = tuple(_members(_object(metadata.get("parallel_group_info"))))
    places = _places(_object(metadata.get("parallel_group_info")), job)
    world = _positive(job.get("world_size")) or _default_size(members)
    profile.write("setting", pl.DataFrame(list(_settings(info, metadata)), schema=_SETTING_SCHEMA, orient="row"))
    root = root_of(profile.databases[0].path)
    row = {
        "capture": capture_of(root),
        "format": "ascend-db",
        "framework": _framework(profile, root),
        "vendor": "ascend",
        "chip": _chip(profile, rank),
        "device_id": _device(profile, rank),
        "host": _host(profile),
        "level": _level(info),
        "world_size": world,
        **places,
        "epoch_ns": 0,
    }
    profile.write("rank", pl.DataFrame([row], infer_schema_length=None))
    return About(rank=rank, world_size=world, members=members, communicators=communicators)


def _sidecars(profile: Profile, sidecars: Sequence[Path]) -> tuple[Json, Json]:
    info: Json = {}
    metadata: Json = {}
    for path in sidecars:
        try:
            (info if path.name.startswith("profiler_info") else metadata).update(load_json(path))
        except (OSError, ValueError) as broken:
            _unread(profile.sink, path, broken)
    return info, metadata


def _unread(sink: Sink, path: Path, broken: Exception) -> None:
    sink.note(
        "degraded",
        f"cannot be read as JSON ({str(broken)[:120]})",
        where=str(path),
        lost="settings of the rank",
    )


def _parsed(value: str | None) -> object:
    try:
        return json.loads(value or "null")
    except (ValueError, RecursionError):
        return value


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _positive(value: object) -> int | None:
    number = rank_number(value)
    return number or None


def _members(groups: Json) -> Iterator[Member]:
    for communicator, value in groups.items():
        group = _object(value)
        ranks = group.get("global_ranks")
        name = group.get("group_name")
        if not isinstance(ranks, list):
            continue
        for member, rank in enumerate(ranks):
            number = rank_number(rank)
            yield group_hash(communicator), _text(name), _clean(communicator), member, number


def _default_size(members: tuple[Member, ...]) -> int | None:
    return sum(1 for _, name, _, _, _ in members if name == "default_group") or None


def _places(groups: Json, job: Json) -> dict[str, int | None]:
    """The rank's place in each parallel dimension; a dimension of size 1 has place 0."""
    found: dict[str, object] = {}
    for value in groups.values():
        group = _object(value)
        found[str(group.get("group_name"))] = group.get("group_rank")
    places: dict[str, int | None] = {}
    for dimension, (names, size) in _DIMENSIONS.items():
        place = next((rank_number(found[name]) for name in names if name in found), None)
        places[dimension] = 0 if place is None and _positive(job.get(size)) == 1 else place
    return places


def _settings(info: Json, metadata: Json) -> Iterator[tuple[str, str, str | None]]:
    for name, value in metadata.items():
        if name == "ENV_VARIABLES":
            for variable, setting in _object(value).items():
                yield "environment", _clean(variable), _text(setting)
        elif name != "parallel_group_info":
            source = "version" if name.startswith("SCHEMA_VERSION") else "job"
            yield from ((source, key, text) for key, text in _flat(name, value))
    config = _object(info.get("config"))
    for part in (
        config.get("common_config"),
        config.get("experimental_config"),
        info.get("profiler_parameters"),
    ):
        for key, setting in _object(part).items():
            yield from (("profiler", name, text) for name, text in _flat(key, setting))
    for key, setting in info.items():
        if key.endswith("_version"):
            yield "version", _clean(key), _text(setting)


def _flat(name: str, value: object) -> Iterator[tuple[str, str | None]]:
    """A nested object as dotted names."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield _clean(f"{name}.{key}"), _text(inner)
    else:
        yield _clean(name), _text(value)


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return _clean(value) if value else None
    return json.dumps(value, ensure_ascii=True)


def _clean(text: str) -> str:
    """Text that can be written as UTF-8: JSON may hold halves of a surrogate pair."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _framework(profile: Profile, root: Path) -> str | None:
    names = " ".join(database.path.name for database in profile.databases)
    if root.name.endswith("_ascend_ms") or "mindspore" in names:
        return "mindspore"
    return "pytorch" if root.name.endswith("_ascend_pt") or "PYTORCH_API" in profile.tables else None


def _level(info: Json) -> str | None:
    config = _object(_object(info.get("config")).get("experimental_config"))
    level = config.get("_profiler_level") or _object(info.get("profiler_parameters")).get("profiler_level")
    return level if isinstance(level, str) else None


def _device(profile: Profile, rank: int) -> int | None:
    mapped = profile.read(Wanted(table="RANK_DEVICE_MAP", ints=("rankId", "deviceId"))).drop_nulls()
    devices = mapped.filter(pl.col("rankId") == rank)["deviceId"].unique().to_list()
    if not devices:
        devices = profile.read(Wanted(table="TASK", ints=("deviceId",)))["deviceId"].drop_nulls().unique().to_list()
    return devices[0] if len(devices) == 1 else None


def _chip(profile: Profile, rank: int) -> str | None:
    chips = profile.read(Wanted(table="NPU_INFO", ints=("id",), texts=("name",))).drop_nulls("name")
    device = _device(profile, rank)
    own = chips.filter(pl.col("id") == device)["name"].to_list() if device is not None else []
    names = own or chips["name"].unique().to_list()
    return names[0] if len(names) == 1 else None


def _host(profile: Profile) -> str | None:
    """Name and id: the name alone may be the same on many machines, whose clocks differ."""
    rows = profile.read(Wanted(table="HOST_INFO", texts=("hostUid", "hostName"))).unique().rows()
    if len(rows) != 1:
        return None
    uid, name = rows[0]
    return f"{name} ({uid})" if name and uid else name or uid


_SETTING_SCHEMA = {"source": pl.String(), "name": pl.String(), "value": pl.String()}
