"""The profiler options of each capture level, and the reasons that a capture cannot be made: for ranks and watchers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

TORCH = {
    "light": (),
    "standard": ("record_shapes", "with_stack"),
    "full": ("record_shapes", "profile_memory", "with_stack"),
}
"""Options of torch.profiler.profile beside the activities, by capture level.

Modules come with stacks; `with_modules` and `with_flops` add nothing to a trace, and slow the steps.
"""

TORCH_NPU = {
    "light": {"profiler_level": "Level0", "aic_metrics": "AiCoreNone", "stack": ""},
    "standard": {"profiler_level": "Level1", "aic_metrics": "PipeUtilization", "stack": "yes"},
    "full": {"profiler_level": "Level2", "aic_metrics": "PipeUtilization", "stack": "yes"},
}
"""Names in torch_npu.profiler's ProfilerLevel and AiCMetrics, and whether Python's calls are recorded, by capture
level."""

NPU_SWITCHES = ("l2_cache", "op_attr", "record_op_args", "sys_io", "sys_interconnection")
"""Switches of a capture on an NPU. The switches record hit rates of the L2 cache, attributes and arguments of
operators, network and storage of the machine, and links between devices."""
NPU_LISTS: dict[str, tuple[str, ...]] = {
    "host_sys": ("cpu", "mem", "disk", "network", "osrt"),
    "export_type": ("text", "db"),
    "mstx_domain_include": (),
    "mstx_domain_exclude": (),
}
"""Options of an NPU capture that are lists, with the allowed values; domains of mstx may have any names."""
NPU_NUMBERS = ("gc_detect_threshold",)
"""Options of an NPU capture that are numbers: the shortest garbage collection of Python that is recorded, in
milliseconds."""
NPU_OPTIONS = (*NPU_SWITCHES, *NPU_LISTS, *NPU_NUMBERS)
"""All options of an NPU capture, named as in `_ExperimentalConfig` of torch_npu 2.13.0; MindSpore has most of them."""

_SPARE_BYTES = 1_000_000_000


class CaptureError(Exception):
    """A capture cannot be made; the text says why, for the user who asked for the capture."""


def npu_options(options: Mapping[str, str]) -> dict[str, object]:
    """The given options of `NPU_OPTIONS`, as the profiler takes them. Raises `CaptureError` for an invalid value."""
    found: dict[str, object] = {}
    for name in (name for name in NPU_OPTIONS if name in options):
        text = options[name]
        if name in NPU_SWITCHES:
            if text not in ("yes", "no"):
                raise CaptureError(f"{name} is yes or no, not {text[:40]!r}")
            found[name] = text == "yes"
        elif name in NPU_NUMBERS:
            try:
                found[name] = float(text)
            except ValueError:
                raise CaptureError(f"{name} is a number of milliseconds, not {text[:40]!r}") from None
        else:
            parts, known = [part for part in text.split(",") if part], NPU_LISTS[name]
            if known and not set(parts) <= set(known):
                raise CaptureError(f"{name} is a list of {', '.join(known)}, not {text[:40]!r}")
            found[name] = parts
    return found


def make_folder_with_room(folder: Path, needed: int) -> None:
    """Make the folder, and check that its disk has room for `needed` bytes and a gigabyte to spare.

    Raises `CaptureError`. A disk quota shows only when bytes are written, so some bytes are written.
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
