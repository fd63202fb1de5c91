"""Work of matrix products and convolutions: operations and bytes.

Source: `torch/utils/flop_counter.py`. A product of M x K and K x N takes 2 M N K operations. A convolution, and each of
its two gradients, takes 2 x positions of the output x elements of the filter. The filter has outputs x inputs / groups
x kernel elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from hermes.base.units import whole_number
from hermes.knowledge.cost.tensors import Call, Tensor
from hermes.knowledge.cost.work_formulas import OperatorWorkload, plus, precision_of, total_bytes
from hermes.knowledge.dtypes import ElementType

# The output type of products of small types, if the output is not recorded: bfloat16, and 32-bit sums.
_WIDER = {"fp8": ElementType(2, "bf16"), "int8": ElementType(4, "")}


def product(call: Call, left: int, right: int, extra: Sequence[int] = ()) -> OperatorWorkload | None:
    """The work of `left` x `right` with equal leading dimensions; the inputs at `extra` are read too."""
    if len(call.inputs) <= max(left, right):
        return None
    a, b = call.inputs[left], call.inputs[right]
    if len(a.shape) < 2 or len(b.shape) < 2 or a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-2]:
        return None
    out = Tensor(shape=(*a.shape[:-1], b.shape[-1]), kind=_result(a))
    read = [a, b, *(call.inputs[place] for place in extra if call.inputs[place].shape)]
    return _work(2 * a.elements * b.shape[-1], total_bytes([*read, out]), a)


def linear(call: Call) -> OperatorWorkload | None:
    """The work of `x` (…, K) times a weight (N, K), as in `aten::linear`."""
    if len(call.inputs) < 2:
        return None
    x, weight = call.inputs[:2]
    if not x.shape or len(weight.shape) != 2 or x.shape[-1] != weight.shape[1]:
        return None
    out = Tensor(shape=(*x.shape[:-1], weight.shape[0]), kind=_result(x))
    return _work(2 * x.elements * weight.shape[0], total_bytes([x, weight, *call.inputs[2:3], out]), x)


def vector_product(call: Call) -> OperatorWorkload | None:
    """The work of a matrix (M, K) times a vector (K)."""
    if len(call.inputs) < 2 or len(call.inputs[0].shape) != 2 or call.inputs[1].shape != call.inputs[0].shape[1:]:
        return None
    matrix, vector = call.inputs[:2]
    out = Tensor(shape=matrix.shape[:1], kind=matrix.kind)
    return _work(2 * matrix.elements, total_bytes([matrix, vector, out]), matrix)


def stored_product(call: Call) -> OperatorWorkload | None:
    """The work of Ascend's products, whose inputs may be transposed or in blocks; M N K counts padding too.

    With M K, K N and M N elements, M N K is the root of the product of all three; also in a batch of equal matrices.
    """
    if len(call.inputs) < 2 or not call.outputs:
        return None
    a, b, out = call.inputs[0], call.inputs[1], call.outputs[0]
    if min(len(a.shape), len(b.shape), len(out.shape)) < 2:
        return None
    blocks = {part.format for part in (a, b, out)} - {"", "ND", "NCHW", "FORMAT_ND"}
    if blocks:
        square = a.elements * b.elements * out.elements
        if len(out.shape) != 2 and out.format in ("", "ND", "FORMAT_ND", "NCHW"):
            return None
        flops = 2 * math.isqrt(square)
    else:
        deep, rest = divmod(a.shape[-1] * a.shape[-2], out.shape[-2])
        if rest or deep not in a.shape[-2:] or deep not in b.shape[-2:]:
            return None
        flops = 2 * out.elements * deep
    moved = plus(total_bytes(call.inputs), total_bytes(call.outputs))
    return _work(flops, moved, a, "padding counted" if blocks else "")


def grouped_product(call: Call) -> OperatorWorkload | None:
    """The work of a grouped product: each row meets the matrix of its group, and all matrices have one size.

    Ascend's `x` has a row for each token, and `weight` a matrix for each group, in one tensor or as a list of tensors.
    """
    if len(call.inputs) < 2 or not call.outputs:
        return None
    rows, weight, out = call.inputs[0], call.inputs[1], call.outputs[0]
    if len(rows.shape) != 2 or len(out.shape) != 2 or len(weight.shape) not in (2, 3):
        return None
    deep, wide = rows.shape[1], out.shape[1]
    if rows.shape[0] != out.shape[0] or sorted(weight.shape[-2:]) != sorted((deep, wide)):
        return None
    moved = plus(total_bytes(call.inputs), total_bytes(call.outputs))
    return _work(2 * rows.shape[0] * deep * wide, moved, rows, "rows of the last group may be padding")


def grouped_mm(call: Call) -> OperatorWorkload | None:
    """The work of `aten::_grouped_mm`: matrices or stacks of matrices; offsets cut a side without a stack into groups.

    A side is cut into as many parts as there are groups, so each element of the matrix operand meets the other operand
    once. Two stacks are a batch. Two matrices are cut along the dimension that they share (PyTorch,
    `_meta_grouped_mm_common`).
    """
    if len(call.inputs) < 2 or {len(part.shape) for part in call.inputs[:2]} - {2, 3}:
        return None
    a, b = call.inputs[:2]
    if a.shape[-1] != b.shape[-2] or (len(a.shape) == len(b.shape) == 3 and a.shape[0] != b.shape[0]):
        return None
    groups = next((part.shape[0] for part in call.inputs[2:] if len(part.shape) == 1), None)
    stacks = len(a.shape) == len(b.shape) == 3
    batch = (a.shape[0],) if stacks else (groups,) if len(a.shape) == len(b.shape) and groups else ()
    out = Tensor(shape=(*batch, a.shape[-2], b.shape[-1]), kind=_result(a))
    flops = 2 * (a.shape[0] if stacks else 1) * a.shape[-2] * a.shape[-1] * b.shape[-1]
    return _work(flops, total_bytes([a, b, out]), a, "rows behind the last offset counted")


def convolution(call: Call) -> OperatorWorkload | None:
    """The work of a forward convolution without recorded output: stride, padding and dilation give the output shape."""
    if len(call.inputs) < 2 or len(call.inputs[0].shape) < 3:
        return None
    x, weight = call.inputs[:2]
    values = _geometry(call)
    if values is None or len(x.shape) != len(weight.shape):
        return None
    stride, padding, dilation = values
    sides = [
        (side + 2 * pad - step * (kernel - 1) - 1) // hop + 1
        for side, kernel, hop, pad, step in zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
    ]
    if min(sides) < 1:
        return None
    out = Tensor(shape=(x.shape[0], weight.shape[0], *sides), kind=x.kind)
    return _positions(x, weight, out, 1)


def convolution_backward(call: Call) -> OperatorWorkload | None:
    """The work of `aten::convolution_backward`: its inputs are the gradient of the output, the input and the filter.

    Two gradients are counted, unless the mask among the values asks for one only.
    """
    if len(call.inputs) < 3 or any(len(part.shape) < 3 for part in call.inputs[:3]):
        return None
    gradient, x, weight = call.inputs[:3]
    masks = [value for value in call.values if value.count("True") + value.count("False") == 3]
    asked = masks[-1].strip("[]()").split(",")[:2] if masks else []
    wanted = sum("True" in one for one in asked) if masks else 2
    note = "" if masks else "both gradients assumed"
    return _positions(x, weight, gradient, wanted, note) if wanted else None


def convolution_input_gradient(call: Call) -> OperatorWorkload | None:
    """The work of older PyTorch's `cudnn_convolution_backward_input`: sizes, gradient of the output, filter."""
    if len(call.inputs) < 3 or len(call.inputs[1].shape) < 3 or len(call.inputs[2].shape) != len(call.inputs[1].shape):
        return None
    gradient, weight = call.inputs[1], call.inputs[2]
    flops = 2 * gradient.elements // max(gradient.shape[1], 1) * weight.elements
    # The gradient is as large as the convolution's input, which is not recorded: only its channels are known.
    return _work(flops, None, gradient)


def stored_convolution(call: Call) -> OperatorWorkload | None:
    """The work of Ascend's convolution and its two gradients; shapes are as stored, so padded channels are counted."""
    name = call.name.lower()
    if "input" in name:
        filters, positions = _at(call.inputs, 1), _at(call.inputs, 2)
    elif "filter" in name:
        filters, positions = _at(call.outputs, 0), _at(call.inputs, 2)
    else:
        filters, positions = _at(call.inputs, 1), _at(call.outputs, 0)
    if filters is None or positions is None or not call.outputs:
        return None
    spots = _spots(positions)
    if spots is None or len(filters.shape) < 4:
        return None
    sizes = plus(total_bytes(call.inputs), total_bytes(call.outputs))
    return _work(2 * spots * filters.elements, sizes, positions, "padding counted" if len(positions.shape) == 5 else "")


def _geometry(call: Call) -> tuple[list[int], list[int], list[int]] | None:
    """Stride, padding and dilation: the first three lists of numbers among the values; None if transposed."""
    dimensions = len(call.inputs[0].shape) - 2
    lists = [_numbers(value) for value in call.values if value[:1] in "[(" and value]
    found = [one for one in lists if one is not None and len(one) in (1, dimensions)][:3]
    if len(found) < 3 or "True" in _transposed(call):
        return None
    full = [one * dimensions if len(one) == 1 else one for one in found]
    # `cudnn_convolution` and `miopen_convolution` put the padding before the stride (native_functions.yaml).
    swapped = "cudnn_convolution" in call.name or "miopen_convolution" in call.name
    stride, padding = (full[1], full[0]) if swapped else (full[0], full[1])
    return (stride, padding, full[2]) if min(stride) > 0 else None


def _transposed(call: Call) -> list[str]:
    """The flag behind the three lists of `aten::convolution` and `_convolution`; empty for other operators."""
    if not call.name.endswith(("::convolution", "::_convolution")):
        return []
    return [value for value in call.values if value in ("True", "False")][:1]


def _numbers(text: str) -> list[int] | None:
    parts = text.strip("[]()").split(",")
    numbers = [whole_number(part.strip()) if len(part) < 8 else None for part in parts]
    return [number for number in numbers if number is not None] if None not in numbers else None


def _positions(x: Tensor, weight: Tensor, out: Tensor, times: int, note: str = "") -> OperatorWorkload | None:
    if len(out.shape) < 3 or len(weight.shape) < 3 or out.shape[1] != weight.shape[0]:
        return None
    flops = 2 * (out.elements // max(out.shape[1], 1)) * weight.elements * times
    sizes = total_bytes([x, weight, out])
    return _work(flops, sizes, x, note)


def _spots(part: Tensor) -> int | None:
    """Batch x positions of a feature map: (N, C1, H, W, C0) if stored in blocks, else (N, C, H, W)."""
    if part.format.split(":")[0] == "NC1HWC0" and len(part.shape) == 5:
        n, _, *sides, _ = part.shape
    elif part.format in ("NCHW", "ND", "FORMAT_ND", "") and len(part.shape) == 4:
        n, _, *sides = part.shape
    elif part.format == "NHWC" and len(part.shape) == 4:
        n, *sides, _ = part.shape
    else:
        return None
    return n * math.prod(sides)


def _at(parts: tuple[Tensor, ...], place: int) -> Tensor | None:
    return parts[place] if place < len(parts) and parts[place].shape else None


def _result(operand: Tensor) -> ElementType | None:
    return None if operand.kind is None else _WIDER.get(operand.kind.precision, operand.kind)


def _work(flops: int, moved: int | None, operand: Tensor, note: str = "") -> OperatorWorkload | None:
    return OperatorWorkload(flops=flops, bytes=moved, unit="matrix", precision=precision_of([operand]), note=note)


FORMULAS: dict[str, Callable[[Call], OperatorWorkload | None]] = {
    "mm": lambda call: product(call, 0, 1),
    "addmm": lambda call: product(call, 1, 2, (0,)),
    "linear": linear,
    "mv": vector_product,
    "matrix product": stored_product,
    "grouped product": grouped_product,
    "grouped mm": grouped_mm,
    "convolution": convolution,
    "convolution backward": convolution_backward,
    "convolution backward input": convolution_input_gradient,
    "convolution output": stored_convolution,
    "convolution input gradient": stored_convolution,
    "convolution filter gradient": stored_convolution,
}
