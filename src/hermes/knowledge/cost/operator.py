"""Finds an operator call's class and its work by the operator's name, and computes its roof on a chip."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from hermes.knowledge.cost import attention, matrix, vector_work
from hermes.knowledge.cost.tensors import Call
from hermes.knowledge.cost.work_formulas import OperatorWorkload
from hermes.knowledge.identify_chip import Chip
from hermes.knowledge.operators import Operator, operator_of

FORMULAS = {**matrix.FORMULAS, **attention.FORMULAS, **vector_work.FORMULAS}
BOUND = 0.8
"""The share of its roof from which work counts as bound by the roof's limit; below, neither limit bounds it. Source:
the limit of `msprof op` and of the advisor's rule for operators without a bound (Ascend/msprof-analyze,
advisor/rules)."""

# The type in which kernels compute float32 inputs, by cuBLAS', cuDNN's and CUTLASS' names (16 x 8 x 8 is TF32's shape).
_TF32 = re.compile(r"tf32|s1688", re.IGNORECASE)
_PLAIN_FP32 = re.compile(r"sgemm|simt|_ffma|fp32_", re.IGNORECASE)
# Float32 kernels that leave the matrix units idle, built for a chip generation of NVIDIA's that has matrix units.
_UNSHORTENED = re.compile(
    r"(volta|turing|ampere|ada|hopper|blackwell)_sgemm|cutlass_(7|8|9|10|12)\d_simt|sm(7|8|9|10|12)\d_xmma\w*_f32f32_f32f32_f32",
    re.IGNORECASE,
)
_SHORTENED = {"nvidia": "tf32", "amd": "tf32", "ascend": "hf32"}

# Bytes that the inner axes of a product should be a multiple of. Sources: the advisor's rule for cube operators
# (Ascend/msprof-analyze: 256 elements of 16 bits); NVIDIA, Matrix Multiplication Background User's Guide, section 3.
ALIGNMENT = {"ascend": 512, "nvidia": 16}

Limit = Literal["compute", "memory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Roof:
    """The least time that a chip needs for some work, and which of its two limits sets that time.

    `limit` is `compute` when the operations take longer than the bytes. `precision` is the precision of the rate.
    """

    ns: float
    limit: Limit
    precision: str
    peak: float


def classified(call: Call) -> Operator:
    """The class and formula of a call's operator; a copy between types is a cast, other copies by kernels transpose.

    PyTorch hands a contiguous copy of one type to the driver (`aten/src/ATen/native/cuda/Copy.cu`), so a copy by a
    kernel changes the order of the elements.
    """
    operator = operator_of(call.name)
    if operator.formula == "copy" and len(call.inputs) > 1 and call.name.endswith("copy_"):
        to, source = call.inputs[0].kind, call.inputs[1].kind
        if to is not None and source is not None:
            return Operator("cast" if to != source else "transpose" if call.kernel else "copy", "copy")
    return operator


def work_of(call: Call) -> OperatorWorkload | None:
    """The operations and bytes of a call; None when the call has no formula, or its shapes do not fit the formula."""
    formula = FORMULAS.get(classified(call).formula)
    return formula(call) if formula is not None and call.inputs else None


def inner_bytes(call: Call) -> tuple[int, ...]:
    """Bytes along the innermost axes of a product's two matrices; empty for other operators, or unknown types."""
    operator = classified(call)
    if operator.kind not in ("matmul", "batched matmul"):
        return ()
    first = 1 if operator.formula == "addmm" else 0
    pair = call.inputs[first : first + 2]
    found = [part.shape[-1] * part.kind.bytes for part in pair if part.kind is not None and len(part.shape) > 1]
    return tuple(found) if len(found) == 2 else ()


def roof(work: OperatorWorkload, chip: Chip, kernel: str = "", ns: float | None = None) -> Roof | None:
    """The roof of some work on a chip; None when the chip has no rate for the type, or the bytes are not known.

    Float32 on matrix units may be shortened to TF32 or HF32, as some kernels' names tell. If the name does not tell,
    the full type counts, unless the work took less time (`ns`) than the full type allows. Ascend's convolutions are
    shortened unless set otherwise (torch_npu's `allow_hf32`).
    """
    precision = _precision(work, chip, kernel, ns)
    rates = chip.matrix if work.unit == "matrix" else chip.vector
    peak = rates.get(precision)
    if peak is None:
        return None
    computing = work.flops / peak * 1e9
    if work.bytes is None or chip.bandwidth is None:
        # A product usually has far more operations than bytes; an operator that only moves data has no roof without its
        # bytes.
        return Roof(ns=computing, limit="compute", precision=precision, peak=peak) if work.unit == "matrix" else None
    moving = work.bytes / chip.bandwidth * 1e9
    limit: Limit = "compute" if computing >= moving else "memory"
    return Roof(ns=max(computing, moving), limit=limit, precision=precision, peak=peak)


def float32_by_kernel(kernel: str) -> str:
    """The type in which float32 products ran on an unknown chip, by the kernel's name; empty if the name does not tell.

    The type is `tf32`, or `fp32` if the chip has matrix units and the kernel leaves them idle.
    """
    if _TF32.search(kernel):
        return "tf32"
    return "fp32" if _UNSHORTENED.search(kernel) else ""


def _precision(work: OperatorWorkload, chip: Chip, kernel: str, ns: float | None) -> str:
    if work.unit == "vector":
        return work.precision if work.precision in chip.vector else "fp32"
    short = _SHORTENED.get(chip.vendor, "")
    if work.precision != "fp32" or short not in chip.matrix or _PLAIN_FP32.search(kernel):
        return work.precision
    if _TF32.search(kernel) or (chip.vendor == "ascend" and re.match("conv", kernel, re.IGNORECASE)):
        return short
    full = chip.matrix.get("fp32")
    return short if full and ns is not None and work.flops / full * 1e9 > ns else "fp32"
