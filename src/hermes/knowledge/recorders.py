"""The programs that record captures, by the format of their files, and how each records what a capture lacks.

Sources: CANN's documentation of msprof (`--ascendcl`, `--runtime-api`, `--task-time`, `--export`); torch_npu.profiler
and mindspore.profiler (`activities`, `with_stack`); NVIDIA, Nsight Systems user guide (`--trace`, `--python-sampling`);
AMD, rocprofv3 (`--sys-trace`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """A program that records captures.

    `host` records the calls of the host beside the device's work; a program that starts the job is named as a command.
    `timeline` are the files that hold the timeline, where sums of the capture stand in files of their own; `again` is
    the command that writes these files again. `starts`: the program starts the job itself, so that `hermes profile`
    cannot ask it for a capture.
    """

    name: str
    host: str
    timeline: str = ""
    again: str = ""
    starts: bool = False


_OF_TORCH = "activities=[ProfilerActivity.CPU, ProfilerActivity.{}], with_stack=True"
MSPROF = Recorder(
    name="msprof", host="msprof --ascendcl=on --runtime-api=on --task-time=on",
    timeline="msprof_*.json, op_summary_*.csv", again="msprof --export=on --output=PROF_…", starts=True,
)  # fmt: skip
TORCH_NPU = Recorder(
    name="torch_npu.profiler", host=_OF_TORCH.format("NPU"), timeline="trace_view.json, kernel_details.csv"
)
MINDSPORE = Recorder(
    name="mindspore.profiler", host=_OF_TORCH.format("NPU"), timeline="trace_view.json, kernel_details.csv"
)
UNKNOWN_ON_ASCEND = Recorder(
    name="", host="activities CPU and NPU of the framework's profiler",
    timeline="trace_view.json, kernel_details.csv; msprof_*.json, op_summary_*.csv",
)  # fmt: skip
_OTHERS = {
    "kineto": Recorder(name="torch.profiler", host=_OF_TORCH.format("CUDA")),
    "nsys": Recorder(name="nsys", host="nsys profile --trace=cuda,nvtx,osrt --python-sampling=true", starts=True),
    "rocpd": Recorder(name="rocprofv3", host="rocprofv3 --sys-trace", starts=True),
}


def recorder_of(form: str, framework: str | None) -> Recorder | None:
    """The program that wrote a capture of this format in a job of this framework; None if it is unknown."""
    family = form.partition("-")[0]
    if family == "ascend":
        return {"pytorch": TORCH_NPU, "mindspore": MINDSPORE}.get(framework or "", UNKNOWN_ON_ASCEND)
    return MSPROF if family == "msprof" else _OTHERS.get(family)
