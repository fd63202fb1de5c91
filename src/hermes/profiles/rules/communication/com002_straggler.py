"""A straggler: ranks wait for one rank inside collectives.

## What it detects

Inside a collective, Ascend records each wait for another rank's notification with the rank that is awaited. Elsewhere
the starts of a collective on all ranks tell who arrived last, as far as the clocks allow. The rule
takes what a rank waits for one peer, per step, against the window, and names the peer: of Ascend's waits the longest,
since several run at once; else their sum. On Ascend that peer need not have been collected.

## Why it costs you

A collective ends when its last member has arrived. The time that all others wait for it is lost on every one of them.

## When it is not a problem

Around checkpoints and evaluation, and in the first steps after a start, ranks arrive unevenly without a lasting cause.
A chain of waits can pass a delay on: the awaited rank may itself have waited for another.

Of ranks that are all alike one arrives last each time, by chance. Where two steps or more were captured, the rank must
be late by more than steps differ anyway, or be the last in more of them than chance gives; otherwise the waiting is
told below the noise, and nobody is to blame. A rank that computes on a processor shares its cores with whatever runs
there: it is blamed where it is last in more steps than chance gives, or where one function of the program takes it
longer than the others by half of the waiting, and by more than the one does that differs least.

Within a pipeline, stages wait for each other by design: waits for ranks of another stage are left to the PAR rules.

## What to do

Where the awaited rank was collected, the finding says whether it computes longer than its peers (then CMP011 or PAR003
may say why) or its device waits for its host (then look at that host); on a processor, whether it has more operations
to compute. Where it was not, profile it on the same step.

## How to check

Profile the awaited rank together with a waiting one: the awaited one must no longer arrive last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from statistics import median

from hermes.base.units import duration
from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import WITH_STACKS
from hermes.model.code_measures import CodeLine
from hermes.model.comm_measures import SlowRank
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Evidence, Gain, Loss, Moment
from hermes.model.host_measures import Before
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.measures import PeerWait, StepSplit
from hermes.model.structure_measures import Balance, Pipeline
from hermes.profiles.measure.communication.fused import FusedOperator
from hermes.profiles.rules._comm import waited_per_step
from hermes.profiles.rules._host import before_without_device, has_device, won
from hermes.profiles.rules._input import crowded_ns
from hermes.profiles.rules._limits import TOGETHER
from hermes.profiles.rules._slow import Beside, beside
from hermes.profiles.rules.rule import by_share, rule

LIMIT = Limit(
    value=0.05,
    unit="of window",
    source="slow-card advice of MindStudio Insight 26.0: waiting above 5 % of the longest time",
)
CHANCE = Limit(
    value=0.0027,
    unit="is the most that chance may explain of a rank that is blamed, all ranks counted",
    source="three standard deviations, as in control charts: NIST/SEMATECH e-Handbook of Statistical Methods, 6.3.1",
)
HALF = Limit(
    value=0.50,
    unit="of the waiting must be explained by what the awaited rank does longer",
    source="docs/evidence/detection.md",
)
MORE = Limit(
    value=0.8,
    unit="of how much longer a function takes must still be more than of the one that differs least",
    source="docs/accuracy.md",
)

UNEVEN = Limit(value=0.10, unit="more operations than the mean of the ranks", source="case PAR-05")

AT_ONCE = Limit(
    value=0.5,
    unit="of what sharing work evenly would win remains where ranks that compute at once slow each other down",
    source="docs/decisions/0029-uneven-in-turn.md",
)

_SHOWN = 4
_MORE_WORK = "which has more to compute"
_COMPUTES = "which computes longer than its peers"
_STARVES = "whose host keeps its device waiting"


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
) -> Iterator[Loss]:
    """One finding per rank that some rank waits for longest; shorter waits beside that one overlap it."""
    longest: dict[int, PeerWait] = {}
    for wait in waits:
        if _other_stage(pipelines, wait):
            continue
        if wait.rank not in longest or _size(wait) > _size(longest[wait.rank]):
            longest[wait.rank] = wait
    for peer in sorted({wait.peer for wait in longest.values()}):
        finding = _of_peer(
            job, waits, pipelines, peer, fused, more=_has_more(job, balances, peer), unprofiled=unprofiled
        )
        if finding:
            chance = any(_by_chance(one) for one in slow if one.rank == peer)
            # What waits for cores that others use is late by that, as often as it happens.
            crowded = crowded_ns(job, unprofiled, peer) > 0
            chance = _not_blamed(job, () if crowded else slow, lines, peer, finding.cost_ns, chance=chance)
            yield replace(finding, by_chance=chance or (crowded and not _alone_does(lines, peer, finding.cost_ns)))


def _not_blamed(
    job: Job, slow: Iterable[SlowRank], lines: Rows[CodeLine], late: int, cost_ns: int, *, chance: bool
) -> bool:
    """Whether chance may have made a rank late; of one that computes on a processor, which others may use, also
    whether nothing says that it does more there.

    What says so is that it is last in so many steps that chance is ruled out, or a function that it is in for half of
    the waiting longer than the others, and for more of its time than it is slower in what differs least.
    """
    # Ranks that were not collected are like those that were.
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
    """Whether a function that hardly any other rank is in explains half of the waiting, with all that it calls."""
    others: dict[tuple[str, str], int] = {}
    for row in lines:
        if row.rank != late:
            others[_name(row)] = max(others.get(_name(row), 0), row.total_ns or row.own_ns)
    own = {_name(row): row.total_ns or row.own_ns for row in lines.of(late) if row.place}
    return any(ns - others.get(name, 0) >= max(HALF.value * cost_ns, MORE.value * ns) for name, ns in own.items())


def _name(row: CodeLine) -> tuple[str, str]:
    return row.place.rsplit(":", 1)[0], row.function


def _times(lines: Rows[CodeLine], rank: int) -> dict[tuple[str, str], int]:
    """What functions of a rank take themselves, with the backward of what they computed."""
    found: dict[tuple[str, str], int] = {}
    for row in lines.of(rank):
        if row.place:
            found[_name(row)] = found.get(_name(row), 0) + row.python_ns + row.operator_ns + row.backward_ns
    return found


def _by_chance(slow: SlowRank) -> bool:
    """Whether neither how often the rank is last nor by how much is beyond chance; False where no steps tell it."""
    return slow.noise_p_value is not None and slow.chance >= CHANCE.value


def _size(wait: PeerWait) -> tuple[int, int, int]:
    """Of equally long waits the greater sum counts, then the lower rank: the order of the rows must not matter."""
    return wait.longest_ns, wait.total_ns, -wait.peer


def _other_stage(pipelines: Rows[Pipeline], wait: PeerWait) -> bool:
    """Whether two ranks are in different stages of a pipeline."""
    line = pipelines.only
    own = {stage.stage for stage in (line.stages if line else ()) if {wait.rank, wait.peer} & set(stage.ranks)}
    return len(own) > 1


def _of_peer(
    job: Job, waits: Rows[PeerWait], pipelines: Rows[Pipeline], peer: int, fused: Rows[FusedOperator],
    *, more: Balance | None, unprofiled: Rows[Before],
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
    why = _MORE_WORK if more else _why(apart, cost)
    tail = (f", {why}" if why else "") if collected else ", which was not collected"
    return Loss(
        message=f"{len(slow)} of {len(job.steps.counts)} ranks wait for rank {peer}{tail}",
        ranks=tuple(sorted(wait.rank for _, _, wait, _ in slow)),
        blames=(Blame.of_rank(peer),),
        cost_ns=cost,
        share=share,
        gain=_gain(job, split, cost, more, unprofiled),
        confidence=confidence("COM002.more_work" if more else "COM002" if collected else "COM002.not_collected"),
        evidence=(
            *(
                Evidence(
                    what=f"rank {wait.rank} waits for rank {peer}: {wait.waits} waits, their sum",
                    value=float(wait.total_ns),
                    unit="ns",
                    threshold=None,
                    where=f"{wait.source}, the longest {duration(wait.longest_ns)} from {wait.longest_at_ns} ns on "
                    f"({job.inputs.get(wait.rank, '')})",
                    at=Moment(rank=wait.rank, start_ns=wait.longest_at_ns, dur_ns=wait.longest_ns),
                )
                # The longest waits speak for all: a job may have thousands of ranks.
                for _, _, wait, _ in sorted(slow, key=lambda one: (-one[1], one[2].rank))[:_SHOWN]
            ),
            Evidence(
                what="wait per step",
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


def _has_more(job: Job, balances: Rows[Balance], late: int) -> Balance | None:
    """The balance by which a rank without a device has more to compute than the others; None where none says so."""
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
            what="operations beyond the mean",
            value=round(balance.most / balance.mean - 1, 6),
            unit=UNEVEN.unit,
            threshold=UNEVEN.value,
            where=f"rank {balance.most_rank}, {balance.source}",
        ),
    )


def _gain(job: Job, split: StepSplit, cost_ns: int, more: Balance | None, unprofiled: Rows[Before]) -> Gain:
    """What is won where the awaited rank arrives with the others: less where these have to take its work over.

    Without a device the profiler lengthens what is waited for: of the step before it the same share is waiting.
    """
    row = before_without_device(job, unprofiled, split.rank)
    if row is not None:
        cost_ns = min(cost_ns, round(row.step_ns * cost_ns / split.window_ns))
    if more is None:
        method = "the awaited rank arrives with the others"
        return won(job, split.rank, cost_ns, method, before=row is not None)
    return Gain(
        low_ns=min(round(AT_ONCE.value * (more.late_ns or 0)), cost_ns),
        high_ns=cost_ns,
        method="bound: the awaited rank arrives with the others, at least where these take work over from it",
        before=row is not None,
    )


def _why(apart: Beside | None, cost_ns: int) -> str:
    """In words, what an awaited rank does longer than its peers; empty where that explains no half of the waiting."""
    if apart is None or max(apart.compute_ns, apart.free_ns) <= HALF.value * cost_ns:
        return ""
    return _COMPUTES if apart.compute_ns >= apart.free_ns else _STARVES


def _beside(apart: Beside | None) -> tuple[Evidence, ...]:
    if apart is None:
        return ()
    where = f"rank {apart.rank}, its median step beside the median of {apart.peers} peers"
    return tuple(
        Evidence(what=what, value=float(ns), unit="ns", threshold=None, where=where)
        for what, ns in (("computes longer", apart.compute_ns), ("is free longer", apart.free_ns))
    )


def _action(peer: int, waiting: int, why: str, *, collected: bool) -> Action:
    if not collected:
        return Action(
            title=f"Profile rank {peer}",
            do=f"Collect rank {peer} {WITH_STACKS}; analyse its folder together with those of this capture: rank "
            f"{waiting} shows what waits, rank {peer} will show for what.",
            verify=f"Rank {peer} arrives last at the collectives and waits for nobody.",
            risk="none",
            source="tasks of the capture itself",
        )
    if why == _COMPUTES:
        return Action(
            title=f"Make rank {peer} compute no longer than the others",
            do=f"See the findings that blame rank {peer} (CMP008 its clock, CMP011 the same operators slower, PAR003 "
            "more tokens); compare its operators with another rank's in the table of operators.",
            verify=f"Compute of rank {peer} equals that of its peers, and the others no longer wait for it.",
            risk="none",
            source="tasks of the capture itself",
        )
    if why == _MORE_WORK:
        return Action(
            title=f"Give rank {peer} no more work than the others",
            do=f"Compare operators of rank {peer} with those of another in the table of operators. More calls are "
            "work of its own: take it out of the step, or share it. Larger shapes in the same calls are larger "
            "batches, or more tokens for its experts: deal samples by their cost, or balance the router.",
            verify=f"Rank {peer} has as many operations as the others, and they no longer wait for it.",
            risk="none",
            source="shapes of the capture itself",
        )
    if not why:
        return Action(
            title=f"Compare rank {peer} with a rank that waits",
            do="Neither its compute nor its free time explains half of the waiting: follow the critical path of the "
            f"report to rank {peer}, and compare its step with that of rank {waiting} on the timeline.",
            verify=f"Rank {peer} no longer arrives last.",
            risk="none",
            source="tasks of the capture itself",
        )
    return Action(
        title=f"Look at the host of rank {peer}",
        do=f"Compare host calls, input and free time of rank {peer} with another rank's (the CPU and IO rules say "
        "what holds it up); look for other processes on its host.",
        verify=f"Free time of rank {peer} equals that of its peers, and the others no longer wait for it.",
        risk="none",
        source="tasks of the capture itself",
    )
