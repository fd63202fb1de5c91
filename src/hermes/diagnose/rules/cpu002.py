"""Operators are compiled while the step runs.

## What it detects

Time of `aclopCompileAndExecute` calls per step, as a share of the host's step: operators of the graph-engine kind that
are compiled or looked up at every call. The time counts, not the number of calls, so that a capture of one step and one
of a hundred say the same.

## Why it costs you

Compilation holds the thread that feeds the device. Binary kernels (aclnn) need none.

## When it is not a problem

In the first steps, where every new shape is compiled once. When the device has work queued for longer than the call.

## What to do

Turn online compilation off, and keep shapes fixed where an operator still needs it.

## How to check

Profile again after the warm-up: the calls are gone or take no time.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.analyze.measures import TopRow
from hermes.diagnose.finding import Action, Evidence, Finding, Gain
from hermes.diagnose.rule import Measures, Rule, Threshold, by_share
from hermes.diagnose.rules._host import host_cost

LIMIT = Threshold(value=0.01, unit="of step", source="docs/evidence/cpu002.md")
CALL = "aclopCompileAndExecute"


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""
    rows = [row for row in measures.host_calls if row.name == CALL]
    cost, share, ranks = host_cost(measures, rows)
    if not rows or not by_share(LIMIT, share):
        return
    calls: TopRow = rows[0]
    yield Finding(
        code="CPU002",
        layer="cpu",
        cause="operator compilation",
        title=f"Operators are compiled in every step ({share:.0%} of the host's step)",
        ranks=ranks,
        blames=(CALL,),
        cost_ns=cost,
        share=share,
        gain=Gain(low_ns=0, high_ns=cost, method="bound: no call is left, and the host was the limit all the while"),
        confidence=round(0.6 * measures.certainty, 2),
        evidence=(
            Evidence(
                what=f"{calls.count} calls of {CALL}",
                value=float(calls.total_ns),
                unit="ns",
                threshold=None,
                where=f"ranks {list(ranks)}, all steps",
            ),
            Evidence(
                what="time of the calls per step",
                value=round(share, 6),
                unit="of step",
                threshold=LIMIT.value,
                where="mean over ranks",
            ),
        ),
        actions=(
            Action(
                title="Turn online compilation off",
                do="torch_npu.npu.set_compile_mode(jit_compile=False) before the model is built; keep "
                "input shapes fixed or bucketed.",
                verify=f"{CALL} no longer appears after the warm-up, and free time falls.",
                risk="Some operators run slower without shape-specialised code: compare the step time.",
                source="torch_npu documentation of set_compile_mode",
            ),
        ),
    )


RULE = Rule(code="CPU002", page=__doc__ or "", find=find)
