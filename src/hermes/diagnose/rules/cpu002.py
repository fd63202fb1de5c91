"""Operators are compiled while the step runs.

## What it detects

Free time of the device while `aclopCompileAndExecute` runs on the host and until the next task arrives, per step, as a
share of the window: operators of the graph-engine kind that are compiled or looked up at every call. The time counts,
not the number of calls, so that a capture of one step and one of a hundred say the same.

## Why it costs you

Compilation holds the thread that feeds the device. Binary kernels (aclnn) need none.

## When it is not a problem

In the first steps, where every new shape is compiled once. When the device has work queued for longer than the call:
then it is not free, and the rule stays silent.

## What to do

Turn online compilation off, and keep shapes fixed where an operator still needs it.

## How to check

Profile again after the warm-up: the calls are gone or take no time, and free time falls.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.diagnose.finding import Action, Finding, Gain
from hermes.diagnose.rule import Measures, Rule, Threshold
from hermes.diagnose.rules._host import idle_loss

LIMIT = Threshold(value=0.01, unit="of window", source="docs/evidence/cpu002.md")


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""
    found = idle_loss(measures, "compilation", LIMIT)
    if found is None:
        return
    yield Finding(
        code="CPU002",
        layer="cpu",
        cause="operator compilation",
        title=f"Compiling operators leaves the device free for {found.share:.0%} of the step",
        ranks=found.ranks,
        blames=found.worst.names,
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: no call is left, and nothing else holds the host"),
        confidence=round(0.7 * measures.certainty, 2),
        evidence=found.evidence,
        replay=("host:compilation=0",),
        actions=(
            Action(
                title="Turn online compilation off",
                do="torch_npu.npu.set_compile_mode(jit_compile=False) before the model is built; keep input shapes "
                "fixed or bucketed.",
                verify="aclopCompileAndExecute no longer appears after the warm-up, and free time falls.",
                risk="Some operators run slower without shape-specialised code: compare the step time.",
                source="torch_npu documentation of set_compile_mode",
            ),
        ),
    )


RULE = Rule(code="CPU002", page=__doc__ or "", find=find)
