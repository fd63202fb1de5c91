"""Captures with torch_npu.profiler, called directly, as `dynamic_profile` does; a side process parses the capture."""

from __future__ import annotations

import contextlib
import importlib
import json
from collections.abc import Mapping
from typing import Any, ClassVar

from hermes.inside.profile.backends.scheduled import Scheduled
from hermes.inside.profile.sample_lines import own_code
from hermes.inside.wire.capture_levels import TORCH_NPU, CaptureError, npu_options
from hermes.inside.wire.control import Request


class NpuBackend(Scheduled):
    """A torch_npu capture of one rank, in the folder `rank{r}/*_ascend_pt`, raw: torch_npu's `analyse` makes text or a
    database of it later.

    Analysis in this process would block the step, and would set the start method of multiprocessing for the job.
    """

    writer: ClassVar[str] = "torch_npu"

    def __init__(self, request: Request, rank: int, before: Mapping[str, int], *, stacks: bool = True) -> None:
        super().__init__(request, rank)
        self._before = before
        self._stacks = stacks

    def start(self) -> None:
        """Start torch_npu's profiler. Raises `CaptureError` for an unknown metric, and while another torch_npu profile
        runs."""
        profiler: Any = importlib.import_module("torch_npu.profiler")
        options = self._request.options
        level = TORCH_NPU[self._request.level]
        full = self._request.level == "full"
        metrics = options.get("aic_metrics", level["aic_metrics"])
        if not hasattr(profiler.AiCMetrics, metrics):
            raise CaptureError(f"torch_npu has no metrics {metrics!r}")
        if _runs():
            raise CaptureError("another profiler is running in the job")
        config = profiler._ExperimentalConfig(
            profiler_level=getattr(profiler.ProfilerLevel, level["profiler_level"]),
            aic_metrics=getattr(profiler.AiCMetrics, metrics),
            mstx=options.get("mstx") == "yes",
            data_simplification=False,
            **npu_options(options),
        )
        # Nothing is imported while the profiler records.
        about = {"before": dict(self._before), "own": own_code()}
        handler = profiler.tensorboard_trace_handler(str(self._folder), analyse_flag=False)
        self._profile = profiler.profile(
            activities=[profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.NPU],
            schedule=profiler.schedule(wait=0, active=self._request.steps, warmup=0, repeat=1),
            on_trace_ready=handler,
            record_shapes=self._request.level != "light",
            profile_memory=options.get("memory", "yes" if full else "") == "yes",
            with_stack=options.get("stack", "yes" if self._stacks and level["stack"] else "") == "yes",
            with_flops=False,
            with_modules=False,
            experimental_config=config,
        )
        number = getattr(self._profile, "_set_step_num_offset_for_dynamic_prof", None)
        if number is not None and options.get("mstx") != "yes":
            # Marks carry the job's step numbers, as in `dynamic_profile`; the profiler leaves the steps' own mstx
            # ranges out.
            number(self._request.start_step)
        self._profile.start()
        # This metadata goes into profiler_metadata.json.
        self.note("hermes", about)

    def note(self, name: str, value: object) -> None:
        """Write a note into profiler_metadata.json, as long as the profiler runs."""
        self._profile.add_metadata_json(name, json.dumps(value))


def _runs() -> bool:
    """Whether a profile of torch_npu is under way: torch_npu allows only one, and reports it nowhere else."""
    with contextlib.suppress(ImportError, AttributeError):
        creator: Any = importlib.import_module("torch_npu.profiler._profiler_path_creator")
        return bool(creator.ProfPathCreator().is_prof_inited)
    return False
