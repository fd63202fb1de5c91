"""Writes `trace_view.json` of one rank: host calls, streams, planes, overlap, counters, arrows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from hermes_testing.ascend_common import (
    APP_BYTES,
    Options,
    epoch,
    estimated,
    frequencies,
    hbm,
    samples,
    short,
    stream_task,
)
from hermes_testing.collective import NONE
from hermes_testing.job import Job
from hermes_testing.profile import CommOp, HostCall, Launch, Profile, Task, Transfer
from hermes_testing.truth import comm_spans, compute_spans, merged, without

_SORT_2024 = {
    "CANN": 7,
    "Ascend Hardware": 13,
    "AI Core Freq": 14,
    "HCCL": 15,
    "HBM": 17,
    "LLC": 18,
    "NPU MEM": 19,
    "Overlap Analysis": 23,
}
_SORT_2025 = {
    "CANN": 7,
    "Ascend Hardware": 14,
    "AI Core Freq": 15,
    "Communication": 16,
    "NPU MEM": 17,
    "HBM": 24,
    "LLC": 27,
    "Overlap Analysis": 31,
}
_LAYER = {"acl": "AscendCL", "node": "Node", "hccl": "Hccl", "runtime": "Runtime"}
_LANES = ("Computing", "Communication", "Communication(Not Overlapped)", "Free")
_JOIN = ";\\r\\n"


def write_trace(path: Path, job: Job, profile: Profile, options: Options) -> None:
    """Write the array of events."""
    with path.open("w", encoding="utf-8", newline="") as out:
        out.write("[")
        out.write(", ".join(_Trace(job, profile, options).events()))
        out.write("]")


class _Trace:
    def __init__(self, job: Job, profile: Profile, options: Options) -> None:
        self._job, self._profile = job, profile
        self._new = options.writer == "2025"
        self._base = epoch(profile, 0)
        self._hccl = "Communication" if self._new else "HCCL"
        sort = _SORT_2025 if self._new else _SORT_2024
        self._sort = sort
        self._pid = {name: (profile.pid << 10) | (index << 5) | profile.device for name, index in sort.items()}
        self._texts: dict[str, str] = {}
        self._group_tid: dict[str, int] = {}
        self._place_groups()

    def events(self) -> Iterator[str]:
        """Every event as JSON, in the writer's order."""
        yield from self._framework()
        yield from self._collections()
        yield from self._python_names()
        yield from self._forward_backward()
        yield from self._device_names()
        yield from self._counters()
        yield from self._cann()
        for task in self._profile.tasks:
            yield from self._task(task)
        yield from self._overlap()
        for comm in self._profile.comms:
            yield from self._comm(comm)
        yield from self._torch_to_npu()

    def _ts(self, ns: int) -> str:
        ns += self._base
        return f'"{ns // 1_000}.{ns % 1_000:03d}"'

    def _text(self, value: str) -> str:
        """JSON text of a string; names recur, so each is escaped once."""
        found = self._texts.get(value)
        if found is None:
            found = self._texts[value] = json.dumps(value)
        return found

    def _framework(self) -> Iterator[str]:
        pid = self._profile.pid
        for call in self._profile.calls:
            head = f'{{"ph": "X", "name": {self._text(call.name)}, "pid": {pid}, "tid": {call.tid}, "ts": {self._ts(call.start_ns)}, "dur": {short(call.end_ns - call.start_ns)}, "cat": '
            if call.kind in ("op", "step"):
                yield f'{head}"cpu_op", "args": {{{self._op_args(call)}}}}}'
            elif call.kind == "python":
                module = ', "Python module id": 0' if call.name.startswith("nn.Module") else ""
                ids = f'"Python id": {call.number}, "Python parent id": {call.parent}{module}'
                yield f'{head}"python_function", "args": {{{ids}}}}}'
            elif call.kind in ("enqueue", "dequeue"):
                yield f'{head}"{call.kind}", "args": {{"correlation_id": {call.number}}}}}'
                side = "s" if call.kind == "enqueue" else "f"
                yield self._arrow(
                    side,
                    "enqueue_to_dequeue",
                    str(call.number),
                    pid,
                    call.tid,
                    call.start_ns,
                    "async_task_queue",
                )

    def _op_args(self, call: HostCall) -> str:
        parts = [f'"Sequence number": {call.sequence}, "Fwd thread id": {call.forward_tid}']
        if call.shapes is not None:
            parts.append(f'"Input Dims": "{call.shapes.replace(";", _JOIN)}"')
            parts.append(f'"Input type": "{(call.dtypes or "").replace(";", _JOIN)}"')
        if call.stack:
            parts.append(f'"Call stack": "{_JOIN.join(call.stack)}"')
        return ", ".join(parts)

    def _arrow(self, side: str, name: str, identity: str, pid: int, tid: int, ns: int, cat: str) -> str:
        return f'{{"ph": "{side}", "bp": "e", "name": "{name}", "id": {identity}, "pid": {pid}, "tid": {tid}, "ts": {self._ts(ns)}, "cat": "{cat}"}}'

    def _collections(self) -> Iterator[str]:
        pid = self._profile.pid
        if self._profile.collections:
            yield _name("process_name", pid + 1, 0, '"name": "Python GC"')
            yield _name("thread_name", pid + 1, pid, '"name": "Python GC"')
        for start, end in self._profile.collections:
            yield f'{{"ph": "X", "name": "GC", "pid": {pid + 1}, "tid": {pid}, "ts": {self._ts(start)}, "dur": {short(end - start)}, "cat": "GC"}}'

    def _python_names(self) -> Iterator[str]:
        profile = self._profile
        yield _name("process_name", profile.pid, 0, '"name": "Python"')
        yield _name("process_labels", profile.pid, 0, '"labels": "CPU"')
        yield _name("process_sort_index", profile.pid, 0, '"sort_index": 0')
        last = profile.backward_tid + 1
        for tid, index in (
            (profile.main_tid, profile.main_tid),
            (profile.backward_tid, profile.backward_tid),
            (profile.queue_tid, last),
        ):
            yield _name("thread_name", profile.pid, tid, f'"name": "Thread {tid}"')
            yield _name("thread_sort_index", profile.pid, tid, f'"sort_index": {index}')

    def _forward_backward(self) -> Iterator[str]:
        """Arrows between operators of one sequence number on two threads."""
        forward: dict[int, HostCall] = {}
        for call in self._profile.calls:
            if call.sequence < 0:
                continue
            if call.forward_tid == 0:
                forward[call.sequence] = call
            elif call.sequence in forward:
                start = forward[call.sequence]
                pid = self._profile.pid
                yield self._arrow("s", "fwdbwd", str(call.sequence), pid, start.tid, start.start_ns, "fwdbwd")
                yield self._arrow("f", "fwdbwd", str(call.sequence), pid, call.tid, call.start_ns, "fwdbwd")

    def _device_names(self) -> Iterator[str]:
        label = f"NPU {self._profile.device}" if self._new else "NPU"
        for name, index in self._sort.items():
            pid = self._pid[name]
            if name != "CANN" or self._job.level != "Level0":
                yield _device_name("process_name", pid, 0, f'"name": "{name}"')
            for tid, thread in self._threads(name):
                yield _device_name("thread_name", pid, tid, f'"name": "{thread}"')
                yield _device_name("thread_sort_index", pid, tid, f'"sort_index": {tid}')
            shown = "CPU" if name == "CANN" else label
            yield _device_name("process_labels", pid, 0, f'"labels": "{shown}"')
            yield _device_name("process_sort_index", pid, 0, f'"sort_index": {index}')

    def _threads(self, name: str) -> list[tuple[int, str]]:
        profile = self._profile
        if name == "CANN":
            return [(tid, f"Thread {tid}") for tid in (profile.queue_tid, profile.main_tid)]
        if name == "Ascend Hardware":
            streams = {task.stream for task in profile.tasks} | {comm.stream for comm in profile.comms}
            return [(stream, f"Stream {stream}") for stream in sorted(streams)]
        if name == "Overlap Analysis":
            return list(enumerate(_LANES))
        return self._planes() if name == self._hccl else []

    def _place_groups(self) -> None:
        """Thread of every group: its own row, then its planes, on from group to group."""
        tid = 0
        for group in self._profile.groups:
            self._group_tid[group.hash] = tid
            tid += 2 + self._last_plane(group.hash)

    def _last_plane(self, group: str) -> int:
        if self._job.level == "Level0":
            return 0
        mine = (comm for comm in self._profile.comms if comm.group.hash == group)
        return max((task.plane for comm in mine for task in comm.transfers), default=0)

    def _planes(self) -> list[tuple[int, str]]:
        rows: list[tuple[int, str]] = []
        for index, group in enumerate(self._profile.groups):
            tid = self._group_tid[group.hash]
            rows.append((tid, f"Group {group.hash if self._new else index} Communication"))
            rows += [(tid + 1 + plane, f"Plane {plane}") for plane in range(self._last_plane(group.hash) + 1)]
        return rows

    def _counters(self) -> Iterator[str]:
        for moment, mhz in frequencies(self._profile):
            yield self._counter("AI Core Freq", "AI Core Freq", moment, f'"MHz": {mhz}')
        for moment in samples(self._profile):
            kib = (APP_BYTES + moment % 3 * 1_048_576) // 1_024
            for name, value in (("DDR", 0), ("HBM", kib), ("Memory", kib)):
                for owner in ("APP", "Device"):
                    yield self._counter("NPU MEM", f"{owner}/{name}", moment, f'"KB": {value}.0')
            for channel in range(2):
                speed = hbm(self._profile, moment, channel)
                yield self._counter("HBM", f"HBM {channel}/Read", moment, f'"Read(MB/s)": {speed}.0')
                yield self._counter("HBM", f"HBM {channel}/Write", moment, f'"Write(MB/s)": {speed // 2}.0')
            flow = hbm(self._profile, moment, 5)
            yield self._counter("LLC", "LLC 0 Read/Throughput", moment, f'"Throughput(MB/s)": {flow}.0')
            yield self._counter("LLC", "LLC 0 Read/Hit Rate", moment, '"Hit Rate(%)": 0.84')

    def _counter(self, process: str, name: str, ns: int, args: str) -> str:
        return f'{{"name": "{name}", "ts": {self._ts(ns)}, "pid": {self._pid[process]}, "tid": 0, "args": {{{args}}}, "ph": "C"}}'

    def _cann(self) -> Iterator[str]:
        if self._job.level == "Level0":
            return
        pid = self._pid["CANN"]
        for call in self._profile.calls:
            layer = _LAYER.get(call.kind)
            if layer is None:
                continue
            level: str = call.kind
            if self._new and call.kind == "hccl":
                layer, level = "Communication", "communication"
            identity = call.name if call.kind == "acl" else "0"
            args = f'"Thread Id": {call.tid}, "Mode": "{call.dtypes}", "level": "{level}", "id": "{identity}", "item_id": {self._text(call.item)}, "connection_id": {call.number}'
            yield f'{{"name": "{layer}@{call.name}", "pid": {pid}, "tid": {call.tid}, "ts": {self._ts(call.start_ns)}, "dur": {short(call.end_ns - call.start_ns)}, "args": {{{args}}}, "ph": "X"}}'

    def _stream(self, name: str, task: Task | CommOp, kind: str, start: int, end: int, context: int) -> str:
        args = f'"Model Id": {NONE}, "Task Type": "{kind}", "Physic Stream Id": {task.stream}, "Task Id": {task.task_id}, "Batch Id": 0, "Subtask Id": {context}, "connection_id": {task.launch.connection}'
        if isinstance(task, Task) and task.kind == "copy" and self._job.level == "Level2":
            args += self._copied(task, end - start)
        return f'{{"name": {self._text(name)}, "pid": {self._pid["Ascend Hardware"]}, "tid": {task.stream}, "ts": {self._ts(start)}, "dur": {short(end - start)}, "args": {{{args}}}, "ph": "X"}}'

    def _copied(self, task: Task, ns: int) -> str:
        if self._new:
            return (
                f', "size(B)": {task.bytes}, "bandwidth(GB/s)": {task.bytes / ns:.4f}, "operation": "{task.direction}"'
            )
        return f', "data size(Byte)": {task.bytes}, "memcpy direction": "{task.direction}"'

    def _task(self, task: Task) -> Iterator[str]:
        yield self._stream(task.name, task, task.task_type, task.start_ns, task.end_ns, NONE)
        if task.kind == "event":
            return
        identity = str(task.launch.connection)
        if task.kind == "compute":
            identity = str((task.stream << 64) | (task.task_id << 48) | NONE)
        leaves = task.launch.api_ns if self._new or task.kind == "copy" else task.launch.node_ns
        yield from self._host_to_device(
            identity, task.launch, leaves, self._pid["Ascend Hardware"], task.stream, task.start_ns
        )

    def _host_to_device(
        self, identity: str, launch: Launch, leaves: int, pid: int, tid: int, start: int
    ) -> Iterator[str]:
        if self._new:
            identity = str(launch.connection << 32)
        name = f'"name": "HostToDevice{identity}"'
        yield f'{{{name}, "ph": "s", "cat": "HostToDevice", "id": "{identity}", "pid": {self._pid["CANN"]}, "tid": {launch.tid}, "ts": {self._ts(leaves)}}}'
        yield f'{{{name}, "ph": "f", "id": "{identity}", "ts": {self._ts(start)}, "cat": "HostToDevice", "pid": {pid}, "tid": {tid}, "bp": "e"}}'

    def _overlap(self) -> Iterator[str]:
        compute, comm = compute_spans(self._profile), comm_spans(self._profile)
        busy = merged(compute + comm)
        free = without([(busy[0][0], busy[-1][1])], busy) if busy else []
        pid = self._pid["Overlap Analysis"]
        for tid, spans in enumerate((compute, comm, without(comm, compute), free)):
            args = f', "args": {{"Analysis type": "{_LANES[tid]}"}}' if self._new else ""
            for start, end in spans:
                yield f'{{"name": "{_LANES[tid]}", "pid": {pid}, "tid": {tid}, "ts": {self._ts(start)}, "dur": {short(end - start)}{args}, "ph": "X"}}'

    def _comm(self, comm: CommOp) -> Iterator[str]:
        pid, tid = self._pid[self._hccl], self._group_tid[comm.group.hash]
        args = f'"connection_id": {comm.launch.connection}, "model id": {NONE}, "data_type": "{comm.dtype}", "alg_type": "{comm.algorithm}", "count": {comm.count}'
        if self._new:
            retry = "yes" if comm.retry else "no"
            args += f', "rank_size": {len(comm.group.members)}, "relay": "no", "retry": "{retry}"'
        yield f'{{"name": "{comm.name}", "pid": {pid}, "tid": {tid}, "ts": {self._ts(comm.start_ns)}, "dur": {short(comm.end_ns - comm.start_ns)}, "args": {{{args}}}, "ph": "X"}}'
        identity = str((comm.launch.connection << 32) - 1)
        yield from self._host_to_device(identity, comm.launch, comm.launch.api_ns, pid, tid, comm.start_ns)
        for task in comm.transfers:
            kind = stream_task(task)
            yield self._stream(kind, comm, kind, task.start_ns, task.end_ns, task.context)
            if self._job.level != "Level0":
                yield self._plane(comm, task, pid, tid + 1 + task.plane)

    def _plane(self, comm: CommOp, task: Transfer, pid: int, tid: int) -> str:
        ns = task.end_ns - task.start_ns
        args = f'"notify_id": "{task.notify}", "duration estimated(us)": {short(estimated(task))}, "stream id": {comm.stream}, "task id": {comm.task_id}, "context id": {task.context}, "task type": "{task.name}", "src rank": {task.src}, "dst rank": {task.dst}, "transport type": "{task.transport}", "size(Byte)": {task.bytes}, "data type": "{task.dtype}", "link type": "{task.link}", "bandwidth(GB/s)": {task.bytes / ns if ns else 0.0}, "model id": {NONE}'
        return f'{{"name": "{task.name}", "pid": {pid}, "tid": {tid}, "ts": {self._ts(task.start_ns)}, "dur": {short(ns)}, "args": {{{args}}}, "ph": "X"}}'

    def _torch_to_npu(self) -> Iterator[str]:
        hardware, hccl = self._pid["Ascend Hardware"], self._pid[self._hccl]
        rows = [
            (task.launch, task.start_ns, hardware, task.stream) for task in self._profile.tasks if task.kind != "event"
        ]
        rows += [(comm.launch, comm.start_ns, hccl, self._group_tid[comm.group.hash]) for comm in self._profile.comms]
        for launch, start, pid, tid in rows:
            identity = str(self._base + start)
            cat = "async_npu"
            yield self._arrow("s", "torch_to_npu", identity, self._profile.pid, launch.op_tid, launch.op_ns, cat)
            yield self._arrow("f", "torch_to_npu", identity, pid, tid, start, cat)


def _name(name: str, pid: int, tid: int, args: str) -> str:
    return f'{{"ph": "M", "name": "{name}", "pid": {pid}, "tid": {tid}, "args": {{{args}}}}}'


def _device_name(name: str, pid: int, tid: int, args: str) -> str:
    return f'{{"name": "{name}", "pid": {pid}, "tid": {tid}, "args": {{{args}}}, "ph": "M"}}'
