"""The step ring of one rank: written in a microsecond, read by anyone who may, never waited for."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from pathlib import Path

from hermes.live import segment
from hermes.live.errors import LiveError
from hermes.live.record import AT, BODY, SIZE, unpack

MAGIC = b"HERMSTEP"
CAPACITY = 1024
"""Records in a ring. At 1 ms a step a watcher that looks twice a second still misses none."""
COUNT_AT = segment.HEADER
"""Where the number of records written stands."""
ROWS_AT = segment.HEADER + 64
"""Where the records begin."""
COUNT = struct.Struct("<Q")
CHECK_AT = BODY.size
"""Where the checksum of a record stands, in it."""
_INDEX = AT["index"]


class RingWriter:
    """The rank's side. Only the process that made it writes it."""

    def __init__(self, path: Path, about: Mapping[str, object], *, capacity: int = CAPACITY, base: int = 0) -> None:
        """`base` records were written before, by a process that this one follows.

        Raises `LiveError` when there is no room, or when the file is there already.
        """
        self.path = path
        self.capacity = capacity
        self.base = self.count = base
        size = ROWS_AT + capacity * SIZE
        self._map = segment.create(path, MAGIC, size, {**about, "capacity": capacity, "record": SIZE, "base": base})
        self.view = memoryview(self._map)
        COUNT.pack_into(self._map, COUNT_AT, base)

    def add(self, record: bytes) -> None:
        """Append a packed record, over the oldest when the ring is full. The count goes up last.

        The monitor does the same in place, and tells `count` before it asks for `since`.
        """
        at = ROWS_AT + self.count % self.capacity * SIZE
        self.view[at : at + SIZE] = record
        self.count += 1
        COUNT.pack_into(self.view, COUNT_AT, self.count)

    def since(self, count: int) -> tuple[bytes, int]:
        """The records after the first `count`, packed one after the other, and how many of them were overwritten."""
        first = max(count, self.count - self.capacity, self.base)
        parts = [self._part(number) for number in range(first, self.count)]
        return b"".join(parts), first - count

    def _part(self, number: int) -> bytes:
        at = ROWS_AT + (number % self.capacity) * SIZE
        return bytes(self.view[at : at + SIZE])

    def close(self) -> None:
        """Unmap; the file stays for those who still read it."""
        self.view.release()
        self._map.close()


class RingReader:
    """A watcher's side: hands out what is new, and counts what it missed."""

    def __init__(self, path: Path) -> None:
        """Raises `LiveError` unless the file is a ring of this user, whole and of a known version."""
        self.path = path
        self._map: mmap.mmap
        self._map, self.about = segment.attach(path, MAGIC, writable=False)
        capacity, base = self.about.get("capacity"), self.about.get("base")
        sound = isinstance(capacity, int) and isinstance(base, int) and capacity >= 1 and base >= 0
        if not sound or len(self._map) != ROWS_AT + capacity * SIZE:  # type: ignore[operator]
            self._map.close()
            raise LiveError(f"{path} does not hold the records that it claims")
        self.capacity = int(capacity)  # type: ignore[call-overload]
        self.seen = int(base)  # type: ignore[call-overload]
        self.missed = 0

    @property
    def count(self) -> int:
        """Records written so far; what a damaged ring claims is not believed further than its reader can tell."""
        return int(COUNT.unpack_from(self._map, COUNT_AT)[0])

    def new(self) -> list[tuple[int, ...]]:
        """The records since the last call, oldest first; `missed` grows by those that cannot be had any more.

        One that is overwritten while it is read fails its checksum or carries another number, and counts as missed.
        """
        count = self.count
        if count < self.seen:
            self.seen = count
        first = max(self.seen, count - self.capacity)
        # A count of random bytes would be believed for ever: what is not there at its own place was never written.
        if self._row(count - 1) is None and count > self.seen:
            return []
        self.missed += first - self.seen
        rows = []
        for number in range(first, count):
            row = self._row(number)
            if row is None:
                self.missed += 1
            else:
                rows.append(row)
        self.seen = count
        return rows

    def _row(self, number: int) -> tuple[int, ...] | None:
        at = ROWS_AT + (number % self.capacity) * SIZE
        row = unpack(self._map[at : at + SIZE])
        return row if row and row[_INDEX] == number + 1 else None

    def close(self) -> None:
        """Unmap."""
        self._map.close()
