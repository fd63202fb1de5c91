"""The faults that can be planted in a modelled job: what each takes, where it strikes, what follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FaultKind = Literal[
    "slow_rank_compute",
    "slow_rank_host",
    "slow_link",
    "data_wait",
    "gc_pause",
    "recompilation",
    "host_bound_dispatch",
    "synchronisation_calls",
    "small_packets",
    "unaligned_sizes",
    "retransmission",
    "frequency_drop",
    "ai_cpu_operators",
    "pipeline_imbalance",
    "exposed_all_reduce",
    "skewed_clocks",
    "uneven_batches",
    "unfused_conv_bn_relu",
    "unfused_linear_bias_gelu",
    "vector_on_cube",
    "fused_comm_straggler",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What one kind of fault means.

    `amount` is the usual amount in `unit`. `where` are the ranks it strikes if none are named. `needs` is a condition
    on the layout. `layer` is the layer of the expected finding.
    """

    amount: int
    unit: str
    layer: str
    consequences: tuple[str, ...]
    where: Literal["all", "first", "last stage", "second host", "first pair"] = "all"
    needs: Literal["", "several ranks", "several hosts", "several stages", "a tensor-parallel group"] = ""


KINDS: dict[FaultKind, Kind] = {
    "slow_rank_compute": Kind(
        amount=30,
        unit="% more time in every compute kernel",
        layer="compute",
        where="first",
        consequences=("compute of the rank grows", "the other ranks wait for it in collectives"),
    ),
    "slow_rank_host": Kind(
        amount=700,
        unit="% more time in every host call",
        layer="cpu",
        where="first",
        consequences=("free time of the rank grows", "the other ranks wait for it in collectives"),
    ),
    "slow_link": Kind(
        amount=5,
        unit="times the transfer time between two ranks",
        layer="communication",
        where="first pair",
        needs="several ranks",
        consequences=("bandwidth of the link falls", "every collective over it grows on all members"),
    ),
    "data_wait": Kind(
        amount=15_000,
        unit="us more for each batch of the DataLoader",
        layer="io",
        consequences=(
            "the DataLoader's span grows",
            "the device is free before the first kernel of the step",
        ),
    ),
    "gc_pause": Kind(
        amount=20_000,
        unit="us of garbage collection each step",
        layer="cpu",
        consequences=("a collection on the GC lane", "the device is free while the host collects"),
    ),
    "recompilation": Kind(
        amount=12,
        unit="operators compiled anew each step",
        layer="cpu",
        consequences=(
            "calls of aclopCompileAndExecute with opCompile",
            "free time before the kernels they launch",
        ),
    ),
    "host_bound_dispatch": Kind(
        amount=700,
        unit="% more time in every host call",
        layer="cpu",
        consequences=("every kernel starts right after its launch", "free time between kernels on all ranks"),
    ),
    "synchronisation_calls": Kind(
        amount=64,
        unit="calls of item() each step",
        layer="cpu",
        consequences=("aten::_local_scalar_dense with a blocking wait", "free time after each of them"),
    ),
    "small_packets": Kind(
        amount=32,
        unit="operations in place of each gradient bucket",
        layer="communication",
        needs="several ranks",
        consequences=("many small all-reduces", "packets far below the efficient size"),
    ),
    "unaligned_sizes": Kind(
        amount=40,
        unit="% more transfer time, sizes are no multiple of 512 bytes",
        layer="communication",
        needs="several ranks",
        consequences=("sizes of transfers are not aligned", "bandwidth of all links falls"),
    ),
    "retransmission": Kind(
        amount=40_000,
        unit="us more for one RDMA transfer each step; on a real network more than 4 s",
        layer="communication",
        where="first",
        needs="several hosts",
        consequences=("one RDMA transfer takes very long", "its collective records a retry"),
    ),
    "frequency_drop": Kind(
        amount=33,
        unit="% lower AI Core frequency",
        layer="environment",
        where="first",
        consequences=("the counter AI Core Freq falls", "compute kernels stretch while it is low"),
    ),
    "ai_cpu_operators": Kind(
        amount=6,
        unit="operators on AI CPU each step, 1.5 ms each",
        layer="compute",
        consequences=("kernels of unit AI_CPU", "they take time that a core would not need"),
    ),
    "pipeline_imbalance": Kind(
        amount=100,
        unit="% more layers on the stage",
        layer="parallelism",
        where="last stage",
        needs="several stages",
        consequences=("compute of the stage grows", "the other stages wait in receives"),
    ),
    "exposed_all_reduce": Kind(
        amount=1,
        unit="(gradients are reduced after the backward pass)",
        layer="communication",
        needs="several ranks",
        consequences=(
            "gradient all-reduces start after the last backward kernel",
            "exposed communication grows",
        ),
    ),
    "skewed_clocks": Kind(
        amount=3_700,
        unit="us that the clocks of the ranks are ahead",
        layer="environment",
        where="second host",
        consequences=("times of these ranks do not compare with those of the others", "no duration changes"),
    ),
    "uneven_batches": Kind(
        amount=25,
        unit="% more tokens in each batch of the rank",
        layer="parallelism",
        where="first",
        needs="several ranks",
        consequences=("compute of the rank grows with its tokens", "the other ranks wait for it in collectives"),
    ),
    "unfused_conv_bn_relu": Kind(
        amount=40,
        unit="convolutions with batch norm and activation in kernels of their own, each step",
        layer="compute",
        consequences=("Conv2D, BNTrainingReduce, BNTrainingUpdate and Relu follow each other",),
    ),
    "unfused_linear_bias_gelu": Kind(
        amount=40,
        unit="products with bias and activation in kernels of their own, each step",
        layer="compute",
        consequences=("MatMul, Add of a vector and Gelu follow each other",),
    ),
    "vector_on_cube": Kind(
        amount=24,
        unit="elementwise kernels on the cores of the matrix unit, each step",
        layer="compute",
        consequences=("elementwise kernels whose core is AI_CORE",),
    ),
    "fused_comm_straggler": Kind(
        amount=40,
        unit="% more time in every compute kernel of a rank whose products and collectives are one kernel",
        layer="communication",
        where="first",
        needs="a tensor-parallel group",
        consequences=("MatmulAllReduce takes longer on the other ranks", "no collective shows the waiting"),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One planted fault. No `ranks`: those usual for its kind; no `steps`: all; `amount` 0: the usual one."""

    kind: FaultKind
    ranks: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    amount: int = 0

    @property
    def size(self) -> int:
        """The amount in the unit of the kind."""
        return self.amount or KINDS[self.kind].amount

    def problem(self, *, ranks: int, hosts: int, pp: int, tp: int = 1) -> str:
        """Why the fault cannot be planted in a job of this layout; empty when it can."""
        kind = KINDS[self.kind]
        lacking = {
            "": False,
            "several ranks": ranks < 2,
            "several hosts": hosts < 2,
            "several stages": pp < 2,
            "a tensor-parallel group": tp < 2,
        }[kind.needs or ("several hosts" if kind.where == "second host" and not self.ranks else "")]
        if lacking:
            return f"needs {kind.needs or 'several hosts'}"
        if self.amount < 0 or any(rank not in range(ranks) for rank in self.ranks):
            return f"amount {self.amount} or ranks {self.ranks} are out of range"
        if kind.where == "first pair" and self.ranks and len(set(self.ranks)) != 2:
            return "a link joins exactly two ranks"
        if self.kind == "frequency_drop" and self.size >= 100:
            return "a frequency cannot fall by 100 %"
        return ""

    def struck(self, *, ranks: int, hosts: int, pp: int) -> tuple[int, ...]:
        """The ranks that the fault strikes."""
        if self.ranks:
            return tuple(sorted(self.ranks))
        everyone = tuple(range(ranks))
        return {
            "all": everyone,
            "first": everyone[:1],
            "first pair": everyone[:2],
            "last stage": everyone[ranks - ranks // pp :],
            "second host": everyone[ranks // hosts : 2 * (ranks // hosts)],
        }[KINDS[self.kind].where]
