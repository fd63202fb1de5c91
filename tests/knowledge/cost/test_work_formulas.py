"""Operations and bytes of operators, worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.knowledge.cost.operator import FORMULAS, classified, work_of
from hermes.knowledge.cost.tensors import Call, tensors
from hermes.knowledge.operators import CLASSES, operator_of


def call(
    name: str, shapes: str, dtypes: str, *, values: str = "", kernel: str = "", formats: str = "", out: str = "|"
) -> Call:
    """A call as the tables hold it; `out` is `shapes|types` with `|formats` if there are."""
    out_shapes, out_types, *out_formats = out.split("|")
    return Call(
        name=name,
        inputs=tensors(shapes, dtypes, formats or None),
        outputs=tensors(out_shapes, out_types, out_formats[0] if out_formats else None) if out_shapes else (),
        values=tuple(values.split(";")),
        dtypes=tuple(dtypes.split(";")),
        kernel=kernel,
    )


BF, F = "c10::BFloat16", "float"
CAUSAL, FULL = ";;;;;559;559;0.;True;False;0.125", ";;;;;559;559;0.;False;False;0.125"

# Formula, call, operations, bytes; the sums are written as they are done by hand.
CASES = [
    # A product of M x K and K x N: 2 M N K, and its three matrices once (torch/utils/flop_counter.py).
    (
        "mm",
        call("aten::mm", "8944,1024;1024,2816", f"{BF};{BF}"),
        2 * 8944 * 1024 * 2816,
        2 * (8944 * 1024 + 1024 * 2816 + 8944 * 2816),
    ),
    ("mm", call("aten::bmm", "3,5,7;3,7,11", f"{F};{F}"), 2 * 3 * 5 * 7 * 11, 4 * 3 * (5 * 7 + 7 * 11 + 5 * 11)),
    # Eight-bit inputs, bfloat16 out.
    (
        "mm",
        call("aten::_scaled_mm", "16,32;32,8", "c10::Float8_e4m3fn;c10::Float8_e4m3fn"),
        2 * 16 * 32 * 8,
        16 * 32 + 32 * 8 + 2 * 16 * 8,
    ),
    ("addmm", call("aten::addmm", "4;2,3;3,4;;", f"{BF};{BF};{BF};Scalar;Scalar"), 2 * 2 * 3 * 4, 2 * (4 + 6 + 12 + 8)),
    # Every row of tokens meets the matrix of its expert.
    (
        "grouped product",
        call("GroupedMatmul", "64,32;8,32,16", "DT_BF16;DT_BF16", out="64,16|DT_BF16"),
        2 * 64 * 32 * 16,
        2 * (64 * 32 + 8 * 32 * 16 + 64 * 16),
    ),
    # Tokens by experts: each token meets one matrix; its gradient of the weights is a product for each expert.
    (
        "grouped mm",
        call("aten::_grouped_mm", "64,32;8,32,16;8;;", f"{BF};{BF};int;;"),
        2 * 64 * 32 * 16,
        2 * (64 * 32 + 8 * 32 * 16 + 64 * 16),
    ),
    (
        "grouped mm",
        call("aten::_grouped_mm", "32,64;64,16;8;;", f"{BF};{BF};int;;"),
        2 * 32 * 64 * 16,
        2 * (32 * 64 + 64 * 16 + 8 * 32 * 16),
    ),
    # One new token of each of two sequences against 128 keys of half as many heads: 4 B N Sq Skv D.
    (
        "inference attention",
        call(
            "FusedInferAttentionScore",
            "2,8,1,64;2,4,128,64;2,4,128,64",
            ";".join(["DT_BF16"] * 3),
            out="2,8,1,64|DT_BF16",
        ),
        4 * 2 * 8 * 1 * 128 * 64,
        2 * (2 * 2 * 8 * 64 + 2 * 2 * 4 * 128 * 64),
    ),
    ("linear", call("aten::linear", "2,5,3;4,3;4", f"{F};{F};{F}"), 2 * 10 * 3 * 4, 4 * (30 + 12 + 4 + 40)),
    ("mv", call("aten::mv", "5,7;7", f"{F};{F}"), 2 * 35, 4 * (35 + 7 + 5)),
    # The second matrix lies transposed: K is what the first has beside the rows of the output.
    (
        "matrix product",
        call(
            "MatMulV2",
            "32,9216;4096,9216;4096",
            "FLOAT;FLOAT;FLOAT",
            formats="FORMAT_ND;FORMAT_ND;FORMAT_ND",
            out="32,4096|FLOAT|FORMAT_ND",
        ),
        2 * 32 * 9216 * 4096,
        4 * (32 * 9216 + 4096 * 9216 + 4096 + 32 * 4096),
    ),
    (
        "matrix product",
        call("BatchMatMulV2", "2,8,3;2,3,5", "DT_BF16;DT_BF16", out="2,8,5|DT_BF16"),
        2 * 2 * 8 * 3 * 5,
        2 * 2 * (24 + 15 + 40),
    ),
    # A 7 x 7 convolution with stride 2: 112 x 112 positions.
    (
        "convolution",
        call(
            "aten::cudnn_convolution",
            "32,3,224,224;64,3,7,7;;;;;;;",
            f"{F};{F};;;;;;;",
            values=";;[3, 3];[2, 2];[1, 1];1;False;False;True",
        ),
        2 * 32 * 112 * 112 * 64 * 3 * 49,
        4 * (32 * 3 * 224**2 + 64 * 3 * 49 + 32 * 64 * 112**2),
    ),
    # The same by the order of aten::convolution: stride before padding.
    (
        "convolution",
        call(
            "aten::convolution",
            "32,3,224,224;64,3,7,7;;;;;;;",
            f"{F};{F};;;;;;;",
            values=";;;[2, 2];[3, 3];[1, 1];False;[0, 0];1",
        ),
        2 * 32 * 112 * 112 * 64 * 3 * 49,
        4 * (32 * 3 * 224**2 + 64 * 3 * 49 + 32 * 64 * 112**2),
    ),
    # 32 groups of two channels: the filter has two input channels, which is all that counts.
    (
        "convolution backward",
        call(
            "aten::convolution_backward",
            "4,64,14,14;4,64,14,14;64,2,3,3;;;;;;;;",
            f"{BF};{BF};{BF};;;;;;;;",
            values=";;;[0];[1, 1];[1, 1];[1, 1];False;[0, 0];32;[True, True, False]",
        ),
        2 * (2 * 4 * 14 * 14 * 64 * 2 * 9),
        2 * (4 * 64 * 196 + 64 * 2 * 9 + 4 * 64 * 196),
    ),
    (
        "convolution backward input",
        call("aten::cudnn_convolution_backward_input", ";32,1024,14,14;1024,256,1,1;;", f";{F};{F};;"),
        2 * 32 * 14 * 14 * 1024 * 256,
        None,
    ),
    # Storage shapes: 192 channels in 24 blocks of 8; the filter is 8 x 25 blocks of inputs, 12 x 16 outputs.
    (
        "convolution output",
        call(
            "Conv2D",
            "32,8,27,27,8;200,12,16,8;192",
            "FLOAT;FLOAT;FLOAT",
            formats="NC1HWC0;FRACTAL_Z;NCHW",
            out="32,24,27,27,8|FLOAT|NC1HWC0",
        ),
        2 * 32 * 27 * 27 * (64 * 25 * 192),
        4 * (32 * 64 * 729 + 64 * 25 * 192 + 192 + 32 * 192 * 729),
    ),
    (
        "convolution input gradient",
        call(
            "Conv2DBackpropInput",
            "4;200,12,16,8;32,24,27,27,8",
            "INT32;FLOAT;FLOAT",
            formats="NCHW;FRACTAL_Z;NC1HWC0",
            out="32,8,27,27,8|FLOAT|NC1HWC0",
        ),
        2 * 32 * 27 * 27 * (64 * 25 * 192),
        4 * (4 + 64 * 25 * 192 + 32 * 192 * 729 + 32 * 64 * 729),
    ),
    (
        "convolution filter gradient",
        call(
            "Conv2DBackpropFilter",
            "32,8,27,27,8;4;32,24,27,27,8",
            "FLOAT;INT32;FLOAT",
            formats="NC1HWC0;NCHW;NC1HWC0",
            out="200,12,16,8|FLOAT|FRACTAL_Z",
        ),
        2 * 32 * 27 * 27 * (64 * 25 * 192),
        4 * (32 * 64 * 729 + 4 + 32 * 192 * 729 + 64 * 25 * 192),
    ),
    # 16 heads of 64 over 559 positions, causal: 4 B H S S D / 2 (FlashAttention-2, section 4.1).
    (
        "attention bshd",
        call(
            "aten::_flash_attention_forward",
            ";".join(["16,559,16,64"] * 3) + ";" * 8,
            ";".join([BF] * 3) + ";" * 8,
            values=CAUSAL,
        ),
        4 * 16 * 16 * 559 * 559 * 64 // 2,
        2 * 4 * 16 * 559 * 16 * 64,
    ),
    (
        "attention bhsd",
        call(
            "aten::_scaled_dot_product_efficient_attention",
            ";".join(["2,4,8,16"] * 3) + ";;;;",
            ";".join([F] * 3) + ";;;;",
            values=";;;;True;0.;False;",
        ),
        4 * 2 * 4 * 8 * 8 * 16,
        4 * 4 * 2 * 4 * 8 * 16,
    ),
    (
        "attention backward bshd",
        call(
            "aten::_flash_attention_backward",
            ";".join(["16,559,16,64"] * 5) + ";" * 8,
            ";".join([BF] * 5) + ";" * 8,
            values=";;;;;;;;559;559;0.;False;;;0.125",
        ),
        10 * 16 * 16 * 559 * 559 * 64,
        2 * 8 * 16 * 559 * 16 * 64,
    ),
    (
        "attention backward bhsd",
        call(
            "aten::_scaled_dot_product_flash_attention_backward",
            ";".join(["2,4,8,16"] * 5),
            ";".join([BF] * 5),
            values=";;;;;;;;8;8;0.;True;;",
        ),
        10 * 2 * 4 * 8 * 8 * 16 // 2,
        2 * 8 * 2 * 4 * 8 * 16,
    ),
    # SBH: 4096 positions, batch 2, 16 heads of 128; the maxima tell which is which. A triangle of 2048: causal.
    (
        "flash attention score",
        call(
            "FlashAttentionScore",
            "4096,2,2048;4096,2,2048;4096,2,2048;;;;2048,2048",
            "DT_BF16;DT_BF16;DT_BF16;DT_BF16;UINT8;DT_BF16;BOOL",
            out="2,16,4096,8;2,16,4096,8;;4096,2,2048|FLOAT;FLOAT;FLOAT;DT_BF16",
        ),
        4 * 2 * 16 * 4096 * 4096 * 128 // 2,
        2 * 3 * 4096 * 2 * 2048 + 2 + 1 + 2 + 2048**2 + 2 * 4 * 2 * 16 * 4096 * 8 + 4 + 2 * 4096 * 2 * 2048,
    ),
    (
        "flash attention score grad",
        call(
            "FlashAttentionScoreGrad",
            ";".join(["2,512,1024"] * 4) + ";;;;;2,8,512,8",
            ";".join(["FLOAT16"] * 8 + ["FLOAT"]),
            out=";".join(["2,512,1024"] * 3) + "|" + ";".join(["FLOAT16"] * 3),
        ),
        10 * 2 * 512 * 512 * 1024,
        2 * 4 * 2 * 512 * 1024 + 4 * 2 + 4 * 2 * 8 * 512 * 8 + 2 * 3 * 2 * 512 * 1024,
    ),
    (
        "elementwise",
        call("aten::mul", "16,16,559,64;1,1,559,64", f"{BF};{BF}"),
        16 * 16 * 559 * 64,
        2 * (2 * 16 * 16 * 559 * 64 + 559 * 64),
    ),
    # Float32 out of two types, a byte out of a comparison, the first tensor out of an in-place one.
    ("elementwise", call("aten::add", "8,8;8,8;", f"{F};{BF};Scalar"), 64, 64 * (4 + 2 + 4)),
    # A tensor for the result that has no numbers yet is not read.
    ("elementwise", call("aten::abs", "8,8;0", "double;double"), 64, 2 * 64 * 8),
    ("elementwise", call("aten::eq", "16,559;", "long int;Scalar"), 16 * 559, 16 * 559 * 9),
    ("elementwise", call("aten::add_", "8;8;", f"{BF};{F};Scalar"), 8, 8 * (2 + 4 + 2)),
    ("fill", call("aten::fill_", "100;", f"{F};Scalar"), 0, 400),
    (
        "reduction",
        call("aten::mean", "16,559,1024;;;", f"{F};ScalarList;Scalar;"),
        16 * 559 * 1024,
        4 * 16 * 559 * 1024,
    ),
    ("softmax", call("aten::_softmax", "8,128;;", f"{F};Scalar;Scalar"), 5 * 1024, 2 * 4096),
    (
        "softmax backward",
        call("aten::_softmax_backward_data", "8,128;8,128;;", f"{F};{F};Scalar;Scalar"),
        4096,
        3 * 4096,
    ),
    (
        "norm",
        call("aten::native_layer_norm", "4,256;;256;256;", f"{BF};ScalarList;{BF};{BF};Scalar"),
        8 * 1024,
        2 * (1024 + 256 + 256 + 1024),
    ),
    (
        "norm backward",
        call("aten::native_layer_norm_backward", "4,256;4,256;;256", f"{BF};{BF};ScalarList;{BF}"),
        16 * 1024,
        2 * (1024 + 1024 + 256 + 1024),
    ),
    ("copy", call("aten::copy_", "4,8;4,8;", f"{F};{BF};Scalar"), 0, 32 * (4 + 2)),
    ("copy", call("aten::clone", "4,8;", f"{F};Scalar"), 0, 2 * 128),
    (
        "concatenation",
        call("aten::cat", "4,8;4,8;", "TensorList;Scalar", kernel="CatArrayBatchedCopy<OpaqueType<2u>, int>"),
        0,
        2 * 2 * 64,
    ),
    (
        "gather",
        call("aten::index_select", "151936,1024;;8944", f"{BF};Scalar;long int", values=";0;"),
        0,
        2 * 2 * 8944 * 1024 + 8 * 8944,
    ),
    (
        "embedding",
        call("aten::embedding", "32000,2048;4096;;;", f"{BF};long int;Scalar;Scalar;Scalar"),
        0,
        2 * 2 * 4096 * 2048 + 8 * 4096,
    ),
    (
        "embedding backward",
        call("aten::embedding_dense_backward", "4096,2048;4096;;;", f"{BF};long int;;;"),
        4096 * 2048,
        2 * 2 * 4096 * 2048 + 8 * 4096,
    ),
    # Two lists of tensors, read; the first is written.
    (
        "foreach",
        call(
            "aten::_foreach_add_",
            "10,10;5;10,10;5;",
            "TensorList;TensorList;Scalar",
            kernel="multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpListAlphaFunctor<float, 2, 2, 0> >",
        ),
        105,
        4 * (210 + 105),
    ),
    # Parameters, gradients and two moments of 100 elements each; three of them are written.
    (
        "fused adam",
        call(
            "aten::_fused_adamw_",
            "100;100;100;100;;",
            "TensorList;TensorList;TensorList;TensorList;TensorList;TensorList",
            kernel="multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor<float, 4> >",
        ),
        1200,
        4 * (400 + 300),
    ),
    (
        "looked up",
        call("GatherV2", "32000,2048;4096", "DT_BF16;INT64", out="4096,2048|DT_BF16"),
        0,
        2 * 2 * 4096 * 2048 + 8 * 4096,
    ),
    (
        "tensors",
        call("TransData", "32,3,224,224", "FLOAT", formats="NCHW", out="32,1,224,224,8|FLOAT|NC1HWC0"),
        32 * 8 * 224**2,
        4 * (32 * 3 * 224**2 + 32 * 8 * 224**2),
    ),
]


@pytest.mark.parametrize(
    ("formula", "one", "flops", "size"), CASES, ids=[f"{case[0]}-{case[1].name}" for case in CASES]
)
def test_the_work_of_a_call_is_what_a_hand_finds(formula: str, one: Call, flops: int, size: int | None) -> None:
    assert operator_of(one.name).formula == formula
    work = work_of(one)
    assert work is not None
    assert (work.flops, work.bytes) == (flops, size)


@pytest.mark.parametrize(
    ("shapes", "dtypes", "precision"),
    [
        ("8,8;8,8;", "float;double;Scalar", "fp64"),
        ("8,8;8,8;", f"{BF};{F};Scalar", "fp32"),
        ("8,8;;", "float;double;Scalar", "fp32"),  # one number of a wider type widens nothing
        ("8,8;8,8;", "long int;float;Scalar", "fp32"),
    ],
)
def test_an_elementwise_operator_computes_in_the_widest_type_that_it_reads(
    shapes: str, dtypes: str, precision: str
) -> None:
    work = work_of(call("aten::sub", shapes, dtypes))
    assert work is not None
    assert work.precision == precision


def test_every_formula_and_every_class_has_a_case() -> None:
    assert {case[0] for case in CASES} == set(FORMULAS)
    # Those that share the formula `tensors` with TransData differ in nothing but their name.
    shared = {"pooling", "cast", "transpose", "other"}
    assert {classified(case[1]).kind for case in CASES} | shared == set(CLASSES)


@pytest.mark.parametrize(
    "one",
    [
        call("aten::mm", "8,3;4,5", f"{F};{F}"),
        call("aten::mm", "", ""),
        call("aten::bmm", "2,3,4;3,4,5", f"{F};{F}"),
        call("aten::mul", "3,4;5,4", f"{F};{F}"),
        call("aten::cudnn_convolution", "32,3,224,224;64,3,7,7;;;", f"{F};{F};;;"),
        call(
            "aten::convolution",
            "1,4,8,8;4,4,3,3;;;;;;;",
            f"{F};{F};;;;;;;",
            values=";;;[1, 1];[1, 1];[1, 1];True;[0, 0];1",
        ),
        call("aten::_flash_attention_forward", "4096,16,64;4096,16,64;4096,16,64;9;9", f"{BF};{BF};{BF};int;int"),
        call(
            "FlashAttentionScore",
            "4096,1,2048;4096,1,2048;4096,1,2048",
            "DT_BF16;DT_BF16;DT_BF16",
            out="4096,1,2048|DT_BF16",
        ),
        call("aten::cat", "4,8;4,8;", "TensorList;Scalar"),
        call("aten::index", "4,8;4", f"{F};long int"),
        call("SomethingNew", "4,8", F, out="4,8|FLOAT"),
        call("MatMulV2", "32,9216;4096,9216", "FLOAT;FLOAT"),
    ],
    ids=lambda one: one.name,
)
def test_shapes_that_do_not_fit_give_no_work(one: Call) -> None:
    assert work_of(one) is None


def test_an_attention_without_its_flag_is_said_to_be_assumed() -> None:
    known = work_of(
        call("aten::_flash_attention_forward", ";".join(["1,8,2,4"] * 3), ";".join([BF] * 3), values=CAUSAL)
    )
    blind = work_of(call("aten::_flash_attention_forward", ";".join(["1,8,2,4"] * 3), ";".join([BF] * 3)))
    full = work_of(call("aten::_flash_attention_forward", ";".join(["1,8,2,4"] * 3), ";".join([BF] * 3), values=FULL))
    assert known is not None
    assert blind is not None
    assert full is not None
    assert known.flops == blind.flops == full.flops // 2
    assert (known.note, blind.note) == ("", "causal assumed: the flag is not recorded")


@pytest.mark.parametrize(
    ("name", "values", "causal"),
    [
        ("aten::_scaled_dot_product_cudnn_attention", ";;;;True;0.;False;False;", False),
        ("aten::_scaled_dot_product_cudnn_attention", ";;;;False;0.;True;False;", True),
        ("aten::_scaled_dot_product_efficient_attention", ";;;;False;0.;True;", True),
        ("aten::_scaled_dot_product_flash_attention", ";;;0.;True;False;0.125", True),
    ],
)
def test_every_attention_has_its_flags_in_an_order_of_its_own(name: str, values: str, *, causal: bool) -> None:
    work = work_of(call(name, ";".join(["1,2,8,4"] * 3) + ";;;;", ";".join([BF] * 3) + ";;;;", values=values))
    assert work is not None
    assert work.flops == 4 * 2 * 8 * 8 * 4 // (2 if causal else 1)


@pytest.mark.parametrize(("kind", "causal"), [("0", False), ("1", True), ("2", True)])
def test_the_efficient_attention_names_its_mask_by_a_number(kind: str, *, causal: bool) -> None:
    work = work_of(
        call(
            "aten::_efficient_attention_forward", ";".join(["1,8,2,4"] * 3) + ";;;;;;;", ";".join([BF] * 3) + ";;;;;;;",
            values=f";;;;;;8;8;0.;{kind};True;",
        )
    )  # fmt: skip
    assert work is not None
    assert work.flops == 4 * 2 * 8 * 8 * 4 // (2 if causal else 1)


@pytest.mark.parametrize(
    ("to", "source", "kernel", "kind"),
    [
        (F, BF, "copy_kernel", "cast"),
        # PyTorch gives contiguous copies of one type to the driver; a kernel changes the order.
        (BF, BF, "direct_copy_kernel_cuda", "transpose"),
        (BF, BF, "", "copy"),
    ],
)
def test_a_copy_is_what_its_types_and_its_kernel_make_it(to: str, source: str, kernel: str, kind: str) -> None:
    assert classified(call("aten::copy_", "4,8;4,8;", f"{to};{source};Scalar", kernel=kernel)).kind == kind


@given(
    st.integers(1, 64), st.integers(1, 64), st.integers(1, 64), st.integers(1, 4),
)  # fmt: skip
def test_a_batch_of_products_is_as_much_as_its_products(m: int, k: int, n: int, batch: int) -> None:
    one = work_of(call("aten::mm", f"{m},{k};{k},{n}", f"{F};{F}"))
    many = work_of(call("aten::bmm", f"{batch},{m},{k};{batch},{k},{n}", f"{F};{F}"))
    assert one is not None
    assert one.bytes is not None
    assert many is not None
    assert (many.flops, many.bytes) == (batch * one.flops, batch * one.bytes)


@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 64), st.booleans(), st.booleans())
def test_a_stored_product_is_the_same_however_its_matrices_lie(m: int, k: int, n: int, left: bool, right: bool) -> None:
    a = f"{k},{m}" if left else f"{m},{k}"
    b = f"{n},{k}" if right else f"{k},{n}"
    work = work_of(call("MatMulV2", f"{a};{b}", "FLOAT;FLOAT", out=f"{m},{n}|FLOAT"))
    assert work is not None
    assert work.flops == 2 * m * n * k


@given(st.text(max_size=30), st.text(max_size=20), st.sampled_from(sorted(FORMULAS)))
def test_no_text_of_a_trace_breaks_a_formula(shapes: str, dtypes: str, formula: str) -> None:
    one = Call(name="aten::mm", inputs=tensors(shapes, dtypes), values=tuple(shapes.split(";")), kernel=dtypes)
    found = FORMULAS[formula](one)
    assert found is None or found.flops >= 0


@pytest.mark.parametrize("shapes", ["9" * 30, ",".join(["2"] * 40), "-1,2", "a,b", "1000000000,1000000000", "٣,4"])
def test_shapes_that_no_chip_can_hold_are_no_tensors(shapes: str) -> None:
    assert tensors(shapes, "float") == ()
