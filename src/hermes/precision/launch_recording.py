"""Starts a training command whose Python processes record themselves, or write a snapshot of their setup."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hermes.base.end_on_signal import pass_signals_to
from hermes.base.errors import InputError
from hermes.base.message import Message
from hermes.inside.record.options import Options, OptionsError, of_config
from hermes.inside.record.recording_environment import environment as environment
from hermes.precision import recording_notes

_LARGEST_CONFIG = 10_000_000


def options(asked: Mapping[str, Any], config: Path | None) -> dict[str, Any]:
    """The options of a configuration file, overridden by the command line's; raises `InputError` for a wrong option."""
    found = of_config(_config(config)) if config is not None else {}
    found.update({name: value for name, value in asked.items() if value not in (None, "", ())})
    try:
        Options(found)
    except (OptionsError, TypeError, ValueError) as wrong:
        raise InputError(
            recording_notes.wrong_option(reason=str(wrong)), where=str(config or "hermes precision record")
        ) from wrong
    if not found.get("out"):
        raise InputError(recording_notes.NO_OUT, where="hermes precision record", hint=recording_notes.GIVE_OUT)
    return found


def _config(path: Path) -> Any:
    try:
        if path.stat().st_size > _LARGEST_CONFIG:
            raise InputError(recording_notes.too_large(limit=_LARGEST_CONFIG), where=str(path))
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as broken:
        raise InputError(recording_notes.unreadable(reason=str(broken)), where=str(path)) from broken
    try:
        return json.loads(_without_comments(text))
    except (ValueError, RecursionError) as broken:
        raise InputError(recording_notes.not_json(reason=str(broken)), where=str(path)) from broken


def _without_comments(text: str) -> str:
    """JSON text without `//` comments, which the tutorial's example has; `//` inside strings stays."""
    out, at, inside = [], 0, False
    while at < len(text):
        one = text[at]
        if inside and one == "\\":
            out.append(text[at : at + 2])
            at += 2
            continue
        if one == '"':
            inside = not inside
        elif not inside and text.startswith("//", at):
            at = text.find("\n", at) if "\n" in text[at:] else len(text)
            continue
        out.append(one)
        at += 1
    return "".join(out)


def prepare(out: Path, limit_bytes: int) -> Message | None:
    """Make the output folder; the message warns of little disk space.

    Raises `InputError` if the folder is not empty.
    """
    if out.exists() and any(out.iterdir()):
        raise InputError(recording_notes.NOT_EMPTY, where=str(out), hint=recording_notes.NEW_FOLDER)
    out.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(out).free
    return recording_notes.little_room(free=free, limit=limit_bytes) if free < limit_bytes else None


def run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the command to its end; returns its exit code, or 128 and the number of the signal that ended it."""
    try:
        process = subprocess.Popen(list(command), env=dict(environment))
    except OSError as missing:
        raise InputError(
            recording_notes.not_started(reason=missing.strerror or str(missing)), where=command[0]
        ) from missing
    # The terminal may already have sent the signal to the command, which decides itself how to end.
    with pass_signals_to(process.send_signal):
        code = process.wait()
    return code if code >= 0 else 128 - code
