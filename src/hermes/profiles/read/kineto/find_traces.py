"""Finds Kineto traces among files, and reads rank, host and capture from their names and heads."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from hermes.base.units import whole_number
from hermes.profiles.read.chrome import head_of, sniff
from hermes.profiles.read.reader_interface import CaptureSource, legible, rank_of_name, without_rank
from hermes.profiles.read.unsupported_profiles import of_head

_HEADS = (1 << 16, 1 << 20, 8 << 20)
_SUFFIXES = (".json", ".json.gz")

# Chrome-like JSON that belongs to other readers, or that is no trace.
_FOREIGN_NAME = re.compile(
    r"^(trace_view|msprof(_\d+)*|communication(_matrix)?|step_trace|profiler_(info|metadata)(_\d+)?|report"
    r"|ascend_timeline_display(_\d+)?|package|index|config)\.json(\.gz)?$|^msprof_",
    re.I,
)
_FOREIGN_FOLDER = re.compile(r"^(ASCEND_PROFILER_OUTPUT|PROF_\d+.*|mindstudio_profiler_output|.*_ascend_(pt|ms))$")
_ASCEND_LANES = (b'"Ascend Hardware"', b'"async_npu"', b'"HostToDevice"', b'"CANN"')

_OWN_NAME = re.compile(r"\.pt\.trace\.json(\.gz)?$", re.I)
_KINETO_NAME = re.compile(r"^(?P<worker>.+?)\.(?P<time>\d{10,20})\.pt\.trace\.json(\.gz)?$", re.I)
# A host name has no underscore: `worker0_step_12` is no host with a process.
_WORKER = re.compile(r"^(?P<host>[^_]+)_(?P<pid>\d+)$")
_RANK_IN_HEAD = re.compile(r'"distributedInfo"\s*:\s*\{[^{}]*?"rank"\s*:\s*(\d{1,7})\b')
_LARGEST_RANK = 10_000_000


def claimed(reader: str, files: Sequence[Path]) -> list[CaptureSource]:
    """A source for each Kineto trace among the files, in their order."""
    given = set(files)
    found: list[CaptureSource] = []
    for path in files:
        # `gzip -k` leaves both files: one of them is enough.
        if path.name.lower().endswith(".gz") and path.with_suffix("") in given:
            continue
        source = _source(reader, path)
        if source is not None:
            found.append(source)
    return found


def host_of(path: Path) -> str | None:
    """The host in a name such as `host_123.1699999999999999999.pt.trace.json`, or None."""
    name = _KINETO_NAME.match(path.name)
    worker = _WORKER.match(name["worker"]) if name else None
    return legible(worker["host"]) if worker else None


def _process_of(path: Path) -> str:
    """Host and process from the name that PyTorch gives a trace, or an empty text."""
    name = _KINETO_NAME.match(path.name)
    return legible(name["worker"]) if name and _WORKER.match(name["worker"]) else ""


def capture_of(path: Path) -> str:
    """What tells this capture from others of its rank: the time in the name, the name without rank, or the folder."""
    name = _KINETO_NAME.match(path.name)
    if name:
        return name["time"]
    stem = re.sub(r"(\.pt)?(\.trace)?\.json(\.gz)?$", "", path.name, flags=re.I)
    return legible(without_rank(stem) or path.parent.name or "capture")


def _source(reader: str, path: Path) -> CaptureSource | None:
    if not path.name.lower().endswith(_SUFFIXES) or _FOREIGN_NAME.match(path.name):
        return None
    if any(_FOREIGN_FOLDER.match(part) for part in path.parts[:-1]):
        return None
    head = _head(path)
    # A damaged file with the profiler's own name is claimed all the same, so that it is reported and not skipped.
    own = _OWN_NAME.search(path.name)
    if not own and (not _is_kineto(head) or of_head(head) is not None):
        return None
    rank, world = _job_of_head(head)
    return CaptureSource(
        reader=reader,
        format="kineto",
        root=path.parent,
        files=(path,),
        rank=rank_of_name(path) if rank is None else rank,
        capture=capture_of(path),
        process=_process_of(path),
        world=world,
    )


def _head(path: Path) -> bytes:
    """The head of a file up to its events: an object may hold megabytes before them."""
    head = b""
    for size in _HEADS:
        head = head_of(path, size)
        opening = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
        if opening != b"{" or b'"traceEvents"' in head or len(head) < size:
            break
    return head


def _is_kineto(head: bytes) -> bool:
    if not sniff(head) or _ASCEND_LANES[0] in head:
        return False
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return b'"traceEvents"' in head or b'"deviceProperties"' in head
    keys = all(re.search(rb'"' + key + rb'"\s*:', head) for key in (b"ph", b"name", b"pid"))
    return keys and not any(lane in head for lane in _ASCEND_LANES)


def _job_of_head(head: bytes) -> tuple[int | None, int | None]:
    """The rank and the number of ranks, from what the head of the file says about the job."""
    text = head.decode("utf-8", "replace")
    before = text.partition('"traceEvents"')[0]
    key = re.search(r'"distributedInfo"\s*:\s*', before)
    if key is None:
        return None, None
    try:
        info, _ = json.JSONDecoder(strict=False).raw_decode(before, key.end())
    except (ValueError, RecursionError):
        rank = _RANK_IN_HEAD.search(before)
        return (whole_number(rank.group(1)) if rank else None), None
    if not isinstance(info, dict):
        return None, None
    size = _number(info.get("world_size"))
    return _number(info.get("rank")), size or None


def _number(value: object) -> int | None:
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST_RANK
    return value if good else None  # type: ignore[return-value]
