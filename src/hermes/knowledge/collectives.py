"""Tells which kernels, annotations and recorded names are communication, their operation, and their library.

Kernels are recognised by a table of libraries, not by one prefix: expert-parallel, NVSHMEM and custom all-reduce
kernels have nothing in common with `nccl`.

Decisions for names that could be read both ways:

- A kernel that exchanges data and normalises, adds or quantises in one go (`allreduce_fusion_kernel_oneshot_lamport`,
  `rmsNormLamport`) is communication: it waits for its peers inside, which local work never does.
- A matrix multiplication fused with a collective (`gemm_rs`, `ag_gemm`, flux) stays compute: its time is set by the
  multiplication, and counting it as communication would call a good overlap exposed.
- A name with a collective in it that no entry knows (`allreduce_rms_norm_quant`, `triton_poi_fused_all_reduce_add_0`)
  stays compute: graph compilers name local kernels after the operators around them.
- `get_dispatch_layout`, NVSHMEM's set-up kernels and the routing preparation of expert parallelism work on local
  memory only: compute.
- Copies are copies, even inside a collective.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """The operation of a communication kernel (`all_reduce`, …, or `unknown`) and the library that it belongs to."""

    op: str
    library: str


class _Entry(NamedTuple):
    pattern: str
    library: str
    op: str = ""
    """The operation; if empty, the words of the kernel's name tell the operation."""


# Local work whose name looks like communication; this table is looked at first.
_LOCAL = re.compile(
    # pytorch/pytorch, torch/_inductor/codegen/triton.py.
    r"^(void )?triton_(poi|red|per|tem|mm|bmm|for|foreach|spl|split|sort)\w*_fused"
    r"|\bat::native::|\bat_cuda_detail::|\bcutlass::|\bcub::|\bthrust::"  # pytorch's and NVIDIA's own compute
    r"|\bget_dispatch_layout\b"  # deepseek-ai/DeepEP, csrc/kernels/layout.cu
    r"|nvshmemi?_?init|nvshmemi_init_array_kernel"  # NVIDIA/nvshmem, src/device/init
    r"|moeA2A(Prepare|SanitizeExpertIds)"  # NVIDIA/TensorRT-LLM, communicationKernels/moeAlltoAllKernels.cu
    r"|local_device_load_rmsnorm"  # ROCm/aiter, csrc/include/custom_all_reduce.cuh: second half, local
)

_TABLE: tuple[_Entry, ...] = (
    # ROCm/rccl, src/device/msccl_kernel_impl.h; one kernel for any algorithm, so the name does not tell the operation.
    _Entry(r"mscclKernel_", "rccl", "unknown"),
    # ROCm/rccl before 2.18, src/include/msccl and docs of rocprof output.
    _Entry(r"\brccl_main_kernel\b|\brccl\w*[kK]ernel", "rccl"),
    # microsoft/mscclpp, src/ext/collectives (allreducePacket, allgatherFullmesh2, alltoallvKernel), src/executor.
    _Entry(r"\bmscclpp::|\bmscclpp_", "mscclpp"),
    # meta-pytorch/torchcomms, comms/ctran (ncclKernelAllToAllv, ncclKernelAllReduceCtranDirect, ncclKernelSendNotify).
    _Entry(r"\bncclx::|\bctran::|ncclKernel[A-Z]\w*", "ncclx"),
    # NVIDIA/nccl, src/device/generate.py (ncclDevKernel_*), src/device/symmetric/generate.py (ncclSymkDevKernel_*,
    # ncclSymDevKernel_* in 2.27), src/collectives/device before 2.19 (ncclKernel_*) and before 2.7
    # (ncclAllReduceRing…Kernel_*).
    _Entry(r"nccl(Dev|Sym|Symk|SymDev|SymkDev)?Kernel", "nccl"),
    _Entry(r"ncclSymk\w*", "nccl"),
    _Entry(r"nccl(AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|SendRecv)\w*Kernel", "nccl"),
    # deepseek-ai/DeepEP, csrc/kernels/{intranode,internode,internode_ll}.cu; dpsk::ep in deepseek-ai/profile-data.
    _Entry(r"\b(deep_ep|dpsk::ep)::.*\bbarrier\b|\b(intranode|internode)::barrier\b", "deepep", "barrier"),
    _Entry(r"\bdeep_ep::|\bdpsk::ep::|\bep::(intranode|internode|internode_ll)::", "deepep", "all_to_all"),
    _Entry(r"\b(intranode|internode|internode_ll)::(cached_)?(notify_)?(dispatch|combine)", "deepep", "all_to_all"),
    # NVIDIA/TensorRT-LLM, communicationKernels/moeAlltoAllKernels.cu and fusedMoeCommKernels.cu; same in flashinfer.
    _Entry(r"moeA2A(Dispatch|Combine)Kernel|moeAllToAllKernel|moeAlltoAll", "trtllm", "all_to_all"),
    # pytorch/pytorch, torch/csrc/distributed/c10d/symm_mem/nvshmem_extension.cu.
    _Entry(r"\ballToAllV(_2d)?\b|\bexchangeSplitAndOffset(_2d)?\b", "nvshmem", "all_to_all"),
    # NVIDIA/nvshmem, src/host/coll and src/device; ROCm/rocSHMEM.
    _Entry(r"nvshmem", "nvshmem"),
    _Entry(r"rocshmem", "rocshmem"),
    # vllm-project/vllm, csrc/custom_all_reduce.cuh; sgl-project/sglang, sgl-kernel/csrc/allreduce; ROCm/aiter.
    _Entry(r"cross_device_reduce_(1|2)stage", "custom", "all_reduce"),
    _Entry(r"reduce_scatter_cross_device_store", "custom", "reduce_scatter"),
    # mk1-project/quickreduce; vllm-project/vllm, csrc/quickreduce.
    _Entry(r"quick_?reduce::|allreduce_prototype_(one|two)shot|quick_all_?reduce", "quickreduce", "all_reduce"),
    # NVIDIA/TensorRT-LLM, communicationKernels/allReduceFusionKernels.cu; flashinfer-ai/flashinfer, comm/
    # trtllm_allreduce_fusion.cuh, trtllm_moe_allreduce_fusion.cuh, trtllm_mnnvl_allreduce.cuh.
    _Entry(r"allreduce_fusion_kernel|moe\w*allreduce_fusion_kernel|\brmsNormLamport", "trtllm", "all_reduce"),
    _Entry(r"trtllm_(mnnvl_|moe_)?allreduce|(lowPrecision)?(one|two)[sS]hotAll[rR]educe\w*", "trtllm", "all_reduce"),
    # pytorch/pytorch, torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemoryOps.cu and CUDASymmetricMemory.cu.
    _Entry(r"(multimem_)?(one|two)_shot_all_reduce\w*|multimem_all_reduce\w*", "symm_mem", "all_reduce"),
    _Entry(r"multimem_all_gather\w*", "symm_mem", "all_gather"),
    _Entry(r"multimem_reduce_scatter\w*|reduce_scatter_out_kernel", "symm_mem", "reduce_scatter"),
    _Entry(r"symm_mem\w*::.*barrier_kernel|symmetric_memory::.*barrier_kernel", "symm_mem", "barrier"),
    _Entry(r"\bput_signal_kernel\b", "symm_mem", "send"),
    _Entry(r"\bwait_signal_kernel\b", "symm_mem", "recv"),
    # Other hand-written two-shot kernels have similar names.
    _Entry(r"(one|two)_?shot_?all_?reduce", "custom", "all_reduce"),
    # NVIDIA/TransformerEngine, common/comm_gemm_overlap/userbuffers/userbuffers.cu.
    _Entry(r"\bk?userbuffers_\w*_rs(_|\b)|\bk?userbuffers_\w*reducescatter", "userbuffers", "reduce_scatter"),
    _Entry(r"\bk?userbuffers_\w*_ag(_|\b)|\bk?userbuffers_\w*allgather", "userbuffers", "all_gather"),
    _Entry(r"\buserbuffers_\w*_sum_inplace", "userbuffers", "all_reduce"),
    _Entry(r"\bkuserbuffers_(push|pull)", "userbuffers"),
    # ROCm/mori, src/ops/dispatch_combine: EpDispatchIntraNodeKernel, EpCombineInterNodeKernel and others.
    _Entry(r"\bEp(Dispatch|Combine)\w*(Intra|Inter)Node\w*", "mori", "all_to_all"),
    # deepseek-ai/DeepEP, branch hybrid-ep; perplexityai/pplx-kernels, src/all_to_all.
    _Entry(r"\bhybrid_ep::\w*(dispatch|combine)\w*", "deepep", "all_to_all"),
    _Entry(r"\bpplx::.*(dispatch|combine)\w*", "pplx", "all_to_all"),
    # uxlfoundation/oneCCL, src/coll (namespace oneapi::ccl, sycl kernels oneccl_*).
    _Entry(r"\boneapi::ccl::|\boneccl_|\bccl::", "oneccl"),
    # PyTorch's profiler before Kineto: the range of a backend's call, timed on the device.
    *(_Entry(rf"^{backend}:(?!:)", backend) for backend in ("nccl", "rccl")),
    # Ascend/pytorch through Kineto; HCCL's hcom_* tasks.
    _Entry(r"(?i)^hcom_|^hccl", "hccl"),
)  # fmt: skip

_ENTRIES = tuple((re.compile(entry.pattern), entry) for entry in _TABLE)

# The words of a name, without underscores and in lower case; the first word that occurs decides.
_OPS: tuple[tuple[str, str], ...] = (
    ("reducescatter", "reduce_scatter"),
    ("allreduce", "all_reduce"),
    ("allgather", "all_gather"),
    ("alltoall", "all_to_all"),
    ("a2a", "all_to_all"),
    ("sendrecv", "send_recv"),
    ("batchisendirecv", "send_recv"),
    ("broadcast", "broadcast"),
    ("bcast", "broadcast"),
    ("barrier", "barrier"),
    ("receive", "recv"),
    ("recv", "recv"),
    ("isend", "send"),
    ("send", "send"),
    ("scatter", "scatter"),
    ("gather", "gather"),
    ("reduce", "reduce"),
)

# Recorded by the framework around collectives; such a range is no collective itself.
_NOT_AN_OP = frozenset({"wait", "init", "coalesced", "startcoalescing", "endcoalescing", "pointtopoint"})

_NESTED = re.compile(r"<[^<>]*>|\([^()]*\)|\{[^{}]*\}")
_LONGEST_NAME = 8_192
_DEEPEST = 40

BACKENDS = ("gloo", "mpi", "ucc")
"""Backends whose work runs on the host and is recorded as `backend:operation`."""

DEVICE_BACKENDS = ("nccl", "rccl", "hccl", "xccl", "ccl", "ucc", "lccl", "mccl", "hcl")
"""Backends whose calls are recorded as `backend:operation` on the host, and whose work runs on a device."""

_BYTES: dict[str, int] = {
    "bool": 1, "byte": 1, "char": 1, "unsigned char": 1, "signed char": 1, "int8": 1, "uint8": 1,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
    "half": 2, "bfloat16": 2, "short": 2, "short int": 2, "float16": 2, "int16": 2, "uint16": 2,
    "float": 4, "int": 4, "float32": 4, "int32": 4, "uint32": 4, "unsigned int": 4, "complexhalf": 4,
    "double": 8, "long": 8, "long int": 8, "float64": 8, "int64": 8, "uint64": 8, "unsigned long": 8,
    "complexfloat": 8, "complex<float>": 8, "complexdouble": 16, "complex<double>": 16,
}  # fmt: skip


def collective_of_kernel(name: str, vendor: str = "") -> Collective | None:
    """The collective of a device kernel, or None if the kernel is not communication; the module lists doubtful names.

    With `vendor` `amd`, an NCCL name means RCCL, which kept NCCL's names.
    """
    plain = _without_arguments(name)
    if _LOCAL.search(plain):
        return None
    for pattern, entry in _ENTRIES:
        if pattern.search(plain):
            library = "rccl" if vendor == "amd" and entry.library == "nccl" else entry.library
            return Collective(op=entry.op or op_of_words(plain), library=library)
    return None


def is_local(name: str) -> bool:
    """Whether a kernel is known to work on local memory alone, even if a collective's call launched the kernel."""
    return _LOCAL.search(_without_arguments(name)) is not None


def op_of_words(name: str) -> str:
    """The canonical operation that a name contains, such as `all_gather` for `_allgather_base`; else `unknown`."""
    words = re.sub(r"[^a-z0-9]", "", name.lower())
    if words in _NOT_AN_OP:
        return "unknown"
    # `ncclKernel_AllReduce_RING_LL_Sum` also names the protocol and the reduction: the collective comes first.
    found = [(words.find(word), -len(word), op) for word, op in _OPS if word in words]
    return min(found)[2] if found else "unknown"


def bytes_of_dtype(name: str) -> int | None:
    """Bytes of one element of a PyTorch type in any of its spellings (`Float`, `c10::BFloat16`, `long int`)."""
    return _BYTES.get(name.strip().lower().removeprefix("c10::"))


def dtypes() -> dict[str, int]:
    """Bytes of one element by the lower-case name of its type, without `c10::`."""
    return dict(_BYTES)


def _without_arguments(name: str) -> str:
    """The qualified name of a kernel without template and call arguments."""
    plain = name[:_LONGEST_NAME].replace("(anonymous namespace)::", "").replace("operator()", "call")
    for _ in range(_DEEPEST):
        shorter = _NESTED.sub("", plain)
        if shorter == plain:
            break
        plain = shorter
    # A name cut off by the profiler leaves an open bracket.
    return re.split(r"[<({]", plain, maxsplit=1)[0].strip() if re.search(r"[<({]", plain) else plain
