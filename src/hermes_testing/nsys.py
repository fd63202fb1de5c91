"""Turns a capture that was written as Kineto writes it into the database of an exported report of Nsight Systems."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

_TABLES = {
    "StringIds": "id INTEGER PRIMARY KEY, value TEXT NOT NULL",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT, "
    "globalPid INT, demangledName INT, shortName INT, gridX INT, gridY INT, gridZ INT",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT, "
    "globalPid INT, bytes INT, copyKind INT",
    "CUPTI_ACTIVITY_KIND_MEMSET": "start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT, "
    "globalPid INT, value INT, bytes INT",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start INT, end INT, eventClass INT, globalTid INT, correlationId INT, nameId INT, "
    "returnValue INT",
    "NVTX_EVENTS": "start INT, end INT, eventType INT, text TEXT, globalTid INT, textId INT, domainId INT",
    "TARGET_INFO_GPU": "id INT, name TEXT",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INT",
}
_COPIES = {"HtoD": 1, "DtoH": 2, "DtoD": 8}
_RANGE = 59


def write_nsys(path: Path, traces: Sequence[Path], *, operators: bool = True) -> Path:
    """Write the events of these Kineto traces into a report, a process each; without `operators` none of PyTorch.

    Numbers of steps stand in ranges `iteration 12`, as programs name them.
    """
    with closing(sqlite3.connect(path)) as con, con:
        for name, columns in _TABLES.items():
            con.execute(f"CREATE TABLE {name} ({columns})")
        strings: dict[str, int] = {}
        base = 0
        for pid, trace in enumerate(traces, start=100):
            content = json.loads(trace.read_text("utf-8"))
            base = int(content.get("baseTimeNanoseconds", 0))
            gpu = content["deviceProperties"][0]
            con.execute("INSERT INTO TARGET_INFO_GPU VALUES (?, ?)", (gpu["id"], gpu["name"]))
            for table, row in _rows(content["traceEvents"], pid, strings, operators=operators):
                con.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        con.executemany("INSERT INTO StringIds VALUES (?, ?)", [(number, text) for text, number in strings.items()])
        con.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?)", (base,))
    return path


def _rows(
    events: Iterable[dict[str, Any]], pid: int, strings: dict[str, int], *, operators: bool
) -> Iterable[tuple[str, tuple[object, ...]]]:
    for event in events:
        if event.get("ph") != "X":
            continue
        kind, name, args = event["cat"], event["name"], event.get("args", {})
        start = round(float(event["ts"]) * 1_000)
        end = start + round(float(event.get("dur", 0)) * 1_000)
        task = (start, end, args.get("device"), 1, args.get("stream"), args.get("correlation"), pid << 24)
        thread = (pid << 24) + int(event["tid"]) % (1 << 24) if isinstance(event["tid"], int) else 0
        if kind == "kernel":
            text = strings.setdefault(name, len(strings) + 1)
            yield "CUPTI_ACTIVITY_KIND_KERNEL", (*task, text, text, *args.get("grid", (1, 1, 1)))
        elif kind == "gpu_memcpy":
            copy = next(number for word, number in _COPIES.items() if word in name)
            yield "CUPTI_ACTIVITY_KIND_MEMCPY", (*task, args.get("bytes", 0), copy)
        elif kind == "gpu_memset":
            yield "CUPTI_ACTIVITY_KIND_MEMSET", (*task, 0, args.get("bytes", 0))
        elif kind in ("cuda_runtime", "cuda_driver"):
            text = strings.setdefault(f"{name}_v7000", len(strings) + 1)
            yield "CUPTI_ACTIVITY_KIND_RUNTIME", (start, end, 0, thread, args.get("correlation"), text, 0)
        elif kind == "user_annotation" or (operators and name.startswith("aten::")):
            yield "NVTX_EVENTS", (start, end, _RANGE, _text(name, args), thread, None, 0)


def _text(name: str, args: dict[str, Any]) -> str:
    if name.startswith("ProfilerStep#"):
        return f"iteration {name.partition('#')[2]}"
    return f"{name}, op_id = 1, sizes = {json.dumps(args['Input Dims'])}" if "Input Dims" in args else name
