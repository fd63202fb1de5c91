"""The step log, written beside the training thread: what a slow disk cannot take waits, within a bound."""

from __future__ import annotations

from collections.abc import Callable

from hermes.inside.wire.beside import Beside
from hermes.inside.wire.record import SIZE
from hermes.inside.wire.ring import CAPACITY
from hermes.inside.wire.steplog import LogWriter

MOST = 4 << 20
"""Bytes of records that wait for the disk at most: some 16,000 steps."""


class Written:
    """Hands records to the log in a thread that lives only while it writes: who forks, forks without it."""

    def __init__(self, log: LogWriter, say: Callable[[str], None]) -> None:
        self._log = log
        self._say = say
        self._waiting: list[bytes] = []
        self._bytes = 0
        self._writing: Beside[None] | None = None
        self._failed = False
        self.dropped = 0

    def put(self, records: bytes) -> bool:
        """Take whole records; whether there was room. Never waits."""
        if self._failed:
            return True
        if self._bytes + len(records) > MOST:
            self.dropped += len(records) // SIZE
            self._say("the disk is slower than the steps: some are missing in the step log")
            return False
        self._waiting.append(records)
        self._bytes += len(records)
        if self._writing is None or self._writing.done():
            self._writing = Beside(self._write)
        return True

    def _write(self) -> None:
        while self._waiting:
            records = self._waiting.pop(0)
            try:
                self._log.append(records)
            except OSError as refused:
                self._failed = True
                self._waiting.clear()
                self._log.close()
                self._say(f"the step log ends here ({refused.strerror}); the monitor goes on without it")
            self._bytes = sum(map(len, self._waiting))

    def settled(self, patience_s: float) -> bool:
        """Whether all is written, or is so in that time."""
        if self._writing is not None and not self._writing.done(patience_s):
            return False
        if self._waiting:
            self._writing = Beside(self._write)
            return self._writing.done(patience_s)
        return True

    def close(self, patience_s: float) -> bool:
        """Write what waits and close the log; False when the disk did not take it in that time."""
        settled = self.settled(patience_s)
        # The latest stay in the ring, and are written by whoever comes next; those before them are nowhere else.
        lost = self.dropped if settled else max(self.dropped + self._bytes // SIZE - CAPACITY, 0)
        if lost:
            self._say(f"{lost} records are lost: the disk of the step log was too slow")
        if not settled:
            return False
        self._log.close()
        return not self.dropped and not self._failed
