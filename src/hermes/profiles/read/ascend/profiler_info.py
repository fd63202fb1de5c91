"""Reads the small JSON files beside an Ascend profile, and the databases' copy of them: settings, layout, groups.

Traps: `rank_id` is a number or text. Only the groups of this rank are listed. An unset environment variable is an empty
text. `distributed_args` has the sizes of the parallel dimensions; the place of a rank in a dimension is its place in
the group of that name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from hermes.knowledge.ascend_codes import group_hash
from hermes.profiles.read import messages
from hermes.profiles.read.ascend.capture_folders import Capture, Json, load_json, rank_number
from hermes.profiles.read.hermes_capture import before_rows, samples, thread_runs
from hermes.profiles.read.table_sink import Sink

# Names that frameworks give the groups of each dimension, and the size's name in `distributed_args`.
_DIMENSIONS = {
    "tp": (("tp", "tensor_model_parallel_group"), "tensor_model_parallel_size"),
    "pp": (("pp", "pipeline_model_parallel_group"), "pipeline_model_parallel_size"),
    "dp": (("dp", "data_parallel_group"), "data_parallel_size"),
    "cp": (("cp", "context_parallel_group"), "context_parallel_size"),
    "ep": (("ep", "exp", "expert_model_parallel_group"), "expert_model_parallel_size"),
}

Member = tuple[str, str | None, str | None, int, int | None]
"""A row of `group`: key, name, communicator, place, global rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Facts about the job before any event is read; `places` are the parallel coordinates of the rank."""

    framework: str | None
    level: str | None
    world_size: int | None
    places: dict[str, int | None]
    device_id: int | None
    members: tuple[Member, ...]


def read_info(capture: Capture, sink: Sink) -> Job:
    """Read `profiler_info` and `profiler_metadata`, which msprof never writes, and write the table `setting`."""
    if capture.info is None and not capture.of_msprof:
        sink.note(
            "degraded",
            messages.file_missing(name="profiler_info.json"),
            where=str(capture.root),
            lost=messages.LOST_SETTINGS_RANK,
            hint=messages.DO_KEEP_FOLDER,
        )
    info = json_beside(capture.info, sink) if capture.info else {}
    metadata = json_beside(capture.metadata, sink) if capture.metadata else {}
    sink.frame("setting", settings(info, metadata))
    sink.frame("sample", samples(metadata.get("hermes_lines"), 0))
    sink.frame("thread_run", thread_runs(metadata.get("hermes_lines")))
    return job_of(info, metadata)


def json_beside(path: Path, sink: Sink) -> Json:
    """The object in a small file; empty, with a degraded note, if the file holds none."""
    try:
        return load_json(path)
    except (OSError, ValueError) as broken:
        sink.note(
            "degraded",
            messages.no_json(why=str(broken)[:120]),
            where=str(path),
            lost=messages.LOST_SETTINGS if path.name.startswith("profiler_info") else messages.LOST_LAYOUT,
        )
        return {}


def job_of(info: Json, metadata: Json) -> Job:
    """The facts about the job from the content of the two files."""
    job = _object(metadata.get("distributed_args"))
    groups = _object(metadata.get("parallel_group_info"))
    members = tuple(_members(groups))
    config = _object(_object(info.get("config")).get("experimental_config"))
    level = config.get("_profiler_level") or _object(info.get("profiler_parameters")).get("profiler_level")
    default_group = sum(1 for _, name, _, _, _ in members if name == "default_group")
    return Job(
        framework=_framework(info),
        level=level.removeprefix("ProfilerLevel.") if isinstance(level, str) else None,
        world_size=_positive(job.get("world_size")) or default_group or None,
        places=_places(groups, job),
        device_id=rank_number(_object(info.get("ms_profiler_info")).get("device_id")),
        members=members,
    )


def _framework(info: Json) -> str | None:
    """The framework whose profiler wrote a `profiler_info`, by the keys that only one of them has."""
    if "ms_profiler_info" in info:
        return "mindspore"
    return "pytorch" if "torch_npu_version" in info or "common_config" in _object(info.get("config")) else None


def settings(info: Json, metadata: Json) -> pl.DataFrame:
    """The rows of the table `setting`."""
    schema = {"source": pl.String(), "name": pl.String(), "value": pl.String()}
    return pl.DataFrame(list(_settings(info, metadata)), schema=schema, orient="row")


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
        elif name == "hermes":
            yield from before_rows(_object(value))
        elif name not in ("parallel_group_info", "hermes_lines"):
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
    """A nested object as dotted names with values."""
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
