"""Reads and analyses one input once, in the background, and keeps the results for all browsers."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.base.errors import HermesError, InputChangedError
from hermes.store.cache import Cache
from hermes.store.file_index import FilesRecord, Index, State
from hermes.store.input_files import Digests, walk
from hermes.version import __version__
from hermes.web import messages
from hermes.web.document_pages import json_value, summary
from hermes.web.json_answers import NotReadyError
from hermes.web.listed_tables import ListedTable, listed

if TYPE_CHECKING:
    # Loaded when needed: a kept study is shown without these modules.
    from hermes.model.report import Report
    from hermes.profiles.api import Loaded

Document = dict[str, object]
_NAME = "document.json"
_SUMMARY = "summary.json"
_LOADED = "loaded.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisProgress:
    """The progress of a study: `reading`, `analysing`, `ready` or `failed`, and the seconds since it began."""

    phase: str
    seconds: float
    error: HermesError | None = None


class AnalysisSession:
    """The tables of the profiles at some paths, and the document of their analysis.

    `known` are tables and an analysis that exist already. The cache keeps the document beside the tables, by their
    content and by the code that made it. The next server over the same unchanged files takes it from there without
    reading the files, and without loading readers and analysis.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        cache: Cache,
        *,
        capture: str = "",
        known: tuple[Loaded, Report] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.paths = tuple(paths)
        self._cache = cache
        self._capture = capture
        self._known = known
        self._clock = clock
        self._began = clock()
        self._took: float | None = None
        self._phase = "reading"
        self._error: HermesError | None = None
        self._loaded: Loaded | None = None
        self._document: Document | None = None
        self._folder: Path | None = None
        self._key = ""
        self._summary = b""
        self._tables: Mapping[str, ListedTable] | None = None
        self._whole: Report | None = None
        self._states: dict[str, State] | None = None
        self._once = threading.Lock()
        self._reading = threading.Lock()
        self._drawing = threading.Lock()

    def start(self) -> threading.Thread:
        """Begin in the background, in the returned thread."""
        thread = threading.Thread(target=self.run, name="hermes-study", daemon=True)
        thread.start()
        return thread

    def run(self) -> None:
        """Read and analyse now; an error becomes the state."""
        try:
            if self._known:
                from hermes.report.report_json import document

                self._loaded, report = self._known
                self._document = document(report)
            elif not self._recalled():
                self._made()
            self._phase = "ready"
        except HermesError as wrong:
            self._error, self._phase = wrong, "failed"
        except Exception as defect:  # noqa: BLE001 - whatever it is, the page must say that nothing more will come
            self._error = HermesError(
                messages.defect(error=repr(defect)), where=", ".join(map(str, self.paths)), lost=messages.LOST_ANALYSIS,
                hint=messages.DO_ANALYZE,
            )  # fmt: skip
            self._phase = "failed"
        self._took = self._clock() - self._began

    @property
    def state(self) -> AnalysisProgress:
        """The progress of the study at this moment."""
        seconds = self._clock() - self._began if self._took is None else self._took
        return AnalysisProgress(phase=self._phase, seconds=seconds, error=self._error)

    @property
    def loaded(self) -> Loaded:
        """The tables; raises `NotReadyError`, or the error of the study."""
        self._refuse()
        with self._reading:
            if self._loaded is None:
                self._loaded = self._restored() or self._again()
            return self._loaded

    @property
    def document(self) -> Document:
        """The document; raises `NotReadyError`, or the error of the study."""
        self._refuse()
        with self._once:
            if self._document is None:
                assert self._folder is not None
                try:
                    self._document = json.loads((self._folder / _NAME).read_bytes())
                except (OSError, ValueError) as gone:
                    raise HermesError(
                        messages.ANALYSIS_GONE, where=str(self._folder), lost=messages.LOST_NOT_SHOWN,
                        hint=messages.DO_RESTART,
                    ) from gone  # fmt: skip
            return self._document

    @property
    def tables(self) -> Mapping[str, ListedTable]:
        """The tables of the document by their keys; raises `NotReadyError`, or the error of the study."""
        if self._tables is None:
            self._tables = listed(self.document)
        return self._tables

    def summary(self) -> bytes:
        """The document's summary for pages; raises `NotReadyError`, or the error of the study."""
        self._refuse()
        if not self._summary:
            self._summary = summary(self.document)
        return self._summary

    def kept(self, name: str) -> Document | None:
        """The document kept under this name for the study, by this server or an earlier one."""
        folder = self.kept_in(name)
        try:
            found: Document | None = json.loads((folder / _NAME).read_bytes()) if folder else None
        except (OSError, ValueError):
            return None
        return found

    def kept_in(self, name: str) -> Path | None:
        """The folder with the kept files of that name."""
        entry = self._cache.find(_part(self._key, name)) if self._key else None
        return entry.folder if entry else None

    def keep(self, name: str, value: Document, beside: Callable[[Path], None] = lambda folder: None) -> None:
        """Keep a result of this study for the next server; a cache that cannot be written costs only time.

        `beside` writes further files into the folder it is given.
        """
        if not self._key:
            return
        with contextlib.suppress(HermesError, OSError), self._cache.making() as folder:
            (folder / _NAME).write_bytes(json_value(value))
            beside(folder)
            manifest = {"root": ", ".join(map(str, self.paths)), "format": name, "rank": None}
            self._cache.keep(_part(self._key, name), folder, manifest)

    def whole(self) -> Report:
        """The analysis with every stretch of its critical paths, as the timeline needs it; made when first asked
        for."""
        from hermes.profiles.api import ALL_STRETCHES, analyze

        loaded = self.loaded
        with self._drawing:
            if self._whole is None:
                self._whole = analyze(loaded, stretches=ALL_STRETCHES)
            return self._whole

    def _refuse(self) -> None:
        if self._error:
            raise self._error
        if self._phase != "ready":
            raise NotReadyError(messages.READING, hint=messages.DO_WAIT)

    def _record(self) -> FilesRecord:
        said = [
            __version__,
            _code(),
            self._capture,
            *map(str, self.paths),
            *(str(path.absolute()) for path in self.paths),
        ]
        return FilesRecord(self._cache.root, *said)

    def _recalled(self) -> bool:
        """Whether the document of these very files is in the cache; then the pages have it."""
        record = self._record()
        self._states = record.states(walk(self.paths))
        key = record.recall(self._states)
        entry = self._cache.find(key) if key else None
        if entry is None:
            return False
        try:
            self._summary = (entry.folder / _SUMMARY).read_bytes()
        except OSError:
            return False
        self._folder, self._key = entry.folder, entry.folder.name
        return True

    def _restored(self) -> Loaded | None:
        """The tables as they were when the document was made; None where some of them are missing."""
        from hermes.store.serialize_rows import WRONG
        from hermes.web.kept_input import kept_loaded

        if self._folder is None:
            return None
        try:
            loaded = kept_loaded(json.loads((self._folder / _LOADED).read_bytes()), self.paths)
        except WRONG:
            return None
        every = [*loaded.ranks, *(rank for role in loaded.roles for rank in role.ranks)]
        return loaded if all(self._cache.find(rank.folder.name) for rank in every) else None

    def _again(self) -> Loaded:
        """The tables read again; they must be the same as when the document was made. Raises `HermesError`."""
        loaded = self._read()
        if self._key != _key(loaded):
            raise InputChangedError(
                messages.INPUT_CHANGED, where=", ".join(map(str, self.paths)),
                lost=messages.LOST_ITS_TABLES, hint=messages.DO_START_AGAIN,
            )  # fmt: skip
        return loaded

    def _read(self) -> Loaded:
        from hermes.profiles.api import load

        with Digests(self.paths, Index(self._cache.root, self.paths)) as digests:
            return load(self.paths, self._cache, capture=self._capture, digests=digests)

    def _made(self) -> None:
        """Read and analyse, and keep the results."""
        from hermes.profiles.api import analyze
        from hermes.report.json_lines import dumps
        from hermes.report.report_json import document
        from hermes.web.kept_input import loaded_document

        loaded = self._read()
        self._phase = "analysing"
        key = _key(loaded)
        entry = self._cache.find(key)
        if entry is None:
            report = analyze(loaded)
            self._document = document(report)
            self._summary = summary(self._document)
            with self._cache.making() as folder:
                (folder / _NAME).write_text(dumps(self._document), "utf-8")
                (folder / _SUMMARY).write_bytes(self._summary)
                (folder / _LOADED).write_text(json.dumps(loaded_document(loaded)), "ascii")
                manifest = {"root": ", ".join(map(str, self.paths)), "format": "report", "rank": None}
                entry = self._cache.keep(key, folder, manifest)
        self._folder, self._key = entry.folder, key
        self._loaded = loaded
        self._record().keep(self._states, key)


def _key(loaded: Loaded) -> str:
    """A key of the tables' content, the names shown with them, and the code."""
    said = [__version__, _code(), *map(str, loaded.paths)]
    said += [f"{rank.rank} {rank.folder.name} {rank.root}" for rank in loaded.ranks]
    said += map(repr, (*loaded.notes, *loaded.files))
    return hashlib.sha256("\0".join(said).encode("utf-8", "surrogatepass")).hexdigest()


def _part(key: str, name: str) -> str:
    return hashlib.sha256(f"{key} {name}".encode()).hexdigest()


def _code() -> str:
    """A key of the code: between two releases an analysis changes without a new version."""
    hashed = hashlib.sha256()
    for path in sorted(Path(__file__).resolve().parents[1].rglob("*.py")):
        state = path.stat()
        hashed.update(f"{path}\0{state.st_size}\0{state.st_mtime_ns}\0".encode("utf-8", "surrogatepass"))
    return hashed.hexdigest()
