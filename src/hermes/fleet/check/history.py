"""The history of node checks: a folder with one untrusted Parquet file per node and check."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import polars as pl

from hermes.base.errors import Diagnostic, HermesError
from hermes.base.write_atomic import write_atomic
from hermes.fleet.check import messages
from hermes.fleet.check.node_reading import Check, Reading

_SCHEMA = {"node": pl.String, "at_ns": pl.Int64, "check": pl.String, "value": pl.Float64, "part": pl.String,
           "chip": pl.String}  # fmt: skip
_MOST_FILES = 200_000
_LARGEST = 1 << 20
_LONGEST = 100
_KNOWN = {check.value for check in Check}


def write(folder: Path, readings: Sequence[Reading]) -> Path:
    """Add one check of one node; the file appears only when complete. Raises `HermesError` for a folder that is not
    writable."""
    first = readings[0]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", first.node).strip(".-")[:60] or "node"
    path = folder / f"{name}-{first.at_ns}.parquet"
    rows = [
        {"node": one.node, "at_ns": one.at_ns, "check": one.check.value, "value": one.value, "part": one.part,
         "chip": one.chip} for one in readings
    ]  # fmt: skip
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with write_atomic(path, mode=0o644) as file:
            pl.DataFrame(rows, schema=_SCHEMA).write_parquet(file)
    except OSError as refused:
        raise HermesError(messages.cannot_write(why=refused.strerror or ""), where=str(path)) from refused
    return path


def read(folder: Path) -> tuple[list[Reading], list[Diagnostic]]:
    """All readings, oldest first, and notes on unreadable files: a bad file costs only its own rows."""
    found: list[Reading] = []
    notes = []
    for path in sorted(folder.glob("*.parquet"))[:_MOST_FILES]:
        try:
            if not path.is_file() or path.stat().st_size > _LARGEST:
                raise ValueError
            table = pl.read_parquet(path, columns=list(_SCHEMA), memory_map=False)
            if table.schema != _SCHEMA:
                raise ValueError
            found += _rows(table.rows())
        except (OSError, ValueError, TypeError, pl.exceptions.PolarsError):
            notes.append(Diagnostic(level="degraded", message=messages.UNREADABLE, where=str(path)))
    return sorted(found, key=lambda one: one.at_ns), notes


def _rows(rows: Iterable[Sequence[object]]) -> Iterable[Reading]:
    for node, at_ns, check, value, part, chip in rows:
        if isinstance(node, str) and isinstance(at_ns, int) and isinstance(value, float) and check in _KNOWN:
            made = Reading(
                node=node[:_LONGEST], at_ns=at_ns, check=Check(check), value=value, part=str(part or "")[:_LONGEST],
                chip=str(chip or "")[:_LONGEST],
            )  # fmt: skip
            if made.sound:
                yield made
