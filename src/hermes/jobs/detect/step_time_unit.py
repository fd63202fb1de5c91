"""Chooses the unit that step times are divided by, from the first steps: tokens, samples, batches or none."""

from __future__ import annotations

from collections import deque
from statistics import median

from hermes.inside.wire.step_record import AT, FLAGS

UNITS = ("tokens", "samples", "batches")
DECIDED_AFTER = 32
_SHARE = 0.75
_LATEST = 33
LEFT_OUT = sum(FLAGS[name] for name in ("first", "profiled", "checkpoint", "evaluation", "foreign_profiler"))
"""Flags of steps that are longer for a known reason: their time says nothing about the job."""
_UNUSUAL = FLAGS["first"] | FLAGS["profiled"] | FLAGS["foreign_profiler"]

Row = tuple[int, ...]


class StepTimeUnit:
    """The unit of work of one rank. A step without work counts as one of usual size: a loop that fetches ahead ends
    each epoch with a step that takes no batch."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.decided = False
        self._place = 0
        self._latest: deque[int] = deque(maxlen=_LATEST)

    def decide(self, rows: list[Row]) -> None:
        """Choose the unit from these records: the first unit that three quarters of them have."""
        self.decided = True
        usual = [row for row in rows if not row[AT["flags"]] & _UNUSUAL] or rows
        for name in UNITS:
            known = [row[AT[name]] for row in usual if row[AT[name]] > 0]
            if len(known) >= _SHARE * len(usual):
                self.name, self._place = name, AT[name]
                self._latest.extend(known[-_LATEST:])
                return

    def work(self, row: Row) -> int:
        """The work of a step in the unit; 0 where there is none."""
        if self.name is None:
            return 0
        amount = row[self._place]
        if amount <= 0:
            return int(median(self._latest))
        self._latest.append(amount)
        return amount
