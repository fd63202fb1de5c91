"""Scans and converts a whole source tree: files are read in parallel, and results are ordered by path."""

from __future__ import annotations

import ast
import contextlib
import gc
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from hermes.base.errors import Diagnostic, InputError
from hermes.base.message import Message
from hermes.base.usable_cores import processes
from hermes.knowledge import migration
from hermes.migrate import find_files, text
from hermes.migrate import messages as say
from hermes.migrate.find_files import Text
from hermes.migrate.python import (
    convert,
    cuda_only_branches,
    find_cuda_calls,
    find_devices,
    find_libraries,
    find_slow_calls,
    find_unsupported_calls,
    find_variables,
    inserted_header,
)  # fmt: skip
from hermes.migrate.python.project_definitions import Project
from hermes.migrate.python.scanned_file import File, FoundPlace, apply, edits_of
from hermes.migrate.python.syntax_tree import NotPythonError, Source
from hermes.migrate.scan_model import (
    SURE_ORDER,
    Edit,
    FileChange,
    FileScan,
    SourcePlace,
    Style,
    Sure,
    Target,
    TreeChange,
    TreeScan,
)

_FEW_FILES = 60
_IMPORT = re.compile(r"(?m)^\s*(?:from|import)\s+([\w.]+)")
Result = TypeVar("Result")


class Worker:
    """Reads the files of one tree; each process has one worker."""

    def __init__(self, root: Path, files: Sequence[find_files.FoundFile], target: Target, extensions: frozenset[str],
                 imported: frozenset[str], style: Style, least: Sure) -> None:  # fmt: skip
        python = frozenset(one.relative for one in files if one.kind == "python")
        folder = root if root.is_dir() else root.parent
        self.project = Project(folder, python, extensions)
        self.target, self.imported, self.style = target, imported, style
        self.least = SURE_ORDER[SURE_ORDER.index(least) :]

    def scan(self, found: find_files.FoundFile) -> FileScan:
        """The scan of one file."""
        read = find_files.read(found)
        if isinstance(read, Diagnostic):
            return FileScan(path=found.relative, kind=found.kind, lines=0, skipped=read)
        if found.kind == "notebook":
            return _notebook(read.text, found, self.project, self.target)
        if found.kind != "python":
            places = _ordered(text.scan(read.text, found.kind, found.relative))
            return FileScan(path=found.relative, kind=found.kind, lines=read.text.count("\n"), places=places)
        file = self._file(read, found)
        if isinstance(file, Diagnostic):
            return FileScan(path=found.relative, kind=found.kind, lines=read.text.count("\n"), skipped=file)
        return FileScan(path=found.relative, kind=found.kind, lines=file.source.lines, places=_ordered(file.found),
                        apis=file.apis, unknown=find_libraries.unknown(file))  # fmt: skip

    def convert(self, found: find_files.FoundFile) -> FileChange:
        """One file as it is after conversion."""
        read = find_files.read(found)
        if isinstance(read, Diagnostic):
            return FileChange(path=found.relative, before="", after="", skipped=read)
        before = read.text
        if found.kind == "notebook":
            scanned = _notebook(before, found, self.project, self.target)
            return FileChange(path=found.relative, before=before, after=before, left=scanned.places,
                              relevant=bool(scanned.places or scanned.apis), skipped=scanned.skipped,
                              encoding=read.encoding)  # fmt: skip
        if found.kind != "python":
            places = text.scan(before, found.kind, found.relative)
            edits, _, left = edits_of(places, self.style, self.least)
            return FileChange(path=found.relative, before=before, after=apply(before, edits), edits=edits,
                              left=left, relevant=bool(places), encoding=read.encoding)  # fmt: skip
        file = self._file(read, found)
        if isinstance(file, Diagnostic):
            return FileChange(path=found.relative, before=before, after=before, skipped=file, encoding=read.encoding)
        return self._python(file, read)

    def _python(self, file: File, read: Text) -> FileChange:
        path = file.source.relative
        entry = self.style is Style.SHIM and is_entry(file, self.imported)
        after, edits, left = convert.convert(file, self.style, self.least, entry)
        if _unencodable(after, read.encoding):
            after, edits = read.text, []
            left = [one.place for one in file.found]
        return FileChange(path=path, before=read.text, after=after, edits=_in_order(edits), left=_unique(left),
                          relevant=bool(file.found or file.apis), encoding=read.encoding)  # fmt: skip

    def _file(self, read: Text, found: find_files.FoundFile) -> File | Diagnostic:
        try:
            file = File(Source(read.text, found.relative), self.project, self.target)
        except NotPythonError as wrong:
            return find_files.unread(found.relative, *_no_python(wrong))
        examine(file)
        return file


def _no_python(wrong: NotPythonError) -> tuple[Message, Message | str]:
    """The reason why a file cannot be parsed, and what to do."""
    if wrong.python_2:
        return say.python_2(reason=wrong.reason, line=wrong.line), say.TO_PYTHON_3
    return say.no_python(reason=wrong.reason, line=wrong.line), ""


def examine(file: File) -> None:
    """Find all places in a Python file."""
    find_cuda_calls.find(file)
    find_devices.find(file)
    find_unsupported_calls.find(file)
    find_libraries.find(file)
    find_variables.find(file)
    find_slow_calls.find(file)
    inserted_header.reachable(file)
    cuda_only_branches.drop_changes_in_branches(file)
    find_cuda_calls.find_imports(file)


def scan_tree(root: Path, target: Target, workers: int | None = None) -> TreeScan:
    """Scan a source tree for all that keeps it from running on a chip."""
    _check(target)
    files, skipped = find_files.find(root)
    results = _each(root, files, target, Style.NATIVE, Sure.LIKELY, _scan_one, workers)
    skipped += [one.skipped for one in results if one.skipped is not None]
    _is_program(root, skipped, any(one.places or one.apis for one in results))
    return TreeScan(root=str(root), target=target, files=results, skipped=skipped)


def convert_tree(
    root: Path, target: Target, style: Style, least: Sure = Sure.LIKELY, workers: int | None = None
) -> TreeChange:
    """Convert a source tree in memory; nothing is written."""
    _check(target)
    files, skipped = find_files.find(root)
    results = _each(root, files, target, style, least, _convert_one, workers)
    skipped += [one.skipped for one in results if one.skipped is not None]
    _is_program(root, skipped, any(one.relevant for one in results if one.skipped is None))
    return TreeChange(root=str(root), target=target, style=style, files=results, skipped=skipped)


def _is_program(root: Path, skipped: Sequence[Diagnostic], relevant: bool) -> None:
    """Refuse a tree without any torch or CUDA: "nothing to do" would be an answer about a program."""
    if not relevant and not any(one.level == "degraded" for one in skipped):
        raise InputError(say.NOTHING_OF_TORCH, where=str(root), hint=say.GIVE_TREE)


def _check(target: Target) -> None:
    if target.torch not in migration.VERSIONS:
        raise InputError(say.no_table(name=f"torch {target.torch}"), hint=say.tables(names=migration.VERSIONS))
    if target.chip not in migration.CHIPS:
        raise InputError(say.no_table(name=target.chip), hint=say.tables(names=migration.CHIPS))


_worker: Worker | None = None


def _start(*arguments: object) -> None:
    global _worker
    _worker = Worker(*arguments)  # type: ignore[arg-type]


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Turn off Python's garbage collector: scanning a live syntax tree for garbage would make long files slow."""
    wanted = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if wanted:
            gc.enable()


def _scan_one(found: find_files.FoundFile) -> FileScan:
    assert _worker is not None
    with _uncollected():
        return _worker.scan(found)


def _convert_one(found: find_files.FoundFile) -> FileChange:
    assert _worker is not None
    with _uncollected():
        return _worker.convert(found)


def _each(root: Path, files: list[find_files.FoundFile], target: Target, style: Style, least: Sure,
          work: Callable[[find_files.FoundFile], Result], workers: int | None) -> list[Result]:  # fmt: skip
    extensions, imported = _outline(root if root.is_dir() else root.parent, files)
    arguments = (root, tuple(files), target, extensions, imported, style, least)
    count = workers or min(len(os.sched_getaffinity(0)), 8)
    if len(files) < _FEW_FILES or count == 1:
        _start(*arguments)
        return [work(found) for found in files]
    with processes(count, start=_start, arguments=arguments) as pool:
        return list(pool.map(work, files, chunksize=max(1, len(files) // (count * 8))))


def _outline(root: Path, files: Sequence[find_files.FoundFile]) -> tuple[frozenset[str], frozenset[str]]:
    """The compiled modules that the tree defines, and the files of the tree that other files import."""
    project = Project(root, frozenset(one.relative for one in files if one.kind == "python"))
    extensions: set[str] = set()
    imported: set[str] = set()
    for found in files:
        wanted = found.kind in ("cpp", "cuda", "python")
        read = find_files.read(found) if wanted else None
        if read is None or isinstance(read, Diagnostic):
            continue
        if found.kind != "python" or "CUDAExtension" in read.text:
            extensions |= text.extensions(read.text, found.kind)
        if found.kind == "python":
            named = {project.module_file(dotted, found.relative) for dotted in set(_IMPORT.findall(read.text))}
            imported |= {file for file in named if file is not None}
    return frozenset(extensions), frozenset(imported)


def is_entry(file: File, imported: frozenset[str]) -> bool:
    """Whether users start a file: it guards its main part, or it runs code and no other file imports it."""
    if not _reaches_cuda(file):
        return False
    if any(isinstance(node, ast.If) and "__name__" in ast.dump(node.test) for node in file.source.tree.body):
        return True
    used = file.source.relative in imported
    return not used and any(_runs(node) for node in file.source.tree.body)


def _runs(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call)
    return isinstance(node, (ast.For, ast.While, ast.With))


def _reaches_cuda(file: File) -> bool:
    """Whether a file imports torch and names CUDA, itself or through files of the project."""
    waiting = [file.source.relative]
    seen: set[str] = set()
    torch = cuda = False
    while waiting and not (torch and cuda):
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        outline = file.project.outline(path)
        names = list(outline.imports.values()) if outline else []
        torch = torch or any(dotted.split(".")[0].startswith("torch") for dotted in names)
        cuda = cuda or (outline is not None and outline.names_cuda)
        for dotted in names:
            others = {file.project.module_file(name, path) for name in (dotted, dotted.rpartition(".")[0]) if name}
            waiting += [other for other in others if other is not None]
    return torch and cuda


def _notebook(content: str, found: find_files.FoundFile, project: Project, target: Target) -> FileScan:
    """Scan a notebook's cells as one program; lines count within their cell. Notebooks are not converted."""
    lines: list[str] = []
    origin: list[tuple[int, int]] = []
    try:
        cells = json.loads(content)["cells"]
        for number, cell in enumerate(cells, start=1):
            source = cell["source"] if cell["cell_type"] == "code" else ""
            for index, line in enumerate(python_of_cell("".join(source)), start=1):
                lines.append(line)
                origin.append((number, index))
        file = File(Source("\n".join(lines) + "\n", found.relative), project, target)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, NotPythonError) as wrong:
        skipped = find_files.unread(found.relative, say.no_notebook(reason=str(wrong) or type(wrong).__name__))
        return FileScan(path=found.relative, kind="notebook", lines=0, skipped=skipped)
    examine(file)
    places = [_in_cell(place, origin) for place in _ordered(file.found)]
    return FileScan(path=found.relative, kind="notebook", lines=len(lines), places=places, apis=file.apis,
                    unknown=find_libraries.unknown(file))  # fmt: skip


_MAGIC = re.compile(r"(\s*)(?:[%!?].*|[\w.*]+\?{1,2}\s*)$")
_ASSIGNED_MAGIC = re.compile(r"(\s*[\w.,\[\] ]+=\s*)[!%](?!=).*$")


def python_of_cell(source: str) -> list[str]:
    """The lines of a cell without commands of the shell and of IPython; the number of lines stays."""
    lines = source.splitlines()
    if source.startswith("%%") and not source.startswith(("%%time", "%%capture", "%%prun")):
        return ["pass"] * len(lines)  # the cell is in another language
    written: list[str] = []
    indent: str | None = None  # indent of a command that continues in the next line
    for line in lines:
        magic, assigned = _MAGIC.match(line), _ASSIGNED_MAGIC.match(line)
        if indent is None and magic:
            indent = magic[1]
        if indent is None:
            written.append(f"{assigned[1]}None" if assigned else line)
            continue
        written.append(f"{indent}pass")
        indent = indent if line.endswith("\\") else None
    return written


def _in_cell(place: SourcePlace, origin: Sequence[tuple[int, int]]) -> SourcePlace:
    cell, line = origin[place.line - 1]
    last = origin[min(place.end_line, len(origin)) - 1][1]
    what = say.in_cell(cell=cell, what=place.what)
    return replace(place, line=line, end_line=max(line, last), what=what, converts=False)


def _ordered(found: Sequence[FoundPlace]) -> list[SourcePlace]:
    return _unique([one.place for one in found])


def _unique(places: Sequence[SourcePlace]) -> list[SourcePlace]:
    by_key = {(one.line, one.column, one.rule, one.what): one for one in places}
    return sorted(by_key.values(), key=lambda one: (one.line, one.column, one.rule))


def _in_order(edits: Sequence[Edit]) -> list[Edit]:
    return sorted(edits, key=lambda edit: (edit.start, edit.end))


def _unencodable(after: str, encoding: str) -> bool:
    try:
        after.encode(encoding)
    except UnicodeEncodeError:
        return True
    return False
