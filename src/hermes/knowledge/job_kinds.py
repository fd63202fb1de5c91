"""Tells the kind of a captured job by the names of its calls and kernels: whether it trains, and its libraries.

A library counts if the capture holds one of the library's names: a range, an operator, or one of its files among Python
frames. If the capture has no Python frames, a missing name proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

# Patterns in the syntax that both `re` and the engine of Polars understand, on names as recorded.
TRAINING = (
    r"^autograd::engine::evaluate_function|^Optimizer\.(step|zero_grad)#|^\w+Backward\d*$|_backward$|"
    r"\brun_backward of|^aten::_fused_adam|^aten::_foreach_addcdiv_$|torch/autograd/__init__\.py\(\d+\): backward"
)
"""Names of calls in jobs that train: autograd and optimizers."""
TRAINING_KERNELS = (
    r"_bwd_|(?i)backward|dgrad|wgrad|Grad(AiCore)?$|Grad_|BackpropInput|BackpropFilter|ApplyAdam|FusedAdam"
    r"|multi_tensor_apply_kernel.*[Aa]dam"
)
"""Names of kernels of gradients and optimizers."""
FORWARD = (
    r"^aten::(addmm|mm|bmm|matmul|linear|conv\w*|convolution|embedding|_?scaled_dot_product\w*)$|^(vllm|sgl_kernel)::"
)
"""Names of model calls: a capture with such calls and without calls of `TRAINING` is of inference."""

FRAMEWORKS: Mapping[str, str] = {
    "pytorch": r"^aten::|^autograd::engine::|^c10d::|\bat::native::|(^|/)torch/(nn|autograd|optim|utils|_ops)\b",
    "mindspore": r"(^|/)mindspore/|^(Default|Gradients)/",
}
"""Patterns of recorded names by framework: its operators, its files, and scopes of its graphs."""

LIBRARIES: Mapping[str, str] = {
    "ddp": r"DistributedDataParallel|torch/nn/parallel/distributed\.py|torch::distributed::reducer|ddp\.reducer",
    "fsdp": r"FullyShardedDataParallel|^FSDP|fully_shard|torch/distributed/(_composable/)?fsdp/",
    "deepspeed": r"deepspeed|DeepSpeed",
    "megatron": r"(^|/)megatron/|(^|/)mindspeed(_llm|_mm)?/|nn\.Module: (Parallel)?Float16Module|ColumnParallelLinear",
    "mindspeed": r"(^|/)mindspeed(_llm|_mm)?/",
    "lightning": r"(^|/)(pytorch_)?lightning(_fabric)?/|^\[pl\]\[",
    "accelerate": r"(^|/)accelerate/(accelerator|optimizer|data_loader)\.py",
    "transformers": r"(^|/)transformers/",
    "trainer": r"(^|/)transformers/(trainer|trainer_pt_utils)\.py",
    "torchrec": r"(^|/)torchrec/|^fbgemm::|fbgemm_gpu|^## \w+_dist",
    "vllm": r"(^|/)vllm(_ascend)?/|^vllm::|^_C::|^_moe_C::",
    "sglang": r"(^|/)sglang/|^sgl_kernel::|^sgl_hip",
    "tensorrt-llm": r"(^|/)tensorrt_llm/|^trtllm::",
    "torch.compile": r"^Torch-Compiled Region|^CompiledFunction|^CompiledFxGraph|^triton_(poi|red|per|tem)_",
    "mindspore": r"(^|/)mindspore/",
}
"""Patterns of recorded names by library, under the library names that changes use in `fit`."""

OF_GROUPS: Mapping[str, str] = {
    "megatron": r"^(mp|tp|pp|cp|ep|tp_exp|dp_cp|dp_modulo|tensor_model_parallel_group|pipeline_model_parallel_group)$"
}
"""Patterns of process groups' names by library: names that only Megatron and MindSpeed use."""
