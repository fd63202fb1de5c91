"""torch_npu.profiler, called directly: what `dynamic_profile` does, without its channel. Parsed in a side process."""

from __future__ import annotations

import contextlib
import importlib
import json
from collections.abc import Mapping
from typing import Any, ClassVar

from hermes.inside.profile.backends.scheduled import Scheduled
from hermes.inside.profile.lines import own_code
from hermes.inside.wire.control import Request
from hermes.inside.wire.levels import TORCH_NPU, CaptureError, npu_options


class NpuBackend(Scheduled):
    """One folder a rank, `rank{r}/*_ascend_pt`, raw: `analyse` of torch_npu makes text or a database of it later.

    Nothing is analysed here: it would block the step, and it sets the start method of multiprocessing for the job.
    """

    writer: ClassVar[str] = "torch_npu"

    def __init__(self, request: Request, rank: int, before: Mapping[str, int], *, stacks: bool = True) -> None:
        super().__init__(request, rank)
        self._before = before
        self._stacks = stacks

    def start(self) -> None:
        """Raises `CaptureError` for a metric that torch_npu does not have, and while another profile of it runs."""
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
            # Marks carry the job's numbers, as those of `dynamic_profile`; it leaves the steps' own ranges of mstx out.
            number(self._request.start_step)
        self._profile.start()
        # Into profiler_metadata.json.
        self.note("hermes", {"before": dict(self._before), "own": own_code()})

    def note(self, name: str, value: object) -> None:
        """Into profiler_metadata.json, as long as it runs."""
        self._profile.add_metadata_json(name, json.dumps(value))


def _runs() -> bool:
    """Whether a profile of torch_npu is under way: it has only one, and says so nowhere else."""
    with contextlib.suppress(ImportError, AttributeError):
        creator: Any = importlib.import_module("torch_npu.profiler._profiler_path_creator")
        return bool(creator.ProfPathCreator().is_prof_inited)
    return False
