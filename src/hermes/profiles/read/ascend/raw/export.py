"""Exports a copy of a raw capture with the vendor's tools, in separate processes at the lowest priority.

Nothing is written beside the user's files. The tools write into their input, so they get a copy, and only their output
is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hermes.base.errors import Diagnostic
from hermes.base.isolated_python import for_tools
from hermes.base.processes import descendants
from hermes.profiles.read import messages
from hermes.profiles.read.ascend.capture_folders import RECORDS, Capture, captures
from hermes.profiles.read.ascend.raw.export_tools import Tool, tool_for, what_to_run
from hermes.store.input_files import walk
from hermes.store.private_folders import private_folder
from hermes.store.unfinished_folders import making

FOLDER = "exported"
_PATIENCE_S = 1800
_TOLD = 400
_LOG = "export.log"
_LEAST_FREE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """The result of an export: the folder of the exported capture (None if there is none), and a note."""

    root: Path | None
    note: Diagnostic | None


def export(
    capture: Capture, cache: Path, environment: Mapping[str, str], tell: Callable[[str], None] = lambda _: None
) -> Exported:
    """Export the capture, unless it has been; `tell` is called before a long export.

    Never raises for a tool's failure.
    """
    key = _key(capture)
    done = cache / FOLDER / key / capture.root.name
    made = _manifest(done.parent)
    if made is not None:
        return Exported(root=done, note=_said(capture, done, made))
    if environment.get("HERMES_EXPORT") == "no":
        return Exported(root=None, note=None)
    try:
        with making(cache) as aside:
            return _exported(capture, aside, done, environment, tell)
    except OSError as refused:
        tool = tool_for(capture, cache / capture.root.name, environment)
        why = refused.strerror or str(refused)
        return Exported(root=None, note=_failed(capture, tool, why) if tool else None)


def _exported(
    capture: Capture, aside: Path, done: Path, environment: Mapping[str, str], tell: Callable[[str], None]
) -> Exported:
    """Export a copy in the folder `aside`, and move it to where exports are kept. Raises `OSError`."""
    root = aside / capture.root.name
    tool = tool_for(capture, root, environment)
    if tool is None:
        return Exported(root=None, note=None)
    _copy(capture, root, aside)
    tell(f"{capture.root.name} is raw: {tool.name} exports it first")
    failed = _run(tool, root, aside / _LOG, environment)
    if not failed:
        failed = _without_raw(root, capture, tool)
    if failed:
        return Exported(root=None, note=_failed(capture, tool, failed))
    (aside / "export.json").write_text(json.dumps({"tool": tool.name}), "utf-8")
    private_folder(done.parent.parent)
    with contextlib.suppress(OSError):
        # Another process has exported the capture meanwhile.
        aside.rename(done.parent)
    return Exported(root=done, note=_said(capture, done, tool.name))


def _key(capture: Capture) -> str:
    """A key that tells this content from any other, by the sizes and times of its files."""
    parts = [str(capture.root)]
    for path in sorted((*capture.records, *capture.raw)):
        with contextlib.suppress(OSError):
            state = path.stat()
            parts.append(f"{path.relative_to(capture.root)} {state.st_size} {state.st_mtime_ns}")
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _manifest(folder: Path) -> str | None:
    """The name of the tool that made a complete export in a folder; None without one."""
    try:
        made = json.loads((folder / "export.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return str(made.get("tool")) if isinstance(made, dict) else None


def _copy(capture: Capture, root: Path, cache: Path) -> None:
    """Copy the capture's regular files to `root`: a tool may change its input. Raises `OSError`."""
    private_folder(cache)
    files = [path for path in capture.root.rglob("*") if path.is_file() and not path.is_symlink()]
    size = sum(path.stat().st_size for path in files)
    if shutil.disk_usage(cache).free < _LEAST_FREE * size:
        raise OSError(f"its copy and what is made of it need more than the free space of {cache}")
    for path in files:
        target = root / path.relative_to(capture.root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)


def _run(tool: Tool, root: Path, log: Path, environment: Mapping[str, str]) -> str:
    """Run the tool's calls; returns why they failed, or an empty text."""
    path = os.pathsep.join(filter(None, (tool.path, environment.get("PATH", ""))))
    given = {**for_tools(environment), "PATH": path, "HERMES_CAPTURE": "0"}
    # The capture may hold anything, also files that a Python tool would import: the tool starts in an empty folder.
    empty = root.parent / ".empty"
    empty.mkdir(exist_ok=True)
    patience = _seconds(environment.get("HERMES_EXPORT_SECONDS", ""))
    for call in tool.calls:
        with log.open("ab") as out:
            child = subprocess.Popen(
                [*_gently(), *call], cwd=empty, env=given, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
            try:
                code = child.wait(patience)
            except subprocess.TimeoutExpired:
                return f"it was ended after {patience} s (HERMES_EXPORT_SECONDS allows more)"
            finally:
                _end(child)
        if code:
            how = f"was killed by signal {-code}" if code < 0 else f"exit {code}"
            return f"{how}: {_last_words(log)}"
    return ""


def _gently() -> list[str]:
    """The command prefix that runs a command at the lowest priority for processor and disk."""
    found: list[str] = []
    if nice := shutil.which("nice"):  # 39: the lowest priority, whatever this process has
        found += [nice, "-n", "39"]
    if ionice := shutil.which("ionice"):
        found += [ionice, "-c", "3"]
    return found


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a process and all its children; otherwise a tool's pool outlives it."""
    if child.poll() is None:
        for pid in reversed([child.pid, *descendants(child.pid)]):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        child.wait()


def _without_raw(root: Path, capture: Capture, tool: Tool) -> str:
    """Remove the raw parts of the copy; returns why nothing else is left, or an empty text."""
    made = next((one for one in captures(walk([root])) if one.has_text or one.databases), None)
    if made is None or not _rows(made):
        return f"it ended without an output: {_last_words(root.parent / _LOG)}"
    if tool.name != "msprof":
        shutil.rmtree(root / RECORDS, ignore_errors=True)
    for path in capture.raw:
        with contextlib.suppress(OSError):
            (root / path.relative_to(capture.root)).unlink()
    return ""


def _rows(made: Capture) -> bool:
    """Whether the tool made more than empty files."""
    return any(path.stat().st_size > 2 for path in (*made.traces, *made.kernels, *made.databases))


def _last_words(log: Path) -> str:
    """The last line of a log that mentions an error, else its last line."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 65536))
            lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    except OSError:
        lines = []
    told = [line for line in lines if "error" in line.lower()]
    last = (told or lines or ["it said nothing"])[-1]
    return "".join(character if character.isprintable() else " " for character in last)[:_TOLD]


def _seconds(text: str) -> int:
    return int(text) if text.isdecimal() and 0 < int(text) < 10**6 else _PATIENCE_S


def _said(capture: Capture, done: Path, tool: str) -> Diagnostic:
    return Diagnostic(
        level="info", message=messages.exported(tool=tool, folder=str(done)),
        where=str(capture.root),
    )  # fmt: skip


def _failed(capture: Capture, tool: Tool, why: str) -> Diagnostic:
    return Diagnostic(
        level="degraded", message=messages.not_exported(tool=tool.name, why=why), where=str(capture.root),
        lost=messages.LOST_EXPORT, hint=what_to_run(capture),
    )  # fmt: skip
