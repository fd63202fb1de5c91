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

## What to do

Profile the awaited rank, on the same step, and compare its host and compute time with a rank that waits.

## How to check

Collect the awaited rank together with a waiting one: the awaited one must arrive last and not wait itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.analyze.measures import PeerWait
from hermes.diagnose.finding import Action, Evidence, Finding, Gain
from hermes.diagnose.rule import Measures, Rule, Threshold, by_share

LIMIT = Threshold(
    value=0.05,
    unit="of window",
    source="slow-card advice of MindStudio Insight 26.0: waiting above 5 % of the longest time",
)

_SHOWN = 4


def find(measures: Measures) -> Iterator[Finding]:
    """One finding per rank that some rank waits for longest; shorter waits beside that one overlap it."""
    longest: dict[int, PeerWait] = {}
    for wait in measures.waits:
        if wait.rank not in longest or _size(wait) > _size(longest[wait.rank]):
            longest[wait.rank] = wait
    for peer in sorted({wait.peer for wait in longest.values()}):
        finding = _of_peer(measures, peer)
        if finding:
            yield finding


def _size(wait: PeerWait) -> tuple[int, int, int]:
    """Of equally long waits the greater sum counts, then the lower rank: the order of the rows must not matter."""
    return wait.longest_ns, wait.total_ns, -wait.peer


def _of_peer(measures: Measures, peer: int) -> Finding | None:
    slow: list[tuple[float, int, PeerWait, int]] = []
    for wait in (wait for wait in measures.waits if wait.peer == peer):
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
    missing = "" if collected else ", which was not collected"
    return Finding(
        code="COM002",
        layer="communication",
        cause="slow rank",
        title=f"{len(slow)} of {len(measures.steps_of_rank)} ranks wait for rank {peer}{missing}",
        ranks=tuple(sorted(wait.rank for _, _, wait, _ in slow)),
        blames=(f"rank {peer}",),
        cost_ns=cost,
        share=share,
        gain=Gain(low_ns=0, high_ns=cost, method="bound: the awaited rank arrives with the others"),
        confidence=round((0.8 if collected else 0.7) * measures.certainty, 2),
        evidence=(
            *(
                Evidence(
                    what=f"rank {wait.rank} waits for rank {peer}: {wait.waits} waits, their sum",
                    value=float(wait.total_ns),
                    unit="ns",
                    threshold=None,
                    where=f"{wait.source}, the longest at {wait.longest_at_ns} ns for {wait.longest_ns} ns "
                    f"({measures.inputs.get(wait.rank, '')})",
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
        ),
        replay=(f"rank:{peer}=median",),
        actions=(
            Action(
                title=f"Profile rank {peer}" if not collected else f"Compare rank {peer} with a rank that waits",
                do=f"Collect rank {peer} and rank {worst.rank} on the same step at Level1 and analyse both folders "
                "together.",
                verify=f"Rank {peer} arrives last at the collectives and waits for nobody.",
                risk="none",
                source="tasks of the capture itself",
            ),
        ),
    )


RULE = Rule(code="COM002", page=__doc__ or "", find=find)
