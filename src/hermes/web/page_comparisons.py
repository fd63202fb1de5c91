"""Comparisons for the pages: the study beside earlier runs, each read and compared when first asked for."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

from hermes.base.errors import HermesError, InputError
from hermes.base.say import read_told
from hermes.model.fault import Fault
from hermes.profiles.api import ComparedFinding, ComparedRun, compare, run_of
from hermes.report.comparison_output import comparison_document
from hermes.web import messages
from hermes.web.analysis_session import AnalysisSession, Document
from hermes.web.document_pages import Page, TableRequest, listed_page
from hermes.web.json_answers import NotReadyError
from hermes.web.listed_tables import ListedTable, listed

PREFIX = "compare."
"""Prefix of the table names of a comparison."""
_LISTS = frozenset({"operators", "kernels", "host", "settings"})


class _Made:
    """One comparison: its progress, and its result."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.error: HermesError | None = None
        self.document: Document | None = None
        self.tables: Mapping[str, ListedTable] = {}


class Compares:
    """The comparisons of one study with the runs before it."""

    def __init__(self, study: AnalysisSession, against: Sequence[AnalysisSession]) -> None:
        self._study = study
        self._against = tuple(against)
        self._made: dict[int, _Made] = {}
        self._own: ComparedRun | None = None
        self._lock = threading.Lock()

    def found(self, before: int) -> dict[str, object]:
        """The available runs and, for the requested run, the comparison's progress and result.

        Raises `InputError` for an unknown run, or the error of its comparison.
        """
        names = [", ".join(map(str, one.paths)) for one in self._against]
        answer: dict[str, object] = {"runs": names, "own": ", ".join(map(str, self._study.paths))}
        if not names:
            return answer
        made = self._begun(before)
        if made.error:
            raise made.error
        if made.document is None:
            now = self._against[before].state
            phase = "comparing" if now.phase == "ready" else now.phase
            return answer | {"phase": phase, "seconds": round(time.monotonic() - made.began, 3)}
        rows = {name: len(table.rows) for name, table in made.tables.items()}
        said = {name: value for name, value in made.document.items() if name not in _LISTS}
        return answer | {"phase": "ready", "found": said, "rows": rows}

    def page(self, before: int, ask: TableRequest) -> Page:
        """A stretch of a table of a comparison, named `compare.kernels` and so on; raises `InputError`, or
        `NotReadyError`."""
        made = self._begun(before)
        if made.error:
            raise made.error
        if made.document is None:
            raise NotReadyError(messages.COMPARING, hint=messages.DO_WAIT)
        table = made.tables.get(ask.table.removeprefix(PREFIX))
        return listed_page(table or ListedTable(key=ask.table, columns=(), rows=()), ask)

    def _begun(self, before: int) -> _Made:
        if not 0 <= before < len(self._against):
            raise InputError(messages.no_run(run=str(before)), where="before")
        self._study.document  # noqa: B018 - the comparison waits until the study itself is ready
        with self._lock:
            if before not in self._made:
                self._made[before] = _Made()
                made, other = self._made[before], self._against[before]
                threading.Thread(target=self._make, args=(made, other), name="hermes-compare", daemon=True).start()
            return self._made[before]

    def _make(self, made: _Made, other: AnalysisSession) -> None:
        try:
            other.run()
            first = _run(other)
            with self._lock:
                own = self._own
            self._own = own or _run(self._study)
            document = comparison_document(compare(first, self._own))
            made.tables = listed(document)
            made.document = document
        except HermesError as wrong:
            made.error = wrong
        except Exception as defect:  # noqa: BLE001 - whatever it is, the page must say that nothing more will come
            made.error = HermesError(messages.defect(error=repr(defect)), lost=messages.LOST_COMPARISON)


def _run(study: AnalysisSession) -> ComparedRun:
    found = study.document["findings"]
    assert isinstance(found, list)
    return run_of(study.loaded, [_found(row) for row in found])


def _found(row: Mapping[str, object]) -> ComparedFinding:
    cost, blames = row["cost_ms"], row["blames"]
    assert isinstance(cost, (int, float))
    assert isinstance(blames, list)
    return ComparedFinding(
        code=str(row["code"]), fault=None if row["fault"] is None else Fault(str(row["fault"])),
        message=read_told(_values(row["message"])), blames=tuple(str(one["name"]) for one in blames),
        cost_ns=round(cost * 1e6),
    )  # fmt: skip


def _values(found: object) -> Mapping[str, object]:
    assert isinstance(found, Mapping)
    return found
