"""The fields of a chip: names, peak rates by type, memory, cores, clock and links, each with a source.

Ascend's rates follow from the number of cores and the clock. A cube multiplies 16 x 16 x 16 floats of 16 bits a cycle,
twice as many 8-bit integers, half as many HF32, and a quarter as many 32-bit floats. A vector core works on 256 bytes a
cycle. So rates can also be computed from a capture's counters, or from the cores and clock that the profiler records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TERA, GIGA = 1e12, 1e9
FIGURES = ("matrix", "vector", "bandwidth", "cores")
"""The figures for which every chip must have a source."""
_CUBE = (
    "docs/decisions/0013: fp32 a quarter and HF32 half of fp16, as counters of a real capture show; agrees with GEMMs "
    "measured by github.com/gameofdimension/limulidae (87 of 328 TFLOP/s)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """All links of a device together: their name, and bytes a second in one direction."""

    transport: str
    bandwidth: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """A kind of accelerator or processor with its rated figures.

    `matrix` and `vector` map a precision to FLOP/s (OP/s for integers); `bandwidth` is bytes a second.

    `names` is a pattern of the names that drivers give. `memory` is bytes as sold, None if the chip is sold with
    several sizes. `cores` are SMs, CUs or cubes. `vector_cores` are Ascend's vector cores; None if the same cores do
    both. `mhz` is the rated clock of the cores; None if it is unknown, or if no profiler records the actual clock.
    `bandwidth` is None for a chip of a family whose members differ in memory. `links` is None for boards that have only
    PCIe.
    """

    name: str
    names: str
    vendor: str
    matrix: Mapping[str, float]
    vector: Mapping[str, float]
    bandwidth: float | None
    memory: float | None
    cores: int
    vector_cores: int | None
    mhz: int | None
    links: Links | None
    sources: Mapping[str, str]


def ascend(
    name: str,
    *,
    cubes: int,
    mhz: int,
    vectors: int | None,
    gbps: float | None,
    source: str,
    memory: str,
    bf16: bool = True,
    gb: float | None = None,
    names: str = "",
) -> Chip:
    """An Ascend chip by its cores and clock; before the 910B series, the cube had no bfloat16 and no 32-bit floats."""
    cube = cubes * 16**3 * 2 * mhz * 1e6
    lanes = (vectors or cubes) * 256 * 2 * mhz * 1e6
    matrix = {"fp16": cube, "int8": 2 * cube}
    vector = {"fp16": lanes / 2, "fp32": lanes / 4}
    if bf16:
        matrix |= {"bf16": cube, "hf32": cube / 2, "fp32": cube / 4}
        vector |= {"bf16": lanes / 2}
    return Chip(
        name=name, names=names, vendor="ascend", matrix=matrix, vector=vector,
        bandwidth=None if gbps is None else gbps * GIGA, memory=None if gb is None else gb * GIGA,
        cores=cubes, vector_cores=vectors, mhz=mhz, links=None,
        sources={"matrix": f"{source}; {_CUBE}", "vector": source, "bandwidth": memory, "cores": source},
    )  # fmt: skip
