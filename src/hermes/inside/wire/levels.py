"""What each level of a capture asks of a profiler, and what keeps one from being made: known on both sides."""

from __future__ import annotations

import os
from pathlib import Path

TORCH = {
    "light": (),
    "standard": ("record_shapes", "with_stack"),
    "full": ("record_shapes", "profile_memory", "with_stack"),
}
"""Level to what torch.profiler.profile is asked for beside the activities.

Modules come with stacks; `with_modules` and `with_flops` add nothing to a trace, and slow the steps."""

TORCH_NPU = {
    "light": {"profiler_level": "Level0", "aic_metrics": "AiCoreNone", "stack": ""},
    "standard": {"profiler_level": "Level1", "aic_metrics": "PipeUtilization", "stack": "yes"},
    "full": {"profiler_level": "Level2", "aic_metrics": "PipeUtilization", "stack": "yes"},
}
"""Level to names in torch_npu.profiler's ProfilerLevel and AiCMetrics, and whether Python's calls are recorded."""

_SPARE_BYTES = 1_000_000_000


class CaptureError(Exception):
    """A capture cannot be made; the text says why, for the one who asked."""


def room(folder: Path, needed: int) -> None:
    """Make the folder, and see that its disk has room for that many bytes and a gigabyte to spare.

    Raises `CaptureError`. A quota shows only when bytes are written, so some are.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        disk = os.statvfs(folder)
        free = disk.f_bavail * disk.f_frsize
        if free < needed + _SPARE_BYTES:
            raise CaptureError(f"the disk has {free / 1e9:.1f} GB free, {(needed + _SPARE_BYTES) / 1e9:.1f} are wanted")
        probe = folder / f".room-{os.getpid()}"
        try:
            probe.write_bytes(bytes(65536))
        finally:
            probe.unlink(missing_ok=True)
    except OSError as refused:
        raise CaptureError(f"{folder} cannot be written ({refused.strerror})") from refused
