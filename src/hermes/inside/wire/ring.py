"""The step ring of one rank: written in a few microseconds, readable by any watcher, and never waited for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hermes.inside.wire import shared_memory_file
from hermes.inside.wire.errors import LiveError
from hermes.inside.wire.open_files import OpenFile, is_locked
from hermes.inside.wire.step_record import AT, BODY, SIZE, unpack

MAGIC = b"HERMSTEP"
CAPACITY = 1024
"""Number of records in a ring. At 1 ms a step, a watcher that looks twice a second misses none."""
ROWS_AT = shared_memory_file.HEADER
"""Byte where the records begin. Each record carries its number: there is no count beside the records."""
CHECK_AT = BODY.size
"""Byte of a record where its checksum begins."""
LATE_NS = 10_000_000
"""Records of steps that end within this many ns of each other are written together: the latest ones may be missing."""
_INDEX = AT["index"]
_BLOCK = 128
_ALIVE = 0


class RingWriter:
    """The rank's side of a step ring. Only the process that made the ring writes it, and holds its lock."""

    def __init__(self, path: Path, about: Mapping[str, object], *, capacity: int = CAPACITY, base: int = 0) -> None:
        """Make the ring. An earlier process that this one follows has written `base` records before.

        Raises `LiveError` when there is no room, or when the file exists already.
        """
        self.path = path
        self.capacity = capacity
        self.base = self.count = base
        size = ROWS_AT + capacity * SIZE
        facts = {**about, "capacity": capacity, "record": SIZE, "base": base}
        self._file = OpenFile(
            shared_memory_file.create(path, MAGIC, size, facts), lambda: shared_memory_file.reopen(path)
        )
        self._file.lock(_ALIVE)

    def add(self, records: bytes | bytearray | memoryview) -> None:
        """Append packed records with one system call, over the oldest records when the ring is full."""
        place, many = self.count % self.capacity, len(records) // SIZE
        number = self._file.number
        if place + many > self.capacity:
            cut = (self.capacity - place) * SIZE
            os.pwrite(number, records[cut:], ROWS_AT)
            records = records[:cut]
        os.pwrite(number, records, ROWS_AT + place * SIZE)
        self.count += many

    def since(self, count: int) -> tuple[bytes, int]:
        """The records after the first `count`, packed one after the other, and the number of overwritten records among
        them."""
        first = max(count, self.count - self.capacity, self.base)
        parts = []
        number = first
        while number < self.count:
            place = number % self.capacity
            many = min(self.count - number, self.capacity - place)
            parts.append(os.pread(self._file.number, many * SIZE, ROWS_AT + place * SIZE))
            number += many
        return b"".join(parts), first - count

    def close(self) -> None:
        """Close the file and release its lock; the file stays for its readers."""
        self._file.close()


class RingReader:
    """A watcher's side of a step ring: returns new records, and counts missed records."""

    def __init__(self, path: Path) -> None:
        """Open a ring. Raises `LiveError` unless the file is a complete ring of this user, of a known version."""
        self.path = path
        self._descriptor, size, self.about = shared_memory_file.attach(path, MAGIC, writable=False)
        capacity, base = self.about.get("capacity"), self.about.get("base")
        sound = isinstance(capacity, int) and isinstance(base, int) and capacity >= 1 and base >= 0
        if not sound or size != ROWS_AT + capacity * SIZE:  # type: ignore[operator]
            self.close()
            raise LiveError(f"{path} does not hold the records that it claims")
        self.capacity = int(capacity)  # type: ignore[call-overload]
        self.seen = int(base)  # type: ignore[call-overload]
        self.missed = 0

    @property
    def alive(self) -> bool:
        """Whether the process that writes the ring lives."""
        return is_locked(self._descriptor, _ALIVE)

    def reads(self, path: Path) -> bool:
        """Whether this reader reads the file that is at `path` now: file names come again, with the numbers of
        processes."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), path.stat())
        except OSError:
            return False

    def skip(self, but: int) -> None:
        """Skip the existing records except the latest `but`; skipped records do not count as missed."""
        there = self._left()
        if there:
            self.seen = max(self.seen, there[-1][_INDEX] - but)

    def new(self) -> list[tuple[int, ...]]:
        """The records since the last call, oldest first; `missed` grows by the number of overwritten or damaged
        records.

        An overwritten or damaged record carries no fitting number, and counts as missed once a later record is there.
        """
        rows: list[tuple[int, ...]] = []
        while len(rows) < 2 * self.capacity:
            found = self._following()
            if not found and (self._row(self.seen + 1) or self._lapped()):
                # The next record is damaged, or the writer has come round: the remaining records begin behind it.
                found = self._left()
            if not found:
                return rows
            self.missed += found[0][_INDEX] - self.seen - 1
            self.seen = found[-1][_INDEX]
            rows += found
        return rows

    def _following(self) -> list[tuple[int, ...]]:
        """The consecutive valid records behind the last one read, at most one block."""
        place = self.seen % self.capacity
        raw = os.pread(self._descriptor, min(_BLOCK, self.capacity - place) * SIZE, ROWS_AT + place * SIZE)
        found: list[tuple[int, ...]] = []
        for at in range(0, len(raw), SIZE):
            row = unpack(raw[at : at + SIZE])
            if row is None or row[_INDEX] != self.seen + len(found) + 1:
                break
            found.append(row)
        return found

    def _lapped(self) -> bool:
        raw = os.pread(self._descriptor, SIZE, ROWS_AT + self.seen % self.capacity * SIZE)
        row = unpack(raw)
        return row is not None and row[_INDEX] > self.seen and (row[_INDEX] - 1 - self.seen) % self.capacity == 0

    def _left(self) -> list[tuple[int, ...]]:
        """All records of the ring behind the last one read that stand in their own place, up to the first gap."""
        raw = os.pread(self._descriptor, self.capacity * SIZE, ROWS_AT)
        rows = [unpack(raw[at : at + SIZE]) for at in range(0, len(raw) - SIZE + 1, SIZE)]
        fits = [row for place, row in enumerate(rows) if row and (row[_INDEX] - 1) % self.capacity == place]
        behind = sorted(row for row in fits if row[_INDEX] > self.seen)
        newest = behind[-1][_INDEX] if behind else 0
        # Random bytes with a number far ahead are not of the same round.
        behind = [row for row in behind if row[_INDEX] > newest - self.capacity]
        return behind[
            : next((at for at, row in enumerate(behind) if row[_INDEX] != behind[0][_INDEX] + at), len(behind))
        ]

    def _row(self, number: int) -> tuple[int, ...] | None:
        row = unpack(os.pread(self._descriptor, SIZE, ROWS_AT + number % self.capacity * SIZE))
        return row if row and row[_INDEX] == number + 1 else None

    def close(self) -> None:
        """Close the ring's file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
