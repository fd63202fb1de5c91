"""What a chip's two limits make of some work."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.knowledge.cost.operator import float32_by_kernel, inner_bytes, roof
from hermes.knowledge.cost.tensors import Call, tensors
from hermes.knowledge.cost.work_formulas import OperatorWorkload
from hermes.knowledge.identify_chip import CHIPS, chip_by_counters

H100, A100, B2 = CHIPS["H100 SXM"], CHIPS["A100 40GB SXM"], CHIPS["Ascend910B2"]


def product(flops: int, size: int | None, precision: str = "bf16") -> OperatorWorkload:
    return OperatorWorkload(flops=flops, bytes=size, unit="matrix", precision=precision)


def test_the_longer_of_operations_and_bytes_is_the_roof() -> None:
    # 989.4 TFLOP/s and 3352 GB/s: a million operations take 1.01 ns, a million bytes 298 ns.
    many = roof(product(989_400_000, 1_000), H100)
    moved = roof(product(1_000, 3_352_000), H100)
    assert many is not None
    assert moved is not None
    assert (many.limit, many.ns) == ("compute", pytest.approx(1_000))
    assert (moved.limit, moved.ns) == ("memory", pytest.approx(1_000))


def test_a_type_that_the_chip_has_no_rate_for_has_no_roof() -> None:
    assert roof(product(1_000, 1_000, "fp8"), A100) is None
    assert roof(product(1_000, 1_000, ""), A100) is None


def test_without_bytes_a_product_is_held_against_its_operations_alone() -> None:
    found = roof(product(989_400_000, None), H100)
    assert found is not None
    assert found.limit == "compute"
    assert roof(OperatorWorkload(flops=5, bytes=None, unit="vector", precision="fp32"), H100) is None


def test_a_chip_without_known_memory_has_no_roof_for_what_moves_data() -> None:
    stranger = chip_by_counters(22, 1_700)
    assert roof(OperatorWorkload(flops=5, bytes=100, unit="vector", precision="fp32"), stranger) is None
    assert roof(product(1_000, 100, "fp16"), stranger) is not None


@pytest.mark.parametrize(
    ("kernel", "precision"),
    [
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw", "tf32"),
        ("cutlass_80_tensorop_s1688gemm_128x128", "tf32"),
        ("ampere_sgemm_128x64_tn", "fp32"),
        ("cutlass_80_simt_sgemm_128x32_8x5_nn_align1", "fp32"),
        ("some_gemm", "fp32"),
    ],
)
def test_the_kernel_tells_whether_float32_was_shortened(kernel: str, precision: str) -> None:
    found = roof(product(10**9, 10**3, "fp32"), A100, kernel, ns=10**9)
    assert found is not None
    assert found.precision == precision


@pytest.mark.parametrize(
    ("kernel", "told"),
    [("ampere_sgemm_128x64_tn", "fp32"), ("cutlass_80_simt_sgemm_128x32_8x5_nn_align1", "fp32"),
     ("cutlass_80_tensorop_s1688gemm_128x128", "tf32"), ("maxwell_sgemm_128x64_tn", ""), ("gemm", "")],
)  # fmt: skip
def test_the_kernel_tells_float32_and_matrix_units_of_a_chip_that_is_not_known(kernel: str, told: str) -> None:
    assert float32_by_kernel(kernel) == told


def test_float32_that_is_faster_than_float32_can_be_was_shortened() -> None:
    # 19.5 TFLOP/s: 10^12 operations take 51 ms at least.
    slow, fast = (roof(product(10**12, 1, "fp32"), A100, "some_gemm", ns) for ns in (60_000_000, 20_000_000))
    assert slow is not None
    assert fast is not None
    assert (slow.precision, fast.precision) == ("fp32", "tf32")


def test_convolutions_of_ascend_are_shortened_and_products_are_not() -> None:
    found = {name: roof(product(10**9, 1, "fp32"), B2, name, ns=10**9) for name in ("Conv2D", "MatMulV2")}
    assert {name: top.precision for name, top in found.items() if top} == {"Conv2D": "hf32", "MatMulV2": "fp32"}


def test_a_chip_without_a_short_type_keeps_the_long_one() -> None:
    found = roof(product(10**12, 1, "fp32"), CHIPS["V100 SXM2"], "tf32_gemm", ns=1)
    assert found is not None
    assert found.precision == "fp32"


@given(st.integers(1, 10**15), st.integers(1, 10**12), st.integers(2, 1_000))
def test_more_work_never_has_a_shorter_roof(flops: int, size: int, times: int) -> None:
    one, more = roof(product(flops, size), H100), roof(product(flops * times, size * times), H100)
    assert one is not None
    assert more is not None
    assert more.ns == pytest.approx(one.ns * times)


@pytest.mark.parametrize(
    ("name", "shapes", "expected"),
    [
        ("aten::mm", "8944,1024;1024,2816", (2048, 5632)),
        ("aten::addmm", "7;8,3;3,7;;", (6, 14)),
        ("MatMulV2", "32,9216;4096,9216;4096", (18432, 18432)),
        ("aten::mul", "8,8;8,8", ()),
        ("aten::mm", "", ()),
    ],
)
def test_the_inner_axes_of_a_product_are_those_of_its_matrices(name: str, shapes: str, expected: tuple[int]) -> None:
    kinds = ";".join(["c10::BFloat16"] * (shapes.count(";") + 1))
    assert inner_bytes(Call(name=name, inputs=tensors(shapes, kinds))) == expected
