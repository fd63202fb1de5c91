"""Finds the class of work of an operator: by ATen names, Ascend's operator types, and kernel names.

Sources: PyTorch's `native_functions.yaml` and `torch/utils/flop_counter.py`, torch_npu's and CANN's operator lists, and
the names of cuBLAS, cuDNN, CUTLASS, hipBLASLt and MIOpen kernels in real traces. An operator that is not listed is
`other`: a guess would be wrong where it matters.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

MATRIX = ("matmul", "batched matmul", "convolution", "attention", "attention backward")
"""Classes of work that matrix units do; only the FLOPs of these classes count for MFU."""

CLASSES = (
    *MATRIX, "normalisation", "softmax", "elementwise", "reduction", "pooling", "optimizer", "embedding", "indexing",
    "copy", "cast", "transpose", "format conversion", "other",
)  # fmt: skip
"""All classes of operators. `transpose` holds copies that change the order of elements; `other` has no formula."""

LAYOUT = ("cast", "transpose", "format conversion")
"""Classes that compute nothing: their time is spent on types and layouts."""


class Operator(NamedTuple):
    """The class of an operator, and its formula in `hermes.knowledge.cost`; empty if there is none."""

    kind: str
    formula: str


_ATEN: tuple[tuple[str, str, str], ...] = (
    ("matmul", "mm", "mm _scaled_mm _int_mm"),
    ("matmul", "addmm", "addmm _addmm_activation sspaddmm"),
    ("matmul", "linear", "linear mkldnn_linear"),
    ("matmul", "mv", "mv"),
    ("matmul", "", "matmul addmv addr ger dot vdot"),
    ("batched matmul", "mm", "bmm"),
    ("batched matmul", "addmm", "baddbmm addbmm"),
    ("batched matmul", "grouped mm", "_grouped_mm _scaled_grouped_mm"),
    ("convolution", "convolution", """
        convolution _convolution cudnn_convolution miopen_convolution mkldnn_convolution thnn_conv2d
        _slow_conv2d_forward slow_conv3d_forward _conv_depthwise2d conv_depthwise3d miopen_depthwise_convolution
        cudnn_convolution_relu cudnn_convolution_add_relu slow_conv_dilated2d conv1d conv2d conv3d
    """),
    ("convolution", "convolution backward", "convolution_backward"),
    ("convolution", "convolution backward input", """
        cudnn_convolution_backward_input miopen_convolution_backward_input
    """),
    ("convolution", "", """
        cudnn_convolution_backward_weight miopen_convolution_backward_weight cudnn_convolution_transpose
        miopen_convolution_transpose cudnn_convolution_backward miopen_convolution_backward _slow_conv2d_backward
    """),
    ("attention", "attention bshd", "_flash_attention_forward _efficient_attention_forward"),
    ("attention", "attention bhsd", """
        _scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention
        _scaled_dot_product_cudnn_attention _cudnn_attention_forward
        _scaled_dot_product_fused_attention_overrideable _scaled_dot_product_flash_attention_for_cpu
    """),
    ("attention backward", "attention backward bshd", "_flash_attention_backward _efficient_attention_backward"),
    ("attention backward", "attention backward bhsd", """
        _scaled_dot_product_flash_attention_backward _scaled_dot_product_efficient_attention_backward
        _scaled_dot_product_cudnn_attention_backward _cudnn_attention_backward
        _scaled_dot_product_fused_attention_overrideable_backward
        _scaled_dot_product_flash_attention_for_cpu_backward
    """),
    ("normalisation", "norm", """
        native_layer_norm native_batch_norm cudnn_batch_norm miopen_batch_norm native_group_norm _fused_rms_norm
        batch_norm layer_norm rms_norm _native_batch_norm_legit batch_norm_elemt
    """),
    ("normalisation", "norm backward", """
        native_layer_norm_backward native_batch_norm_backward cudnn_batch_norm_backward miopen_batch_norm_backward
        native_group_norm_backward _fused_rms_norm_backward
    """),
    ("normalisation", "reduction", "batch_norm_stats"),
    ("softmax", "softmax", "_softmax _log_softmax softmax log_softmax _masked_softmax"),
    ("softmax", "softmax backward", "_softmax_backward_data _log_softmax_backward_data _masked_softmax_backward"),
    ("elementwise", "elementwise", """
        add sub rsub mul div floor_divide fmod remainder pow neg abs sign sgn exp exp2 expm1 log log2 log10 log1p sqrt
        rsqrt reciprocal sin cos tan tanh asin acos atan atan2 sinh cosh erf erfc erfinv sigmoid logit relu relu6
        leaky_relu elu selu celu silu gelu mish softplus hardtanh hardswish hardsigmoid threshold prelu
        _prelu_kernel glu clamp clamp_min clamp_max maximum minimum fmax fmin where masked_fill lerp addcmul addcdiv
        eq ne lt le gt ge logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not
        bitwise_xor __and__ __or__ isnan isinf isfinite nan_to_num ceil floor round trunc frac square tril triu
        bernoulli native_dropout native_dropout_backward dropout gelu_backward silu_backward tanh_backward
        sigmoid_backward threshold_backward leaky_relu_backward elu_backward hardtanh_backward hardswish_backward
        glu_backward softplus_backward mse_loss mse_loss_backward smooth_l1_loss binary_cross_entropy
        binary_cross_entropy_with_logits
    """),
    ("elementwise", "fill", """
        fill zero zeros ones full zero_ fill_ uniform normal random exponential arange eye native_dropout_mask
    """),
    ("reduction", "reduction", """
        sum mean prod std var var_mean std_mean norm linalg_vector_norm max min amax amin aminmax argmax argmin any
        all logsumexp cumsum cumprod nansum count_nonzero _fused_moving_avg_obs_fq_helper
    """),
    ("pooling", "", """
        max_pool2d max_pool2d_with_indices max_pool2d_with_indices_backward avg_pool2d avg_pool2d_backward
        adaptive_avg_pool2d _adaptive_avg_pool2d _adaptive_avg_pool2d_backward adaptive_max_pool2d
        max_pool3d_with_indices
    """),
    ("optimizer", "foreach", """
        _foreach_add _foreach_sub _foreach_mul _foreach_div _foreach_addcmul _foreach_addcdiv _foreach_sqrt
        _foreach_lerp _foreach_neg _foreach_reciprocal _foreach_pow _foreach_copy _foreach_maximum _foreach_zero
        _foreach_clamp_max _foreach_clamp_min _amp_foreach_non_finite_check_and_unscale
    """),
    ("optimizer", "fused adam", "_fused_adamw _fused_adam"),
    ("optimizer", "", "_fused_sgd _fused_adagrad _foreach_norm"),
    ("embedding", "embedding", "embedding"),
    ("embedding", "embedding backward", "embedding_dense_backward"),
    ("embedding", "", "embedding_bag _embedding_bag embedding_renorm _embedding_bag_backward"),
    ("indexing", "gather", "index_select gather"),
    ("indexing", "", """
        index index_put _index_put_impl index_add index_copy index_fill scatter scatter_add scatter_reduce
        gather_backward take nonzero masked_select masked_scatter unique _unique2 topk sort argsort searchsorted
        bincount histc one_hot nll_loss nll_loss_forward nll_loss_backward nll_loss2d_forward nll_loss2d_backward
        repeat_interleave multinomial
    """),
    ("copy", "copy", "copy clone copysign"),
    ("cast", "copy", "_to_copy to"),
    ("transpose", "copy", "contiguous"),
    ("copy", "concatenation", "cat _cat stack hstack vstack"),
    ("copy", "", """
        constant_pad_nd reflection_pad2d repeat roll flip slice_backward split_with_sizes_copy upsample_nearest2d
        upsample_bilinear2d im2col col2im select_backward unfold_backward
    """),
)  # fmt: skip

# Ascend's operator types without their version (`MatMulV2`), spelled as in CANN's operator lists.
_ASCEND: tuple[tuple[str, str, str], ...] = (
    ("matmul", "matrix product", "MatMul Gemm FullyConnection TransposeMatMul QuantMatmul WeightQuantBatchMatmul"),
    ("batched matmul", "matrix product", "BatchMatMul BatchMatmul QuantBatchMatmul TransposeBatchMatMul"),
    ("batched matmul", "grouped product", "GroupedMatmul GroupedMatMul"),
    ("batched matmul", "", """
        GroupedMatmulSwigluQuant AllGatherMatmul MatmulReduceScatter MatmulAllReduce
        MatmulAllReduceAddRmsNorm
    """),
    ("convolution", "convolution output", "Conv2D Conv3D"),
    ("convolution", "convolution input gradient", "Conv2DBackpropInput Conv3DBackpropInput"),
    ("convolution", "convolution filter gradient", "Conv2DBackpropFilter Conv3DBackpropFilter"),
    ("convolution", "", """
        DepthwiseConv2D DepthwiseConv2DBackpropInput DepthwiseConv2DBackpropFilter Conv2DTranspose Conv3DTranspose
        DeformableConv2D
    """),
    ("attention", "flash attention score", "FlashAttentionScore"),
    ("attention backward", "flash attention score grad", "FlashAttentionScoreGrad"),
    ("attention", "inference attention", "PromptFlashAttention IncreFlashAttention FusedInferAttentionScore"),
    ("attention", "", """
        PagedAttentionMask MultiLatentAttention
        UnpadFlashAttention NsaCompressAttention
    """),
    ("attention backward", "", "UnpadFlashAttentionGrad"),
    ("normalisation", "tensors", """
        LayerNorm LayerNormGrad LayerNormXBackprop LayerNormBetaGammaBackprop RmsNorm RmsNormGrad AddRmsNorm
        AddLayerNorm GroupNorm GroupNormGrad BatchNorm BatchNormGrad BNTrainingReduce BNTrainingUpdate
        BNTrainingReduceGrad BNTrainingUpdateGrad BNInfer InstanceNorm AddRmsNormCast GroupNormSilu DeepNorm
    """),
    ("softmax", "tensors", """
        Softmax SoftmaxGrad LogSoftmax LogSoftmaxGrad ScaledMaskedSoftmax ScaledMaskedSoftmaxGrad
        SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits CrossEntropyLoss CrossEntropyLossGrad
    """),
    ("elementwise", "tensors", """
        Add Sub Mul Div RealDiv FloorDiv Adds Muls Axpy Pow Pows Neg Abs Sign Exp Log Log1p Sqrt Rsqrt Reciprocal
        Sin Cos Tan Tanh TanhGrad Erf Sigmoid SigmoidGrad Relu ReluGrad LeakyRelu LeakyReluGrad Gelu GeluGrad
        FastGelu FastGeluGrad Swish SwishGrad Silu SiluGrad SwiGlu SwiGluGrad GeGlu HardSwish Elu Softplus
        ClipByValue Maximum Minimum Select SelectV2 Where MaskedFill MaskedScale Lerp Addcmul Addcdiv Equal NotEqual
        Less LessEqual Greater GreaterEqual LogicalAnd LogicalOr LogicalNot BitwiseAnd BitwiseOr IsFinite IsNan Ceil
        Floor Round Trunc Square Tril Triu DropOutDoMask DropOutGenMask StatelessDropOutGenMask
        RotaryPositionEmbedding RotaryMul RotaryMulGrad InterleaveRope ApplyRotaryPosEmb BiasAdd AddN AccumulateN
        MseLoss MseLossGrad Dequantize AscendQuant AscendDequant DynamicQuant Quantize
    """),
    ("elementwise", "tensors", """
        MemSet ZerosLike OnesLike Fill Range Eye StatelessRandomUniform StatelessRandomNormal
    """),
    ("reduction", "tensors", """
        ReduceSum ReduceSumD ReduceMean ReduceMeanD ReduceMax ReduceMin ReduceAny ReduceAll ReduceProd ArgMax
        ArgMaxWithValue ArgMin ArgMinWithValue Cumsum LpNorm SquareSum BiasAddGrad ReduceStd ReduceVar LogSumExp
    """),
    ("pooling", "tensors", """
        MaxPool MaxPoolWithArgmax MaxPoolGrad MaxPoolGradWithArgmax AvgPool AvgPoolGrad AdaptiveAvgPool2d
        AdaptiveAvgPool2dGrad AdaptiveAvgPool2dAssistMatrix MaxPool3D AvgPool3D
    """),
    ("optimizer", "tensors", """
        ForeachAddList ForeachAddScalar ForeachSubList ForeachMulScalar ForeachMulList ForeachMul ForeachAdd
        ForeachDivList ForeachDivScalar ForeachAddcmul ForeachAddcmulScalar ForeachAddcdiv ForeachAddcdivScalar
        ForeachSqrt ForeachLerpScalar ForeachLerpList ForeachNorm ForeachPowScalar ForeachCopy ForeachNeg
        ForeachZeroInplace ForeachNonFiniteCheckAndUnscale ApplyAdam ApplyAdamW ApplyAdamWQuant ApplyFusedEmaAdam
        ApplyMomentum ApplyGradientDescent ApplyRMSProp ApplyAdagrad FusedAdamW MultiTensorAdam AdamApplyOne
        LambUpdateWithLr NpuApplyAdam FusedMulApplyMomentum
    """),
    ("embedding", "looked up", "Gather EmbeddingLookup Embedding"),
    ("embedding", "", "EmbeddingDenseGrad EmbeddingBag"),
    ("indexing", "", """
        Index IndexPut IndexPutImpl GatherElements GatherNd ScatterElements ScatterNd ScatterNdAdd ScatterAdd
        ScatterUpdate UnsortedSegmentSum NonZero MaskedSelect TopK Sort ArgSort Unique OneHot NLLLoss NLLLossGrad
        InplaceIndexAdd MoeTokenPermute MoeTokenUnpermute MoeInitRouting MoeFinalizeRouting MoeGatingTopK
        RepeatInterleave Bincount IndexByTensor LinearIndex
    """),
    ("copy", "tensors", """
        TensorMove Identity Concat ConcatD Slice StridedSlice StridedSliceD Split SplitD SplitV SplitVD Pack Unpack
        Tile Pad BroadcastTo Expand MemcpyAsync StridedSliceAssign SliceAssign Roll Reverse Im2col
    """),
    ("cast", "tensors", "Cast"),
    ("transpose", "tensors", """
        Transpose TransposeD AsStrided ViewCopy ConfusionTranspose ConfusionTransposeD Permute DepthToSpace
        SpaceToDepth Contiguous
    """),
    ("format conversion", "tensors", "TransData TransDataRNN FormatCast NpuFormatCast"),
)  # fmt: skip

# Patterns for kernels that no operator of the capture launched; the first that fits counts, in lower case.
_KERNELS: tuple[tuple[str, str], ...] = (
    # pytorch/pytorch, torch/_inductor/codegen/triton.py: a name lists all its operators, and begins with its kind.
    (r"^triton_(red|per|spl)_fused.*softmax", "softmax"),
    (r"^triton_(red|per|spl)_fused.*(layer_norm|rms_norm|group_norm|batch_norm|rsqrt)", "normalisation"),
    (r"^triton_(red|per|spl)_fused", "reduction"),
    (r"^triton_for_fused", "optimizer"),
    (r"^triton_poi_fused", "elementwise"),
    # Dao-AILab/flash-attention 2 to 4, cuDNN, xformers, AITER, FlashInfer, FlashMLA, vLLM, SGLang, TensorRT-LLM.
    (
        r"flash.*bwd|fmha.*(bwd|backward|cutlassb)|attn.*(bwd|backward)|attention.*(bwd|backward)|sdpa.*bprop"
        r"|^_bwd_(kernel_)?(dq|dkv|dk_dv|preprocess)",
        "attention backward",
    ),
    (
        r"flash.*fwd|flash_?attn|flashattention|flash_?mla|fmha|attn_fwd|compute_attn|attention.*(fwd|forward)|sdpa.*fprop"
        r"|paged_?attention|unified_attention|flex_attention|decode_attention|_fwd_(grouped_)?kernel_stage|\bpa_fwd"
        r"|(batch|single)(prefill|decode)with|merge_(attn_)?states?|lean_attention|sparse_attn|mla_(fwd|decode)",
        "attention",
    ),
    (r"nchwtonhwc|nhwctonchw|nchwaddpadding|tensortransform", "format conversion"),
    (r"batched_transpose|::transpose<|transpose_kernel|^_?transpose_", "transpose"),
    # Routing of tokens to experts and back: vLLM, SGLang, TensorRT-LLM, DeepEP, Megatron.
    (
        r"routing|topkgating|grouped_topk|moe_?(align|sort|permut|unpermut|expand|map|topk)|align_block_size|sort_expert"
        r"|count_expert|count_and_sort|dispatch_layout|fused_mapping|expand_to_fused|expandinputrows|permute_(2d|1d|pooled)"
        r"|bucketize|bounds_check|jagged|linearize_index|kv_indices|page_indices|token_ids",
        "indexing",
    ),
    (r"moe.*(finalize|_sum)|finalizemoe|reduce_fused", "reduction"),
    # Products of experts: Triton's fused_moe, CUTLASS's groups, TensorRT-LLM's bmm, DeepGEMM, CK, triton_kernels.
    (
        r"fused_moe|moe.*(gemm|gmm|mmk|wna16)|(gemm|marlin).*moe|^_?bmm_|(m|k)_grouped|groupproblemshape|grouped_?(gemm|mm)"
        r"(?!::cuda::fp8)|group_gemm|\bgmm|matmul_ogs|ptrarray",
        "batched matmul",
    ),
    (
        r"dgrad|wgrad|convolve|winograd|implicit_gemm|_fprop|miopen.*conv|igemm_(fwd|bwd|wrw)|conv2d|causal_conv1d"
        r"|conv_depthwise",
        "convolution",
    ),
    (
        r"(?<!fb)gemm|gemv|^cijk_|cublas|splitk|^nvjet|matmul|tensorop|^triton_(tem|mm|bmm)|_mm_kernel|marlin|machete"
        r"|streamk",
        "matmul",
    ),
    (r"multi_tensor_apply|fused_?adam", "optimizer"),
    (r"softmax|soft_max", "softmax"),
    (
        r"layer_?norm|rms_?norm|batch_?norm|bn_(fw|bw)|group_?norm|rowwisemoments|(^|_)ln_(fwd|bwd)|l2norm",
        "normalisation",
    ),
    (r"rotary|rope|silu|swiglu|gelu|act_and_mul|geglu", "elementwise"),
    (r"embedding", "embedding"),
    (
        r"catarraybatchedcopy|reshape_and_cache|concat_and_cache|store_?kv_?cache|copy_tensor|kv_?cache.*(copy|write)",
        "copy",
    ),
    # Quantisation rounds and finds scales; it is no accidental change of type.
    (r"quant|cast_(to|back|and)_|_cast_to|cvt_", "elementwise"),
    (r"index|gather|scatter|radixsort|devicesort|mergesort|deviceselect|nll_loss|topk|sampling|penalt", "indexing"),
    (r"reduce_kernel|reduce_1block|devicereduce|devicescan|_scan_|cumsum|argmax", "reduction"),
    (r"max_pool|avg_pool|adaptive.*pool|pooling", "pooling"),
    (r"copy_kernel|float8_copy|bfloat16_copy|loadwithcast|storewithcast", "cast"),
    (r"elementwise_kernel|elementwise", "elementwise"),
)
# Name parts that belong to no CANN kernel: templates, and names of other libraries.
_NOT_OF_CANN = re.compile(r"[<(:]|kernel|^triton|^bmm_|^sm\d|^nvjet|^cijk|cutlass|^_z")
_KERNEL = tuple((re.compile(pattern), kind) for pattern, kind in _KERNELS)

_BY_ATEN = {name: Operator(kind, formula) for kind, formula, names in _ATEN for name in names.split()}
_BY_ASCEND = {name.lower(): Operator(kind, formula) for kind, formula, names in _ASCEND for name in names.split()}
_VERSION = re.compile(r"V?\d+(AiCore)?$")
OTHER = Operator("other", "")


@lru_cache(maxsize=16_384)
def operator_of(name: str) -> Operator:
    """The class of an operator by its name: `aten::mul_`, `MatMulV2`, `npu::npu_dtype_cast`; `OTHER` if not known."""
    space, _, plain = name.rpartition("::")
    if space in ("aten", "npu", "flash_attn", "torch_npu"):
        plain = plain.split(".")[0]
        return _BY_ATEN.get(plain) or _BY_ATEN.get(plain.removesuffix("_")) or OTHER
    if space:
        return OTHER
    return _BY_ASCEND.get(name.lower()) or _BY_ASCEND.get(_VERSION.sub("", name).lower()) or OTHER


@lru_cache(maxsize=16_384)
def kind_of_kernel(name: str) -> str:
    """The class that the name of a device kernel tells; `other` if it tells none.

    CANN puts the operator's type into the kernel's name: `aclnnMm_MatMulCommon_MatMulV2`, `trans_TransData_0`,
    `Conv2D5`. In `FusionOp_MatMul_Relu` the first operator is the work, and the other operators are fused to it.
    """
    lower = name.lower()
    words = name.split("_")[-4:]
    words = words if name.startswith("FusionOp_") else words[::-1]
    for word in () if _NOT_OF_CANN.search(lower) else words:
        kind = operator_of(word.rstrip("0123456789")).kind
        if kind != "other":
            return kind
    return next((kind for pattern, kind in _KERNEL if pattern.search(lower)), "other")


@lru_cache(maxsize=16_384)
def is_layout_kernel(name: str) -> bool:
    """Whether a library's kernel only changes the layout of a tensor, whatever operator launched the kernel."""
    return kind_of_kernel(name) == "format conversion"


def formulas() -> dict[str, set[str]]:
    """The formulas of the operators in each class."""
    found: dict[str, set[str]] = {kind: set() for kind in CLASSES}
    for operator in (*_BY_ATEN.values(), *_BY_ASCEND.values()):
        if operator.formula:
            found[operator.kind].add(operator.formula)
    return found


EXPERTS = ("aten::_grouped_mm", "npu::npu_grouped_matmul", "grouped_gemm::gmm")
"""Framework operators of grouped matrix multiplication; the first input has a row for each routed token."""
