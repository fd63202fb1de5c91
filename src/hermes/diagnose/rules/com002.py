"""Ranks wait for one rank inside collectives.

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

Ranks that compute on the cores of one host slow each other by turns: without a device, waits of less than a quarter of
the step are told with little confidence, and so are those for a rank that waits at least half as long itself.

Where, without a device, the awaited rank makes more calls, and of the same operators, or as many on larger tensors, it
has the larger part of the work: dealt out evenly, the others get theirs of it, and the step wins less than the wait.

Within a pipeline, stages wait for each other by design: waits for ranks of another stage are left to the PAR rules.

## What to do

Where the awaited rank was collected, the finding says whether it computes longer than its peers (then CMP011 or PAR003
may say why) or its device waits for its host (then look at that host). Where it was not, profile it on the same step.

## How to check

Profile the awaited rank together with a waiting one: the awaited one must no longer arrive last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hermes.analyze.measures import PeerWait
from hermes.cost.tensors import elements_of
from hermes.diagnose.finding import Action, Evidence, Finding, Moment
from hermes.diagnose.rule import Measures, Rule, Threshold, by_share
from hermes.diagnose.rules._host import before_of, has_device, won
from hermes.diagnose.rules._slow import Beside, beside

LIMIT = Threshold(
    value=0.05,
    unit="of window",
    source="slow-card advice of MindStudio Insight 26.0: waiting above 5 % of the longest time",
)
HALF = Threshold(
    value=0.50,
    unit="of the waiting must be explained by what the awaited rank does longer",
    source="docs/evidence/detection.md",
)

SHARED = Threshold(
    value=0.25,
    unit="of window may be ranks that take turns on the cores of their host, without a device",
    source="docs/evidence/noise.md",
)
RETURNED = Threshold(
    value=0.5, unit="of a wait that the awaited rank waits itself: then none of the two is slow",
    source="docs/evidence/noise.md",
)  # fmt: skip
MORE = Threshold(
    value=0.25, unit="more recorded calls, or numbers in them, than the rank that waits",
    source="docs/evidence/noise.md",
)  # fmt: skip
_SHOWN = 4
_AS_MANY = 0.1
_BY_TURNS = 0.4
_COMPUTES = "which computes longer than its peers"
_STARVES = "whose host keeps its device waiting"


def find(measures: Measures) -> Iterator[Finding]:
    """One finding per rank that some rank waits for longest; shorter waits beside that one overlap it."""
    longest: dict[int, PeerWait] = {}
    for wait in measures.waits:
        if _other_stage(measures, wait):
            continue
        if wait.rank not in longest or _size(wait) > _size(longest[wait.rank]):
            longest[wait.rank] = wait
    for peer in sorted({wait.peer for wait in longest.values()}):
        finding = _of_peer(measures, peer)
        if finding:
            yield finding


def _size(wait: PeerWait) -> tuple[int, int, int]:
    """Of equally long waits the greater sum counts, then the lower rank: the order of the rows must not matter."""
    return wait.longest_ns, wait.total_ns, -wait.peer


def _other_stage(measures: Measures, wait: PeerWait) -> bool:
    """Whether two ranks are in different stages of a pipeline."""
    line = measures.structure.pipeline
    own = {stage.stage for stage in (line.stages if line else ()) if {wait.rank, wait.peer} & set(stage.ranks)}
    return len(own) > 1


def _of_peer(measures: Measures, peer: int) -> Finding | None:
    slow: list[tuple[float, int, PeerWait, int]] = []
    for wait in (wait for wait in measures.waits if wait.peer == peer and not _other_stage(measures, wait)):
        split = measures.median_of(wait.rank)
        if split is None or not split.window_ns:
            continue
        cost = measures.waited_per_step(wait)
        if split.exposed_comm_ns is not None:
            # A wait that compute hides costs nothing.
            cost = min(cost, split.exposed_comm_ns)
        if by_share(LIMIT, cost / split.window_ns):
            slow.append((cost / split.window_ns, cost, wait, split.window_ns))
    if not slow:
        return None
    share, cost, worst, _ = max(slow, key=lambda one: (one[1], -one[2].rank))
    collected = worst.peer_collected
    apart = beside(measures, peer) if collected else None
    why = _why(apart, cost)
    uneven = _has_more_of_it(measures, peer, worst.rank, cost)
    tail = (f", {why}" if why else "") if collected else ", which was not collected"
    return Finding(
        code="COM002",
        layer="communication",
        cause="slow rank",
        title=f"{len(slow)} of {len(measures.steps_of_rank)} ranks wait for rank {peer}{tail}",
        ranks=tuple(sorted(wait.rank for _, _, wait, _ in slow)),
        blames=(f"rank {peer}",),
        cost_ns=cost,
        awaits=True,
        # A profiler lengthens the rank that makes more calls, and the others wait for that, too.
        calls=max(worst.waits / _steps(measures, worst.rank), _more_calls(measures, peer, worst.rank)),
        share=share,
        gain=won(measures, worst.rank, round(cost * (1 - 1 / (len(slow) + 1))), "its work is dealt out to all evenly")
        if uneven
        else won(measures, worst.rank, cost, "the awaited rank arrives with the others"),
        confidence=round(
            (_BY_TURNS if _shared(measures, worst, share) else 0.8 if collected else 0.7) * measures.certainty, 2
        ),
        evidence=(
            *(
                Evidence(
                    what=f"rank {wait.rank} waits for rank {peer}: {wait.waits} waits, their sum",
                    value=float(wait.total_ns),
                    unit="ns",
                    threshold=None,
                    where=f"{wait.source}, the longest at {wait.longest_at_ns} ns for {wait.longest_ns} ns "
                    f"({measures.inputs.get(wait.rank, '')})",
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
        ),
        replay=() if uneven else (f"rank:{peer}=median",),
        actions=((_DEAL,) if uneven else ()) + (_action(peer, worst.rank, why, collected=collected),),
    )


def _shared(measures: Measures, wait: PeerWait, share: float) -> bool:
    """Whether a wait may come of ranks that compute on the same cores: so short a one, or one that is returned."""
    if has_device(measures, wait.rank):
        return False
    back = (other.total_ns for other in measures.waits if (other.rank, other.peer) == (wait.peer, wait.rank))
    return not by_share(SHARED, share) or sum(back) >= RETURNED.value * wait.total_ns


def _steps(measures: Measures, rank: int) -> int:
    return max(1, measures.steps_of_rank.get(rank, 1))


def _more_calls(measures: Measures, peer: int, waiting: int) -> float:
    """How many more calls of the awaited rank were recorded a step than of the one that waits; 0 where not told."""
    own, other = before_of(measures, peer), before_of(measures, waiting)
    return max(0.0, own.calls - other.calls) if own and other else 0.0


def _has_more_of_it(measures: Measures, peer: int, waiting: int, cost_ns: int) -> bool:
    """Whether the awaited rank calls the same operators more often, or on more numbers.

    No half of the wait may be operators that the other rank has none of: then it has something else to do.
    """
    if has_device(measures, waiting):
        return False
    own, other = _by_name(measures, peer), _by_name(measures, waiting)
    if sum(own[name][0] for name in own if name not in other) > HALF.value * cost_ns:
        return False
    more, before = _more_calls(measures, peer, waiting), before_of(measures, waiting)
    if before is not None and by_share(MORE, more / max(1, before.calls)):
        return True
    alike = [name for name in own if name in other and abs(own[name][2] - other[name][2]) <= _AS_MANY * own[name][2]]
    here, there = (sum(rank[name][1] for name in alike) for rank in (own, other))
    return there > 0 and by_share(MORE, here / there - 1)


def _by_name(measures: Measures, rank: int) -> Mapping[str, tuple[float, float, float]]:
    """Nanoseconds, numbers and calls a step of the operators of a rank, by name."""
    found: dict[str, tuple[float, float, float]] = {}
    for row in measures.compute.operators:
        if rank in row.ranks:
            steps = sum(_steps(measures, one) for one in row.ranks)
            ns, numbers, calls = found.get(row.operator, (0.0, 0.0, 0.0))
            each, own = sum(map(elements_of, row.shapes.split(";"))), row.calls / steps
            found[row.operator] = ns + row.ns / steps, numbers + own * each, calls + own
    return found


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
            do=f"Collect rank {peer} at Level1 with Python stacks (with_stack=True), and analyse its folder together "
            f"with those of this capture: rank {waiting} shows what waits, rank {peer} will show for what.",
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


_DEAL = Action(
    title="Deal the work out evenly",
    do="Shuffle samples over all ranks (DistributedSampler(shuffle=True)), or sort them by length and deal them out in "
    "turn: order[rank::world_size]; batches by tokens, not by samples.",
    verify="The ranks make as many calls a step, and none is awaited by the others.",
    risk="Other batches: the loss takes another path.",
    source="case PAR-05; PyTorch documentation of torch.utils.data.distributed",
)

RULE = Rule(
    code="COM002", page=__doc__ or "", find=find, cases=("COM-21", "COM-22", "PAR-05", "PAR-13", "PAR-18", "ENV-06")
)
