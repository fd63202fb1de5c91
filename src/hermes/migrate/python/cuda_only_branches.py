"""Leaves places unchanged in branches that an NPU never takes, and in tests that keep CUDA-only code from running.

`if x.is_cuda: return my_ext.fused(x)` must stay: if the test were true on an NPU, the program would run code for CUDA.
If a program has a branch for the NPU beside the branch for CUDA, both branches are right as they are.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hermes.knowledge import migration
from hermes.migrate import messages as say
from hermes.migrate.python.scanned_file import File, FoundPlace
from hermes.migrate.scan_model import Effort, Sure
from hermes.model.leaf import Risk

_NPU = re.compile(r"(?i)(^|_|\b)(npu|hccl)(_|\b|$)")
_ONLY_FOR_CUDA = re.compile(
    r"(?i)(^|[_\W])(triton|cupy|cucim|cudf|cuml|cuda_?graphs?|flash_?attn|flash_?infer|xformers|bitsandbytes|tensorrt"
    r"|nvtx|dali|megablocks|transformer_engine)([_\W]|$)"
)
_CUDA_ONLY = {"cuda-only", "cuda-graph", "capability", "extension-operator", "cuda-version"}
_CALLS = {"cuda-call", "cuda-method", "cuda-amp"}
_TESTS = {"device-test", "is-cuda", "device-string", "backend-string"}
_QUESTIONS = {
    f"torch.cuda.{name}"
    for name in ("get_device_properties", "get_device_name", "device_count", "current_device", "is_available")
}
_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def drop_changes_in_branches(file: File) -> None:
    """Remove the changes from places that an NPU does not reach, or must not reach."""
    kept = [_with_npu_branch(file, one) for one in file.found]
    changing = {id(one.node) for one in kept if one.native and one.node is not None and not _asks(file, one.node)}
    only_cuda = {id(one.node) for one in kept if one.place.rule in _CUDA_ONLY and one.node is not None}
    only_cuda |= {id(one.node) for one in kept if one.place.rule in _CALLS and one.native is None and not _noted(one)}
    only_cuda |= set(_of_cuda_libraries(file))
    only_cuda |= _calls_of_cuda_code(file, changing, only_cuda)
    file.found[:] = [_guarded(file, one, changing, only_cuda) for one in kept]


def _asks(file: File, node: ast.AST) -> bool:
    """Whether a node only asks for the device, or is an argument of such a question."""
    for one in (node, *file.source.ancestors(node)):
        func = one.func if isinstance(one, ast.Call) else one
        if isinstance(func, (ast.Attribute, ast.Name)) and file.names.full(func) in _QUESTIONS:
            return True
        if isinstance(one, ast.stmt):
            return False
    return False


def _noted(one: FoundPlace) -> bool:
    return one.place.effect is Risk.NOTE or one.place.sure is Sure.GUESS


def _with_npu_branch(file: File, one: FoundPlace) -> FoundPlace:
    if not (one.native or one.shim) or one.node is None or not _handled(file, one.node):
        return one
    place = replace(
        one.place, effect=Risk.NOTE, effort=Effort.NONE, converts=False,
        why=say.NPU_BRANCH, todo=say.NOTHING_TO_DO,
    )  # fmt: skip
    return replace(one, place=place, native=None, shim=None)


def _handled(file: File, node: ast.AST) -> bool:
    """Whether an NPU takes another branch than the node's branch, or than the branch that the node tests for."""
    child: ast.AST = node
    for parent in file.source.ancestors(node):
        listed = isinstance(parent, (ast.Tuple, ast.List, ast.Set)) or (
            isinstance(parent, ast.Compare) and parent.left is not child
        )
        if listed and _names_npu(parent):
            return True
        if isinstance(parent, (ast.If, ast.IfExp)) and _other_branch(file, parent, child):
            return True
        if isinstance(child, ast.stmt) and _npu_left_before(file, parent, child):
            return True
        if isinstance(parent, ast.FunctionDef) and "cuda" in parent.name:
            # `is_cuda_available` next to `is_npu_available`.
            return file.source.scope(parent).find(parent.name.replace("cuda", "npu")) is not None
        child = parent
    return False


def _other_branch(file: File, branch: ast.If | ast.IfExp, child: ast.AST) -> bool:
    others = [test for test in _tests(file, branch) if test is not branch.test]
    if child is branch.test:
        return _names_npu(branch.test) or any(map(_names_npu, others))
    in_body = child is branch.body if isinstance(branch, ast.IfExp) else child in branch.body
    if _names_npu(branch.test):
        return in_body is _negative(branch.test)
    return in_body and any(map(_names_npu, others))


def _tests(file: File, branch: ast.If | ast.IfExp) -> Iterator[ast.expr]:
    """The tests of a chain of `if` and `elif`."""
    top: ast.AST = branch
    while isinstance(parent := file.source.parents.get(top), (ast.If, ast.IfExp)) and _is_else(parent, top):
        top = parent
    while isinstance(top, (ast.If, ast.IfExp)):
        yield top.test
        orelse = top.orelse if isinstance(top.orelse, list) else [top.orelse]
        top = orelse[0] if len(orelse) == 1 else ast.Pass()


def _is_else(parent: ast.If | ast.IfExp, child: ast.AST) -> bool:
    return parent.orelse is child or (isinstance(parent.orelse, list) and parent.orelse == [child])


def _npu_left_before(file: File, block: ast.AST, child: ast.stmt) -> bool:
    """Whether an `if` for the NPU before a statement leaves the block."""
    for name in ("body", "orelse", "finalbody"):
        statements = getattr(block, name, None)
        if not isinstance(statements, list):
            continue
        first = _first_leaving(file, statements)
        if first is not None and child in statements:
            return child.lineno > first.lineno
    return False


def _first_leaving(file: File, statements: list[ast.stmt]) -> ast.If | None:
    """The first `if` for the NPU that leaves a block."""
    if id(statements) not in file.leaving:
        file.leaving[id(statements)] = next((
            one for one in statements
            if isinstance(one, ast.If) and isinstance(one.body[-1], _ENDS)
            and _names_npu(one.test) and not _negative(one.test)
        ), None)  # fmt: skip
    return file.leaving[id(statements)]


def _names_npu(test: ast.AST) -> bool:
    for node in ast.walk(test):
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value
        if name and _NPU.search(name):
            return True
    return False


def _negative(test: ast.expr) -> bool:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return not _negative(test.operand)
    return isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.NotEq, ast.NotIn, ast.IsNot))


# -- tests that keep CUDA-only code from running


def _of_cuda_libraries(file: File) -> Iterator[int]:
    """Names that lead to a library without a counterpart of the same name, or to CUDA kernels of the project."""
    for kind in (ast.Name, ast.Attribute):
        for node in file.source.nodes(kind):
            full = file.names.full(node)
            if full is not None and not isinstance(file.source.parents.get(node), ast.Attribute) and _is(file, full):
                yield id(node)


def _calls_of_cuda_code(file: File, changing: set[int], only_cuda: set[int]) -> set[int]:
    """Names of the file's functions that lead to CUDA-only code, also through each other, and need no conversion."""
    bodies = {
        function.name: {id(inner) for inner in ast.walk(function)}
        for function in file.source.nodes(ast.FunctionDef)
        if isinstance(file.source.parents.get(function), ast.Module)
    }
    bodies = {name: body for name, body in bodies.items() if not body & changing}
    names = [name for name in file.source.nodes(ast.Name) if name.id in bodies]
    found: set[int] = set()
    while more := {
        id(name) for name in names if id(name) not in found and bodies[name.id] & (only_cuda | found)
    }:  # fmt: skip
        found |= more
    return found


def _is(file: File, full: str) -> bool:
    library = migration.libraries().get(full.split(".")[0])
    if library is not None and not file.project.holds(full, file.source.relative):
        return library.status in ("none", "change")
    if full.startswith("torch.") or "." not in full:
        return False
    module = file.project.module_file(full.rpartition(".")[0], file.source.relative)
    outline = file.project.outline(module) if module else None
    return outline is not None and any(
        dotted.split(".")[0] in {"triton", *file.project.extensions} or dotted.startswith("torch.utils.cpp_extension")
        for dotted in outline.imports.values()
    )


def _guarded(file: File, one: FoundPlace, changing: set[int], only_cuda: set[int]) -> FoundPlace:
    node = one.node
    if node is None or not one.native or not _is_test(file, one, node):
        return one
    beside, below = _reach(file, node)
    inside = {id(inner) for part in beside for inner in ast.walk(part)}
    under = {id(inner) for part in below for inner in ast.walk(part)}
    by_code = inside & only_cuda or (under & only_cuda and not under & changing)
    if not by_code and not any(_only_for_cuda(file, name) for name in _named_beside(file, node)):
        return one
    place = replace(
        one.place, effect=Risk.DIFFERS, effort=Effort.NONE, converts=False,
        why=say.GUARDS_CUDA, todo=say.WRITE_BRANCH,
    )  # fmt: skip
    return replace(one, place=place, native=None, shim=None if one.shim else one.shim)


def _named_beside(file: File, node: ast.AST) -> Iterator[ast.AST]:
    """The operands joined with a test by `and` or `or`, and the name that the test's result is assigned to."""
    child: ast.AST = node
    for parent in file.source.ancestors(node):
        if isinstance(parent, ast.BoolOp):
            yield from (one for one in parent.values if one is not child)
        elif isinstance(parent, ast.Assign):
            yield from parent.targets
        elif isinstance(parent, ast.keyword):
            yield ast.Name(id=parent.arg or "")
        if not isinstance(parent, (ast.BoolOp, ast.UnaryOp, ast.Compare, ast.Attribute)):
            return
        child = parent


def _only_for_cuda(file: File, expression: ast.AST) -> bool:
    """Whether an expression names something that only CUDA has, directly or through assigned names."""
    words = list(_words(expression))
    for node in ast.walk(expression):
        found = (
            file.source.scope(node).find(node.id) if isinstance(node, ast.Name) and node in file.source.scopes else None
        )
        words += [word for binding in (found[1] if found else ()) if binding.value for word in _words(binding.value)]
    return any(_ONLY_FOR_CUDA.search(word) for word in words)


def _words(expression: ast.AST) -> Iterator[str]:
    for node in ast.walk(expression):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _is_test(file: File, one: FoundPlace, node: ast.AST) -> bool:
    if one.place.rule in _TESTS:
        return True
    named = isinstance(node, ast.expr) and file.names.full(node) == "torch.cuda.is_available"
    return one.place.rule == "cuda-call" and named


def _reach(file: File, node: ast.AST) -> tuple[list[ast.AST], list[ast.AST]]:
    """The code that runs only if a test holds: in the same expression, and in the guarded statements."""
    beside: list[ast.AST] = []
    positive = True
    child: ast.AST = node
    for parent in file.source.ancestors(node):
        if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not):
            positive = not positive
        elif isinstance(parent, ast.Compare):
            positive = positive is not _negative(parent)
        elif isinstance(parent, ast.BoolOp):
            if isinstance(parent.op, ast.And) is not positive:
                return beside, []
            beside += parent.values[parent.values.index(child) + 1 :]  # type: ignore[arg-type]
        elif isinstance(parent, (ast.If, ast.IfExp)):
            return beside, _below(file, parent, positive) if child is parent.test else []
        elif isinstance(parent, ast.stmt):
            return beside, []
        child = parent
    return beside, []


def _below(file: File, branch: ast.If | ast.IfExp, positive: bool) -> list[ast.AST]:
    if isinstance(branch, ast.IfExp):
        return [branch.body if positive else branch.orelse]
    if positive:
        return list(branch.body)
    if branch.orelse or not isinstance(branch.body[-1], _ENDS):
        return list(branch.orelse)
    return list(_after(file, branch))


def _after(file: File, statement: ast.stmt) -> Sequence[ast.AST]:
    parent = file.source.parents.get(statement)
    for name in ("body", "orelse", "finalbody"):
        statements = getattr(parent, name, None)
        if isinstance(statements, list) and statement in statements:
            return statements[statements.index(statement) + 1 :]
    return ()
