"""Checks, before a capture is requested, whether the job can make it, and whether it will have to wait."""

from __future__ import annotations

import time
from collections.abc import Mapping

from hermes.base.errors import InputError
from hermes.base.message import Message
from hermes.inside.wire.capture_levels import NPU_OPTIONS, CaptureError, npu_options
from hermes.inside.wire.errors import LiveError
from hermes.inside.wire.ring import RingReader
from hermes.inside.wire.rundir import Job, rings
from hermes.inside.wire.step_record import AT
from hermes.jobs import capture_messages
from hermes.jobs.detect.messages import choices
from hermes.jobs.failure_reasons import reason

AIC_METRICS = (
    "AiCoreNone", "PipeUtilization", "ArithmeticUtilization", "Memory", "MemoryL0", "MemoryUB", "ResourceConflictRatio",
    "L2Cache", "MemoryAccess",
)  # fmt: skip
_STILL_NS = 10_000_000_000
_NPU_OPTIONS = {"mstx": "--mstx", "aic_metrics": "--aic-metrics"}


def check_capture_request(job: Job, options: Mapping[str, str]) -> Message | None:
    """Why the capture will have to wait; None when steps end. Raises `InputError` for options that the job cannot
    fulfil."""
    metrics = options.get("aic_metrics", "")
    if metrics and metrics not in AIC_METRICS:
        raise InputError(capture_messages.no_metrics(metrics=metrics[:40]), hint=choices(names=AIC_METRICS))
    last_ns = 0
    frameworks: set[str] = set()
    for _, _, path in rings(job):
        try:
            reader = RingReader(path)
        except (LiveError, OSError):
            continue
        known = reader.about.get("frameworks")
        frameworks |= set(known) if isinstance(known, dict) else set()
        rows = reader.new()
        reader.close()
        last_ns = max([last_ns, *(row[AT["end_ns"]] for row in rows[-1:])])
    try:
        npu_options(options)
    except CaptureError as wrong:
        raise InputError(reason(wrong), where="--option", hint=choices(names=NPU_OPTIONS)) from wrong
    asked = [flag for name, flag in _NPU_OPTIONS.items() if name in options]
    asked += [f"--option {name}" for name in NPU_OPTIONS if name in options]
    if asked and frameworks and not frameworks & {"torch_npu", "mindspore"}:
        raise InputError(capture_messages.needs_npu(options=asked, frameworks=sorted(frameworks)), where=job.id)
    still = time.time_ns() - last_ns
    if last_ns and still > _STILL_NS:
        return capture_messages.capture_waits(still=still)
    return None
