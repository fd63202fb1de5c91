"""Use case: request a profile of a job that was started without Hermes, through the file that torch_npu watches.

torch_npu's `dynamic_profile` (PROF_CONFIG_PATH, or `dp.init(folder)`) watches `profiler_config.json` of a folder and
profiles when the file changes. Keys and defaults are those of torch_npu 2.13.0, `profiler/_dynamic_profiler`.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes.base.errors import HermesError, InputError, QueryError
from hermes.base.message import Message
from hermes.base.write_atomic import write_atomic
from hermes.inside.wire.capture_levels import NPU_OPTIONS, TORCH_NPU, CaptureError, npu_options
from hermes.jobs import capture_messages
from hermes.jobs.detect.messages import choices
from hermes.jobs.failure_reasons import reason

FILE = "profiler_config.json"
NEXT_STEP = -1
"""The value of `start_step` that means the step after the file was seen; 0 means none."""
_LARGEST = 1 << 20
"""Largest file in bytes that torch_npu's channel has room for."""
_EXPERIMENTAL: Mapping[str, object] = {
    "profiler_level": "Level0", "aic_metrics": "AiCoreNone", "l2_cache": False, "op_attr": False,
    "gc_detect_threshold": None, "data_simplification": True, "record_op_args": False, "export_type": ["text"],
    "msprof_tx": False, "mstx": False, "host_sys": [], "mstx_domain_include": [], "mstx_domain_exclude": [],
    "sys_io": False, "sys_interconnection": False,
}  # fmt: skip
_DEFAULTS: Mapping[str, object] = {
    "activities": ["CPU", "NPU"], "prof_dir": "./", "analyse": False, "async_mode": False, "record_shapes": False,
    "profile_memory": False, "with_stack": False, "with_flops": False, "with_modules": False, "active": 1, "warmup": 0,
    "start_step": 0, "is_rank": False, "rank_list": [],
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRequest:
    """A profile request to torch_npu: `steps` steps from `start_step` on, of these ranks (empty: all), into `out`.

    `options` are options of a capture: `memory`, `stack`, `mstx`, `aic_metrics`, and `NPU_OPTIONS`.
    """

    steps: int
    level: str
    out: Path
    options: Mapping[str, str]
    start_step: int = NEXT_STEP
    ranks: tuple[int, ...] = ()


def _asked(options: Mapping[str, str]) -> dict[str, object]:
    try:
        return npu_options(options)
    except CaptureError as wrong:
        raise QueryError(reason(wrong), hint=choices(names=NPU_OPTIONS)) from wrong


def config(ask: ProfileRequest) -> dict[str, object]:
    """The content of the configuration file. Raises `QueryError` for an unknown level."""
    if ask.level not in TORCH_NPU:
        raise QueryError(capture_messages.no_level(level=ask.level), hint=choices(names=TORCH_NPU))
    level, full = TORCH_NPU[ask.level], ask.level == "full"
    experimental = {
        "profiler_level": level["profiler_level"],
        "aic_metrics": ask.options.get("aic_metrics", level["aic_metrics"]),
        "mstx": ask.options.get("mstx") == "yes",
        "data_simplification": False,
        **_asked(ask.options),
    }
    return {
        **_DEFAULTS,
        "prof_dir": str(ask.out.absolute()),
        "record_shapes": ask.level != "light",
        "profile_memory": full or ask.options.get("memory") == "yes",
        "with_stack": ask.options.get("stack", level["stack"]) == "yes",
        "active": ask.steps,
        "start_step": ask.start_step,
        "is_rank": bool(ask.ranks),
        "rank_list": list(ask.ranks),
        "experimental_config": {**_EXPERIMENTAL, **experimental},
    }


def write_config(folder: Path, ask: ProfileRequest, *, replace: bool) -> Path:
    """Write the complete configuration file into the folder, and return its path. Raises `HermesError`.

    A file that already requests a profile is left alone unless `replace`: Hermes cannot know whether it was obeyed,
    since torch_npu answers nothing. A file that requests nothing, as torch_npu makes it, is replaced.
    """
    text = json.dumps(config(ask), indent=4)
    path = folder / FILE
    if not folder.is_dir():
        raise InputError(capture_messages.NO_FOLDER, where=str(folder), hint=capture_messages.GIVE_WATCHED_FOLDER)
    if not replace and (why := _in_use(path)):
        raise InputError(
            capture_messages.configuration_in_use(why=why), where=str(path), hint=capture_messages.REPLACE_IT
        )
    before = _facts(path)
    # Ranks may run as another user of the group, as for the file that torch_npu makes.
    mode = before.st_mode & 0o777 if before else 0o640
    try:
        with write_atomic(path, mode=mode) as file:
            file.write(text.encode())
            file.flush()
            # torch_npu compares whole seconds of the time of change: two changes in one second would look like one.
            if before and int(os.fstat(file.fileno()).st_mtime) <= int(before.st_mtime):
                later = int(before.st_mtime) + 1
                os.utime(file.fileno(), (later, later))
    except OSError as refused:
        what = capture_messages.cannot_write(path=str(path), why=refused.strerror or "")
        raise HermesError(what, where=str(folder)) from refused
    return path


def _facts(path: Path) -> os.stat_result | None:
    """The status of the existing file; None for a link, or without a file."""
    with contextlib.suppress(OSError):
        facts = path.lstat()
        return facts if stat.S_ISREG(facts.st_mode) else None
    return None


def _in_use(path: Path) -> Message | None:
    """Why the existing file must not be overwritten; None when it may."""
    try:
        # The folder may be another user's: do not follow a link, and do not wait for a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            raw: Any = json.loads(file.read(_LARGEST) or b"")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as broken:
        return capture_messages.configuration_unreadable(why=type(broken).__name__)
    start = raw.get("start_step") if isinstance(raw, dict) else None
    if type(start) is not int:
        return capture_messages.CONFIGURATION_FOREIGN
    if start == 0:
        return None
    return capture_messages.CONFIGURATION_NEXT_STEP if start < 0 else capture_messages.configuration_at_step(step=start)
