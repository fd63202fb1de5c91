"""Finds what runs on an NPU but costs time there, and names the rule of Hermes that will measure it."""

from __future__ import annotations

import ast

from hermes.migrate.messages import code, in_loop
from hermes.migrate.model import Sure
from hermes.migrate.python.file import File

_READS = {"item", "tolist", "cpu", "numpy"}
_BY_DATA = {"torch.nonzero", "torch.masked_select", "torch.unique", "torch.unique_consecutive", "torch.argwhere"}
_BY_DATA_METHODS = {"nonzero", "masked_select", "unique", "unique_consecutive", "argwhere"}


def find(file: File) -> None:
    """Each slow place of the file."""
    training = _training_loops(file)
    for call in file.source.nodes(ast.Call):
        if isinstance(call.func, ast.Attribute):
            _method(file, call, call.func, training)
        full = file.names.full(call.func)
        if full in _BY_DATA or (full == "torch.where" and len(call.args) == 1 and not call.keywords):
            file.add("dynamic-shape", call, code(text=full))
    for subscript in file.source.nodes(ast.Subscript):
        _mask(file, subscript)
    for loop in file.source.nodes(ast.For):
        _parameters(file, loop)


def _training_loops(file: File) -> set[ast.AST]:
    """Loops in which gradients are computed, from the innermost on."""
    found: set[ast.AST] = set()
    for call in file.source.nodes(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "backward":
            for parent in file.source.ancestors(call):
                if isinstance(parent, (ast.For, ast.While)):
                    found.add(parent)
                    break
    return found


def _method(file: File, call: ast.Call, func: ast.Attribute, training: set[ast.AST]) -> None:
    if file.names.full(func) is not None:
        return
    kind = file.kinds.of(func.value)
    name = func.attr
    if kind is not None and kind.name != "tensor":
        return
    if (
        name in _READS
        and not call.args
        and not _on_host(func.value)
        and _is_read(file, name, kind is not None)
        and _runs_often(file, call, training)
    ):
        file.add(
            "sync-item",
            call,
            in_loop(text=_short(file.text(call))),
            sure=Sure.PROVEN if kind else Sure.LIKELY,
        )
    elif name in _BY_DATA_METHODS and kind is not None:
        file.add("dynamic-shape", call, code(text=_short(file.text(call))), sure=kind.sure)
    elif name == "long" and kind is not None and _in_forward(file, call):
        file.add("int64-index", call, code(text=_short(file.text(call))), sure=Sure.GUESS)


def _on_host(node: ast.expr) -> bool:
    """Whether the value was copied to the host by the call before: `x.cpu().numpy()` waits once."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("cpu", "numpy")


def _is_read(file: File, name: str, is_tensor: bool) -> bool:
    return name == "item" or is_tensor


def _runs_often(file: File, node: ast.AST, training: set[ast.AST]) -> bool:
    rare = False
    for parent in file.source.ancestors(node):
        rare = rare or (isinstance(parent, ast.If) and any(isinstance(one, ast.Mod) for one in ast.walk(parent.test)))
        if parent in training:
            return not rare
    return False


def _in_forward(file: File, node: ast.AST) -> bool:
    return any(isinstance(one, ast.FunctionDef) and one.name == "forward" for one in file.source.ancestors(node))


def _mask(file: File, node: ast.Subscript) -> None:
    """`x[x > 0]`: how many rows there are depends on the data."""
    if not (isinstance(node.slice, ast.Compare) and isinstance(node.ctx, ast.Load)):
        return
    kind = file.kinds.of(node.value)
    if kind is not None and kind.name == "tensor":
        file.add("dynamic-shape", node, code(text=_short(file.text(node))), sure=kind.sure)


def _parameters(file: File, loop: ast.For) -> None:
    call = loop.iter
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "parameters"):
        return
    if not isinstance(loop.target, ast.Name):
        return
    for node in ast.walk(loop):
        changed = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_")
        if changed and any(isinstance(one, ast.Name) and one.id == loop.target.id for one in ast.walk(node)):
            file.add("small-operators", loop.iter, code(text=f"for {loop.target.id} in {_short(file.text(loop.iter))}"))
            return


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 80 else f"{flat[:79]}…"
