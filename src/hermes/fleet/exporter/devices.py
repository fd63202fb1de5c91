"""Metrics of devices, from the vendors' tools that are installed. The tools' output is parsed as untrusted text."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence

from hermes.fleet.exporter import metric_families
from hermes.fleet.exporter.device import Device
from hermes.fleet.exporter.linux_kernel_files import Rows
from hermes.fleet.exporter.parse_device_tools import npu_details, npu_table, nvidia_links, nvidia_table, rocm
from hermes.model.metric import MetricFamily, MetricSample

_PATIENCE_S = 30.0
_LARGEST = 1 << 20
_MOST_DEVICES = 64


Run = Callable[[Sequence[str]], str]
"""A function that runs a tool and returns the tool's output; empty after a failure."""


def run(command: Sequence[str]) -> str:
    """The output of a vendor's tool; empty if it is not installed, fails, or does not end in time."""
    program = shutil.which(command[0])
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program, *command[1:]], stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE_S, check=False,
            cwd="/",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout[:_LARGEST].decode("utf-8", "replace") if done.returncode == 0 else ""


def devices(tool: Run, *, details: bool) -> list[Device]:
    """All devices that the tools know. Error counters are read only with `details`: some tools need a call for each
    device."""
    found = [*_npu(tool, details=details), *_nvidia(tool, details=details), *rocm(_of("amd"), tool(_ROCM))]
    return found[:_MOST_DEVICES]


_NPU = ("npu-smi", "info")
_NVIDIA = (
    "nvidia-smi",
    "--query-gpu=index,name,utilization.gpu,memory.used,memory.total,power.draw,temperature.gpu,clocks.sm,"
    "ecc.errors.corrected.volatile.total,ecc.errors.uncorrected.volatile.total",
    "--format=csv,noheader,nounits",
)
_NVIDIA_LINKS = ("nvidia-smi", "nvlink", "-e")
_ROCM = (
    "rocm-smi", "--showuse", "--showmeminfo", "vram", "--showpower", "--showtemp", "--showclocks", "--showproductname",
    "--json",
)  # fmt: skip


def _of(maker: str) -> Callable[[str], Device]:
    return lambda index: Device(maker=maker, index=index)


def _npu(tool: Run, *, details: bool) -> list[Device]:
    found = npu_table(_of("ascend"), tool(_NPU))[:_MOST_DEVICES]
    for one in found if details else ():
        npu = one.index.partition(".")[0]
        npu_details(one, *(tool((*_NPU, "-t", kind, "-i", npu)) for kind in ("ecc", "common")))
    return found


def _nvidia(tool: Run, *, details: bool) -> list[Device]:
    found = nvidia_table(_of("nvidia"), tool(_NVIDIA))
    if found and details:
        nvidia_links(found, tool(_NVIDIA_LINKS))
    return found


def measured(found: Iterable[Device]) -> list[MetricSample]:
    """The samples of all devices, by metric family."""
    rows: dict[MetricFamily, Rows] = {}

    def add(family: MetricFamily, labels: tuple[str, ...], value: float | None) -> None:
        if value is not None:
            rows.setdefault(family, []).append((labels, float(value)))

    for one in found:
        labels = (one.maker, one.index)
        add(metric_families.DEVICE, (*labels, one.model), 1.0)
        add(metric_families.BUSY, labels, one.busy)
        add(metric_families.DEVICE_MEMORY, (*labels, "used"), one.used_bytes)
        add(metric_families.DEVICE_MEMORY, (*labels, "total"), one.total_bytes)
        add(metric_families.POWER, labels, one.watts)
        add(metric_families.TEMPERATURE, labels, one.celsius)
        add(metric_families.CLOCK, labels, one.hertz)
        add(metric_families.HEALTHY, labels, None if one.healthy is None else float(one.healthy))
        for family, counts in ((metric_families.ECC_ERRORS, one.ecc), (metric_families.LINK_ERRORS, one.links)):
            for kind, count in counts.items():
                add(family, (*labels, kind), count)
    return [MetricSample(family=family, rows=of) for family, of in rows.items()]
