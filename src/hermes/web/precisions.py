"""The comparison of two recordings for the pages: made when first asked for, then a part of its table at a time."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from hermes.base.errors import HermesError, InputError
from hermes.precision.api import Comparison, compare, overview, rows
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
            raise InputError("no recordings were given", hint="hermes serve --precision GOLDEN TARGET")
        self._begun()
        if self._error:
            raise self._error
        if self._found is None:
            raise NotReadyError("the recordings are still being compared", hint="wait")
        if first < 0 or not 0 < count <= _MOST_ROWS:
            raise InputError("no such part of the table", where="rows", hint=f"at most {_MOST_ROWS} at once")
        return dict(rows(self._found, first=first, count=count, state=state, module=module))

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
            self._overview = dict(overview(found))
            self._found = found
        except HermesError as wrong:
            self._error = wrong
        except Exception as defect:  # noqa: BLE001 - whatever it is, the page must say that nothing more will come
            self._error = HermesError(f"a defect in Hermes ({defect!r})"[:500], lost="the comparison")
