"""Products run in float32 on a processor that multiplies 16 bits faster.

## What it detects

The rule finds products and convolutions in float32 on a processor that multiplies bfloat16. The capture says what the
processor can do. The rule counts half of their time with AVX-512 BF16 or Arm BF16, and seven tenths with tiles (AMX).
Products that are too short to be worth a conversion do not count.

## Why it costs you

An instruction multiplies twice as many numbers if they have 16 bits, and tiles multiply many times as many.

## When it is not a problem

No profile tells whether your model tolerates 16 bits: this is an offer, not a mistake of the program. Keep float32 if
the result needs its digits.

## What to do

Compute in bfloat16 with autocast, and check whether the loss falls as before.

## How to check

Profile the same step again: inputs of the longest products are 16 bits wide, and these products take less time."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Share, message, sentence
from hermes.base.units import whole_number
from hermes.knowledge.confidence import confidence
from hermes.knowledge.operators import MATRIX
from hermes.knowledge.vendor_cures import MIXED
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Loss
from hermes.model.host_measures import SettingValues
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._compute import longest, named, operators, shown
from hermes.profiles.rules._cost_by_rank import percents
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
    unit="ns a product; below, conversions cost what bfloat16 wins",
    source="docs/evidence/cpu-roofline.md",
)
DENSE = Limit(
    value=256.0,
    unit="FLOP a ns and core in float32: no dense product is faster",
    source="two units of 16 lanes, each a multiplication and an addition a cycle, at 4 GHz (AVX-512)",
)
_FIRST = ("amx", "avx512", "arm")


@rule("CMP032", state="preview", layer="compute", fault=Fault.SLOW_TYPE, cases=("CMP-04",))
def long_floats_of_a_processor(
    job: Job, settings: Rows[SettingValues], ops: Rows[OperatorCost], computes: Rows[StepCompute]
) -> Iterator[Loss]:
    """At most one finding, of float32 products on a processor that is faster with shorter types."""

    def saved(row: OperatorCost) -> float:
        return row.ns * _short(settings, row) if _is_long(job, settings, row) else 0.0

    found = operators(job, ops, computes, SAVED, LIMIT, saved)
    if found is None:
        return
    worst = longest(ops, saved)
    yield Loss(
        message=products(share=percents(found.share)),
        ranks=found.ranks,
        blames=named(worst),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, ROOF),
        # No profile of float32 tells whether a model tolerates 16 bits.
        confidence=confidence("CMP032"),
        assumed=True,
        evidence=(*found.evidence, *shown(worst, saved)),
        # Whether products keep their share of the roof is not known, so nothing is replayed.
        actions=MIXED,
    )


def _is_long(job: Job, settings: Rows[SettingValues], row: OperatorCost) -> bool:
    """Whether a product in float32 ran on a processor that is recorded to multiply shorter types faster."""
    if (
        row.kind not in MATRIX
        or row.precision != "fp32"
        or row.median_ns < WORTH_NS.value
        or any(has_device(job, rank) for rank in row.ranks)
    ):
        return False
    return all(setting(settings, rank, "cpu.bf16") in _FIRST for rank in row.ranks) and not _is_sparse(settings, row)


def _is_sparse(settings: Rows[SettingValues], row: OperatorCost) -> bool:
    """Whether a product did less work than its shapes say: its name says so, or no processor computes so fast."""
    told = [whole_number(setting(settings, rank, CORES) or "") for rank in row.ranks]
    cores = [number for number in told if number is not None]
    fast = bool(cores) and (row.flops or 0) * row.calls > DENSE.value * row.ns * max(cores)
    return fast or "sparse" in row.operator


def _short(settings: Rows[SettingValues], row: OperatorCost) -> float:
    """The share of a float32 product's time that bfloat16 would save on its processor."""
    tiled = all(setting(settings, rank, "cpu.bf16") == "amx" for rank in row.ranks)
    return TILES.value if tiled else SHORT.value


SAVED = sentence("cmp032.saved")
ROOF = sentence("cmp032.roof")


@message("cmp032.products")
def products(*, share: Share) -> None:
    """A processor multiplies long types, and would be faster with short types."""
