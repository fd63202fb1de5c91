"""Packs one step of one rank as 32 integers: the row of step rings and step logs."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Final

NULL: Final = -(1 << 63)
"""The integer for a number that was not measured; a missing number is never 0."""

FIELDS: Final[Mapping[str, str]] = {
    "index": "number of the record, from 1; tells what a reader has missed",
    "step": "number of the step, as the job counts it",
    "end_ns": "end of the step, nanoseconds since 1970",
    "wall_ns": "from the end of the step before to the end of this one",
    "flags": "what is special about the step: sum of `FLAGS`",
    "batches": "batches taken from data loaders",
    "samples": "samples, where the job says so",
    "tokens": "tokens, where the job says so",
    "data_ns": "time in which the stepping thread waited in a data loader",
    "data_cpu_ns": "part of it that this thread computed itself; measured once waits take 0.1 ms, at most each 2 ms",
    "forward_ns": "host time from the last batch to the backward pass, summed over micro-batches",
    "backward_ns": "host time in backward passes",
    "optimizer_ns": "host time in optimizers' steps",
    "save_ns": "time in torch.save",
    "gc_ns": "time in Python's garbage collector, on any thread, while no profiler records",
    "gc_count": "collections, while no profiler records",
    "cpu_ns": "time on a CPU, stepping thread, since the last record that has it",
    "delay_ns": "time runnable but waiting for a CPU, stepping thread (schedstat), since the last record that has it",
    "slices": "times that the stepping thread was put on a CPU (schedstat), since the last record that has it",
    "process_cpu_ns": "CPU time of all threads of the process, since the last record that has it",
    "voluntary": "voluntary context switches of the stepping thread, since the last record that has them",
    "involuntary": "involuntary context switches of the stepping thread, since the last record that has them",
    "minor_faults": "page faults of the process without input, since the last record that has them",
    "major_faults": "page faults of the process that read a disk, since the last record that has them",
    "rss_bytes": "resident memory",
    "device_bytes": "memory that the framework has allocated on its device",
    "comm_ns": "host time in torch.distributed's collectives and in waits for them; of DDP on a CPU, the step before",
    "comm_bytes": "bytes handed to these calls",
    "device_ns": "time of a step on the device, from events: this one, or an earlier one when the device is behind",
    "transfer_ns": "host time in calls that copy a tensor to the device, where they are wrapped or the job measures it",
    "overhead_ns": "time that the monitor itself took at the end of the step before",
    "check": "checksum of the fields before it",
}
"""Name and meaning of each field of a step record, in order; all are signed 64-bit integers, `NULL` where not measured.

Fields from `cpu_ns` on are read at most every 10 ms; with longer steps, every fourth step or every 50 ms. Fields from
`process_cpu_ns` to `device_bytes` are read four times a second. Such counters are in the record of the step that ends
at the reading, and sums over many steps are exact.
"""

FLAGS: Final[Mapping[str, int]] = {
    "first": 1,
    "profiled": 2,
    "checkpoint": 4,
    "evaluation": 8,
    "resumed": 16,
    "foreign_profiler": 32,
    "lost_before": 64,
}
"""Bits of a record's `flags`. `first`: the step begins where the monitor began; `profiled`: a capture ran in the step
or was written in it; `resumed`: the count of steps jumped; `foreign_profiler`: the job's own profiler ran."""

SIZE: Final = 8 * len(FIELDS)
_ROW = struct.Struct(f"<{len(FIELDS)}q")
BODY: Final = struct.Struct(f"<{len(FIELDS) - 1}q")
"""All fields of a record but the last."""
AT: Final[Mapping[str, int]] = {name: place for place, name in enumerate(FIELDS)}
"""Field name to its place in a record."""


def pack(*values: int) -> bytes:
    """A packed record of all fields but the last, which is computed. Raises `struct.error` beyond 64 bits."""
    body = BODY.pack(*values)
    return body + zlib.crc32(body).to_bytes(8, "little")


def unpack(raw: bytes) -> tuple[int, ...] | None:
    """All fields of a record; None when the record is damaged or was being written."""
    if len(raw) != SIZE:
        return None
    row = _ROW.unpack(raw)
    return row if row[-1] == zlib.crc32(raw[: BODY.size]) else None
