"""A tensor is read back to the host in the middle of the step.

## What it detects

Free time of the device while the host reads a tensor's value (`.item()`, `float(tensor)`, a Python `if` on a tensor:
all end in `aten::_local_scalar_dense`) and until the next task arrives, per step, as a share of the window.

## Why it costs you

The host stands in the call until the device has finished all that was queued. When the value arrives the queue is
empty, and the device is free until new work reaches it.

## When it is not a problem

Once in many steps, for a log line. A long wait alone is no loss: while the host waits, the device works.

## What to do

Keep losses and metrics on the device and read them every N steps; replace tensor-dependent Python branches.

## How to check

Profile again: the operator is gone from most steps, and free time falls.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.diagnose.finding import Action, Finding, Gain
from hermes.diagnose.rule import Measures, Rule, Threshold
from hermes.diagnose.rules._host import idle_loss

LIMIT = Threshold(value=0.02, unit="of window", source="docs/evidence/cpu003.md")


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""
    found = idle_loss(measures, "read back", LIMIT)
    if found is None:
        return
    yield Finding(
        code="CPU003",
        layer="cpu",
        cause="synchronising call",
        title=f"Reading tensors back leaves the device free for {found.share:.0%} of the step",
        ranks=found.ranks,
        blames=found.worst.names,
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: the queue is never empty after the calls"),
        confidence=round(0.7 * measures.certainty, 2),
        evidence=found.evidence,
        replay=("sync:none",),
        actions=(
            Action(
                title="Do not read tensors back in every step",
                do="Accumulate losses and metrics as tensors (total += loss.detach()) and call .item() every 50 or "
                "100 steps.",
                verify="aten::_local_scalar_dense disappears from most steps, and free time falls.",
                risk="Logs lag behind by up to the interval.",
                source="PyTorch performance tuning guide: avoid unnecessary CPU-GPU synchronization",
            ),
        ),
    )


RULE = Rule(code="CPU003", page=__doc__ or "", find=find)
