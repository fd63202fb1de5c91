"""What a check measures of a node: one number each, of which more is better."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hermes.base.message import Word


class Check(Word):
    """What is measured. The unit is in `UNITS`; more is better in all of them."""

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
        """Whether it is a rate."""
        return math.isfinite(self.value) and self.value > 0
