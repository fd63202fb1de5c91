"""Words that mark a device, or a backend of collectives, in source: torch's calls and keywords, and usual names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceWords:
    """Words for values of one sort: arguments of calls by full name, keywords of torch, and usual names."""

    calls: Mapping[str, int]
    methods: Mapping[str, int]
    keywords: frozenset[str]
    habit: re.Pattern[str]
    options: re.Pattern[str]
    results: frozenset[str]
    kind: str


DEVICE = DeviceWords(
    calls={
        "torch.device": 0, "torch.autocast": 0, "torch.amp.autocast": 0, "torch.amp.GradScaler": 0,
        "torch.GradScaler": 0,
        "torch.Generator": 0, "torch.load": 1, "torch.set_default_device": 0, "torch.get_device_module": 0,
        "torch.distributed.init_device_mesh": 0, "torch.distributed.DeviceMesh": 0, "torch.get_autocast_dtype": 0,
        "torch.is_autocast_enabled": 0, "torch.set_autocast_enabled": 0, "torch.cuda.set_device": 0,
        "torch.cuda.device": 0, "torch.cuda.synchronize": 0, "torch.accelerator.set_device_index": 0,
        "torch.amp.is_autocast_available": 0, "torch.nn.utils.vector_to_parameters": 99,
        "torch.distributed.device_mesh.init_device_mesh": 0, "torch.cuda.set_rng_state": 1,
        "torch.cuda.set_per_process_memory_fraction": 1,
        **{f"torch.cuda.{name}": 0 for name in (
            "get_rng_state", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
            "memory_stats", "memory_summary", "mem_get_info", "reset_peak_memory_stats", "get_device_properties",
            "get_device_name", "get_device_capability", "current_stream", "default_stream", "Stream", "utilization",
            "is_bf16_supported",
        )},
    },
    methods={"to": 0, "cuda": 0, "set_default_device": 0},
    keywords=frozenset({
        "device", "device_type", "map_location", "device_id", "output_device", "pin_memory_device", "device_map",
        "use_device",
    }),
    habit=re.compile(r"(?i)^(.*_)?(device|device_?type|map_location|device_str|torch_?device|dev|devices)$"),
    options=re.compile(r"(?i)^--?(.*[-_])?(device|device[-_]type|dev)$"),
    results=frozenset({"torch.device", "torch.accelerator.current_accelerator"}),
    kind="device",
)  # fmt: skip
BACKEND = DeviceWords(
    calls={
        "torch.distributed.init_process_group": 0, "torch.distributed.is_backend_available": 0,
        "torch.distributed.Backend": 0,
    },
    methods={"init_process_group": 0},
    keywords=frozenset({"backend", "dist_backend", "distributed_backend", "process_group_backend"}),
    habit=re.compile(r"(?i)^(.*_)?(backend|dist_?backend|distributed_?backend)$"),
    options=re.compile(r"(?i)^--?(.*[-_])?(dist|distributed|comm|ddp|process[-_]group)?[-_]?backend$"),
    results=frozenset({"torch.distributed.get_backend"}),
    kind="backend",
)  # fmt: skip
