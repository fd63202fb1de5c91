"""The simulated host of one rank: carries out its program, and hands tasks to the device."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Generator, Sequence

from hermes_testing.device import Devices, Joint, Pending
from hermes_testing.effects import Effects
from hermes_testing.instructions import (
    Accumulate,
    Await,
    Collect,
    Communicate,
    Enter,
    Instruction,
    Item,
    Leave,
    Load,
    Run,
)
from hermes_testing.job import Job
from hermes_testing.launcher import Launcher
from hermes_testing.model import BATCH_BYTES, ITEM_BYTES
from hermes_testing.noise import Noise
from hermes_testing.profile import Block, Kernel, Launch, Profile, StepMark
from hermes_testing.program import Program

COMPUTE_STREAM = 2
_CORE_TASK = {"AI_CORE": "AI_CORE", "AI_VECTOR_CORE": "AI_CORE", "MIX_AIC": "MIX_AIC", "AI_CPU": "AI_CPU"}
_HCCL = {
    "all_reduce": "allReduce", "all_gather": "allGather", "reduce_scatter": "reduceScatter",
    "all_to_all": "alltoallv", "send": "send", "recv": "receive",
}  # fmt: skip

Blocked = Generator[int, int, None]
"""Yields the stream it waits for; is sent the moment at which that stream ran dry."""


class Host:
    """Carries out the program of one rank; `main` is a coroutine that blocks on the device."""

    def __init__(self, job: Job, effects: Effects, profile: Profile, devices: Devices, program: Program) -> None:
        self._job, self._effects, self._profile, self._devices = job, effects, profile, devices
        self._program = program
        self._launcher = Launcher(
            profile, job.level, task_queue=job.task_queue, noise=Noise(job.seed, profile.rank, job.noise)
        )
        self._step = job.first_step
        self._jitter = random.Random(f"{job.seed}/{profile.rank}")
        self._sequence = 1_000
        self._pairs: dict[str, tuple[int, Block]] = {}
        self._events = 0
        self._handles: dict[str, list[int]] = {}
        self._counts: defaultdict[tuple[object, ...], int] = defaultdict(int)

    def main(self) -> Blocked:
        """All steps."""
        host = self._launcher
        host.clock = 2_000_000
        for step in self._job.step_numbers:
            self._step = step
            host.percent = self._effects.host_percent(self._profile.rank, step)
            self._jitter.seed(f"{self._job.seed}/{self._profile.rank}/{step}")
            host.noise.begin(step)
            self._profile.frequency.append((host.clock, self._effects.mhz(self._profile.rank, step)))
            used = host.slow_ns
            opened = host.open(f"ProfilerStep#{step}", "step")
            started = host.clock
            host.spend(60_000)
            for instruction in self._program.step(step):
                yield from self._carry_out(instruction)
            host.spend(40_000)
            host.close(opened)
            self._profile.steps.append(StepMark(number=step, start_ns=started, end_ns=host.clock))
            for kind in ("slow_rank_host", "host_bound_dispatch"):
                self._effects.add(kind, self._profile.rank, step, host.slow_ns - used)
            host.clock += 30_000
        self._profile.end_ns = host.clock + 5_000_000

    def _carry_out(self, instruction: Instruction) -> Blocked:
        if isinstance(instruction, Run):
            self._run(instruction)
        elif isinstance(instruction, Communicate):
            self._communicate(instruction)
        elif isinstance(instruction, Await):
            self._await(instruction)
        elif isinstance(instruction, Accumulate):
            self._accumulate(instruction)
        elif isinstance(instruction, Item):
            yield from self._item(instruction)
        elif isinstance(instruction, Load):
            self._load()
        elif isinstance(instruction, Collect):
            self._collect()
        else:
            self._range(instruction)

    def _range(self, instruction: Enter | Leave) -> None:
        if isinstance(instruction, Leave):
            self._launcher.leave()
        elif instruction.kind == "range":
            self._launcher.enter(instruction.name, "op")
        else:
            self._launcher.enter(instruction.name, "python" if self._job.stacks else "")

    def _load(self) -> None:
        """Wait for the DataLoader, then copy the batch to the device."""
        host, rank = self._launcher, self._profile.rank
        late = 1_000 * self._effects.amount("data_wait", rank, self._step)
        self._effects.add("data_wait", rank, self._step, late)
        opened = host.open("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "op")
        host.spend(180_000)
        host.clock += late
        host.close(opened)
        opened = host.open("aten::copy_", "op", shapes="4096;4096;", dtypes="long int;long int;Scalar")
        launch = host.launch("acl_memcpy_host_to_device", "aclrtMemcpyAsync", "ACL_RTS", step=self._step)
        self._push(
            COMPUTE_STREAM,
            Pending(
                launch=launch,
                name="MEMCPY_ASYNC",
                task_type="PCIE_DMA_SQE",
                lasts_ns=6_000 + BATCH_BYTES // 16,
                bytes=BATCH_BYTES,
                direction="host to device",
            ),
        )
        host.close(opened)

    def _collect(self) -> None:
        host, rank = self._launcher, self._profile.rank
        lasts = 1_000 * self._effects.amount("gc_pause", rank, self._step)
        self._effects.add("gc_pause", rank, self._step, lasts)
        self._profile.collections.append((host.clock, host.clock + lasts))
        host.clock += lasts

    def _item(self, item: Item) -> Blocked:
        """`aten::item`: copy four bytes back, and wait for the stream."""
        host = self._launcher
        host.use(item.phase)
        outer = host.open("aten::item", "op", shapes="1", dtypes="float")
        host.spend(4_000)
        inner = host.open("aten::_local_scalar_dense", "op", shapes="1", dtypes="float")
        launch = host.launch("acl_memcpy_device_to_host", "aclrtMemcpyAsync", "ACL_RTS", step=self._step)
        self._push(
            COMPUTE_STREAM,
            Pending(
                launch=launch,
                name="MEMCPY_ASYNC",
                task_type="PCIE_DMA_SQE",
                lasts_ns=2_300,
                bytes=ITEM_BYTES,
                direction="device to host",
            ),
        )
        begun = host.clock
        drained = yield COMPUTE_STREAM
        host.wait_until(drained + 4_000)
        if item.extra:
            self._effects.add("synchronisation_calls", self._profile.rank, self._step, host.clock - begun)
        host.close(inner)
        host.spend(3_000)
        host.close(outer)

    def _run(self, run: Run) -> None:
        host = self._launcher
        host.use(run.phase)
        if run.phase == "backward":
            self._run_backward(run)
            return
        kernel = run.kernels[0]
        sequence = self._next_sequence() if run.pair else -1
        outer = host.open(run.op, "op", shapes=kernel.inputs, dtypes=_types(kernel.dtypes), sequence=sequence)
        host.spend(16_000)
        inner = None
        if run.inner != run.op:
            shapes = _bias_first(kernel.inputs) if run.inner == "aten::addmm" else kernel.inputs
            inner = host.open(run.inner, "op", shapes=shapes, dtypes=_types(kernel.dtypes))
        host.spend(18_000)
        self._allocate(run, kernel, sequence)
        self._launch(kernel, extra=run.extra)
        host.spend(10_000)
        if inner is not None:
            host.close(inner)
        host.close(outer)
        host.spend(20_000)

    def _run_backward(self, run: Run) -> None:
        host = self._launcher
        sequence, block = self._pairs.pop(run.pair)
        engine = host.open(f"autograd::engine::evaluate_function: {run.node}", "op")
        host.spend(6_000)
        first = run.kernels[0].inputs if run.kernels else ""
        node = host.open(
            run.node,
            "op",
            shapes=first.split(";")[0],
            dtypes="float",
            sequence=sequence,
            forward_tid=1,
        )
        host.spend(12_000)
        for kernel in run.kernels:
            opened = host.open(kernel.inner, "op", shapes=kernel.inputs, dtypes=_types(kernel.dtypes))
            host.spend(14_000)
            self._launch(kernel, extra="")
            host.spend(10_000)
            host.close(opened)
        host.close(node)
        self._profile.blocks.append(
            Block(name=block.name, bytes=block.bytes, alloc_ns=block.alloc_ns, release_ns=host.clock)
        )
        host.close(engine)
        host.spend(8_000)

    def _launch(self, kernel: Kernel, *, extra: str, joint: Joint | None = None) -> None:
        """Enqueue a kernel, launch it from the queue thread, put it on the compute stream."""
        host, rank = self._launcher, self._profile.rank
        base = (
            kernel.base_ns if extra else kernel.base_ns + kernel.base_ns * (self._jitter.getrandbits(6) - 32) // 1_600
        )
        lasts = self._effects.kernel_ns(rank, self._step, base if extra else host.noise.device_ns(base))
        compiles = extra == "recompilation"
        if compiles:
            self._effects.add("recompilation", rank, self._step, host.COMPILE_NS)
        if extra == "ai_cpu_operators":
            self._effects.add("ai_cpu_operators", rank, self._step, lasts)
        launch = host.launch(
            kernel.api,
            "aclopCompileAndExecute" if compiles else kernel.api,
            "ACL_OP" if compiles else "ACL_NN",
            step=self._step,
            node=kernel.name,
        )
        self._push(
            COMPUTE_STREAM,
            Pending(
                launch=launch,
                name=kernel.name,
                task_type=_CORE_TASK[kernel.core],
                lasts_ns=lasts,
                kernel=kernel,
                joint=joint,
            ),
        )

    def _communicate(self, instruction: Communicate) -> None:
        """Record an event, let the communication stream wait for it, launch; then wait or leave a handle."""
        host = self._launcher
        host.use(instruction.phase)
        if instruction.fused is not None:
            opened = host.open(instruction.fused.op, "op", shapes=instruction.fused.inputs)
            host.spend(14_000)
            self._launch(instruction.fused, extra="", joint=self._joint(instruction))
            host.close(opened)
            return
        ready = self._record(COMPUTE_STREAM)
        self._wait(instruction.stream, ready)
        hccl = _HCCL[instruction.op]
        outer = host.open(
            f"c10d::{_FRAMEWORK[instruction.op]}",
            "op",
            shapes=";;;;",
            dtypes="TensorList;None;None;None;Scalar",
        )
        host.spend(8_000)
        inner = host.open(f"Hccl{hccl.capitalize()}", "op", shapes=str(instruction.bytes // 2), dtypes="float")
        launch = host.launch(
            f"Hccl{hccl.capitalize()}", f"hcom_{hccl}_", "HOST_HCCL", step=self._step, node=f"hcom_{hccl}_"
        )
        self._push(
            instruction.stream,
            Pending(launch=launch, name=f"hcom_{hccl}_", task_type="HCCL", joint=self._joint(instruction)),
        )
        host.close(inner)
        host.close(outer)
        done = self._record(instruction.stream)
        if instruction.handle:
            self._handles.setdefault(instruction.handle, []).append(done)
        else:
            self._wait(COMPUTE_STREAM, done)

    def _joint(self, instruction: Communicate) -> Joint:
        """The operation that this rank shares with others: the same count of the same group or pair."""
        rank, group, peer = self._profile.rank, instruction.group, instruction.peer
        sides = None
        key: tuple[object, ...] = (group.hash,)
        if peer is not None:
            sides = (rank, peer) if instruction.op == "send" else (peer, rank)
            key = (group.hash, *sides, instruction.phase)
        self._counts[key] += 1
        key = (*key, self._counts[key])
        made = Joint(key=key, op=instruction.op, group=group, bytes=instruction.bytes, step=self._step, sides=sides)
        return self._devices.joint(key, made)

    def _await(self, instruction: Await) -> None:
        self._launcher.use(instruction.phase)
        for event in self._handles.pop(instruction.handle, ()):
            self._wait(COMPUTE_STREAM, event)

    def _accumulate(self, instruction: Accumulate) -> None:
        host = self._launcher
        host.use("backward")
        engine = host.open("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", "op")
        host.spend(2_000)
        node = host.open("torch::autograd::AccumulateGrad", "op", shapes=instruction.shape, dtypes="c10::BFloat16")
        host.spend(3_000)
        host.close(node)
        host.close(engine)

    def _record(self, stream: int) -> int:
        self._events += 1
        launch = self._event_call("record_event", "aclrtRecordEvent")
        self._push(
            stream,
            Pending(launch=launch, name="EVENT_RECORD", task_type="EVENT_RECORD_SQE", event=self._events),
        )
        return self._events

    def _wait(self, stream: int, event: int) -> None:
        launch = self._event_call("wait_event", "aclrtStreamWaitEvent")
        self._push(
            stream,
            Pending(launch=launch, name="EVENT_WAIT", task_type="EVENT_WAIT_SQE", event=event, waits=True),
        )

    def _event_call(self, name: str, api: str) -> Launch:
        host = self._launcher
        opened = host.open(name, "op")
        launch = host.launch(name, api, "ACL_RTS", step=self._step)
        host.close(opened)
        return launch

    def _push(self, stream: int, task: Pending) -> None:
        self._devices.push(self._profile.rank, stream, task)

    def _next_sequence(self) -> int:
        self._sequence += 1
        return self._sequence

    def _allocate(self, run: Run, kernel: Kernel, sequence: int) -> None:
        """Keep the output of a forward operator until its backward ran; free any other at once."""
        now = self._launcher.clock
        size = -(-max(512, kernel.output_bytes) // 512) * 512
        if run.pair:
            self._pairs[run.pair] = (
                sequence,
                Block(name=run.inner, bytes=size, alloc_ns=now, release_ns=None),
            )
        else:
            self._profile.blocks.append(Block(name=run.inner, bytes=size, alloc_ns=now, release_ns=now + 21_000))

    def held(self) -> Sequence[Block]:
        """Blocks that are still held."""
        return [block for _, block in self._pairs.values()]


_FRAMEWORK = {
    "all_reduce": "allreduce_", "all_gather": "_allgather_base_", "reduce_scatter": "_reduce_scatter_base_",
    "all_to_all": "alltoall_base_", "send": "send", "recv": "recv_",
}  # fmt: skip
_FRAMEWORK_TYPE = {"DT_BF16": "c10::BFloat16", "FLOAT": "float", "INT64": "long int"}


def _bias_first(shapes: str) -> str:
    """The shapes of a product with bias, which CANN's kernel takes last, in the order of `aten::addmm`."""
    left, right, bias = shapes.split(";")
    return f"{bias};{left};{right}"


def _types(dtypes: str) -> str:
    return ";".join(_FRAMEWORK_TYPE[dtype] for dtype in dtypes.split(";"))
