"""Changes that differ by chip or library: options, tools and operators of vendors, as findings show them.

Each change gives its source. Actions of one title are ways to do the same: the first that fits a job is shown, and
those of its libraries.
"""

from __future__ import annotations

from collections.abc import Mapping

from hermes.base.message import Message, Name, message, sentence
from hermes.knowledge.actions import NO_RISK, action, variants
from hermes.model.advice_fit import ANY, Fit
from hermes.model.finding import Action

OF_ASCEND = Fit(chips=("ascend",))
NPU = Fit(chips=("ascend",), frameworks=("pytorch",))
GPU = Fit(chips=("cuda", "rocm"), frameworks=("pytorch",))
TORCH = Fit(frameworks=("pytorch",))
TRAINS = Fit(phase="training")
TORCH_TRAINS = Fit(frameworks=("pytorch",), phase="training")
_NPU_TRAINS = Fit(chips=("ascend",), frameworks=("pytorch",), phase="training")
_NCCL = ("nccl", "rccl", "ncclx")
_ENGINES = ("vllm", "sglang", "tensorrt-llm")


@message("cure.command")
def command(*, command: Name) -> None:
    """A command or a setting, which says by itself what to do."""


ROOM_BESIDE_TRANSFERS = variants(
    "cure.contention",
    {
        "_hccl": NPU,
        "_deepep": Fit(libraries=("deepep",)),
        "_nccl": Fit(chips=("cuda", "rocm"), transports=_NCCL),
        "": ANY,
    },
    source="torch_npu documentation of TORCH_HCCL_ZERO_COPY; NCCL documentation of NCCL_MAX_CTAS; "
    "DeepEP, Buffer.num_sms, 20 as it comes",
    cases=("COM-13",),
)
CHECK_NETWORK_PORT = variants(
    "cure.network_port",
    {"_ascend": OF_ASCEND, "": ANY},
    source="msprof-analyze, rdma_analysis.yaml; CANN documentation of HCCL_RDMA_TIMEOUT",
    cases=("COM-15",),
)
DEFAULT_ALGORITHMS = variants(
    "cure.algorithms",
    {"_hccl": OF_ASCEND, "_nccl": Fit(chips=("cuda", "rocm"), transports=_NCCL)},
    source="CANN documentation of HCCL_BUFFSIZE and HCCL_ALGO; NCCL documentation of environment variables",
    cases=("COM-24", "COM-26", "COM-27"),
)
DIRECT_LINKS = variants(
    "cure.direct_links",
    {"_hccl": OF_ASCEND, "_nccl": Fit(chips=("cuda",), transports=_NCCL), "": ANY},
    source="CANN documentation of HCCL_INTRA_ROCE_ENABLE; NCCL documentation of NCCL_P2P_DISABLE",
    cases=("COM-27", "COM-28"),
)
MORE_ROWS = variants(
    "cure.more_rows",
    {"_train": TORCH_TRAINS, "": TORCH},
    source="NVIDIA, Matrix Multiplication Background User's Guide, section 3; msprof-analyze, aicore_performance.yaml",
    cases=("CMP-26", "PAR-11"),
)
TUNED_TILES = action(
    "cure.tuned_tiles", source="advisor of msprof-analyze: AOE for operators without a bound", fit=NPU
)  # fmt: skip
FUSED_OPERATORS = action(
    "cure.fused_operators",
    source="msprof-analyze, timeline_fusion_ops.yaml",
    fit=NPU,
    cases=("CMP-17", "CMP-18", "CMP-19", "CMP-21", "CMP-23"),
)
NO_INTERNAL_FORMATS = action(
    "cure.no_formats",
    source="torch_npu, npu_config.py; MindStudio, general performance issues",
    fit=NPU,
    cases=("CMP-07", "CMP-08"),
)
FUSED_CASTS = action(
    "cure.fused_casts",
    source="msprof-analyze, timeline_fusion_ops.yaml",
    fit=NPU,
    cases=("CMP-06", "CMP-17", "CMP-20"),
)
KEEP_LAYOUTS = action(
    "cure.keep_layouts",
    source="msprof-analyze, timeline_fusion_ops.yaml: npu_confusion_transpose",
    fit=NPU,
    cases=("CMP-09",),
)
SHORTER_FLOATS = action(
    "cure.shorter_floats",
    source="torch_npu, npu_config.py: allow_hf32",
    fit=Fit(chips=("ascend",), frameworks=("pytorch",), types=("hf32",)),
    cases=("CMP-03", "CMP-04"),
)
BUCKETS_OF_LENGTH = variants(
    "cure.buckets_of_length",
    {"_ascend": NPU, "_torch": TORCH, "": ANY},
    source="PyTorch documentation of torch.nn.utils.rnn; Krell et al., Efficient sequence packing, 2021",
    cases=("CMP-30",),
)
SHARDED_TABLES = variants(
    "cure.sharded_tables",
    {
        "_ascend": Fit(chips=("ascend",), libraries=("torchrec",), phase="training"),
        "": Fit(libraries=("torchrec",), phase="training"),
    },
    source="TorchRec documentation; Rec SDK Torch, feature overview",
    cases=("CMP-44",),
)
LEAN_CAPTURE = variants(
    "cure.lean_capture",
    {"_ascend": OF_ASCEND, "": ANY},
    source="PyTorch documentation of torch.profiler: with_stack and profile_memory add overhead",
    cases=("ENV-04",),
)
OFFLINE_KERNELS = variants(
    "cure.offline_kernels",
    {"": NPU, "_any": OF_ASCEND},
    source="torch_npu documentation of set_compile_mode",
    cases=("CPU-01", "CPU-02"),
)
_FEWER_LAUNCHES = "PyTorch performance tuning guide; msprof-analyze's advisor on fused optimizers"
MORE_PER_LAUNCH = (
    *variants(
        "cure.more_per_launch",
        {"_ascend": _NPU_TRAINS, "_train": TORCH_TRAINS},
        risk="cure.more_per_launch_risk_train",
        source=_FEWER_LAUNCHES,
        cases=("CPU-15", "CPU-26"),
    ),
    action("cure.more_per_launch", source=_FEWER_LAUNCHES, cases=("CPU-26",)),
)
NO_SYNCHRONISATION = variants(
    "cure.no_synchronisation",
    {"_cuda": GPU, "_npu": NPU, "": ANY},
    source="PyTorch performance tuning guide: avoid unnecessary CPU-GPU synchronization",
    cases=("CPU-21",),
)
BETWEEN_GRAPHS = variants(
    "cure.between_graphs",
    {"_vllm": Fit(libraries=("vllm",)), "_sglang": Fit(libraries=("sglang",)), "": ANY},
    risk=NO_RISK,
    source="PyTorch notes on CUDA semantics: CUDA graphs; vLLM and SGLang documentation of their schedulers",
)
LAUNCH_AS_GRAPH = variants(
    "cure.graph",
    {
        "_npu": NPU,
        "_vllm": Fit(libraries=("vllm",)),
        "_sglang": Fit(libraries=("sglang",)),
        "": Fit(chips=("cuda", "rocm"), frameworks=("pytorch",), unless=_ENGINES),
    },
    source="PyTorch notes on CUDA semantics: CUDA graphs; torch_npu's npugraphs",
    cases=("CPU-12", "CPU-13"),
)
PINNED_AND_FEW = action(
    "cure.pinned_and_few",
    source="CUDA runtime API, API synchronization behavior; PyTorch tutorial on pin_memory and non_blocking",
    fit=TORCH,
    cases=("IO-08",),
)
THREADS_BY_CORES = variants(
    "cure.threads_by_cores",
    {"_ascend": NPU, "_torch": TORCH, "": ANY},
    source="PyTorch performance tuning guide: utilize OpenMP; torch_npu's list of environment variables",
    cases=("CPU-35", "CPU-36", "CPU-32", "CPU-45"),
)
COPY_AHEAD = action(
    "cure.copy_ahead",
    source="PyTorch notes on CUDA semantics: use pinned memory buffers",
    fit=TORCH,
    cases=("IO-08", "IO-09", "IO-10", "IO-12"),
)
ASYNC_SAVE = variants(
    "cure.async_save",
    {"": TORCH, "_any": ANY},
    source="PyTorch documentation of torch.distributed.checkpoint",
    cases=("IO-16",),
)
KEEP_CACHED_MEMORY = variants(
    "cure.cached_memory",
    {"_npu": NPU, "_cuda": GPU, "": TORCH},
    source="PyTorch notes on CUDA semantics: memory management; torch_npu's list of environment variables",
    cases=("MEM-02", "MEM-03", "MEM-16", "MEM-18"),
)
KEEP_PINNED_MEMORY = action(
    "cure.pinned_memory", source="PyTorch tutorial on pin_memory and non_blocking", fit=TORCH
)  # fmt: skip
EXPANDABLE_SEGMENTS = variants(
    "cure.expandable",
    {"_npu": NPU, "_cuda": GPU},
    source="PyTorch notes on CUDA semantics; torch_npu's list of environment variables",
    cases=("MEM-01", "MEM-02", "MEM-16", "MEM-18"),
)
RELEASE_TENSORS = variants(
    "cure.release",
    {"_cuda": GPU, "_npu": NPU, "": TORCH},
    risk=NO_RISK,
    source="PyTorch documentation: understanding memory usage",
    cases=("MEM-04",),
)
ONTO_VECTOR_CORES = action(
    "cure.vector_cores", source="CANN, Ascend C programming guide: kernel types", fit=OF_ASCEND
)  # fmt: skip
HOLD_LESS = variants(
    "cure.hold_less",
    {"_train": TORCH_TRAINS, "": ANY},
    source="PyTorch, Understanding CUDA Memory Usage; Megatron-LM, recompute and distributed optimizer",
    cases=("MEM-05",),
)
MIXED = variants(
    "cure.mixed",
    {"": Fit(frameworks=("pytorch",), types=("bf16",)), "_half_train": TORCH_TRAINS, "_half": TORCH},
    source="PyTorch documentation of automatic mixed precision",
    cases=("CMP-04",),
)
SCHEDULE_AHEAD: Mapping[str, Action] = {
    "mindie": action(
        "cure.schedule_mindie",
        verify="cure.schedule_verify",
        source="MindIE LLM development guide, asynchronous scheduling",
        cases=("CPU-50",),
    ),
    "vllm": action(
        "cure.schedule_vllm",
        verify="cure.schedule_verify",
        source="vLLM documentation, engine arguments: async-scheduling",
    ),
}
"""The action to schedule ahead, by the inference service that runs."""
KEEP_WORKERS = action(
    "cure.keep_workers",
    source="PyTorch documentation of torch.utils.data: persistent_workers",
    fit=TORCH,
    whole=True,
    cases=("IO-06",),
)
FUSED_LAYERS: Mapping[str, Message] = {
    "RMSNorm": sentence("cure.fused_rms_norm_do"),
    "rotary embedding": sentence("cure.fused_rotary_do"),
    "SwiGLU": sentence("cure.fused_swiglu_do"),
    "attention": sentence("cure.fused_attention_do"),
}
"""Layers that the vendor's adapter has as one operator, with how to call it."""
LINK_TOOLS: Mapping[str, str] = {
    "ascend": "HCCL test, hccn_tool -i N -stat -g, npu-smi info -t topo",
    "cuda": "nccl-tests, nvidia-smi nvlink -s -e",
    "rocm": "rccl-tests, rocm-smi --showtopo",
}
CLOCK_TOOLS: Mapping[str, str] = {
    "ascend": "npu-smi info -t common -i DEVICE, npu-smi info -t power",
    "cuda": "nvidia-smi -q -d CLOCK,PERFORMANCE,TEMPERATURE",
    "rocm": "rocm-smi --showclocks --showpower",
}
DEVICE_TOOLS: Mapping[str, str] = {"ascend": "npu-smi info", "cuda": "nvidia-smi -q", "rocm": "rocm-smi"}
"""What measures links, clocks and devices, by the word of the case base for the chip."""
TILES: Mapping[str, int] = {"ascend": 256, "cuda": 8}
"""The number of elements of which inner axes should be a multiple, by chip."""
TILES_SOURCE = "msprof-analyze, aicore_performance.yaml; NVIDIA, Matrix Multiplication Background User's Guide"


@message("cure.fused_optimizer")
def fused_form(*, name: Name) -> None:
    """To use the adapter's fused form of an optimizer."""


@message("cure.fused_optimizer_do")
def fused_form_do(*, name: Name) -> None:
    """How to use the adapter's fused form of an optimizer."""


_FUSED_VERIFY = sentence("cure.fused_optimizer_verify")
_FUSED_RISK = sentence("cure.fused_optimizer_risk")


def fused_optimizer(name: str) -> Action:
    """The action to use the adapter's fused form of an optimizer."""
    return Action(
        title=fused_form(name=name),
        do=fused_form_do(name=name),
        verify=_FUSED_VERIFY,
        risk=_FUSED_RISK,
        source="msprof-analyze, affinity API: NpuFused optimizers",
        fit=_NPU_TRAINS,
        cases=("CPU-15",),
    )
