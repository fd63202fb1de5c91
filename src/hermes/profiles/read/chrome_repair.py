"""Rescues the events of a Chrome trace that is not legal JSON: cut off, joined by hand, with illegal bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

_BLOCK = 1 << 22
_MAX_EVENT = 8 << 20
_MAX_JOIN = 64
_SEAM = re.compile(rb"\}(?=\s*,?\s*\{)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """The result of a repair: its events, the events it dropped, and where in the file the first fault is."""

    events: int
    dropped: int
    first_fault: int
    lost: str
    reason: str
    header: dict[str, Any]


def repair(path: Path, out: Path) -> Repaired:
    """Write the readable events of `path` to `out` as a legal JSON array; memory is bounded by one block.

    Events are cut apart where one object ends and another begins. A piece that does not parse is joined to the next
    pieces, because the cut may lie inside an event. After some tries the piece is given up.
    """
    size = path.stat().st_size
    events = dropped = 0
    fault: int | None = None
    reason = ""
    with path.open("rb") as raw, out.open("w", encoding="utf-8", errors="replace") as copy:
        header, start = _start(raw)
        copy.write("[")
        for at, values, why in _pieces(raw, start):
            if values is None:
                dropped += 1
                fault, reason = (at, why) if fault is None else (fault, reason)
                continue
            for value in values:
                if not isinstance(value, dict):
                    dropped += 1
                    fault, reason = (at, "an entry is not an object") if fault is None else (fault, reason)
                    continue
                if not isinstance(value.get("args", {}), dict):
                    value["args"] = {}
                copy.write("," if events else "")
                copy.write(json.dumps(value, ensure_ascii=False).replace("\ud800", "?"))
                events += 1
        copy.write("]")
    lost = "; ".join(
        [f"{dropped} unreadable pieces"] * bool(dropped)
        + ["all events behind the end of the file, which is cut off"] * _is_cut(path)
    )
    lost = lost or "nothing that can be seen"
    return Repaired(
        events=events,
        dropped=dropped,
        first_fault=size if fault is None else fault,
        lost=lost,
        reason=reason,
        header=header,
    )


def _is_cut(path: Path) -> bool:
    with path.open("rb") as raw:
        array = raw.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
        raw.seek(max(0, path.stat().st_size - 4096))
        return not raw.read().rstrip(b" \t\r\n\x00").endswith(b"]" if array else b"}")


def _start(raw: BinaryIO) -> tuple[dict[str, Any], int]:
    head = raw.read(1 << 20)
    key = head.find(b'"traceEvents"')
    opening = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if opening == b"{" and key >= 0:
        try:
            header = json.loads(head[:key].decode("utf-8", "replace").rstrip().rstrip(",") + "}", strict=False)
        except (json.JSONDecodeError, RecursionError):
            header = {}
        return header if isinstance(header, dict) else {}, head.find(b"[", key) + 1 or len(head)
    return {}, head.find(b"[") + 1


def _pieces(raw: BinaryIO, start: int) -> Iterator[tuple[int, list[Any] | None, str]]:
    """Yield (position, events, "") for each stretch that parses, (position, None, reason) for each that does not."""
    raw.seek(start)
    at, rest = start, b""
    while True:
        block = raw.read(_BLOCK)
        text = rest + block
        if not text:
            return
        seams = [match.end() for match in _SEAM.finditer(text)]
        cut = (seams[-1] if seams else (len(text) if len(text) > _MAX_EVENT else 0)) if block else len(text)
        if cut:
            yield from _stretch(text[:cut], at, [seam for seam in seams if seam <= cut])
        rest = text[cut:]
        at += cut
        if not block:
            return


def _stretch(text: bytes, at: int, seams: list[int]) -> Iterator[tuple[int, list[Any] | None, str]]:
    values, why = _parse(text)
    if values is not None:
        yield at, values, ""
        return
    if len(seams) < 2:
        if text.strip(b" \t\r\n,]}\x00"):
            yield from _last_try(text, at, why)
        return
    # Halve until the fault is alone: most of the stretch is good.
    begin = 0
    bounds = seams if seams[-1] == len(text) else [*seams, len(text)]
    index = 0
    while index < len(bounds):
        found = None
        step = len(bounds) - index
        while step >= 1:
            found, why = _parse(text[begin : bounds[index + step - 1]])
            if found is not None:
                break
            step //= 2
        if found is not None:
            yield at + begin, found, ""
            begin, index = bounds[index + step - 1], index + step
            continue
        joined = _join(text, begin, bounds, index)
        if joined is not None:
            values, index = joined
            yield at + begin, values, ""
        else:
            yield from _last_try(text[begin : bounds[index]], at + begin, why)
            index += 1
        begin = bounds[index - 1]


def _join(text: bytes, begin: int, bounds: list[int], index: int) -> tuple[list[Any], int] | None:
    for last in range(index + 1, min(index + _MAX_JOIN, len(bounds))):
        values, _ = _parse(text[begin : bounds[last]])
        if values is not None:
            return values, last + 1
    return None


def _last_try(text: bytes, at: int, why: str) -> Iterator[tuple[int, list[Any] | None, str]]:
    """The entries at the front, one by one up to the end of the list: `… ], "traceName": …}` may follow it."""
    decoder = json.JSONDecoder(strict=False, parse_float=str, parse_constant=str)
    body = text.decode("utf-8", "replace")
    place = _next_entry(body, 0)
    values: list[Any] = []
    fault = ""
    while place < len(body) and body[place] != "]":
        try:
            value, place = decoder.raw_decode(body, place)
        except (ValueError, RecursionError):
            fault = why
            break
        values.append(value)
        place = _next_entry(body, place)
    if values:
        yield at, values, ""
    if fault and body[place:].strip(" \t\r\n,]}\x00"):
        yield at + len(body[:place].encode("utf-8", "replace")), None, fault


def _next_entry(body: str, place: int) -> int:
    while place < len(body) and body[place] in " \t\r\n,":
        place += 1
    return place


def _parse(text: bytes) -> tuple[list[Any] | None, str]:
    body = text.strip(b" \t\r\n,")
    if not body:
        return [], ""
    try:
        # Fractions stay text: a time must not become a double on its way.
        values = json.loads(
            "[" + body.decode("utf-8", "replace") + "]", strict=False, parse_float=str, parse_constant=str
        )
    except RecursionError:
        return None, "nested too deeply"
    except ValueError as broken:
        return None, str(broken)[:120]
    return values, ""
