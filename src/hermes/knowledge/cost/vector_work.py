"""Work of operators that run on vector units: exact bytes read and written, and a rough count of operations.

Every input is read once, and every output written once. PyTorch's traces record no outputs, so they follow from the
operator: the broadcast shape, and the type that PyTorch promotes to. Operations for each element follow the textbook
algorithms. An elementwise function counts 1, however costly (exponentials are not split into instructions), and a sum 1
for each element. Softmax counts 5: maximum, difference, exponential, sum, quotient. A layer norm counts 8: mean 1,
variance 3, normalization 2, weight and bias 2. Gradients of a layer norm count 16, and Adam counts 12.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from hermes.knowledge.cost.tensors import Call, Tensor
from hermes.knowledge.cost.work_formulas import OperatorWorkload, plus, precision_of, total_bytes
from hermes.knowledge.dtypes import ElementType, element_type

_SOFTMAX, _NORM, _ADAM = 5, 8, 12
_BOOL = ElementType(1, "")
_COMPARISONS = re.compile(r"::(eq|ne|lt|le|gt|ge|logical_\w+|isnan|isinf|isfinite)$")
# The template arguments of kernels for lists of tensors name the type, which the lists do not.
_OPAQUE = re.compile(r"OpaqueType<(\d+)u?>")
_NAMED = re.compile(r"\b(double|float|c10::BFloat16|c10::Half|long|int|bool)\b")
_LIST = ("TensorList", "GenericList")
_ADAM_LISTS = 4


def elementwise(call: Call) -> OperatorWorkload | None:
    """An elementwise operator reads all tensors and writes one of broadcast shape; an in-place one writes its first.

    The operator computes in the widest type of its inputs: float32 minus float64 is computed in float64. An empty
    tensor given for the result (`out=`) is not read.
    """
    parts = [part for part in _real(call.inputs) if part.elements]
    if not parts:
        return None
    shape = parts[0].shape if call.name.endswith("_") else _broadcast(parts)
    if shape is None:
        return None
    computed = _promoted(parts)
    kind = _BOOL if _COMPARISONS.search(call.name) else parts[0].kind if call.name.endswith("_") else computed
    out = Tensor(shape=shape, kind=kind)
    widest = [part for part in parts if part.kind == computed]
    return _work(out.elements, total_bytes([*parts, out]), widest or parts)


def fill(call: Call) -> OperatorWorkload | None:
    """A fill writes its first tensor and reads nothing."""
    parts = _real(call.inputs)[:1]
    return _work(0, total_bytes(parts), parts) if parts else None


def reduction(call: Call) -> OperatorWorkload | None:
    """A reduction reads its first tensor; its smaller output is not recorded."""
    parts = _real(call.inputs)[:1]
    return _work(parts[0].elements, total_bytes(parts), parts) if parts else None


def softmax(call: Call) -> OperatorWorkload | None:
    """A softmax reads and writes one tensor."""
    parts = _real(call.inputs)[:1]
    return _work(_SOFTMAX * parts[0].elements, total_bytes(parts * 2), parts) if parts else None


def softmax_backward(call: Call) -> OperatorWorkload | None:
    """A softmax gradient reads gradient and output, and writes a gradient, with 4 operations for each element."""
    parts = _real(call.inputs)[:2]
    if len(parts) < 2 or parts[0].shape != parts[1].shape:
        return None
    return _work(4 * parts[0].elements, total_bytes([*parts, parts[1]]), parts)


def norm(call: Call) -> OperatorWorkload | None:
    """A norm reads a tensor with weight and bias, and writes one of the same size."""
    parts = _real(call.inputs)
    return _work(_NORM * parts[0].elements, total_bytes([*parts, parts[0]]), parts) if parts else None


def norm_backward(call: Call) -> OperatorWorkload | None:
    """A norm gradient reads gradient, input and weight, and writes the gradients of input and weight."""
    parts = _real(call.inputs)
    if len(parts) < 2 or parts[0].elements != parts[1].elements:
        return None
    return _work(2 * _NORM * parts[0].elements, total_bytes([*parts, parts[1]]), parts)


def copy(call: Call) -> OperatorWorkload | None:
    """A copy: `copy_(to, from)` reads the second tensor and writes the first; others write as much as they read."""
    parts = _real(call.inputs)
    if call.name.endswith("copy_"):
        if len(parts) < 2:
            return None
        return _work(0, total_bytes([parts[0], Tensor(shape=parts[0].shape, kind=parts[1].kind)]), parts[:2])
    return _work(0, total_bytes(parts[:1] * 2), parts[:1]) if parts else None


def concatenation(call: Call) -> OperatorWorkload | None:
    """A concatenation reads all tensors of its list and writes as much."""
    kind = _listed_kind(call)
    parts = [Tensor(shape=part.shape, kind=kind) for part in _real(call.inputs)]
    return _work(0, total_bytes(parts * 2), parts) if parts and kind else None


def gather(call: Call) -> OperatorWorkload | None:
    """A gather reads as many elements as it writes: rows of the first tensor, chosen by the last tensor."""
    parts = _real(call.inputs)
    if len(parts) < 2 or parts[0].kind is None:
        return None
    table, index = parts[0], parts[-1]
    picked = index.elements if "gather" in call.name else _rows(table, index, call)
    return None if picked is None else _work(0, plus(2 * picked * table.kind.bytes, index.bytes), [table])  # type: ignore[union-attr]


def embedding(call: Call) -> OperatorWorkload | None:
    """An embedding reads one row of the table for each index, and writes the row."""
    parts = _real(call.inputs)
    if len(parts) < 2 or len(parts[0].shape) != 2 or parts[0].kind is None:
        return None
    moved = 2 * parts[1].elements * parts[0].shape[1] * parts[0].kind.bytes
    return _work(0, plus(moved, parts[1].bytes), parts[:1])


def embedding_backward(call: Call) -> OperatorWorkload | None:
    """An embedding gradient adds each row's gradient to the table's gradient: at least one read and one write."""
    parts = _real(call.inputs)
    return (
        _work(parts[0].elements, plus(total_bytes(parts[:1] * 2), parts[1].bytes), parts[:1])
        if len(parts) > 1
        else None
    )


def foreach(call: Call) -> OperatorWorkload | None:
    """A foreach operator reads every list of tensors and writes one of the lists."""
    kind, lists = _listed_kind(call), sum(dtype in _LIST for dtype in call.dtypes)
    elements = sum(part.elements for part in _real(call.inputs))
    if kind is None or not lists or not elements or elements % lists:
        return None
    return OperatorWorkload(
        flops=elements // lists, bytes=(elements + elements // lists) * kind.bytes, unit="vector",
        precision=kind.precision,
    )  # fmt: skip


def fused_adam(call: Call) -> OperatorWorkload | None:
    """A fused Adam reads parameters, gradients and two moments (three with AMSGrad), and writes all but gradients."""
    kind = _listed_kind(call)
    elements = sum(part.elements for part in _real(call.inputs))
    lists = _ADAM_LISTS + (0 if elements % _ADAM_LISTS == 0 else 1)
    if kind is None or not elements or elements % lists:
        return None
    each = elements // lists
    return OperatorWorkload(
        flops=_ADAM * each, bytes=(elements + elements - each) * kind.bytes, unit="vector", precision=kind.precision
    )


def looked_up(call: Call) -> OperatorWorkload | None:
    """A look-up with a recorded output reads only as much of the table as it writes."""
    moved = plus(total_bytes(call.outputs), total_bytes(call.outputs), total_bytes(call.inputs[1:]))
    return _work(0, moved, call.outputs) if call.outputs and len(call.inputs) > 1 else None


def recorded(call: Call) -> OperatorWorkload | None:
    """Inputs and outputs as recorded, each read or written once; one operation for each element of the larger side."""
    if not call.inputs or not call.outputs:
        return None
    elements = max(sum(part.elements for part in call.inputs), sum(part.elements for part in call.outputs))
    return _work(elements, plus(total_bytes(call.inputs), total_bytes(call.outputs)), call.inputs)


def _rows(table: Tensor, index: Tensor, call: Call) -> int | None:
    """The elements that `index_select` picks; a recorded value says along which dimension, else the first counts."""
    named = [int(value) for value in call.values if re.fullmatch(r"-?\d{1,2}", value)]
    dimension = named[0] if named else 0
    if not -len(table.shape) <= dimension < len(table.shape) or not table.shape[dimension]:
        return None
    return table.elements // table.shape[dimension] * index.elements


def _real(parts: Sequence[Tensor]) -> list[Tensor]:
    """The tensors with dimensions; numbers and missing inputs have none."""
    found = [part for part in parts if part.shape]
    return found or [part for part in parts if part.kind is not None]


def _broadcast(parts: Sequence[Tensor]) -> tuple[int, ...] | None:
    deepest = max(len(part.shape) for part in parts)
    sides = []
    for place in range(deepest):
        found = {part.shape[place - deepest] for part in parts if place - deepest >= -len(part.shape)} - {1}
        if len(found) > 1:
            return None
        sides.append(found.pop() if found else 1)
    return tuple(sides)


def _promoted(parts: Sequence[Tensor]) -> ElementType | None:
    """The widest type, floats before integers, which is PyTorch's promotion for tensors of similar types."""
    kinds = [part.kind for part in parts]
    known = [kind for kind in kinds if kind is not None]
    if len(known) < len(kinds):
        return None
    floats = [kind for kind in known if kind.precision and kind.precision != "int8"]
    return max(floats or known, key=lambda kind: kind.bytes)


def _listed_kind(call: Call) -> ElementType | None:
    """The type of the tensors of a list, by the kernel's template arguments."""
    opaque = _OPAQUE.search(call.kernel)
    if opaque:
        size = int(opaque[1])
        return ElementType(size, "") if size in (1, 2, 4, 8, 16) else None
    named = _NAMED.search(call.kernel.partition("<")[2])
    return element_type(named[1]) if named else None


def _work(flops: int, moved: int | None, parts: Sequence[Tensor]) -> OperatorWorkload:
    return OperatorWorkload(flops=flops, bytes=moved, unit="vector", precision=precision_of(list(parts)))


FORMULAS: dict[str, Callable[[Call], OperatorWorkload | None]] = {
    "elementwise": elementwise,
    "fill": fill,
    "reduction": reduction,
    "softmax": softmax,
    "softmax backward": softmax_backward,
    "norm": norm,
    "norm backward": norm_backward,
    "copy": copy,
    "concatenation": concatenation,
    "gather": gather,
    "embedding": embedding,
    "embedding backward": embedding_backward,
    "looked up": looked_up,
    "foreach": foreach,
    "fused adam": fused_adam,
    "tensors": recorded,
}
