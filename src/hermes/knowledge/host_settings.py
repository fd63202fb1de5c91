"""Environment settings that cost time on the host: the work that each one slows, and what to set instead.

Sources: torch_npu's list of environment variables, msprof-analyze's advisor (`environment_variable_info.yaml`),
PyTorch's notes on CUDA and its list of environment variables for debugging.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from hermes.base.message import Message, sentence
from hermes.knowledge.actions import NO_RISK
from hermes.model.fault import Fault

_NPU = "torch_npu's list of environment variables"
_ADVISOR = "msprof-analyze's advisor: environment_variable_info.yaml"
_ONE_LATER = sentence("setting.errors_later")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSetting:
    """An environment setting. `slow` tells whether a value of the setting costs time.

    `little`: the setting adds only a little to the work it slows, so the loss may have another cause.
    """

    name: str
    title: Message
    fault: Fault
    slow: Callable[[str], bool]
    touches: Literal["launches", "launches that wait", "memory"]
    do: str
    risk: Message
    source: str
    little: bool = False


def _on(value: str) -> bool:
    return value not in ("", "0", "False", "false")


HOST_SETTINGS: tuple[HostSetting, ...] = (
    *(
        HostSetting(
            name=name,
            title=sentence("setting.launch_blocking"),
            fault=Fault.LAUNCH_BLOCKING,
            slow=_on,
            touches="launches that wait",
            do=f"unset {name}",
            risk=_ONE_LATER,
            source=source,
        )
        for name, source in (("ASCEND_LAUNCH_BLOCKING", _NPU), ("CUDA_LAUNCH_BLOCKING", "PyTorch notes on CUDA"))
    ),
    HostSetting(
        name="TASK_QUEUE_ENABLE",
        title=sentence("setting.queue_off"),
        fault=Fault.TASK_QUEUE_OFF,
        slow=lambda value: value == "0",
        touches="launches",
        do="export TASK_QUEUE_ENABLE=2; unset ASCEND_LAUNCH_BLOCKING",
        risk=sentence("setting.queue_off_risk"),
        source=_NPU,
    ),
    HostSetting(
        name="ASCEND_GLOBAL_LOG_LEVEL",
        title=sentence("setting.logs"),
        fault=Fault.DETAILED_LOGS,
        slow=lambda value: value in ("0", "1", "2"),
        touches="launches",
        little=True,
        do="export ASCEND_GLOBAL_LOG_LEVEL=3 ASCEND_SLOG_PRINT_TO_STDOUT=0",
        risk=sentence("setting.logs_risk"),
        source=_ADVISOR,
    ),
    HostSetting(
        name="TORCH_DISTRIBUTED_DEBUG",
        title=sentence("setting.checks"),
        fault=Fault.CHECKS_FOR_DEBUGGING,
        slow=lambda value: value.upper() == "DETAIL",
        touches="launches",
        do="unset TORCH_DISTRIBUTED_DEBUG",
        risk=sentence("setting.checks_risk"),
        source="PyTorch documentation of torch.distributed: TORCH_DISTRIBUTED_DEBUG",
    ),
    *(
        HostSetting(
            name=name,
            title=sentence("setting.allocator_off"),
            fault=Fault.CACHING_ALLOCATOR_OFF,
            slow=lambda value: value != "",
            touches="memory",
            do=f"unset {name}",
            risk=NO_RISK,
            source=source,
        )
        for name, source in (
            ("PYTORCH_NO_NPU_MEMORY_CACHING", _NPU),
            ("PYTORCH_NO_CUDA_MEMORY_CACHING", "PyTorch list of CUDA environment variables"),
        )
    ),
)
"""All environment settings that cost time on the host."""


OWN_CODE = "own code"
"""The setting in which a capture of Hermes lists the packages and modules that belong to no installed library."""
BEFORE = "before the capture"
"""The source of the settings in which a capture of Hermes describes steps without its profiler."""
