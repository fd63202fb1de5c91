"""Products run in float32 on a processor that multiplies 16 bits faster.

## What it detects

Half of the time of products and convolutions in float32 where the capture says that the processor multiplies bfloat16
(AVX-512 BF16, Arm BF16), seven tenths where it has tiles for that (AMX); of products that take long enough for the
conversions to be worth it.

## Why it costs you

The same instruction multiplies twice as many numbers of 16 bits, and tiles of them many times as many.

## When it is not a problem

Whether a model bears 16 bits is in no profile of float32: it is an offer, and no mistake of the program. Where the
result needs the digits, keep them.

## What to do

Compute in bfloat16, by autocast, and see whether the loss follows.

## How to check

Profile the same step again: inputs of the longest products are 16 bits wide, and they take less time."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.units import whole
from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import MIXED
from hermes.knowledge.operators import MATRIX
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Loss
from hermes.model.host_measures import SettingValues
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._compute import longest, named, operators, shown
from hermes.profiles.rules._host import bound, has_device, setting
from hermes.profiles.rules._limits import DOUBT
from hermes.profiles.rules._threads import CORES
from hermes.profiles.rules.rule import rule

LIMIT = DOUBT
SHORT = Limit(
    value=0.5,
    unit="of products in float32, on a processor with instructions for bfloat16",
    source="docs/evidence/cpu-roofline.md",
)
TILES = Limit(value=0.7, unit="of products in float32, on a processor with AMX", source="docs/evidence/cpu-roofline.md")
WORTH_NS = Limit(
    value=100_000,
    unit="ns a product, below which conversions take what it wins",
    source="docs/evidence/cpu-roofline.md",
)
DENSE = Limit(
    value=256.0,
    unit="FLOP a ns and core in float32, which no dense product exceeds",
    source="two units of 16 lanes, each a multiplication and an addition a cycle, at 4 GHz (AVX-512)",
)
_FIRST = ("amx", "avx512", "arm")


@rule("CMP032", state="preview", fault=Fault.SLOW_TYPE, cases=("CMP-03",))
def long_floats_of_a_processor(
    job: Job, settings: Rows[SettingValues], ops: Rows[OperatorCost], computes: Rows[StepCompute]
) -> Iterator[Loss]:
    """At most one finding."""

    def saved(row: OperatorCost) -> float:
        return row.ns * _short(settings, row) if _is_long(job, settings, row) else 0.0

    found = operators(job, ops, computes, "time that a shorter type would save", LIMIT, saved)
    if found is None:
        return
    worst = longest(ops, saved)
    yield Loss(
        message=f"Products and convolutions in fp32 take {found.share:.0%} of the step more than in 16 bits",
        ranks=found.ranks,
        blames=named(worst),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, "they keep their share of the roof in the shorter type"),
        # Whether a model bears 16 bits is in no profile of float32.
        confidence=confidence("CMP032"),
        assumed=True,
        evidence=(*found.evidence, *shown(worst, saved)),
        # Whether they keep their share of the roof is not known, so nothing is replayed.
        actions=(MIXED,),
    )


def _is_long(job: Job, settings: Rows[SettingValues], row: OperatorCost) -> bool:
    """Whether a product in float32 ran on a processor that is recorded to multiply shorter numbers faster."""
    if (
        row.kind not in MATRIX
        or row.precision != "fp32"
        or row.median_ns < WORTH_NS.value
        or any(has_device(job, rank) for rank in row.ranks)
    ):
        return False
    return all(setting(settings, rank, "cpu.bf16") in _FIRST for rank in row.ranks) and not _is_sparse(settings, row)


def _is_sparse(settings: Rows[SettingValues], row: OperatorCost) -> bool:
    """Whether a product did less than its shapes say: it says so, or no processor computes so fast."""
    told = [whole(setting(settings, rank, CORES) or "") for rank in row.ranks]
    cores = [number for number in told if number is not None]
    fast = bool(cores) and (row.flops or 0) * row.calls > DENSE.value * row.ns * max(cores)
    return fast or "sparse" in row.operator


def _short(settings: Rows[SettingValues], row: OperatorCost) -> float:
    """The part of a product in float32 that bfloat16 saves on the processor it ran on."""
    tiled = all(setting(settings, rank, "cpu.bf16") == "amx" for rank in row.ranks)
    return TILES.value if tiled else SHORT.value
