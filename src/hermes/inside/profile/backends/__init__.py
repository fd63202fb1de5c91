"""The profilers that a capture can use: one module each, chosen by what the job has loaded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from hermes.inside.wire.control import Request
from hermes.inside.wire.levels import CaptureError


class Backend(Protocol):
    """One capture of one rank: `start`, `mark` before each step, then `stop` and `save`, or `discard`.

    All run on the stepping thread, between two steps, and may raise anything: the caller contains it.
    """

    def start(self) -> None:
        """Begin to record."""

    def mark(self, step: int) -> None:
        """Step `step` begins now."""

    def note(self, name: str, value: object) -> None:
        """Write something of Hermes' own into the capture while it runs, where there is a place for it."""

    def stop(self) -> None:
        """End recording; what is then left to do is `save`."""

    def save(self) -> Path:
        """Write what was recorded; returns the file or folder."""

    def discard(self) -> None:
        """End recording if it runs, and forget it."""


def choose(
    request: Request, rank: int, modules: Mapping[str, object], before: Mapping[str, int] | None = None,
    *, stacks: bool = True,
) -> Backend:  # fmt: skip
    """The back end for what the job has loaded: torch_npu, torch, or MindSpore. Raises `CaptureError`.

    `before` says what steps were like without the profiler: it goes into the capture, where there is a place for it.
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
