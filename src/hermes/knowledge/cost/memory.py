"""Work of everything that the vector units do: what it reads and writes decides, its operations are counted roughly.

Bytes: every input once, every output once. PyTorch's traces record no outputs, so they follow from the operator: the
broadcast shape, the type that PyTorch promotes to. Operations an element, after the textbook algorithms: one for an
elementwise function, however costly (exponentials are not split into instructions), one for each element that is
summed, 5 for softmax (maximum, difference, exponential, sum, quotient), 8 for a layer norm (mean 1, variance 3,
normalisation 2, weight and bias 2), twice that for its gradients, 12 for Adam.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from hermes.knowledge.cost.tensors import Call, Tensor
from hermes.knowledge.cost.work import Work, plus, precision_of, total_bytes
from hermes.knowledge.dtypes import ElementType, element_type

_SOFTMAX, _NORM, _ADAM = 5, 8, 12
_BOOL = ElementType(1, "")
_COMPARISONS = re.compile(r"::(eq|ne|lt|le|gt|ge|logical_\w+|isnan|isinf|isfinite)$")
# Kernels of lists of tensors carry the type that their list does not.
_OPAQUE = re.compile(r"OpaqueType<(\d+)u?>")
_NAMED = re.compile(r"\b(double|float|c10::BFloat16|c10::Half|long|int|bool)\b")
_LIST = ("TensorList", "GenericList")
_ADAM_LISTS = 4


def elementwise(call: Call) -> Work | None:
    """Reads all tensors, writes one of their broadcast shape; an in-place operator writes its first.

    It computes in the widest type that it reads: a float32 less a float64 is one in float64. A tensor for the result
    that is still empty (`out=`) is not read.
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


def fill(call: Call) -> Work | None:
    """Writes its first tensor."""
    parts = _real(call.inputs)[:1]
    return _work(0, total_bytes(parts), parts) if parts else None


def reduction(call: Call) -> Work | None:
    """Reads its first tensor; what it writes is less, and not recorded."""
    parts = _real(call.inputs)[:1]
    return _work(parts[0].elements, total_bytes(parts), parts) if parts else None


def softmax(call: Call) -> Work | None:
    """Reads and writes one tensor."""
    parts = _real(call.inputs)[:1]
    return _work(_SOFTMAX * parts[0].elements, total_bytes(parts * 2), parts) if parts else None


def softmax_backward(call: Call) -> Work | None:
    """Reads the gradient and the output, writes a gradient; 4 operations an element (two products, sum, difference)."""
    parts = _real(call.inputs)[:2]
    if len(parts) < 2 or parts[0].shape != parts[1].shape:
        return None
    return _work(4 * parts[0].elements, total_bytes([*parts, parts[1]]), parts)


def norm(call: Call) -> Work | None:
    """Reads a tensor with weight and bias, writes one like it."""
    parts = _real(call.inputs)
    return _work(_NORM * parts[0].elements, total_bytes([*parts, parts[0]]), parts) if parts else None


def norm_backward(call: Call) -> Work | None:
    """Reads gradient, input and weight, writes the gradients of input and weight."""
    parts = _real(call.inputs)
    if len(parts) < 2 or parts[0].elements != parts[1].elements:
        return None
    return _work(2 * _NORM * parts[0].elements, total_bytes([*parts, parts[1]]), parts)


def copy(call: Call) -> Work | None:
    """`copy_(to, from)` reads the second and writes the first; the others write what they read."""
    parts = _real(call.inputs)
    if call.name.endswith("copy_"):
        if len(parts) < 2:
            return None
        return _work(0, total_bytes([parts[0], Tensor(shape=parts[0].shape, kind=parts[1].kind)]), parts[:2])
    return _work(0, total_bytes(parts[:1] * 2), parts[:1]) if parts else None


def concatenation(call: Call) -> Work | None:
    """Reads all tensors of its list and writes as much."""
    kind = _listed_kind(call)
    parts = [Tensor(shape=part.shape, kind=kind) for part in _real(call.inputs)]
    return _work(0, total_bytes(parts * 2), parts) if parts and kind else None


def gather(call: Call) -> Work | None:
    """Reads as many elements as it writes: rows of the first tensor, by an index of the last."""
    parts = _real(call.inputs)
    if len(parts) < 2 or parts[0].kind is None:
        return None
    table, index = parts[0], parts[-1]
    picked = index.elements if "gather" in call.name else _rows(table, index, call)
    return None if picked is None else _work(0, plus(2 * picked * table.kind.bytes, index.bytes), [table])  # type: ignore[union-attr]


def embedding(call: Call) -> Work | None:
    """Reads one row of the table for each index, writes it."""
    parts = _real(call.inputs)
    if len(parts) < 2 or len(parts[0].shape) != 2 or parts[0].kind is None:
        return None
    moved = 2 * parts[1].elements * parts[0].shape[1] * parts[0].kind.bytes
    return _work(0, plus(moved, parts[1].bytes), parts[:1])


def embedding_backward(call: Call) -> Work | None:
    """Reads the gradient of each row and adds it to the table's: at least read once and written once."""
    parts = _real(call.inputs)
    return (
        _work(parts[0].elements, plus(total_bytes(parts[:1] * 2), parts[1].bytes), parts[:1])
        if len(parts) > 1
        else None
    )


def foreach(call: Call) -> Work | None:
    """Reads every list of tensors and writes one of them."""
    kind, lists = _listed_kind(call), sum(dtype in _LIST for dtype in call.dtypes)
    elements = sum(part.elements for part in _real(call.inputs))
    if kind is None or not lists or not elements or elements % lists:
        return None
    return Work(
        flops=elements // lists, bytes=(elements + elements // lists) * kind.bytes, unit="vector",
        precision=kind.precision,
    )  # fmt: skip


def fused_adam(call: Call) -> Work | None:
    """Reads parameters, gradients and two moments (one more with AMSGrad), writes all but the gradients."""
    kind = _listed_kind(call)
    elements = sum(part.elements for part in _real(call.inputs))
    lists = _ADAM_LISTS + (0 if elements % _ADAM_LISTS == 0 else 1)
    if kind is None or not elements or elements % lists:
        return None
    each = elements // lists
    return Work(
        flops=_ADAM * each, bytes=(elements + elements - each) * kind.bytes, unit="vector", precision=kind.precision
    )


def looked_up(call: Call) -> Work | None:
    """A look-up with its output recorded: of the table only what comes out is read."""
    moved = plus(total_bytes(call.outputs), total_bytes(call.outputs), total_bytes(call.inputs[1:]))
    return _work(0, moved, call.outputs) if call.outputs and len(call.inputs) > 1 else None


def recorded(call: Call) -> Work | None:
    """Inputs and outputs as recorded, each once; an operation for each element of the larger side."""
    if not call.inputs or not call.outputs:
        return None
    elements = max(sum(part.elements for part in call.inputs), sum(part.elements for part in call.outputs))
    return _work(elements, plus(total_bytes(call.inputs), total_bytes(call.outputs)), call.inputs)


def _rows(table: Tensor, index: Tensor, call: Call) -> int | None:
    """Elements that `index_select` picks; along which dimension is recorded as a value, else the first is meant."""
    named = [int(value) for value in call.values if re.fullmatch(r"-?\d{1,2}", value)]
    dimension = named[0] if named else 0
    if not -len(table.shape) <= dimension < len(table.shape) or not table.shape[dimension]:
        return None
    return table.elements // table.shape[dimension] * index.elements


def _real(parts: Sequence[Tensor]) -> list[Tensor]:
    """The tensors with dimensions; numbers and inputs that are not given have none."""
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
    """The widest type, floats before integers: what PyTorch's promotion comes to for tensors of like kinds."""
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


def _work(flops: int, moved: int | None, parts: Sequence[Tensor]) -> Work:
    return Work(flops=flops, bytes=moved, unit="vector", precision=precision_of(list(parts)))


FORMULAS: dict[str, Callable[[Call], Work | None]] = {
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
