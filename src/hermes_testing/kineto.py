"""Writes one rank's capture as PyTorch's Kineto would on CUDA, ROCm or a machine without accelerator."""

from __future__ import annotations

import gzip
import json
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path

from hermes_testing.ascend_common import Options, epoch, short
from hermes_testing.job import Job
from hermes_testing.profile import CommOp, HostCall, Launch, Profile, Task

BASE_NS = 1_735_689_600_000_000_000
_GPU_STREAM = {2: 7}
_NCCL = {
    "all_reduce": "AllReduce_Sum_bf16_RING_LL", "all_gather": "AllGather_RING_LL",
    "reduce_scatter": "ReduceScatter_Sum_bf16_RING_LL", "all_to_all": "SendRecv", "send": "SendRecv", "recv": "SendRecv",
}  # fmt: skip
_COLLECTIVE = {
    "all_reduce": "allreduce", "all_gather": "_allgather_base", "reduce_scatter": "_reduce_scatter_base",
    "all_to_all": "all_to_allv", "send": "send", "recv": "recv",
}  # fmt: skip
_DTYPE = {"BFP16": "BFloat16", "FP32": "Float"}
_DEVICES = {
    # Times are those of the model whatever the device is: one that has a roof would be far below it, or above.
    "cuda": {
        "name": "NVIDIA modelled device",
        "totalGlobalMem": 85_018_279_936,
        "computeMajor": 9,
        "computeMinor": 0,
        "maxThreadsPerBlock": 1_024,
        "maxThreadsPerMultiprocessor": 2_048,
        "regsPerBlock": 65_536,
        "warpSize": 32,
        "sharedMemPerBlock": 49_152,
        "numSms": 132,
        "regsPerMultiprocessor": 65_536,
        "sharedMemPerBlockOptin": 232_448,
        "sharedMemPerMultiprocessor": 233_472,
    },
    "rocm": {
        "name": "AMD Instinct MI300X VF",
        "totalGlobalMem": 205_571_227_648,
        "computeMajor": 9,
        "computeMinor": 4,
        "maxThreadsPerBlock": 1_024,
        "maxThreadsPerMultiprocessor": 2_048,
        "regsPerBlock": 65_536,
        "warpSize": 64,
        "sharedMemPerBlock": 65_536,
        "numSms": 304,
        "maxSharedMemoryPerMultiProcessor": 65_536,
    },
}
# `torch/_dynamo/utils.py` marks each phase of a compilation by a range of its name.
_COMPILE = ("_compile.compile_inner", "OutputGraph.call_user_compiler", "compile_fx.<locals>.fw_compiler_base")
_CBID = {"LaunchKernel": 211, "MemcpyAsync": 41, "StreamSynchronize": 131}
_COPIES = {
    "host to device": ("Memcpy HtoD (Pageable -> Device)", "HtoD"),
    "device to host": ("Memcpy DtoH (Device -> Pageable)", "DtoH"),
}


def write_kineto(folder: Path, job: Job, profile: Profile, options: Options) -> Path:
    """Write `rank{r}.pt.trace.json`, packed as `.gz` if so asked; returns its path."""
    trace = _Trace(job, profile, options)
    head = json.dumps(trace.header(), indent=2)[:-2]
    tail = f'"traceName": "rank{profile.rank}.pt.trace.json",\n  "displayTimeUnit": "ms",\n'
    tail += f'  "baseTimeNanoseconds": {BASE_NS}\n}}\n'
    events = ",\n  ".join(trace.events())
    text = f'{head},\n  "traceEvents": [\n  {events}\n  ],\n  {tail}'
    path = folder / f"rank{profile.rank}.pt.trace.json{'.gz' if options.packed else ''}"
    # No time and no name in the gzip header: the same job gives the same bytes.
    path.write_bytes(gzip.compress(text.encode(), 6, mtime=0) if options.packed else text.encode())
    return path


class _Trace:
    def __init__(self, job: Job, profile: Profile, options: Options) -> None:
        self._job, self._profile, self._device = job, profile, options.device
        self._unnamed = {} if options.roof else {"name": "modelled device"}
        self._base = epoch(profile, 0) - BASE_NS
        self._prefix = "hip" if options.device == "rocm" else "cuda"
        self._external: dict[tuple[int, int], int] = {}
        self._compiled = _compiled(profile)
        self._names = {
            group.hash: str(index) for index, group in enumerate(profile.groups)
        }  # a process group is named by a number

    def header(self) -> dict[str, object]:
        """Everything before the events."""
        gpu = self._device != "cpu"
        head: dict[str, object] = {
            "schemaVersion": 1,
            "deviceProperties": [{"id": self._profile.device, **_DEVICES[self._device], **self._unnamed}]
            if gpu
            else [],
        }
        if self._device == "cuda":
            head |= {"cuda_runtime_version": 12_040, "cupti_version": 22, "cuda_driver_version": 12_090}
        if self._device == "rocm":
            head |= {
                "hip_runtime_version": 60_443_483,
                "hip_driver_version": 60_443_483,
                "roctracer_version": 4.1,
            }
        head["distributedInfo"] = {
            "backend": "nccl" if gpu else "gloo",
            "rank": self._profile.rank,
            "world_size": self._job.ranks,
            "pg_count": len(self._profile.groups),
            "pg_config": [
                {
                    "pg_name": self._names[group.hash],
                    "pg_desc": group.name,
                    "backend_config": "cpu:gloo,cuda:nccl" if gpu else "cpu:gloo,cuda:gloo",
                    "pg_size": len(group.members),
                    "ranks": list(group.members),
                }
                for group in self._profile.groups
            ],
        }
        stacks = int(self._job.stacks)
        return head | {"record_shapes": 1, "with_modules": stacks, "with_flops": 0, "with_stack": stacks}

    def events(self) -> Iterator[str]:
        """Every event, host first."""
        yield from self._calls()
        if self._device == "cpu":
            for comm in self._profile.comms:
                yield self._gloo(comm)
        else:
            yield from self._memory()
            yield from self._blocking()
            for task in self._profile.tasks:
                if task.kind != "event":
                    yield from self._task(task)
            for comm in self._profile.comms:
                yield from self._comm(comm)
        yield from self._names_of_threads()
        end = _span(self._base, self._profile.end_ns)
        yield f'{{"ph": "X", "cat": "Trace", {end}, "pid": "Spans", "tid": "PyTorch Profiler", "name": "PyTorch Profiler (0)", "args": {{"Op count": 0}}}}'
        yield f'{{"name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g", "pid": "Traces", "tid": "Trace PyTorch Profiler", "ts": {short(self._base)}}}'

    def _calls(self) -> Iterator[str]:
        """What runs on the host."""
        for index, call in enumerate(self._profile.calls):
            if call.kind in ("op", "step"):
                yield self._op(call, index)
            elif call.kind == "python" and self._job.stacks:
                yield self._python(call)
            elif call.name == "opCompile":
                yield from self._compile(call)
        if self._job.stacks:
            yield from self._collections()

    def _x(self, cat: str, name: str, pid: int, tid: int, start: int, end: int, args: str) -> str:
        return f'{{"ph": "X", "cat": "{cat}", "name": {json.dumps(name)}, "pid": {pid}, "tid": {tid}, {_span(self._base + start, end - start)}, "args": {{{args}}}}}'

    def _op(self, call: HostCall, index: int) -> str:
        number = len(self._external) + 1
        self._external[call.tid, call.start_ns] = number
        args = f'"External id": {number}, "Record function id": 0'
        if call.shapes is not None:
            tensors = call.shapes.split(";")
            kinds = (call.dtypes or "").split(";")
            dims = ", ".join(f"[{tensor.replace(',', ', ')}]" for tensor in tensors)
            empty = ", ".join('""' for _ in tensors)
            strides = "" if self._device == "cpu" else f', "Input Strides": [{", ".join("[]" for _ in tensors)}]'
            args += (
                f', "Concrete Inputs": [{empty}], "Input type": {json.dumps(kinds)}{strides}, "Input Dims": [{dims}]'
            )
        if call.sequence >= 0:
            args += f', "Sequence number": {call.sequence}, "Fwd thread id": {call.forward_tid}'
        args += f', "Ev Idx": {index}'
        cat = "user_annotation" if call.kind == "step" or call.name.startswith("Optimizer.") else "cpu_op"
        return self._x(cat, call.name, self._profile.pid, call.tid, call.start_ns, call.end_ns, args)

    def _python(self, call: HostCall) -> str:
        parent = call.parent or "null"
        module = ', "Python module id": 0' if call.name.startswith("nn.Module") else ""
        args = f'"Python parent id": {parent}, "Python id": {call.number}{module}, "Ev Idx": {call.number}'
        pid = self._profile.pid
        return self._x("python_function", call.name, pid, call.tid, call.start_ns, call.end_ns, args)

    def _collections(self) -> Iterator[str]:
        """What PyTorch writes from 2.9 on when it records stacks and is asked for collections."""
        for index, (start, end) in enumerate(self._profile.collections):
            pid, tid = self._profile.pid, self._profile.main_tid
            yield self._x("python_function", "Python GC", pid, tid, start, end, f'"Ev Idx": {1_000_000 + index}')

    def _compile(self, call: HostCall) -> Iterator[str]:
        """The ranges of Dynamo around a compilation: each encloses the next."""
        inset = (call.end_ns - call.start_ns) // 20
        for depth, name in enumerate(_COMPILE):
            start, end = call.start_ns + depth * inset, call.end_ns - depth * inset
            args = f'"External id": 0, "Record function id": 0, "Ev Idx": {2_000_000 + call.number}'
            yield self._x("user_annotation", f"{name} (dynamo_timed)", self._profile.pid, call.tid, start, end, args)

    def _gloo(self, comm: CommOp) -> str:
        args = f'"External id": 0, "Record function id": 0, "Concrete Inputs": [""], "Input type": ["float"], "Input Dims": [[{comm.count}]], "Ev Idx": 0'
        tid = self._profile.pid + 2_000 + comm.stream
        name = f"gloo:{comm.op}"
        return self._x("user_annotation", name, self._profile.pid, tid, comm.start_ns, comm.end_ns, args)

    def _memory(self) -> Iterator[str]:
        for index, block in enumerate(self._profile.blocks):
            for ns, size in ((block.alloc_ns, block.bytes), (block.release_ns, -block.bytes)):
                if ns is not None:
                    args = f'"Total Reserved": 25769803776, "Total Allocated": 12884901888, "Bytes": {size}, "Addr": {140_000_000_000_000 + index * 4_096}, "Device Id": {self._profile.device}, "Device Type": {6 if self._device == "rocm" else 1}, "Ev Idx": {index}'
                    yield f'{{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": {self._profile.pid}, "tid": {self._profile.main_tid}, "ts": {short(self._base + ns)}, "args": {{{args}}}}}'

    def _blocking(self) -> Iterator[str]:
        """Calls that wait for the device."""
        for call in self._profile.calls:
            if call.name == "aclrtSynchronizeStreamWithTimeout":
                yield self._runtime("StreamSynchronize", call.tid, call.start_ns, call.end_ns, call.number, 0, "")
                yield self._arrow("s", call.number, self._profile.pid, call.tid, call.start_ns)

    def _runtime(self, name: str, tid: int, start: int, end: int, number: int, external: int, extra: str) -> str:
        head = f'"External id": {external}, ' if external else ""
        key = "cid" if self._device == "rocm" else "cbid"
        args = f'{head}"{key}": {_CBID[name]}, "correlation": {number}{extra if self._device == "rocm" else ""}'
        return self._x("cuda_runtime", self._prefix + name, self._profile.pid, tid, start, end, args)

    def _arrow(self, side: str, number: int, pid: int, tid: int, start: int) -> str:
        bound = ', "bp": "e"' if side == "f" else ""
        return f'{{"ph": "{side}", "id": {number}, "pid": {pid}, "tid": {tid}, "ts": {short(self._base + start)}, "cat": "ac2g", "name": "ac2g"{bound}}}'

    def _launched(self, api: str, launch: Launch, extra: str, stream: int, start: int) -> Iterator[str]:
        """The runtime call, and the arrow to the device; right where the operator enqueued the task, if it did."""
        begun, done = launch.node_ns, launch.ready_ns - 3_000
        if self._job.task_queue:
            # What was compiled in the operator had to be there first.
            after = self._compiled_in(launch, start)
            begun, done = after + 1_000, after + 5_000
        external = self._external.get((launch.op_tid, launch.op_ns), 0)
        number, tid = launch.connection, launch.op_tid
        yield self._runtime(api, tid, begun, done, number, external, extra)
        yield self._arrow("s", number, self._profile.pid, tid, begun)
        yield self._arrow("f", number, self._profile.device, stream, start)

    def _compiled_in(self, launch: Launch, start: int) -> int:
        """When the operator of a launch could enqueue it: at once, or when what it had to compile was there."""
        inside = self._compiled.get((launch.op_tid, launch.op_ns), launch.op_ns)
        return inside if inside < start else launch.op_ns

    def _task(self, task: Task) -> Iterator[str]:
        stream = _GPU_STREAM.get(task.stream, task.stream + 10)
        device, number = self._profile.device, task.launch.connection
        external = self._external.get((task.launch.op_tid, task.launch.op_ns), 0)
        ns = task.end_ns - task.start_ns
        ids = f'"External id": {external}'
        at = f'"stream": {stream}, "correlation": {number}'
        if task.kernel is None:
            name, kind = _COPIES[task.direction]
            amount = f'"bytes": {task.bytes}, "memory bandwidth (GB/s)": {task.bytes / ns}'
            middle = f'{at}, "kind": "{kind}"' if self._device == "rocm" else f'"context": 1, {at}'
            args = f'{ids}, "device": {device}, {middle}, {amount}'
            yield self._x("gpu_memcpy", name, device, stream, task.start_ns, task.end_ns, args)
            extra = f', "src": "0x7f00", "dst": "0x7f80", "bytes": "{task.bytes}", "kind": "2"'
            yield from self._launched("MemcpyAsync", task.launch, extra, stream, task.start_ns)
            return
        grid = f'"grid": [{task.kernel.blocks * 8}, 1, 1], "block": [128, 1, 1]'
        name = task.kernel.cuda
        args = self._kernel_args(ids, at, grid)
        yield self._x("kernel", name, device, stream, task.start_ns, task.end_ns, args)
        extra = f', "kernel": {json.dumps(name)}, {grid}, "shared memory": 0'
        yield from self._launched("LaunchKernel", task.launch, extra, stream, task.start_ns)

    def _kernel_args(self, ids: str, at: str, grid: str) -> str:
        device = self._profile.device
        if self._device == "rocm":
            return f'{ids}, "device": {device}, {at}, "kind": "Dispatch Kernel", {grid}'
        return f'{ids}, "queued": 0, "device": {device}, "context": 1, {at}, "registers per thread": 32, "shared memory": 0, "blocks per SM": 8.0, "warps per SM": 32.0, {grid}, "est. achieved occupancy %": 50'

    def _comm(self, comm: CommOp) -> Iterator[str]:
        stream = comm.stream + 20
        name = f"ncclDevKernel_{_NCCL[comm.op]}(ncclDevKernelArgsStorage<4096ul>)"
        external = self._external.get((comm.launch.op_tid, comm.launch.op_ns), 0)
        members = ", ".join(map(str, comm.group.members))
        sent = comm.count * (len(comm.group.members) if comm.op == "reduce_scatter" else 1)
        received = comm.count * (len(comm.group.members) if comm.op == "all_gather" else 1)
        at = f'"stream": {stream}, "correlation": {comm.launch.connection}'
        args = self._kernel_args(f'"External id": {external}', at, '"grid": [24, 1, 1], "block": [544, 1, 1]')
        args += f', "Collective name": "{_COLLECTIVE[comm.op]}", "dtype": "{_DTYPE[comm.dtype]}", "In msg nelems": {sent}, "Out msg nelems": {received}, "Group size": {len(comm.group.members)}, "Process Group Name": "{self._names[comm.group.hash]}", "Process Group Description": "{comm.group.name}", "Process Group Ranks": "[{members}]"'
        yield self._x("kernel", name, self._profile.device, stream, comm.start_ns, comm.end_ns, args)
        extra = f', "kernel": "{name}", "grid": [24, 1, 1], "block": [544, 1, 1], "shared memory": 0'
        yield from self._launched("LaunchKernel", comm.launch, extra, stream, comm.start_ns)

    def _names_of_threads(self) -> Iterator[str]:
        profile = self._profile
        rows: list[tuple[str, int, int, str]] = [
            ("process_name", profile.pid, 0, '"name": "python3"'),
            ("process_labels", profile.pid, 0, '"labels": "CPU"'),
            ("process_sort_index", profile.pid, 0, f'"sort_index": {profile.pid}'),
        ]
        if self._device != "cpu":
            device = profile.device
            rows += [
                ("process_name", device, 0, '"name": "python3"'),
                ("process_labels", device, 0, f'"labels": "GPU {device}"'),
                ("process_sort_index", device, 0, f'"sort_index": {5_000_000 + device}'),
            ]
        for tid in (profile.main_tid, profile.backward_tid):
            rows.append(("thread_name", profile.pid, tid, f'"name": "thread {tid} (python3)"'))
            rows.append(("thread_sort_index", profile.pid, tid, f'"sort_index": {tid}'))
        for name, pid, tid, args in rows:
            yield f'{{"name": "{name}", "ph": "M", "ts": {short(self._base)}, "pid": {pid}, "tid": {tid}, "args": {{{args}}}}}'


def _compiled(profile: Profile) -> dict[tuple[int, int], int]:
    """For each operator that compiled, by its thread and start, when that was done."""
    compiled: dict[int, list[tuple[int, int]]] = {}
    for call in profile.calls:
        if call.name == "opCompile":
            compiled.setdefault(call.tid, []).append((call.start_ns, call.end_ns))
    found: dict[tuple[int, int], int] = {}
    for call in profile.calls:
        own = compiled.get(call.tid, []) if call.kind == "op" else []
        at = bisect_left(own, (call.start_ns, 0))
        if at < len(own) and own[at][1] <= call.end_ns:
            found[call.tid, call.start_ns] = own[at][1]
    return found


def _span(start: int, lasts: int) -> str:
    return f'"ts": {short(start)}, "dur": {short(lasts)}'
