"""Kernels are called what people call them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.knowledge.kernel_names import plain_kernel_name

ADD = "at::native::CUDAFunctor_add<float>"
MUL = "at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("void cutlass::device_kernel<dpsk::gemm::fp8::GemmKernel>(dpsk::gemm::fp8::GemmKernel::Params)",
         "dpsk::gemm::fp8::GemmKernel"),
        ("void cutlass::device_kernel<flash::FlashAttnBwd<flash::Mainloop<2, cute::tuple<cute::C<1> > > > >(int)",
         "flash::FlashAttnBwd"),
        (f"void at::native::vectorized_elementwise_kernel<4, {ADD}, at::detail::Array<char*, 3> >(int, {ADD})",
         "CUDAFunctor_add (vectorized_elementwise_kernel)"),
        (f"void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<{MUL} >(int)::{{lambda}}>",
         "MulFunctor (elementwise_kernel)"),
        ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>(float*)",
         "CatArrayBatchedCopy"),
        ("void dpsk::ep::internode::combine<false, 8, __nv_bfloat16>(int4*, float*)", "dpsk::ep::internode::combine"),
        ("_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16E", "aiter::add_rmsnorm_quant_kernel"),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "ncclKernel_AllReduce_RING_LL_Sum_float"),
        ("volta_sgemm_128x32_nt", "volta_sgemm_128x32_nt"),
        ("aclnnMatMul_MatMulCommon_MatMulV2", "aclnnMatMul_MatMulCommon_MatMulV2"),
        ("Memcpy DtoD (Device -> Device)", "Memcpy DtoD (Device -> Device)"),
        ("void cutlass::device_kernel<dpsk::gemm::fp8_ptp…", "dpsk::gemm::fp8_ptp…"),
    ],
)  # fmt: skip
def test_a_symbol_loses_what_tells_nothing(name: str, said: str) -> None:
    assert plain_kernel_name(name) == said


@given(st.text(alphabet="ab:<>(), _Z0123N", max_size=40))
def test_no_name_is_lost(name: str) -> None:
    assert plain_kernel_name(name) or not name.strip(" <>(),") or not name
