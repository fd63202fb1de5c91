"""Plans the cores of each device's rank, and writes the plan for taskset, numactl and torch_npu."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hermes.base.message import Message
from hermes.migrate.affinity import messages as say
from hermes.migrate.affinity.machine_topology import Device, Machine, ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class RankCores:
    """The planned cores of one rank, near its device."""

    device: Device
    cpus: frozenset[int]
    why: Message

    @property
    def name(self) -> str:
        """The name of the device: its kind and number."""
        return f"{self.device.kind}{self.device.index}"

    @property
    def taskset(self) -> str:
        """The `taskset` prefix that starts the rank on its cores."""
        return f"taskset -c {ranges(self.cpus)}"

    @property
    def numactl(self) -> str:
        """The `numactl` prefix that starts the rank on its cores, with memory of their NUMA node."""
        node = f" --membind={self.device.node}" if self.device.node is not None else ""
        return f"numactl --physcpubind={ranges(self.cpus)}{node}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The planned cores of all ranks of a machine."""

    seats: Sequence[RankCores]
    notes: Sequence[Message]

    @property
    def variable(self) -> str:
        """`CPU_AFFINITY_CONF` for torch_npu, if each rank has one range of cores; empty otherwise."""
        parts = [(seat.device.index, ranges(seat.cpus)) for seat in self.seats if seat.device.kind == "npu"]
        if not parts or any("," in cores for _, cores in parts):
            return ""
        spelled = [f"npu{index}:{cores if '-' in cores else f'{cores}-{cores}'}" for index, cores in parts]
        return f"CPU_AFFINITY_CONF=1,{','.join(spelled)}"


def plan(machine: Machine) -> Plan:
    """Plan ranks on the cores near their devices; devices with the same cores share them evenly, by physical cores."""
    groups: dict[frozenset[int], list[Device]] = {}
    notes = list(machine.notes)
    for device in machine.devices:
        near = device.near & machine.allowed
        if not near:
            notes.append(_why_all(device, machine))
        groups.setdefault(near or machine.allowed, []).append(device)
    seats: list[RankCores] = []
    taken: set[int] = set()
    # The smallest groups choose first; where groups overlap, a core is given to one group only.
    for near, devices in sorted(groups.items(), key=lambda one: (len(one[0]), sorted(one[0]))):
        free = near - taken or near
        seats += _share(free, devices, machine, notes)
        taken |= free if len(free) >= len(devices) else frozenset()
    return Plan(seats=sorted(seats, key=lambda seat: seat.device.index), notes=notes)


def _why_all(device: Device, machine: Machine) -> Message:
    name = f"{device.kind}{device.index}"
    if device.near:
        return say.not_allowed(device=name, cores=ranges(device.near))
    return say.not_known(device=name, cores=say.cores(n=len(machine.allowed)))


def _share(free: frozenset[int], devices: Sequence[Device], machine: Machine, notes: list[Message]) -> list[RankCores]:
    cores = _physical(free, machine.siblings)
    count = len(devices)
    near, all_devices = say.cores(n=len(free)), say.devices(n=count)
    why = say.near(cores=near) if count == 1 else say.share(cores=near, devices=all_devices)
    if len(cores) < count:
        notes.append(say.crowded(devices=all_devices, cores=say.cores(n=len(cores)), which=ranges(free)))
        return [RankCores(device=device, cpus=free, why=why) for device in devices]
    seats = []
    for position, device in enumerate(devices):
        part = cores[len(cores) * position // count : len(cores) * (position + 1) // count]
        seats.append(RankCores(device=device, cpus=frozenset().union(*part), why=why))
    return seats


def _physical(free: frozenset[int], siblings: Mapping[int, frozenset[int]]) -> list[frozenset[int]]:
    """Cores as sets of the hardware threads of a physical core, in order."""
    found = {siblings.get(cpu, frozenset({cpu})) & free for cpu in free}
    return sorted(found, key=min)
