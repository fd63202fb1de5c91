"""The transformer that the modelled job trains, as kernels: of a layer, its gradients, and the rest."""

from __future__ import annotations

from hermes_testing.job import FFN, HIDDEN, TOKENS, VOCABULARY
from hermes_testing.profile import Kernel

_US = 1_000
_CUDA = {
    "MatMulV2": "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas",
    "FlashAttentionScore": "void flash::flash_fwd_kernel<Flash_fwd_traits<128, 128> >(Flash_fwd_params)",
    "FlashAttentionScoreGrad": "void flash::flash_bwd_dq_dk_dv_loop_kernel<traits>(Flash_bwd_params)",
    "LayerNormV4": "void at::native::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float)",
    "LayerNormGradV3": "void at::native::layer_norm_grad_input_kernel<c10::BFloat16, float>(int)",
    "MaskedFill": "void at::native::masked_fill_kernel<c10::BFloat16, bool>(int)",
}


def _kernel(
    op: str,
    kind: str,
    us: int,
    *,
    core: str = "AI_VECTOR_CORE",
    inner: str = "",
    api: str = "",
    inputs: str = f"{TOKENS},{HIDDEN}",
    output: str = f"{TOKENS},{HIDDEN}",
    dtype: str = "DT_BF16",
    blocks: int = 40,
) -> Kernel:
    tensors = inputs.count(";") + 1
    elements = 1
    for dimension in filter(None, output.split(";")[0].split(",")):
        elements *= int(dimension)
    return Kernel(
        op=op,
        inner=inner or op,
        api=api or f"aclnn{kind}",
        type=kind,
        core=core,
        base_ns=us * _US,
        inputs=inputs,
        dtypes=";".join([dtype] * tensors),
        formats=";".join(["ND"] * tensors),
        output=output,
        output_dtype=dtype,
        output_format="ND",
        blocks=blocks,
        output_bytes=elements * 2,
        cuda=_CUDA.get(kind, f"void at::native::vectorized_elementwise_kernel<4, {kind.lower()}>(int)"),
    )


def _matmul(op: str, us: int, rows: int, inner: int, columns: int) -> Kernel:
    deep = op.startswith("aten::mm")
    return _kernel(
        "aten::mm" if deep else op,
        "MatMulV2",
        us,
        core="AI_CORE",
        inner="aten::mm" if deep else "aten::addmm",
        api="aclnnMm" if deep else "aclnnAddmm",
        inputs=f"{rows},{inner};{inner},{columns}" + ("" if deep else f";{columns}"),
        output=f"{rows},{columns}",
        blocks=24,
    )


class Model:
    """The kernels of the transformer, its matrices cut over `tp` ranks, for a batch of so many tokens."""

    def __init__(self, tp: int, tokens: int) -> None:
        self._tokens = tokens
        us = self._us
        wide, tall = 3 * HIDDEN // tp, FFN // tp
        shape = f"{tokens},{HIDDEN}"
        norm = _kernel(
            "aten::layer_norm",
            "LayerNormV4",
            us(42),
            inner="aten::native_layer_norm",
            inputs=f"{shape};{HIDDEN};{HIDDEN}",
        )
        attention = _kernel(
            "npu::npu_fusion_attention",
            "FlashAttentionScore",
            us(540),
            core="MIX_AIC",
            inputs=";".join([f"{tokens},1,{HIDDEN // tp}"] * 3),
            output=f"{tokens},1,{HIDDEN // tp}",
            blocks=24,
        )
        add = _kernel("aten::add", "Add", us(36), inputs=f"{shape};{shape}")
        gelu = _kernel("aten::gelu", "Gelu", us(75), inputs=f"{tokens},{tall}", output=f"{tokens},{tall}")
        self.attention = (
            norm,
            _matmul("aten::linear", us(610), tokens, HIDDEN, wide),
            attention,
            _matmul("aten::linear", us(215), tokens, HIDDEN // tp, HIDDEN),
        )
        self.mlp = (
            add,
            norm,
            _matmul("aten::linear", us(560), tokens, HIDDEN, tall),
            gelu,
            _matmul("aten::linear", us(560), tokens, tall, HIDDEN),
        )
        self.residual = (add,)
        self.fused = _kernel(
            "npu::npu_mm_all_reduce_base",
            "MatmulAllReduce",
            us(215),
            core="MIX_AIC",
            inputs=f"{tokens},{HIDDEN // tp};{HIDDEN // tp},{HIDDEN}",
            output=f"{tokens},{HIDDEN}",
            blocks=24,
        )
        self.embedding = (
            _kernel("aten::embedding", "GatherV2", us(96), inputs=f"{VOCABULARY},{HIDDEN};{tokens}", blocks=48),
            _kernel("npu::npu_dtype_cast", "Cast", us(28)),
        )
        logits = f"{tokens},{VOCABULARY // tp}"
        self.loss = (
            norm,
            _matmul("aten::linear", us(980), tokens, HIDDEN, VOCABULARY // tp),
            _kernel(
                "aten::log_softmax",
                "LogSoftmaxV2",
                us(310),
                inner="aten::_log_softmax",
                inputs=logits,
                output=logits,
            ),
            _kernel("aten::nll_loss", "NLLLoss", us(22), inner="aten::nll_loss_forward", inputs=logits, output="1"),
        )

    def _us(self, us: int) -> int:
        """What a kernel takes that takes `us` for a full batch."""
        return max(1, us * self._tokens // TOKENS)

    def backward(self, kernel: Kernel) -> tuple[str, tuple[Kernel, ...]]:
        """The autograd node of a forward kernel, and its kernels."""
        shape, back = kernel.inputs, f"{kernel.output};{kernel.inputs.split(';')[0]}"
        if kernel.type == "MatMulV2":
            rows, inner = (int(part) for part in kernel.inputs.split(";")[0].split(","))
            columns = int(kernel.output.split(",")[1])
            one = _matmul("aten::mm", kernel.base_ns // _US, rows, columns, inner)
            return "AddmmBackward0", (one, _matmul("aten::mm", kernel.base_ns // _US, inner, rows, columns))
        made = {
            "LayerNormV4": (
                "NativeLayerNormBackward0",
                "aten::native_layer_norm_backward",
                "LayerNormGradV3",
                95,
            ),
            "FlashAttentionScore": (
                "NpuFusionAttentionBackward0",
                "npu::npu_fusion_attention_grad",
                "FlashAttentionScoreGrad",
                1_100,
            ),
            "Gelu": ("GeluBackward0", "aten::gelu_backward", "GeluGrad", 90),
            "GatherV2": ("EmbeddingBackward0", "aten::embedding_dense_backward", "EmbeddingDenseGrad", 240),
            "LogSoftmaxV2": (
                "LogSoftmaxBackward0",
                "aten::_log_softmax_backward_data",
                "LogSoftmaxGrad",
                330,
            ),
            "NLLLoss": ("NllLossBackward0", "aten::nll_loss_backward", "NLLLossGrad", 60),
        }.get(kernel.type)
        if made is None:
            return "AddBackward0", ()
        node, op, kind, us = made
        core = "MIX_AIC" if kernel.core == "MIX_AIC" else "AI_VECTOR_CORE"
        return node, (
            _kernel(
                op,
                kind,
                self._us(us),
                core=core,
                inputs=back,
                output=shape.split(";")[0],
                blocks=kernel.blocks,
            ),
        )


OPTIMIZER = tuple(
    kernel
    for name, takes in (("Mul", 110), ("Addcmul", 190), ("Sqrt", 120), ("Addcdiv", 210))
    for kernel in [_kernel(f"aten::_foreach_{name.lower()}_", f"Foreach{name}", takes, dtype="FLOAT")] * 3
)
NORMS = (
    _kernel("aten::_foreach_norm", "ForeachNorm", 140, dtype="FLOAT", output="1"),
    _kernel("aten::clamp", "ClipByValue", 8, dtype="FLOAT", inputs="1", output="1", blocks=1),
)

AI_CPU_KERNEL = _kernel(
    "aten::nonzero",
    "NonZero",
    1_500,
    core="AI_CPU",
    inputs=f"{TOKENS}",
    output=f"{TOKENS}",
    dtype="INT64",
    blocks=1,
)
ITEM_BYTES = 4
BATCH_BYTES = TOKENS * 8


def gradient_bytes(tp: int) -> int:
    """Bytes of the gradients of one layer on one rank."""
    return 2 * (4 * HIDDEN * HIDDEN + 2 * HIDDEN * FFN) // tp


def embedding_bytes(tp: int) -> int:
    """Bytes of the gradients of the embedding on one rank."""
    return 2 * VOCABULARY * HIDDEN // tp


_IMAGES = "32,64,56,56"
CONVOLUTION = (
    _kernel(
        "aten::conv2d",
        "Conv2D",
        190,
        core="AI_CORE",
        inner="aten::convolution",
        api="aclnnConvolution",
        inputs=f"{_IMAGES};64,64,3,3",
        output=_IMAGES,
        blocks=24,
    ),
    _kernel("aten::batch_norm", "BNTrainingReduce", 80, inner="aten::native_batch_norm", inputs=_IMAGES, output="64"),
    _kernel(
        "aten::batch_norm",
        "BNTrainingUpdate",
        150,
        inner="aten::native_batch_norm",
        inputs=f"{_IMAGES};64;64",
        output=_IMAGES,
    ),
    _kernel("aten::relu", "Relu", 45, inputs=_IMAGES, output=_IMAGES),
)
"""A convolution with its batch norm and activation, each a kernel."""
LINEAR_FROM_PARTS = (
    _matmul("aten::mm", 215, TOKENS, HIDDEN, HIDDEN),
    _kernel("aten::add", "Add", 130, inputs=f"{TOKENS},{HIDDEN};{HIDDEN}"),
    _kernel("aten::gelu", "Gelu", 120),
)
"""A product, the sum with its bias, and an activation, each a kernel."""
VECTOR_ON_CUBE = _kernel("aten::mul", "Mul", 420, core="AI_CORE", inputs=f"{TOKENS},{FFN};{TOKENS},{FFN}", blocks=24)
"""Elementwise work that runs on the cores of the matrix unit."""
