"""Finds the array of events in a Chrome trace file, and the keys before and after it."""

from __future__ import annotations

import codecs
import io
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes.base.errors import TraceFormatError
from hermes.profiles.read import messages
from hermes.profiles.read import refusal_messages as refusals

_HEAD_LIMIT = 64 << 20
_TAIL_LIMIT = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsPosition:
    """The byte range `[start, end)` of the array of events in a (decompressed) file, brackets included."""

    path: Path
    start: int
    end: int
    header: dict[str, Any]


def head_keys(text: str) -> tuple[dict[str, Any], int] | None:
    """The top-level keys before `traceEvents`, and where that key's value starts; None if the key is missing.

    `text` is the start of an object-form file and may end anywhere.
    """
    keys, at, found = _pairs(text, text.find("{") + 1, until="traceEvents")
    return (keys, at) if found else None


def _pairs(text: str, at: int, *, until: str = "") -> tuple[dict[str, Any], int, bool]:
    """The `"key": value` pairs from `at` on: the keys, where they end, and whether the key `until` ended them."""
    decoder = json.JSONDecoder(strict=False)
    keys: dict[str, Any] = {}
    at = _skip(text, at)
    try:
        while text[at : at + 1] == '"':
            key, colon = decoder.raw_decode(text, at)
            colon = _skip(text, colon)
            if text[colon : colon + 1] != ":":
                break
            value = _skip(text, colon + 1)
            if until and key == until:
                return keys, value, True
            keys[key], at = decoder.raw_decode(text, value)
            at = _skip(text, at)
            if text[at : at + 1] != ",":
                break
            at = _skip(text, at + 1)
    except (json.JSONDecodeError, RecursionError, IndexError):
        return keys, at, False
    return keys, at, False


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def place_of(path: Path, plain: Path) -> EventsPosition | None:
    """The byte range of the events; None if the file has no proper end. Raises an error if it has no proper start."""
    size = plain.stat().st_size
    if not size:
        raise TraceFormatError(
            path, refusals.EMPTY_FILE, lost=messages.LOST_FILE, hint=refusals.DO_KILLED_BEFORE_WRITING
        )
    with plain.open("rb") as raw:
        head = raw.read(1 << 20)
        opening = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
        if opening == b"[":
            return _array_place(plain, raw, head.index(b"["), size)
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise TraceFormatError(path, refusals.IN_UTF16, lost=messages.LOST_FILE, hint=refusals.DO_WRITE_UTF8)
        if opening != b"{":
            raise TraceFormatError(
                path, refusals.NO_JSON_START, place="at its start", lost=messages.LOST_FILE,
                hint=refusals.DO_OTHER_KIND,
            )  # fmt: skip
        keys, start = _object_start(path, raw, head)
        if start is None:
            return None
        tail = _object_end(raw, start, size)
    return None if tail is None else EventsPosition(path=plain, start=start, end=tail[0], header=keys | tail[1])


def _array_place(path: Path, raw: io.BufferedReader, start: int, size: int) -> EventsPosition | None:
    raw.seek(max(0, size - 4096))
    tail = raw.read().rstrip(b" \t\r\n\x00")
    if not tail.endswith(b"]"):
        return None
    return EventsPosition(path=path, start=start, end=max(0, size - 4096) + len(tail), header={})


def _object_start(path: Path, raw: io.BufferedReader, head: bytes) -> tuple[dict[str, Any], int | None]:
    while True:
        # latin-1 keeps one character per byte, so that positions in the text are positions in the file.
        found = head_keys(head.decode("latin-1"))
        if found is not None:
            keys = {k: utf8(v) for k, v in found[0].items()}
            opens = head[found[1] : found[1] + 1] == b"["
            if not opens:
                raise TraceFormatError(
                    path, refusals.EVENTS_NO_LIST, lost=messages.LOST_FILE, hint=refusals.DO_IS_TRACE
                )
            return keys, found[1]
        more = raw.read(len(head)) if len(head) < _HEAD_LIMIT else b""
        if not more:
            break
        head += more
    if b'"traceEvents"' in head:
        return {}, None
    raise TraceFormatError(
        path,
        refusals.NO_TRACE_EVENTS,
        lost=messages.LOST_FILE,
        hint=refusals.DO_TRACE_HOLDS,
    )


def utf8(value: Any) -> Any:
    """Undo the latin-1 decoding of a header value."""
    if isinstance(value, str):
        try:
            return value.encode("latin-1").decode("utf-8")
        except UnicodeError:
            # The value was written with JSON escapes; half of a surrogate pair among them has no UTF-8 form.
            return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [utf8(item) for item in value]
    if isinstance(value, dict):
        return {utf8(key): utf8(item) for key, item in value.items()}
    return value


def _object_end(raw: io.BufferedReader, start: int, size: int) -> tuple[int, dict[str, Any]] | None:
    """The end of the events and the keys after them: the first `]` after which the rest properly ends an object."""
    length = 1 << 14
    while True:
        begin = max(start, size - length)
        raw.seek(begin)
        tail = raw.read().decode("latin-1").rstrip(" \t\r\n\x00")
        if not tail.endswith("}"):
            return None
        for match in re.finditer(r'\]\s*(?=\}\Z|,\s*"[^"]*"\s*:)', tail):
            keys, at, _ = _pairs(tail, match.end() + 1) if tail[match.end()] == "," else ({}, match.end(), False)
            if at == len(tail) - 1:
                return begin + match.start() + 1, {key: utf8(value) for key, value in keys.items()}
        if begin == start or length >= _TAIL_LIMIT:
            return None
        length *= 8
