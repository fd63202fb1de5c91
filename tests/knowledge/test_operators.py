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
        ("Conv2DBackpropFilter10", "convolution"),
        ("unheard_of", "other"),
    ],
)
def test_a_kernel_without_operator_has_the_class_of_its_own_name(name: str, kind: str) -> None:
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
