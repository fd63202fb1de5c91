"""What the back ends share whose profiler counts steps itself and writes while it records."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, ClassVar

from hermes.inside.wire.control import Request
from hermes.inside.wire.levels import CaptureError


class Scheduled:
    """One folder a rank, below the request's; a back end starts its profiler into `_profile`."""

    writer: ClassVar[str]
    """Who writes, as messages name it."""

    def __init__(self, request: Request, rank: int) -> None:
        self._request = request
        self._folder = Path(request.out) / f"rank{rank}"
        self._profile: Any = None
        self._stepped = False

    def mark(self, step: int) -> None:
        """The profiler counts steps itself: the first begins with `start`."""
        if self._stepped:
            self._profile.step()
        self._stepped = True

    def note(self, name: str, value: object) -> None:
        """Where a profiler has a place for notes, its back end says so."""

    def stop(self) -> None:
        """The last `step` ends the schedule and writes; `stop` waits for the device."""
        self._profile.step()
        self._profile.stop()

    def save(self) -> Path:
        """It has written while it recorded. Raises `CaptureError` when nothing is there, or too much."""
        self._profile = None
        size = sum(path.stat().st_size for path in self._folder.rglob("*") if path.is_file())
        if not size:
            raise CaptureError(f"{self.writer} has written nothing")
        if size > self._request.largest_bytes:
            raise CaptureError(f"the profile has {size} bytes, more than the {self._request.largest_bytes} allowed")
        return self._folder

    def discard(self) -> None:
        """Stop if running; what was written stays, since only its writer knows what is whole."""
        profile, self._profile = self._profile, None
        if profile is not None:
            with contextlib.suppress(Exception):
                profile.stop()
