"""Finds libraries that a file imports and extensions of the project that it calls, with what takes their place."""

from __future__ import annotations

import ast
import re

from hermes.knowledge import migration
from hermes.knowledge.migration import Library
from hermes.migrate.model import Effect, Effort, Sure
from hermes.migrate.python.file import Change, File

_EFFECTS = {"works": Effect.NOTE, "port": Effect.STOPS, "change": Effect.STOPS, "none": Effect.STOPS}
_EFFORTS = {"works": Effort.NONE, "port": Effort.MINUTES, "change": Effort.HOURS, "none": Effort.DAYS}
_LATE = {Effort.DAYS: Effort.HOURS, Effort.HOURS: Effort.HOURS, Effort.MINUTES: Effort.MINUTES}
_GUARDED = {one: Effort.NONE if one is Effort.NONE else Effort.MINUTES for one in Effort}
_VARIABLE = re.compile(r"(CUDA|NCCL|TORCH_NCCL|TORCH_CUDA|TORCH_CUDNN|PYTORCH_CUDA|CUBLAS|NVIDIA)_[A-Z0-9_]+$")


def find(file: File) -> None:
    """Each import of a library that the tables know, each call of an extension, each variable of CUDA."""
    imports: list[ast.Import | ast.ImportFrom] = [*file.source.nodes(ast.Import), *file.source.nodes(ast.ImportFrom)]
    for node in imports:
        for library in _libraries(file, node):
            add_library(file, node, library)
    for attribute in file.source.nodes(ast.Attribute):
        _extension(file, attribute)
    for constant in file.source.nodes(ast.Constant):
        if isinstance(constant.value, str) and (
            _VARIABLE.match(constant.value) or constant.value in migration.settings()
        ):
            _variable(file, constant, constant.value)


def _libraries(file: File, node: ast.Import | ast.ImportFrom) -> list[Library]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif node.level:
        return []
    else:
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    known = migration.libraries()
    found: dict[str, Library] = {}
    for name in names:
        parts = name.split(".")
        for count in range(min(2, len(parts)), 0, -1):
            library = known.get(".".join(parts[:count]))
            if library is not None and not file.project.holds(parts[0], file.source.relative):
                found[library.module] = library
                break
    return list(found.values())


def add_library(file: File, node: ast.Import | ast.ImportFrom, library: Library) -> None:
    """Note one library at the statement that imports it."""
    guarded = _guarded(file, node)
    late = not guarded and file.source.scope(node) is not file.source.top
    effect, effort = _EFFECTS[library.status], _EFFORTS[library.status]
    why = f"on Ascend: {library.counterpart}" if library.counterpart else "it has no counterpart on Ascend"
    if late and effect is Effect.STOPS:
        effect, effort, why = Effect.DIFFERS, _LATE[effort], f"{why}; it is imported only where this function runs"
    file.add(
        "library", node, f"library {library.module}", why=why, todo=library.todo,
        effect=Effect.NOTE if guarded else effect, effort=_GUARDED[effort] if guarded else effort,
        shim=() if library.status == "works" else None, native=() if library.status == "works" else None,
    )  # fmt: skip


def _guarded(file: File, node: ast.AST) -> bool:
    """Whether an import that fails is caught."""
    for parent in file.source.ancestors(node):
        if isinstance(parent, ast.Try) and node in ast.walk(ast.Module(body=parent.body, type_ignores=[])):
            caught = " ".join(ast.unparse(handler.type) if handler.type else "" for handler in parent.handlers)
            return any(name in caught for name in ("ImportError", "ModuleNotFoundError", "Exception")) or not caught
    return False


def _extension(file: File, node: ast.Attribute) -> None:
    full = file.names.full(node)
    if full is None or full.split(".")[0] not in file.project.extensions:
        return
    parent = file.source.parents.get(node)
    if isinstance(parent, ast.Attribute) or full.count(".") != 1:
        return
    file.add("extension-operator", node, f"`{full}` of a CUDA extension of this project")


def _variable(file: File, node: ast.Constant, name: str) -> None:
    setting = migration.settings().get(name)
    if not _is_environment(file, node):
        return
    if setting is None:
        file.add("environment", node, f"variable {name}", sure=Sure.LIKELY, effect=Effect.NOTE, effort=Effort.NONE,
                 why="no part of Ascend reads it", todo="nothing has to be done if only CUDA reads it")  # fmt: skip
        return
    changes = _both(file, node, setting.counterpart) if setting.same_value else None
    if changes == ():
        return
    file.add(
        "environment", node, f"variable {name}", native=changes, shim=changes, todo=setting.todo,
        why=f"its counterpart on Ascend is {setting.counterpart}" if setting.counterpart else "Ascend does not read it",
        effect=Effect.DIFFERS if setting.counterpart else Effect.NOTE,
        effort=Effort.MINUTES if setting.counterpart else Effort.NONE,
    )  # fmt: skip


def _is_environment(file: File, node: ast.Constant) -> bool:
    parent = file.source.parents.get(node)
    if isinstance(parent, ast.Subscript):
        return _is_environ(file, parent.value)
    if isinstance(parent, ast.Call):
        func = parent.func
        if file.names.full(func) == "os.getenv":
            return True
        return isinstance(func, ast.Attribute) and _is_environ(file, func.value)
    if isinstance(parent, ast.Compare):
        return any(_is_environ(file, one) for one in parent.comparators)
    return isinstance(parent, ast.Dict) and node in parent.keys


def _is_environ(file: File, node: ast.expr) -> bool:
    return file.names.full(node) == "os.environ" or (isinstance(node, ast.Name) and node.id in ("env", "environ"))


def _both(file: File, node: ast.Constant, counterpart: str) -> tuple[Change, ...] | None:
    """`environ[A] = value` becomes `environ[A] = environ[B] = value`; `()` where the file sets B already."""
    parent = file.source.parents.get(node)
    statement = file.source.parents.get(parent) if parent else None
    quote = file.text(node)[0]
    if isinstance(parent, ast.Subscript) and isinstance(statement, ast.Assign) and parent in statement.targets:
        others = [one for one in statement.targets if one is not parent]
        if any(counterpart in file.text(one) for one in others):
            return ()
        if len(statement.targets) == 1 and f"{quote}{counterpart}{quote}" not in file.source.text:
            end = file.source.span(parent)[1]
            text = f" = {file.text(parent.value)}[{quote}{counterpart}{quote}]"
            return (Change(start=end, end=end, text=text),)
        return () if counterpart in file.source.text else None
    return () if counterpart in file.source.text else _read(file, node, parent, counterpart)


def _read(file: File, node: ast.Constant, parent: ast.AST | None, counterpart: str) -> tuple[Change, ...] | None:
    """`environ.get(A, …)` becomes `environ.get(B, environ.get(A, …))`, and `getenv` likewise."""
    if not isinstance(parent, ast.Call) or parent.args[0] is not node or parent.keywords:
        return None
    name = parent.func.attr if isinstance(parent.func, ast.Attribute) else ""
    if name not in ("get", "getenv"):
        return None
    span = file.source.exact(parent)
    if span is None:
        return None
    quote = file.text(node)[0]
    before = f"{file.text(parent.func)}({quote}{counterpart}{quote}, "
    return Change(start=span[0], end=span[0], text=before), Change(start=span[1], end=span[1], text=")")
