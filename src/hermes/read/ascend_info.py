"""What the small JSON files beside an Ascend profile say: settings, parallel layout, process groups."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import polars as pl

from hermes.knowledge.ascend import group_hash
from hermes.read.ascend_folder import Capture, load_json
from hermes.read.sink import Sink

_LEVELS = {"Level_none": "Level_none", "Level0": "Level0", "Level1": "Level1", "Level2": "Level2"}
_SIZES = (
    ("tp", "tensor_model_parallel_size"),
    ("cp", "context_parallel_size"),
    ("dp", "data_parallel_size"),
    ("pp", "pipeline_model_parallel_size"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is known of the job before any event is read."""

    level: str | None
    world_size: int | None
    coordinates: dict[str, int]
    device_id: int | None
    groups: dict[str, Group]
    """Known groups by hash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One process group: its names and, where recorded, its members by local rank."""

    communicator: str
    name: str | None
    members: tuple[int, ...]


def read_info(capture: Capture, rank: int, sink: Sink) -> Job:
    """Read `profiler_info` and `profiler_metadata`; writes the table `setting`."""
    info = load_json(capture.info)
    metadata = load_json(capture.metadata)
    if capture.info is None:
        sink.note(
            "degraded",
            "profiler_info.json is missing",
            where=str(capture.root),
            lost="the profiler's settings; the rank is taken from elsewhere",
            hint="keep the whole *_ascend_pt folder together when you copy it",
        )
    elif info is None:
        sink.note("degraded", "not a readable JSON object", where=str(capture.info), lost="the profiler's settings")
    if capture.metadata is not None and metadata is None:
        sink.note(
            "degraded",
            "not a readable JSON object",
            where=str(capture.metadata),
            lost="environment variables, parallel layout and process groups",
        )
    settings = _settings(info or {}, metadata or {})
    sink.frame("setting", pl.DataFrame(settings, schema=["source", "name", "value"], orient="row"))
    return _job(info or {}, metadata or {}, rank)


def job_of_metadata(metadata: dict[str, Any], rank: int) -> Job:
    """The same from the metadata alone, as the databases keep it."""
    return _job({}, metadata, rank)


def _job(info: dict[str, Any], metadata: dict[str, Any], rank: int) -> Job:
    level = None
    for _, name, value in _settings(info, {}):
        if name.endswith("profiler_level"):
            level = _LEVELS.get(str(value).removeprefix("ProfilerLevel."), value)
    job = metadata.get("distributed_args")
    job = job if isinstance(job, dict) else {}
    sizes = {axis: _int(job.get(name)) for axis, name in _SIZES}
    own = info.get("ms_profiler_info")
    return Job(
        level=level,
        world_size=_int(job.get("world_size")),
        coordinates=_coordinates(rank, {axis: size for axis, size in sizes.items() if size}),
        device_id=_int(own.get("device_id")) if isinstance(own, dict) else None,
        groups=_groups(metadata.get("parallel_group_info")),
    )


def _coordinates(rank: int, sizes: dict[str, int]) -> dict[str, int]:
    """Megatron's default order, tensor parallel fastest: rank = tp + TP*(cp + CP*(dp + DP*pp))."""
    if len(sizes) < len(_SIZES):
        return {}
    place: dict[str, int] = {}
    for axis, _ in _SIZES:
        rank, place[axis] = divmod(rank, sizes[axis])
    return place if rank == 0 else {}


def _groups(listed: object) -> dict[str, Group]:
    found: dict[str, Group] = {}
    for communicator, group in listed.items() if isinstance(listed, dict) else ():
        if not isinstance(group, dict):
            continue
        members = group.get("global_ranks")
        numbers = [_int(member) for member in members] if isinstance(members, list) else []
        name = group.get("group_name")
        found[group_hash(communicator)] = Group(
            communicator=communicator,
            name=name if isinstance(name, str) else None,
            members=tuple(number for number in numbers if number is not None) if None not in numbers else (),
        )
    return found


def _settings(info: dict[str, Any], metadata: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    rows: list[tuple[str, str, str | None]] = []
    environment = metadata.get("ENV_VARIABLES")
    if isinstance(environment, str):
        environment = _json(environment)
    for name, value in environment.items() if isinstance(environment, dict) else ():
        # An empty text is how the profiler writes an unset variable.
        rows.append(("environment", str(name), str(value) or None))
    for name, value in metadata.items():
        if name not in ("ENV_VARIABLES", "parallel_group_info"):
            rows.extend(_flat("job", name, value))
    for name, value in info.items():
        rows.extend(_flat("version" if name.endswith("_version") else "profiler", name, value))
    return rows


def _flat(source: str, name: str, value: object) -> list[tuple[str, str, str | None]]:
    if isinstance(value, dict):
        return [row for key, inner in value.items() for row in _flat(source, f"{name}.{key}", inner)]
    text = None if value is None else value if isinstance(value, str) else json.dumps(value)
    return [(source, name, text)]


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _int(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if abs(value) < 2**31 else None
    return int(value) if isinstance(value, str) and value.isdigit() and len(value) < 10 else None
