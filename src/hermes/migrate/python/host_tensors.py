"""Tells whether a tensor stays on the host, as a tensor does that torch makes without a given device."""

from __future__ import annotations

import ast

from hermes.migrate.python.scanned_file import File

_MAKERS = {f"torch.{name}" for name in (
    "ones", "zeros", "full", "empty", "eye", "arange", "linspace", "logspace", "rand", "randn", "randint", "randperm",
    "tensor", "from_numpy", "Tensor", "FloatTensor", "LongTensor", "IntTensor", "BoolTensor", "ByteTensor",
)}  # fmt: skip
_MOVES = {"to", "cuda", "npu", "type", "type_as", "to_empty"}
_DEFAULTS = ("set_default_device", "set_default_tensor_type", "with torch.device")
_DEPTH = 12


def stays_on_host(file: File, node: ast.expr) -> bool:
    """Whether the file shows that the value of an expression is a tensor on the host."""
    return not any(one in file.source.text for one in _DEFAULTS) and _stays(file, node, _DEPTH, frozenset())


def _stays(file: File, node: ast.expr, depth: int, names: frozenset[str]) -> bool:
    """Whether a value stays on the host; `names` are being resolved: a value made of itself (`x = x[1:]`) stays."""
    if depth == 0:
        return False
    if isinstance(node, ast.Call):
        return _call(file, node, depth - 1, names)
    if isinstance(node, ast.Name):
        found = file.source.scope(node).find(node.id)
        bindings = found[1] if found else []
        return node.id in names or (
            bool(bindings)
            and all(
                one.kind in ("assign", "augment")
                and one.value is not None
                and _stays(file, one.value, depth - 1, names | {node.id})
                for one in bindings
            )
        )
    if isinstance(node, (ast.BinOp, ast.Compare)):
        parts = [node.left, *([node.right] if isinstance(node, ast.BinOp) else node.comparators)]
        tensors = [one for one in parts if not _is_number(file, one)]
        return bool(tensors) and all(_stays(file, one, depth - 1, names) for one in tensors)
    if isinstance(node, ast.UnaryOp):
        return _stays(file, node.operand, depth - 1, names)
    return isinstance(node, ast.Subscript) and _stays(file, node.value, depth - 1, names)


def _call(file: File, call: ast.Call, depth: int, names: frozenset[str]) -> bool:
    full = file.names.full(call.func)
    if full is not None:
        return full in _MAKERS and all(keyword.arg not in ("device", None) for keyword in call.keywords)
    if not isinstance(call.func, ast.Attribute):
        return False
    return call.func.attr == "cpu" or (call.func.attr not in _MOVES and _stays(file, call.func.value, depth, names))


def _is_number(file: File, node: ast.expr) -> bool:
    kind = file.kinds.of(node)
    return kind is not None and kind.name in ("int", "float", "number", "bool")
