"""Finds the collectives that a rank has entered and waits in, from torch's flight recorder: asked now, or from a dump.

A running process writes its recorder as JSON when it is asked (`hermes.inside.monitor.flight_recorder`). A process that
timed out has left a pickle where `TORCH_FR_DUMP_TEMP_FILE` says; the pickle is read as plain values, and never
unpickled.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes.inside.wire.rundir import Job
from hermes.jobs.find_stall import LIBRARIES
from hermes.jobs.plain_pickle import read_plain

_LARGEST = 16 << 20
_PATIENCE_S = 3.0
_MOST_ENTRIES, _MOST_GROUPS, _MOST_FRAMES = 20_000, 64, 256
_LONGEST = 120
_MOST = 1 << 62
_RANK = re.compile(r"\d{1,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCollective:
    """A collective that a rank has entered and not left: the `number`-th of its group, 0 for a send or receive.

    `line` is the job's line of code that called the collective, if known.
    """

    number: int
    name: str
    state: str
    sizes: str
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupProgress:
    """A rank's progress in one process group: the number of its last collective, and the first collective it waits in.

    `ranks` are the group's members, empty where the recorder does not list them.
    """

    name: str
    about: str
    ranks: tuple[int, ...]
    last: int
    waiting: PendingCollective | None


def groups(job: Job, about: Mapping[str, object], seen_ns: int, *, alive: bool) -> list[GroupProgress]:
    """A rank's groups from its recorder now, else from a dump younger than the rank's last step; else empty."""
    offered = about.get("collectives")
    found: object = None
    if alive and isinstance(offered, dict):
        found = _asked(job.folder, offered.get("pipe"), offered.get("file"))
    dumps = about.get("dumps")
    for path in dumps[:4] if found is None and isinstance(dumps, list) else ():
        found = found or _dumped(path, seen_ns)
    return groups_of(found)


def _asked(folder: Path, pipe: object, file: object) -> object:
    """The document that the process writes once its pipe is opened; None where it writes nothing."""
    if not isinstance(pipe, str) or not isinstance(file, str) or "/" in pipe or "/" in file:
        return None
    path = folder / file
    try:
        before = _stamp(path)
        os.close(os.open(folder / pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC))
        end = time.monotonic() + _PATIENCE_S
        while _stamp(path) == before and time.monotonic() < end:
            time.sleep(0.02)
        return None if _stamp(path) == before else json.loads(_bytes(path, 0))
    except (OSError, ValueError, RecursionError):
        return None


def _stamp(path: Path) -> tuple[int, int] | None:
    with contextlib.suppress(FileNotFoundError):
        facts = path.stat(follow_symlinks=False)
        return facts.st_ino, facts.st_mtime_ns
    return None


def _dumped(path: object, after_ns: int) -> object:
    if not isinstance(path, str) or not path.startswith("/"):
        return None
    try:
        data = _bytes(Path(path), after_ns)
        return json.loads(data) if data.startswith(b"{") else read_plain(data)
    except (OSError, ValueError, RecursionError):
        return None


def _bytes(path: Path, after_ns: int) -> bytes:
    """A file of this account, written after `after_ns`. Raises `OSError` for another file, and `ValueError` for a huge
    one."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid not in (os.geteuid(), 0) or facts.st_mtime_ns < after_ns:
            raise FileNotFoundError(path)
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise ValueError(path)
    return data


def groups_of(document: object) -> list[GroupProgress]:
    """The groups in a recorder's document, JSON or plain values; empty for anything else."""
    entries, status, config = (_part(document, key) for key in ("entries", "pg_status", "pg_config"))
    if not isinstance(entries, list):
        return []
    last: dict[tuple[str, str], int] = {}
    waits: dict[tuple[str, str], Mapping[str, Any]] = {}
    sends: dict[tuple[str, str], Mapping[str, Any]] = {}
    for entry in entries[-_MOST_ENTRIES:]:
        number = _whole(_part(entry, "collective_seq_id"))
        group = _part(entry, "process_group")
        if number is None or not isinstance(group, (list, tuple)) or len(group) != 2:
            continue
        key = _short(group[0]), _short(group[1])
        over = _part(entry, "retired") is True or _part(entry, "state") == "completed"
        if _part(entry, "is_p2p") is True:
            # A send or receive has the number of the collective before it.
            last.setdefault(key, 0)
            if not over:
                sends.setdefault(key, {**entry, "collective_seq_id": 0})
            continue
        enqueued = _whole(_part(_part(status, str(_part(entry, "pg_id"))), "last_enqueued_collective"))
        last[key] = max(last.get(key, 0), number, enqueued or 0)
        if not over and (key not in waits or number < (_whole(waits[key].get("collective_seq_id")) or 0)):
            waits[key] = entry
    waits = sends | waits
    configs = config if isinstance(config, dict) else {}
    # Gloo names its only group with an empty text in the entries, and "0" in the configuration.
    only = next(iter(configs.values())) if len(configs) == 1 == len(last) else None
    return [
        GroupProgress(name=name, about=about, last=last[name, about], ranks=tuple(_members(configs.get(name, only))),
              waiting=_waiting(waits[name, about]) if (name, about) in waits else None)
        for name, about in list(last)[:_MOST_GROUPS]
    ]  # fmt: skip


def _waiting(entry: Mapping[str, Any]) -> PendingCollective:
    frames = entry.get("frames")
    return PendingCollective(
        number=_whole(entry.get("collective_seq_id")) or 0, name=_short(entry.get("profiling_name")),
        state=_short(entry.get("state")), sizes=_sizes(entry.get("input_sizes")),
        line=_line(frames[:_MOST_FRAMES]) if isinstance(frames, list) else "",
    )  # fmt: skip


def _sizes(value: object) -> str:
    """The sizes of the first tensors, such as `64x128 1`."""
    tensors = [one for one in value[:8] if isinstance(one, (list, tuple))] if isinstance(value, (list, tuple)) else []
    return " ".join("x".join(str(_whole(size)) for size in one[:8]) for one in tensors)[:_LONGEST]


def _line(frames: Sequence[object]) -> str:
    """The innermost line of the job's own code among these frames."""
    for frame in frames:
        name, file, line = (_part(frame, key) for key in ("name", "filename", "line"))
        if isinstance(file, str) and isinstance(line, int) and not any(part in file for part in LIBRARIES):
            return _short(f"{Path(file).name}:{line} ({_short(name)})")
    return ""


def _members(config: object) -> Iterator[int]:
    """The ranks of a group, which the recorder writes as text."""
    ranks = _part(config, "ranks")
    for found in _RANK.findall(ranks[:100_000]) if isinstance(ranks, str) else ():
        yield int(found)


def _part(value: object, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _whole(value: object) -> int | None:
    """A whole number from 0 on; the recorder's JSON writes some numbers as text."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 19:
        return int(value)
    return value if type(value) is int and 0 <= value < _MOST else None


def _short(value: object) -> str:
    return value[:_LONGEST] if isinstance(value, str) else ""
