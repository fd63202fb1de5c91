"""The comparison of two recordings for the pages: made when first asked for, then a part of its table at a time."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from hermes.base.errors import HermesError, InputError
from hermes.precision.api import Comparison, compare, notes, overview, part_of
from hermes.report.document_json import document_values, value_of
from hermes.web.answers import NotReadyError

_MOST_ROWS = 200


class Precision:
    """Where two runs part; `pair` is the golden run and its target, None where none were given."""

    def __init__(self, pair: tuple[Path, Path] | None) -> None:
        self._pair = pair
        self._lock = threading.Lock()
        self._began: float | None = None
        self._error: HermesError | None = None
        self._found: Comparison | None = None
        self._overview: dict[str, object] = {}

    def found(self) -> dict[str, object]:
        """How far it is, and once it is there all but the table; raises what went wrong."""
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
        """A part of the table; raises `InputError`, or `NotReadyError`."""
        if self._pair is None:
            raise InputError(notes.NONE_GIVEN, hint=notes.HOW_TO_GIVE)
        self._begun()
        if self._error:
            raise self._error
        if self._found is None:
            raise NotReadyError(notes.COMPARING, hint=notes.WAIT)
        if first < 0 or not 0 < count <= _MOST_ROWS:
            raise InputError(notes.NO_SUCH_PART, where="rows", hint=notes.at_once(n=_MOST_ROWS))
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
            # In this process: one that is forked out of a server with threads may hang.
            found = compare(*self._pair, jobs=1)
            self._overview = document_values(overview(found))
            self._found = found
        except HermesError as wrong:
            self._error = wrong
        except Exception as defect:  # noqa: BLE001 - whatever it is, the page must say that nothing more will come
            self._error = HermesError(notes.defect(error=repr(defect)[:300]), lost=notes.THEIR_COMPARISON)
