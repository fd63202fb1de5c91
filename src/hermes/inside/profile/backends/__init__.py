"""The profilers that a capture can use, one module each, chosen by the frameworks that the job has loaded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from hermes.inside.error_guard import warnings_let_pass
from hermes.inside.wire.capture_levels import CaptureError
from hermes.inside.wire.control import Request


class Backend(Protocol):
    """A profiler's capture of one rank: `start`, `mark` before each step, then `stop` and `save`, or `discard`.

    All methods run on the stepping thread, between two steps, and may raise any exception: the caller contains it.
    """

    def start(self) -> None:
        """Start the profiler's recording."""

    def mark(self, step: int) -> None:
        """Tell the profiler that step number `step` begins now."""

    def note(self, name: str, value: object) -> None:
        """Write a note of Hermes into the capture while it records, if the profiler's format has a place for notes."""

    def stop(self) -> None:
        """End recording; afterwards only `save` is left to do."""

    def save(self) -> Path:
        """Write the recorded capture; returns its file or folder."""

    def discard(self) -> None:
        """End recording if the profiler runs, and drop the recorded data."""

    def needed_bytes(self, calls: int = 0) -> int:
        """Approximate memory in bytes that `stop` takes: for the current recording, or before recording, for `calls`
        calls of Python."""

    def file_bytes(self) -> int:
        """Approximate size in bytes that Python stacks give the trace so far; 0 if the profiler writes while it
        records."""


def choose(
    request: Request, rank: int, modules: Mapping[str, object], before: Mapping[str, int] | None = None,
    *, stacks: bool = True,
) -> Backend:  # fmt: skip
    """The back end for the frameworks that the job has loaded: torch_npu, torch, or MindSpore. Raises `CaptureError`.

    `before` says what steps were like without the profiler: it goes into the capture, if the format has a place for it.
    Without `stacks`, Python's calls are recorded only where the request asks for them by name.
    """
    told = before or {}
    if "torch_npu" in modules:
        from hermes.inside.profile.backends.npu import NpuBackend

        return NpuBackend(request, rank, told, stacks=stacks)
    if "torch" in modules:
        from hermes.inside.profile.backends.torch import TorchBackend

        return TorchBackend(request, rank, told, stacks=stacks)
    if "mindspore" in modules:
        from hermes.inside.profile.backends.mindspore import MindSporeBackend

        return MindSporeBackend(request, rank)
    raise CaptureError("the job has loaded no framework that has a profiler")


def saved(backend: Backend) -> Path:
    """Write the trace; where a warning became an error, write once more with warnings off: warning filters are
    process-wide."""
    try:
        return backend.save()
    except Warning:
        with warnings_let_pass():
            return backend.save()
