"""Sorts files of a tree by capture and rank, for Ascend's profilers.

Traps: only the suffix `_ascend_pt` / `_ascend_ms` of a folder is reliable. Ranks come from `profiler_info`, never from
the order of folders. `rank_id` may be text. One rank may have several captures (`repeat`). A folder may be renamed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hermes.profiles.read.chrome import head_of
from hermes.profiles.read.reader_interface import legible, rank_of_name, without_rank

_TRACE = re.compile(r"^(trace_view|msprof(_slice_\d+)?_\d+)\.json$")
_KERNELS = re.compile(r"^(kernel_details|op_summary(_slice_\d+)?_\d+)\.csv$")
_CSV = re.compile(
    r"^(op_statistic|api_statistic|communication_statistic|hccl_statistic|operator_details|step_trace_time|operator_memory|"
    r"memory_record|npu_module_mem|l2_cache|data_preprocess|aicpu|nic|roce|pcie|hccs|soc_pmu|static_op_mem|dataset|"
    r"minddata_pipeline_(raw|summary))(_slice_\d+)?(_\d+){0,3}\.csv$"
)
OF_CANN = re.compile(
    r"^(step_trace|npu_mem|fusion_op|msprof_tx|hbm|ddr|dp|aicpu_mi|llc_[a-z_]+|sio|ub|dvpp|qos|ccu_[a-z]+|"
    r"ai_(core|vector_core)_utilization|inter_soc_transmission|cpu_usage|process_(cpu_usage|mem)|sys_mem|"
    r"host_(cpu|mem|disk|network)_usage|os_runtime_statistic|(ai|ctrl|ts)_cpu_(top_function|pmu_events)|"
    r"soc_transmission|netdev_stats|block_detail|dpu)(_slice_\d+)?(_\d+)?\.csv$"
)
"""Files of CANN's export that are read for their sums or samples."""
_SUMS = re.compile(
    r"^(op_statistic|api_statistic|communication_statistic|hccl_statistic|operator_details|step_trace_time)"
    r"(_slice_\d+)?(_\d+){0,3}\.csv$"
)
"""Sums whose names no other program uses: they are read without a timeline too."""
_TASKS = re.compile(r"^task_time(_slice_\d+)?(_\d+)?\.csv$")
_JSON = re.compile(r"^(communication|communication_matrix)\.json$")
_RANK_DB = re.compile(r"^ascend_(?:pytorch|mindspore)_profiler(?:_(\d+))?\.db$")
_MSPROF_DB = re.compile(r"^msprof_\d+\.db$")
_SIDE_DB = re.compile(r"^(analysis|communication_analyzer)\.db$")
_INFO = re.compile(r"^profiler_info(?:_(\d+))?\.json$")
_STAMP = re.compile(r"_(\d{14,17})_ascend_(?:pt|ms)$")
_MOST_RANKS = 1 << 24
_OF_MSPROF = re.compile(r"^[a-z0-9_]+?_\d{8,17}(_\d+)?\.(json|csv)$")
"""Files of msprof's export carry the moment of the export; those of the frameworks' profilers do not."""
_PROF = re.compile(r"^PROF_\d+_\d+_[0-9a-zA-Z]+")
_RECORD = re.compile(r"^(torch\.[a-z_]+|mindspore\.[a-z_]+|cpu_(op|framework)[a-z_]*)")
_RAW_SIDE = re.compile(r"^(host|device_\d+)$")
_SMALL = re.compile(r"^((info|sample)\.json(\.\d+)?|(start|end)_info(\.\d+)?|(host|dev)_start\.log(\.\d+)?)$")
_STAGE = re.compile(r"^(ascend_task|ge_info|ge_hash|api_event|msproftx|hccl_single_device|metric_summary)\.db$")
_ITERATION = re.compile(r"^msprof_(\d{1,4})_(\d{1,10})_(\d{1,10})\.json$")
_LANE, _HEADS = b'"Ascend Hardware"', (1 << 16, 8 << 20)
"""The process of a timeline that holds the tasks of a device, and how many bytes of the file are searched for it."""
_TIME_AS_TEXT = re.compile(rb'"ts"\s*:\s*"\d')
_OUTPUT = "ASCEND_PROFILER_OUTPUT"
SUMMARY = "ascend-cluster-summary"
"""The format of another tool's sums over all ranks of a job."""
ITERATIONS = "ascend-iterations"
"""The format of msprof's export before CANN 7.0: a timeline for each iteration of a graph."""
TIMELINES = "timeline"
"""The folder of these timelines; the other files in it repeat their content."""
_STAGES = "sqlite"
RECORDS = "FRAMEWORK"
"""The folder into which the frameworks' profilers write their own records."""


Json = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """The files of one capture of one rank.

    `records` are the framework's own raw records, `raw` what CANN wrote below `PROF_*` before any export.
    """

    root: Path
    rank: int | None
    stamp: str
    mindspore: bool
    info: Path | None
    metadata: Path | None
    traces: tuple[Path, ...]
    kernels: tuple[Path, ...]
    csvs: tuple[Path, ...]
    jsons: tuple[Path, ...]
    databases: tuple[Path, ...]
    records: tuple[Path, ...] = ()
    raw: tuple[Path, ...] = ()

    @property
    def has_text(self) -> bool:
        """Whether the capture has a text export."""
        return bool(self.traces or self.kernels or self.csvs or self.jsons)

    @property
    def framework(self) -> str | None:
        """The framework whose profiler wrote the capture; None if no name tells: the same CSV files come from all."""
        if self.mindspore:
            return "mindspore"
        of_torch = self.root.name.endswith("_ascend_pt") or any(path.name.startswith("torch.") for path in self.records)
        return "pytorch" if of_torch else None

    @property
    def of_msprof(self) -> bool:
        """Whether the command msprof wrote the capture, and no framework's profiler."""
        exported = [path for path in self.files if path not in self.databases]
        return self.framework is None and bool(exported) and all(_OF_MSPROF.match(path.name) for path in exported)

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file from which tables may be made."""
        beside = [path for path in (self.info, self.metadata) if path]
        wal = [path.with_name(path.name + "-wal") for path in self.databases]
        return (
            *beside,
            *self.traces,
            *self.kernels,
            *self.csvs,
            *self.jsons,
            *self.databases,
            *(path for path in wal if path.exists()),
        )

    @property
    def needs_records(self) -> bool:
        """Whether CANN has exported the device's part and no tool the framework's part."""
        return bool(self.records and self.traces) and not any(path.parent.name == _OUTPUT for path in self.traces)

    @property
    def raw_files(self) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
        """The files that Hermes reads of a capture without an export, and the files that only CANN's tools can read."""
        small = [path for path in self.raw if _SMALL.match(path.name) or stage_of(path)]
        return (*self.records, *small), tuple(path for path in self.raw if path not in small)


def captures(files: Iterable[Path]) -> list[Capture]:
    """The Ascend captures among these files, found by file names, sorted by root."""
    by_root: dict[Path, list[Path]] = {}
    for path in files:
        if _kind(path.name) or raw_kind(path):
            by_root.setdefault(_root(path), []).append(path)
    found = (_capture(root, sorted(own)) for root, own in sorted(by_root.items()))
    return [capture for capture in found if capture]


def renamed_timelines(files: Iterable[Path]) -> list[Capture]:
    """Timelines with names that a user gave them, each a capture of its own. This function reads the heads of files."""
    unknown = (path for path in files if not (_kind(path.name) or raw_kind(path)))
    return [_renamed(path) for path in sorted(unknown) if _is_timeline(path)]


def _is_timeline(path: Path) -> bool:
    """Whether a file with any name holds a timeline of an Ascend device, as `trace_view.json` does."""
    if not path.name.lower().endswith((".json", ".json.gz")) or any(_PROF.match(part) for part in path.parts[:-1]):
        return False
    head = head_of(path, _HEADS[0])
    # The framework's events may stand before the name of the device; only these profilers write times as texts.
    return _LANE in head or (_TIME_AS_TEXT.search(head) is not None and _LANE in head_of(path, _HEADS[1]))


def _renamed(path: Path) -> Capture:
    stem = path.name.rpartition(".")[0]
    return Capture(
        root=path.parent, rank=rank_of_name(path), stamp=legible(without_rank(stem) or path.parent.name),
        mindspore=False, info=None, metadata=None, traces=(path,), kernels=(), csvs=(), jsons=(), databases=(),
    )  # fmt: skip


def is_profiler_file(name: str) -> bool:
    """Whether Ascend's profilers write a file of this name."""
    return bool(_kind(name))


def load_json(path: Path, limit: int = 64 << 20) -> Json:
    """A JSON object from a small file, fractions as text; raises `ValueError` or `OSError` if there is none."""
    with path.open("rb") as file:
        text = file.read(limit + 1)
    if len(text) > limit:
        raise ValueError("far larger than a profiler writes it")
    try:
        # A time in the file must not become a double.
        value = json.loads(text.decode("utf-8-sig", "replace"), strict=False, parse_float=str)
    except RecursionError as deep:
        raise ValueError("nested too deeply") from deep
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def rank_number(value: object) -> int | None:
    """A rank written as number or text; None for any other value, also for -1 of a job of one process."""
    text = str(value).strip() if isinstance(value, int | str) and not isinstance(value, bool) else ""
    # `isdecimal` also accepts digits of other scripts; no profiler writes a rank with those.
    if not text.isascii() or not text.isdecimal() or len(text) > 8:
        return None
    number = int(text)
    return number if number < _MOST_RANKS else None


def rank_in_info(info: Json) -> int | None:
    """The rank that a `profiler_info` file names."""
    inner = info.get("ms_profiler_info")
    found = rank_number(info.get("rank_id"))
    return found if found is not None else rank_number(inner.get("rank_id") if isinstance(inner, dict) else None)


def raw_kind(path: Path) -> str:
    """`record` for a record of the framework, `raw` for a file that CANN wrote before an export; else empty."""
    if path.parent.name == RECORDS and _RECORD.match(path.name):
        return "record"
    parts = path.parts
    inside = next((place for place, part in enumerate(parts[:-2]) if _PROF.match(part)), None)
    return "raw" if inside is not None and _RAW_SIDE.match(parts[inside + 1]) else ""


def stage_of(path: Path) -> str:
    """The kind of a database that an export leaves inside `PROF_*`; empty for any other file."""
    match = _STAGE.match(path.name) if path.parent.name == _STAGES else None
    return match.group(1) if match else ""


def iteration_of(path: Path) -> tuple[int, int, int] | None:
    """Device, model and iteration of a timeline of one iteration, from its name; None for any other file."""
    match = _ITERATION.match(path.name) if path.parent.name == TIMELINES and raw_kind(path) == "raw" else None
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def prof_folders(files: Iterable[Path]) -> list[Path]:
    """The folders `PROF_*` that contain these files."""
    found = {folder for path in files for folder in path.parents if _PROF.match(folder.name)}
    return sorted(found)


def _of_stages(path: Path) -> bool:
    """Whether a file lies among the intermediate databases of an export, whatever its name."""
    return path.parent.name == _STAGES and raw_kind(path) == "raw"


def _kind(name: str) -> str:
    for kind, pattern in (
        ("trace", _TRACE),
        ("kernels", _KERNELS),
        ("csv", _CSV),
        ("csv", OF_CANN),
        ("tasks", _TASKS),
        ("json", _JSON),
        ("info", _INFO),
        ("db", _RANK_DB),
        ("msprof_db", _MSPROF_DB),
        ("side_db", _SIDE_DB),
    ):
        if pattern.match(name):
            return kind
    return "metadata" if name == "profiler_metadata.json" else ""


def _root(path: Path) -> Path:
    """The folder of the capture that a file belongs to."""
    for folder in path.parents:
        if folder.name.endswith(("_ascend_pt", "_ascend_ms")):
            return folder
    if path.parent.name == RECORDS:
        return path.parent.parent
    for folder in path.parents:
        if folder.name == _OUTPUT:
            return folder.parent if any(folder.parent.glob("profiler_info*.json")) else folder
        if _PROF.match(folder.name):
            beside = folder.parent
            return beside if (beside / RECORDS).is_dir() else folder
    return path.parent


def _capture(root: Path, own: list[Path]) -> Capture | None:
    records = tuple(path for path in own if raw_kind(path) == "record")
    raw = tuple(path for path in own if raw_kind(path) == "raw" and (_of_stages(path) or not _kind(path.name)))
    own = [path for path in own if _kind(path.name) and not _of_stages(path)]
    inside = [path for path in own if not any(_PROF.match(part) for part in path.relative_to(root).parts[:-1])]
    # The folder PROF_* repeats the run; if an export lies beside it, only data missing from the export is read from it.
    if any(_kind(path.name) not in ("info", "metadata") for path in inside):
        names = {path.name.partition("_20")[0] for path in inside}
        own = inside + [path for path in own if path not in set(inside) and _only_there(path, names)]
    kinds: dict[str, list[Path]] = {}
    for path in own:
        kinds.setdefault(_kind(path.name), []).append(path)
    databases = kinds.get("db") or kinds.get("msprof_db") or []
    if "trace" not in kinds and "tasks" in kinds:
        # This file has every device task with its time, but no shapes: better than none.
        kinds.setdefault("kernels", kinds["tasks"])
    exported = kinds.keys() & {"trace", "kernels", "csv", "json", "side_db"} or databases
    if not (exported and _plausible(root, kinds, databases)):
        if not (records or raw):
            return None
        kinds, databases = {name: kinds[name] for name in ("info", "metadata") if name in kinds}, []
    infos = kinds.get("info", [])
    return Capture(
        root=root,
        rank=_rank(infos, databases, kinds.get("metadata", [])),
        stamp=match.group(1) if (match := _STAMP.search(root.name)) else legible(root.name),
        mindspore=root.name.endswith("_ascend_ms")
        or any("mindspore" in path.name for path in databases)
        or any(path.name.startswith(("mindspore.", "cpu_")) for path in records),
        info=infos[0] if infos else None,
        metadata=kinds["metadata"][0] if "metadata" in kinds else None,
        traces=tuple(kinds.get("trace", [])),
        kernels=tuple(kinds.get("kernels", [])),
        csvs=tuple(kinds.get("csv", [])),
        jsons=tuple(kinds.get("json", [])),
        databases=(*databases, *kinds.get("side_db", [])),
        records=records,
        raw=raw,
    )


def _only_there(path: Path, names: set[str]) -> bool:
    """Whether a file of CANN's export has no other file beside it with the same data."""
    said = path.name.startswith(("step_trace", "npu_mem", "msprof_tx"))
    return bool(OF_CANN.match(path.name)) and not said and path.name.partition("_20")[0] not in names


def _plausible(root: Path, kinds: dict[str, list[Path]], databases: list[Path]) -> bool:
    """Whether these are more than a file or two with common names (`communication.json`, `aicpu.csv`, `nic.csv`)."""
    if (
        databases
        or "kernels" in kinds
        or "trace" in kinds
        or "info" in kinds
        or root.name.endswith(("_ascend_pt", "_ascend_ms"))
    ):
        return True
    return any(path.parent.name == _OUTPUT or _SUMS.match(path.name) for paths in kinds.values() for path in paths)


def _rank(infos: list[Path], databases: list[Path], metadata: list[Path]) -> int | None:
    """The rank from the first of these files that names one: a file's name before its content."""
    said: list[object] = [_in_name(_INFO, path) for path in infos]
    said += [rank_in_info(_quietly(path)) for path in infos]
    said += [_in_name(_RANK_DB, path) for path in databases]
    said += [_rank_of_job(_quietly(path)) for path in metadata]
    return next((number for value in said if (number := rank_number(value)) is not None), None)


def _in_name(pattern: re.Pattern[str], path: Path) -> str | None:
    match = pattern.match(path.name)
    return match.group(1) if match else None


def _rank_of_job(metadata: Json) -> object:
    job = metadata.get("distributed_args")
    return job.get("rank") if isinstance(job, dict) else None


def _quietly(path: Path) -> Json:
    """The object in a JSON file; empty for a broken file, whose damage the reader of its content reports."""
    try:
        return load_json(path)
    except (OSError, ValueError):
        return {}
