"""Tells for each file of the input whether it was read, is not needed, or is unknown; no file is left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from hermes.base.message import Message, Text
from hermes.model.files_seen import FilesSeen, FileState
from hermes.profiles.read import unread_file_messages as said
from hermes.profiles.read.discover import FoundCapture
from hermes.profiles.read.reader_interface import CaptureSource, legible
from hermes.profiles.read.unsupported_profiles import format_of

_MOST = 300
_NUMBER = re.compile(r"\d+")
_OUTPUT, _RECORDS = "ASCEND_PROFILER_OUTPUT", "FRAMEWORK"
_PROF = re.compile(r"^PROF_\d+_\d+_[0-9a-zA-Z]+")
_BY_NAME: tuple[tuple[re.Pattern[str], Message], ...] = (
    (re.compile(r"\.(db|sqlite3?)-(wal|shm|journal)$"), said.BESIDE_DATABASE),
    (re.compile(r"^(analyse|all_file)\.(done|complete)$|\.(done|complete|lock)$"), said.MARK),
    (re.compile(r"\.(log|out|err)(\.\d+)?$|_log$"), said.LOG),
    (re.compile(r"(?i)^(readme|licen[cs]e|changelog)(\.\w+)?$"), said.TEXT),
    (re.compile(r"^(report\.(json|html)|capture\.json|truth\.json|events\.jsonl)$"), said.OWN),
    (
        re.compile(r"^(chrome_tracing\.json|profiler\.db|(request_status|coordinator|ep_balance|moe_analysis)\.csv)$"),
        said.SERVICE_SUMS,
    ),
    (re.compile(r"^prof_rule_\d+.*\.json$"), said.ADVICE),
    (re.compile(r"\.(py|sh|ya?ml|toml|cfg|ini|md|html?|png|svg|xlsx?)$"), said.NO_PROFILE),
)  # fmt: skip
_RAW_SIDES = re.compile(r"^(host|device_\d+)$")


def files_seen(
    files: Sequence[Path], claimed: Sequence[CaptureSource], chosen: Sequence[FoundCapture]
) -> tuple[FilesSeen, ...]:
    """All files grouped by whether they were read, unknown files first; `chosen` are the captures that are read."""
    read = {path for one in chosen for path in one.files}
    others = {path for source in claimed for path in (*source.files, *source.aside)}
    raw = {path for one in chosen for path in one.source.aside}
    kinds: dict[tuple[FileState, str, Text], list[Path]] = {}
    for path in files:
        state, why = _state(path, read, raw, others)
        kinds.setdefault((state, _NUMBER.sub("N", legible(path.name)), why), []).append(path)
    rows = [
        FilesSeen(state=state, name=name, count=len(own), example=legible(str(own[0])), why=why)
        for (state, name, why), own in kinds.items()
    ]
    return _listed(rows)


def together(parts: Iterable[Sequence[FilesSeen]]) -> tuple[FilesSeen, ...]:
    """Merge the files of several inputs as if they were one input."""
    kinds: dict[tuple[FileState, str, Text], FilesSeen] = {}
    for one in (one for part in parts for one in part):
        key = (one.state, one.name, one.why)
        known = kinds.get(key)
        first = one if known is None or one.example < known.example else known
        kinds[key] = replace(first, count=one.count + (known.count if known else 0))
    return _listed(list(kinds.values()))


def _listed(rows: list[FilesSeen]) -> tuple[FilesSeen, ...]:
    order: dict[FileState, int] = {"not known": 0, "not needed": 1, "read": 2}
    return tuple(_shortened(sorted(rows, key=lambda row: (order[row.state], row.name, repr(row.why)))))


def _state(path: Path, read: set[Path], raw: set[Path], others: set[Path]) -> tuple[FileState, Text]:
    if path in read:
        return "read", ""
    if path in raw:
        return "not known", said.RAW
    if path in others:
        return "not needed", said.OTHER_CAPTURE
    if path.parent.name == _RECORDS:
        return "not needed", said.FRAMEWORK_EXPORTED
    inside = next((place for place, part in enumerate(path.parts[:-1]) if _PROF.match(part)), None)
    if inside is not None:
        raw_side = _RAW_SIDES.match(path.parts[inside + 1]) is not None
        return "not needed", said.DEVICE_EXPORTED if raw_side else said.same_in(folder=_OUTPUT)
    why = next((why for pattern, why in _BY_NAME if pattern.search(path.name)), None)
    if why is not None:
        return "not needed", why
    form = format_of(path, look=False)
    return "not known", form.name if form else ""


def _shortened(rows: list[FilesSeen]) -> Iterable[FilesSeen]:
    """At most `_MOST` rows; the remaining rows of a state become one row."""
    yield from rows[:_MOST]
    for state in ("not known", "not needed", "read"):
        rest = [row for row in rows[_MOST:] if row.state == state]
        if rest:
            count = sum(row.count for row in rest)
            yield FilesSeen(state=rest[0].state, name="…", count=count, example=rest[0].example, why=said.MORE)
