"""Finds imported libraries and calls of the project's extensions, with their replacements."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import replace

from hermes.knowledge import migration
from hermes.knowledge.migration import Library
from hermes.migrate import messages as say
from hermes.migrate.python.scanned_file import File
from hermes.migrate.scan_model import Effort
from hermes.model.leaf import Risk

_EFFECTS = {"works": Risk.NOTE, "port": Risk.STOPS, "change": Risk.STOPS, "none": Risk.STOPS}
_EFFORTS = {"works": Effort.NONE, "port": Effort.MINUTES, "change": Effort.HOURS, "none": Effort.DAYS}
_LATE = {Effort.DAYS: Effort.HOURS, Effort.HOURS: Effort.HOURS, Effort.MINUTES: Effort.MINUTES}
_WITHOUT_DEVICE = {
    "torch",
    "torch_npu",
    "numpy",
    "scipy",
    "pandas",
    "yaml",
    "tqdm",
    "matplotlib",
    "pytest",
    "setuptools",
}
_LOADERS = ("ctypes.CDLL", "ctypes.PyDLL", "ctypes.cdll.LoadLibrary")
_OF_CUDA = re.compile(
    r"(?:.*/)?lib(?:cuda|cudart|cudnn\w*|cublas\w*|cufft\w*|curand|cusparse\w*|cusolver\w*|nccl|nvrtc|nvToolsExt"
    r"|nvidia-ml|cupti)\.so[.\d]*"
)
"""Shared libraries that come with CUDA or its driver."""
_GUARDED = {one: Effort.NONE if one is Effort.NONE else Effort.MINUTES for one in Effort}


def find(file: File) -> None:
    """Find each import of a library that the tables know, and each call of an extension."""
    imports: list[ast.Import | ast.ImportFrom] = [*file.source.nodes(ast.Import), *file.source.nodes(ast.ImportFrom)]
    for node in imports:
        for library in _libraries(file, node):
            add_library(file, node, library)
    for call in file.source.nodes(ast.Call):
        called = _called(file, call)
        if called is not None:
            add_library(file, call, called)
    for attribute in file.source.nodes(ast.Attribute):
        _extension(file, attribute)


def _libraries(file: File, node: ast.Import | ast.ImportFrom) -> list[Library]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif node.level:
        return []
    else:
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    found = [library for name in names if (library := _known(file, name)) is not None]
    return list({library.module: library for library in found}.values())


def _known(file: File, name: str) -> Library | None:
    """The library of the tables that a dotted name belongs to, if the name is not the project's own."""
    parts = name.split(".")
    for count in range(min(2, len(parts)), 0, -1):
        library = migration.libraries().get(".".join(parts[:count]))
        if library is not None and not file.project.holds(parts[0], file.source.relative):
            return library
    return None


def _called(file: File, call: ast.Call) -> Library | None:
    """The library that a call loads by name: a module by `import_module`, or a library of CUDA's by ctypes."""
    first = call.args[0] if call.args else None
    if not (isinstance(first, ast.Constant) and isinstance(first.value, str)):
        return None
    full = file.names.full(call.func)
    if full in _LOADERS and _OF_CUDA.fullmatch(first.value):
        return replace(migration.libraries()["cuda"], module=first.value)
    builtin = isinstance(call.func, ast.Name) and call.func.id == "__import__"
    return _known(file, first.value) if builtin or full == "importlib.import_module" else None


def unknown(file: File) -> frozenset[str]:
    """Imported libraries that no table knows, which may need CUDA."""
    names = {alias.name for node in file.source.nodes(ast.Import) for alias in node.names}
    names |= {node.module for node in file.source.nodes(ast.ImportFrom) if node.module and not node.level}
    tops = {name.split(".")[0] for name in names} - sys.stdlib_module_names - _WITHOUT_DEVICE
    known = {name.split(".")[0] for name in migration.libraries()}
    return frozenset(top for top in tops - known if not file.project.may_hold(top, file.source.relative))


def add_library(file: File, node: ast.Import | ast.ImportFrom | ast.Call, library: Library) -> None:
    """Note a library at the statement that imports it."""
    guarded = _guarded(file, node)
    late = not guarded and file.source.scope(node) is not file.source.top
    effect, effort = _EFFECTS[library.status], _EFFORTS[library.status]
    why = say.on_ascend(name=library.counterpart) if library.counterpart else say.NO_LIBRARY
    if late and effect is Risk.STOPS:
        effect, effort, why = Risk.DIFFERS, _LATE[effort], say.imported_late(why=why)
    file.add(
        "library", node, say.library(name=library.module), why=why, todo=library.todo.message,
        effect=Risk.NOTE if guarded else effect, effort=_GUARDED[effort] if guarded else effort,
        shim=() if library.status == "works" else None, native=() if library.status == "works" else None,
    )  # fmt: skip


def _guarded(file: File, node: ast.AST) -> bool:
    """Whether the program catches a failing import."""
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
    file.add("extension-operator", node, say.extension_call(name=full))
