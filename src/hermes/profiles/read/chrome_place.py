"""Where the array of events lies in a Chrome trace, and the keys before and behind it."""

from __future__ import annotations

import codecs
import io
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes.base.errors import TraceFormatError

_HEAD_LIMIT = 64 << 20
_TAIL_LIMIT = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the array of events lies in a (decompressed) file: `[start, end)`, brackets included."""

    path: Path
    start: int
    end: int
    header: dict[str, Any]


def head_keys(text: str) -> tuple[dict[str, Any], int] | None:
    """The top-level keys before `traceEvents`, and where the value of that key starts; None if it is not there.

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


def place_of(path: Path, plain: Path) -> Place | None:
    """Where the events are; None when the file has no proper end. Raises when it has no proper start."""
    size = plain.stat().st_size
    if not size:
        raise TraceFormatError(
            path, "the file is empty", lost="the whole file", hint="was the job killed before it wrote?"
        )
    with plain.open("rb") as raw:
        head = raw.read(1 << 20)
        opening = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
        if opening == b"[":
            return _array_place(plain, raw, head.index(b"["), size)
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise TraceFormatError(
                path, "the file is in UTF-16", lost="the whole file", hint="write it as UTF-8: iconv -f UTF-16 -t UTF-8"
            )
        if opening != b"{":
            raise TraceFormatError(
                path, "neither a JSON array nor an object", place="at its start", lost="the whole file",
                hint="Chrome traces start with [ or {; is this another kind of file?",
            )  # fmt: skip
        keys, start = _object_start(path, raw, head)
        if start is None:
            return None
        tail = _object_end(raw, start, size)
    return None if tail is None else Place(path=plain, start=start, end=tail[0], header=keys | tail[1])


def _array_place(path: Path, raw: io.BufferedReader, start: int, size: int) -> Place | None:
    raw.seek(max(0, size - 4096))
    tail = raw.read().rstrip(b" \t\r\n\x00")
    if not tail.endswith(b"]"):
        return None
    return Place(path=path, start=start, end=max(0, size - 4096) + len(tail), header={})


def _object_start(path: Path, raw: io.BufferedReader, head: bytes) -> tuple[dict[str, Any], int | None]:
    while True:
        # latin-1 keeps one character a byte, so that places in the text are places in the file.
        found = head_keys(head.decode("latin-1"))
        if found is not None:
            keys = {k: utf8(v) for k, v in found[0].items()}
            opens = head[found[1] : found[1] + 1] == b"["
            if not opens:
                raise TraceFormatError(path, "traceEvents is not a list", lost="the whole file", hint="is it a trace?")
            return keys, found[1]
        more = raw.read(len(head)) if len(head) < _HEAD_LIMIT else b""
        if not more:
            break
        head += more
    if b'"traceEvents"' in head:
        return {}, None
    raise TraceFormatError(
        path,
        "no traceEvents in it",
        lost="the whole file",
        hint="is it a trace? Chrome traces hold a list traceEvents",
    )


def utf8(value: Any) -> Any:
    """Undo the latin-1 reading of a header value."""
    if isinstance(value, str):
        try:
            return value.encode("latin-1").decode("utf-8")
        except UnicodeError:
            # It was written with JSON's escapes; half of a surrogate pair among them has no UTF-8.
            return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [utf8(item) for item in value]
    if isinstance(value, dict):
        return {utf8(key): utf8(item) for key, item in value.items()}
    return value


def _object_end(raw: io.BufferedReader, start: int, size: int) -> tuple[int, dict[str, Any]] | None:
    """End of the events and the keys behind them: the first `]` from which the rest is a proper end of an object."""
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
