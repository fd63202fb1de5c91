"""Starts a command whose Python processes record themselves, or write a snapshot of their setup."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hermes.base.ending import told_to
from hermes.base.errors import InputError
from hermes.base.message import Message
from hermes.inside.record.launched import environment as environment
from hermes.inside.record.options import Options, OptionsError, of_config
from hermes.precision import notes

_LARGEST_CONFIG = 10_000_000


def options(asked: Mapping[str, Any], config: Path | None) -> dict[str, Any]:
    """Options out of a configuration, and over them those of the command line; raises `InputError` for a wrong one."""
    found = of_config(_config(config)) if config is not None else {}
    found.update({name: value for name, value in asked.items() if value not in (None, "", ())})
    try:
        Options(found)
    except (OptionsError, TypeError, ValueError) as wrong:
        raise InputError(
            notes.wrong_option(reason=str(wrong)), where=str(config or "hermes precision record")
        ) from wrong
    if not found.get("out"):
        raise InputError(notes.NO_OUT, where="hermes precision record", hint=notes.GIVE_OUT)
    return found


def _config(path: Path) -> Any:
    try:
        if path.stat().st_size > _LARGEST_CONFIG:
            raise InputError(notes.too_large(limit=_LARGEST_CONFIG), where=str(path))
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as broken:
        raise InputError(notes.unreadable(reason=str(broken)), where=str(path)) from broken
    try:
        return json.loads(_without_comments(text))
    except (ValueError, RecursionError) as broken:
        raise InputError(notes.not_json(reason=str(broken)), where=str(path)) from broken


def _without_comments(text: str) -> str:
    """Text without `//` comments, which the tutorial's own example has; those inside of strings stay."""
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
    """Make the folder; warns where there is little room. Raises `InputError` where it holds something already."""
    if out.exists() and any(out.iterdir()):
        raise InputError(notes.NOT_EMPTY, where=str(out), hint=notes.NEW_FOLDER)
    out.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(out).free
    return notes.little_room(free=free, limit=limit_bytes) if free < limit_bytes else None


def run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the command to its end; its exit code, or 128 and the number of the signal that ended it."""
    try:
        process = subprocess.Popen(list(command), env=dict(environment))
    except OSError as missing:
        raise InputError(notes.not_started(reason=missing.strerror or str(missing)), where=command[0]) from missing
    # It may have got the signal from the terminal already. How it ends is its own matter.
    with told_to(process.send_signal):
        code = process.wait()
    return code if code >= 0 else 128 - code
