"""Finds lines of the user's code for findings, by the names that findings blame and the purpose of calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from statistics import median

from hermes.base.message import Message
from hermes.knowledge.host_work import (
    CHECKPOINT,
    CHECKS,
    COLLECTIVES,
    COMPILATION,
    CONVERSION,
    DATA,
    GC,
    OPTIMIZER,
    SYNCHRONISATION,
    WAITING,
)
from hermes.knowledge.user_code import frame_of
from hermes.model.code_measures import CodeLine, NamedLine
from hermes.model.fault import Fault
from hermes.model.finding import Loss
from hermes.model.job import JobMeasures

_SHOWN = 2
_NOTABLE = 0.05
"""The least share of its step by which a rank must be later in a function for the function to be the cause."""
_LEAST = 0.3
"""The least share of a name's time that must come from a line, so that the line stands for the name."""
_EVENTS: dict[Fault, str] = {
    Fault.GARBAGE_COLLECTION: GC,
    Fault.COMPILATION: COMPILATION,
    Fault.COMPILATION_OF_NEW_SHAPES: COMPILATION,
    Fault.CHECKPOINT_OR_LOGGING: CHECKPOINT,
    Fault.TENSORS_IN_FILES: CHECKPOINT,
    Fault.DETAILED_LOGS: CHECKPOINT,
    Fault.LISTS_TO_TENSORS: CONVERSION,
    Fault.CHECKS_OF_NUMBERS: CHECKS,
    Fault.CHECKS_FOR_DEBUGGING: CHECKS,
    Fault.UNFUSED_OPTIMIZER: OPTIMIZER,
    Fault.EXPLICIT_SYNCHRONISATION: SYNCHRONISATION,
    Fault.SMALL_COLLECTIVES: COLLECTIVES,
    Fault.SYNCHRONISING_CALL: WAITING,
    Fault.WORKERS_STARTED_ANEW: DATA,
    Fault.TOO_FEW_WORKERS: DATA,
    Fault.BATCHES_OF_MANY_TENSORS: DATA,
    Fault.SLOW_SAMPLE: DATA,
    Fault.NO_CORE_FOR_WORKERS: DATA,
}
"""Faults that are kinds of calls, each with its kind."""
_IN_LOADER = (Fault.DATA_LOADING, Fault.DATA_READING, Fault.DATA_PROCESSING)


def with_lines(findings: Iterable[Loss], measures: JobMeasures) -> tuple[Loss, ...]:
    """The findings, each with the lines of the user's code that are known for it."""
    index = _Index(measures)
    return tuple(one if one.lines else replace(one, lines=index.of(one)) for one in findings)


class _Index:
    """The lines of code of all ranks, by the operator, kernel or call they belong to."""

    def __init__(self, measures: JobMeasures) -> None:
        self._named: dict[tuple[str, str], list[NamedLine]] = {}
        for row in measures.rows(NamedLine):
            if row.share >= _LEAST:
                self._named.setdefault((row.kind, row.name), []).append(row)
        self._lines = tuple(measures.rows(CodeLine))

    def of(self, finding: Loss) -> tuple[str, ...]:
        """The lines of a finding: first the line from which most of its time comes."""
        late = next((blame.rank for blame in finding.blames if blame.is_rank), None)
        if finding.fault is Fault.STRAGGLER and late is not None:
            return tuple(self._beyond(late))[:1]
        told = [_said(blame) for blame in finding.blames if blame.kind == "line"]
        found = [*told, *self._rows(finding)]
        return tuple(dict.fromkeys(found))[:_SHOWN]

    def _rows(self, finding: Loss) -> Iterator[str]:
        if finding.fault in _IN_LOADER:
            yield from self._inside(DATA)
        what = (finding.fault and _EVENTS.get(finding.fault)) or (DATA if finding.fault in _IN_LOADER else None)
        if what:
            yield from self._of(("event",), (what,), finding.ranks)
        names = [*map(str, finding.blames), *_names(finding)]
        yield from self._of(("operator", "kernel", "call"), names, finding.ranks)

    def _beyond(self, late: int) -> Iterator[str]:
        """The functions that take longer on one rank than on others, with all their calls; largest excess first.

        A function that the other ranks do not call counts in full.
        """
        others = {row.rank for row in self._lines if row.rank != late}
        totals: dict[tuple[str, str], dict[int, int]] = {}
        for row in self._lines:
            totals.setdefault(_key(row), {})[row.rank] = row.total_ns or row.own_ns
        more = [
            (totals[_key(row)][late] - round(median(totals[_key(row)].get(rank, 0) for rank in others)), row)
            for row in self._lines
            if others and row.rank == late and row.place
        ]
        worst = max((row.total_ns or row.own_ns for row in self._lines if row.rank == late), default=0)
        found = [(ns, row) for ns, row in more if ns >= _NOTABLE * worst]
        yield from (row.said for _, row in sorted(found, key=lambda one: (-one[0], one[1].place)))

    def _inside(self, what: str) -> Iterator[str]:
        rows = (row for row in self._lines if row.within == what and row.place)
        yield from (row.said for row in sorted(rows, key=lambda one: (-one.own_ns, one.place)))

    def _of(self, kinds: Iterable[str], names: Iterable[str], ranks: tuple[int, ...]) -> Iterator[str]:
        rows = [
            row
            for name in dict.fromkeys(names)
            for kind in kinds
            for row in self._named.get((kind, name), ())
            if not ranks or row.rank in ranks
        ]
        yield from (row.line for row in sorted(rows, key=lambda one: (-one.ns, one.line)))


def _key(row: CodeLine) -> tuple[str, str]:
    """The file and function of a row, whatever line of the function the row names on a rank."""
    return row.place.rsplit(":", 1)[0], row.function


def _said(line: str) -> str:
    """A line in the form that rows of code have; a line that names no frame is unchanged."""
    frame = frame_of(line)
    return frame.said if frame else line


def _names(finding: Loss) -> Iterator[str]:
    for item in finding.evidence:
        if isinstance(item.what, Message):
            yield from (one.value for one in item.what.arguments if one.name == "name")
