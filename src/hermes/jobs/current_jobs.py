"""Lists the jobs that run, without reading thousands of old run directories again and again."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from pathlib import Path

from hermes.inside.wire.errors import LiveError
from hermes.inside.wire.rundir import Job, read
from hermes.jobs.run_directory_files import content

_NEW_NS = 60 * 10**9
_MOST_FILES = 4096
_LARGEST = 1 << 20


class CurrentJobs:
    """The running jobs of a folder; a look at them reads only the running ones."""

    def __init__(self) -> None:
        self._root: tuple[Path, int] | None = None
        self._ended: set[str] = set()
        self._jobs: dict[str, Job] = {}
        self._unread: dict[str, int] = {}

    def jobs(self, root: Path) -> list[Job]:
        """Jobs that run or may run, oldest first; a folder that is no run directory is skipped."""
        self._list(root)
        now = time.monotonic_ns()
        for name, seen in list(self._unread.items()):
            try:
                self._jobs[name] = read(root / name)
                del self._unread[name]
            except (LiveError, OSError):
                # A run directory is made before its files.
                if now - seen > _NEW_NS:
                    self._ended.add(name)
                    del self._unread[name]
        for name, job in list(self._jobs.items()):
            # Without the job's shared memory no process is in the job, and none can join.
            if not job.segment.exists():
                self._ended.add(name)
                del self._jobs[name]
        return sorted(self._jobs.values(), key=lambda job: (job.created_ns, job.id))

    def _list(self, root: Path) -> None:
        try:
            stamp = (root, root.stat().st_mtime_ns)
            if stamp == self._root:
                return
            names = {path.name for path in root.iterdir()}
        except OSError:
            return
        # Two folders may be made within one tick of the file system's clock.
        settled = time.time_ns() - stamp[1] > 2 * 10**9
        self._root = stamp if settled else None
        self._ended &= names
        self._jobs = {name: job for name, job in self._jobs.items() if name in names}
        now = time.monotonic_ns()
        for name in names - self._ended - self._jobs.keys():
            self._unread.setdefault(name, now)


class ReplacedFiles:
    """A cache of small JSON files that other processes replace now and then: a file is read again only after a
    change."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[int, int], Mapping[str, object]]] = {}

    def read(self, path: Path) -> Mapping[str, object]:
        """The object in the file; empty for a missing or unreadable file."""
        try:
            facts = path.stat()
        except OSError:
            return {}
        state = (facts.st_mtime_ns, facts.st_size)
        known = self._known.get(path)
        if known is None or known[0] != state:
            if len(self._known) >= _MOST_FILES:
                self._known.clear()
            known = self._known[path] = (state, _object(path))
        return known[1]


def _object(path: Path) -> Mapping[str, object]:
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(content(path, _LARGEST) or b"null")
        if isinstance(found, dict):
            return found
    return {}
