"""What links and collectives can do at best: speeds of links by chip, and what a collective's size means on the wire.

Speeds are of one direction, in 10^9 bytes a second. Peers compare with one number for all chips, and compute speeds
over waiting time; so here a chip that is not known has no speed, and nothing is said of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

_MSPROF = "Ascend/msprof, analysis/common_func/ms_constant/number_constant.py: standard bandwidth of chip"
_NVLINK = "NVIDIA data sheet, NVLink bandwidth of both directions, halved:"
_FABRIC = "AMD data sheet, Infinity Fabric links of both directions, halved:"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSpec:
    """The speed that a link of a chip is built for: of one link to one peer, or of all links of a device together."""

    transport: str
    gb_per_s: float
    of: Literal["link", "device"]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chip:
    name: str
    links: tuple[LinkSpec, ...]


def _ascend(name: str, version: str, **speeds: float) -> _Chip:
    source = f"{_MSPROF} {version}"
    return _Chip(
        name=name,
        links=tuple(
            LinkSpec(transport=transport, gb_per_s=speed, of="link", source=source)
            for transport, speed in speeds.items()
        ),
    )


def _device(name: str, transport: str, gb_per_s: float, source: str) -> _Chip:
    return _Chip(name=name, links=(LinkSpec(transport=transport, gb_per_s=gb_per_s, of="device", source=source),))


# The first that fits the name counts. Cards on a PCIe board share the chip's name but not its links: they are left out.
_CHIPS: tuple[_Chip, ...] = (
    # The profiler names a chip by its version, so its 910B is the second generation; CANN has had a 910B of the first.
    _ascend(r"910b", "4.1.0", HCCS=28.0, RDMA=25.0, ROCE=25.0),
    _ascend(r"910a?$", "2.1.0", HCCS=18.0, RDMA=12.5, ROCE=12.5, PCIE=20.0),
    _device(r"\bg?b200\b", "NVLINK", 900.0, f"{_NVLINK} B200 1800 GB/s"),
    _device(r"\b(h200|h20)\b|\bh100(?!.*(pcie|nvl)).*hbm3", "NVLINK", 450.0, f"{_NVLINK} H100 SXM, H200, H20 900 GB/s"),
    _device(r"\b(h800|a800)\b(?!.*pcie)", "NVLINK", 200.0, f"{_NVLINK} H800, A800 400 GB/s"),
    _device(r"\ba100-sxm", "NVLINK", 300.0, f"{_NVLINK} A100 SXM 600 GB/s"),
    _device(r"\bv100-sxm", "NVLINK", 150.0, f"{_NVLINK} V100 SXM2 300 GB/s"),
    _device(r"\bmi3(00x|25x)", "XGMI", 448.0, f"{_FABRIC} MI300X and MI325X, 7 links of 128 GB/s"),
)
_PATTERNS = tuple((re.compile(chip.name, re.I), chip) for chip in _CHIPS)


def link_spec(chip: str | None, transport: str) -> LinkSpec | None:
    """What a link of that transport is built for on a chip, by the chip's name as the profiler gives it."""
    for pattern, known in _PATTERNS:
        if chip and pattern.search(chip):
            return next((link for link in known.links if link.transport == transport.upper()), None)
    return None


def device_link(chip: str | None) -> LinkSpec | None:
    """The links of a device taken together, where a chip is known by that (NVLink, Infinity Fabric)."""
    for pattern, known in _PATTERNS:
        if chip and pattern.search(chip):
            return next((link for link in known.links if link.of == "device"), None)
    return None


def bus_factor(op: str, ranks: int) -> float | None:
    """What turns size over time into the load of the busiest link: NVIDIA/nccl-tests, doc/PERFORMANCE.md.

    None for an operation that it does not treat, and for a group of one.
    """
    if ranks < 2:
        return None
    part = (ranks - 1) / ranks
    factors = {
        "all_reduce": 2 * part,
        "all_gather": part,
        "reduce_scatter": part,
        "all_to_all": part,
        "broadcast": 1.0,
        "reduce": 1.0,
        "send": 1.0,
        "recv": 1.0,
    }
    return factors.get(op)


# There the size of all-gather, reduce-scatter and all-to-all is the whole buffer of a rank; NCCL's traces give the
# larger of input and output, which is the same. HCCL reports the count of its call, which is one rank's part for these
# (HcclAllGather's sendCount, HcclReduceScatter's recvCount, HcclAlltoAll's sendCount to one peer; HcclAlltoAllV reports
# the whole buffer): Ascend cann-hccl, src/domain/collective_communication/framework/op_base/src/op_base.cc,
# CallMsprofReportHostApi.
PART_OF_HCCL = r"(?i)^(hcom_)?(allgather|reducescatter|alltoall)_*(__|-|$)"
"""Names of HCCL operations whose recorded size is one rank's part of the whole."""
