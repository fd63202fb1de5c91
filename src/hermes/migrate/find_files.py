"""Finds the files of a tree that matter for a migration, and reads them whatever their encoding."""

from __future__ import annotations

import codecs
import contextlib
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hermes.base.errors import Diagnostic, InputError
from hermes.base.limits import FILES, SOURCE_BYTES
from hermes.base.message import Message
from hermes.migrate import messages as say
from hermes.store.input_files import views

_NEVER = {
    ".git", ".hg", ".svn", "__pycache__", ".venv", "venv", "node_modules", ".mypy_cache", ".pytest_cache", ".tox",
    ".ruff_cache", ".ipynb_checkpoints", ".eggs", "site-packages",
}  # fmt: skip
_KINDS = {
    ".py": "python", ".pyi": "python", ".ipynb": "notebook",
    ".sh": "shell", ".bash": "shell", ".slurm": "shell", ".sbatch": "shell",
    ".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".json": "json",
    ".cu": "cuda", ".cuh": "cuda", ".cpp": "cpp", ".cc": "cpp", ".cxx": "cpp", ".h": "cpp", ".hpp": "cpp", ".c": "cpp",
}  # fmt: skip
_NAMES = (
    (re.compile(r"(?i)(.*\.)?dockerfile(\..*)?$|containerfile$"), "docker"),
    (re.compile(r"(?i).*requirements.*\.(txt|in)$|constraints.*\.txt$"), "requirements"),
    (re.compile(r"(?i)environment.*\.ya?ml$|conda.*\.ya?ml$"), "requirements"),
    (re.compile(r"(?i)(gnu)?makefile$|.*\.mk$"), "shell"),
    (re.compile(r"(?i)cmakelists\.txt$|.*\.cmake$"), "cpp"),
    (re.compile(r"(?i)\.env(\..*)?$"), "shell"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file of the tree. `relative` is its path below the root, with slashes; `kind` says how the file is read."""

    path: Path
    relative: str
    kind: str


def unread(path: str, why: Message, hint: Message | str = "") -> Diagnostic:
    """The note about a file that was not read, or not understood, and is missing in the answer."""
    return Diagnostic(level="degraded", message=why, where=path, lost=say.NOT_CHECKED, hint=hint)


def _refused(path: str, refused: OSError) -> Diagnostic:
    return unread(path, say.unreadable(reason=refused.strerror or str(refused)))


def kind_of(path: Path) -> str | None:
    """How a file with this name is read; None if the name does not tell."""
    for pattern, kind in _NAMES:
        if pattern.match(path.name):
            return kind
    kind_by_suffix = _KINDS.get(path.suffix.lower())
    return kind_by_suffix or (_by_first_line(path) if not path.suffix else None)


def _by_first_line(path: Path) -> str | None:
    try:
        with path.open("rb") as stream:
            first = stream.readline(200)
    except OSError:
        return None
    if not first.startswith(b"#!"):
        return None
    if b"python" in first:
        return "python"
    return "shell" if re.search(rb"\b(ba|z|da|k)?sh\b", first) else None


def find(root: Path) -> tuple[list[FoundFile], list[Diagnostic]]:
    """All files of the tree that scan reads, in order of their paths, and notes about skipped files.

    Links to folders are followed once: a folder that was seen already, as in a loop of links, is skipped.
    """
    if not root.exists():
        raise InputError(say.NO_TREE, where=str(root), hint=say.GIVE_TREE)
    if root.is_file():
        return [FoundFile(path=root, relative=root.name, kind=kind_of(root) or "python")], []
    found: list[FoundFile] = []
    skipped: list[Diagnostic] = []
    seen: set[tuple[int, int]] = set()
    for folder, relative in _folders(root, seen, skipped):
        for path in sorted(folder.iterdir()):
            below = f"{relative}{path.name}"
            try:
                kind = _kind_here(path)
            except OSError as refused:
                skipped.append(_refused(below, refused))
                continue
            if kind == _NOWHERE:
                skipped.append(unread(below, say.DEAD_LINK))
            elif kind is not None:
                found.append(FoundFile(path=path, relative=below, kind=kind))
    if not found and not skipped:
        raise InputError(say.NOTHING_TO_SCAN, where=str(root), hint=say.GIVE_TREE)
    return sorted(found, key=lambda one: one.relative), skipped


_NOWHERE = "nowhere"


def _kind_here(path: Path) -> str | None:
    """The kind of a file, or `_NOWHERE`; None for a folder and for a file that scan does not read. Raises `OSError`."""
    if path.is_dir():
        return None
    if path.is_symlink() and not path.exists():
        return _NOWHERE
    return kind_of(path) if path.is_file() else None


def _folders(root: Path, seen: set[tuple[int, int]], skipped: list[Diagnostic]) -> Iterator[tuple[Path, str]]:
    waiting = [(root, "")]
    entries, own_state = 0, views()
    while waiting:
        folder, relative = waiting.pop()
        try:
            state = folder.stat()
            if state.st_dev in own_state:
                skipped.append(unread(relative or ".", say.OWN_STATE))
                continue
            names = sorted((path.name for path in folder.iterdir()), reverse=True)
        except OSError as refused:
            skipped.append(_refused(relative or ".", refused))
            continue
        identity = (state.st_dev, state.st_ino)
        if identity in seen:
            skipped.append(Diagnostic(level="info", message=say.SEEN_FOLDER, where=relative))
            continue
        seen.add(identity)
        entries += len(names)
        if entries > FILES.now():
            raise FILES.exceeded("the tree holds too much", where=str(root))
        yield folder, relative
        for name in names:
            with contextlib.suppress(OSError):
                if name not in _NEVER and (folder / name).is_dir():
                    waiting.append((folder / name, f"{relative}{name}/"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """The text of a file, with its newlines unchanged, and how it is written back."""

    text: str
    encoding: str


def read(found: FoundFile) -> Text | Diagnostic:
    """The text of a file, or the note why it was not read."""
    try:
        size = found.path.stat().st_size
        if size > SOURCE_BYTES.now():
            why = say.too_large(size=size, limit=SOURCE_BYTES.now())
            return unread(found.relative, why, say.split_it(variable=SOURCE_BYTES.variable))
        data = found.path.read_bytes()
    except OSError as refused:
        return _refused(found.relative, refused)
    return decode(data, found.relative, python=found.kind == "python")


def decode(data: bytes, relative: str, *, python: bool) -> Text | Diagnostic:
    """Bytes as text: by byte-order mark, by Python's declaration, as UTF-8, and last as Latin-1, without loss."""
    if b"\0" in data[:4096] and not data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return unread(relative, say.NO_TEXT)
    encodings = ["utf-16"] if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else ["utf-8"]
    if data.startswith(codecs.BOM_UTF8):
        encodings = ["utf-8-sig"]
    elif python:
        with contextlib.suppress(SyntaxError, LookupError):
            encodings.insert(0, tokenize.detect_encoding(io.BytesIO(data).readline)[0])
    for encoding in (*encodings, "latin-1"):
        try:
            text = data.decode(encoding)
        except (UnicodeDecodeError, LookupError):
            continue
        if text.encode(encoding) == data:
            return Text(text=text, encoding=encoding)
    return unread(relative, say.NO_ENCODING)
