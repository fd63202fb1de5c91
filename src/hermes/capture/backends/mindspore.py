"""MindSpore's profiler, started and stopped by the steps of the job."""

from __future__ import annotations

import contextlib
import importlib
import sys
from pathlib import Path
from typing import Any

from hermes.capture.backends import CaptureError
from hermes.live.control import Request

LEVELS = {"light": "Level0", "standard": "Level1", "full": "Level2"}
"""Level to names in mindspore.profiler.ProfilerLevel."""


class MindSporeBackend:
    """One folder a rank, `rank{r}/*_ascend_ms`; analysed later, where there is a device to analyse."""

    def __init__(self, request: Request, rank: int) -> None:
        self._request = request
        self._folder = Path(request.out) / f"rank{rank}"
        self._profile: Any = None
        self._stepped = False

    def start(self) -> None:
        """Raises `CaptureError` for a metric that MindSpore does not have."""
        profiler: Any = importlib.import_module("mindspore.profiler")
        options, full = self._request.options, self._request.level == "full"
        metrics = options.get("aic_metrics", "AiCoreNone" if self._request.level == "light" else "PipeUtilization")
        if not hasattr(profiler.AicoreMetrics, metrics):
            raise CaptureError(f"MindSpore has no metrics {metrics!r}")
        activities = [profiler.ProfilerActivity.CPU]
        if _on_npu(sys.modules["mindspore"]):
            activities.append(profiler.ProfilerActivity.NPU)
        self._profile = profiler.profile(
            activities=activities,
            with_stack=options.get("stack", "yes" if full else "") == "yes",
            profile_memory=options.get("memory", "yes" if full else "") == "yes",
            record_shapes=self._request.level != "light",
            start_profile=False,
            schedule=profiler.schedule(wait=0, active=self._request.steps, warmup=0, repeat=1),
            on_trace_ready=profiler.tensorboard_trace_handler(str(self._folder), analyse_flag=True, async_mode=True),
            experimental_config=profiler._ExperimentalConfig(
                profiler_level=getattr(profiler.ProfilerLevel, LEVELS[self._request.level]),
                aic_metrics=getattr(profiler.AicoreMetrics, metrics),
                mstx=options.get("mstx") == "yes",
            ),
        )
        self._profile.start()

    def mark(self, step: int) -> None:
        """MindSpore counts steps itself: the first begins with `start`."""
        if self._stepped:
            self._profile.step()
        self._stepped = True

    def stop(self) -> None:
        """The last `step` ends the schedule and writes."""
        self._profile.step()
        self._profile.stop()

    def save(self) -> Path:
        """MindSpore has written while it recorded. Raises `CaptureError` when nothing is there, or too much."""
        self._profile = None
        size = sum(path.stat().st_size for path in self._folder.rglob("*") if path.is_file())
        if not size:
            raise CaptureError("MindSpore has written nothing")
        if size > self._request.largest_bytes:
            raise CaptureError(f"the profile has {size} bytes, more than the {self._request.largest_bytes} allowed")
        return self._folder

    def discard(self) -> None:
        """Stop if running."""
        profile, self._profile = self._profile, None
        if profile is not None:
            with contextlib.suppress(Exception):
                profile.stop()


def _on_npu(mindspore: Any) -> bool:
    return str(mindspore.get_context("device_target")) == "Ascend"
