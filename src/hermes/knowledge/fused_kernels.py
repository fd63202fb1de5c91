"""Kernels that compute and communicate at once: their work, the bytes they move, and their group of ranks.

Sources: CANN's operator lists (MC2: AllGatherMatmul, MatmulReduceScatter, MatmulAllReduce; MoeDistributeDispatch and
MoeDistributeCombine) and the shapes in their documentation. The least bytes of a collective are those of NVIDIA's
nccl-tests (doc/PERFORMANCE.md).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hermes.knowledge.cost.tensors import Tensor
from hermes.knowledge.links import bus_factor

_VERSION = re.compile(r"V\d+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedKernel:
    """What a kernel does besides computing: its collective, whether it has a product, its group's dimension."""

    collective: str
    product: bool
    group: Literal["tp", "ep"]


_REDUCED = FusedKernel(collective="all_reduce", product=True, group="tp")
_GATHERED = FusedKernel(collective="all_gather", product=True, group="tp")
_SCATTERED = FusedKernel(collective="reduce_scatter", product=True, group="tp")
_EXCHANGED = FusedKernel(collective="all_to_all", product=True, group="ep")
_TOKENS = FusedKernel(collective="all_to_all", product=False, group="ep")
_KINDS = {
    "MatmulAllReduce": _REDUCED, "MatmulAllReduceAddRmsNorm": _REDUCED, "InplaceMatmulAllReduceAddRmsNorm": _REDUCED,
    "QuantMatmulAllReduce": _REDUCED, "WeightQuantMatmulAllReduce": _REDUCED, "GroupedMatMulAllReduce": _REDUCED,
    "AllGatherMatmul": _GATHERED, "MatmulReduceScatter": _SCATTERED,
    "AlltoAllAllGatherBatchMatMul": _EXCHANGED, "BatchMatMulReduceScatterAlltoAll": _EXCHANGED,
    "AlltoAllvGroupedMatMul": _EXCHANGED, "GroupedMatMulAlltoAllv": _EXCHANGED,
    "MoeDistributeDispatch": _TOKENS, "MoeDistributeCombine": _TOKENS, "MoeDistributeCombineAddRmsNorm": _TOKENS,
    "MoeDistributeDispatchSetup": _TOKENS, "MoeDistributeCombineSetup": _TOKENS,
}  # fmt: skip
_BY_NAME = {name.lower(): kind for name, kind in _KINDS.items()}


def fused_kind(operator: str) -> FusedKernel | None:
    """The collective inside a kernel of that operator type; None for a kernel that only computes."""
    return _BY_NAME.get(_VERSION.sub("", operator).lower())


def fused_flops(kind: FusedKernel, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> int | None:
    """Operations of one call on one rank; None without the shapes of two matrices and their product.

    A gathered product works on the rows of all ranks, a scattered product gives only its own rows: the larger counts.
    """
    if not kind.product or len(inputs) < 2 or not outputs:
        return None
    left, right, out = inputs[0].shape, inputs[1].shape, outputs[0].shape
    if min(len(left), len(right), len(out)) < 2:
        return None
    inner, columns = left[-1], out[-1]
    if {inner, columns} - set(right[-2:]):
        return None
    rows = max(_rows(left), _rows(out))
    return 2 * rows * inner * columns


def moved_bytes(kind: FusedKernel, inputs: Sequence[Tensor], outputs: Sequence[Tensor], ranks: int) -> int | None:
    """The least bytes that one rank sends in a call among `ranks` ranks; None if types or shapes are not recorded."""
    factor = bus_factor(kind.collective, ranks)
    whole = _whole(kind, inputs, outputs, ranks)
    return None if factor is None or whole is None else round(whole * factor)


def _whole(kind: FusedKernel, inputs: Sequence[Tensor], outputs: Sequence[Tensor], ranks: int) -> int | None:
    """The whole buffer of the collective in bytes, as the load formulas need it."""
    if not inputs or not outputs:
        return None
    if kind.collective == "all_reduce":
        return outputs[0].bytes
    if kind.collective == "all_gather":
        return None if inputs[0].bytes is None else inputs[0].bytes * ranks
    if kind.collective == "reduce_scatter":
        return None if outputs[0].bytes is None else outputs[0].bytes * ranks
    return max((part.bytes or 0 for part in (inputs[0], outputs[0])), default=0) or None


def _rows(shape: tuple[int, ...]) -> int:
    rows = 1
    for length in shape[:-1]:
        rows *= length
    return rows
