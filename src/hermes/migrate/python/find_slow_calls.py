"""Finds code that runs slowly on an NPU, and names the rule of Hermes that will measure its cost."""

from __future__ import annotations

import ast

from hermes.migrate.messages import code, in_loop
from hermes.migrate.python.host_tensors import stays_on_host
from hermes.migrate.python.scanned_file import File
from hermes.migrate.python.syntax_tree import FunctionNode
from hermes.migrate.scan_model import Sure

_READS = {"item", "tolist", "cpu", "numpy"}
_BY_DATA = {"torch.nonzero", "torch.masked_select", "torch.unique", "torch.unique_consecutive", "torch.argwhere"}
_BY_DATA_METHODS = {"nonzero", "masked_select", "unique", "unique_consecutive", "argwhere"}

_KEEPS = {"t", "view", "reshape", "squeeze", "unsqueeze", "flatten", "expand", "to", "clone", "transpose", "permute"}
"""Methods whose result on a mask is still a mask."""
_ONCE = {"requires_grad_", "uniform_", "normal_", "share_memory_"}
"""Methods that set up a parameter before training."""


def find(file: File) -> None:
    """Find each slow place of the file."""
    training = _training_loops(file)
    for call in file.source.nodes(ast.Call):
        if isinstance(call.func, ast.Attribute):
            _method(file, call, call.func, training)
        full = file.names.full(call.func)
        by_data = full in _BY_DATA or (full == "torch.where" and len(call.args) == 1 and not call.keywords)
        if full is not None and by_data and not (call.args and stays_on_host(file, call.args[0])):
            file.add("dynamic-shape", call, code(text=full))
    for subscript in file.source.nodes(ast.Subscript):
        _mask(file, subscript)
    for loop in file.source.nodes(ast.For):
        _parameters(file, loop)


def _training_loops(file: File) -> set[ast.AST]:
    """Loops in which gradients are computed, the innermost first."""
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
        and (name == "item" or kind is not None or _is_for_numpy(file, call, name))
        and _runs_often(file, call, training)
    ):
        file.add(
            "sync-item",
            call,
            in_loop(text=_short(file.text(call))),
            sure=Sure.PROVEN if kind else Sure.LIKELY,
        )
    elif name in _BY_DATA_METHODS and (kind is not None or _seems_a_tensor(file, call, func)):
        if not stays_on_host(file, func.value):
            sure = kind.sure if kind else Sure.LIKELY
            file.add("dynamic-shape", call, code(text=_short(file.text(call))), sure=sure)
    elif name == "long" and kind is not None and _in_forward(file, call):
        file.add("int64-index", call, code(text=_short(file.text(call))), sure=Sure.GUESS)


def _seems_a_tensor(file: File, call: ast.Call, func: ast.Attribute) -> bool:
    """Whether a value of unknown kind must be a tensor: NumPy's arrays lack its method, or define the method otherwise.

    NumPy's `nonzero` gives a tuple, of which one part is taken: `a.nonzero()[0]`, `rows, columns = a.nonzero()`.
    """
    if func.attr not in ("nonzero", "masked_select", "unique_consecutive") or not _imports_torch(file):
        return False
    parent = file.source.parents.get(call)
    part = isinstance(parent, ast.Subscript) and isinstance(parent.slice, ast.Constant) and parent.value is call
    unpacked = isinstance(parent, ast.Assign) and isinstance(parent.targets[0], (ast.Tuple, ast.List))
    return func.attr != "nonzero" or not (part or unpacked or _is_of_numpy(file, func.value))


def _imports_torch(file: File) -> bool:
    names = [alias.name for node in file.source.nodes(ast.Import) for alias in node.names]
    names += [node.module or "" for node in file.source.nodes(ast.ImportFrom) if not node.level]
    return any(name.split(".")[0] == "torch" for name in names)


def _is_of_numpy(file: File, node: ast.expr, depth: int = 6) -> bool:
    """Whether a call of NumPy occurs in an expression, or in values assigned to its names."""
    for one in ast.walk(node):
        if isinstance(one, ast.Attribute) and (file.names.full(one) or "").startswith("numpy."):
            return True
        found = file.source.scope(one).find(one.id) if isinstance(one, ast.Name) and depth else None
        if any(
            each.value is not None and _is_of_numpy(file, each.value, depth - 1) for each in (found[1] if found else ())
        ):
            return True
    return False


def _on_host(node: ast.expr) -> bool:
    """Whether the previous call copied the value to the host: `x.cpu().numpy()` waits once."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("cpu", "numpy")


def _is_for_numpy(file: File, call: ast.Call, name: str) -> bool:
    """Whether a call is like `x.cpu().numpy()` or `x.cpu().item()`: only a tensor has both methods."""
    parent = file.source.parents.get(call)
    return name == "cpu" and isinstance(parent, ast.Attribute) and parent.attr in ("numpy", "item", "tolist")


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
    """Note `x[x > 0]`: the number of result rows depends on the data."""
    if not (isinstance(node.ctx, ast.Load) and _is_mask(file, node.slice)):
        return
    kind = file.kinds.of(node.value)
    if kind is not None and kind.name == "tensor" and not stays_on_host(file, node.value):
        file.add("dynamic-shape", node, code(text=_short(file.text(node))), sure=kind.sure)


def _is_mask(file: File, node: ast.expr, depth: int = 4) -> bool:
    """Whether an index is a comparison, a cast to bool, or a name for either."""
    if isinstance(node, ast.Compare):
        return not any(isinstance(op, (ast.In, ast.NotIn, ast.Is, ast.IsNot)) for op in node.ops)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Invert) and _is_mask(file, node.operand, depth)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, (ast.BitAnd, ast.BitOr)) and _is_mask(file, node.left, depth)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr == "bool" or (node.func.attr in _KEEPS and _is_mask(file, node.func.value, depth))
    found = file.source.scope(node).find(node.id) if isinstance(node, ast.Name) and depth else None
    values = [one.value for one in found[1] if one.kind == "assign"] if found else []
    return bool(values) and all(one is not None and _is_mask(file, one, depth - 1) for one in values)


def _parameters(file: File, loop: ast.For) -> None:
    call = loop.iter
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "parameters"):
        return
    if not isinstance(loop.target, ast.Name) or _runs_once(file, loop):
        return
    for node in ast.walk(loop):
        if _changes(file, node) and any(
            isinstance(one, ast.Name) and one.id == loop.target.id for one in ast.walk(node)
        ):
            file.add("small-operators", loop.iter, code(text=f"for {loop.target.id} in {_short(file.text(loop.iter))}"))
            return


def _runs_once(file: File, loop: ast.For) -> bool:
    """Whether a loop is in a function that sets up weights."""
    around = (one.name for one in file.source.ancestors(loop) if isinstance(one, FunctionNode))
    return any("init" in name.lower() or "reset_parameters" in name for name in around)


def _changes(file: File, node: ast.AST) -> bool:
    """Whether a node is a call that replaces values by new ones, as each training step does."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_")):
        return False
    return node.func.attr not in _ONCE and not (file.names.full(node.func) or "").startswith("torch.nn.init.")


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 80 else f"{flat[:79]}…"
