"""The memory size of a device by its chip's full name, for captures that do not record the size; with sources."""

from __future__ import annotations

import re

_MEBIBYTES: tuple[tuple[str, int, str], ...] = (
    (r"Ascend ?910B2C?$", 65_536, "npu-smi of a host of 910B2C: github.com/wookayin/gpustat, pull request 185"),
    (r"Ascend ?910B3$", 65_536, "npu-smi of a 910B3: github.com/vllm-project/vllm-ascend, issue 1903"),
    (r"Ascend ?910B4$", 32_768, "maintainer of vLLM-Ascend: github.com/vllm-project/vllm-ascend, issue 129"),
    (r"Ascend ?910B4-1$", 65_536, "npu-smi of a 910B4-1: github.com/Project-HAMi/HAMi-WebUI, issue 47"),
    (
        r"Ascend ?910_93\d\d$",
        65_536,
        "npu-smi of a host of A3, by die: github.com/vllm-project/vllm-ascend, issue 2035",
    ),
)
SAME_CORES = frozenset({"Ascend910B4"})
"""Chips that counters cannot tell from a chip with other memory: 910B4 has the cores and the clock of 910B4-1."""


def memory_bytes(name: str | None) -> int | None:
    """The memory in bytes that the driver gives for a chip of this name; None for an unknown chip or a series."""
    for pattern, mebibytes, _ in _MEBIBYTES if name else ():
        if re.match(pattern, str(name).strip(), re.IGNORECASE):
            return mebibytes << 20
    return None
