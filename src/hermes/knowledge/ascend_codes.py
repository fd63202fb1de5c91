"""What Ascend's profilers mean by their task types, cores and group numbers.

Sources of the spellings: profiler outputs of torch_npu 2.1 to 2.7 and CANN 7.0 to 8.3 (`kernel_details.csv`,
`trace_view.json`, table `TASK`). Other spellings are from the profilers' sources in the public repositories
Ascend/pytorch and Ascend/msprof.
"""

from __future__ import annotations

import re

NONE_32 = 4_294_967_295
"""Ascend writes "none" as the largest unsigned 32-bit number."""

# The unit that a task type (trace_view `Task Type`, database TASK.taskType, csv `Accelerator Core`) ran on.
UNIT_OF_TASK: dict[str, str] = {
    "AI_CORE": "cube",
    "KERNEL_AICORE": "cube",
    "AI_VECTOR_CORE": "vector",
    "KERNEL_AIVEC": "vector",
    "AIV_SQE": "vector",
    "MIX_AIC": "mix",
    "MIX_AIV": "mix",
    "KERNEL_MIX_AIC": "mix",
    "KERNEL_MIX_AIV": "mix",
    "AI_CPU": "ai_cpu",
    "KERNEL_AICPU": "ai_cpu",
    "DSA_SQE": "dsa",
    "STARS_COMMON": "other",
    "C_CORE_SQE": "other",
    "Other": "other",
    "PCIE_DMA_SQE": "copy",
    "SDMA_SQE": "copy",
    "MEMCPY_ASYNC": "copy",
    "SDMA": "comm",
    "HCCL": "comm",
    "COMMUNICATION": "comm",
    "RDMA": "comm",
    "ROCCE_SQE": "comm",
    "Write Value": "comm",
    "WRITE_VALUE_SQE": "comm",
    "Notify Wait": "wait",
    "Notify Record": "comm",
    "NOTIFY_WAIT": "wait",
    "NOTIFY_RECORD": "comm",
    "NOTIFY_WAIT_SQE": "wait",
    "NOTIFY_RECORD_SQE": "comm",
    "REDUCE_ASYNC_V2": "comm",
    "EVENT_WAIT": "wait",
    "EVENT_WAIT_SQE": "wait",
    "EVENT_RECORD": "event",
    "EVENT_RECORD_SQE": "event",
    "PLACE_HOLDER_SQE": "event",
    "PROFILING_ENABLE": "event",
    "PROFILING_DISABLE": "event",
}

NOTIFY_WAITS = ("Notify Wait", "NOTIFY_WAIT", "NOTIFY_WAIT_SQE")
"""Waits of a collective for another rank, by task type, or by name where a profiler has no type for such waits."""
MATRIX_CORES = ("AI_CORE", "KERNEL_AICORE", "MIX_AIC", "KERNEL_MIX_AIC")
"""Task types that occupy matrix cores; a mixed kernel counts if its main part runs on matrix cores."""

COMPUTE_UNITS = frozenset({"cube", "vector", "mix", "ai_cpu", "dsa"})

# The component of a device task by its unit, where nothing better is known.
COMPONENT_OF_UNIT: dict[str, str] = {
    "cube": "compute",
    "vector": "compute",
    "mix": "compute",
    "ai_cpu": "compute",
    "dsa": "compute",
    "sm": "compute",
    "copy": "copy",
    "comm": "comm",
    "wait": "wait",
    "event": "other",
    "other": "other",
}

COPY_DIRECTION: dict[str, str] = {
    "host to device": "h2d",
    "host to device ex": "h2d",
    "device to host": "d2h",
    "device to host ex": "d2h",
    "device to device": "d2d",
    "device to device ex": "d2d",
    "addr d2d": "d2d",
    "addr device to device": "d2d",
    "host to host": "h2h",
}

# hcom_allReduce__271_0_1: operation, last three digits of the group hash, index, number.
COMM_NAME = re.compile(r"^hcom_([A-Za-z]+?)_*__(\d+)_(\d+)_(\d+)$")

OP_OF_HCCL: dict[str, str] = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "allgatherv": "all_gather",
    "reducescatter": "reduce_scatter",
    "reducescatterv": "reduce_scatter",
    "alltoall": "all_to_all",
    "alltoallv": "all_to_all",
    "alltoallvc": "all_to_all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "scatter": "scatter",
    "gather": "gather",
    "send": "send",
    "receive": "recv",
    "recv": "recv",
    "batchsendrecv": "send_recv",
    "barrier": "barrier",
}

# Kernels on AI CPU or vector cores that carry out a collective: communication, not compute.
COMM_KERNEL = re.compile(
    r"^(hcom_|aiv_(all|reduce|broad)|AivKernel$|.*(allreduce|allgather|reducescatter|alltoall|broadcast)Aicpu)", re.I
)
COLLECTIVE_TYPES = ("HCCL", "COMMUNICATION")
"""Types of tasks that are collectives as a whole: a newer profiler names those of a vector core so, too."""

BYTES_OF_DTYPE: dict[str, int] = {
    "INT8": 1, "UINT8": 1, "HIF8": 1, "FP8E4M3": 1, "FP8E5M2": 1, "FP8E8M0": 1,
    "INT16": 2, "UINT16": 2, "FP16": 2, "BFP16": 2,
    "INT32": 4, "UINT32": 4, "FP32": 4,
    "INT64": 8, "UINT64": 8, "FP64": 8, "INT128": 16,
}  # fmt: skip


def op_of_hccl(name: str) -> str:
    """The canonical operation of an HCCL name such as `hcom_allReduce__271_0_1`, `allreduce-top1`, or, of a graph node,
    `Default/AllReduce-op534_0`.
    """
    plain = name.rpartition("/")[2].removeprefix("hcom_").split("__")[0].split("-")[0].rstrip("_").lower()
    return OP_OF_HCCL.get(plain, "unknown")


def group_hash(communicator: str) -> str:
    """The number that stands for a communicator in Ascend's files, as decimal text.

    The number consists of two running hashes of 32 bits, with factors 29 and 131. Checked on real profiles:
    `group_name_5` gives 5862276114690318097.
    """
    high = low = 0
    for character in communicator:
        high = (high * 29 + ord(character)) & 0xFFFFFFFF
        low = (low * 131 + ord(character)) & 0xFFFFFFFF
    return str((high << 32) | low)
