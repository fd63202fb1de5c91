"""Jobs that many tests share: the first worker that needs a job writes, reads and analyses it, once in a run."""

from __future__ import annotations

import fcntl
import hashlib
import pickle
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.skips import profiles

from hermes.model.report import Report
from hermes.profiles.load import Loaded, load
from hermes.profiles.pipeline.analyze import analyze
from hermes.store.cache import Cache
from hermes_testing import Format, Job, generate

TWO, FOUR = Job(ranks=2, steps=3, layers=2), Job(ranks=4, steps=3, layers=4)
"""The jobs of most tests of planted faults, so that these tests share them."""
_PATIENCE_S = 600.0
"""Longer than any input takes to be written, read and analysed by another worker."""
_LOOK_AGAIN_S = 0.05


class Jobs:
    """Modelled jobs and real profiles below `root`, which all workers of a run share.

    Each call for a report gives a copy of its own, which no other test sees.
    """

    def __init__(self, root: Path, *, patience_s: float = _PATIENCE_S) -> None:
        self._root = root
        self._patience_s = patience_s
        self.cache = Cache(root / "tables")
        self._loaded: dict[Path, Loaded] = {}
        self._reports: dict[Path, bytes] = {}
        root.mkdir(exist_ok=True)

    def folder(self, job: Job, form: Format) -> Path:
        """The job in this format, with its `truth.json`."""
        folder = self._root / _named(f"{job!r} {form}")
        with self._alone(folder):
            if not folder.exists():
                generate(folder.with_suffix(".making"), job, formats=[form]).rename(folder)
        return folder

    def loaded(self, job: Job, form: Format) -> Loaded:
        return self._load(self.folder(job, form))

    def report(self, job: Job, form: Format) -> Report:
        return self._report(self.folder(job, form))

    def real(self, name: str) -> Loaded:
        """A real profile by its path below the shared folder; skips where there is none."""
        return self._load(profiles() / name)

    def real_report(self, name: str) -> Report:
        return self._report(profiles() / name)

    def _load(self, path: Path) -> Loaded:
        if path not in self._loaded:
            with self._alone(path):
                self._loaded[path] = load([path], self.cache)
        return self._loaded[path]

    def _report(self, path: Path) -> Report:
        if path not in self._reports:
            kept = self._root / f"{_named(str(path))}.report"
            with self._alone(path):
                if not kept.exists():
                    kept.write_bytes(pickle.dumps(analyze(load([path], self.cache))))
            self._reports[path] = kept.read_bytes()
        report: Report = pickle.loads(self._reports[path])  # written by this run
        return report

    @contextmanager
    def _alone(self, path: Path) -> Iterator[None]:
        """Lock an input for one worker at a time; the others wait, and then find the finished input.

        Raises `TimeoutError` if another worker keeps the lock too long.
        """
        with (self._root / f"{_named(str(path))}.lock").open("w") as lock:
            until = time.monotonic() + self._patience_s
            while not _locked(lock):
                if time.monotonic() > until:
                    raise TimeoutError(f"{lock.name}: another worker works on {path} for {self._patience_s:.0f} s")
                threading.Event().wait(_LOOK_AGAIN_S)
            yield


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _named(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]
