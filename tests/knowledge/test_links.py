"""Links of chips, and factors of bus bandwidth."""

from __future__ import annotations

import pytest

from hermes.knowledge.links import bus_factor, device_link, link_spec


@pytest.mark.parametrize(
    ("op", "ranks", "factor"),
    [
        ("all_reduce", 8, 1.75), ("all_gather", 8, 0.875), ("reduce_scatter", 4, 0.75), ("all_to_all", 2, 0.5),
        ("broadcast", 8, 1.0), ("reduce", 8, 1.0), ("send", 2, 1.0), ("recv", 2, 1.0), ("barrier", 8, None),
        ("all_reduce", 1, None), ("all_reduce", 0, None),
    ],
)  # fmt: skip
def test_the_factors_are_those_of_nccl_tests(op: str, ranks: int, factor: float | None) -> None:
    assert bus_factor(op, ranks) == factor


@pytest.mark.parametrize(
    ("chip", "transport", "speed"),
    [
        ("Ascend910B", "HCCS", 28.0), ("Ascend910B3", "RDMA", 25.0), ("Ascend910A", "HCCS", 18.0),
        ("Ascend910A", "PCIE", 20.0), ("Ascend910B", "PCIE", None), ("Ascend310P", "HCCS", None),
        (None, "HCCS", None), ("Ascend910B", "SIO", None),
    ],
)  # fmt: skip
def test_an_ascend_link_is_known_by_chip_and_transport(chip: str | None, transport: str, speed: float | None) -> None:
    found = link_spec(chip, transport)
    assert (found.gb_per_s if found else None) == speed
    assert found is None or "msprof" in found.source


@pytest.mark.parametrize(
    ("chip", "speed"),
    [
        ("NVIDIA H100 80GB HBM3", 450.0), ("NVIDIA H100 PCIe", None), ("NVIDIA H100 NVL", None),
        ("NVIDIA H200", 450.0), ("NVIDIA A100-SXM4-80GB", 300.0), ("NVIDIA A100-PCIE-40GB", None),
        ("NVIDIA H800", 200.0), ("NVIDIA A800-SXM4-80GB", 200.0), ("Tesla V100-SXM2-32GB", 150.0),
        ("Tesla V100-PCIE-16GB", None), ("NVIDIA B200", 900.0), ("AMD Instinct MI300X", 448.0),
        ("AMD Instinct MI325X", 448.0), ("NVIDIA GB200", 900.0), ("AMD Instinct MI355X", 537.6),
        ("NVIDIA GeForce RTX 4090", None), (None, None),
    ],
)  # fmt: skip
def test_a_gpu_is_known_by_all_its_links_and_a_board_without_them_is_not(chip: str | None, speed: float | None) -> None:
    found = device_link(chip)
    assert (found.gb_per_s if found else None) == speed
