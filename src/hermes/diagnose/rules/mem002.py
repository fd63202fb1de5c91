"""Device memory is taken from the driver while the step runs.

## What it detects

Time in which the device has nothing to do while the host takes device memory from the driver or gives it back
(`cudaMalloc`, `cudaFree`, `aclrtMallocPhysical`, mapping of segments), per step, as a share of the step.

## Why it costs you

These calls are slow, and freeing waits for the device. The caching allocator exists so that steps need none.

## When it is not a problem

In the first steps, while the allocator fills its cache: a capture that holds the start of a program shows little else.

## What to do

Drop `empty_cache()` from the loop, leave some memory free, and let segments grow.

## How to check

Profile again after the warm-up: no such call is left.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.diagnose.finding import Action, Finding, Gain
from hermes.diagnose.rule import Measures, Rule, Threshold
from hermes.diagnose.rules._host import blamed, event_cost, events_of, has_device, host_loss, of_events, on, within
from hermes.knowledge.host_work import ALLOCATION

LIMIT = Threshold(value=0.02, unit="of step", source="docs/evidence/host-limits.md")


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""
    found = host_loss(
        measures,
        "free while memory is taken or given back",
        LIMIT,
        lambda split: event_cost(measures, split.rank, ALLOCATION) if has_device(measures, split.rank) else None,
    )
    row = events_of(measures, found.worst.rank, ALLOCATION) if found else None
    if found is None or row is None:
        return
    yield Finding(
        code="MEM002",
        layer="memory",
        cause="allocator calls",
        title=f"Taking and giving back device memory leaves the device free for {found.share:.0%} of the step"
        f"{on(measures, found)}",
        ranks=found.ranks,
        blames=blamed(measures, found, *(name for name, _, _ in row.names[:1])),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: the allocator asks the driver for nothing"),
        confidence=round(0.8 * measures.certainty, 2),
        evidence=(*found.evidence, *of_events(measures, row)),
        replay=("host:allocation=0",),
        within=within(measures, row.rank, {ALLOCATION}),
        actions=(
            Action(
                title="Let the caching allocator keep its memory",
                do="Remove empty_cache() from the loop; export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True "
                "(PYTORCH_CUDA_ALLOC_CONF on CUDA); make the first batch the longest; if memory is full, a smaller "
                "micro-batch.",
                verify="No allocation call is left after the warm-up, and num_alloc_retries stays 0.",
                risk="More memory stays reserved.",
                source="PyTorch notes on CUDA semantics: memory management; torch_npu's list of environment variables",
            ),
        ),
    )


RULE = Rule(
    code="MEM002",
    page=__doc__ or "",
    find=find,
    cases=("MEM-02", "MEM-03", "MEM-07", "MEM-16", "MEM-17", "MEM-18", "CPU-21", "IO-26"),
)
