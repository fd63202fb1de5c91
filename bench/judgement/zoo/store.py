"""Stores results as JSON files, one a program: an interrupted measurement goes on where it stopped."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.judgement.zoo.entry import Entry
from bench.judgement.zoo.score import Named, Result, Times


def save(result: Result, folder: Path) -> None:
    """Write a result to a file with the program's name."""
    folder.mkdir(parents=True, exist_ok=True)
    rest = {name: value for name, value in asdict(result).items() if name != "entry"}
    _path(result.entry, folder).write_text(json.dumps(rest, indent=1), "utf-8")


def stored(entry: Entry, folder: Path) -> Result | None:
    """The saved result of a program; None when there is none."""
    path = _path(entry, folder)
    if not path.exists():
        return None
    raw: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return Result(
        entry=entry,
        times=Times(**{name: tuple(values) for name, values in raw["times"].items()}),
        named=_named(raw["named"]),
        cured=_named(raw["cured"]),
        watched=tuple(raw["watched"]),
        own=None if raw["own"] is None else _named(raw["own"]),
    )


def _named(rows: list[dict[str, Any]]) -> tuple[Named, ...]:
    return tuple(Named(**(row | {"cases": tuple(row["cases"])})) for row in rows)


def _path(entry: Entry, folder: Path) -> Path:
    return folder / f"{entry.name}.json"
