"""How long a communication operation takes and what each member's planes do meanwhile.

Members may arrive at different times; transfers begin when the last one is there, and all end together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hermes_testing.effects import Effects
from hermes_testing.job import Group, Job
from hermes_testing.noise import Noise
from hermes_testing.profile import Transfer

HCCS_BYTES_PER_NS = 20
ROCE_BYTES_PER_NS = 12
CHIP_BYTES_PER_NS = 500
NONE = 4_294_967_295
NO_NOTIFY = 18_446_744_073_709_551_615
_LATENCY_NS = 3_000
_PLANES = 7

_PHASES: dict[str, tuple[str, ...]] = {
    "all_reduce": ("Reduce_Inline", "Memcpy"),
    "reduce_scatter": ("Reduce_Inline",),
    "all_gather": ("Memcpy",),
    "all_to_all": ("Memcpy",),
    "broadcast": ("Memcpy",),
    "send": ("Memcpy",),
    "recv": (),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """What one member saw."""

    end_ns: int
    retry: int
    transfers: tuple[Transfer, ...]


@dataclass(slots=True, kw_only=True)
class Network:
    """The links between the ranks of a job, and which of the planted faults has struck already."""

    job: Job
    effects: Effects
    notifies: int = 60
    retried: set[tuple[int, int]] = field(default_factory=set)
    noises: dict[int, Noise] = field(default_factory=dict)

    def run(self, *, op: str, group: Group, size: int, step: int, arrivals: dict[int, int]) -> dict[int, Timing]:
        """Carry out one operation; `arrivals` says when each member's stream reached it."""
        members = sorted(arrivals)
        peers = {rank: self._peers(rank, members) for rank in members}
        begin = max(arrivals.values()) + _LATENCY_NS + 1_000 * self.job.latency_us
        # Rounded up: a size that does not divide evenly leaves no whole packets.
        share = -(-size // len(members))
        phases = _PHASES[op]
        retries = dict.fromkeys(members, 0)
        spans: list[dict[tuple[int, int], tuple[int, int]]] = []
        clock = begin
        for number, _ in enumerate(phases):
            taken = {
                (rank, peer): self._duration(rank, peer, share, step, retries, number)
                for rank in members
                for peer in peers[rank]
            }
            spans.append({link: (clock, clock + ns) for link, ns in taken.items()})
            clock += max(taken.values()) + 2_000
        return {
            rank: Timing(
                end_ns=clock + 300 * index,
                retry=retries[rank],
                transfers=self._planes(rank, group, op, share, arrivals, peers[rank], spans, clock),
            )
            for index, rank in enumerate(members)
        }

    def pair(
        self, *, group: Group, size: int, step: int, arrivals: dict[int, int], src: int, dst: int
    ) -> dict[int, Timing]:
        """Carry out one point-to-point transfer."""
        begin = max(arrivals.values()) + _LATENCY_NS
        retries = {src: 0, dst: 0}
        end = begin + self._duration(src, dst, size, step, retries, 0)
        finish = end + 1_500
        sent = {(src, dst): (begin, end)}
        return {
            src: Timing(
                end_ns=finish,
                retry=retries[src],
                transfers=self._planes(src, group, "send", size, arrivals, [dst], [sent], finish),
            ),
            dst: Timing(
                end_ns=finish + 300,
                retry=retries[dst],
                transfers=self._planes(dst, group, "recv", size, arrivals, [src], [], finish),
            ),
        }

    def _noise(self, rank: int) -> Noise:
        return self.noises.setdefault(rank, Noise(self.job.seed, -1 - rank, self.job.noise))

    def remote(self, one: int, other: int) -> bool:
        """Whether two ranks are on different hosts."""
        return self.job.host_of(one) != self.job.host_of(other)

    def _peers(self, rank: int, members: Sequence[int]) -> list[int]:
        """The members that a rank exchanges data with: those of its host and the next one beyond."""
        at = members.index(rank)
        ring = [*members[at + 1 :], *members[:at]]
        near = [peer for peer in ring if not self.remote(rank, peer)][:_PLANES]
        far = [peer for peer in ring if self.remote(rank, peer)]
        return near + far[: 1 if near else _PLANES]

    def _duration(self, rank: int, peer: int, size: int, step: int, retries: dict[int, int], phase: int) -> int:
        remote = self.remote(rank, peer)
        usual = _LATENCY_NS + size * 100 // ((ROCE_BYTES_PER_NS if remote else HCCS_BYTES_PER_NS) * self.job.links)
        usual = self._noise(rank).device_ns(usual)
        usual += (rank * 131 + peer * 37 + phase * 17) % 97  # links are never quite equal
        taken = usual * self.effects.link_factor(rank, peer, step)
        if taken > usual and phase == 0:
            self.effects.add("slow_link", rank, step, taken - usual)
        percent = min(self.effects.amount("unaligned_sizes", end, step) for end in (rank, peer))
        if percent and size > 1_024:
            self.effects.add("unaligned_sizes", rank, step, taken * percent // 100)
            taken += taken * percent // 100
        if remote and (rank, step) not in self.retried:
            late = 1_000 * self.effects.amount("retransmission", rank, step)
            if late:
                self.retried.add((rank, step))
                self.effects.add("retransmission", rank, step, late)
                retries[rank] += 1
                taken += late
        return taken

    def _planes(
        self,
        rank: int,
        group: Group,
        op: str,
        share: int,
        arrivals: dict[int, int],
        peers: Sequence[int],
        spans: Sequence[dict[tuple[int, int], tuple[int, int]]],
        finish: int,
    ) -> tuple[Transfer, ...]:
        """The tasks of all planes of one member."""
        me, start = group.members.index(rank), arrivals[rank]
        rows = [self._local(me, share, start)] if op not in ("send", "recv") else []
        for plane, peer in enumerate(peers, start=1 if rows else 0):
            other = group.members.index(peer)
            remote = self.remote(rank, peer)
            rows.append(self._notify("Notify_Record", plane, start + 700 + 40 * plane, 720, me, other))
            wait = max(0, arrivals[peer] - start - 1_500 - 40 * plane)
            rows.append(self._notify("Notify_Wait", plane, start + 1_500 + 40 * plane, wait + 20, me, other))
            done = 0
            for kind, span in zip(_PHASES[op], spans, strict=True):
                begin, done = span[rank, peer]
                rows.append(self._move("RDMASend" if remote else kind, plane, begin, done, me, other, share, remote))
                rows.append(self._notify("Notify_Record", plane, done + 100, 400, me, other))
            last = max(done + 600, start + 1_600 + 40 * plane + wait)
            rows.append(self._notify("Notify_Wait", plane, last, max(20, finish - last - 100), me, other))
        return tuple(rows)

    def _local(self, me: int, share: int, start: int) -> Transfer:
        return Transfer(
            name="Memcpy",
            plane=0,
            context=1,
            start_ns=start + 200,
            end_ns=start + 700 + share // CHIP_BYTES_PER_NS,
            src=me,
            dst=me,
            transport="SDMA",
            link="ON_CHIP",
            bytes=share,
            dtype="INVALID_TYPE",
            notify=NO_NOTIFY,
        )

    def _notify(self, name: str, plane: int, start: int, lasts: int, me: int, other: int) -> Transfer:
        self.notifies = self.notifies % 4_000 + 4
        records = name == "Notify_Record"
        return Transfer(
            name=name,
            plane=plane,
            context=self.notifies // 4,
            start_ns=start,
            end_ns=start + lasts,
            src=me,
            dst=other,
            transport="SDMA" if records else "LOCAL",
            link="INVALID_TYPE",
            bytes=0,
            dtype="INVALID_TYPE",
            notify=(NONE + 1) * other + self.notifies if records else self.notifies,
        )

    def _move(
        self, name: str, plane: int, start: int, end: int, me: int, other: int, size: int, remote: bool
    ) -> Transfer:
        self.notifies = self.notifies % 4_000 + 4
        return Transfer(
            name=name,
            plane=plane,
            context=self.notifies // 4,
            start_ns=start,
            end_ns=end,
            src=me,
            dst=other,
            transport="RDMA" if remote else "SDMA",
            link="ROCE" if remote else "HCCS",
            bytes=size,
            dtype="BFP16" if name == "Reduce_Inline" else "INVALID_TYPE",
            notify=0 if name == "Reduce_Inline" else NO_NOTIFY,
        )
