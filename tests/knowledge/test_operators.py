"""Classes of operators and kernels, by their names."""

from __future__ import annotations

import pytest

from hermes.knowledge.cost.operator import FORMULAS
from hermes.knowledge.dtypes import element_type
from hermes.knowledge.operators import CLASSES, LAYOUT, MATRIX, formulas, kind_of_kernel, operator_of


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::mm", "matmul"),
        ("aten::mul_", "elementwise"),
        ("aten::_foreach_add_", "optimizer"),
        ("aten::_flash_attention_backward", "attention backward"),
        ("aten::copy_", "copy"),
        ("MatMulV2", "matmul"),
        ("MatMulV3", "matmul"),
        ("BatchMatMulV2", "batched matmul"),
        ("Conv2DBackpropInput", "convolution"),
        ("LayerNormGradV3", "normalisation"),
        ("GatherV2", "embedding"),
        ("TransData", "format conversion"),
        ("Cast", "cast"),
        ("Transpose", "transpose"),
        ("ApplyAdamWV2", "optimizer"),
        ("FlashAttentionScoreGrad", "attention backward"),
        ("SomethingNew", "other"),
        ("mylib::fused_thing", "other"),
        ("", "other"),
    ],
)
def test_an_operator_has_the_class_that_its_name_says(name: str, kind: str) -> None:
    assert operator_of(name).kind == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "matmul"),
        ("Cijk_Alik_Bljk_B_BS_BH_Bias_HA_S_SAV_UserArgs_MT128x224x64", "matmul"),
        ("void flash::flash_bwd_dq_dk_dv_loop_kernel<traits>(Flash_bwd_params)", "attention backward"),
        ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64> >(Params)", "attention"),
        ("void cudnn::detail::dgrad_engine<float, 512>(int)", "convolution"),
        ("void cudnn::ops::nchwToNhwcKernel<float>(int)", "format conversion"),
        ("void at::native::reduce_kernel<512, 1>(int)", "reduction"),
        ("void at::native::vectorized_elementwise_kernel<4, silu>(int)", "elementwise"),
        ("aclnnMm_MatMulCommon_MatMulV2", "matmul"),
        ("trans_TransData_0", "format conversion"),
        ("FusionOp_MatMul_Relu", "matmul"),
        ("FusionOp_Conv2DBackpropInputD_ReluGradV2", "convolution"),
        ("Conv2DBackpropFilter10", "convolution"),
        ("unheard_of", "other"),
    ],
)
def test_a_kernel_without_operator_has_the_class_of_its_own_name(name: str, kind: str) -> None:
    assert kind_of_kernel(name) == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        # Experts: vLLM and SGLang (Triton), TensorRT-LLM, CUTLASS, DeepGEMM, Composable Kernel, triton_kernels.
        ("fused_moe_kernel", "batched matmul"),
        ("bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_clmp_swiGlu_dynBatch_sm100f", "batched matmul"),
        ("void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::GroupProblemShape<>>>()",
         "batched matmul"),
        ("void deep_gemm::sm90_m_grouped_fp8_gemm_impl<7168u>(float*)", "batched matmul"),
        ("void ck::kernel_moe_gemm<ck::GridwiseMoeGemm>(Argument)", "batched matmul"),
        ("_matmul_ogs_NNT_bf16xbf16xmxfp4_16x256x128x1", "batched matmul"),
        ("void deep_gemm::fp8_gemm_kernel<7168u, 2048u>(float*)", "matmul"),
        # Who gets which token.
        ("void vllm::moe::topkGatingSoftmax<4, 128>(float const*)", "indexing"),
        ("void vllm::moe::moe_align_block_size_kernel<int>(int const*)", "indexing"),
        ("void moe::dev::routing::routingIndicesHistogramKernel<Params>(Params)", "indexing"),
        ("void fbgemm_gpu::permute_2D_lengths_kernel<int>(int, int)", "indexing"),
        # Attention.
        ("kernel_unified_attention_2d", "attention"),
        ("_fwd_grouped_kernel_stage1", "attention"),
        ("void flashinfer::BatchPrefillWithPagedKVCacheKernel<Params>(Params)", "attention"),
        ("kernel_cutlass_kernel_flash_attncuteflash_fwd_sm100FlashAttentionForwardSm100_object_at", "attention"),
        ("void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<M>>>(P)", "attention"),
        ("fmha_cutlassF_bf16_aligned_64x128_rf_sm80(Params)", "attention"),
        ("fmha_cutlassB_bf16_aligned_64x64_k128_sm80(Params)", "attention backward"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_6", "attention backward"),
        ("void flash_fwd_splitkv_mla_kernel<Traits>(Params)", "attention"),
        ("void paged_attention_ll4mi_QKV_mfma16_kernel<0, __hip_bfloat16>(bf16 const*)", "attention"),
        # Between the products.
        ("void vllm::act_and_mul_kernel<c10::BFloat16, vllm::silu_kernel, true>(c10::BFloat16*)", "elementwise"),
        ("void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)", "elementwise"),
        ("void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)", "normalisation"),
        ("void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>(__nv_bfloat16 const*)", "copy"),
        ("void vllm::scaled_fp8_quant_kernel_strided<c10::BFloat16>(c10::Float8_e4m3fn*)", "elementwise"),
        ("void cuda::per_token_cast_to_fp8_with_channels<__nv_bfloat16, 128>(bf16 const*)", "elementwise"),
        ("void split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel<float>(A)", "embedding"),
        # TorchInductor: what is in the name tells less than its head.
        ("triton_poi_fused_add_index_select_mul_0", "elementwise"),
        ("triton_red_fused_add_mean_mul_pow_rsqrt_3", "normalisation"),
        ("triton_per_fused__softmax_1", "softmax"),
        ("triton_tem_fused_mm_5", "matmul"),
        ("triton_tem_fused_flex_attention_0", "attention"),
    ],
)  # fmt: skip
def test_kernels_of_serving_and_of_compilers_have_the_class_of_their_work(name: str, kind: str) -> None:
    assert kind_of_kernel(name) == kind


def test_every_class_but_the_unknown_has_a_formula() -> None:
    without = [kind for kind, found in formulas().items() if not found]
    assert without == ["other"]


def test_every_formula_that_an_operator_names_exists_and_every_formula_is_named() -> None:
    named = set().union(*formulas().values())
    # A copy between types, or of another order, is known by its shapes and types alone.
    assert named == set(FORMULAS)


def test_the_groups_of_classes_are_classes() -> None:
    assert set(MATRIX) | set(LAYOUT) <= set(CLASSES)
    assert len(set(CLASSES)) == len(CLASSES)


@pytest.mark.parametrize(
    ("name", "size", "precision"),
    [
        ("c10::BFloat16", 2, "bf16"), ("DT_BF16", 2, "bf16"), ("float", 4, "fp32"), ("FLOAT16", 2, "fp16"),
        ("c10::Half", 2, "fp16"), ("long int", 8, ""), ("INT64", 8, ""), ("unsigned char", 1, "int8"),
        ("bool", 1, ""), ("c10::Float8_e4m3fn", 1, "fp8"), ("Double", 8, "fp64"),
    ],
)  # fmt: skip
def test_types_are_known_in_all_their_spellings(name: str, size: int, precision: str) -> None:
    assert element_type(name) == (size, precision)


@pytest.mark.parametrize("name", ["Scalar", "TensorList", "", "ScalarList", "N/A"])
def test_what_is_no_tensor_has_no_type(name: str) -> None:
    assert element_type(name) is None
