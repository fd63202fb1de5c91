"""Ranks run in different environments, and those with one value are slower.

## What it detects

A setting of the environment or a version that differs between ranks, where the ranks with one value work longer in a
step than those with another: by the median of the window less the communication that nothing hides. Settings of the
profiler and of the job count for nothing.

## Why it costs you

The step ends with its slowest rank: all others wait for it.

## When it is not a problem

When ranks differ by design, as hosts of two kinds do, or when the slow ranks have another cause that is found here too.

## What to do

Start all ranks from one image and one environment.

## How to check

After the change all ranks record the same value, and their own times are alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from hermes.knowledge.confidence import confidence
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Gain, Loss
from hermes.model.host_measures import SettingValues
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._component import place
from hermes.profiles.rules._host import fact
from hermes.profiles.rules.rule import by_share, rule

LIMIT = Limit(
    value=0.05,
    unit="of window",
    source="slow-card advice of MindStudio Insight 26.0: ranks that differ by more than 5 % of the longest time",
)
_SOURCES = ("environment", "version")


@rule("ENV003", state="preview", fault=Fault.UNEVEN_ENVIRONMENT, cases=("ENV-06",))
def uneven_environment(job: Job, settings: Rows[SettingValues]) -> Iterator[Loss]:
    """One finding for each setting that divides slow from fast ranks."""
    own = {rank: ns for rank in job.steps.counts if (ns := _own(job, rank)) is not None}
    for row in settings:
        if row.differs and row.source in _SOURCES:
            yield from _of_setting(job, row, own)


def _own(job: Job, rank: int) -> int | None:
    """What the typical step of a rank takes besides waiting for others."""
    split = job.steps.typical(rank)
    if split is None or split.exposed_comm_ns is None:
        return None
    return split.window_ns - split.exposed_comm_ns


def _of_setting(job: Job, row: SettingValues, own: dict[int, int]) -> Iterator[Loss]:
    times = {value: [own[rank] for rank in ranks if rank in own] for value, ranks in row.values}
    known = {value: median(found) for value, found in times.items() if found}
    if len(known) < 2:
        return
    slow, fast = (choose(known, key=lambda value: (known[value], str(value))) for choose in (max, min))
    if min(times[slow]) <= max(times[fast]):
        # Some rank with the other value is as slow: the setting does not divide them.
        return
    ranks = tuple(sorted(rank for value, found in row.values for rank in found if value == slow and rank in own))
    worst = max(ranks, key=lambda rank: (own[rank], -rank))
    split, cost = job.steps.typical(worst), int(known[slow] - known[fast])
    if split is None or not split.window_ns or not by_share(LIMIT, cost / split.window_ns):
        return
    shown = f"{row.name}={slow if slow is not None else 'unset'}"
    other = fast if fast is not None else "unset"
    share = cost / split.window_ns
    yield Loss(
        message=f"{len(ranks)} of {len(own)} ranks have {shown[:80]}, the fast ones {str(other)[:40]}, and work "
        f"{share:.0%} of the step longer",
        ranks=ranks,
        blames=(Blame(shown, "setting"), *(Blame.of_rank(rank) for rank in ranks[:4])),
        cost_ns=cost,
        share=share,
        gain=Gain(low_ns=0, high_ns=cost, method="bound: the slow ranks become as fast as the others"),
        confidence=confidence("ENV003"),
        evidence=(
            fact(job, worst, f"longer than ranks with {str(other)[:40]}", round(share, 6), LIMIT.unit, LIMIT.value,
                 source=place(job, split)),
            *(
                fact(job, worst, f"median own time with {str(value)[:40]}", ns, "ns")
                for value, ns in sorted(known.items(), key=lambda one: (-one[1], str(one[0])))
            ),
        ),
        actions=(
            Action(
                title="Give all ranks one environment",
                do=f"Set {row.name} alike on all hosts; start all ranks from one image by its digest, and compare "
                "versions at the start.",
                verify="The table of settings shows no difference, and the ranks' own times are alike.",
                risk="An upgrade must be tested.",
                source="comparison of ranks in this capture",
            ),
        ),
    )  # fmt: skip
