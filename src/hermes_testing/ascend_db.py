"""Writes one rank's capture as torch_npu's database export, schema 1.0.0 or 1.2.0, and `analysis.db`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hermes_testing.analysis_db import write_analysis_db
from hermes_testing.ascend_common import (
    APP_BYTES,
    PMU_NAMES,
    RESERVED_BYTES,
    STREAM_POINTER,
    Options,
    epoch,
    folder_name,
    frequencies,
    hbm,
    memory_curve,
    pmu_of,
    samples,
    stream_task,
)
from hermes_testing.ascend_text import metadata_of, write_info
from hermes_testing.collective import NO_NOTIFY, NONE
from hermes_testing.database import write_database
from hermes_testing.db_schema import Value
from hermes_testing.enums import API_TYPES, MODULES, enums
from hermes_testing.job import Job
from hermes_testing.profile import CommOp, HostCall, Profile, Task, Transfer

Row = Sequence[Value]

_FRAMEWORK_STRINGS = 1 << 28
_MEMORY_STRINGS = 2 << 28
_TASK_TYPE = {"AI_CORE": "KERNEL_AICORE", "AI_VECTOR_CORE": "KERNEL_AIVEC", "AI_CPU": "KERNEL_AICPU"}
_EVENT_TYPE = {
    "EVENT_RECORD_SQE": "EVENT_RECORD",
    "EVENT_WAIT_SQE": "EVENT_WAIT",
    "PCIE_DMA_SQE": "MEMCPY_ASYNC",
}
_NO_NOTIFY_DB = 9_223_372_036_854_775_807
_COPY_KIND = {"host to device": 1, "device to host": 2}
_PMU_RENAMED = {"aicore_time(us)": "aic_total_time", "aiv_time(us)": "aiv_total_time"}


def write_ascend_db(folder: Path, job: Job, profile: Profile, options: Options) -> Path:
    """Write the capture below `folder`; returns its own folder."""
    root = folder / folder_name(profile)
    out = root / "ASCEND_PROFILER_OUTPUT"
    out.mkdir(parents=True)
    write_info(root, job, profile, options, export="db")
    tables = _Tables(job, profile, options)
    write_database(out / f"ascend_pytorch_profiler_{profile.rank}.db", tables.all(), options.schema)
    write_analysis_db(out / "analysis.db", job, profile)
    return root


class _Strings:
    """Gives texts their ids; each writer of the real file counts in a range of its own."""

    def __init__(self, first: int) -> None:
        self._first = first
        self.ids: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        found = self.ids.get(text)
        if found is None:
            found = self.ids[text] = self._first + len(self.ids)
        return found


class _Tables:
    def __init__(self, job: Job, profile: Profile, options: Options) -> None:
        self._job, self._profile, self._schema = job, profile, options.schema
        self._new = options.schema == "1.2"
        self._base = epoch(profile, 0)
        self._cann, self._torch = _Strings(0), _Strings(_FRAMEWORK_STRINGS)
        self._memory = _Strings(_MEMORY_STRINGS)
        self._enums = enums(options.schema)
        self._numbers = {table: {text: key for key, text in rows.items()} for table, rows in self._enums.items()}
        self._ids: dict[int, int] = {}
        self._connections: list[tuple[int, int]] = []
        self._stacks: dict[tuple[str, ...], int] = {}

    def all(self) -> Iterator[tuple[str, Iterable[Row]]]:
        """Every table in the order of the real writer; `STRING_IDS` after those that name texts."""
        profile, device = self._profile, self._profile.device
        yield "SESSION_TIME_INFO", [(self._base, self._base + profile.end_ns)]
        yield "NPU_INFO", [(device, "Ascend910B")]
        yield "HOST_INFO", [(str(3_538_958_389_648_580_163 + profile.host), f"node{profile.host}")]
        for name, members in self._enums.items():
            yield name, list(members.items())
        yield from self._device_tables()
        yield from self._sampled_tables()
        torch = list(self._pytorch_api())
        memory = list(self._op_memory())
        record = list(self._memory_record())
        yield "PYTORCH_API", torch
        yield "CONNECTION_IDS", self._connections
        yield "PYTORCH_CALLCHAINS", self._callchains()
        yield (
            "STEP_TIME",
            [(mark.number, self._at(mark.start_ns), self._at(mark.end_ns)) for mark in profile.steps],
        )
        yield "OP_MEMORY", memory
        yield "MEMORY_RECORD", record
        if profile.collections:
            tid = self._global(profile.main_tid)
            yield "GC_RECORD", [(self._at(start), self._at(end), tid) for start, end in profile.collections]
        yield "RANK_DEVICE_MAP", [(profile.rank, device)]
        yield "META_DATA", self._metadata()
        yield (
            "STRING_IDS",
            [
                (number, text)
                for strings in (self._cann, self._torch, self._memory)
                for text, number in strings.ids.items()
            ],
        )

    def _at(self, ns: int) -> int:
        return self._base + ns

    def _global(self, tid: int) -> int:
        return self._profile.pid << 32 | tid

    def _device_tables(self) -> Iterator[tuple[str, Iterable[Row]]]:
        tasks: list[Row] = []
        computes: list[Row] = []
        plane_tasks: list[Row] = []
        copies: list[Row] = []
        pmu: list[Row] = []
        rows: list[Task | CommOp] = sorted([*self._profile.tasks, *self._profile.comms], key=lambda row: row.start_ns)
        comms: list[Row] = []
        for row in rows:
            number = len(tasks)
            if isinstance(row, CommOp):
                comms.append(self._comm_op(row, len(comms) + 1))
                for task in row.transfers:
                    plane_tasks.append(self._plane_task(row, task, len(tasks), len(comms)))
                    tasks.append(
                        self._task_row(row, stream_task(task), task.start_ns, task.end_ns, len(tasks), task.context)
                    )
                continue
            kind = _EVENT_TYPE.get(row.task_type, row.task_type)
            if row.kernel is not None:
                kind = _TASK_TYPE.get(row.kernel.core, row.kernel.core)
                computes.append(self._compute(row, number))
                if self._job.level != "Level0":
                    pmu.extend(self._pmu(row, number))
            elif row.kind == "copy" and self._job.level == "Level2":
                copies.append((number, row.bytes, _COPY_KIND[row.direction]))
            tasks.append(self._task_row(row, kind, row.start_ns, row.end_ns, number, NONE))
        yield "TASK", tasks
        yield "COMPUTE_TASK_INFO", computes
        if comms:
            yield "COMMUNICATION_TASK_INFO", plane_tasks
            yield "COMMUNICATION_OP", comms
        yield "CANN_API", self._cann_api()
        if pmu:
            yield "TASK_PMU_INFO", pmu
        if copies and self._new:
            yield "MEMCPY_INFO", copies

    def _task_row(self, row: Task | CommOp, kind: str, start: int, end: int, number: int, context: int) -> Row:
        return (
            *(self._at(start), self._at(end), self._profile.device, row.launch.connection, number),
            *(self._profile.pid, self._cann(kind), context, row.stream, row.task_id, NONE),
        )

    def _compute(self, task: Task, number: int) -> Row:
        kernel = task.kernel
        if kernel is None:
            return ()
        texts = (
            *(kernel.core, kernel.type, kernel.formats, kernel.dtypes, f'"{kernel.inputs}"'),
            *(kernel.output_format, kernel.output_dtype, f'"{kernel.output}"', "N/A"),
        )
        extra = (self._cann("dynamic"), self._cann("YES" if kernel.core == "AI_CORE" else "NO")) if self._new else ()
        return (self._cann(task.name), number, kernel.blocks, 0, *map(self._cann, texts), *extra)

    def _pmu(self, task: Task, number: int) -> Iterator[Row]:
        if task.kernel is None:
            return
        values = pmu_of(task.kernel, task.end_ns - task.start_ns, 1_800)
        for name in PMU_NAMES[:-1]:
            plain = _PMU_RENAMED.get(name, name.removesuffix("(us)"))
            value = float(values[name]) * (1_000 if name.endswith("(us)") else 1)
            yield number, self._cann(plain), int(value) if value == int(value) else value

    def _comm_op(self, comm: CommOp, number: int) -> Row:
        row: tuple[Value, ...] = (
            *(self._cann(comm.name), self._at(comm.start_ns), self._at(comm.end_ns), comm.launch.connection),
            *(self._cann(comm.group.communicator), number, 0, comm.retry),
            *(self._numbers["ENUM_HCCL_DATA_TYPE"][comm.dtype], self._cann(comm.algorithm), comm.count),
            self._cann(f"hcom_{comm.hccl}_"),
        )
        return (*row, self._profile.device, len(comm.group.members)) if self._new else row

    def _plane_task(self, comm: CommOp, task: Transfer, number: int, op: int) -> Row:
        rdma = "RDMA_SEND_PAYLOAD" if task.name == "RDMASend" else "INVALID_TYPE"
        row: tuple[Value, ...] = (
            *(self._cann(comm.name), number, self._cann(task.name), task.plane),
            *(
                self._cann(comm.group.communicator),
                _NO_NOTIFY_DB if task.notify == NO_NOTIFY else task.notify,
            ),
            *(self._numbers["ENUM_HCCL_RDMA_TYPE"][rdma], task.src, task.dst),
            *(self._numbers["ENUM_HCCL_TRANSPORT_TYPE"][task.transport], task.bytes),
            self._numbers["ENUM_HCCL_DATA_TYPE"][task.dtype],
            self._numbers["ENUM_HCCL_LINK_TYPE"][task.link],
            op,
        )
        ns = max(1, task.end_ns - task.start_ns)
        return (*row, int(task.plane <= 1), task.bytes * 1_000_000_000 // ns) if self._new else row

    def _cann_api(self) -> Iterator[Row]:
        for call in self._profile.calls:
            if call.kind in ("acl", "node", "hccl", "runtime"):
                yield (
                    *(self._at(call.start_ns), self._at(call.end_ns), API_TYPES[call.kind]),
                    *(self._global(call.tid), call.number, self._cann(call.name)),
                )

    def _sampled_tables(self) -> Iterator[tuple[str, Iterable[Row]]]:
        profile, device, cann = self._profile, self._profile.device, self._cann
        moments = list(samples(profile))
        app, whole, read, write = (cann(text) for text in ("app", "device", "read", "write"))
        yield (
            "NPU_MEM",
            [(kind, 0, APP_BYTES, self._at(ns), device) for kind in (app, whole) for ns in moments],
        )
        yield (
            "NPU_MODULE_MEM",
            [
                (number, self._at(ns), RESERVED_BYTES if name == "APP" else 0, device)
                for ns in moments
                for number, name in enumerate(MODULES)
            ],
        )
        yield (
            "HBM",
            [
                (device, self._at(ns), hbm(profile, ns, channel) * 1_000_000 // part, channel, kind)
                for ns in moments
                for channel in range(2)
                for part, kind in ((1, read), (2, write))
            ],
        )
        yield (
            "LLC",
            [(device, 0, self._at(ns), 85.1, hbm(profile, ns, 5) * 1_000_000, read) for ns in moments],
        )
        die = (0,) if self._new else ()
        yield "AICORE_FREQ", [(device, self._at(ns), mhz, *die) for ns, mhz in frequencies(profile)]

    def _pytorch_api(self) -> Iterator[Row]:
        for call in self._profile.calls:
            if call.kind in ("op", "step"):
                yield self._op(call)
            elif call.kind in ("enqueue", "dequeue"):
                offset = 5 << 28 if self._new else 0
                yield (
                    *self._call_head(call, self._link((call.number + offset,))),
                    *[None] * 5,
                    API_TYPES["queue"],
                )
            elif call.kind == "python":
                yield (*self._call_head(call, None), *[None] * 5, API_TYPES["trace"])

    def _call_head(self, call: HostCall, link: int | None) -> Row:
        return (
            *(str(self._at(call.start_ns)), str(self._at(call.end_ns)), self._global(call.tid), link),
            self._torch(call.name),
        )

    def _op(self, call: HostCall) -> Row:
        pair = (call.sequence + (5 << 28 if self._new else 0),) if call.sequence >= 0 else ()
        links = (*call.connections, *pair)
        shapes = self._text_of(call.shapes)
        dtypes = self._text_of(call.dtypes)
        chain = self._stacks.setdefault(call.stack, len(self._stacks)) if call.stack else None
        return (
            *self._call_head(call, self._link(links) if links else None),
            *(call.sequence, call.forward_tid, dtypes, shapes, chain, API_TYPES["op"]),
        )

    def _text_of(self, text: str | None) -> int | None:
        return None if text is None else self._torch(text.replace(";", ";\r\n"))

    def _link(self, connections: tuple[int, ...]) -> int:
        """A new id that stands for these connections."""
        number = len(self._ids)
        self._ids[number] = number
        self._connections.extend((number, connection) for connection in connections)
        return number

    def _callchains(self) -> list[Row]:
        return [
            (number, self._torch(frame), depth)
            for stack, number in self._stacks.items()
            for depth, frame in enumerate(stack)
        ]

    def _op_memory(self) -> Iterator[Row]:
        _, malloc, release = memory_curve(self._profile.blocks)
        for index, block in enumerate(self._profile.blocks):
            end: list[int | None] = [None] * 4
            after: list[int | None] = [None] * 3
            if block.release_ns is not None:
                lasts, moment = block.release_ns - block.alloc_ns, self._at(block.release_ns)
                end, after = [moment, moment, lasts, lasts], [release[index], RESERVED_BYTES, release[index]]
            yield (
                *(self._memory(block.name), block.bytes, self._at(block.alloc_ns), *end),
                *(malloc[index], RESERVED_BYTES, malloc[index], *after, STREAM_POINTER, self._profile.device),
            )

    def _memory_record(self) -> Iterator[Row]:
        curve, _, _ = memory_curve(self._profile.blocks)
        for level in curve:
            for component in ("PTA", "PTA+GE"):
                yield (
                    *(self._memory(component), self._at(level.ts_ns), level.allocated, RESERVED_BYTES),
                    *(level.allocated, STREAM_POINTER, self._profile.device),
                )

    def _metadata(self) -> list[Row]:
        minor = "2" if self._new else "0"
        rows: list[Row] = [
            ("SCHEMA_VERSION_MICRO", "0"),
            ("SCHEMA_VERSION_MINOR", minor),
            ("SCHEMA_VERSION_MAJOR", "1"),
            ("SCHEMA_VERSION", f"1.{minor}.0"),
        ]
        described = metadata_of(self._job, self._profile)
        return rows + [(name, json.dumps(value)) for name, value in described.items()]
