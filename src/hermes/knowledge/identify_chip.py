"""Finds the chip of a capture, by name or by counters, in the table of chips. A slice of a chip counts as unknown."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hermes.knowledge.chip_fields import Chip as Chip
from hermes.knowledge.chip_fields import ascend
from hermes.knowledge.chip_table import ALL

CHIPS: Mapping[str, Chip] = {chip.name: chip for chip in ALL}

_PATTERNS = tuple((re.compile(chip.names, re.IGNORECASE), chip) for chip in ALL)
# A slice of a chip, such as a MIG instance, has only a part of the chip's peaks.
_SLICE = re.compile(r"\bMIG\b|\bvGPU\b|GRID |^Ascend.*vir", re.IGNORECASE)
_ASCEND = re.compile(r"^Ascend", re.IGNORECASE)


def chip_of(name: str | None, memory: float | None = None) -> Chip | None:
    """The chip for a name that a profiler gives, such as `NVIDIA H100 80GB HBM3`; None if not known.

    If chips share a name, the chip whose memory is nearest to `memory` in bytes is taken, or the first if `memory` is
    None.
    """
    if not name or _SLICE.search(name):
        return None
    found = [chip for pattern, chip in _PATTERNS if pattern.search(name.strip())]
    if memory is None:
        return found[0] if found else None
    return min(found, key=lambda chip: abs((chip.memory or memory) - memory), default=None)


def is_family(name: str | None) -> bool:
    """Whether counters may tell the chip: its name is missing, or names only an Ascend series.

    The profiler's database says `Ascend910B` for every chip of the 910B series.
    """
    return name is None or bool(_ASCEND.match(name.strip()) and not _SLICE.search(name) and chip_of(name) is None)


def chip_by_counters(cubes: int, mhz: int) -> Chip:
    """The Ascend chip with this many cubes at this clock; a chip that matches no name has no known bandwidth."""
    named = [
        chip for chip in ALL
        if chip.vendor == "ascend" and chip.vector_cores and (chip.cores, chip.mhz) == (cubes, mhz)
    ]  # fmt: skip
    if named:
        return named[0]
    source = "cores and clock by the capture: its counters of cycles, or what the profiler says of the device"
    return ascend(
        f"Ascend with {cubes} cubes at {mhz} MHz", cubes=cubes, mhz=mhz, vectors=2 * cubes, gbps=None,
        source=source, memory="not known",
    )  # fmt: skip
