"""Changes that differ by chip or library: options, tools and operators of vendors, as findings show them.

Each change gives its source. Rules choose among the changes by the traits of `hermes.knowledge.vendor_traits`.
"""

from __future__ import annotations

from collections.abc import Mapping

from hermes.knowledge.vendor_traits import Traits
from hermes.model.finding import Action

ROOM_BESIDE_TRANSFERS = Action(
    title="Let other work overlap, and let collectives copy less",
    do="export TORCH_HCCL_ZERO_COPY=1 PYTORCH_NPU_ALLOC_CONF=expandable_segments:True; "
    "export NCCL_MAX_CTAS=8; deep_ep.Buffer.set_num_sms(16); start collectives so that they run beside products, "
    "not beside elementwise kernels.",
    verify="The slowdown in the report's table of contention falls, and the step with it.",
    risk="Less overlap may expose more communication than contention costs.",
    source="torch_npu documentation of TORCH_HCCL_ZERO_COPY; NCCL documentation of NCCL_MAX_CTAS; "
    "DeepEP, Buffer.num_sms, 20 as it comes",
)
CHECK_NETWORK_PORT = Action(
    title="Look at the network port for errors and pauses",
    do="Look at retransmissions, pauses and errors before and after a step: hccn_tool -i N -stat -g; look at "
    "ethtool -S and rdma statistic on the host; check optics, PFC and ECN settings and the switch port. Leave "
    "HCCL_RDMA_TIMEOUT and HCCL_RDMA_RETRY_CNT at their defaults.",
    verify="Counters of errors stand still over a step, and no transfer stalls in the next profile.",
    risk="A shorter timeout hides losses and fails under congestion.",
    source="msprof-analyze, rdma_analysis.yaml; CANN documentation of HCCL_RDMA_TIMEOUT",
)
DEFAULT_ALGORITHMS = Action(
    title="Let the library choose, with large buffers",
    do="unset HCCL_ALGO NCCL_ALGO NCCL_PROTO NCCL_P2P_DISABLE NCCL_SHM_DISABLE; export HCCL_BUFFSIZE=512 "
    "NCCL_BUFFSIZE=8388608; compare with HCCL test on the same ranks; compare with nccl-tests on the same ranks.",
    verify="The speed of the same operations rises in the next profile.",
    risk="Twice the buffer's memory for each communicator; a switch may have been set against a hang.",
    source="CANN documentation of HCCL_BUFFSIZE and HCCL_ALGO; NCCL documentation of environment variables",
)
DIRECT_LINKS = Action(
    title="Let ranks of one host use its direct links",
    do="unset HCCL_INTRA_ROCE_ENABLE HCCL_INTRA_PCIE_ENABLE HCCL_INTER_HCCS_DISABLE NCCL_P2P_DISABLE; "
    "give the container all devices of the group; look at npu-smi info -t topo; look at nvidia-smi topo -m.",
    verify="The transport of these pairs changes in the report's table of links.",
    risk="A switch may have been set against a fault: watch for hangs.",
    source="CANN documentation of HCCL_INTRA_ROCE_ENABLE; NCCL documentation of NCCL_P2P_DISABLE",
)
MORE_ROWS = Action(
    title="Give each product more rows",
    do="Fold batch and sequence into the rows of one product; raise the micro-batch as far as memory allows; "
    "replace a row of small products by one torch.bmm or grouped product.",
    verify="The same operators reach a larger share of their roof; time per sample falls.",
    risk="Memory; a larger batch may change convergence.",
    source="NVIDIA, Matrix Multiplication Background User's Guide, section 3; msprof-analyze, aicore_performance.yaml",
)
TUNED_TILES = Action(
    title="Tune the tiles of these operators",
    do="Run AOE on them (aoe --job_type=2 with the operators named here), and keep "
    "torch.npu.config.allow_internal_format at its default for convolutions.",
    verify="mac and mte2 ratios of these operators rise to 80 % in a Level2 capture.",
    risk="Time to tune; tuned tiles hold for one CANN version.",
    source="advisor of msprof-analyze: AOE for operators without a bound",
)
FUSED_OPERATORS = Action(
    title="Use torch_npu's fused operators",
    do="torch_npu.npu_rms_norm, npu_swiglu, npu_rotary_mul, npu_scaled_masked_softmax and the NpuFused optimizers in "
    "place of their parts; in-place forms (add_, mul_) elsewhere.",
    verify="The parts are gone from kernel_details, and the fused types are there in their place.",
    risk="In place is only right where autograd keeps no copy of the value.",
    source="msprof-analyze, timeline_fusion_ops.yaml",
)
NO_INTERNAL_FORMATS = Action(
    title="Switch internal formats off",
    do="torch_npu.npu.config.allow_internal_format = False before the model is built; for frozen weights convert "
    "once: weight.data = torch_npu.npu_format_cast(weight.data, 29).",
    verify="TransData no longer appears, and the step as a whole is shorter.",
    risk="Convolutions may be slower without their format: measure both.",
    source="torch_npu, npu_config.py; MindStudio, general performance issues",
)
FUSED_CASTS = Action(
    title="Use fused operators that convert inside",
    do="torch_npu.npu_scaled_masked_softmax, npu_rms_norm or npu_fusion_attention in place of parts that cast to "
    "float32 and back; give buffers the module's type: buffer.to(torch.bfloat16) once, not in forward.",
    verify="Pairs of Cast around these operators are gone.",
    risk="Check the accuracy: a norm or softmax may need float32 inside, which the fused ones have.",
    source="msprof-analyze, timeline_fusion_ops.yaml",
)
KEEP_LAYOUTS = Action(
    title="Choose layouts that need no turning",
    do="npu_fusion_attention(..., input_layout='BSND') as the projection leaves it; "
    "torch_npu.npu_confusion_transpose(x, perm, shape, transpose_first) for permute with view; contiguous() once "
    "where a tensor is used often.",
    verify="Transpose, AsStrided and ViewCopy take less time.",
    risk="A layout touches checkpoints and tensor parallelism.",
    source="msprof-analyze, timeline_fusion_ops.yaml: npu_confusion_transpose",
)
SHORTER_FLOATS = Action(
    title="Let products run in HF32",
    do="torch.npu.matmul.allow_hf32 = True (convolutions have it by default), or train in bfloat16 with "
    "torch.autocast.",
    verify="MatMul kernels take about half as long; the loss follows the one before.",
    risk="HF32 has 10 bits of mantissa: check the loss.",
    source="torch_npu, npu_config.py: allow_hf32",
)
BUCKETS_OF_LENGTH = Action(
    title="Put samples of like length together, or pack them",
    do="Sort by length within buckets of some hundred batches (a BatchSampler), and pad to the longest of the batch: "
    "torch.nn.utils.rnn.pad_sequence(samples, batch_first=True); or concatenate samples, with attention over "
    "variable lengths: flash_attn_varlen_func where it is installed; torch_npu.npu_fusion_attention with "
    "input_layout='TND'.",
    verify="The share of padding in this finding falls below a fifth.",
    risk="Batches of like length are less random: shuffle the buckets. Shapes vary more.",
    source="PyTorch documentation of torch.nn.utils.rnn; Krell et al., Efficient sequence packing, 2021",
)
SHARDED_TABLES = Action(
    title="Update tables where they are read",
    do="torchrec.EmbeddingBagCollection with apply_optimizer_in_backward, its tables split over ranks by "
    "DistributedModelParallel: the backward pass updates the rows that were read, and no gradient is written. On "
    "Ascend: Rec SDK Torch, which has TorchRec's modules for NPUs.",
    verify="Neither a gradient nor an optimizer of the size of the table is left in the profile.",
    risk="Another library; checkpoints of tables change their form.",
    source="TorchRec documentation; Rec SDK Torch, feature overview",
)
LEAN_CAPTURE = Action(
    title="Capture once more, lean",
    do="profile(with_stack=False, with_modules=False, profile_memory=False, record_shapes=False, "
    "schedule=schedule(wait=10, warmup=1, active=2, repeat=1)); on Ascend at Level0; compare both.",
    verify="If free time falls as far, the loss was the profiler's.",
    risk="Fewer details.",
    source="PyTorch documentation of torch.profiler: with_stack and profile_memory add overhead",
)
OFFLINE_KERNELS = Action(
    title="Turn online compilation off",
    do="torch_npu.npu.set_compile_mode(jit_compile=False) before the model is built; "
    "keep input shapes fixed or bucketed.",
    verify="aclopCompileAndExecute no longer appears after the warm-up, and free time falls.",
    risk="Some operators run slower without shape-specialised code: compare the step time.",
    source="torch_npu documentation of set_compile_mode",
)
MORE_PER_LAUNCH = Action(
    title="Give the device more for each launch",
    do="A larger batch where memory and latency allow one; a fused optimizer: torch.optim.AdamW(…, fused=True) or "
    "foreach=True; on Ascend torch_npu.optim.NpuFusedAdamW; no Python loop over samples, heads or experts.",
    verify="The median kernel is longer than the time between two launches.",
    risk="It is other work: a larger batch takes longer for each step. It changes the convergence: adapt the learning "
    "rate.",
    source="PyTorch performance tuning guide; msprof-analyze's advisor on fused optimizers",
)
NO_SYNCHRONISATION = Action(
    title="Do not wait for the device inside the loop",
    do="Take torch.cuda.synchronize() and torch.cuda.empty_cache() out of the loop; take torch.npu.synchronize() and "
    "torch.npu.empty_cache() out of the loop; time with Event(enable_timing=True) read every 100 steps; copy from "
    "pinned memory with tensor.to(device, non_blocking=True).",
    verify="The calls are gone from most steps, and free time falls.",
    risk="Errors of the device show later than the call that made them.",
    source="PyTorch performance tuning guide: avoid unnecessary CPU-GPU synchronization",
)
BETWEEN_GRAPHS = Action(
    title="Shorten what the host does between two graphs",
    do="Look at the host calls between one launch of the graph and the next: prepare the next batch while this one "
    "runs; take sampling, copies and Python into the graph; several steps for each launch. vLLM: --async-scheduling. "
    "SGLang: leave the overlap schedule on.",
    verify="The time from the end of a graph to the begin of the next falls.",
    risk="none",
    source="PyTorch notes on CUDA semantics: CUDA graphs; vLLM and SGLang documentation of their schedulers",
)
PINNED_AND_FEW = Action(
    title="Copy from pinned memory, and do not wait for it",
    do="Make the tensors that are copied each step once, pinned (torch.empty(…, pin_memory=True), or the DataLoader's "
    "pin_memory=True), and copy with tensor.to(device, non_blocking=True); make lengths, offsets and masks on the "
    "device in place of copying them; gather small tensors into one copy.",
    verify="Copies name pinned memory in the next profile, and their calls return at once.",
    risk="The pinned tensor must stay as it is until its copy has ended.",
    source="CUDA runtime API, API synchronization behavior; PyTorch tutorial on pin_memory and non_blocking",
)
THREADS_BY_CORES = Action(
    title="No more threads than cores, each rank on cores of its own",
    do="export OMP_NUM_THREADS=<cores / ranks>; fewer DataLoader workers with one thread in each; "
    "export CPU_AFFINITY_CONF=1; torchrun --numa-binding=node where ranks share a host.",
    verify="The load falls, and free time per step with it.",
    risk="Too few threads slow preparation on the host.",
    source="PyTorch performance tuning guide: utilize OpenMP; torch_npu's list of environment variables",
)
COPY_AHEAD = Action(
    title="Copy ahead, from pinned memory",
    do="DataLoader(…, pin_memory=True) and batch.to(device, non_blocking=True), one batch ahead on a "
    "stream of its own; gather small tensors into one before the copy.",
    verify="Copies from the host overlap kernels in the next profile.",
    risk="Pinned memory cannot be swapped out; the host tensor must stay unchanged until its copy ended.",
    source="PyTorch notes on CUDA semantics: use pinned memory buffers",
)
ASYNC_SAVE = Action(
    title="Save in the background",
    do="torch.distributed.checkpoint.async_save(state, checkpoint_id=path); on Ascend also "
    "torch_npu.utils.save_async(state, path); save less often.",
    verify="Steps that save are as long as the others.",
    risk="Host memory for one copy of the state; a crash before the end loses that checkpoint.",
    source="PyTorch documentation of torch.distributed.checkpoint",
)
KEEP_CACHED_MEMORY = Action(
    title="Let the caching allocator keep its memory",
    do="Remove empty_cache() from the loop; export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; make the first batch the longest; if memory is full, a smaller "
    "micro-batch.",
    verify="No allocation call is left after the warm-up, and num_alloc_retries stays 0.",
    risk="More memory stays reserved.",
    source="PyTorch notes on CUDA semantics: memory management; torch_npu's list of environment variables",
)
KEEP_PINNED_MEMORY = Action(
    title="Take pinned memory once, and use it again",
    do="Make the buffers before the loop (torch.empty(…, pin_memory=True)) and copy_ each batch into them; with a "
    "DataLoader, pin_memory=True in place of calls of pin_memory() in the loop; batches of one size.",
    verify="No call that takes pinned memory is left after the warm-up.",
    risk="Pinned memory cannot be swapped out: keep the number of buffers small.",
    source="PyTorch tutorial on pin_memory and non_blocking",
)
EXPANDABLE_SEGMENTS = Action(
    title="Let segments grow",
    do="export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; "
    "for lengths that vary also roundup_power2_divisions:4.",
    verify="Reserved over allocated falls below 1.3 at the peak.",
    risk="Older drivers cannot use several devices from one process with it.",
    source="PyTorch notes on CUDA semantics; torch_npu's list of environment variables",
)
RELEASE_TENSORS = Action(
    title="Let go of what a step leaves",
    do="losses.append(loss.detach()) in place of losses.append(loss); find what stays with "
    "torch.cuda.memory._record_memory_history(); find what stays with torch.npu.memory._record_memory_history().",
    verify="Memory at the beginning of a step stays the same over a hundred steps.",
    risk="none",
    source="PyTorch documentation: understanding memory usage",
)

MEASURE_A_LINK = (
    "Measure that pair alone with two ranks: HCCL test; nccl-tests; look at its errors: hccn_tool -i N -stat -g, "
    "npu-smi info -t topo; nvidia-smi nvlink -s -e; until it is mended, place heavy groups elsewhere."
)
ALIGNED_AXES = (
    "A head size of 64 or 128; hidden and feed-forward sizes, and the vocabulary, in multiples of 256 elements on "
    "Ascend; in multiples of 8 on NVIDIA, of 64 where that is cheap; --make-vocab-size-divisible-by 128."
)
ALIGNED_AXES_SOURCE = "msprof-analyze, aicore_performance.yaml; NVIDIA, Matrix Multiplication Background User's Guide"
WITH_STACKS = "with Python stacks (with_stack=True); on Ascend at Level1"
READ_CLOCKS = (
    "npu-smi info -t common -i DEVICE, npu-smi info -t power; nvidia-smi -q -d CLOCK,PERFORMANCE,TEMPERATURE; "
    "rocm-smi --showclocks --showpower"
)
MORE_WORK_FOR_A_KERNEL = (
    "foreach=True or a fused optimizer; torch.compile for chains of small operators; larger batches; on Ascend tune "
    "the longest with AOE; replace the longest by an operator of a library."
)
COMPARE_DEVICES = (
    "Compare clock, temperature, power and processes of its device with another's: npu-smi info; nvidia-smi -q; swap "
    "the two ranks' devices and profile again."
)
FUSED_LAYERS: Mapping[str, str] = {
    "RMSNorm": "torch_npu.npu_rms_norm(x, weight, epsilon=eps)[0]",
    "rotary embedding": "torch_npu.npu_rotary_mul(x, cos, sin)",
    "SwiGLU": "torch_npu.npu_swiglu(torch.cat([gate, up], dim=-1)), from one product that makes both halves",
    "attention": "torch_npu.npu_fusion_attention(q, k, v, heads, input_layout='BNSD', scale=scale, …)[0]",
}
"""Layers that the vendor's adapter has as one operator, with that operator's name."""


def fused_optimizer(name: str) -> Action:
    """The action to use the adapter's fused form of an optimizer."""
    return Action(
        title=f"Use torch_npu's fused form of {name}",
        do=f"optimizer = torch_npu.optim.NpuFused{name}(model.parameters(), …) in place of torch.optim.{name} (each "
        "optimizer of PyTorch that has a fused form there is named NpuFused…).",
        verify="Foreach types are gone from kernel_details, and the optimizer's range is shorter.",
        risk="It joins parameters and gradients into flat buffers: do not replace them afterwards.",
        source="msprof-analyze, affinity API: NpuFused optimizers",
    )


def launch_as_graph(device: Traits) -> Action:
    """The action to launch the step as a graph, by the device's way to capture graphs."""
    return Action(
        title="Launch the step as a graph",
        do="torch.npu.make_graphed_callables(model, (x,)) or torch.compile(model, backend='npugraphs')"
        if device.fused
        else "torch.compile(model, mode='reduce-overhead'); by hand torch.cuda.make_graphed_callables(model, (x,)). "
        "vLLM: no --enforce-eager. SGLang: no --disable-cuda-graph.",
        verify="Few launches are left in a step, and free time falls.",
        risk="Shapes and addresses are fixed, branches on data are frozen, the graph keeps its memory.",
        source="PyTorch notes on CUDA semantics: CUDA graphs; torch_npu's npugraphs",
    )


ONTO_VECTOR_CORES = Action(
    title="Bring these operators onto the vector cores",
    do="`hermes operators PATH` lists them with shapes and types: try float16, bfloat16 or float32 inputs and static "
    "shapes; take the library's aclnn operator in place of a custom one; in Ascend C set the kernel's type to "
    "KERNEL_TYPE_AIV_ONLY.",
    verify="Their core is AI_VECTOR_CORE in the next capture at Level1.",
    risk="Another kernel may round otherwise.",
    source="CANN, Ascend C programming guide: kernel types",
)
HOLD_LESS = Action(
    title="Hold less at the peak",
    do="A smaller micro-batch with more accumulation; torch.utils.checkpoint around the modules that hold most; shard "
    "parameters and optimizer states (FSDP's fully_shard, ZeRO, the distributed optimizer of Megatron and MindSpeed); "
    "bfloat16 activations.",
    verify="The same steps run, and the peak stays below what the device has.",
    risk="Recomputation costs time, sharding communication; more accumulation leaves the sum of gradients as it is.",
    source="PyTorch, Understanding CUDA Memory Usage; Megatron-LM, recompute and distributed optimizer",
)

MIXED = Action(
    title="Compute in a type of 16 bits",
    do="with torch.autocast(device, dtype=torch.bfloat16): loss = model(x); model.to(torch.bfloat16) once where no "
    "weight learns; on a chip without it autocast with dtype=torch.float16, and a GradScaler where it trains.",
    verify="Inputs of the longest products are 16 bits wide in the next profile, and they take less time.",
    risk="Check that the loss follows the one in float32.",
    source="PyTorch documentation of automatic mixed precision",
)
SCHEDULE_AHEAD: Mapping[str, Action] = {
    "mindie": Action(
        title="Let MindIE schedule ahead",
        do="export MINDIE_ASYNC_SCHEDULING_ENABLE=1 before the service starts; where prefill and decode are on "
        "different nodes, on those for decode alone.",
        verify="Pauses between batches fall in the next profile of the service, and the time for a further token.",
        risk="A request that has ended is computed once more. Not together with Look Ahead or Memory Decoding, and not "
        "for n, best_of or beam search.",
        source="MindIE LLM development guide, asynchronous scheduling",
    ),
    "vllm": Action(
        title="Let vLLM schedule ahead",
        do="vllm serve MODEL --async-scheduling",
        verify="Pauses between batches fall in the next profile of the service, and the time for a further token.",
        risk="Not every feature works with it: vLLM says at its start which.",
        source="vLLM documentation, engine arguments: async-scheduling",
    ),
}
"""The action to schedule ahead, by the inference service that runs."""
KEEP_WORKERS = Action(
    title="Keep the workers over epochs",
    do="Give the DataLoader persistent_workers=True, and make it once, outside of the loop over epochs; "
    "the same for the loader of the evaluation.",
    verify="DataLoader.__iter__ takes a small part of the next capture around the start of an epoch.",
    risk="The memory of the workers stays taken, and changes of the dataset object do not reach them.",
    source="PyTorch documentation of torch.utils.data: persistent_workers",
    whole=True,
)
