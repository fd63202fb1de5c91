"""What the planted faults do to one rank in one step, and how much time they added directly."""

from __future__ import annotations

from collections import defaultdict

from hermes_testing.faults import FaultKind
from hermes_testing.job import Job

FULL_MHZ = 1_800
_SLOWER: tuple[FaultKind, ...] = ("slow_rank_compute", "fused_comm_straggler")


class Effects:
    """Answers the simulator's questions about the faults of a job, and sums the added time.

    `injected` maps (number of the fault, rank, step) to nanoseconds; faults that only reorder work add none.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self.injected: defaultdict[tuple[int, int, int], int] = defaultdict(int)
        self._active: dict[tuple[FaultKind, int, int], tuple[tuple[int, int], ...]] = {}
        found: defaultdict[tuple[FaultKind, int, int], list[tuple[int, int]]] = defaultdict(list)
        for index, fault in enumerate(job.faults):
            for rank in fault.struck(ranks=job.ranks, hosts=job.hosts, pp=job.pp):
                for step in fault.steps or job.step_numbers:
                    found[fault.kind, rank, step].append((index, fault.size))
        self._active = {key: tuple(entries) for key, entries in found.items()}

    def amount(self, kind: FaultKind, rank: int, step: int) -> int:
        """Sum of the amounts of this kind on this rank in this step; 0 when there is none."""
        return sum(amount for _, amount in self._active.get((kind, rank, step), ()))

    def add(self, kind: FaultKind, rank: int, step: int, ns: int) -> None:
        """Note time that was added for faults of this kind."""
        for index, _ in self._active.get((kind, rank, step), ())[:1]:
            self.injected[index, rank, step] += ns

    def mhz(self, rank: int, step: int) -> int:
        """AI Core frequency."""
        return FULL_MHZ * (100 - min(99, self.amount("frequency_drop", rank, step))) // 100

    def kernel_ns(self, rank: int, step: int, base_ns: int) -> int:
        """Duration of a compute kernel that usually takes `base_ns`."""
        slower = 0
        for kind in _SLOWER:
            more = base_ns * self.amount(kind, rank, step) // 100
            if more:
                self.add(kind, rank, step, more)
            slower += more
        mhz = self.mhz(rank, step)
        if mhz == FULL_MHZ:
            return base_ns + slower
        stretched = (base_ns + slower) * FULL_MHZ // mhz
        self.add("frequency_drop", rank, step, stretched - base_ns - slower)
        return stretched

    def host_percent(self, rank: int, step: int) -> int:
        """Cost of a host call, 100 when nothing slows it."""
        return 100 + sum(self.amount(kind, rank, step) for kind in ("slow_rank_host", "host_bound_dispatch"))

    def stage_layers(self, rank: int, step: int) -> int:
        """Layers of the rank's pipeline stage."""
        usual = self._job.layers // self._job.pp
        return usual + usual * self.amount("pipeline_imbalance", rank, step) // 100

    def link_factor(self, one: int, other: int, step: int) -> int:
        """How many times longer a transfer between two ranks takes."""
        both = zip(
            self._active.get(("slow_link", one, step), ()),
            self._active.get(("slow_link", other, step), ()),
            strict=False,
        )
        factor = 1
        for (index, amount), (same, _) in both:
            factor *= amount if index == same and one != other else 1
        return factor

    def clock_ns(self, rank: int) -> int:
        """What the clock of the rank is ahead of the shared one."""
        return 1_000 * self.amount("skewed_clocks", rank, self._job.first_step)
