"""Small harm to the files of a profile, the same for the same seed: food for a fuzzer and for property tests."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import re
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hermes.model.report import Report
from hermes.model.step_measures import RankTotal

NUMBERS = (
    "0",
    "-0",
    "-1",
    "1",
    "1e400",
    "-1e400",
    "NaN",
    "Infinity",
    "1e-400",
    "0.0004",
    "0.0005",
    "4294967295",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551615",
    "1" + "0" * 40,
    "9223372036854775.807",
    "4611686018427387.904",
    "1e18",
    "0x10",
    "1_000",
    " 7",
    "7 ",
    "+7",
    "٣",
    "1,5",
    "",
    "true",
    "null",
)
"""Texts that a column of numbers may hold and should not."""

TEXTS = (
    "",
    "N/A",
    "\x00",
    "\x1b[31m",
    "\u202e",
    "a\nb",
    'a"b',
    "a,b",
    "x" * 5_000,
    "\U0001f600",
    "<script>",
    "hcom_",
    "hcom_allReduce_",
    "hcom_allReduce__abc_0_1@1",
    "ProfilerStep#",
    "ProfilerStep#99999999999999999999",
    "ProfilerStep#-1",
    "Group 1 Communication",
    "Plane 0",
    "ncclDevKernel_AllReduce_Sum",
    "Memcpy HtoD",
    "[[]]",
    "[" * 200,
    "stream 99999999999999999999",
    "step",
    "Overlap Analysis",
    "é",
)
"""Texts that a name may be and a reader may stumble over."""

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_WORDS = re.compile(rb'"(?:[^"\\]|\\.)*"')
_BYTES = (
    b"",
    b"\x00",
    b"\xff",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b"\n",
    b"\r\n",
    b"\\",
    b"[[[[",
    b"\xed\xa0\x80",
)
_WEIRD: tuple[object, ...] = (
    None,
    True,
    -1,
    0,
    2**63,
    2**70,
    1.5,
    "",
    [],
    {},
    [[]],
    {"a": {"b": []}},
    "9" * 30,
    *TEXTS,
)


def mutate(name: str, content: bytes, chance: random.Random) -> bytes:
    """The content of the file of that name with one to four faults in it; any of them may undo another."""
    for _ in range(chance.choice((1, 1, 2, 4))):
        content = chance.choice(_harms(name))(content, chance)
    return content


def contradictions(report: Report) -> list[str]:
    """What does not hold of a report and always must, however broken the input: empty when all is sound."""
    found = []
    for split in report.steps:
        parts = (split.compute_ns, split.exposed_comm_ns, split.copy_exposed_ns, split.free_ns)
        known = [part for part in parts if part is not None]
        if split.window_ns < 0 or any(part < 0 for part in known):
            found.append(f"a negative time: {split}")
        if len(known) == len(parts) and sum(known) != split.window_ns:
            found.append(f"the parts do not add up to the window: {split}")
    for total in report.rows(RankTotal):
        if total.busy_ns + total.idle_ns != total.span_ns or total.idle_ns < 0:
            found.append(f"busy and idle do not add up to the span: {total}")
    return found


def _harms(name: str) -> tuple[Callable[[bytes, random.Random], bytes], ...]:
    if name.endswith((".db", ".db-wal")):
        return _cell, _cell, _cell, _schema, _cut, _noise
    if name.endswith(".csv"):
        return _csv, _csv, _csv, _number, _cut, _splice, _noise
    return _json, _json, _json, _scatter, _number, _word, _cut, _splice, _noise


def _number(content: bytes, chance: random.Random) -> bytes:
    return _replaced(content, _NUMBER, chance.choice(NUMBERS).encode(), chance)


def _word(content: bytes, chance: random.Random) -> bytes:
    return _replaced(content, _WORDS, json.dumps(chance.choice(TEXTS)).encode(), chance)


def _replaced(content: bytes, what: re.Pattern[bytes], by: bytes, chance: random.Random) -> bytes:
    # From a random place on: listing every match of a large file would be slow.
    match = what.search(content, chance.randrange(len(content) + 1)) or what.search(content)
    return content[: match.start()] + by + content[match.end() :] if match else by


def _cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content) + 1)]


def _splice(content: bytes, chance: random.Random) -> bytes:
    """A stretch repeated, removed or moved."""
    first, last = sorted((chance.randrange(len(content) + 1), chance.randrange(len(content) + 1)))
    last = min(last, first + 4_000)
    rest = content[:first] + content[last:]
    place = chance.randrange(len(rest) + 1)
    return chance.choice(
        (
            rest,
            rest[:place] + content[first:last] + rest[place:],
            content[:place] + content[first:last] + content[place:],
        )
    )


def _noise(content: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(content) + 1)
    return content[:place] + chance.choice(_BYTES) + content[place + chance.choice((0, 1)) :]


def _scatter(content: bytes, chance: random.Random) -> bytes:
    """Each event in a thread, process or category of its own: what compares all of them with all others takes long."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return content
    events = value.get("traceEvents") if isinstance(value, dict) else value
    key = chance.choice(("tid", "pid", "cat", "name", "id"))
    for number, event in enumerate(events if isinstance(events, list) else ()):
        if isinstance(event, dict) and key in event:
            event[key] = number if key in ("tid", "pid") else f"{event[key]}{number}"
    return json.dumps(value).encode("utf-8", "replace")


def _json(content: bytes, chance: random.Random) -> bytes:
    """One value inside replaced, removed, doubled, or its key renamed."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return _number(content, chance)
    holder = value
    for _ in range(chance.randrange(1, 6)):
        inner = holder[_key(holder, chance)] if isinstance(holder, (dict, list)) and holder else None
        if not isinstance(inner, (dict, list)) or not inner:
            break
        holder = inner
    if isinstance(holder, (dict, list)) and holder:
        _harm(holder, chance)
    return json.dumps(value).encode()


def _key(holder: Any, chance: random.Random) -> Any:
    return chance.choice(list(holder)) if isinstance(holder, dict) else chance.randrange(len(holder))


def _harm(holder: Any, chance: random.Random) -> None:
    key = _key(holder, chance)
    kind = chance.randrange(4)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        holder[chance.choice(TEXTS)] = holder.pop(key)
    elif kind == 1:
        holder.insert(chance.randrange(len(holder) + 1), holder[key])
    else:
        old = holder[key]
        plain = isinstance(old, (int, float)) or (isinstance(old, str) and old[:1].isdigit())
        holder[key] = chance.choice(NUMBERS) if plain and chance.random() < 0.6 else chance.choice(_WEIRD)


def _csv(content: bytes, chance: random.Random) -> bytes:
    """One cell, header name or row replaced or removed."""
    try:
        rows = list(csv.reader(io.StringIO(content.decode("utf-8", "replace"), newline="")))
    except csv.Error:
        rows = []
    if not rows:
        return _noise(content, chance)
    row = rows[chance.choice((0, chance.randrange(len(rows))))]
    kind = chance.randrange(5)
    if kind == 0:
        del rows[chance.randrange(len(rows))]
    elif kind == 1 and row:
        del row[chance.randrange(len(row))]
    elif kind == 2:
        rows.insert(chance.randrange(len(rows) + 1), list(row))
    elif row:
        row[chance.randrange(len(row))] = chance.choice(NUMBERS if kind == 3 else TEXTS)
    made = io.StringIO(newline="")
    csv.writer(made, quoting=chance.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL))).writerows(rows)
    return made.getvalue().encode("utf-8", "replace")


def _cell(content: bytes, chance: random.Random) -> bytes:
    """One cell, or a whole column, of a database replaced by a value of any type."""

    def harm(con: sqlite3.Connection, table: str, columns: list[str]) -> None:
        value = chance.choice((None, b"\xff\x00", 1.5, 9e999, 2**63 - 1, -(2**63), *NUMBERS, *TEXTS))
        which = "1" if chance.random() < 0.2 else f"rowid % 7 = {chance.randrange(7)}"
        con.execute(f"UPDATE {_quoted(table)} SET {_quoted(chance.choice(columns))} = ? WHERE {which}", (value,))

    return _in_database(content, chance, harm)


def _schema(content: bytes, chance: random.Random) -> bytes:
    """A table emptied, dropped, doubled or renamed, or a column renamed."""

    def harm(con: sqlite3.Connection, table: str, columns: list[str]) -> None:
        name = _quoted(table)
        column = _quoted(chance.choice(columns))
        con.execute(
            chance.choice(
                (
                    f"DELETE FROM {name}", f"DROP TABLE {name}", f"ALTER TABLE {name} RENAME TO {name[:-1]}_old\"",
                    f"ALTER TABLE {name} RENAME COLUMN {column} TO other", f"INSERT INTO {name} SELECT * FROM {name}",
                )
            )
        )  # fmt: skip

    return _in_database(content, chance, harm)


def _in_database(
    content: bytes, chance: random.Random, harm: Callable[[sqlite3.Connection, str, list[str]], None]
) -> bytes:
    handle, name = tempfile.mkstemp(suffix=".db")
    path = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
        con = sqlite3.connect(name, isolation_level=None)
        try:
            # What a crash would cost does not matter here.
            con.execute("PRAGMA synchronous = off")
            con.execute("PRAGMA journal_mode = off")
            tables = [
                row[0] for row in con.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
            ]
            table = chance.choice(tables or [""])
            columns = [row[1] for row in con.execute(f"PRAGMA table_info({_quoted(table)})")]
            harm(con, table, columns or [""])
        finally:
            con.close()
        return path.read_bytes()
    except (sqlite3.Error, UnicodeError, OverflowError):
        return _noise(content, chance)
    finally:
        path.unlink(missing_ok=True)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
