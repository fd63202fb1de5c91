"""A straggler: ranks wait for one rank inside collectives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from statistics import median

from hermes.base.message import Message
from hermes.base.units import duration
from hermes.knowledge.actions import NO_RISK
from hermes.knowledge.confidence import confidence
from hermes.model.code_measures import CodeLine
from hermes.model.comm_measures import GroupOp, SlowRank
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Evidence, FindingMoment, Gain, Loss
from hermes.model.host_measures import Before
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.step_measures import PeerWait, StepSplit
from hermes.model.structure_measures import Balance, Pipeline
from hermes.profiles.measure.communication.fused_kernels import FusedOperator
from hermes.profiles.rules._communication import waited_per_step
from hermes.profiles.rules._host import before_without_device, has_device, won
from hermes.profiles.rules._input import crowded_ns
from hermes.profiles.rules._limits import TOGETHER
from hermes.profiles.rules._slow_ranks import Beside, beside
from hermes.profiles.rules.communication.com002_straggler import _messages as say
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import by_share, rule

LIMIT = Limit(
    value=0.05,
    unit="of window",
    source="slow-card advice of MindStudio Insight 26.0: waiting above 5 % of the longest time",
)
CHANCE = Limit(
    value=0.0027,
    unit="is the largest probability that chance made the blamed rank last, over all ranks",
    source="three standard deviations, as in control charts: NIST/SEMATECH e-Handbook of Statistical Methods, 6.3.1",
)
HALF = Limit(
    value=0.50,
    unit="of the waiting must be explained by extra work of the awaited rank",
    source="docs/evidence/detection.md",
)
MORE = Limit(
    value=0.8,
    unit="of a function's slowdown must exceed the slowdown of the function that changed least",
    source="docs/evidence/com002.md",
)

UNEVEN = Limit(value=0.10, unit="more operations than the mean of the ranks", source="case PAR-05")

AT_ONCE = Limit(
    value=0.5,
    unit="of the gain of even work remains if ranks that compute at the same time slow each other down",
    source="docs/decisions/0029-uneven-in-turn.md",
)

_SHOWN = 4


@rule(
    "COM002", state="stable", fault=Fault.STRAGGLER, cases=("COM-21", "COM-22", "PAR-05", "PAR-13", "PAR-18", "ENV-06")
)
def straggler(
    job: Job,
    waits: Rows[PeerWait],
    pipelines: Rows[Pipeline],
    slow: Rows[SlowRank],
    lines: Rows[CodeLine],
    fused: Rows[FusedOperator],
    unprofiled: Rows[Before],
    balances: Rows[Balance],
    groups: Rows[GroupOp],
) -> Iterator[Loss]:
    """A finding for each rank that some rank waits for longest; shorter waits at the same time overlap that wait."""
    longest: dict[int, PeerWait] = {}
    for wait in waits:
        if _other_stage(pipelines, wait):
            continue
        if wait.rank not in longest or _size(wait) > _size(longest[wait.rank]):
            longest[wait.rank] = wait
    for peer in sorted({wait.peer for wait in longest.values()}):
        finding = _of_peer(
            job, waits, pipelines, peer, fused, groups, more=_has_more(job, balances, peer), unprofiled=unprofiled
        )
        if finding:
            chance = any(_by_chance(one) for one in slow if one.rank == peer)
            # Work that waits for cores used by others is late as often as that happens.
            crowded = crowded_ns(job, unprofiled, peer) > 0
            chance = _not_blamed(job, () if crowded else slow, lines, peer, finding.cost_ns, chance=chance)
            yield replace(finding, by_chance=chance or (crowded and not _alone_does(lines, peer, finding.cost_ns)))


def _not_blamed(
    job: Job, slow: Iterable[SlowRank], lines: Rows[CodeLine], late: int, cost_ns: int, *, chance: bool
) -> bool:
    """Whether chance may have made a rank late; on shared cores, also whether nothing shows more work on it.

    A rank that computes on a processor may share its cores with other work.

    More work is shown if the rank is last so often that chance is ruled out. It is also shown if one function of the
    rank takes longer than on others by half of the waiting, and slowed down more than the function that differs least.
    """
    # Ranks without a capture count like the captured ranks.
    if any(has_device(job, rank) for rank in job.steps.counts):
        return chance
    if any(one.rank == late and one.p_value < CHANCE.value for one in slow):
        return False
    own, others = _times(lines, late), [_times(lines, rank) for rank in job.steps.counts if rank != late]
    if not own or not any(others):
        return True
    beside_it = {name: median(one.get(name, 0) for one in others) for name in own}
    more = {name: ns - beside_it[name] for name, ns in own.items()}
    name = max(more, key=lambda one: (more[one], one))
    known = [one for one in own if by_share(LIMIT, beside_it[one] / max(sum(beside_it.values()), 1))]
    slower = min((own[one] / beside_it[one] for one in known), default=1.0)
    return more[name] < HALF.value * cost_ns or MORE.value * own[name] <= slower * beside_it[name]


def _alone_does(lines: Rows[CodeLine], late: int, cost_ns: int) -> bool:
    """Whether a function that hardly any other rank runs explains half of the waiting, with all that it calls."""
    others: dict[tuple[str, str], int] = {}
    for row in lines:
        if row.rank != late:
            others[_name(row)] = max(others.get(_name(row), 0), row.total_ns or row.own_ns)
    own = {_name(row): row.total_ns or row.own_ns for row in lines.of(late) if row.place}
    return any(ns - others.get(name, 0) >= max(HALF.value * cost_ns, MORE.value * ns) for name, ns in own.items())


def _name(row: CodeLine) -> tuple[str, str]:
    return row.place.rsplit(":", 1)[0], row.function


def _times(lines: Rows[CodeLine], rank: int) -> dict[tuple[str, str], int]:
    """The own time of each function of a rank, with the backward work of what the function computed."""
    found: dict[tuple[str, str], int] = {}
    for row in lines.of(rank):
        if row.place:
            found[_name(row)] = found.get(_name(row), 0) + row.python_ns + row.operator_ns + row.backward_ns
    return found


def _by_chance(slow: SlowRank) -> bool:
    """Whether neither how often nor by how much the rank is last is beyond chance; False if no steps tell."""
    return slow.noise_p_value is not None and slow.chance >= CHANCE.value


def _size(wait: PeerWait) -> tuple[int, int, int]:
    """A sort key of waits: equal waits by the greater sum, then by the lower rank, whatever the order of rows."""
    return wait.longest_ns, wait.total_ns, -wait.peer


def _other_stage(pipelines: Rows[Pipeline], wait: PeerWait) -> bool:
    """Whether two ranks are in different stages of a pipeline."""
    line = pipelines.only
    own = {stage.stage for stage in (line.stages if line else ()) if {wait.rank, wait.peer} & set(stage.ranks)}
    return len(own) > 1


def _of_peer(
    job: Job, waits: Rows[PeerWait], pipelines: Rows[Pipeline], peer: int, fused: Rows[FusedOperator],
    groups: Rows[GroupOp], *, more: Balance | None, unprofiled: Rows[Before],
) -> Loss | None:  # fmt: skip
    slow: list[tuple[float, int, PeerWait, StepSplit]] = []
    for wait in (wait for wait in waits if wait.peer == peer and not _other_stage(pipelines, wait)):
        split = job.steps.typical(wait.rank)
        if split is None or not split.window_ns:
            continue
        cost = waited_per_step(job, wait)
        if split.exposed_comm_ns is not None:
            # A wait that compute hides costs nothing.
            cost = min(cost, split.exposed_comm_ns)
        if by_share(LIMIT, cost / split.window_ns):
            slow.append((cost / split.window_ns, cost, wait, split))
    if not slow:
        return None
    share, cost, worst, split = max(slow, key=lambda one: (one[1], -one[2].rank))
    collected = worst.peer_collected
    apart = beside(job, pipelines, peer, fused) if collected else None
    why = say.MORE_WORK if more else _why(apart, cost)
    return Loss(
        message=say.ranks_wait(
            waiting=str(len(slow)),
            every=str(len(job.steps.counts)),
            peer=peer,
            why=why if collected else say.NOT_COLLECTED,
        ),
        ranks=tuple(sorted(wait.rank for _, _, wait, _ in slow)),
        blames=(Blame.of_rank(peer),),
        cost_ns=cost,
        share=share,
        gain=_gain(job, split, cost, more, unprofiled),
        confidence=_confidence(worst, groups, more),
        evidence=(
            *(
                Evidence(
                    what=say.waits(rank=wait.rank, peer=peer, waits=str(wait.waits)),
                    value=float(wait.total_ns),
                    unit="ns",
                    threshold=None,
                    where=f"{wait.source}, the longest {duration(wait.longest_ns)} from {wait.longest_at_ns} ns on "
                    f"({job.inputs.get(wait.rank, '')})",
                    at=FindingMoment(rank=wait.rank, start_ns=wait.longest_at_ns, dur_ns=wait.longest_ns),
                )
                # The longest waits stand for all: a job may have thousands of ranks.
                for _, _, wait, _ in sorted(slow, key=lambda one: (-one[1], one[2].rank))[:_SHOWN]
            ),
            Evidence(
                what=say.WAIT_PER_STEP,
                value=round(share, 6),
                unit="of window",
                threshold=LIMIT.value,
                where=f"rank {worst.rank}",
            ),
            *_beside(apart),
            *(_more(more) if more else ()),
        ),
        replay=(f"rank:{peer}=median",),
        actions=(_action(peer, worst.rank, why, collected=collected),),
    )


def _confidence(wait: PeerWait, groups: Rows[GroupOp], more: Balance | None) -> float:
    if more:
        return confidence("COM002.more_work")
    if not wait.peer_collected:
        return confidence("COM002.not_collected")
    shared = [group for group in groups if wait.rank in group.ranks and wait.peer in group.ranks]
    inferred = bool(shared) and all(group.members_source == "inferred" for group in shared)
    return confidence("COM002.inferred" if inferred else "COM002")


def _has_more(job: Job, balances: Rows[Balance], late: int) -> Balance | None:
    """The balance that gives a rank without a device more work than the others; None if no balance does."""
    if has_device(job, late):
        return None
    found = (one for one in balances if one.what == "operations" and one.most_rank == late)
    return next(
        (one for one in found if by_share(UNEVEN, one.most / one.mean - 1) and (one.correlation or 0) > TOGETHER.value),
        None,
    )


def _more(balance: Balance) -> tuple[Evidence, ...]:
    return (
        Evidence(
            what=say.OPERATIONS_BEYOND_MEAN,
            value=round(balance.most / balance.mean - 1, 6),
            unit=UNEVEN.unit,
            threshold=UNEVEN.value,
            where=f"rank {balance.most_rank}, {balance.source}",
        ),
    )


def _gain(job: Job, split: StepSplit, cost_ns: int, more: Balance | None, unprofiled: Rows[Before]) -> Gain:
    """The gain if the straggler arrives with the others: smaller if other ranks must take over its work.

    Without a device the profiler lengthens the waited-for work: the same share of the unprofiled step is waiting.
    """
    row = before_without_device(job, unprofiled, split.rank)
    if row is not None:
        cost_ns = min(cost_ns, round(row.step_ns * cost_ns / split.window_ns))
    if more is None:
        return won(job, split.rank, cost_ns, say.ARRIVES, before=row is not None)
    return Gain(
        low_ns=min(round(AT_ONCE.value * (more.late_ns or 0)), cost_ns),
        high_ns=cost_ns,
        method=at_most(when=say.ARRIVES_AND_SHARES),
        before=row is not None,
    )


def _why(apart: Beside | None, cost_ns: int) -> Message | None:
    """What a straggler does longer than its peers; None if that explains less than half of the waiting."""
    if apart is None or max(apart.compute_ns, apart.free_ns) <= HALF.value * cost_ns:
        return None
    return say.COMPUTES if apart.compute_ns >= apart.free_ns else say.STARVES


def _beside(apart: Beside | None) -> tuple[Evidence, ...]:
    if apart is None:
        return ()
    where = f"rank {apart.rank}, its median step beside the median of {apart.peers} peers"
    return tuple(
        Evidence(what=what, value=float(ns), unit="ns", threshold=None, where=where)
        for what, ns in ((say.COMPUTES_LONGER, apart.compute_ns), (say.FREE_LONGER, apart.free_ns))
    )


def _action(peer: int, waiting: int, why: Message | None, *, collected: bool) -> Action:
    if not collected:
        return Action(
            title=say.profile(peer=peer),
            do=say.profile_do(peer=peer, waiting=waiting),
            verify=say.profile_verify(peer=str(peer)),
            risk=NO_RISK,
            source="tasks of the capture itself",
        )
    if why == say.COMPUTES:
        return Action(
            title=say.compute_alike(peer=peer),
            do=say.compute_alike_do(peer=peer),
            verify=say.compute_alike_verify(peer=peer),
            risk=NO_RISK,
            source="tasks of the capture itself",
        )
    if why == say.MORE_WORK:
        return Action(
            title=say.share_work(peer=peer),
            do=say.share_work_do(peer=peer),
            verify=say.share_work_verify(peer=str(peer)),
            risk=NO_RISK,
            source="shapes of the capture itself",
        )
    if why is None:
        return Action(
            title=say.compare(peer=peer),
            do=say.compare_do(peer=peer, waiting=waiting),
            verify=say.compare_verify(peer=str(peer)),
            risk=NO_RISK,
            source="tasks of the capture itself",
        )
    return Action(
        title=say.look_at_host(peer=peer),
        do=say.look_at_host_do(peer=peer),
        verify=say.look_at_host_verify(peer=peer),
        risk=NO_RISK,
        source="tasks of the capture itself",
    )
