"""What kind of job a capture is of, told by the names of its calls and kernels: whether it trains, and by what.

A library counts where one of its own names was recorded: a range or an operator that it names itself, or a file of it
among Python frames. That none was recorded proves nothing where no frames were.
"""

from __future__ import annotations

from collections.abc import Mapping

# What both `re` and the engine of Polars understand, on names as they were recorded.
TRAINING = (
    r"^autograd::engine::evaluate_function|^Optimizer\.(step|zero_grad)#|^\w+Backward\d*$|_backward$|"
    r"\brun_backward of|^aten::_fused_adam|^aten::_foreach_addcdiv_$|torch/autograd/__init__\.py\(\d+\): backward"
)
"""Calls of jobs that train: autograd and optimizers."""
TRAINING_KERNELS = (
    r"_bwd_|(?i)backward|dgrad|wgrad|Grad(AiCore)?$|Grad_|BackpropInput|BackpropFilter|ApplyAdam|FusedAdam"
    r"|multi_tensor_apply_kernel.*[Aa]dam"
)
"""Kernels of gradients and optimizers."""
FORWARD = (
    r"^aten::(addmm|mm|bmm|matmul|linear|conv\w*|convolution|embedding|_?scaled_dot_product\w*)$|^(vllm|sgl_kernel)::"
)
"""Calls of models: where they were recorded and none of `TRAINING`, the capture is of inference."""

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
"""By the name that changes are declared for, what is recorded where a job uses a library."""

OF_GROUPS: Mapping[str, str] = {
    "megatron": r"^(mp|tp|pp|cp|ep|tp_exp|dp_cp|dp_modulo|tensor_model_parallel_group|pipeline_model_parallel_group)$"
}
"""The same by the names of process groups: those that Megatron and MindSpeed give theirs, and nobody else."""
