"""One input that is being looked at: read and analysed once, in the background, and kept for all browsers."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import hermes
from hermes.base.errors import HermesError
from hermes.bundle.cache import Cache
from hermes.bundle.files import Digests
from hermes.report.document import document, to_json
from hermes.report.model import Report
from hermes.version import __version__
from hermes.workflow.analyze import analyze
from hermes.workflow.load import Loaded, load
from hermes.workflow.timeline import ALL_STRETCHES

Document = dict[str, object]
_NAME = "document.json"


class NotReadyError(HermesError):
    """The input is still being read or analysed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How far a study is: `reading`, `analysing`, `ready` or `failed`, and the seconds since it began."""

    phase: str
    seconds: float
    error: HermesError | None = None


class Study:
    """The tables of the paths and the document of their analysis.

    `known` are tables and an analysis that were made already. The document is kept in the cache beside the tables, by
    their content and by the code that made it: the next server over the same input has it at once.
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
        self._whole: Report | None = None
        self._once = threading.Lock()

    def start(self) -> threading.Thread:
        """Begin in the background."""
        thread = threading.Thread(target=self.run, name="hermes-study", daemon=True)
        thread.start()
        return thread

    def run(self) -> None:
        """Read and analyse now; what goes wrong becomes the state."""
        try:
            loaded, report = self._known or (self._read(), None)
            self._phase = "analysing"
            self._document = document(report) if report else self._kept(loaded)
            self._loaded = loaded
            self._phase = "ready"
        except HermesError as wrong:
            self._error, self._phase = wrong, "failed"
        except Exception as defect:  # noqa: BLE001 - whatever it is, the page must say that nothing more will come
            self._error = HermesError(
                f"a defect in Hermes ({defect!r})", where=", ".join(map(str, self.paths)), lost="the analysis",
                hint="run `hermes analyze` on the same input, and report what it prints",
            )  # fmt: skip
            self._phase = "failed"
        self._took = self._clock() - self._began

    @property
    def state(self) -> State:
        """Where it stands now."""
        seconds = self._clock() - self._began if self._took is None else self._took
        return State(phase=self._phase, seconds=seconds, error=self._error)

    @property
    def loaded(self) -> Loaded:
        """The tables; raises `NotReadyError`, or what went wrong."""
        self._refuse()
        assert self._loaded is not None
        return self._loaded

    @property
    def document(self) -> Document:
        """The document; raises `NotReadyError`, or what went wrong."""
        self._refuse()
        assert self._document is not None
        return self._document

    def whole(self) -> Report:
        """The analysis with every stretch of its paths, as the timeline needs it; made when first asked for."""
        loaded = self.loaded
        with self._once:
            if self._whole is None:
                self._whole = analyze(loaded, stretches=ALL_STRETCHES)
            return self._whole

    def _refuse(self) -> None:
        if self._error:
            raise self._error
        if self._phase != "ready":
            raise NotReadyError("the input is still being read", hint="wait")

    def _read(self) -> Loaded:
        with Digests(self.paths) as digests:
            return load(self.paths, self._cache, capture=self._capture, digests=digests)

    def _kept(self, loaded: Loaded) -> Document:
        key = _key(loaded)
        entry = self._cache.find(key)
        if entry:
            found = json.loads((entry.folder / _NAME).read_text("utf-8"))
            if isinstance(found, dict):
                return found
        report = analyze(loaded)
        with self._cache.making() as folder:
            (folder / _NAME).write_text(to_json(report), "utf-8")
            manifest = {"root": ", ".join(map(str, self.paths)), "format": "report", "rank": None}
            self._cache.keep(key, folder, manifest)
        return document(report)


def _key(loaded: Loaded) -> str:
    """Of the tables' content, the names shown with them, and the code."""
    said = [__version__, _code(), *map(str, loaded.paths)]
    said += [f"{rank.rank} {rank.folder.name} {rank.root}" for rank in loaded.ranks]
    said += [f"{note.level} {note.message} {note.where} {note.lost} {note.hint}" for note in loaded.notes]
    return hashlib.sha256("\0".join(said).encode("utf-8", "surrogatepass")).hexdigest()


def _code() -> str:
    """The state of the code: between two releases an analysis changes without the version."""
    hashed = hashlib.sha256()
    for path in sorted(Path(next(iter(hermes.__path__))).rglob("*.py")):
        state = path.stat()
        hashed.update(f"{path}\0{state.st_size}\0{state.st_mtime_ns}\0".encode("utf-8", "surrogatepass"))
    return hashed.hexdigest()
