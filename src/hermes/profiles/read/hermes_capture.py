"""Reads what Hermes' own capture records about earlier steps, code and threads: `setting`, `sample`, `thread_run`."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from hermes.knowledge.host_settings import BEFORE, OWN_CODE

_MOST = 2**62
_MOST_SAMPLES = 20_000
_MOST_FRAMES = 200
_LONGEST_FRAME = 400
_MOST_NAMES = 400
_MOST_THREADS = 100


def before_rows(told: Mapping[str, object]) -> list[tuple[str, str, str]]:
    """Rows of source, name and value; values that are no whole number in a sound range are left out.

    `told` is the capture's note.
    """
    return _rows(told.get("before"), "") + _own(told.get("own"))


def samples(told: object, epoch_ns: int) -> pl.DataFrame:
    """Rows of the table `sample`; incomplete samples are left out.

    `epoch_ns` is the moment at which the file's clock begins.
    """
    note = told if isinstance(told, dict) else {}
    stacks = [_frames(one) for one in _listed(note.get("stacks"))]
    long = _pairs(note.get("long"))
    rows = [
        (moment - epoch_ns, stacks[at], int(any(begin <= moment < end for begin, end in long)))
        for moment, at in _pairs(note.get("samples"))
        if at < len(stacks) and stacks[at]
    ]
    return pl.DataFrame(rows, schema={"ts_ns": pl.Int64, "frames": pl.String, "long": pl.Int64}, orient="row")


def thread_runs(told: object) -> pl.DataFrame:
    """Rows of the table `thread_run`; incomplete rows are left out."""
    note = told if isinstance(told, dict) else {}
    looks, wall_ns = note.get("looks"), note.get("wall_ns")
    rows = [
        (str(thread["name"])[:_LONGEST_FRAME], number, thread["cpu_ns"], wall_ns, seen[1], looks, _frames(seen[0]))
        for number, thread in enumerate(_listed(note.get("threads"))[:_MOST_THREADS])
        if isinstance(thread, dict) and isinstance(thread.get("name"), str)
        and _count(thread.get("cpu_ns"), _MOST) and _count(wall_ns, _MOST)
        for seen in _listed(thread.get("seen"))[:_MOST_FRAMES]
        if isinstance(seen, list) and len(seen) == 2 and _count(seen[1], looks)
    ]  # fmt: skip
    schema = {
        "name": pl.String, "thread": pl.Int64, "cpu_ns": pl.Int64, "wall_ns": pl.Int64, "seen": pl.Int64,
        "looks": pl.Int64, "frames": pl.String,
    }  # fmt: skip
    return pl.DataFrame(rows, schema=schema, orient="row")


def _count(value: object, most: object) -> bool:
    return type(value) is int and type(most) is int and 0 <= value <= most <= _MOST


def _pairs(told: object) -> list[tuple[int, int]]:
    return [
        (one[0], one[1])
        for one in _listed(told)[:_MOST_SAMPLES]
        if isinstance(one, list) and len(one) == 2 and all(type(part) is int and 0 <= part < _MOST for part in one)
    ]


def _frames(stack: object) -> str:
    return "\n".join(one[:_LONGEST_FRAME] for one in _listed(stack)[:_MOST_FRAMES] if isinstance(one, str))


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _own(names: object) -> list[tuple[str, str, str]]:
    told = [one for one in _listed(names)[:_MOST_NAMES] if isinstance(one, str) and one and "," not in one]
    return [("job", OWN_CODE, ",".join(told))] if told else []


def end_rows(told: object) -> list[tuple[str, str, str]]:
    """Rows of source, name and value on the captured steps, from the capture's end: names begin with `captured_`."""
    return _rows(told, "captured_")


def _rows(means: object, head: str) -> list[tuple[str, str, str]]:
    if not isinstance(means, dict):
        return []
    return [
        (BEFORE, head + name, str(value))
        for name, value in means.items()
        if isinstance(name, str) and isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST
    ]
