"""Looks up classes and functions in other files of the project, and parses files on demand."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass, field
from pathlib import Path

_LARGEST_BYTES = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """The outline of a module: bases of its classes, parameters of its functions and methods, and its imports.

    `names_cuda` says whether the word occurs in the module.
    """

    classes: dict[str, list[str]] = field(default_factory=dict)
    functions: dict[str, list[str]] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)
    names_cuda: bool = False


class Project:
    """The Python modules of a source tree, by dotted name. A file is parsed on its first use.

    `extensions` are the names of compiled modules that sources of the tree define for CUDA.
    """

    def __init__(self, root: Path, files: frozenset[str], extensions: frozenset[str] = frozenset()) -> None:
        self.root = root
        self.files = files
        self.extensions = extensions
        self._outlines: dict[str, Outline | None] = {}
        self._with_python: frozenset[str] | None = None
        self.tops = {name.split("/")[0].removesuffix(".py") for name in files}

    def module_file(self, dotted: str, beside: str) -> str | None:
        """The file of a module that the file `beside` imports: in the same folder, or below the root."""
        tail = dotted.replace(".", "/")
        folder = beside.rpartition("/")[0]
        for base in dict.fromkeys((f"{folder}/" if folder else "", "")):
            for name in (f"{base}{tail}.py", f"{base}{tail}/__init__.py"):
                if name in self.files:
                    return name
        return None

    def holds(self, dotted: str, beside: str) -> bool:
        """Whether a dotted name belongs to this project and to no installed library."""
        parts = dotted.split(".")
        return any(self.module_file(".".join(parts[:count]), beside) for count in range(len(parts), 0, -1))

    def may_hold(self, top: str, beside: str) -> bool:
        """Whether a module or folder of this name lies next to a file or above it, where a program may be started.

        An installed package takes precedence over a folder without `__init__.py`: only for names that no table knows.
        """
        folders = beside.split("/")[:-1]
        bases = ["".join(f"{one}/" for one in folders[:count]) for count in range(len(folders), -1, -1)]
        return any(f"{base}{top}.py" in self.files or f"{base}{top}" in self._folders() for base in bases)

    def _folders(self) -> frozenset[str]:
        """Folders that hold Python files, at any depth."""
        if self._with_python is None:
            parents = (Path(name).parents for name in self.files if name.endswith(".py"))
            self._with_python = frozenset(one.as_posix() for each in parents for one in each)
        return self._with_python

    def outline(self, file: str) -> Outline | None:
        """The outline of a file; None if the file cannot be parsed."""
        if file not in self._outlines:
            self._outlines[file] = _outline(self.root / file)
        return self._outlines[file]

    def is_module_class(self, dotted: str, beside: str, depth: int = 6) -> bool:
        """Whether a class derives from torch.nn.Module, through classes of this project."""
        if dotted.startswith("torch.nn.") and dotted.rpartition(".")[2][:1].isupper():
            return True
        base, _, name = dotted.rpartition(".")
        file = self.module_file(base, beside) if base else beside
        outline = self.outline(file) if file and depth else None
        if outline is None or file is None:
            return False
        if name in outline.classes:
            return any(
                self.is_module_class(_spelled_out(one, outline), file, depth - 1) for one in outline.classes[name]
            )
        return name in outline.imports and self.is_module_class(outline.imports[name], file, depth - 1)

    def parameters(self, dotted: str, beside: str) -> list[str] | None:
        """The parameter names of a function or class of this project."""
        base, _, name = dotted.rpartition(".")
        file = self.module_file(base, beside) if base else None
        outline = self.outline(file) if file else None
        if outline is None:
            return None
        found = outline.functions.get(name)
        return found if found is not None else outline.functions.get(f"{name}.__init__")

    def defines(self, method: str, beside: str) -> bool:
        """Whether a class of a file, or of imported files of this project, has a method of this name."""
        own = self.outline(beside)
        near = {beside}
        for dotted in own.imports.values() if own else ():
            near |= {file for name in (dotted, dotted.rpartition(".")[0]) if (file := self.module_file(name, beside))}
        return any(
            key.endswith(f".{method}") for file in near if (outline := self.outline(file)) for key in outline.functions
        )


def _spelled_out(name: str, outline: Outline) -> str:
    first, dot, rest = name.partition(".")
    return f"{outline.imports[first]}{dot}{rest}" if first in outline.imports else name


def _outline(path: Path) -> Outline | None:
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = path.read_bytes()
            tree = ast.parse(data)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    outline = Outline(names_cuda=b"cuda" in data or b"nccl" in data)
    for node in tree.body:
        _note(node, outline)
    return outline


def _note(node: ast.stmt, outline: Outline) -> None:
    if isinstance(node, ast.ClassDef):
        outline.classes[node.name] = [ast.unparse(base) for base in node.bases]
        for method in node.body:
            if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
                outline.functions[f"{node.name}.{method.name}"] = _parameters(method)[1:]
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        outline.functions[node.name] = _parameters(node)
    elif isinstance(node, (ast.If, ast.Try)):
        for one in (*node.body, *node.orelse):
            _note(one, outline)
    else:
        _note_import(node, outline)


def _note_import(node: ast.stmt, outline: Outline) -> None:
    if isinstance(node, ast.Import):
        for alias in node.names:
            first = alias.name.split(".")[0]
            outline.imports[alias.asname or first] = alias.name if alias.asname else first
            outline.imports.setdefault(alias.name, alias.name)
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            outline.imports[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}".lstrip(".")


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    return [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
