"""Measures of communication: by group and operation, by rank, by link, by packet, and of what disturbs it.

Speeds are in 10^9 bytes a second. None means "not measured"; a number of samples stands beside each figure that needs
one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyFit:
    """Transfer time as a fixed part and a part by size, fitted over one operation among one set of ranks.

    `time = fixed + size / speed`. `peak_bus_gb_per_s` is the bus bandwidth that a size without end would reach, `error`
    the median distance of the fit from the median time of each size, relative to that.
    """

    op: str
    members: tuple[int, ...] | None
    groups: tuple[str, ...]
    operations: int
    sizes: int
    fixed_ns: int
    peak_bus_gb_per_s: float
    fixed_total_ns: int
    fixed_share: float
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOp:
    """One operation of one group, over all ranks and steps that were read.

    Times with `_ns` are sums over the rows of all ranks: `elapse = wait + transfer + idle`, of the `split_rows` for
    which the last arrival is known. `wait` is the time until the last member arrived; `transfer` what came after it;
    `idle` the part of that in which no task of the operation ran (None where tasks are not recorded, then it is in the
    transfer). `hidden` is the part of the transfer beside which the rank computed. `waste` is wait over elapse. Sizes
    and bandwidths are nccl-tests', over the time from the last arrival to the end.

    `parallel` is the dimension that the group serves (`dp`, `tp`, `pp`, `ep`, `cp`, `world`), from its name, or
    inferred. `error_ns` is the largest error of its clocks; `unmatched` counts operations whose rows do not fit
    together.
    """

    group: str
    parallel: str | None
    parallel_source: Literal["name", "inferred", "unknown"]
    members: tuple[int, ...] | None
    size: int | None
    ranks: tuple[int, ...]
    op: str
    library: str | None
    operations: int
    rows: int
    split_rows: int
    unmatched: int
    elapse_ns: int
    split_elapse_ns: int
    wait_ns: int | None
    transfer_ns: int | None
    idle_ns: int | None
    hidden_ns: int | None
    waste: float | None
    error_ns: int | None
    bytes: int | None
    transfer_median_ns: int | None
    algorithm_gb_per_s: float | None
    bus_gb_per_s: float | None
    transport: str | None
    link_gb_per_s: float | None
    link_limit_gb_per_s: float | None
    of_link: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKind:
    """The groups of one kind together: the same dimension (or name), operation and number of members.

    Sums are as in `GroupOp`; bandwidths are the median and the least over `timed` groups, `slowest` the members of the
    latter.
    """

    kind: str
    op: str
    size: int | None
    groups: int
    timed: int
    ranks: int
    operations: int
    elapse_ns: int
    wait_ns: int | None
    transfer_ns: int | None
    idle_ns: int | None
    hidden_ns: int | None
    waste: float | None
    bytes: int | None
    algorithm_gb_per_s: float | None
    bus_gb_per_s: float | None
    least_bus_gb_per_s: float | None
    slowest: tuple[int, ...]
    transport: str | None
    of_link: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowRank:
    """How often one rank was the last to arrive, and how long all others of a collective were there without it.

    `held_ns` is the length of the union of these times, beyond the errors of the clocks. Blocks are steps (collectives
    where no step is known): collectives of one step are not independent. `p_value` is the chance that a rank among
    `members` wins as many of `blocks` when all are alike, times the number of ranks. `own_wait_ns` is what it waited
    for others: a rank that waits itself passes a delay on.
    """

    rank: int
    collected: bool
    operations: int
    last: int
    blocks: int
    blocks_last: int
    held_ns: int
    median_lead_ns: int
    own_wait_ns: int
    error_ns: int
    p_value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupArrival:
    """How long one rank of a group waited for the last to arrive, over its `operations`; in `last` of them it was that.

    Waits within the errors of the clocks are 0. `first_rank`, the least rank of the group that was read, tells groups
    of one name apart.
    """

    group: str
    first_rank: int
    parallel: str | None
    rank: int
    operations: int
    last: int
    median_wait_ns: int
    p90_wait_ns: int
    most_wait_ns: int
    total_wait_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPair:
    """Transfers from one rank to or from another over one link, as the rank that carried them out saw them.

    `ratio` is the median over classes (kind, size, step) of the link's median time over that of its peers: links of the
    same transport that moved the same size. `slower` of `compared` classes took over 5 % longer than the peers' median;
    `p_value` is the chance of that when none is slower, times the number of links. `excess_ns` is what its transfers
    took longer than peers would have, stalls left out. `same_host` tells whether both ranks are on one host, None
    where a host is not recorded.
    """

    rank: int
    peer: int
    transport: str
    source: Literal["tasks", "sums"]
    transfers: int | None
    bytes: int
    time_ns: int
    gb_per_s: float
    of_link: float | None
    ratio: float | None
    compared: int
    slower: int
    excess_ns: int | None
    p_value: float | None
    same_host: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Packets:
    """Transfers of one transport with sizes in `[least_bytes, 2 * least_bytes)`, over all ranks."""

    transport: str
    least_bytes: int
    transfers: int
    bytes: int
    time_ns: int
    gb_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """Sizes above 512 bytes that are no multiple of 512, of the transfers of a transport or of whole operations.

    `what` is a transport, or `operations`. Times are sums over all ranks. Source of the 512: byte alignment advice of
    MindStudio Insight and msprof-analyze.
    """

    what: str
    counted: int
    unaligned: int
    time_ns: int
    unaligned_time_ns: int
    gb_per_s: float | None
    unaligned_gb_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """Transfers of one rank that took many times what the same transfer usually takes: what a retransmission looks
    like.

    `what` is a transport; or whole operations, of no one rank, where no transfers are recorded. `excess_ns` is what
    they took longer than usual.
    """

    rank: int | None
    what: str
    counted: int
    stalled: int
    excess_ns: int
    longest_ns: int
    longest_at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Contention:
    """The same work with and without the other kind beside it: kernels beside communication, or the reverse.

    `slowdown` is the median time with over the median time without; `loss_ns` what the rows beside the other took
    longer.
    """

    kind: Literal["compute", "communication"]
    name: str
    detail: str
    beside: int
    alone: int
    beside_median_ns: int
    alone_median_ns: int
    slowdown: float
    loss_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Communication:
    """Everything measured of communication; `notes` says what could not be, and why."""

    kinds: tuple[GroupKind, ...] = ()
    groups: tuple[GroupOp, ...] = ()
    fits: tuple[LatencyFit, ...] = ()
    slow_ranks: tuple[SlowRank, ...] = ()
    arrivals: tuple[GroupArrival, ...] = ()
    links: tuple[LinkPair, ...] = ()
    packets: tuple[Packets, ...] = ()
    alignment: tuple[Alignment, ...] = ()
    stalls: tuple[Stall, ...] = ()
    contention: tuple[Contention, ...] = ()
    notes: tuple[str, ...] = ()
