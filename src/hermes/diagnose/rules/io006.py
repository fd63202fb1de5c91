"""Saving or logging holds the step up.

## What it detects

Time in which the device has nothing to do while the training thread saves a checkpoint, writes metrics or prints, per
step, as a share of the step. On a job without a device it is the time of these calls. They are known by their Python
frames and ranges.

## Why it costs you

The thread that writes is the one that feeds the device. When one rank writes, the others wait for it in the next
collective.

## When it is not a problem

When the capture happens to hold one of few checkpoints: the interval between two of them is what counts.

## What to do

Save in the background and less often; keep metrics on the device, and let a thread write them every fifty steps.

## How to check

Run 50 steps without saving and logging: the step must shorten by the cost.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.diagnose.finding import Action, Finding
from hermes.diagnose.rule import Measures, Rule, Threshold
from hermes.diagnose.rules._host import (
    blamed,
    bound,
    event_cost,
    events_of,
    has_device,
    host_loss,
    of_events,
    on,
    within,
)
from hermes.diagnose.rules._input import where_verb
from hermes.knowledge.host_work import CHECKPOINT

LIMIT = Threshold(value=0.02, unit="of step", source="docs/evidence/host-limits.md")


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""
    found = host_loss(measures, "saving and logging", LIMIT, lambda split: event_cost(measures, split.rank, CHECKPOINT))
    row = events_of(measures, found.worst.rank, CHECKPOINT) if found else None
    if found is None or row is None:
        return
    yield Finding(
        code="IO006",
        layer="io",
        cause="checkpoint or logging",
        title=f"Saving or logging {where_verb(measures, found)}{on(measures, found)}",
        ranks=found.ranks,
        blames=blamed(measures, found, *(name for name, _, _ in row.names[:1])),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(measures, found, "all of it runs in the background"),
        confidence=round(0.7 * measures.certainty, 2),
        evidence=(*found.evidence, *of_events(measures, row)),
        replay=("host:checkpoint-or-logging=0",) if has_device(measures, row.rank) else (),
        within=within(measures, row.rank, {CHECKPOINT}),
        actions=(
            Action(
                title="Save in the background",
                do="torch.distributed.checkpoint.async_save(state, checkpoint_id=path), on Ascend also "
                "torch_npu.utils.save_async(state, path); save less often.",
                verify="Steps that save are as long as the others.",
                risk="Host memory for one copy of the state; a crash before the end loses that checkpoint.",
                source="PyTorch documentation of torch.distributed.checkpoint",
            ),
            Action(
                title="Write metrics rarely and from another thread",
                do="values.append(loss.detach()); every 50 steps hand torch.stack(values).cpu() to a thread that "
                "writes.",
                verify="No writer or printing call is left in most steps.",
                risk="The last values are lost when the job dies.",
                source="PyTorch performance tuning guide: avoid unnecessary CPU-GPU synchronization",
            ),
        ),
    )


RULE = Rule(code="IO006", page=__doc__ or "", find=find, cases=("IO-16", "IO-17", "IO-24"))
