"""Reads the machine from sysfs, cgroups and the vendors' tools: cores, NUMA nodes, devices, and device processes."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes.base.message import Message
from hermes.base.units import whole_number
from hermes.migrate.affinity import messages as say

_BUS = re.compile(r"\b([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-9A-Fa-f])\b")
_CPU_LIST = re.compile(r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """An accelerator. `near` are the cores that the tool or sysfs reports as near to the device; empty if unknown."""

    kind: str
    index: int
    near: frozenset[int]
    node: int | None
    pids: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The cores and devices of a machine.

    `allowed` are the cores that this job may use, `siblings` the hardware threads of each core's physical core.
    """

    nodes: Mapping[int, frozenset[int]]
    siblings: Mapping[int, frozenset[int]]
    allowed: frozenset[int]
    devices: Sequence[Device]
    notes: Sequence[Message] = ()


_MOST_CPUS = 1 << 16


def cpus(text: str) -> frozenset[int]:
    """The numbers of a core list such as `0-3,8`."""
    found: set[int] = set()
    for part in text.strip().split(","):
        low, _, high = part.partition("-")
        first, last = whole_number(low.strip()), whole_number((high or low).strip())
        if first is not None and last is not None and last < _MOST_CPUS:
            found |= set(range(first, last + 1))
    return frozenset(found)


def ranges(numbers: frozenset[int]) -> str:
    """The numbers as a core list such as `0-3,8`."""
    parts: list[str] = []
    ordered = sorted(numbers)
    start = 0
    for index in range(1, len(ordered) + 1):
        if index == len(ordered) or ordered[index] != ordered[index - 1] + 1:
            first, last = ordered[start], ordered[index - 1]
            parts.append(str(first) if first == last else f"{first}-{last}")
            start = index
    return ",".join(parts)


def read_machine(root: Path, tools: Mapping[str, str], allowed: frozenset[int] | None = None) -> Machine:
    """The machine below `root` (`/`, or a tree made for a test), with the output of the vendors' tools."""
    nodes = _nodes(root)
    online = _list(root / "sys/devices/system/cpu/online") or frozenset().union(*nodes.values())
    limit = _cgroup(root)
    usable = online & (limit or online)
    if allowed is not None:
        usable &= allowed
    notes: list[Message] = []
    if limit is not None and limit < online:
        notes.append(say.limited(allowed=len(usable), online=len(online), cores=ranges(usable)))
    devices = [_near(root, nodes, one, notes) for one in _devices(tools)]
    return Machine(
        nodes=nodes or {0: online}, siblings=_siblings(root, online), allowed=usable, devices=devices, notes=notes
    )


def _list(path: Path) -> frozenset[int]:
    try:
        return cpus(path.read_text())
    except OSError:
        return frozenset()


def _nodes(root: Path) -> dict[int, frozenset[int]]:
    base = root / "sys/devices/system/node"
    found = {}
    for folder in sorted(base.glob("node[0-9]*")) if base.is_dir() else ():
        listed = _list(folder / "cpulist")
        if listed:
            found[int(folder.name.removeprefix("node"))] = listed
    return found


def _siblings(root: Path, online: frozenset[int]) -> dict[int, frozenset[int]]:
    base = root / "sys/devices/system/cpu"
    return {cpu: _list(base / f"cpu{cpu}/topology/thread_siblings_list") or frozenset({cpu}) for cpu in online}


def _cgroup(root: Path) -> frozenset[int] | None:
    """The cores of this process's cgroup, version 2 or 1, from the innermost group that names any cores."""
    inner = ""
    try:
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0" or "cpuset" in controllers.split(","):
                inner = path.lstrip("/")
    except (OSError, ValueError):
        pass
    for base, name in (("sys/fs/cgroup", "cpuset.cpus.effective"), ("sys/fs/cgroup/cpuset", "cpuset.effective_cpus"),
                       ("sys/fs/cgroup/cpuset", "cpuset.cpus")):  # fmt: skip
        for folder in (root / base / inner, root / base):
            found = _list(folder / name)
            if found:
                return found
    return None


def _devices(tools: Mapping[str, str]) -> list[tuple[Device, str]]:
    """The devices that the tools list, with the PCI address of each device if known."""
    if tools.get("npu-topo") or tools.get("npu-info"):
        return _npus(tools.get("npu-topo", ""), tools.get("npu-info", ""))
    return _gpus(tools.get("gpu-topo", ""), tools.get("gpu-list", ""), tools.get("gpu-apps", ""))


def _npus(topology: str, info: str) -> list[tuple[Device, str]]:
    near = _topology(topology, "NPU")
    buses, pids = _npu_info(info)
    return [
        (Device(kind="npu", index=index, near=near.get(index, frozenset()), node=None, pids=tuple(pids.get(index, ()))),
         buses.get(index, ""))
        for index in sorted({*near, *buses})
    ]  # fmt: skip


def _topology(text: str, kind: str) -> dict[int, frozenset[int]]:
    """The column `CPU Affinity` of `npu-smi info -t topo` and `nvidia-smi topo -m`, found by its heading."""
    found: dict[int, frozenset[int]] = {}
    after = -1
    for line in text.splitlines():
        words = re.sub(r"\x1b\[[0-9;]*m", "", line).split()
        if "Affinity" in words and "CPU" in words:
            # The heading has one word less than each row: the row's own name.
            after = words.index("CPU") + 1
        match = re.fullmatch(rf"{kind}(\d+)", words[0]) if words else None
        if match is not None and 0 < after < len(words) and _CPU_LIST.match(words[after]):
            found[int(match[1])] = cpus(words[after])
    return found


def _npu_info(text: str) -> tuple[dict[int, str], dict[int, list[int]]]:
    """PCI addresses and processes from the tables of `npu-smi info`; devices are counted in the order of the table."""
    buses: dict[int, str] = {}
    pids: dict[int, list[int]] = {}
    order: dict[tuple[str, str], int] = {}
    card, processes = "", False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if "Process id" in line:
            processes = True
        elif (
            processes
            and len(cells) >= 3
            and re.fullmatch(r"\d+\s+\d+", cells[0])
            and whole_number(cells[1]) is not None
        ):
            number, chip = cells[0].split()
            pids.setdefault(order.get((number, chip), int(number)), []).append(int(cells[1]))
        elif not processes and len(cells) >= 3:
            match = _BUS.search(cells[1])
            if match is not None:
                chip = cells[0].split()[0] if cells[0] else "0"
                index = len(order)
                order[card, chip] = index
                buses[index] = match[0].lower()
            elif re.match(r"\d+\s+\S+", cells[0]):
                card = cells[0].split()[0]
    return buses, pids


def _gpus(topology: str, listed: str, apps: str) -> list[tuple[Device, str]]:
    near = _topology(topology, "GPU")
    buses: dict[int, str] = {}
    by_uuid: dict[str, int] = {}
    for line in listed.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) >= 3 and whole_number(cells[0]) is not None:
            buses[int(cells[0])] = cells[1].lower()
            by_uuid[cells[2]] = int(cells[0])
    pids: dict[int, list[int]] = {}
    for line in apps.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) >= 2 and whole_number(cells[0]) is not None and cells[1] in by_uuid:
            pids.setdefault(by_uuid[cells[1]], []).append(int(cells[0]))
    return [
        (Device(kind="gpu", index=index, near=near.get(index, frozenset()), node=None, pids=tuple(pids.get(index, ()))),
         buses.get(index, ""))
        for index in sorted({*near, *buses})
    ]  # fmt: skip


def _near(root: Path, nodes: Mapping[int, frozenset[int]], found: tuple[Device, str], notes: list[Message]) -> Device:
    """A device with its near cores and its NUMA node: from the PCI bus, or if that is unknown, from the tool."""
    device, bus = found
    node, near = _by_bus(root, bus)
    by_node = nodes.get(node, frozenset()) if node is not None else frozenset()
    cores = near or by_node or device.near
    if device.near and cores and not device.near & cores:
        name = f"{device.kind}{device.index}"
        notes.append(say.tools_disagree(device=name, system=ranges(cores), tool=ranges(device.near)))
    if node is None and cores:
        node = next((number for number, listed in nodes.items() if cores <= listed), None)
    return Device(kind=device.kind, index=device.index, near=cores, node=node, pids=device.pids)


def _by_bus(root: Path, bus: str) -> tuple[int | None, frozenset[int]]:
    match = _BUS.search(bus)
    if match is None:
        return None, frozenset()
    name = f"{int(match[1], 16):04x}:{match[2]}:{match[3]}.{match[4]}".lower()
    folder = root / "sys/bus/pci/devices" / name
    try:
        node = int((folder / "numa_node").read_text())
    except (OSError, ValueError):
        node = -1
    return (node if node >= 0 else None), _list(folder / "local_cpulist") if node >= 0 else frozenset()


_COMMANDS = {
    "npu-topo": ("npu-smi", "info", "-t", "topo"),
    "npu-info": ("npu-smi", "info"),
    "gpu-topo": ("nvidia-smi", "topo", "-m"),
    "gpu-list": ("nvidia-smi", "--query-gpu=index,pci.bus_id,uuid", "--format=csv,noheader"),
    "gpu-apps": ("nvidia-smi", "--query-compute-apps=pid,gpu_uuid", "--format=csv,noheader"),
}


def ask_tools() -> dict[str, str]:
    """The output of `npu-smi` and `nvidia-smi` on this machine; empty if a tool is missing or does not respond."""
    told: dict[str, str] = {}
    for name, command in _COMMANDS.items():
        try:
            ran = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, errors="replace",
                                 env={**os.environ, "LC_ALL": "C"})  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            continue
        if ran.returncode == 0:
            told[name] = ran.stdout
    return told
