"""The shared part of the back ends whose profiler counts steps itself and writes while it records."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, ClassVar

from hermes.inside.wire.capture_levels import CaptureError
from hermes.inside.wire.control import Request


class Scheduled:
    """A capture of one rank in its own folder below the request's; a back end starts its profiler into `_profile`."""

    writer: ClassVar[str]
    """The name of the profiler in messages."""

    def __init__(self, request: Request, rank: int) -> None:
        self._request = request
        self._folder = Path(request.out) / f"rank{rank}"
        self._profile: Any = None
        self._stepped = False

    def mark(self, step: int) -> None:
        """Tell the profiler that a step begins; the profiler counts steps itself, the first from `start` on."""
        if self._stepped:
            self._profile.step()
        self._stepped = True

    def note(self, name: str, value: object) -> None:
        """Drop the note; a back end whose profiler has a place for notes overrides this method."""

    def stop(self) -> None:
        """End the profiler's schedule with a last `step`, which writes; `stop` waits for the device."""
        self._profile.step()
        self._profile.stop()

    def save(self) -> Path:
        """The capture's folder: the profiler wrote while it recorded. Raises `CaptureError` for an empty or too large
        folder."""
        self._profile = None
        size = sum(path.stat().st_size for path in self._folder.rglob("*") if path.is_file())
        if not size:
            raise CaptureError(f"{self.writer} has written nothing")
        if size > self._request.largest_bytes:
            raise CaptureError(f"the profile has {size} bytes, more than the {self._request.largest_bytes} allowed")
        return self._folder

    def discard(self) -> None:
        """Stop the profiler if it runs; written files stay, since only the profiler knows which files are complete."""
        profile, self._profile = self._profile, None
        if profile is not None:
            with contextlib.suppress(Exception):
                profile.stop()

    def file_bytes(self) -> int:
        """0 bytes: `save` checks the size of what the profiler wrote."""
        return 0

    def needed_bytes(self, calls: int = 0) -> int:
        """0 bytes: the profiler writes while it records, so `stop` takes no extra memory."""
        del calls
        return 0
