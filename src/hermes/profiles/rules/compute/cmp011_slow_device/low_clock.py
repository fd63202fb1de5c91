"""The accelerator's clock is below its rated one."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Message, Name, Rank, Share, message, sentence
from hermes.knowledge.actions import action, with_tools
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_cures import CLOCK_TOOLS
from hermes.model.compute_measures import ChipUsed, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._compute import lost
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules._slow_ranks import slow_by_compute
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rank_messages import on_count
from hermes.profiles.rules.rule import rule

LIMIT = Limit(
    value=0.05,
    unit="of the time of all kernels",
    source="AI Core frequency check of msprof-analyze: mean (max - f) / max from 5 % on",
)
_MOST = 16


@rule("CMP011", state="stable", fault=Fault.LOW_CLOCK, layer="environment", cases=("CMP-14", "ENV-13"))
def low_clock(job: Job, computes: Rows[StepCompute], chips: Rows[ChipUsed]) -> Iterator[Loss]:
    """At most one finding, of ranks whose clock is below its rated one."""
    found = lost(job, computes, COST_OF_CLOCK, lambda row: row.losses.frequency_ns, LIMIT, NOISE)
    if found is None:
        return
    rows = {(row.rank, row.step): row for row in computes}
    worst = rows[found.worst.rank, found.worst.step]
    slow = {late.rank for late in slow_by_compute(job, computes)}
    clocked = [chip for chip in chips if worst.rank in chip.ranks and chip.mhz]
    factors = {row.rank: 1 - (row.losses.frequency_ns or 0) / row.kernel_ns for row in rows.values() if row.kernel_ns}
    clock = Evidence(
        what=MEAN_CLOCK,
        value=round(worst.mhz or 0.0, 1),
        unit="MHz",
        threshold=float(clocked[0].mhz) if clocked and clocked[0].mhz else None,
        where=f"rank {worst.rank}",
    )
    yield Loss(
        message=clock_costs(share=percents(found.share), on=on_count(found.ranks)),
        ranks=found.ranks,
        blames=tuple(Blame.of_rank(rank) for rank in found.ranks[:_MOST]),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method=at_most(when=RATED)),
        confidence=confidence("CMP011.low_clock"),
        evidence=(*found.evidence, *((clock,) if worst.mhz else ())),
        replay=tuple(f"compute:{rank}={factors[rank]:.4g}" for rank in found.ranks[:_MOST] if rank in factors),
        apart=not slow.issuperset(found.ranks),
        actions=with_tools(_LOOK, look_at_device_do, CLOCK_TOOLS, rank=found.ranks[0]),
    )


COST_OF_CLOCK = sentence("cmp011.cost_of_clock")
MEAN_CLOCK = sentence("cmp011.mean_clock")
RATED = sentence("cmp011.rated")
_LOOK = action(
    "cmp011.look_at_device", do=RATED, source="msprof-analyze, AI Core frequency check", cases=("CMP-14", "ENV-13")
)  # fmt: skip


@message("cmp011.clock_costs")
def clock_costs(*, share: Share, on: Message) -> None:
    """A clock below its rated one costs time."""


@message("cmp011.look_at_device_do")
def look_at_device_do(*, tool: Name | None = None, rank: Rank) -> None:
    """How to look at the device of a rank."""
