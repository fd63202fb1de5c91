"""Reads CANN's description of the device, `PROF_*/device_N/info.json`: the cores and the clock of the chip.

Traps: in newer versions, the file name ends in the number of the device (`info.json.0`). Numbers in the file are
stored as text. Chips before the 910B series have no separate vector cores, so their cores are not only cubes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl

from hermes.base.units import whole_number
from hermes.model.tables.device_settings import CUBE_CLOCK, CUBES
from hermes.profiles.read.ascend.capture_folders import Json, load_json
from hermes.profiles.read.table_sink import Sink

_FILE = re.compile(r"^info\.json(\.\d{1,4})?$")
_SMALL = 1 << 20


def device_infos(files: Iterable[Path]) -> tuple[Path, ...]:
    """The files among these that describe a device."""
    return tuple(path for path in files if _FILE.match(path.name) and path.parent.name.startswith("device_"))


def add_device(files: Iterable[Path], sink: Sink) -> None:
    """Add the cores and the clock of the rank's device to the table `setting`, if all files agree on them."""
    device = sink.read("rank")["device_id"].to_list()
    told = {
        pair for path in device_infos(files) for number, pair in _told(path) if device == [None] or number in device
    }
    if len(told) != 1:
        return
    cubes, clock = told.pop()
    rows = [("profiler", CUBES, str(cubes)), ("profiler", CUBE_CLOCK, str(clock))]
    known = sink.read("setting").drop("rank")
    sink.frame("setting", pl.concat([known, pl.DataFrame(rows, schema=known.schema, orient="row")]))


def _told(path: Path) -> Iterator[tuple[int | None, tuple[int, int]]]:
    """The number of each device with the count of its cubes and their clock in MHz."""
    try:
        listed = load_json(path, _SMALL).get("DeviceInfo")
    except (OSError, ValueError):
        return
    for one in listed if isinstance(listed, list) else []:
        if not isinstance(one, dict):
            continue
        cubes, vectors, clock = (_number(one, name) for name in ("ai_core_num", "aiv_num", "aic_frequency"))
        if cubes and clock and vectors == 2 * cubes:
            yield _number(one, "id"), (cubes, clock)


def _number(one: Json, name: str) -> int | None:
    return whole_number(str(one.get(name, "")).strip())
