"""What a capture asks for that its job cannot give, and why it may be waited for: said before it is asked."""

from __future__ import annotations

import time
from collections.abc import Mapping

from hermes.base.errors import InputError
from hermes.inside.wire.errors import LiveError
from hermes.inside.wire.levels import NPU_OPTIONS, CaptureError, npu_options
from hermes.inside.wire.record import AT
from hermes.inside.wire.ring import RingReader
from hermes.inside.wire.rundir import Job, rings

AIC_METRICS = (
    "AiCoreNone", "PipeUtilization", "ArithmeticUtilization", "Memory", "MemoryL0", "MemoryUB", "ResourceConflictRatio",
    "L2Cache", "MemoryAccess",
)  # fmt: skip
_STILL_NS = 10_000_000_000
_NPU_OPTIONS = {"mstx": "--mstx", "aic_metrics": "--aic-metrics"}


def check(job: Job, options: Mapping[str, str]) -> str:
    """Why the capture will be waited for, in a line; empty when steps end. Raises `InputError` for what cannot be."""
    metrics = options.get("aic_metrics", "")
    if metrics and metrics not in AIC_METRICS:
        raise InputError(f"there are no metrics {metrics[:40]!r} of the AI core", hint=", ".join(AIC_METRICS))
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
        raise InputError(str(wrong), where="--option", hint=", ".join(NPU_OPTIONS)) from wrong
    asked = [flag for name, flag in _NPU_OPTIONS.items() if name in options]
    asked += [f"--option {name}" for name in NPU_OPTIONS if name in options]
    if asked and frameworks and not frameworks & {"torch_npu", "mindspore"}:
        raise InputError(f"{' and '.join(asked)} need an NPU, and the job has loaded {', '.join(sorted(frameworks))}",
                         where=job.id)  # fmt: skip
    still = time.time_ns() - last_ns
    if last_ns and still > _STILL_NS:
        return f"no step has ended for {still / 1e9:.0f} s: the capture begins when steps end again; see hermes watch"
    return ""
