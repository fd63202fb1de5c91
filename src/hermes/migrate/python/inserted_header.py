"""Writes the lines that convert adds at the top of a file: constants of the accelerator, or the shim's two lines."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import replace

from hermes.migrate.messages import by_hand_only
from hermes.migrate.python.scanned_file import ACCELERATOR, COLLECTIVES, MODULE, File, FoundPlace
from hermes.migrate.python.syntax_tree import FunctionNode
from hermes.migrate.scan_model import Edit, Sure

_LINES = {
    ACCELERATOR: f'{ACCELERATOR} = getattr({{torch}}.accelerator.current_accelerator(), "type", "cuda")'
    '  # "npu" on Ascend',
    MODULE: f"{MODULE} = {{torch}}.get_device_module({ACCELERATOR})",
    COLLECTIVES: f"{COLLECTIVES} = {{torch}}.distributed.get_default_backend_for_device({ACCELERATOR})  # nccl, hccl",
}
_SHIM = ("import torch_npu  # noqa: F401", "from torch_npu.contrib import transfer_to_npu  # noqa: F401")


def reachable(file: File) -> None:
    """Remove changes from places that cannot read the constants, because of the way in which the file imports torch.

    A file that imports torch only in functions does so on purpose, so convert imports nothing at its top. If the import
    stands in a `try` or an `if`, the constants follow it there, and only functions, which run later, may read them.
    """
    home = _home(file)
    if home is None and not _imported_late(file):
        return
    guarded = home is not None and not isinstance(file.source.parents.get(home), ast.Module)
    if home is not None and not guarded:
        return
    lost = [
        index for index, one in enumerate(file.found)
        if _reads(one) and not (guarded and one.node is not None and _runs_later(file, one.node))
    ]  # fmt: skip
    # A test that is true on an NPU, before a device that stays CUDA's, would stop a function that ran on the host.
    within = {_function(file, file.found[index].node) for index in lost} - {None}
    for index, one in enumerate(file.found):
        if index in lost or (one.native and not _reads(one) and _function(file, one.node) in within):
            place = replace(one.place, converts=False, todo=by_hand_only(todo=one.place.todo))
            file.found[index] = replace(one, place=place, native=None)


def _reads(one: FoundPlace) -> bool:
    """Whether the changes of a place read a constant."""
    return any(change.needs & _LINES.keys() for change in one.native or ())


def _function(file: File, node: ast.AST | None) -> ast.AST | None:
    """The outermost function around a node."""
    around = file.source.ancestors(node) if node is not None else ()
    return next((one for one in reversed([*around]) if isinstance(one, FunctionNode)), None)


def _home(file: File) -> ast.Import | None:
    """The statement outside of functions that imports torch; if there are several, the one at the top of the module."""
    found = [
        node for node in file.source.nodes(ast.Import)
        if _binds_torch(node) and file.source.scope(node) is file.source.top
    ]  # fmt: skip
    return next(
        (node for node in found if isinstance(file.source.parents.get(node), ast.Module)), found[0] if found else None
    )


def _imported_late(file: File) -> bool:
    """Whether the file imports torch only in functions."""
    nodes: list[ast.Import | ast.ImportFrom] = [*file.source.nodes(ast.Import), *file.source.nodes(ast.ImportFrom)]
    scopes = [file.source.scope(node) for node in nodes if _imports_torch(node)]
    return bool(scopes) and file.source.top not in scopes


def _imports_torch(node: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name.split(".")[0] == "torch" for alias in node.names)
    return not node.level and (node.module or "").split(".")[0] == "torch"


def _runs_later(file: File, node: ast.AST) -> bool:
    """Whether a node is in the body of a function, and not in its decorators, defaults or annotations."""
    child = node
    for parent in file.source.ancestors(node):
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)) and child in parent.body:
            return True
        if isinstance(parent, ast.Lambda) and child is parent.body:
            return True
        child = parent
    return False


def constants(file: File, needs: set[str], edits: list[Edit]) -> Edit | None:
    """The edit that defines the constants that the edits of a file read; None if no constant is missing.

    Raises `ValueError` if the lines cannot stand before all of their uses.
    """
    wanted = {name for name in needs if name in _LINES}
    if wanted & {MODULE, COLLECTIVES}:
        wanted.add(ACCELERATOR)
    missing = [name for name in _LINES if name in wanted and not _defined(file, name)]
    torch = file.names.local_name("torch", file.source.top)
    lines = [] if torch is not None or not needs or _imported_late(file) else ["import torch"]
    if COLLECTIVES in missing and not _imports(file, "torch.distributed"):
        lines.append("import torch.distributed")
    lines += [_LINES[name].format(torch=torch or "torch") for name in missing]
    if not lines:
        return None
    uses = [edit.start for edit in edits if any(name in edit.text for name in _LINES)]
    places = (_after_imports(file, torch is not None), _after_torch(file))
    position = next((one for one in places if one is not None and (not uses or one <= min(uses))), None)
    home = _home(file)
    guarded = home is not None and not isinstance(file.source.parents.get(home), ast.Module)
    if guarded and home is not None:
        position = _line_end(file, home)
        lines, missing = [" " * home.col_offset + line for line in lines], []
    if position is None:
        raise ValueError("the first use stands before the imports")
    before_these = [binding.node for name in _LINES if _defined(file, name) for binding in file.source.top.names[name]]
    if before_these:
        position = max(_line_end(file, node) for node in before_these if isinstance(node, ast.stmt))
        missing = []
    newline = "\r\n" if "\r\n" in file.source.text else "\n"
    block = newline.join(lines)
    before = "" if position == 0 or file.source.text[:position].endswith(("\n", "\r")) else newline
    gap = newline if missing else ""
    return Edit(start=position, end=position, text=f"{before}{gap}{block}{newline}", rule="header",
                sure=Sure.PROVEN)  # fmt: skip


def name_is_taken(file: File) -> bool:
    """Whether the file uses one of the constants' names for something else."""
    return any(
        any(not _ours(file, name) for _ in bindings)
        for name, bindings in file.source.top.names.items()
        if name in _LINES
    )


def _defined(file: File, name: str) -> bool:
    return name in file.source.top.names and _ours(file, name)


def _ours(file: File, name: str) -> bool:
    start = re.escape(_LINES[name].split("{torch}")[0])
    return re.search(rf"(?m)^{start}\w+\.(accelerator|get_device_module|distributed)\b", file.source.text) is not None


def _imports(file: File, dotted: str) -> bool:
    return any(
        (isinstance(node, ast.Import) and any(alias.name.startswith(dotted) for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and (node.module or "").startswith(dotted))
        or (isinstance(node, ast.ImportFrom) and node.module == "torch" and dotted == "torch.distributed"
            and any(alias.name == "distributed" for alias in node.names))
        for node in file.source.tree.body
    )  # fmt: skip


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, (ast.Import, ast.ImportFrom))


def _only_imports(node: ast.stmt) -> bool:
    if isinstance(node, ast.Try):
        inner = [*node.body, *(one for handler in node.handlers for one in handler.body), *node.orelse]
        return all(_is_import(one) or isinstance(one, (ast.Pass, ast.Assign)) for one in inner)
    return False


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _line_end(file: File, node: ast.stmt) -> int:
    position = file.source.span(node)[1]
    text = file.source.text
    while position < len(text) and text[position] not in "\r\n":
        position += 1
    if text.startswith("\r\n", position):
        return position + 2
    return min(position + 1, len(text))


def _after_imports(file: File, torch_known: bool) -> int | None:
    """The line after the imports with which the file begins, or after its docstring if it begins with no import."""
    last: ast.stmt | None = None
    seen_torch = not torch_known
    for node in file.source.tree.body:
        if _is_import(node) or _only_imports(node) or (_is_docstring(node) and last is None):
            last = node
            seen_torch = seen_torch or _binds_torch(node)
        elif seen_torch:
            break
    if last is None:
        return _first_line(file)
    return _line_end(file, last) if seen_torch else _after_torch(file)


def _first_line(file: File) -> int:
    position = 0
    for line in file.source.text.splitlines(keepends=True)[:2]:
        if not line.startswith("#"):
            break
        position += len(line)
    return position


def _binds_torch(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "torch" for alias in node.names)


def _after_torch(file: File) -> int | None:
    for node in file.source.tree.body:
        if _binds_torch(node):
            return _line_end(file, node)
    return None


def shim(file: File) -> Edit | None:
    """The edit that adds the shim's two lines: after `import torch`, or before the first import that may need it."""
    text = file.source.text
    if "torch_npu.contrib import transfer_to_npu" in text:
        return None
    position = _shim_position(file)
    newline = "\r\n" if "\r\n" in text else "\n"
    before = "" if position == 0 or text[:position].endswith(("\n", "\r")) else newline
    return Edit(start=position, end=position, text=before + "".join(f"{line}{newline}" for line in _SHIM),
                rule="shim-import", sure=Sure.PROVEN)  # fmt: skip


def _shim_position(file: File) -> int:
    last = _first_line(file)
    for node in file.source.tree.body:
        if isinstance(node, ast.Import) and any(alias.name == "torch" for alias in node.names):
            return _line_end(file, node)
        if _is_import(node) and not _harmless(node):
            return file.source.span(node)[0]
        if _is_import(node) or _is_docstring(node):
            last = _line_end(file, node)
        else:
            break
    return last


def _harmless(node: ast.stmt) -> bool:
    """Whether a statement imports from the standard library or numpy, and binds no name of torch."""
    tops = []
    if isinstance(node, ast.Import):
        tops = [alias.name.split(".")[0] for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and not node.level:
        tops = [(node.module or "").split(".")[0]]
    return bool(tops) and all(top in sys.stdlib_module_names or top == "numpy" for top in tops)
