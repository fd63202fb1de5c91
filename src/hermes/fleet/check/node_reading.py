"""The readings of a node check: one number each with its unit; higher is always better."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hermes.base.message import Word


class Check(Word):
    """The kinds of measurements. The unit of each is in `UNITS`; a higher value is better in all of them."""

    HOST_MATRIX = "host_matrix"
    HOST_MEMORY = "host_memory"
    DISK_WRITE = "disk_write"
    DISK_READ = "disk_read"
    DEVICE_MATRIX = "device_matrix"
    DEVICE_MEMORY = "device_memory"
    COPY_IN = "copy_in"
    COPY_OUT = "copy_out"
    ALL_REDUCE = "all_reduce"
    PAIR = "pair"


FLOPS, BYTES = "FLOP/s", "bytes/s"
UNITS = {check: FLOPS if check in (Check.HOST_MATRIX, Check.DEVICE_MATRIX) else BYTES for check in Check}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One number of one node at one time. `part` is a device, or the other node of a pair; `chip` names the device."""

    node: str
    at_ns: int
    check: Check
    value: float
    part: str = ""
    chip: str = ""

    @property
    def sound(self) -> bool:
        """Whether the value is finite and above 0."""
        return math.isfinite(self.value) and self.value > 0
