"""Turns captures that were written as Kineto writes them into the databases that AMD's rocprofv3 would have written."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

_TABLES = {
    "metadata": "tag TEXT, value TEXT",
    "string": "string TEXT NOT NULL",
    "info_node": "hash BIGINT, machine_id TEXT, hostname TEXT",
    "info_process": "nid INT, ppid INT, pid INT, command TEXT, environment JSONB DEFAULT '{}' NOT NULL",
    "info_thread": "nid INT, ppid INT, pid INT, tid INT, name TEXT",
    "info_agent": "nid INT, pid INT, type TEXT, absolute_index INT, logical_index INT, type_index INT, name TEXT, "
    "model_name TEXT, vendor_name TEXT, product_name TEXT, user_name TEXT",
    "info_kernel_symbol": "nid INT, pid INT, code_object_id INT, kernel_name TEXT, display_name TEXT",
    "track": "nid INT, pid INT, tid INT, name_id INT",
    "event": "category_id INT, stack_id INT, parent_stack_id INT, correlation_id INT, extdata JSONB DEFAULT '{}' "
    "NOT NULL",
    "region": "nid INT, pid INT, tid INT, start BIGINT, end BIGINT, name_id INT, event_id INT",
    "sample": "track_id INT, timestamp BIGINT, event_id INT",
    "kernel_dispatch": "nid INT, pid INT, tid INT, agent_id INT, kernel_id INT, dispatch_id INT, queue_id INT, "
    "stream_id INT, start BIGINT, end BIGINT, workgroup_size_x INT, workgroup_size_y INT, workgroup_size_z INT, "
    "grid_size_x INT, grid_size_y INT, grid_size_z INT, event_id INT",
    "memory_copy": "nid INT, pid INT, tid INT, start BIGINT, end BIGINT, name_id INT, dst_agent_id INT, "
    "src_agent_id INT, size INT, stream_id INT, event_id INT",
}
_NODE, _CPU, _GPU = 7_001, 0, 2
_GROUP = 64
_COPIES = {
    "HtoD": ("MEMORY_COPY_HOST_TO_DEVICE", _GPU, _CPU), "DtoH": ("MEMORY_COPY_DEVICE_TO_HOST", _CPU, _GPU),
    "DtoD": ("MEMORY_COPY_DEVICE_TO_DEVICE", _GPU, _GPU),
}  # fmt: skip


def write_rocpd(
    folder: Path, traces: Sequence[Path], *, operators: bool = True, calls: bool = True, environment: bool = True
) -> list[Path]:
    """Write the events of each of these Kineto traces into a database of its own, as rocprofv3 does of a process.

    Without `operators` there is none of PyTorch, without `calls` none of the runtime, without `environment` no rank.
    Memory is set by kernels, as on AMD's devices. Numbers of steps stand in ranges `iteration 12`.
    """
    written = []
    for rank, trace in enumerate(traces):
        content = json.loads(trace.read_text("utf-8"))
        launcher = {"RANK": str(rank), "WORLD_SIZE": str(len(traces))} if environment else {}
        path = folder / f"{400 + rank}_results.db"
        one = _Database(part=f"_{rank:08x}_0000_7000_8000_0000deadbeef", pid=400 + rank)
        for event in content["traceEvents"]:
            if event.get("ph") == "X" and (calls or not event["cat"].startswith("cuda_")):
                one.add(event, operators=operators)
        one.write(path, launcher)
        written.append(path)
    return written


class _Database:
    """The rows of one process."""

    def __init__(self, part: str, pid: int) -> None:
        self.part = part
        self.pid = pid
        self.rows: dict[str, list[tuple[object, ...]]] = {name: [] for name in _TABLES}
        self.strings: dict[str, int] = {}
        self.symbols: dict[str, int] = {}
        self.threads: dict[int, int] = {}

    def add(self, event: Mapping[str, Any], *, operators: bool) -> None:
        kind, name, args = event["cat"], event["name"], event.get("args", {})
        start = round(float(event["ts"]) * 1_000)
        times = (start, start + round(float(event.get("dur", 0)) * 1_000))
        if kind in ("kernel", "gpu_memset"):
            self._kernel(name if kind == "kernel" else "__amd_rocclr_fillBufferAligned", times, args)
        elif kind == "gpu_memcpy":
            called, to, source = next(copy for word, copy in _COPIES.items() if word in name)
            at = self._event("MEMORY_COPY", args.get("correlation", 0))
            self.rows["memory_copy"].append(
                (_NODE, self.pid, self._thread(event["tid"]), *times, self._string(called), to, source,
                 args.get("bytes", 0), args.get("stream", 0), at)
            )  # fmt: skip
        elif kind in ("cuda_runtime", "cuda_driver"):
            self._region(f"hip{name.removeprefix('cuda')}", "HIP_RUNTIME_API_EXT", times, event, args["correlation"])
        elif kind == "user_annotation" or (operators and name.startswith("aten::")):
            self._region("roctxThreadRangeA", "MARKER_CORE_RANGE_API", times, event, 0, _said(name, args))

    def _kernel(self, name: str, times: tuple[int, int], args: Mapping[str, Any]) -> None:
        symbol = self.symbols.setdefault(name, len(self.symbols) + 1)
        groups = args.get("grid", (1, 1, 1))
        grid = (int(groups[0]) * _GROUP, groups[1], groups[2])
        number = len(self.rows["kernel_dispatch"]) + 1
        at = self._event("KERNEL_DISPATCH", args.get("correlation", 0))
        self.rows["kernel_dispatch"].append(
            (_NODE, self.pid, self._thread(0), _GPU, symbol, number, 16, args.get("stream", 0), *times, _GROUP, 1, 1,
             *grid, at)
        )  # fmt: skip

    def _region(
        self, name: str, category: str, times: tuple[int, int], event: Mapping[str, Any], call: int, said: str = ""
    ) -> None:
        at = self._event(category, call, said)
        self.rows["region"].append(
            (_NODE, self.pid, self._thread(event["tid"]), *times, self._string(name), at)
        )  # fmt: skip

    def _event(self, category: str, call: int, said: str = "") -> int:
        extra = json.dumps({"message": said}) if said else "{}"
        self.rows["event"].append((self._string(category), call, 0, 0, extra))
        return len(self.rows["event"])

    def _string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings) + 1)

    def _thread(self, number: object) -> int:
        """The row of a thread, which is not the thread's number."""
        return self.threads.setdefault(number if isinstance(number, int) else 0, len(self.threads) + 1)

    def write(self, path: Path, environment: Mapping[str, str]) -> None:
        self.rows["metadata"].append(("schema_version", "3"))
        self.rows["info_node"].append((1, "machine", "host-a"))
        self.rows["info_process"].append((_NODE, 1, 9_000 + self.pid, "python train.py", json.dumps(environment)))
        agents = [(_CPU, "CPU", 0, "EPYC 9654", "AMD EPYC 9654"), (_GPU, "GPU", 0, "gfx942", "AMD Instinct MI300X")]
        chosen = {"info_node": [_NODE], "info_process": [self.pid], "info_agent": [number for number, *_ in agents]}
        for number, kind, index, name, product in agents:
            self.rows["info_agent"].append(
                (_NODE, self.pid, kind, number, number, index, name, "", "AMD", product, product)
            )  # fmt: skip
        self.rows["string"] += [(text,) for text in self.strings]
        self.rows["info_thread"] += [(_NODE, 1, self.pid, number, None) for number in self.threads]
        self.rows["info_kernel_symbol"] += [(_NODE, self.pid, 1, f"{name}.kd", name) for name in self.symbols]
        with closing(sqlite3.connect(path)) as con, con:
            for table, rows in self.rows.items():
                name = f"rocpd_{table}{self.part}"
                con.execute(f"CREATE TABLE `{name}` (id INTEGER PRIMARY KEY AUTOINCREMENT, {_TABLES[table]})")
                con.execute(f"CREATE VIEW rocpd_{table} AS SELECT * FROM `{name}`")
                _insert(con, name, chosen.get(table) or range(1, len(rows) + 1), rows)


def _insert(con: sqlite3.Connection, name: str, numbers: Iterable[int], rows: Sequence[tuple[object, ...]]) -> None:
    for number, row in zip(numbers, rows, strict=True):
        con.execute(f"INSERT INTO `{name}` VALUES ({', '.join('?' * (len(row) + 1))})", (number, *row))


def _said(name: str, args: Mapping[str, Any]) -> str:
    if name.startswith("ProfilerStep#"):
        return f"iteration {name.partition('#')[2]}"
    return f"{name}, op_id = 1, sizes = {json.dumps(args['Input Dims'])}" if "Input Dims" in args else name
