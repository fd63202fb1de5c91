"""Peak speeds of links by chip, and the bytes that a collective of some size moves over a link.

Speeds are of one direction, in 10^9 bytes a second. Other tools compare with one number for all chips, and compute
speeds over waiting time. Hermes has no speed for an unknown chip, and then reports no comparison.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from hermes.knowledge.chip_fields import GIGA
from hermes.knowledge.identify_chip import chip_of

_MSPROF = "Ascend/msprof, analysis/common_func/ms_constant/number_constant.py: standard bandwidth of chip"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSpec:
    """The rated speed of a chip's link: of one link to one peer, or of all links of a device together."""

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


# The first pattern that fits the name counts. Links of graphics chips stand with the chip: see `chips`.
_CHIPS: tuple[_Chip, ...] = (
    # The profiler names a chip by its version: its 910B is the second generation, while CANN has a first-generation
    # 910B.
    _ascend(r"910b", "4.1.0", HCCS=28.0, RDMA=25.0, ROCE=25.0),
    _ascend(r"910a?$", "2.1.0", HCCS=18.0, RDMA=12.5, ROCE=12.5, PCIE=20.0),
)
_PATTERNS = tuple((re.compile(chip.name, re.I), chip) for chip in _CHIPS)


def link_spec(chip: str | None, transport: str) -> LinkSpec | None:
    """The rated link of that transport, for the chip's name as the profiler gives it."""
    for pattern, known in _PATTERNS:
        if chip and pattern.search(chip):
            return next((link for link in known.links if link.transport == transport.upper()), None)
    whole = device_link(chip)
    return whole if whole is not None and whole.transport == transport.upper() else None


def device_link(chip: str | None) -> LinkSpec | None:
    """All links of a device together, for chips rated in that way (NVLink, Infinity Fabric)."""
    known = chip_of(chip)
    if known is None or known.links is None:
        return None
    links = known.links
    return LinkSpec(
        transport=links.transport, gb_per_s=links.bandwidth / GIGA, of="device", source=links.source
    )  # fmt: skip


def bus_factor(op: str, ranks: int) -> float | None:
    """The factor that turns size over time into the busiest link's load: NVIDIA/nccl-tests, doc/PERFORMANCE.md.

    The factor is None for an unknown operation, and for a group of one rank.
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


# In nccl-tests the size of all-gather, reduce-scatter and all-to-all is the whole buffer of a rank; NCCL's traces give
# the larger of input and output, which is the same. HCCL reports the count of its call, which is one rank's part for
# these (HcclAllGather's sendCount, HcclReduceScatter's recvCount, HcclAlltoAll's sendCount to one peer; HcclAlltoAllV
# reports the whole buffer): Ascend cann-hccl, src/domain/collective_communication/framework/op_base/src/op_base.cc,
# CallMsprofReportHostApi.
PART_OF_HCCL = r"(?i)^(hcom_)?(allgather|reducescatter|alltoall)_*(__|-|$)"
"""Names of HCCL operations whose recorded size is one rank's part of the whole buffer."""
