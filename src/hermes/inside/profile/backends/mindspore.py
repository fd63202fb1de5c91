"""Captures with MindSpore's profiler, started and stopped by the steps of the job."""

from __future__ import annotations

import importlib
import sys
from typing import Any, ClassVar

from hermes.inside.profile.backends.scheduled import Scheduled
from hermes.inside.wire.capture_levels import CaptureError, npu_options

_TORCH_NPU_ALONE = ("op_attr", "record_op_args", "gc_detect_threshold")
LEVELS = {"light": "Level0", "standard": "Level1", "full": "Level2"}
"""Name of a level in mindspore.profiler.ProfilerLevel, by capture level."""


class MindSporeBackend(Scheduled):
    """A MindSpore capture of one rank, in the folder `rank{r}/*_ascend_ms`, raw: a side process exports it later."""

    writer: ClassVar[str] = "MindSpore"

    def start(self) -> None:
        """Start MindSpore's profiler. Raises `CaptureError` for a metric that MindSpore does not have."""
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
            on_trace_ready=profiler.tensorboard_trace_handler(str(self._folder), analyse_flag=False),
            experimental_config=profiler._ExperimentalConfig(
                profiler_level=getattr(profiler.ProfilerLevel, LEVELS[self._request.level]),
                aic_metrics=getattr(profiler.AicoreMetrics, metrics),
                mstx=options.get("mstx") == "yes",
                **{name: value for name, value in npu_options(options).items() if name not in _TORCH_NPU_ALONE},
            ),
        )
        self._profile.start()


def _on_npu(mindspore: Any) -> bool:
    return str(mindspore.get_context("device_target")) == "Ascend"
