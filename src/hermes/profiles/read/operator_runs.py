"""Reads runs of single operators by `msprof op` and `msprof op simulator`: the CSV files of `OPPROF_*` folders.

Traps: a folder holds one kernel, or a folder for each kernel and launch. A cell that does not apply is NA. Rows of
blocks are of cube and vector cores (`sub_block_id`), each with columns of its own. `running_time(us)` of the simulator
may be 0, so its cycles count. `visualize_data.bin` repeats the CSV for a viewer and is not needed.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from hermes.base.errors import InputError
from hermes.base.failure_message import reason
from hermes.model.operator_work import KernelAlone
from hermes.profiles.read import refusal_messages as refusals
from hermes.profiles.read.reader_interface import legible

_BASIC, _PIPES = "OpBasicInfo.csv", "PipeUtilization.csv"
_INSTRUCTIONS = re.compile(r"^(core\d+\.\w+)_instr_exe.*\.csv$")
_RATIO = re.compile(r"^(aic|aiv)_(\w+?)_ratio$")
_MOST_FILES, _MOST_ROWS, _MOST_BYTES = 20_000, 200_000, 256 << 20
_Row = dict[str, str]


def kernels_alone(folder: Path) -> tuple[KernelAlone, ...]:
    """The kernels that ran alone, from the files below `folder`, longest first; raises `InputError` if none."""
    basics, simulated = [], []
    for path in islice(sorted(folder.rglob("*.csv")), _MOST_FILES):
        if path.name == _BASIC:
            basics.append(path)
        elif _INSTRUCTIONS.match(path.name):
            # Each core has a folder of its own.
            simulated.append(path.parent.parent if path.parent.name.startswith("core") else path.parent)
    found = [kernel for path in basics for kernel in _on_device(path)]
    measured = {path.parent for path in basics}
    found += [_simulated(parent) for parent in dict.fromkeys(simulated) if not measured & {parent, *parent.parents}]
    if not found:
        raise InputError(
            refusals.NO_OPERATOR_RUN, where=str(folder), lost=refusals.LOST_ALONE,
            hint=refusals.do_give_run(file=_BASIC),
        )  # fmt: skip
    return tuple(sorted(found, key=lambda one: (-(one.dur_ns or 0), one.name)))


def _on_device(path: Path) -> Iterator[KernelAlone]:
    blocks = list(_rows(path.with_name(_PIPES))) if path.with_name(_PIPES).is_file() else []
    instructions = _pipes_of_instructions(path.parent.rglob("*.csv"))
    for row in _rows(path):
        duration = _number(row.get("Task Duration(us)"))
        number = _number(row.get("Block Dim") or row.get("Block Num"))
        if not row.get("Op Name"):
            continue
        pipes, slowest = _pipes_of_blocks(blocks)
        yield KernelAlone(
            name=legible(row["Op Name"])[:200],
            kind=legible(row.get("Op Type", ""))[:40],
            dur_ns=None if duration is None else round(duration * 1000),
            blocks=None if number is None else int(number),
            mhz=_number(row.get("Current Freq")),
            rated_mhz=_number(row.get("Rated Freq")),
            pipes=pipes or instructions,
            slowest=slowest,
            where=str(path),
        )


def _simulated(folder: Path) -> KernelAlone:
    return KernelAlone(
        name=legible(folder.parent.name if folder.name == "simulator" else folder.name)[:200], kind="simulator",
        dur_ns=None, blocks=None, mhz=None, rated_mhz=None, pipes=_pipes_of_instructions(folder.rglob("*.csv")),
        slowest=None, where=str(folder),
    )  # fmt: skip


def _pipes_of_blocks(blocks: list[_Row]) -> tuple[tuple[tuple[str, float], ...], float | None]:
    """Busy shares of the pipes in a kernel's longest block, and how many times longer that block is than the mean."""
    timed: list[tuple[float, str, _Row]] = []
    for row in blocks:
        for core in ("aic", "aiv"):
            if time := _number(row.get(f"{core}_time(us)")):
                timed.append((time, core, row))
    if not timed:
        return (), None
    longest, core, row = max(timed, key=lambda one: one[0])
    same = [time for time, other, _ in timed if other == core]
    parts = [
        (f"{core} {match.group(2)}", share)
        for name, cell in row.items()
        if (match := _RATIO.match(name)) and match.group(1) == core and (share := _number(cell))
    ]
    return tuple(sorted(parts, key=lambda part: -part[1])), longest / (sum(same) / len(same))


def _pipes_of_instructions(files: Iterable[Path]) -> tuple[tuple[str, float], ...]:
    """Shares of the cycles of the simulator's instructions by pipe, over all cores."""
    cycles: dict[str, float] = {}
    for path in islice((path for path in sorted(files) if _INSTRUCTIONS.match(path.name)), 256):
        for row in _rows(path):
            pipe, count = row.get("pipe", ""), _number(row.get("cycles"))
            if pipe and count and pipe != "ALL":
                cycles[pipe.lower()[:20]] = cycles.get(pipe.lower()[:20], 0) + count
    total = sum(cycles.values())
    return tuple(sorted(((pipe, count / total) for pipe, count in cycles.items()), key=lambda part: -part[1]))


def _rows(path: Path) -> Iterator[_Row]:
    """The rows of a CSV file as text, without spaces around cells."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InputError(refusals.RUN_TOO_LARGE, where=str(path))
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            for row in islice(csv.DictReader(file), _MOST_ROWS):
                yield {str(name).strip(): cell.strip() for name, cell in row.items() if name and isinstance(cell, str)}
    except (OSError, csv.Error) as broken:
        raise InputError(refusals.not_read(why=reason(broken)), where=str(path)) from broken


def _number(text: str | None) -> float | None:
    if not text or not re.fullmatch(r"\d{1,15}(\.\d{1,15})?", text):
        return None
    return float(text)
