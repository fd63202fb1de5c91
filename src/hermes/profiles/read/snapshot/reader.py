"""Reads snapshots of PyTorch's caching allocator (`torch.cuda.memory._dump_snapshot`).

`torch.npu.memory._dump_snapshot` writes such files too. People pack them with gzip.

`segments` is the device memory of the allocator at the moment of the snapshot, with its blocks. `device_traces` are the
earlier events, one list per device, each event with Python frames: `alloc`, `free_requested`, `free_completed`,
`segment_alloc` and the like, and `oom` for a failed request. The history may begin late: the memory held before is the
difference from the end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from hermes.base.errors import TraceFormatError
from hermes.base.failure_message import reason
from hermes.base.units import whole_number
from hermes.knowledge.user_code import is_framework, is_own
from hermes.model.tables.failed_requests import ASKED, LEFT, OUT_OF_MEMORY
from hermes.profiles.read import messages
from hermes.profiles.read import refusal_messages as refusals
from hermes.profiles.read.chrome import head_of
from hermes.profiles.read.reader_interface import CaptureSource, legible
from hermes.profiles.read.snapshot.packed import DAMAGE, opened
from hermes.profiles.read.snapshot.plain_pickle import plain
from hermes.profiles.read.table_sink import Sink

COMPONENT = "caching allocator"
_SUFFIXES = (".pickle", ".pkl")
_PACKED = ".gz"
_SIGNS = (b"device_traces", b"segments", b"allocator_settings")
_RANK = re.compile(r"(?:^|[^A-Za-z])rank[-_]?(\d{1,7})", re.I)
_TAKEN = ("segment_alloc", "segment_map")
_GIVEN_BACK = ("segment_free", "segment_unmap")
_PYTHON = re.compile(r"\.(py|ipynb)$|^<ipython")
_CALLED = (re.compile(r"\bat::_ops::(\w+)::"), re.compile(r"\bautograd::generated::(\w+)::apply"))
_MOST_FRAMES = 3
_STEP = re.compile(r"ProfilerStep#(\d{1,18})")
_ASCEND = "NPU"

Entry = Mapping[str, Any]


class SnapshotReader:
    """Finds memory snapshots among files by their first bytes, and reads a snapshot as the memory of one rank."""

    name: ClassVar[str] = "torch memory snapshot"
    version: ClassVar[int] = 3

    def claim(self, files: Sequence[Path]) -> list[CaptureSource]:
        """A source for each file that begins as a pickled snapshot does."""
        names = {*files}
        return [
            CaptureSource(
                reader=self.name, format="torch-memory-snapshot", root=path, files=(path,),
                rank=whole_number(match.group(1)) if (match := _RANK.search(legible(path.name))) else None,
                capture=legible(_plain_name(path).rpartition(".")[0]),
            )
            for path in files
            # `gzip -k` leaves both files: the plain file is enough.
            if _plain_name(path).lower().endswith(_SUFFIXES) and _begins(path)
            and (_plain_name(path) == path.name or path.with_name(_plain_name(path)) not in names)
        ]  # fmt: skip

    def prepare(self, source: CaptureSource, cache: Path, tell: Callable[[str], None]) -> CaptureSource:
        """The source itself: a snapshot needs no preparation."""
        return source

    def read(self, source: CaptureSource, rank: int, sink: Sink) -> None:
        """Write `memory`, `allocation`, `step`, `setting` and the requests that failed."""
        path = source.files[0]
        try:
            with opened(path) as file:
                content = plain(file)
        except DAMAGE as broken:
            said = refusals.no_gzip(why=reason(broken, most=120))
            raise TraceFormatError(path, said, lost=refusals.LOST_SNAPSHOT, hint=messages.DO_COPY_FILE) from broken
        except (ValueError, OSError) as broken:
            raise TraceFormatError(
                path, refusals.no_snapshot(why=reason(broken, most=120)), lost=refusals.LOST_SNAPSHOT,
                hint=refusals.DO_SNAPSHOT,
            ) from broken  # fmt: skip
        if not isinstance(content, dict) or "segments" not in content:
            raise TraceFormatError(path, refusals.NO_SEGMENTS, lost=refusals.LOST_SNAPSHOT)
        _write(content, source, rank, sink)


def _plain_name(path: Path) -> str:
    """The name of a file without the suffix of its packing."""
    return path.name[: -len(_PACKED)] if path.name.lower().endswith(_PACKED) else path.name


def _begins(path: Path) -> bool:
    head = head_of(path)
    return head[:1] == b"\x80" and any(sign in head for sign in _SIGNS)


def _write(content: Mapping[str, Any], source: CaptureSource, rank: int, sink: Sink) -> None:
    segments = [one for one in _list(content.get("segments")) if isinstance(one, dict)]
    settings = content.get("allocator_settings")
    settings = settings if isinstance(settings, dict) else {}
    memory: list[dict[str, Any]] = []
    blocks: list[dict[str, Any]] = []
    failed: list[dict[str, Any]] = []
    for device, trace in enumerate(_list(content.get("device_traces"))):
        entries = [one for one in _list(trace) if isinstance(one, dict)]
        own = [one for one in segments if one.get("device", 0) == device]
        memory += _curve(entries, own, device)
        blocks += _blocks(entries, own, device)
        failed += _failures(entries, device)
    if not memory:
        sink.note(
            "degraded", messages.NO_HISTORY, where=str(source.root),
            lost=messages.LOST_MEMORY,
            hint=messages.DO_MEMORY_HISTORY,
        )  # fmt: skip
    for name, rows, order in (
        ("memory", memory, "ts_ns"),
        ("allocation", blocks, "alloc_ns"),
        ("counter", failed, "ts_ns"),
    ):
        if rows:
            sink.frame(name, pl.DataFrame(rows, infer_schema_length=None).sort(order, maintain_order=True))
    total = float(sum(_number(one.get("total_size")) for one in segments))
    held = {"source": "allocator", "name": "segments", "count": len(segments), "value": total, "unit": "B"}
    sink.frame("statistic", pl.DataFrame([held], infer_schema_length=None))
    sink.frame("step", _steps(_list(content.get("external_annotations"))))
    sink.frame("setting", _settings(settings))
    vendor = "ascend" if any(_ASCEND in str(name) for name in settings) else "nvidia"
    row = {"capture": source.capture, "format": source.format, "framework": "pytorch", "vendor": vendor, "epoch_ns": 0}
    sink.frame("rank", pl.DataFrame([row], infer_schema_length=None))


def _curve(entries: Sequence[Entry], segments: Sequence[Entry], device: int) -> Iterator[dict[str, Any]]:
    """Allocated and reserved memory after each event; the end is known, so the curve is computed backwards."""
    allocated = sum(_number(one.get("allocated_size")) for one in segments)
    reserved = sum(_number(one.get("total_size")) for one in segments)
    active = sum(_number(one.get("active_size")) for one in segments)
    rows: list[dict[str, Any]] = []
    for entry in reversed(entries):
        action, size = entry.get("action"), _number(entry.get("size"))
        rows.append(
            {"component": COMPONENT, "ts_ns": _moment(entry), "allocated_bytes": allocated, "reserved_bytes": reserved,
             "active_bytes": active, "device_id": device}
        )  # fmt: skip
        if action == "alloc":
            allocated, active = allocated - size, active - size
        elif action == "free_requested":
            allocated += size
        elif action == "free_completed":
            active += size
        elif action in _TAKEN:
            reserved -= size
        elif action in _GIVEN_BACK:
            reserved += size
    return iter(
        {**row, **{name: max(0, row[name]) for name in ("allocated_bytes", "reserved_bytes", "active_bytes")}}
        for row in reversed(rows)
    )


def _blocks(entries: Sequence[Entry], segments: Sequence[Entry], device: int) -> Iterator[dict[str, Any]]:
    """Each block that was allocated, named by the innermost lines of the program, and when it was released.

    Blocks held before the history began are among the blocks of the end; blocks released since are unknown.
    """
    held: dict[int, dict[str, Any]] = {}
    seen: set[int] = set()
    for entry in entries:
        address = _number(entry.get("addr"))
        if entry.get("action") == "alloc":
            seen.add(address)
            if (before := held.pop(address, None)) is not None:
                yield before
            held[address] = {
                "name": place_of(_list(entry.get("frames"))), "bytes": _number(entry.get("size")),
                "alloc_ns": _moment(entry), "release_ns": None, "device_id": device,
            }  # fmt: skip
        elif entry.get("action") == "free_requested" and address in held:
            yield {**held.pop(address), "release_ns": _moment(entry)}
    yield from held.values()
    first = min((_moment(entry) for entry in entries), default=None)
    if first is None:
        return
    for block in (one for segment in segments for one in _list(segment.get("blocks")) if isinstance(one, dict)):
        if block.get("state") == "active_allocated" and _number(block.get("address")) not in seen:
            yield {
                "name": place_of(_frames_of(block)), "bytes": _number(block.get("size")), "alloc_ns": first,
                "release_ns": None, "device_id": device,
            }  # fmt: skip


def _frames_of(block: Entry) -> list[Any]:
    """The frames of the code that allocated a block of the end; older snapshots keep them in its history."""
    history = [one for one in _list(block.get("history")) if isinstance(one, dict)]
    return _list(block.get("frames")) or (_list(history[0].get("frames")) if history else [])


def place_of(frames: Sequence[Any]) -> str:
    """The innermost lines of the program itself, as `file.py:12 name`.

    If there are none, the lines of its libraries are taken, then the operator that C++ frames name, then any frame.
    """
    told = [
        (str(one.get("filename")).replace("\\", "/"), one.get("line"), str(one.get("name")))
        for one in frames
        if isinstance(one, dict)
    ]
    python = [frame for frame in told if _PYTHON.search(frame[0])]
    own = [frame for frame in python if is_own("{}({}): {}".format(*frame))]
    library = [frame for frame in python if not is_framework("{}({}): {}".format(*frame))]
    lines = [f"{file.rpartition('/')[2]}:{line} {name}" for file, line, name in own or library or python]
    lines = lines or _operators(name for _, _, name in told) or [f"{file}:{line} {name}" for file, line, name in told]
    return " < ".join(lines[:_MOST_FRAMES])[:300] or "unknown"


def _operators(names: Iterable[str]) -> list[str]:
    """The innermost operator and autograd node that C++ frames name: the backward pass has no Python frames."""
    names = list(names)
    found = (next((match for name in names if (match := pattern.search(name))), None) for pattern in _CALLED)
    return [f"{prefix}{match.group(1)}" for prefix, match in zip(("aten::", ""), found, strict=True) if match]


def _failures(entries: Sequence[Entry], device: int) -> Iterator[dict[str, Any]]:
    """Requests that failed: their size and the device's free memory, by the line that asked."""
    for entry in entries:
        if entry.get("action") == "oom":
            about = {"source": OUT_OF_MEMORY, "name": place_of(_list(entry.get("frames"))), "ts_ns": _moment(entry),
                     "device_id": device}  # fmt: skip
            yield {**about, "series": ASKED, "value": float(_number(entry.get("size")))}
            yield {**about, "series": LEFT, "value": float(_number(entry.get("device_free")))}


def _steps(annotations: Sequence[Any]) -> pl.DataFrame:
    begun: dict[int, int] = {}
    rows: list[dict[str, Any]] = []
    for one in annotations:
        match = _STEP.search(str(one.get("name"))) if isinstance(one, dict) else None
        step = whole_number(match.group(1)) if match else None
        if match is None or step is None:
            continue
        moment = _moment(one)
        if str(one.get("stage")).upper() == "START":
            begun[step] = moment
        elif step in begun:
            start = begun.pop(step)
            rows.append({"step": step, "start_ns": start, "dur_ns": max(0, moment - start), "name": match.group(0)})
    schema = {"step": pl.Int64(), "start_ns": pl.Int64(), "dur_ns": pl.Int64(), "name": pl.String()}
    return pl.DataFrame(rows, schema=schema)


def _settings(settings: Mapping[str, Any]) -> pl.DataFrame:
    rows = [("profiler", f"allocator.{name}"[:200], str(value)[:400]) for name, value in settings.items()]
    return pl.DataFrame(rows, schema={"source": pl.String(), "name": pl.String(), "value": pl.String()}, orient="row")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62 else 0


def _moment(entry: Entry) -> int:
    return _number(entry.get("time_us")) * 1_000
