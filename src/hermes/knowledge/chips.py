"""What chips can do at best: peak rates by type, memory bandwidth, cores, clock; each group of figures has its source.

Rates are dense, at the clock that the vendor quotes them for: a data sheet's figure "with sparsity" is halved. Where a
package shows itself as two devices (MI250, Ascend A3), the row is one of them. A slice of a chip (MIG) is no chip.

Ascend's rates follow from its cores and clock: a cube multiplies 16 x 16 x 16 floats of 16 bits a cycle, twice as many
8-bit integers, half as many HF32, a quarter as many 32-bit floats; a vector core works on 256 bytes a cycle. So the
counters of a capture can tell them too, where the name of the chip is missing or names a whole family.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

TERA, GIGA = 1e12, 1e9
FIGURES = ("matrix", "vector", "bandwidth", "cores")
"""What every chip has a source for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One device. `matrix` and `vector` map a precision to FLOP/s (OP/s for integers); `bandwidth` is bytes a second.

    `cores` are SMs, CUs or cubes, `vector_cores` Ascend's vector cores (None where the same cores do both), `mhz` the
    rated clock of the cores; None where no profiler says the actual one, or where it is not known. `bandwidth` is None
    for a chip of a family whose members differ in memory.
    """

    name: str
    vendor: str
    matrix: Mapping[str, float]
    vector: Mapping[str, float]
    bandwidth: float | None
    cores: int
    vector_cores: int | None
    mhz: int | None
    sources: Mapping[str, str]


_V100 = "NVIDIA Tesla V100 GPU Architecture white paper WP-08608-001, table 1; V100 data sheet (boost 1.38 GHz on PCIe)"
_A100 = "NVIDIA A100 Tensor Core GPU Architecture white paper, tables 1 and 4"
_A100_DATA = "NVIDIA A100 80GB data sheet, https://www.nvidia.com/en-us/data-center/a100/"
_H100 = "NVIDIA H100 GPU Architecture white paper, table 2; the same at glennklockwood.com/garden/processors/h100"
_H100_DATA = (
    "NVIDIA H100 data sheet (halved where it says with sparsity), https://www.nvidia.com/en-us/data-center/h100/"
)
_H200 = "NVIDIA H200 data sheet, https://www.nvidia.com/en-us/data-center/h200/; the same die as H100"
_H20 = "arthurchiao.github.io, GPU Performance (Data Sheets) Quick Reference, section 4"
_B200 = "NVIDIA DGX B200 data sheet, an eighth of it, dense; hmc-tech.com/gpus/nvidia-b200"
_L40S = "NVIDIA L40S data sheet, https://www.nvidia.com/en-us/data-center/l40s/ (first of the two figures)"
_MI200 = (
    "AMD Instinct MI200 series data sheets and AMD CDNA 2 white paper, table 1; one die of two for MI250 and MI250X"
)
_MI300 = "AMD Instinct MI300X data sheet and AMD CDNA 3 white paper, table 1"
_MI325 = "AMD Instinct MI325X data sheet: the rates of MI300X, 6 TB/s"
_CANN = "CANN, data/platform_config/{name}.ini: ai_core_cnt, vector_core_cnt, cube_freq, cube_m/n/k_size, DtypeMKN"
_CUBE = (
    "docs/decisions/0013: fp32 a quarter and HF32 half of fp16, as counters of a real capture show; agrees with GEMMs "
    "measured by github.com/gameofdimension/limulidae (87 of 328 TFLOP/s)"
)
_A2_MEMORY = "device table of a public planner for MoE serving on Ascend (HWConf: 1.6, 1.6, 0.8 TB/s for B2, B3, B4)"
_A3_MEMORY = "Serving Large Language Models on Huawei CloudMatrix384 (arXiv 2506.12708), section 3: 1.6 TB/s a die"
_DAVINCI = "DaVinci: A Scalable Architecture, Hot Chips 31 (2019): 32 cores, 8192 FLOP a cycle, 1.2 TB/s"
_ATLAS_300T = (
    "Atlas 300T Training Card (Model 9000) White Paper: 220 TFLOP/s; Ascend910B.ini of CANN: 30 cores, 900 MHz"
)
_ATLAS_300I = "Atlas 300I Pro data sheet: 140 TOPS int8, 70 TFLOP/s fp16, 204.8 GB/s; Ascend310P3.ini: 8 and 7 cores"
_CPU = "docs/evidence/cpu-roofline.md: NumPy GEMM and a STREAM-like copy on one core of an AMD EPYC"


def _gpu(
    name: str,
    vendor: str,
    source: str,
    *,
    cores: int,
    gbps: float,
    memory: str = "",
    matrix: Mapping[str, float],
    vector: Mapping[str, float],
) -> Chip:
    return Chip(
        name=name,
        vendor=vendor,
        matrix={key: value * TERA for key, value in matrix.items()},
        vector={key: value * TERA for key, value in vector.items()},
        bandwidth=gbps * GIGA,
        cores=cores,
        vector_cores=None,
        mhz=None,
        sources=dict.fromkeys(FIGURES, source) | {"bandwidth": memory or source},
    )


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
) -> Chip:
    """An Ascend chip by its cores and clock; before the 910B series no bfloat16 or 32-bit float ran on the cube."""
    cube = cubes * 16**3 * 2 * mhz * 1e6
    lanes = (vectors or cubes) * 256 * 2 * mhz * 1e6
    matrix = {"fp16": cube, "int8": 2 * cube}
    vector = {"fp16": lanes / 2, "fp32": lanes / 4}
    if bf16:
        matrix |= {"bf16": cube, "hf32": cube / 2, "fp32": cube / 4}
        vector |= {"bf16": lanes / 2}
    return Chip(
        name=name,
        vendor="ascend",
        matrix=matrix,
        vector=vector,
        bandwidth=None if gbps is None else gbps * GIGA,
        cores=cubes,
        vector_cores=vectors,
        mhz=mhz,
        sources={"matrix": f"{source}; {_CUBE}", "vector": source, "bandwidth": memory, "cores": source},
    )


def _split(name: str, cubes: int, mhz: int, gbps: float, memory: str = _A2_MEMORY) -> Chip:
    source = _CANN.format(name=name)
    return ascend(name, cubes=cubes, mhz=mhz, vectors=2 * cubes, gbps=gbps, source=source, memory=memory)


_VOLTA = {"fp64": 7.8, "fp32": 15.7, "fp16": 31.4}
_AMPERE = {"fp64": 9.7, "fp32": 19.5, "fp16": 78.0, "bf16": 39.0}
_AMPERE_MATRIX = {"fp64": 19.5, "fp32": 19.5, "tf32": 156.0, "fp16": 312.0, "bf16": 312.0, "int8": 624.0}
_HOPPER = {"fp64": 33.5, "fp32": 66.9, "fp16": 133.8, "bf16": 133.8}
_HOPPER_MATRIX = {
    "fp64": 66.9, "fp32": 66.9, "tf32": 494.7, "fp16": 989.4, "bf16": 989.4, "fp8": 1978.9, "int8": 1978.9,
}  # fmt: skip
_CDNA2 = {"fp64": 22.6, "fp32": 22.6, "fp16": 45.3, "bf16": 22.6}
_CDNA2_MATRIX = {"fp64": 45.3, "fp32": 45.3, "fp16": 181.0, "bf16": 181.0, "int8": 181.0}
_CDNA2_X = {"fp64": 23.95, "fp32": 23.95, "fp16": 47.9, "bf16": 23.95}
_CDNA2_X_MATRIX = {"fp64": 47.85, "fp32": 47.85, "fp16": 191.5, "bf16": 191.5, "int8": 191.5}
_CDNA3 = {"fp64": 81.7, "fp32": 163.4, "fp16": 163.4, "bf16": 163.4}
_CDNA3_MATRIX = {
    "fp64": 163.4, "fp32": 163.4, "tf32": 653.7, "fp16": 1307.4, "bf16": 1307.4, "fp8": 2614.9, "int8": 2614.9,
}  # fmt: skip


def _scaled(rates: Mapping[str, float], factor: float) -> dict[str, float]:
    return {key: value * factor for key, value in rates.items()}


_ALL = (
    _gpu("V100 SXM2", "nvidia", _V100, cores=80, gbps=900, matrix=_VOLTA | {"fp16": 125.0}, vector=_VOLTA),
    _gpu(
        "V100 PCIe", "nvidia", _V100, cores=80, gbps=900,
        matrix={"fp64": 7.0, "fp32": 14.0, "fp16": 112.0}, vector={"fp64": 7.0, "fp32": 14.0, "fp16": 28.0},
    ),
    _gpu(
        "V100S PCIe", "nvidia", _V100, cores=80, gbps=1134,
        matrix={"fp64": 8.2, "fp32": 16.4, "fp16": 130.0}, vector={"fp64": 8.2, "fp32": 16.4, "fp16": 32.8},
    ),
    _gpu("A100 40GB", "nvidia", _A100, cores=108, gbps=1555, matrix=_AMPERE_MATRIX, vector=_AMPERE),
    _gpu(
        "A100 80GB SXM", "nvidia", _A100, cores=108, gbps=2039, memory=_A100_DATA, matrix=_AMPERE_MATRIX,
        vector=_AMPERE,
    ),
    _gpu(
        "A100 80GB PCIe", "nvidia", _A100, cores=108, gbps=1935, memory=_A100_DATA, matrix=_AMPERE_MATRIX,
        vector=_AMPERE,
    ),
    _gpu("H100 SXM", "nvidia", _H100, cores=132, gbps=3352, matrix=_HOPPER_MATRIX, vector=_HOPPER),
    _gpu(
        "H100 PCIe", "nvidia", _H100, cores=114, gbps=2039,
        matrix={
            "fp64": 51.2, "fp32": 51.2, "tf32": 378.0, "fp16": 756.0, "bf16": 756.0, "fp8": 1513.0, "int8": 1513.0,
        },
        vector={"fp64": 25.6, "fp32": 51.2, "fp16": 102.4, "bf16": 102.4},
    ),
    _gpu(
        "H100 NVL", "nvidia", _H100_DATA, cores=132, gbps=3938,
        matrix={
            "fp64": 60.0, "fp32": 60.0, "tf32": 417.5, "fp16": 835.5, "bf16": 835.5, "fp8": 1670.5, "int8": 1670.5,
        },
        vector={"fp64": 30.0, "fp32": 60.0, "fp16": 120.0, "bf16": 120.0},
    ),
    _gpu(
        "H20", "nvidia", _H20, cores=78, gbps=4000,
        matrix={"fp32": 44.0, "tf32": 74.0, "fp16": 148.0, "bf16": 148.0, "fp8": 296.0, "int8": 296.0},
        vector={"fp32": 44.0, "fp16": 88.0, "bf16": 88.0},
    ),
    _gpu("H200 SXM", "nvidia", _H200, cores=132, gbps=4800, matrix=_HOPPER_MATRIX, vector=_HOPPER),
    _gpu(
        "B200", "nvidia", _B200, cores=148, gbps=8000,
        matrix={
            "fp64": 37.0, "fp32": 75.0, "tf32": 1125.0, "fp16": 2250.0, "bf16": 2250.0, "fp8": 4500.0, "int8": 4500.0,
        },
        vector={"fp64": 37.0, "fp32": 75.0, "fp16": 150.0, "bf16": 150.0},
    ),
    _gpu(
        "L40S", "nvidia", _L40S, cores=142, gbps=864,
        matrix={"fp32": 91.6, "tf32": 183.0, "fp16": 362.05, "bf16": 362.05, "fp8": 733.0, "int8": 733.0},
        vector={"fp64": 1.43, "fp32": 91.6, "fp16": 91.6, "bf16": 91.6},
    ),
    _gpu("MI210", "amd", _MI200, cores=104, gbps=1638, matrix=_CDNA2_MATRIX, vector=_CDNA2),
    _gpu("MI250 (one die)", "amd", _MI200, cores=104, gbps=1638, matrix=_CDNA2_MATRIX, vector=_CDNA2),
    _gpu("MI250X (one die)", "amd", _MI200, cores=110, gbps=1638, matrix=_CDNA2_X_MATRIX, vector=_CDNA2_X),
    _gpu(
        "MI300A", "amd", _MI300, cores=228, gbps=5300,
        matrix=_scaled(_CDNA3_MATRIX, 228 / 304), vector=_scaled(_CDNA3, 228 / 304),
    ),
    _gpu("MI300X", "amd", _MI300, cores=304, gbps=5325, matrix=_CDNA3_MATRIX, vector=_CDNA3),
    _gpu("MI325X", "amd", _MI325, cores=304, gbps=6000, matrix=_CDNA3_MATRIX, vector=_CDNA3),
    _split("Ascend910B1", 24, 1850, 1600),
    _split("Ascend910B2", 24, 1800, 1600),
    _split("Ascend910B3", 20, 1800, 1600),
    _split("Ascend910B4", 20, 1500, 800),
    _split("Ascend910_9392", 24, 1850, 1600, _A3_MEMORY),
    ascend(
        "Ascend910A", cubes=32, mhz=1000, vectors=None, gbps=1200, bf16=False, source=_DAVINCI, memory=_DAVINCI
    ),
    ascend(
        "Ascend910ProB", cubes=30, mhz=900, vectors=None, gbps=1200, bf16=False, source=_ATLAS_300T, memory=_DAVINCI
    ),
    ascend(
        "Ascend310P", cubes=8, mhz=1080, vectors=None, gbps=204.8, bf16=False, source=_ATLAS_300I, memory=_ATLAS_300I
    ),
    Chip(
        name="generic CPU core", vendor="cpu",
        matrix={"fp32": 123e9, "fp64": 60e9}, vector={"fp32": 123e9, "fp64": 60e9},
        bandwidth=41.5e9, cores=1, vector_cores=None, mhz=None, sources=dict.fromkeys(FIGURES, _CPU),
    ),
)  # fmt: skip

CHIPS: Mapping[str, Chip] = {chip.name: chip for chip in _ALL}

# The names that drivers give, the first that fits. H800 and A800 have the cores of H100 and A100 behind a slower link.
_NAMES: tuple[tuple[str, str], ...] = (
    (r"V100-SXM|V100-DGXS|V100-FHHL-SXM", "V100 SXM2"),
    (r"V100S-PCIE", "V100S PCIe"),
    (r"V100-PCIE", "V100 PCIe"),
    (r"A[18]00[- ]SXM4?-80GB", "A100 80GB SXM"),
    (r"A[18]00 80GB PCIe|A100-PCIE-80GB", "A100 80GB PCIe"),
    (r"A100-(SXM4|PCIE)-40GB|A100-PG509-200", "A100 40GB"),
    (r"H100 NVL", "H100 NVL"),
    (r"H[18]00 PCIe", "H100 PCIe"),
    (r"H[18]00( 80GB HBM3|-SXM5?)?$", "H100 SXM"),
    (r"H200( 141GB HBM3e| SXM)?$", "H200 SXM"),
    (r"\bH20\b", "H20"),
    (r"\bB200\b", "B200"),
    (r"\bL40S\b", "L40S"),
    (r"MI210\b", "MI210"),
    (r"MI250X\b", "MI250X (one die)"),
    (r"MI250\b", "MI250 (one die)"),
    (r"MI300A\b", "MI300A"),
    (r"MI300X\b", "MI300X"),
    (r"MI325X\b", "MI325X"),
    (r"Ascend ?910B([1-4])(C|-1)?$", r"Ascend910B\1"),
    (r"Ascend ?910_9392$", "Ascend910_9392"),
    (r"Ascend ?910(A|ProA|PremiumA)$", "Ascend910A"),
    (r"Ascend ?910ProB$", "Ascend910ProB"),
    (r"Ascend ?310P[0-9]?$", "Ascend310P"),
    (r"^generic CPU core$", "generic CPU core"),
)
_PATTERNS = tuple((re.compile(pattern, re.IGNORECASE), name) for pattern, name in _NAMES)
# A slice of a chip has a part of its peaks only.
_SLICE = re.compile(r"\bMIG\b|\bvGPU\b|GRID ", re.IGNORECASE)
# These names stand for several chips: the profiler's database says `Ascend910B` for all of the series.
_FAMILY = re.compile(r"^Ascend ?910(B|_93\d\d)?$", re.IGNORECASE)


def chip_of(name: str | None) -> Chip | None:
    """The chip of a name as a profiler gives it, such as `NVIDIA H100 80GB HBM3`; None when it is not known."""
    if not name or _SLICE.search(name):
        return None
    for pattern, known in _PATTERNS:
        found = pattern.search(name.strip())
        if found:
            return CHIPS[found.expand(known)]
    return None


def is_family(name: str | None) -> bool:
    """Whether counters may tell which chip it is: none is named, or a series whose members differ."""
    return name is None or bool(_FAMILY.match(name.strip()))


def by_counters(cubes: int, mhz: int) -> Chip:
    """The Ascend chip with split cores that has so many cubes at this clock; one of no name has no known bandwidth."""
    named = [
        chip for chip in _ALL
        if chip.vendor == "ascend" and chip.vector_cores and (chip.cores, chip.mhz) == (cubes, mhz)
    ]  # fmt: skip
    if named:
        return named[0]
    source = "counters of the capture: cycles, core time and cube use of its kernels"
    return ascend(
        f"Ascend with {cubes} cubes at {mhz} MHz", cubes=cubes, mhz=mhz, vectors=2 * cubes, gbps=None,
        source=source, memory="not known",
    )  # fmt: skip
