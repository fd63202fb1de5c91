"""Chips: recognised by the names that drivers give, sane figures, each with a source."""

from __future__ import annotations

import re

import pytest
from tests.each import each

from hermes.knowledge.chip_fields import FIGURES, Chip, ascend
from hermes.knowledge.identify_chip import CHIPS, chip_by_counters, chip_of, is_family

EVERY = each(CHIPS.values(), lambda one: one.name)


NAMES = [
    ("NVIDIA H100 80GB HBM3", "H100 SXM"),
    ("NVIDIA H100 PCIe", "H100 PCIe"),
    ("NVIDIA H100 NVL", "H100 NVL"),
    ("NVIDIA H800", "H800 SXM"),
    ("NVIDIA H200", "H200 SXM"),
    ("NVIDIA H20", "H20"),
    ("NVIDIA B200", "B200"),
    ("NVIDIA B300 SXM6 AC", "B300"),
    ("NVIDIA A100-SXM4-80GB", "A100 80GB SXM"),
    ("NVIDIA A800-SXM4-80GB", "A800 80GB SXM"),
    ("NVIDIA A100 80GB PCIe", "A100 80GB PCIe"),
    ("NVIDIA A100-SXM4-40GB", "A100 40GB SXM"),
    ("NVIDIA A100-PCIE-40GB", "A100 40GB PCIe"),
    ("NVIDIA A100-PG509-200", "A100 40GB SXM"),
    ("NVIDIA L40S", "L40S"),
    ("Tesla V100-SXM2-16GB", "V100 SXM2"),
    ("Tesla V100-DGXS-32GB", "V100 DGX Station"),
    ("Tesla V100-PCIE-32GB", "V100 PCIe"),
    ("Tesla V100S-PCIE-32GB", "V100S PCIe"),
    ("AMD Instinct MI300X VF", "MI300X"),
    ("AMD Instinct MI300X OAM", "MI300X"),
    ("AMD Instinct MI325X", "MI325X"),
    ("AMD Instinct MI250X", "MI250X (one die)"),
    ("AMD Instinct MI250", "MI250 (one die)"),
    ("AMD Instinct MI210", "MI210"),
    ("Ascend910B3", "Ascend910B3"),
    ("Ascend910B2C", "Ascend910B2"),
    ("Ascend910B4-1", "Ascend910B4"),
    ("Ascend910_9392", "Ascend910_9392"),
    ("Tesla T4", "T4"),
    ("NVIDIA A10", "A10"),
    ("NVIDIA A10G", "A10G"),
    ("NVIDIA A30", "A30"),
    ("NVIDIA L4", "L4"),
    ("NVIDIA L40", "L40"),
    ("NVIDIA GB200", "GB200"),
    ("NVIDIA RTX A4000", "RTX A4000"),
    ("NVIDIA RTX A5000", "RTX A5000"),
    ("GeForce RTX 2070 SUPER", "RTX 2070 SUPER"),
    ("NVIDIA GeForce RTX 3090", "RTX 3090"),
    ("NVIDIA GeForce RTX 4090", "RTX 4090"),
    ("NVIDIA GeForce RTX 4090 Laptop GPU", "RTX 4090 Laptop"),
    ("AMD Instinct MI355X", "MI355X"),
    ("Ascend910_9382", "Ascend910_9382"),
    ("Ascend910_9362", "Ascend910_9362"),
    ("Ascend950PR_957b", "Ascend950PR, 28 cubes"),
    ("Ascend950DT_9592", "Ascend950DT, 36 cubes"),
    ("Ascend910A", "Ascend910A"),
    ("Ascend310P3", "Ascend310P"),
]


@pytest.mark.parametrize(("name", "chip"), NAMES)
def test_a_chip_is_known_by_the_name_that_its_driver_gives(name: str, chip: str) -> None:
    found = chip_of(name)
    assert found is not None
    assert found.name == chip


@pytest.mark.parametrize(
    "name",
    [
        None, "", "Ascend910B", "Ascend950PR", "NVIDIA H100 80GB HBM3 MIG 3g.40gb", "NVIDIA GeForce RTX 4070 Ti",
        "NVIDIA L4000", "AMD EPYC",
    ],
)  # fmt: skip
def test_what_is_not_one_known_chip_is_none(name: str | None) -> None:
    # A series, a slice of a chip and a stranger have no peak that could be looked up.
    assert chip_of(name) is None


def test_memory_tells_chips_of_one_name_apart() -> None:
    told = {gb: chip_of("NVIDIA GeForce RTX 3080", gb << 30) for gb in (10, 12)}
    assert {gb: chip.cores for gb, chip in told.items() if chip} == {10: 68, 12: 70}
    large = chip_of("NVIDIA H20", 139 << 30)
    assert large is not None
    assert large.bandwidth == 4800e9


@pytest.mark.parametrize(("name", "chip"), NAMES)
def test_a_name_is_of_one_chip_or_memory_tells_them_apart(name: str, chip: str) -> None:
    found = [one for one in CHIPS.values() if re.search(one.names, name, re.I)]
    assert chip in [one.name for one in found]
    assert len({one.memory for one in found}) == len(found)


@EVERY
def test_every_figure_of_a_chip_has_a_source(chip: Chip) -> None:
    assert set(chip.sources) == set(FIGURES)
    assert all(len(source) > 10 for source in chip.sources.values())


@EVERY
def test_a_shorter_type_is_never_slower(chip: Chip) -> None:
    for longer, shorter in (
        ("fp64", "fp32"), ("fp32", "tf32"), ("fp32", "hf32"), ("tf32", "fp16"), ("hf32", "fp16"), ("fp16", "fp8"),
        ("fp16", "int8"), ("fp32", "fp16"),
    ):  # fmt: skip
        if longer in chip.matrix and shorter in chip.matrix:
            assert chip.matrix[longer] <= chip.matrix[shorter], (longer, shorter)


@EVERY
def test_matrix_units_are_no_slower_than_the_others(chip: Chip) -> None:
    for precision, rate in chip.vector.items():
        if precision in chip.matrix:
            assert rate <= chip.matrix[precision] * 1.01, precision


@EVERY
def test_a_chip_has_a_balance_that_chips_have(chip: Chip) -> None:
    # Operations for each byte of memory: from one core of a CPU to inference cards, 2 to 500.
    assert chip.bandwidth is not None
    best = max(rate for precision, rate in chip.matrix.items() if precision not in ("fp8", "int8"))
    assert 2 < best / chip.bandwidth < 500


def test_rates_are_dense_ones() -> None:
    # Data sheets print 1979 TFLOP/s for H100 and 733 for L40S, with sparsity.
    assert CHIPS["H100 SXM"].matrix["bf16"] == 989.4e12
    assert CHIPS["L40S"].matrix["bf16"] == 362.05e12
    assert CHIPS["MI300X"].matrix["bf16"] == 1307.4e12


def test_a_graphics_card_counts_with_sums_in_float32() -> None:
    # NVIDIA prints 660 TFLOP/s for the RTX 4090: sums in 16 bits, and with sparsity.
    assert CHIPS["RTX 4090"].matrix["fp16"] == pytest.approx(165.2e12)
    assert CHIPS["RTX 4090"].matrix["tf32"] == CHIPS["RTX 4090"].matrix["fp32"]
    assert CHIPS["RTX A5000"].matrix["bf16"] == pytest.approx(111.2e12)
    assert not {"bf16", "tf32"} & {*CHIPS["T4"].matrix, *CHIPS["RTX 2070 SUPER"].matrix}


def test_the_950_series_has_wide_vector_cores_and_short_floats() -> None:
    chip = CHIPS["Ascend950PR, 32 cubes"]
    assert chip.matrix["bf16"] == pytest.approx(432.5e12, rel=0.001)
    assert chip.matrix["fp8"] == 2 * chip.matrix["fp16"]
    assert chip.vector["fp16"] == pytest.approx(54e12, rel=0.01)
    assert "fp32" not in chip.matrix


def test_a_device_of_two_dies_is_one_die() -> None:
    # 383 TFLOP/s and 3.2 TB/s are those of the package, of which PyTorch sees two devices.
    assert CHIPS["MI250X (one die)"].matrix["fp16"] == 191.5e12
    assert CHIPS["MI250X (one die)"].bandwidth == 1638e9


def test_the_rates_of_ascend_follow_from_cores_and_clock() -> None:
    # 24 cubes x 16^3 multiply-adds x 2 x 1.8 GHz; 20 cubes at 1.5 GHz are the 245.76 TFLOP/s of 910B4's ini file.
    assert CHIPS["Ascend910B2"].matrix["fp16"] == 24 * 4096 * 2 * 1.8e9
    assert CHIPS["Ascend910B4"].matrix["bf16"] == pytest.approx(245.76e12)
    assert CHIPS["Ascend910B4"].matrix["int8"] == pytest.approx(491.52e12)
    assert CHIPS["Ascend910B2"].matrix["hf32"] == 2 * CHIPS["Ascend910B2"].matrix["fp32"]


def test_counters_tell_a_chip_of_a_series() -> None:
    assert chip_by_counters(24, 1800).name == "Ascend910B2"
    assert chip_by_counters(20, 1800).name == "Ascend910B3"
    stranger = chip_by_counters(22, 1700)
    assert stranger.bandwidth is None
    assert stranger.matrix["fp16"] == 22 * 4096 * 2 * 1.7e9


def test_only_a_series_or_no_name_leaves_it_to_the_counters() -> None:
    assert is_family(None)
    assert is_family("Ascend910B")
    assert is_family("Ascend950PR_9599")
    assert not is_family("Ascend910B3-vir05_1c_16g")
    assert not is_family("Ascend910B3")
    assert not is_family("NVIDIA H100 80GB HBM3")


def test_old_ascend_chips_have_no_bfloat16() -> None:
    assert "bf16" not in CHIPS["Ascend910A"].matrix
    assert "bf16" in ascend("x", cubes=1, mhz=1, vectors=2, gbps=1, source="s", memory="m").matrix
