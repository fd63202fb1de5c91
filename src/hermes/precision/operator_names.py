"""Gives variants of an operator on different chips one name, and classifies the operator's arithmetic."""

from __future__ import annotations

import functools
import re

_SAME = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (
            r"scaled_dot_product.*backward|.*flash_attention.*(grad|backward).*"
            r"|npu_fusion_attention_grad",
            "attention_backward",
        ),
        (
            r".*scaled_dot_product.*|.*flash_attention.*|npu_fusion_attention.*"
            r"|.*efficient_attention.*",
            "attention",
        ),
        (
            r"(native|cudnn|miopen|_native)?_?batch_norm(_legit|_with_update"
            r"|_impl_index)*(_no_training|_no_stats)?(_functional)?",
            "batch_norm",
        ),
        (
            r"(native|cudnn|miopen|_batch_norm_impl_index)?_?batch_norm.*backward"
            r"|batch_norm_backward",
            "batch_norm_backward",
        ),
        (
            r"_?(cudnn|miopen|mkldnn|npu|slow|thnn)_?conv\w*backward\w*"
            r"|convolution_backward\w*",
            "convolution_backward",
        ),
        (
            r"_?(cudnn|miopen|mkldnn|npu|slow|thnn)?_?conv(olution|_transpose"
            r"|_depthwise)?\w*",
            "convolution",
        ),
        (r"(npu_|_fused_)?rms_norm", "rms_norm"),
    )
)


_CONTRACTIONS = frozenset(
    [
        "mm",
        "addmm",
        "bmm",
        "baddbmm",
        "addbmm",
        "matmul",
        "linear",
        "dot",
        "vdot",
        "mv",
        "addmv",
        "convolution",
        "convolution_backward",
        "attention",
        "attention_backward",
        "einsum",
        "embedding_dense_backward",
        "mkldnn_rnn_layer",
        "lstm",
        "gru",
        "_thnn_fused_lstm_cell",
        "linear_backward",
        "_grouped_mm",
        "grouped_matmul",
        "cdist",
        "addr",
        "ger",
        "outer",
    ]
)
_REDUCTIONS = frozenset(
    [
        "sum",
        "mean",
        "norm",
        "linalg_vector_norm",
        "var",
        "var_mean",
        "std",
        "std_mean",
        "logsumexp",
        "nll_loss",
        "nll_loss_forward",
        "nll_loss_backward",
        "_log_softmax",
        "_softmax",
        "_log_softmax_backward_data",
        "_softmax_backward_data",
        "native_layer_norm",
        "native_layer_norm_backward",
        "batch_norm",
        "batch_norm_backward",
        "native_group_norm",
        "native_group_norm_backward",
        "rms_norm",
        "cumsum",
        "index_add",
        "scatter_add",
        "scatter_reduce",
        "index_put",
        "_index_put_impl",
        "prod",
        "mse_loss",
        "binary_cross_entropy",
        "binary_cross_entropy_backward",
        "binary_cross_entropy_with_logits",
        "_foreach_norm",
        "avg_pool2d",
        "_adaptive_avg_pool2d",
        "upsample_bilinear2d",
        "dist",
        "allreduce",
        "reduce_scatter",
        "_reduce_scatter_base",
        "reduce",
        "all_reduce",
        "reduce_scatter_tensor",
    ]
)
_BREAKS = frozenset(
    [
        "topk",
        "sort",
        "argsort",
        "argmax",
        "argmin",
        "max",
        "min",
        "gt",
        "lt",
        "ge",
        "le",
        "eq",
        "ne",
        "sign",
        "round",
        "floor",
        "ceil",
        "trunc",
        "nonzero",
        "unique",
        "_unique2",
        "max_pool2d_with_indices",
        "bernoulli",
        "multinomial",
        "searchsorted",
        "bucketize",
        "one_hot",
        "bincount",
        "histc",
        "isin",
        "kthvalue",
        "threshold_backward",
        "masked_select",
        "remainder",
        "fmod",
        "where",
    ]
)
"""Operators whose outputs may differ wholly if inputs differ in the last place, at a tie."""
_MOVES = frozenset(
    [
        "copy",
        "clone",
        "contiguous",
        "_to_copy",
        "index",
        "gather",
        "index_select",
        "cat",
        "stack",
        "select",
        "slice",
        "expand",
        "view",
        "reshape",
        "permute",
        "transpose",
        "t",
        "squeeze",
        "unsqueeze",
        "alias",
        "detach",
        "_unsafe_view",
        "unbind",
        "split",
        "split_with_sizes",
        "chunk",
        "flip",
        "roll",
        "repeat",
        "constant_pad_nd",
        "slice_backward",
        "select_backward",
        "embedding",
        "scatter",
        "fill",
        "zero",
        "zeros",
        "ones",
        "full",
        "arange",
        "zeros_like",
        "ones_like",
        "new_zeros",
        "new_ones",
        "full_like",
        "masked_fill",
        "relu",
        "abs",
        "neg",
        "lift_fresh",
        "tril",
        "triu",
        "broadcast",
        "allgather",
        "all_gather",
        "_allgather_base",
        "all_gather_into_tensor",
        "as_strided",
        "unfold",
        "diagonal",
        "scalar_tensor",
        "empty",
        "empty_like",
        "send",
        "recv",
        "alltoall",
        "alltoall_base",
        "all_to_all_single",
    ]
)
"""Operators that round nothing: their outputs hold only elements of the inputs."""


@functools.lru_cache(maxsize=100_000)
def family(name: str) -> str:
    """The name of an operator's family: `aten._scaled_dot_product_flash_attention.default` → `attention`.

    Modules and msProbe's APIs keep their names.
    """
    if name.startswith("module.") or " " in name:
        return name
    parts = name.split(".")
    stem = parts[1] if len(parts) > 1 else parts[0]
    for pattern, one in _SAME:
        if pattern.fullmatch(stem):
            return one
    if stem.endswith("_") and not stem.endswith("__"):
        stem = stem[:-1]
    return stem.strip("_") if stem.startswith("__") else stem


@functools.lru_cache(maxsize=100_000)
def arithmetic(name: str) -> str:
    """The kind of an operator's arithmetic: contraction, reduction, breaks, moves, or elementwise."""
    one = family(name)
    for kind, names in (
        ("contraction", _CONTRACTIONS), ("reduction", _REDUCTIONS), ("breaks", _BREAKS), ("moves", _MOVES)
    ):  # fmt: skip
        if one in names or one.lstrip("_") in names:
            return kind
    if name.startswith("module."):
        return "module"
    return "elementwise"


def keeps_order(name: str) -> bool:
    """Whether an operator's result holds the elements of its input in their order."""
    return family(name) in ("detach", "alias", "view", "_unsafe_view", "reshape", "clone", "contiguous", "lift_fresh")


@functools.lru_cache(maxsize=100_000)
def is_comparison(name: str) -> bool:
    """Whether an operator's result says which of two numbers is larger, or that they are equal in every bit."""
    return family(name) in ("eq", "ne", "lt", "gt", "le", "ge", "equal", "isclose")


@functools.lru_cache(maxsize=100_000)
def is_collective(name: str) -> bool:
    """Whether an operator is a collective, in which several ranks take part."""
    return name.startswith(("c10d.", "_c10d_functional.", "c10d_functional.", "Distributed."))


def is_cast(name: str) -> bool:
    """Whether an operator only changes the type or the place of a tensor."""
    return family(name) in ("_to_copy", "to", "copy", "clone", "contiguous", "type", "detach", "alias", "lift_fresh")


_OVERWRITES = frozenset(
    [
        "bernoulli_",
        "normal_",
        "uniform_",
        "random_",
        "exponential_",
        "geometric_",
        "log_normal_",
        "cauchy_",
        "fill_",
        "zero_",
        "copy_",
        "randperm_",
    ]
)


@functools.lru_cache(maxsize=100_000)
def overwrites(name: str) -> bool:
    """Whether an operator overwrites its first input without reading it."""
    parts = name.split(".")
    return len(parts) > 1 and parts[1] in _OVERWRITES


def is_empty(name: str) -> bool:
    """Whether an operator's result is uninitialised memory."""
    return family(name) in ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")


def fills_a_part(name: str) -> bool:
    """Whether an operator writes a rank's part into a buffer whose other parts come from other ranks (FSDP2)."""
    return family(name) == "all_gather_copy_in"
