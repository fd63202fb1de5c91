"""The migration of a source tree for the pages: scanned and converted in a style when first asked for."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from hermes.base.errors import HermesError, InputError
from hermes.migrate.api import Style, Target, TreeChange, TreeScan, convert, file_view, scan, scan_document
from hermes.model.document import CodeText
from hermes.report.document_json import document_values
from hermes.report.findings_json import finding_document
from hermes.web import messages
from hermes.web.json_answers import LONGEST_DEFECT, NotReadyError


@dataclass
class _Made:
    """One conversion: its start time, and its result."""

    began: float = field(default_factory=time.monotonic)
    error: HermesError | None = None
    scan: TreeScan | None = None
    change: TreeChange | None = None


def _overview(found: TreeScan, change: TreeChange) -> dict[str, object]:
    """The result of a scan, with the amount of results for each file; the page asks for files one by one."""
    document = scan_document(found, change)
    parts = tuple(part for part in document.parts if not isinstance(part, CodeText) and part.key != "apis")
    return document_values(replace(document, findings=(), parts=parts))


class Migration:
    """The migration of one source tree to Ascend; `source` is None where none was given."""

    def __init__(self, source: Path | None) -> None:
        self._source = source
        self._made: dict[Style, _Made] = {}
        self._lock = threading.Lock()

    def found(self, style: str) -> dict[str, object]:
        """The progress of a conversion, and once it is ready its answer with the files; raises the error of the
        conversion."""
        if self._source is None:
            return {"source": None}
        made = self._begun(style)
        if made.error:
            raise made.error
        if made.scan is None or made.change is None:
            return {"source": str(self._source), "seconds": round(time.monotonic() - made.began, 3)}
        return {"source": str(self._source), "found": _overview(made.scan, made.change)}

    def file(self, style: str, path: str) -> dict[str, object]:
        """The places and the diff of one file; raises `InputError`, or `NotReadyError`."""
        if self._source is None:
            raise InputError(messages.NO_SOURCE, hint=messages.DO_GIVE_SOURCE)
        made = self._begun(style)
        if made.error:
            raise made.error
        if made.scan is None or made.change is None:
            raise NotReadyError(messages.SCANNING, hint=messages.DO_WAIT)
        findings, diff = file_view(made.scan, made.change, path)
        lines = diff.text.splitlines() if diff is not None else []
        return {"path": path, "findings": [finding_document(one) for one in findings], "diff": lines}

    def _begun(self, style: str) -> _Made:
        known = {one.value: one for one in Style}
        if style not in known:
            raise InputError(f"there is no style {style}"[:80], where="style", hint=" or ".join(known))
        with self._lock:
            made = self._made.get(known[style])
            if made is None:
                made = self._made[known[style]] = _Made()
                threading.Thread(
                    target=self._make, args=(made, known[style]), name="hermes-migrate", daemon=True
                ).start()
            return made

    def _make(self, made: _Made, style: Style) -> None:
        assert self._source is not None
        try:
            scanned = scan(self._source, Target())
            made.change = convert(self._source, Target(), style)
            made.scan = scanned
        except HermesError as wrong:
            made.error = wrong
        except Exception as defect:  # noqa: BLE001 - whatever it is, the page must say that nothing more will come
            made.error = HermesError(messages.defect(error=repr(defect)[:LONGEST_DEFECT]), lost=messages.LOST_SCAN)
