"""What one rank does in one step, as a list of instructions that the simulated host carries out in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from hermes_testing.buckets import Filling, accumulated
from hermes_testing.effects import Effects
from hermes_testing.faults import FaultKind
from hermes_testing.instructions import Await, Collect, Communicate, Enter, Instruction, Item, Leave, Load, Phase, Run
from hermes_testing.job import HIDDEN, Group, Job
from hermes_testing.model import (
    AI_CPU_KERNEL,
    CONVOLUTION,
    LINEAR_FROM_PARTS,
    NORMS,
    OPTIMIZER,
    VECTOR_ON_CUBE,
    Model,
    embedding_bytes,
    gradient_bytes,
)
from hermes_testing.profile import Kernel
from hermes_testing.sharding import Units

_PLANTED: dict[FaultKind, tuple[Kernel, ...]] = {
    "unfused_conv_bn_relu": CONVOLUTION,
    "unfused_linear_bias_gelu": LINEAR_FROM_PARTS,
    "vector_on_cube": (VECTOR_ON_CUBE,),
}
"""Kernels that a fault puts into a step, in a row, as often as its amount says."""


class Program:
    """The instructions of one rank, step by step."""

    def __init__(self, job: Job, effects: Effects, rank: int, groups: tuple[Group, ...]) -> None:
        self._job, self._effects, self._rank = job, effects, rank
        self._place = job.place(rank)
        self._model = Model(job.tp, job.tokens)
        self._groups = {group.name: group for group in groups if rank in group.members}
        self._extras: list[tuple[Instruction, ...]] = []
        self._slots = 0
        self._units: Units | None = None

    def step(self, step: int) -> list[Instruction]:
        """All instructions of a step, the faults that insert some included."""
        more = self._effects.amount("uneven_batches", self._rank, step)
        self._model = Model(self._job.tp, self._job.tokens * (100 + more) // 100)
        self._plan_extras(step)
        if self._job.sharded:
            self._units = Units(self._job, self._groups["dp"], self._effects.stage_layers(self._rank, step))
        instructions: list[Instruction] = [Enter(name="train.py(88): train_step", kind="frame")]
        if self._effects.amount("gc_pause", self._rank, step):
            instructions.append(Collect())
        handles: list[Instruction] = []
        for pass_, batch in one_f_one_b(self._place.pp, self._job.pp, self._job.batches):
            if pass_ == "F":
                instructions.extend(self._forward(step, batch))
            else:
                instructions.extend(self._backward(step, batch, handles))
        instructions.extend(self._finish(handles))
        return [*instructions, Leave()]

    def _plan_extras(self, step: int) -> None:
        """Instructions that faults insert, to be spread evenly over the layers of the step."""
        amount = self._effects.amount
        items = amount("synchronisation_calls", self._rank, step)
        ai_cpu = amount("ai_cpu_operators", self._rank, step)
        compiled = amount("recompilation", self._rank, step)
        run = Run(
            op=AI_CPU_KERNEL.op,
            inner=AI_CPU_KERNEL.inner,
            kernels=(AI_CPU_KERNEL,),
            phase="forward",
            extra="ai_cpu_operators",
        )
        norm = self._model.residual[0]
        fresh = Run(op=norm.op, inner=norm.inner, kernels=(norm,), phase="forward", extra="recompilation")
        item = Item(phase="forward", extra="synchronisation_calls")
        self._extras = [*[(item,)] * items, *[(run,)] * ai_cpu, *[(fresh,)] * compiled]
        for kind, kernels in _PLANTED.items():
            rows = tuple(Run(op=one.op, inner=one.inner, kernels=(one,), phase="forward") for one in kernels)
            self._extras += [rows] * amount(kind, self._rank, step)
        self._slots = self._effects.stage_layers(self._rank, step) * self._job.batches

    def _slot(self) -> list[Instruction]:
        """The share of the inserted instructions that falls to the next forward layer."""
        take = -(-len(self._extras) // self._slots) if self._slots else 0
        here, self._extras = self._extras[:take], self._extras[take:]
        self._slots -= 1
        return [instruction for rows in here for instruction in rows]

    def _forward(self, step: int, batch: int) -> Iterator[Instruction]:
        stage, last, units = self._place.pp, self._place.pp == self._job.pp - 1, self._units
        yield Load()
        if units is not None:
            yield from units.begin("forward", batch, 0)
        if stage:
            yield self._p2p("recv", -1, "forward")
        else:
            yield from self._runs(self._model.embedding, f"{batch}/embedding")
        for layer in range(self._effects.stage_layers(self._rank, step)):
            yield Enter(name=f"nn.Module: Block_{layer}", kind="module")
            if units is not None and (unit := units.starts(layer)) is not None:
                yield from units.begin("forward", batch, unit)
            key = f"{batch}/{layer}"
            yield from self._runs(self._model.attention, f"{key}/attention")
            yield from self._reduce("tp", "forward")
            yield from self._exchange("forward")
            yield from self._runs(self._model.mlp, f"{key}/mlp")
            yield from self._exchange("forward")
            yield from self._reduce("tp", "forward")
            yield from self._runs(self._model.residual, f"{key}/residual")
            yield from self._slot()
            yield Leave()
        if last:
            yield from self._runs(self._model.loss, f"{batch}/loss")
        else:
            yield self._p2p("send", 1, "forward")

    def _backward(self, step: int, batch: int, handles: list[Instruction]) -> Iterator[Instruction]:
        """The backward pass; launches gradient buckets in the last micro-batch and appends their `Await`s."""
        final = batch == self._job.batches - 1
        late: list[Communicate] = []
        exposed = bool(self._effects.amount("exposed_all_reduce", self._rank, step))
        for instruction in self._with_buckets(step, batch, final=final):
            bucket = isinstance(instruction, Communicate) and instruction.handle.startswith("grad")
            if isinstance(instruction, Communicate) and bucket:
                late.append(instruction)
            if not (exposed and bucket):
                yield instruction
        if exposed:
            yield from late
        handles.extend(Await(handle=bucket.handle, phase="optimizer") for bucket in late)

    def _with_buckets(self, step: int, batch: int, *, final: bool) -> Iterator[Instruction]:
        """The backward pass with its buckets: those of each layer, or of a size where the job has one."""
        group, size = self._groups.get("dp"), self._job.bucket_kb
        if not size:
            yield from self._pass(step, batch, final=final)
            return
        filling = Filling(cap_bytes=size * 1_024) if final and group else None

        def send(number: int, held: int) -> Communicate:
            assert group is not None
            return _bucket(group, f"grad/{number}", held)

        yield from accumulated(self._pass(step, batch, final=False), self._job.tp, filling, send)

    def _pass(self, step: int, batch: int, *, final: bool) -> Iterator[Instruction]:
        """All operators of a backward pass, and in the last one a bucket for each layer behind it."""
        stage, last, units = self._place.pp, self._place.pp == self._job.pp - 1, self._units
        if last:
            yield from self._gradients(self._model.loss, f"{batch}/loss")
        else:
            yield self._p2p("recv", 1, "backward")
        for layer in reversed(range(self._effects.stage_layers(self._rank, step))):
            if units is not None and (unit := units.ends(layer)) is not None:
                yield from units.begin("backward", batch, unit)
            yield from self._layer_gradients(f"{batch}/{layer}")
            if units is not None:
                if (unit := units.starts(layer)) is not None:
                    yield units.end(batch, unit)
            elif final:
                yield from self._buckets(step, f"grad{layer}", gradient_bytes(self._job.tp))
        if stage:
            yield self._p2p("send", -1, "backward")
        else:
            yield from self._gradients(self._model.embedding, f"{batch}/embedding")
            if units is not None:
                yield units.end(batch, 0)
            elif final:
                yield from self._buckets(step, "grad_embedding", embedding_bytes(self._job.tp))

    def _layer_gradients(self, key: str) -> Iterator[Instruction]:
        yield from self._gradients(self._model.residual, f"{key}/residual")
        yield from self._exchange("backward")
        yield from self._gradients(self._model.mlp, f"{key}/mlp")
        yield from self._exchange("backward")
        yield from self._reduce("tp", "backward")
        yield from self._gradients(self._model.attention, f"{key}/attention")
        yield from self._reduce("tp", "backward")

    def _finish(self, handles: list[Instruction]) -> Iterator[Instruction]:
        yield Enter(name="Optimizer.step#AdamW.step", kind="range")
        yield from handles
        for kernel in map(self._of_stage, NORMS):
            yield Run(op=kernel.op, inner=kernel.inner, kernels=(kernel,), phase="optimizer")
        world = self._groups.get("default_group")
        if world:
            yield Communicate(group=world, op="all_reduce", bytes=4, phase="optimizer", stream=world.stream)
        for kernel in map(self._of_stage, OPTIMIZER):
            yield Run(op=kernel.op, inner=kernel.inner, kernels=(kernel,), phase="optimizer")
        yield Leave()
        yield Item(phase="optimizer")

    def _of_stage(self, kernel: Kernel) -> Kernel:
        """A kernel that walks over all parameters: a stage of a pipeline has its part of them."""
        return replace(kernel, base_ns=kernel.base_ns // self._job.pp)

    def _runs(self, kernels: tuple[Kernel, ...], key: str) -> Iterator[Instruction]:
        for index, kernel in enumerate(kernels):
            pair = f"{key}/{index}"
            yield Run(op=kernel.op, inner=kernel.inner, kernels=(kernel,), phase="forward", pair=pair)

    def _gradients(self, kernels: tuple[Kernel, ...], key: str) -> Iterator[Instruction]:
        for index, kernel in reversed(list(enumerate(kernels))):
            node, back = self._model.backward(kernel)
            op = back[0].op if back else "aten::add"
            yield Run(op=op, inner=op, kernels=back, phase="backward", pair=f"{key}/{index}", node=node)

    def _reduce(self, name: str, phase: Phase) -> Iterator[Instruction]:
        group = self._groups.get(name)
        if group:
            yield Communicate(
                group=group,
                op="all_reduce",
                bytes=2 * HIDDEN * self._job.tokens,
                phase=phase,
                stream=group.stream,
                fused=self._model.fused if self._job.fuses else None,
            )

    def _exchange(self, phase: Phase) -> Iterator[Instruction]:
        group = self._groups.get("exp")
        if group:
            yield Communicate(
                group=group,
                op="all_to_all",
                bytes=2 * HIDDEN * self._job.tokens,
                phase=phase,
                stream=group.stream,
            )

    def _buckets(self, step: int, handle: str, size: int) -> list[Communicate]:
        group = self._groups.get("dp")
        if group is None:
            return []
        pieces = max(1, self._effects.amount("small_packets", self._rank, step))
        odd = 4 if self._effects.amount("unaligned_sizes", self._rank, step) else 0
        return [_bucket(group, f"{handle}/{piece}", size // pieces // 512 * 512 + odd) for piece in range(pieces)]

    def _p2p(self, op: Literal["send", "recv"], towards: int, phase: Phase) -> Communicate:
        """A transfer to or from the neighbouring stage; each direction has its own stream, so none blocks."""
        group = self._groups["pp"]
        lane = (2 if phase == "backward" else 0) + (op == "recv")
        return Communicate(
            group=group,
            op=op,
            bytes=2 * HIDDEN * self._job.tokens,
            phase=phase,
            stream=group.stream + lane,
            peer=group.members[group.members.index(self._rank) + towards],
            handle="sent" if op == "send" else "",
        )


def _bucket(group: Group, handle: str, size: int) -> Communicate:
    return Communicate(group=group, op="all_reduce", bytes=size, phase="backward", stream=group.stream, handle=handle)


def one_f_one_b(stage: int, stages: int, batches: int) -> Iterator[tuple[Literal["F", "B"], int]]:
    """The order of forward and backward passes of a pipeline stage: fill, alternate, drain."""
    ahead = min(stages - stage - 1, batches)
    for batch in range(ahead):
        yield "F", batch
    for batch in range(batches - ahead):
        yield "F", ahead + batch
        yield "B", batch
    for batch in range(batches - ahead, batches):
        yield "B", batch
