"""The comparison of two recordings for the pages, made when first asked for, its table sent in parts."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from hermes.base.errors import HermesError, InputError
from hermes.precision.api import Comparison, compare, overview, part_of, recording_notes
from hermes.report.document_json import document_values, value_of
from hermes.web.json_answers import NotReadyError

_MOST_ROWS = 200


class Precision:
    """The comparison of two runs' recordings; `pair` is the golden run and its target, None where none were given."""

    def __init__(self, pair: tuple[Path, Path] | None) -> None:
        self._pair = pair
        self._lock = threading.Lock()
        self._began: float | None = None
        self._error: HermesError | None = None
        self._found: Comparison | None = None
        self._overview: dict[str, object] = {}

    def found(self) -> dict[str, object]:
        """The progress of the comparison, and once it is ready all but the table; raises the comparison's error."""
        if self._pair is None:
            return {"golden": None}
        began = self._begun()
        golden, target = map(str, self._pair)
        if self._error:
            raise self._error
        if self._found is None:
            return {"golden": golden, "target": target, "seconds": round(time.monotonic() - began, 3)}
        return {"golden": golden, "target": target, "found": self._overview}

    def rows(self, first: int, count: int, state: str, module: str) -> dict[str, object]:
        """A part of the comparison's table; raises `InputError`, or `NotReadyError`."""
        if self._pair is None:
            raise InputError(recording_notes.NONE_GIVEN, hint=recording_notes.HOW_TO_GIVE)
        self._begun()
        if self._error:
            raise self._error
        if self._found is None:
            raise NotReadyError(recording_notes.COMPARING, hint=recording_notes.WAIT)
        if first < 0 or not 0 < count <= _MOST_ROWS:
            raise InputError(recording_notes.NO_SUCH_PART, where="rows", hint=recording_notes.at_once(n=_MOST_ROWS))
        part = part_of(self._found, first=first, count=count, state=state, module=module)
        keys = [column.key for column in part.columns]
        rows = [dict(zip(keys, map(value_of, row), strict=True)) for row in part.rows]
        return {"matching": part.total, "first": first, "rows": rows}

    def _begun(self) -> float:
        with self._lock:
            if self._began is None:
                self._began = time.monotonic()
                threading.Thread(target=self._make, name="hermes-precision", daemon=True).start()
            return self._began

    def _make(self) -> None:
        assert self._pair is not None
        try:
            # The comparison runs in this process: a process that is forked out of a server with threads may hang.
            found = compare(*self._pair, jobs=1)
            self._overview = document_values(overview(found))
            self._found = found
        except HermesError as wrong:
            self._error = wrong
        except Exception as defect:  # noqa: BLE001 - whatever it is, the page must say that nothing more will come
            self._error = HermesError(
                recording_notes.defect(error=repr(defect)[:300]), lost=recording_notes.THEIR_COMPARISON
            )
