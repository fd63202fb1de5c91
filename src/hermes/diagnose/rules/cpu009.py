"""A job without a device runs very many small operators.

## What it detects

Leaf operators of less than 10 us, on a job that computes on the host: their number a step times the least that a call
takes beside its own work, as a share of the step. CPU004 says the same of a job with a device, by its free time.

## Why it costs you

Each operator is found, checked and called, whatever its size: of a sum of a few numbers that is nearly all of its time.

## When it is not a problem

When the loop runs in compiled code or in another framework's threads: then no such operators show.

## What to do

Work on all samples, heads or parameters at once: one batched operator in place of a loop, a fused optimizer, a compiled
function for chains of elementwise work.

## How to check

Profile again: the number of operators a step falls, and the step by more than the cost.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.analyze.compute_measures import OperatorCost
from hermes.diagnose.finding import Action, Finding, Gain
from hermes.diagnose.rule import Measures, Rule, Threshold
from hermes.diagnose.rules._host import blamed, fact, has_device, host_loss, on

LIMIT = Threshold(value=0.05, unit="of step", source="docs/evidence/host-limits.md")
_SMALL_NS = 10_000
_CALL_NS = 2_000
_SHOWN = 3


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""
    found = host_loss(measures, "calls of small operators, at least", LIMIT, lambda split: _cost(measures, split.rank))
    if found is None:
        return
    rank = found.worst.rank
    rows = sorted(_small(measures, rank), key=lambda row: (-row.ns, row.operator, row.shapes))
    names = tuple(dict.fromkeys(row.operator for row in rows))[:_SHOWN]
    yield Finding(
        code="CPU009",
        layer="cpu",
        cause="very many small operators",
        title=f"Calling small operators takes at least {found.share:.0%} of the step{on(measures, found)}",
        ranks=found.ranks,
        blames=blamed(measures, found, *names),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: the calls are gone, at 2 us each"),
        confidence=round(0.5 * measures.certainty, 2),
        evidence=(
            *found.evidence,
            fact(measures, rank, "operators under 10 us", _calls(measures, rank), "calls a step"),
            *(
                fact(measures, rank, f"{row.operator} {row.shapes}", row.calls / _steps(measures, row), "calls a step")
                for row in rows[:_SHOWN]
            ),
        ),
        actions=(
            Action(
                title="One operator for many",
                do="Stack what a Python loop handles one by one (torch.stack, bmm, scaled_dot_product_attention); "
                "torch.optim.AdamW(…, fused=True); torch.nn.utils.clip_grad_norm_(…, foreach=True); torch.compile for "
                "chains of elementwise operators.",
                verify="Few operators are left in a step, and the step is shorter.",
                risk="Stacking takes memory; compare results once.",
                source="PyTorch performance tuning guide: fuse operations; documentation of torch.optim: fused",
            ),
        ),
    )


def _small(measures: Measures, rank: int) -> list[OperatorCost]:
    return [row for row in measures.compute.operators if rank in row.ranks and row.median_ns < _SMALL_NS]


def _steps(measures: Measures, row: OperatorCost) -> int:
    """The steps over which the calls of a row are counted: those of all its ranks."""
    return max(1, sum(measures.steps_of_rank.get(rank, 0) for rank in row.ranks))


def _calls(measures: Measures, rank: int) -> float:
    return sum(row.calls / _steps(measures, row) for row in _small(measures, rank))


def _cost(measures: Measures, rank: int) -> int | None:
    return None if has_device(measures, rank) else round(_calls(measures, rank) * _CALL_NS)


RULE = Rule(
    code="CPU009",
    page=__doc__ or "",
    find=find,
    cases=("CPU-29", "CPU-12", "CPU-14", "CPU-15", "CPU-16", "CMP-13", "CMP-28", "CMP-40", "CMP-41", "MEM-14"),
)
