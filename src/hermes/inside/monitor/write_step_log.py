"""Writes the step log beside the training thread: records wait, within a bound, for a slow disk."""

from __future__ import annotations

from collections.abc import Callable

from hermes.inside.wire.background_calls import BackgroundCall
from hermes.inside.wire.ring import CAPACITY
from hermes.inside.wire.step_record import SIZE
from hermes.inside.wire.steplog import LogWriter

MOST = 4 << 20
"""Largest number of bytes of records that wait for the disk: some 16,000 steps."""


class StepLogWriter:
    """A writer that hands records to the log in a thread, which lives only while it writes: a forked child does not
    inherit it."""

    def __init__(self, log: LogWriter, say: Callable[[str], None]) -> None:
        self._log = log
        self._say = say
        self._waiting: list[bytes] = []
        self._bytes = 0
        self._writing: BackgroundCall[None] | None = None
        self._failed = False
        self.dropped = 0

    def put(self, records: bytes) -> bool:
        """Take whole records; returns whether there was room. Never waits."""
        if self._failed:
            return True
        if self._bytes + len(records) > MOST:
            self.dropped += len(records) // SIZE
            self._say("the disk is slower than the steps: some are missing in the step log")
            return False
        self._waiting.append(records)
        self._bytes += len(records)
        if self._writing is None or self._writing.done():
            self._writing = BackgroundCall(self._write)
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
        """Whether all records are written, or are written within `patience_s` seconds."""
        if self._writing is not None and not self._writing.done(patience_s):
            return False
        if self._waiting:
            self._writing = BackgroundCall(self._write)
            return self._writing.done(patience_s)
        return True

    def close(self, patience_s: float) -> bool:
        """Write the waiting records and close the log; False when the disk did not take them within `patience_s`
        seconds."""
        settled = self.settled(patience_s)
        # The latest records stay in the ring, and the next process of the rank writes them; older records exist nowhere
        # else.
        lost = self.dropped if settled else max(self.dropped + self._bytes // SIZE - CAPACITY, 0)
        if lost:
            self._say(f"{lost} records are lost: the disk of the step log was too slow")
        if not settled:
            return False
        self._log.close()
        return not self.dropped and not self._failed
