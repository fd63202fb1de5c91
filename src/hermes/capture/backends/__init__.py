"""The profilers that a capture can use: one module each, chosen by what the job has loaded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from hermes.live.control import Request


class CaptureError(Exception):
    """A capture cannot be made; the text says why, for the one who asked."""


class Backend(Protocol):
    """One capture of one rank: `start`, `mark` before each step, then `stop` and `save`, or `discard`.

    All run on the stepping thread, between two steps, and may raise anything: the caller contains it.
    """

    def start(self) -> None:
        """Begin to record."""

    def mark(self, step: int) -> None:
        """Step `step` begins now."""

    def stop(self) -> None:
        """End recording; what is then left to do is `save`."""

    def save(self) -> Path:
        """Write what was recorded; returns the file or folder."""

    def discard(self) -> None:
        """End recording if it runs, and forget it."""


def choose(request: Request, rank: int, modules: Mapping[str, object]) -> Backend:
    """The back end for what the job has loaded: torch_npu, torch, or MindSpore. Raises `CaptureError`."""
    if "torch_npu" in modules:
        from hermes.capture.backends.npu import NpuBackend

        return NpuBackend(request, rank)
    if "torch" in modules:
        from hermes.capture.backends.torch import TorchBackend

        return TorchBackend(request, rank)
    if "mindspore" in modules:
        from hermes.capture.backends.mindspore import MindSporeBackend

        return MindSporeBackend(request, rank)
    raise CaptureError("the job has loaded no framework that has a profiler")
