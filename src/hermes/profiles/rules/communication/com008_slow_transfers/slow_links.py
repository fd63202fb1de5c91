"""Finds transfers that are slower than their links allow."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Name, Rank, Ranks, Share, message, sentence
from hermes.knowledge.actions import with_tools
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_cures import DEFAULT_ALGORITHMS, DIRECT_LINKS, LINK_TOOLS
from hermes.model.comm_measures import GroupOp, LinkPair
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.overlap_measures import StepOverlap
from hermes.profiles.rules._communication import CHANCE, SLOWER, exposed_loss, exposed_transfer, is_slow
from hermes.profiles.rules._cost_by_rank import percents, steps_of
from hermes.profiles.rules._limits import DOUBT, NOISE
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import rule

LIMIT = Limit(
    value=0.80,
    unit="of the link's speed is expected",
    source="bandwidth limit of msprof and of its advisor: 80 % of the standard",
)
FLOOR = NOISE
FLOOR_OF_SPEED = DOUBT
_MOST = 4
_LEAST_BYTES = 1_000_000
"""Smaller operations are bound by their fixed cost, which rule COM004 reports."""
_INDIRECT = ("RDMA", "ROCE", "PCIE")
_DIRECT = ("HCCS", "HCCS_SW", "NVLINK", "XGMI")
_Pair = tuple[int, int, str]


@rule(
    "COM008",
    state="stable",
    fault=Fault.SLOW_COLLECTIVES,
    cases=(
        "COM-23", "COM-18", "COM-30", "COM-24", "COM-26", "COM-27", "COM-28", "COM-29", "COM-16", "COM-31", "COM-38",
        "ENV-10",
    ),
)  # fmt: skip
def slow_links(job: Job, overlaps: Rows[StepOverlap], groups: Rows[GroupOp], links: Rows[LinkPair]) -> Iterator[Loss]:
    """Findings of the four slow pairs that lose most, both directions together; then at most one of each other kind."""
    pairs: dict[_Pair, list[LinkPair]] = {}
    for link in links:
        if is_slow(link):
            pairs.setdefault((min(link.rank, link.peer), max(link.rank, link.peer), link.transport), []).append(link)
    made = [finding for pair, both in sorted(pairs.items()) if (finding := _of_pair(job, overlaps, groups, pair, both))]
    yield from sorted(made, key=lambda one: (-one.cost_ns, one.blames))[:_MOST]
    yield from _indirect(job, overlaps, groups, [link for link in links if link.same_host and link.gb_per_s])
    # One slow link delays all other links of its groups.
    held = [{one, other} for one, other, _ in pairs]
    yield from _below_speed(job, overlaps, groups, [group for group in groups if not _holds(held, group)])


def _holds(pairs: list[set[int]], group: GroupOp) -> bool:
    return any(pair <= {*group.ranks} for pair in pairs)


def _of_pair(
    job: Job, overlaps: Rows[StepOverlap], groups: Rows[GroupOp], pair: _Pair, both: list[LinkPair]
) -> Loss | None:
    one, other, transport = pair
    worst = max(both, key=lambda link: (link.excess_ns or 0, -link.rank))
    excess = (worst.excess_ns or 0) / steps_of(job, [worst.rank])
    # All members of a collective wait for its slowest link.
    members = {rank for group in groups if {one, other} & set(group.ranks) for rank in group.ranks}
    found = exposed_loss(job, overlaps, groups, COST_OF_LINK, FLOOR, dict.fromkeys(members | {worst.rank}, excess))
    if found is None:
        return None
    ratio = worst.ratio or 1.0
    moved = [group for group in groups if worst.rank in group.ranks and group.transfer_ns]
    return Loss(
        fault=Fault.SLOW_LINK,
        message=slow_link(transport=transport, ranks=(one, other), times=f"{ratio:.1f}"),
        ranks=found.ranks,
        blames=(Blame(f"{transport} link {one}-{other}", "link", worst.rank),),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method=at_most(when=AS_ITS_LIKE)),
        confidence=confidence("COM008.slow_link"),
        evidence=(*found.evidence, *map(_beside_its_like, both), _chance(worst)),
        replay=tuple(sorted({f"comm:{group.op}={1 / ratio:.4g}" for group in moved})),
        actions=_repair(one, other),
    )


def _repair(one: int, other: int) -> tuple[Action, ...]:
    base = Action(
        title=repair(ranks=(one, other)),
        do=repair_do(),
        verify=REPAIR_VERIFY,
        risk=REPAIR_RISK,
        source="msprof-analyze, slow link",
        cases=("COM-18",),
    )
    return with_tools(base, repair_do, LINK_TOOLS)


def _beside_its_like(link: LinkPair) -> Evidence:
    return Evidence(
        what=over_its_like(rank=link.rank, peer=link.peer),
        value=round(link.ratio or 0.0, 4),
        unit="times",
        threshold=1 + SLOWER.value,
        where=f"slower in {link.slower / max(1, link.compared):.0%} of sizes and steps, {link.gb_per_s:.1f} GB/s",
    )


def _chance(link: LinkPair) -> Evidence:
    return Evidence(
        what=BY_CHANCE,
        value=round(link.p_value if link.p_value is not None else 1.0, 6),
        unit="of 1",
        threshold=CHANCE.value,
        where=f"{link.compared} sizes and steps",
    )


def _indirect(job: Job, overlaps: Rows[StepOverlap], groups: Rows[GroupOp], near: list[LinkPair]) -> Iterator[Loss]:
    """At most one finding, of all pairs on one host whose transfers do not use the host's direct links."""
    direct = [link for link in near if link.transport.upper() in _DIRECT]
    wrong = [link for link in near if link.transport.upper() in _INDIRECT]
    if not direct or not wrong:
        return
    best = _speed(direct)
    costs: dict[int, float] = {}
    for link in wrong:
        steps = job.steps.counts.get(link.rank, 0)
        if steps and link.gb_per_s < best:
            # The links of a rank run at once: the slowest link counts, not their sum.
            costs[link.rank] = max(costs.get(link.rank, 0.0), link.time_ns * (1 - link.gb_per_s / best) / steps)
    found = exposed_loss(job, overlaps, groups, COST_WITHIN_HOST, FLOOR, costs)
    if found is None:
        return
    own = sorted(
        (link for link in wrong if link.rank in found.ranks), key=lambda link: (-link.time_ns, link.rank, link.peer)
    )
    used = ", ".join(sorted({link.transport for link in own}))
    yield Loss(
        fault=Fault.WRONG_TRANSPORT,
        state="preview",
        message=indirect(transports=used, share=percents(_speed(own) / best)),
        ranks=found.ranks,
        blames=tuple(Blame(f"{link.transport} link {link.rank}-{link.peer}", "link", link.rank) for link in own[:8]),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method=at_most(when=AS_DIRECT)),
        confidence=confidence("COM008.wrong_transport"),
        evidence=(
            *found.evidence,
            *(
                Evidence(
                    what=speed_of(transport=link.transport, rank=link.rank, peer=link.peer),
                    value=round(link.gb_per_s, 3),
                    unit="GB/s",
                    threshold=round(best, 3),
                    where=f"{link.bytes} bytes; the host's direct links reach the threshold",
                )
                for link in own[:3]
            ),
        ),
        actions=DIRECT_LINKS,
    )


def _speed(links: list[LinkPair]) -> float:
    return sum(link.bytes for link in links) / max(1, sum(link.time_ns for link in links))


def _below_speed(job: Job, overlaps: Rows[StepOverlap], groups: Rows[GroupOp], free: list[GroupOp]) -> Iterator[Loss]:
    """At most one finding, of all groups whose links are below their rated speed."""
    slow = [group for group in free if _is_below(group)]
    costs: dict[int, float] = {}
    for group in slow:
        beyond = (exposed_transfer(job, group) or 0.0) * (1 - (group.of_link or 0.0) / LIMIT.value)
        for rank in group.ranks:
            costs[rank] = costs.get(rank, 0.0) + beyond
    found = exposed_loss(job, overlaps, groups, COST_BEYOND_SPEED, FLOOR_OF_SPEED, costs)
    if found is None:
        return
    own = [group for group in slow if found.worst.rank in group.ranks]
    least = min(own, key=lambda group: (group.of_link or 0.0, group.op))
    yield Loss(
        message=below_speed(share=percents(least.of_link or 0.0), transport=least.transport or None),
        ranks=found.ranks,
        blames=tuple(sorted({Blame(f"{group.op} of {group.group}", "operation") for group in own})),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method=at_most(when=REACH_SPEED)),
        confidence=confidence("COM008"),
        assumed=True,
        evidence=(
            *found.evidence,
            *(
                Evidence(
                    what=over_links(op=group.op, group=group.group, transport=group.transport)
                    if group.transport
                    else over_its_links(op=group.op, group=group.group),
                    value=round(group.of_link or 0.0, 4),
                    unit="of the link's speed",
                    threshold=LIMIT.value,
                    where=f"{group.link_gb_per_s or 0.0:.1f} of {group.link_limit_gb_per_s or 0.0:.1f} GB/s, from "
                    "the last arrival",
                )
                for group in sorted(own, key=lambda group: (group.of_link or 0.0, group.op, group.group))[:3]
            ),
        ),
        # The speed that the library would reach is not known, so nothing is replayed.
        actions=DEFAULT_ALGORITHMS,
    )


def _is_below(group: GroupOp) -> bool:
    size = (group.bytes or 0) / max(1, group.operations)
    return group.of_link is not None and group.of_link < LIMIT.value and size >= _LEAST_BYTES and bool(group.ranks)


COST_OF_LINK = sentence("com008.cost_of_link")
AS_ITS_LIKE = sentence("com008.as_its_like")
REPAIR_VERIFY = sentence("com008.repair_verify")
REPAIR_RISK = sentence("com008.repair_risk")
BY_CHANCE = sentence("com008.by_chance")
COST_WITHIN_HOST = sentence("com008.cost_within_host")
AS_DIRECT = sentence("com008.as_direct")
COST_BEYOND_SPEED = sentence("com008.cost_beyond_speed")
REACH_SPEED = sentence("com008.reach_speed")


@message("com008.slow_link")
def slow_link(*, transport: Name, ranks: Ranks, times: Name) -> None:
    """A link is slower than others of its kind."""


@message("com008.repair")
def repair(*, ranks: Ranks) -> None:
    """What to do about a slow link."""


@message("com008.over_its_like")
def over_its_like(*, rank: Rank, peer: Rank) -> None:
    """How much longer one direction of a link takes."""


@message("com008.indirect")
def indirect(*, transports: Name, share: Share) -> None:
    """Ranks of one host do not use the host's direct links."""


@message("com008.speed_of")
def speed_of(*, transport: Name, rank: Rank, peer: Rank) -> None:
    """The speed of a link."""


@message("com008.below_speed")
def below_speed(*, share: Share, transport: Name | None = None) -> None:
    """Links are below their rated speed."""


@message("com008.over_links")
def over_links(*, op: Name, group: Name, transport: Name) -> None:
    """The speed of one kind of collective over a known transport."""


@message("com008.over_its_links")
def over_its_links(*, op: Name, group: Name) -> None:
    """The speed of one kind of collective over an unknown transport."""


@message("com008.repair_do")
def repair_do(*, tool: Name | None = None) -> None:
    """How to find out what is wrong with a link."""
