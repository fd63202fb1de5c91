"""The modelled job: its size, its parallel layout and its process groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from hermes.base.errors import InputError
from hermes.knowledge.ascend_codes import group_hash
from hermes_testing.faults import Fault

Level = Literal["Level0", "Level1", "Level2"]

EPOCH_NS = 1_736_412_474_000_000_000
"""Unix time at which every modelled capture begins."""

HIDDEN = 2_048
FFN = 5_504
TOKENS = 4_096
VOCABULARY = 32_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A training job of a transformer, as its profilers would see it.

    `dp` is what `tp` and `pp` leave of `ranks` when it is None. `ep` splits the data-parallel ranks into
    expert groups. `micro_batches` is `pp` when 0. `stacks` records Python frames. Raises `InputError` for a
    layout that cannot be. Without `task_queue` the dispatching threads launch themselves, as PyTorch does on CUDA and
    torch_npu with `TASK_QUEUE_ENABLE=0`. With `fused`, sums over a tensor-parallel group are in one kernel with their
    product, as MC2 has them. `contention` is how much longer kernels take while a transfer of their rank runs, in
    percent: both need the memory. `bucket_kb` is the size from which a bucket of gradients is sent, as
    DistributedDataParallel fills them: parameter by parameter as gradients become ready; 0 sends those of each layer.
    `sharded` is how many layers make a unit of parameters that lie in parts on the data-parallel ranks, as
    FullyShardedDataParallel has them; 0 keeps all whole. `prefetch` is how many units before their own all-gathers are
    launched, in forward and in backward; each waits for the compute that was launched before it.
    `noise` is the spread of all times in percent; with it clocks are apart and events
    are lost.
    """

    ranks: int = 8
    steps: int = 4
    tp: int = 1
    pp: int = 1
    dp: int | None = None
    ep: int = 1
    layers: int = 8
    hosts: int = 1
    micro_batches: int = 0
    level: Level = "Level1"
    first_step: int = 10
    seed: int = 0
    stacks: bool = False
    task_queue: bool = True
    fused: bool = False
    contention: int = 0
    bucket_kb: int = 0
    sharded: int = 0
    prefetch: tuple[int, int] = (0, 0)
    latency_us: int = 0
    links: int = 100
    noise: int = 0
    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        if min(self.ranks, self.steps, self.tp, self.pp, self.ep, self.layers, self.hosts) < 1:
            raise InputError("a job needs at least one of everything", hint="ranks, steps, layers, … are from 1 on")
        self._demand(
            self.tp * self.pp * self.data_parallel == self.ranks,
            f"tp {self.tp} x pp {self.pp} x dp {self.data_parallel} is not {self.ranks} ranks",
        )
        self._demand(self.data_parallel % self.ep == 0, f"ep {self.ep} does not divide dp {self.data_parallel}")
        self._demand(self.layers % self.pp == 0, f"pp {self.pp} does not divide {self.layers} layers")
        self._demand(self.ranks % self.hosts == 0, f"{self.hosts} hosts do not divide {self.ranks} ranks")
        whole = self.data_parallel > 1 and self.pp == 1 and not self.bucket_kb
        self._demand(not self.sharded or whole, "sharded layers need data-parallel ranks, one stage and no buckets")
        for fault in self.faults:
            problem = fault.problem(ranks=self.ranks, hosts=self.hosts, pp=self.pp, tp=self.tp)
            self._demand(not problem, f"fault {fault.kind}: {problem}")

    @staticmethod
    def _demand(holds: bool, what: str) -> None:
        if not holds:
            raise InputError(what, hint="change the layout of the modelled job")

    @property
    def fuses(self) -> bool:
        """Whether products and the collectives of their results are one kernel."""
        return self.fused or any(fault.kind == "fused_comm_straggler" for fault in self.faults)

    @property
    def data_parallel(self) -> int:
        """Data-parallel ranks."""
        return self.dp if self.dp is not None else self.ranks // (self.tp * self.pp)

    @property
    def batches(self) -> int:
        """Micro-batches of a step."""
        return self.micro_batches or self.pp

    @property
    def tokens(self) -> int:
        """Tokens of a micro-batch; a deeper pipeline cuts the batch into smaller ones."""
        return TOKENS // min(self.batches, self.pp)

    @property
    def per_host(self) -> int:
        """Ranks of one host."""
        return self.ranks // self.hosts

    @property
    def step_numbers(self) -> range:
        """The numbers that the framework gives the steps."""
        return range(self.first_step, self.first_step + self.steps)

    def host_of(self, rank: int) -> int:
        """Number of the host of a rank."""
        return rank // self.per_host

    def place(self, rank: int) -> Place:
        """Parallel coordinates of a rank; tensor parallelism varies fastest, then data, then pipeline."""
        rest, tp = divmod(rank, self.tp)
        pp, dp = divmod(rest, self.data_parallel)
        return Place(tp=tp, pp=pp, dp=dp, ep=dp % self.ep)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Parallel coordinates of one rank."""

    tp: int
    pp: int
    dp: int
    ep: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One process group: its name in the framework, its communicator, its global ranks and its stream."""

    name: str
    communicator: str
    hash: str
    members: tuple[int, ...]
    stream: int


def groups_of(job: Job) -> tuple[Group, ...]:
    """Every process group of more than one rank, in the order the framework creates them."""
    wanted: list[tuple[str, tuple[int, ...]]] = [("default_group", tuple(range(job.ranks)))]
    for name in ("dp", "tp", "pp", "exp"):
        wanted.extend((name, members) for members in _split(job, name))
    return tuple(_group(job, index, *pair) for index, pair in enumerate(pair for pair in wanted if len(pair[1]) > 1))


def _split(job: Job, name: str) -> Iterable[tuple[int, ...]]:
    """The ranks that agree in all coordinates but the one of this kind of group."""
    members: dict[tuple[int, ...], list[int]] = {}
    for rank in range(job.ranks):
        at = job.place(rank)
        key = {
            "tp": (at.dp, at.pp),
            "dp": (at.tp, at.pp),
            "pp": (at.tp, at.dp),
            "exp": (at.tp, at.pp, at.dp // job.ep),
        }[name]
        members.setdefault(key, []).append(rank)
    if name == "exp" and job.ep == 1:
        return []
    return [tuple(ranks) for ranks in members.values()]


# The first stream of each kind of group; point-to-point operations take four in a row, one a direction.
_STREAM = {"default_group": 3, "dp": 4, "tp": 5, "pp": 6, "exp": 10}


def _group(job: Job, index: int, name: str, members: tuple[int, ...]) -> Group:
    stamp = EPOCH_NS // 1_000 - 60_000_000 + index * 1_237_411
    communicator = f"10.0.{job.host_of(members[0])}.1%eth0_60000_{index}_{stamp}"
    return Group(
        name=name,
        communicator=communicator,
        hash=group_hash(communicator),
        members=members,
        stream=_STREAM[name],
    )
