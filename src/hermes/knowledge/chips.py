"""Which chip a capture names, or tells by its counters: rows of the table of chips. A slice of a chip is no chip."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hermes.knowledge.chip import Chip as Chip
from hermes.knowledge.chip import ascend
from hermes.knowledge.chip_table import ALL

CHIPS: Mapping[str, Chip] = {chip.name: chip for chip in ALL}

_PATTERNS = tuple((re.compile(chip.names, re.IGNORECASE), chip) for chip in ALL)
# A slice of a chip has a part of its peaks only.
_SLICE = re.compile(r"\bMIG\b|\bvGPU\b|GRID |^Ascend.*vir", re.IGNORECASE)
_ASCEND = re.compile(r"^Ascend", re.IGNORECASE)


def chip_of(name: str | None, memory: float | None = None) -> Chip | None:
    """The chip of a name as a profiler gives it, such as `NVIDIA H100 80GB HBM3`; None when it is not known.

    Of chips that share a name the one whose memory is nearest to `memory`, in bytes; the first where that is not told.
    """
    if not name or _SLICE.search(name):
        return None
    found = [chip for pattern, chip in _PATTERNS if pattern.search(name.strip())]
    if memory is None:
        return found[0] if found else None
    return min(found, key=lambda chip: abs((chip.memory or memory) - memory), default=None)


def is_family(name: str | None) -> bool:
    """Whether counters may tell which chip it is: none is named, or an Ascend that the name alone does not tell.

    The profiler's database says `Ascend910B` for all of that series.
    """
    return name is None or bool(_ASCEND.match(name.strip()) and not _SLICE.search(name) and chip_of(name) is None)


def by_counters(cubes: int, mhz: int) -> Chip:
    """The Ascend chip with split cores that has so many cubes at this clock; one of no name has no known bandwidth."""
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
