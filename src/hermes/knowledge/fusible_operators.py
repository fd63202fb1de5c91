"""Sequences of operators that a library or compiler can fuse: as patterns over letters, one letter for each operator.

Sources: the affinity sequences and optimizers of msprof-analyze 26.2's advisor (timeline_fusion_ops.yaml, CANN 8.0),
each with the operator that torch_npu documents instead. Other patterns are CANN's fusion passes (Conv with BatchNorm,
MatMul with BiasAdd, with elementwise operators), and PyTorch's `torch.nn.utils.fusion` and `functional.linear`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from hermes.base.message import Message, sentence
from hermes.model.advice_fit import Fit

_VERSION = re.compile(r"(V\d+|D|AiCore)$")

_LETTERS: tuple[tuple[str, str], ...] = (
    ("C", "conv1d conv2d conv3d convolution cudnn_convolution mkldnn_convolution miopen_convolution depthwiseconv2d"),
    ("B", """batch_norm native_batch_norm cudnn_batch_norm miopen_batch_norm _native_batch_norm_legit batchnorm
          bntrainingreduce bntrainingupdate bninfer batchnormv3 batch_norm_gather_stats_update"""),
    ("A", """relu relu6 gelu fastgelu silu swish sigmoid tanh leaky_relu leakyrelu hardswish hard_swish mish elu
          softplus geluv2"""),
    ("M", "mm addmm linear matmul bmm baddbmm matmulv3 batchmatmul transposebatchmatmul"),
    ("b", "biasadd"),
    ("+", "add add_ addv2 axpy"),
    ("*", "mul mul_ muls"),
    ("/", "div realdiv div_"),
    ("S", "softmax _softmax log_softmax"),
    ("F", "masked_fill masked_fill_ maskedfill"),
    ("D", "dropout native_dropout dropoutdomask dropout_"),
    ("k", "cast to _to_copy type_as npu_dtype_cast"),
    ("t", "transdata transpose permute t npu_format_cast formatcast"),
    ("v", "view reshape _unsafe_view flatten _reshape_alias"),
    ("c", "contiguous clone"),
    ("L", "layer_norm native_layer_norm layernorm"),
    ("R", "rmsnorm npu_rms_norm rms_norm _fused_rms_norm"),
    ("G", "group_norm native_group_norm groupnorm"),
    ("g", "gelu"), ("s", "silu swish"), ("i", "sigmoid"),
    ("n", "neg"), ("K", "cat concat"), ("l", "slice chunk split stridedslice"),
    ("p", "pow pows square"), ("m", "mean reducemean"), ("r", "rsqrt"), ("q", "reciprocal"),
    ("o", "argsort sort"), ("x", "index_select gather gatherv2"), ("u", "sum reduce_sum reducesum"),
)  # fmt: skip
_KERNEL_LETTERS = {name: letter for letter, names in reversed(_LETTERS[:19]) for name in names.split()}
_CALL_LETTERS = {name: letter for letter, names in _LETTERS for name in names.split()}
OTHER = "."
OPERATOR_SPACES = r"^(aten|npu|torch_npu)::"
"""A pattern of the first letters of framework operators' names."""


_OF_TORCH = Fit(frameworks=("pytorch",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fusion:
    """A sequence of kernels that could be one: `pattern` over kernel letters; `passes` are letters that break it."""

    name: str
    pattern: str
    do: Message
    source: str
    fit: Fit = _OF_TORCH


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkFusion:
    """A sequence of framework operators, as a pattern over their letters, and torch_npu's operator for the sequence."""

    name: str
    pattern: str
    instead: str


BREAKERS = "ktD"
"""Casts, changes of layout or format, and dropout: between two operators, each keeps a compiler from fusing both."""
FUSIONS: tuple[Fusion, ...] = (
    Fusion(
        name="convolution, batch norm and activation",
        pattern=rf"C[{BREAKERS}]*B+[{BREAKERS}]*A",
        do=sentence("fusion.convolution_activation_do"),
        source="CANN, graph fusion passes (ConvBnFusionPass, ConvBnReduce); PyTorch, torch.nn.utils.fusion",
    ),
    Fusion(
        name="convolution and batch norm",
        pattern=rf"C[{BREAKERS}]*B+",
        do=sentence("fusion.convolution_do"),
        source="CANN, graph fusion passes (ConvBnFusionPass); PyTorch, torch.nn.utils.fusion",
    ),
    Fusion(
        name="product, bias and activation",
        pattern=rf"M[{BREAKERS}]*b[{BREAKERS}]*A",
        do=sentence("fusion.bias_activation_do"),
        source="CANN, MatMulBiasAddFusionPass and TbeMatmulElemwiseFusionPass; PyTorch, functional.linear",
    ),
    Fusion(
        name="product and bias",
        pattern=rf"M[{BREAKERS}]*b",
        do=sentence("fusion.bias_do"),
        source="CANN, MatMulBiasAddFusionPass; PyTorch, functional.linear",
    ),
    Fusion(
        name="casts around a norm",
        pattern=r"k[LRG]k",
        do=sentence("fusion.casts_do"),
        source="msprof-analyze, Cast-LayerNorm-Cast",
    ),
    Fusion(
        name="transpositions in a row",
        pattern=r"t{3,}",
        do=sentence("fusion.transpositions_do"),
        fit=Fit(chips=("ascend",), frameworks=("pytorch",)),
        source="msprof-analyze, Transpose sequences",
    ),
)
"""Patterns of fusible kernels, the longer first: a kernel belongs to one pattern."""

_MOVED = "torch_npu.npu_confusion_transpose"
_GATED = "torch_npu.npu_swiglu"
_ATTENTION = "torch_npu.npu_fusion_attention"
AFFINITIES: tuple[FrameworkFusion, ...] = (
    FrameworkFusion(name="attention from parts", pattern=r"M\+?\*?F?SD?M", instead=_ATTENTION),
    FrameworkFusion(name="attention from parts, mask added", pattern=r"M\+?[*/]?\+?SD?M", instead=_ATTENTION),
    FrameworkFusion(name="rotary embedding, chunked", pattern=r"lnK\*{0,2}\+", instead="torch_npu.npu_rotary_mul"),
    FrameworkFusion(name="RMSNorm from parts", pattern=r"pm\+?r\*k?", instead="torch_npu.npu_rms_norm"),
    FrameworkFusion(name="SwiGLU, silu then product", pattern=r"l(s\*|\*s)", instead=_GATED),
    FrameworkFusion(name="SwiGLU, sigmoid", pattern=r"l(i\*\*|\*i\*|\*\*i)", instead=_GATED),
    FrameworkFusion(name="GEGLU", pattern=r"l(g\*|\*g)", instead="torch_npu.npu_geglu"),
    FrameworkFusion(name="group norm and silu", pattern=r"Gs", instead="torch_npu.npu_group_norm_silu"),
    FrameworkFusion(
        name="softmax of masked scores", pattern=r"(\*?F|\+)S", instead="torch_npu.npu_scaled_masked_softmax"
    ),
    FrameworkFusion(
        name="clipping of gradients", pattern=r"\+q\*", instead="clip_grad_norm_fused_ of the NpuFused optimizers"
    ),
    FrameworkFusion(name="scaled sum of a product", pattern=r"\*\*\+", instead="torch.addmm with alpha and beta"),
    FrameworkFusion(name="sum and layer norm", pattern=r"\+L", instead="torch_npu.npu_add_layer_norm"),
    FrameworkFusion(name="sum and RMSNorm", pattern=r"\+R", instead="torch_npu.npu_add_rms_norm"),
    FrameworkFusion(name="permuted, then reshaped", pattern=r"tc?v", instead=_MOVED),
    FrameworkFusion(name="reshaped, then permuted", pattern=r"vc?t", instead=_MOVED),
    FrameworkFusion(name="tokens permuted", pattern=r"oox", instead="torch_npu.npu_moe_token_permute"),
    FrameworkFusion(name="tokens put back", pattern=r"x\*u", instead="torch_npu.npu_moe_token_unpermute"),
    FrameworkFusion(
        name="product and sum", pattern=r"M\+", instead="torch.addmm, or npu_matmul_add of MindSpeed for gradients"
    ),
    FrameworkFusion(name="GELU", pattern=r"g", instead="torch_npu.fast_gelu, an approximation"),
)
"""The advisor's 37 sequences as patterns, the longer first; patterns of attention and RMSNorm need their middle."""

OPTIMIZERS = {
    name: f"torch_npu.optim.NpuFused{name}"
    for name in ("AdamW", "SGD", "Adadelta", "Lamb", "AdamP", "BertAdam", "RMSprop", "RMSpropTF", "Adam")
}
"""Optimizers by the name in `Optimizer.step#NAME.step`, with torch_npu's fused optimizer for each."""


@lru_cache(maxsize=8192)
def kernel_letter(name: str) -> str:
    """The letter of a kernel by its operator, such as `MatMulV2`, `BNTrainingUpdate` or `aten::relu_`."""
    plain = name.rpartition("::")[2]
    lower = plain.lower()
    return (
        _KERNEL_LETTERS.get(lower)
        or _KERNEL_LETTERS.get(_VERSION.sub("", plain).lower())
        or _KERNEL_LETTERS.get(lower.rstrip("_"))
        or OTHER
    )


@lru_cache(maxsize=8192)
def call_letter(name: str) -> str:
    """The letter of a framework call: `aten::gelu` is `g`, while `kernel_letter` has one letter for all activations."""
    space, _, plain = name.rpartition("::")
    if space not in ("aten", "npu", "torch_npu"):
        return OTHER
    lower = plain.lower()
    return _CALL_LETTERS.get(lower) or _CALL_LETTERS.get(lower.rstrip("_")) or OTHER
