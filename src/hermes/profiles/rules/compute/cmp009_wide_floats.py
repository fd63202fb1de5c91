"""Products and convolutions run in float32 or float64 where the chip has faster types.

## What it detects

The time that products, convolutions and attention in float32 or float64 would save in the next faster type that the
chip has: TF32 or HF32 for float32, else 16 bits; bytes still have to be moved. Summed per step, from shapes, types and
peaks. On a processor it is half of the time of all operators in float64, and half of the time of products in float32
where the capture says that it multiplies bfloat16 (AVX-512 BF16, Arm BF16), seven tenths where it has tiles for that
(AMX).

## Why it costs you

Matrix units are 2 to 16 times faster in shorter types. TF32 and HF32 keep float32 tensors and shorten the numbers only
inside the product.

## When it is not a problem

When the result needs all 24 bits of float32, as in some scientific models; when products are a small part of the step.

## What to do

Switch TF32 or HF32 on, or train in mixed precision with bfloat16.

## How to check

Profile the same step again: products take less time (on CUDA their kernels are named tf32); the loss follows the one
before."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hermes.knowledge.cures import SHORTER_FLOATS
from hermes.knowledge.operators import MATRIX
from hermes.model.compute_measures import ChipUsed, OperatorCost, StepCompute
from hermes.model.finding import Action, Cause, Finding
from hermes.model.host_measures import SettingValues
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._compute import longest, named, of_device, operators, shown
from hermes.profiles.rules._host import bound, has_device, setting
from hermes.profiles.rules._limits import DOUBT
from hermes.profiles.rules._threads import CORES
from hermes.profiles.rules.rule import rule

LIMIT = DOUBT
HALF = Limit(value=0.5, unit="of operators in float64, on a processor", source="docs/evidence/cpu-roofline.md")
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
# What takes the place of a type, the first that the chip has.
_FASTER = {"fp64": ("fp32",), "fp32": ("tf32", "hf32", "bf16", "fp16")}


@rule("CMP009", state="stable", cause=Cause.SLOW_TYPE, cases=("CMP-03", "CMP-04", "CMP-05"))
def wide_floats(
    job: Job, settings: Rows[SettingValues], ops: Rows[OperatorCost], computes: Rows[StepCompute], chips: Rows[ChipUsed]
) -> Iterator[Finding]:
    """At most one finding, and one more of float64 on a processor, which nobody means to use."""
    by_chip = {chip.chip: chip for chip in chips}

    def double(row: OperatorCost) -> float:
        return row.ns * HALF.value if _is_double(job, row) else 0.0

    def saved(row: OperatorCost) -> float:
        if _is_double(job, row):
            return 0.0
        return row.ns * _short(settings, row) if _is_long(job, settings, row) else _saved(row, by_chip.get(row.chip))

    yield from _found(job, settings, ops, computes, double, _SINGLE)
    yield from _found(job, settings, ops, computes, saved, None)


def _found(
    job: Job,
    settings: Rows[SettingValues],
    ops: Rows[OperatorCost],
    computes: Rows[StepCompute],
    saved: Callable[[OperatorCost], float],
    action: Action | None,
) -> Iterator[Finding]:
    """At most one finding; without an `action` the one of the chip."""
    found = operators(job, ops, computes, "time that a faster type would save", LIMIT, saved)
    if found is None:
        return
    worst = longest(ops, saved)
    kinds = "Products and convolutions" if action is None else "Operators"
    types = ", ".join(sorted({row.precision for row in worst}))
    yield Finding(
        title=f"{kinds} in {types} cost {found.share:.0%} of the step more than the chip's faster types would",
        ranks=found.ranks,
        blames=named(worst),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, "they keep their share of the roof in the next faster type"),
        confidence=round(_confidence(job, settings, worst[0]) * job.certainty, 2),
        evidence=(*found.evidence, *shown(worst, saved)),
        # Whether they keep their share of the roof is not known, so nothing is replayed.
        actions=(action or (SHORTER_FLOATS if of_device(job, found.ranks).fused else _MIXED),),
    )


def _confidence(job: Job, settings: Rows[SettingValues], row: OperatorCost) -> float:
    """That the change can be made: whether a model bears 16 bits is in no profile of float32."""
    if _is_double(job, row):
        return 0.7
    return 0.25 if _is_long(job, settings, row) else 0.6


def _is_double(job: Job, row: OperatorCost) -> bool:
    """Whether an operator computed in float64 on a processor: half as many numbers a lane and a byte as in float32."""
    return row.precision == "fp64" and not any(has_device(job, rank) for rank in row.ranks)


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
    cores = [int(told) for rank in row.ranks if (told := setting(settings, rank, CORES) or "").isdecimal()]
    fast = bool(cores) and (row.flops or 0) * row.calls > DENSE.value * row.ns * max(cores)
    return fast or "sparse" in row.operator


def _short(settings: Rows[SettingValues], row: OperatorCost) -> float:
    """The part of a product in float32 that bfloat16 saves on the processor it ran on."""
    tiled = all(setting(settings, rank, "cpu.bf16") == "amx" for rank in row.ranks)
    return TILES.value if tiled else SHORT.value


def _saved(row: OperatorCost, chip: ChipUsed | None) -> float:
    if row.kind not in MATRIX or chip is None or not row.flops or row.roof_share is None:
        return 0.0
    better = next((name for name in _FASTER.get(row.precision, ()) if name in chip.matrix), None)
    if better is None:
        return 0.0
    moving = (row.bytes or 0) / chip.bandwidth if chip.bandwidth else 0.0
    before = max(row.flops / chip.matrix[row.precision], moving) if row.precision in chip.matrix else 0.0
    after = max(row.flops / chip.matrix[better], moving)
    return row.ns * max(0.0, 1 - after / before) if before else 0.0


_MIXED = Action(
    title="Compute in a type of 16 bits",
    do="with torch.autocast(device, dtype=torch.bfloat16): loss = model(x); model.to(torch.bfloat16) once where no "
    "weight learns; float16 with a GradScaler on chips without bfloat16.",
    verify="Inputs of the longest products are 16 bits wide in the next profile, and they take less time.",
    risk="Check that the loss follows the one in float32.",
    source="PyTorch documentation of automatic mixed precision",
)
_SINGLE = Action(
    title="Compute in float32",
    do="Find what makes doubles: NumPy's arrays are float64 by themselves (array.astype(numpy.float32), "
    "torch.from_numpy(array).float()), as are Python floats in torch.tensor(list, dtype=torch.float64) and "
    "torch.set_default_dtype(torch.float64).",
    verify="No operator has inputs of type double in the next profile.",
    risk="Sums of many numbers lose digits: keep those in float64 that need them.",
    source="PyTorch documentation of torch.from_numpy and torch.set_default_dtype",
)
