"""The rules of a migration: what each kind of place means on an NPU, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.migrate.model import Effect, Effort


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of place. `later` is the rule of `hermes analyze` that measures the same thing in a profile."""

    title: str
    why: str
    todo: str
    effect: Effect
    effort: Effort
    later: str = ""


_STOPS, _DIFFERS, _SLOW, _NOTE = Effect.STOPS, Effect.DIFFERS, Effect.SLOW, Effect.NOTE
_NONE, _MINUTES, _HOURS, _DAYS = Effort.NONE, Effort.MINUTES, Effort.HOURS, Effort.DAYS

RULES: dict[str, Rule] = {
    # What convert settles.
    "cuda-call": Rule("call of torch.cuda", "torch.cuda has no device on an NPU machine",
                      "use torch.accelerator, or the module of the accelerator", _STOPS, _MINUTES),
    "cuda-method": Rule("`.cuda()`", "Tensor.cuda and Module.cuda need a CUDA device", "use `.to(device)`", _STOPS, _MINUTES),
    "is-cuda": Rule("`.is_cuda`", "it is False for a tensor on an NPU", "compare the type of its device", _DIFFERS, _MINUTES),
    "device-string": Rule('device named "cuda"', "the device of Ascend is called npu",
                          "take the name from torch.accelerator", _STOPS, _MINUTES),
    "device-number": Rule("device given as a bare number", "which kind of device a bare number means is for torch to guess",
                          "name the device: f\"{ACCELERATOR}:{index}\"", _DIFFERS, _MINUTES),
    "device-test": Rule('comparison of a device with "cuda"', "it is False on an NPU, so the other branch runs",
                        "compare with the accelerator's name", _DIFFERS, _MINUTES),
    "tensor-type-string": Rule("tensor type of torch.cuda by its name", "that type does not exist on an NPU",
                               "name the type of the accelerator", _STOPS, _MINUTES),
    "cuda-amp": Rule("torch.cuda.amp", "mixed precision of CUDA is off on an NPU", "use torch.amp with the device type",
                     _STOPS, _MINUTES),
    "backend-string": Rule('collectives by "nccl"', "NCCL does not run on Ascend; its library is HCCL",
                           "take torch's default for the accelerator, hccl on an NPU", _STOPS, _MINUTES),
    "environment": Rule("environment variable of CUDA or NCCL", "Ascend reads other variables",
                        "set its counterpart", _DIFFERS, _MINUTES),
    "device-option": Rule("device on a command line or in a configuration", "the device of Ascend is called npu",
                          "say npu", _STOPS, _MINUTES),
    "shim-import": Rule("entry of the program", "transfer_to_npu must be imported before CUDA is used",
                        "import torch_npu and transfer_to_npu at the top", _STOPS, _MINUTES),
    # What a person settles.
    "cuda-only": Rule("no counterpart in torch.npu", "torch_npu does not have it", "remove it, or guard it by device",
                      _STOPS, _HOURS),
    "cuda-graph": Rule("CUDA graph", "torch.npu.NPUGraph serves inference only", "run eagerly in training", _STOPS, _HOURS),
    "nvtx": Rule("NVTX mark", "NVTX is a library of NVIDIA's profiler",
                 "torch.profiler.record_function works on both; torch.npu.mstx marks for msprof", _STOPS, _MINUTES),
    "cuda-version": Rule("version of CUDA or NCCL", "torch.version.cuda is None on an NPU machine",
                         "ask for the feature itself, such as is_bf16_supported()", _STOPS, _MINUTES),
    "capability": Rule("compute capability of CUDA", "on an NPU the answer is None or says nothing about the hardware",
                       "ask for the feature that it stands for", _DIFFERS, _MINUTES),
    "import-kept": Rule("import of a name from torch.cuda that is used in ways that convert does not follow",
                        "the name stays that of CUDA", "pass the object of torch.amp or torch.npu", _STOPS, _MINUTES),
    "unsure-cuda": Rule("`.cuda(…)` that may not be torch's", "the receiver is of a class with a method of that name",
                        "look at the class", _DIFFERS, _MINUTES),
    "unsure-device": Rule('"cuda" in an expression whose use is not known', "it may name a device, or be text",
                          "change it by hand if it is a device", _DIFFERS, _MINUTES),
    "data-parallel": Rule("torch.nn.DataParallel", "it is not supported on NPU",
                          "use DistributedDataParallel with one process a device", _STOPS, _HOURS),
    "jit-script": Rule("torch.jit.script", "transfer_to_npu turns it off: the function runs as plain Python",
                       "measure the plain function; torch.compile is the way on", _DIFFERS, _MINUTES),
    "channels-last": Rule("memory format channels_last", "an NPU has formats of its own; only contiguous and preserve are taken",
                          "leave it out on NPU", _DIFFERS, _MINUTES, "CMP004"),
    "cudnn": Rule("flag of cuDNN", "it is read by CUDA alone and does nothing on an NPU", "nothing has to be done", _NOTE, _NONE),
    "tf32": Rule("TF32", "an NPU has HF32 for this: torch.npu.matmul.allow_hf32 and torch.npu.conv.allow_hf32",
                 "choose it on NPU when comparing precision", _NOTE, _MINUTES),
    "sdp-kernel": Rule("choice of an attention kernel of CUDA", "the flags of torch.backends.cuda are not supported on NPU",
                       "leave the choice to scaled_dot_product_attention", _DIFFERS, _MINUTES),
    "profiler": Rule("profiler with CUDA activities", "kernels of an NPU are not recorded by it",
                     "use torch_npu.profiler, or `hermes profile`", _DIFFERS, _MINUTES),
    "compile": Rule("torch.compile", "on NPU it needs a backend of Ascend (torchair, or triton-ascend for inductor)",
                    "run eagerly first; turn it on when the result is right", _DIFFERS, _HOURS),
    "unsupported-api": Rule("torch API that is not supported", "the support table of Ascend/pytorch says no for this chip",
                            "use another call, or compute it on the CPU", _STOPS, _HOURS),
    "cpu-fallback": Rule("torch API that may run on the host's processor", "its tensors are copied to the host and back",
                         "keep it out of the training step", _SLOW, _NONE, "CMP003"),
    "inference-only": Rule("torch API for inference only", "the support table of Ascend/pytorch excludes training",
                           "use it in inference, not in training", _STOPS, _HOURS),
    "dtype-limit": Rule("type of data that the call does not take", "the support table of Ascend/pytorch lists its types",
                        "cast before the call", _STOPS, _MINUTES),
    "float64": Rule("float64", "an NPU has no fast double precision, and some calls refuse it", "use float32 where it is enough",
                    _SLOW, _MINUTES, "CMP009"),
    "rpc": Rule("RPC between devices", "it needs NPU_TENSORPIPE and NPUTensorPipeRpcBackendOptions of torch_npu",
                "set backend and options as torch_npu.distributed.rpc names them", _STOPS, _HOURS),
    "library": Rule("library", "", "", _STOPS, _HOURS),
    "custom-kernel": Rule("CUDA source", "it is code for NVIDIA's processors", "write it in Ascend C or triton-ascend, or use torch's own operators",
                          _STOPS, _DAYS),
    "extension": Rule("CUDA extension", "torch_npu builds extensions by torch_npu.utils.cpp_extension.NpuExtension",
                      "port the kernels, then build them with NpuExtension", _STOPS, _DAYS),
    "extension-operator": Rule("operator of a CUDA extension", "an extension of this project defines it for CUDA",
                               "port the kernel, or use torch's own operators", _STOPS, _DAYS),
    "triton-kernel": Rule("Triton kernel", "it needs triton-ascend and its block sizes were chosen for another chip",
                          "install triton-ascend, then check results and block sizes", _STOPS, _DAYS),
    "image": Rule("container image with CUDA", "it has no CANN in it", "start from an image of ascendhub or quay.io/ascend/cann", _STOPS, _HOURS),
    "launcher": Rule("start of a job on NVIDIA's tools", "the tool does not exist on an NPU machine",
                     "use its counterpart", _STOPS, _MINUTES),
    # What runs but is slow.
    "sync-item": Rule("value read from the device in a loop", "the host waits for the device at each one",
                      "read it every few steps, or keep the sum on the device", _SLOW, _NONE, "CPU003"),
    "dynamic-shape": Rule("result whose shape depends on the data", "its kernels are prepared anew for each new shape",
                          "use a mask of fixed shape, as torch.where", _SLOW, _NONE, "CPU002"),
    "int64-index": Rule("int64 numbers that are computed with", "an NPU computes them more slowly than int32",
                        "use int32 where torch takes it", _SLOW, _NONE, "CMP003"),
    "small-operators": Rule("loop that updates each parameter by itself", "each small operator costs a launch",
                            "use a fused optimizer or torch._foreach_*", _SLOW, _NONE, "CMP012"),
}  # fmt: skip
"""By code; the codes are those of SARIF and JSON."""
