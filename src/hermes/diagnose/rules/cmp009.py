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

from collections.abc import Callable, Iterator, Mapping

from hermes.analyze.compute_measures import ChipUsed, OperatorCost
from hermes.diagnose.finding import Action, Finding
from hermes.diagnose.rule import Measures, Rule, Threshold
from hermes.diagnose.rules._compute import longest, named, operators, shown, vendor
from hermes.diagnose.rules._host import bound, has_device, setting
from hermes.diagnose.rules._limits import DOUBT
from hermes.knowledge.operators import MATRIX

LIMIT = DOUBT
HALF = Threshold(value=0.5, unit="of operators in float64, on a processor", source="docs/evidence/cpu-roofline.md")
SHORT = Threshold(
    value=0.5,
    unit="of products in float32, on a processor with instructions for bfloat16",
    source="docs/evidence/cpu-roofline.md",
)
TILES = Threshold(
    value=0.7, unit="of products in float32, on a processor with AMX", source="docs/evidence/cpu-roofline.md"
)
WORTH_NS = Threshold(
    value=100_000,
    unit="ns a product, below which conversions take what it wins",
    source="docs/evidence/cpu-roofline.md",
)
_FIRST = ("amx", "avx512", "arm")
# What takes the place of a type, the first that the chip has.
_FASTER = {"fp64": ("fp32",), "fp32": ("tf32", "hf32", "bf16", "fp16")}


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding, and one more of float64 on a processor, which nobody means to use."""
    chips = {chip.chip: chip for chip in measures.compute.chips}

    def double(row: OperatorCost) -> float:
        return row.ns * HALF.value if _is_double(measures, row) else 0.0

    def saved(row: OperatorCost) -> float:
        if _is_double(measures, row):
            return 0.0
        return row.ns * _short(measures, row) if _is_long(measures, row) else _saved(row, chips.get(row.chip))

    yield from _found(measures, double, _SINGLE)
    yield from _found(measures, saved, None)


def _found(measures: Measures, saved: Callable[[OperatorCost], float], action: Action | None) -> Iterator[Finding]:
    """At most one finding; without an `action` the one of the chip."""
    found = operators(measures, "time that a faster type would save", LIMIT, saved)
    if found is None:
        return
    worst = longest(measures, saved)
    kinds = "Products and convolutions" if action is None else "Operators"
    types = ", ".join(sorted({row.precision for row in worst}))
    yield Finding(
        code="CMP009",
        layer="compute",
        cause="slow type",
        title=f"{kinds} in {types} cost {found.share:.0%} of the step more than the chip's faster types would",
        ranks=found.ranks,
        blames=named(worst),
        cost_ns=found.cost_ns,
        calls=found.calls,
        fresh=found.fresh,
        share=found.share,
        gain=bound(measures, found, "they keep their share of the roof in the next faster type"),
        confidence=round(_confidence(measures, worst[0]) * measures.certainty, 2),
        evidence=(*found.evidence, *shown(worst, saved)),
        # Whether they keep their share of the roof is not known, so nothing is replayed.
        actions=(action or _SHORTER.get(vendor(measures, found.ranks), _MIXED),),
    )


def _confidence(measures: Measures, row: OperatorCost) -> float:
    """That the change can be made: whether a model bears 16 bits is in no profile of float32."""
    if _is_double(measures, row):
        return 0.7
    return 0.25 if _is_long(measures, row) else 0.6


def _is_double(measures: Measures, row: OperatorCost) -> bool:
    """Whether an operator computed in float64 on a processor: half as many numbers a lane and a byte as in float32."""
    return row.precision == "fp64" and not any(has_device(measures, rank) for rank in row.ranks)


def _is_long(measures: Measures, row: OperatorCost) -> bool:
    """Whether a product in float32 ran on a processor that is recorded to multiply shorter numbers faster."""
    if (
        row.kind not in MATRIX
        or row.precision != "fp32"
        or row.median_ns < WORTH_NS.value
        or any(has_device(measures, rank) for rank in row.ranks)
    ):
        return False
    return all(setting(measures, rank, "cpu.bf16") in _FIRST for rank in row.ranks)


def _short(measures: Measures, row: OperatorCost) -> float:
    """The part of a product in float32 that bfloat16 saves on the processor it ran on."""
    tiled = all(setting(measures, rank, "cpu.bf16") == "amx" for rank in row.ranks)
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
    title="Train in mixed precision",
    do="with torch.autocast(device, dtype=torch.bfloat16): loss = model(x); float16 with a GradScaler on chips "
    "without bfloat16.",
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
_SHORTER: Mapping[str, Action] = {
    "ascend": Action(
        title="Let products run in HF32",
        do="torch.npu.matmul.allow_hf32 = True (convolutions have it by default), or train in bfloat16 with "
        "torch.autocast.",
        verify="MatMul kernels take about half as long; the loss follows the one before.",
        risk="HF32 has 10 bits of mantissa: check the loss.",
        source="torch_npu, npu_config.py: allow_hf32",
    ),
}

RULE = Rule(code="CMP009", page=__doc__ or "", find=find, cases=("CMP-03", "CMP-04", "CMP-05"))
