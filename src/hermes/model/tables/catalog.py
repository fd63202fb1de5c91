"""The catalog of all canonical tables. Times are nanoseconds since the file's epoch; intervals are half-open."""

from __future__ import annotations

from hermes.model.tables.columns import DUR as _DUR
from hermes.model.tables.columns import RANK as _RANK
from hermes.model.tables.columns import START as _START
from hermes.model.tables.columns import STEP as _STEP
from hermes.model.tables.communication import COMM_LINK, COMM_OP, COMM_REPORTED, COMM_TASK, COMM_TRAFFIC
from hermes.model.tables.schema import Column, Table
from hermes.model.tables.thread_samples import SAMPLE, THREAD_RUN

RUNTIME_KINDS = ("acl", "node", "model", "hccl", "runtime", "driver")
"""Kinds of rows of the table `host_op` that are below the framework, such as runtime and driver calls."""

_RANK_TABLE = Table(
    "rank",
    "one process of the job in one capture",
    (
        _RANK,
        Column("capture", "text", "Tells several captures of one rank apart: the time or name of the folder."),
        Column("format", "text", "Format the rank was read from, such as `ascend-text`, `ascend-db`, `kineto`."),
        Column("framework", "text", "`pytorch` or `mindspore`.", null="not recorded"),
        Column("vendor", "text", "`ascend`, `nvidia`, `amd`, `intel`, `habana`, `meta`, `cpu` or `unknown`."),
        Column("chip", "text", "Device name as the file gives it.", null="not recorded"),
        Column("device_id", "int", "Device number on its host.", null="not recorded or several"),
        Column("host", "text", "Name or id of the host; ranks of one host share a clock.", null="not recorded"),
        Column("level", "text", "Profiler level, such as `Level1`.", null="the profiler has none"),
        Column("world_size", "int", "Ranks of the job.", null="not recorded"),
        Column("tp", "int", "Tensor-parallel coordinate.", null="not recorded"),
        Column("pp", "int", "Pipeline-parallel coordinate.", null="not recorded"),
        Column("dp", "int", "Data-parallel coordinate.", null="not recorded"),
        Column("cp", "int", "Context-parallel coordinate.", null="not recorded"),
        Column("ep", "int", "Expert-parallel coordinate.", null="not recorded"),
        Column("epoch_ns", "int", "Add it to a time of this rank to get Unix time.", "ns", null="not recorded"),
    ),
)

_STEP_TABLE = Table(
    "step",
    "one step of one rank, as the framework marked it on the host",
    (
        _RANK,
        Column("step", "int", "Number that the framework gave the step."),
        _START,
        _DUR,
        Column("name", "text", "Name of the mark, such as `ProfilerStep#50`."),
    ),
)

_HOST_OP = Table(
    "host_op",
    "one call on a host thread: Python, framework, queue, or runtime",
    (
        _RANK,
        Column("op_id", "int", "Number of the row within its rank, from 0."),
        Column(
            "kind",
            "text",
            "`step`, `op` (framework operator), `python`, `enqueue`, `dequeue`, `mark` (user range), `acl`, `node`, "
            "`model`, `hccl`, `runtime`, `driver`.",
        ),
        Column("name", "text", "Name as recorded, without a layer prefix such as `AscendCL@`."),
        Column("pid", "int", "Process.", null="the file's process is not a number"),
        Column("tid", "int", "Thread.", null="the file's thread is not a number"),
        _START,
        _DUR,
        Column("depth", "int", "How many rows of the same thread and layer (framework, runtime) enclose this one."),
        Column("self_ns", "int", "Duration less that of the rows of its layer directly inside.", "ns"),
        _STEP,
        Column("correlation", "int", "Equal in a launching call and the kernels it launched.", null="no link"),
        Column("shapes", "text", "Input shapes, `;` between tensors and `,` between dimensions.", null="not recorded"),
        Column("dtypes", "text", "Input types, `;` between tensors.", null="not recorded"),
        Column(
            "strides",
            "text",
            "Input strides, `;` between tensors and `,` between dimensions.",
            null="all inputs lie in the order of their dimensions, or not recorded",
        ),
        Column("sequence", "int", "Autograd sequence number, equal in forward and backward.", null="none"),
        Column("forward_tid", "int", "Thread of the forward operator, on backward rows.", null="not a backward row"),
        Column("stack_id", "int", "Python stack, a row of `stack`.", null="not recorded"),
        Column("domain", "text", "Domain of a user range.", null="the default domain, none, or not recorded"),
    ),
)

_STACK = Table(
    "stack",
    "one distinct Python stack",
    (
        _RANK,
        Column("stack_id", "int", "Number of the stack within its rank."),
        Column("frames", "text", "Frames, innermost first, one a line: `file(line): function`."),
    ),
)

_KERNEL = Table(
    "kernel",
    "one task on a device",
    (
        _RANK,
        Column("kernel_id", "int", "Number of the row within its rank, from 0."),
        Column("name", "text", "Kernel name as recorded."),
        Column("type", "text", "Operator type, such as `MatMulV2`.", null="not recorded"),
        Column("component", "text", "What the time is: `compute`, `comm`, `copy`, `wait` or `other` (marks, events)."),
        Column(
            "unit",
            "text",
            "What ran it: `cube`, `vector`, `mix`, `ai_cpu`, `dsa`, `sm`, `copy`, `comm`, `wait`, `event`, `other`.",
            null="not recorded (Level0)",
        ),
        Column("task_type", "text", "Task type as the profiler names it.", null="not recorded"),
        Column("device_id", "int", "Device number on its host.", null="not recorded"),
        Column("stream", "int", "Stream.", null="not recorded"),
        _START,
        _DUR,
        _STEP,
        Column("correlation", "int", "Equal in the launching `host_op` row.", null="no link"),
        Column("launch_ns", "int", "Start of the host call that launched it.", "ns", null="not in the capture"),
        Column("task_id", "int", "Task number on its stream.", null="not recorded"),
        Column("input_shapes", "text", "`;` between tensors and `,` between dimensions.", null="not recorded"),
        Column("input_dtypes", "text", "`;` between tensors.", null="not recorded"),
        Column("input_formats", "text", "`;` between tensors.", null="not recorded"),
        Column("output_shapes", "text", "`;` between tensors and `,` between dimensions.", null="not recorded"),
        Column("output_dtypes", "text", "`;` between tensors.", null="not recorded"),
        Column("output_formats", "text", "`;` between tensors.", null="not recorded"),
        Column("blocks", "int", "Blocks: `Block Dim` on Ascend, product of the grid on CUDA.", null="not recorded"),
        Column("mix_blocks", "int", "Blocks of the second unit of a mixed kernel.", null="not a mixed kernel"),
        Column("op_state", "text", "`dynamic` or `static` shape.", null="not recorded"),
        Column(
            "call",
            "int",
            "Equal in kernels that one call of a framework operator launched, and in copies and fills beside them.",
            null="no link",
        ),
        Column(
            "input_values",
            "text",
            "Inputs of that call that are no tensors, `;` between inputs; of convolutions and attention.",
            null="not recorded, or not kept",
        ),
        Column("bytes", "int", "Bytes moved by a copy.", "B", null="not a copy, or not recorded"),
        Column("direction", "text", "`h2d`, `d2h`, `d2d`, `h2h`, `p2p` or `set`.", null="not a copy, or not recorded"),
    ),
)

_PMU = Table(
    "pmu",
    "one hardware counter of one kernel",
    (
        _RANK,
        Column("kernel_id", "int", "The row of `kernel`."),
        Column("name", "text", "Counter as the profiler names it, such as `aic_mac_ratio`."),
        Column("value", "real", "Value; the name carries the unit."),
    ),
)

_FLOW = Table(
    "flow",
    "one arrow between two points of the trace",
    (
        _RANK,
        Column(
            "kind",
            "text",
            "`launch` (runtime call to device task), `operator` (framework operator to device task), "
            "`queue` (enqueue to dequeue), `event` (record on a stream to what waits for it), `forward_backward`, "
            "`mark`.",
        ),
        Column("flow_id", "text", "Identity as recorded; it may exceed 64 bits."),
        Column("src_pid", "int", "Process the arrow leaves.", null="not a number"),
        Column("src_tid", "int", "Thread the arrow leaves; the stream of an event's record.", null="not a number"),
        Column("src_ns", "int", "Moment the arrow leaves.", "ns"),
        Column("dst_pid", "int", "Process the arrow reaches.", null="not a number"),
        Column(
            "dst_tid", "int", "Thread or stream the arrow reaches.", null="not a number; the host waits for an event"
        ),
        Column("dst_ns", "int", "Moment the arrow arrives.", "ns"),
    ),
)

_MEMORY = Table(
    "memory",
    "the state of an allocator at one moment",
    (
        _RANK,
        Column("component", "text", "Whose memory: `PTA`, `GE`, `APP`, `cuda`, `cpu`, …"),
        Column("ts_ns", "int", "Moment.", "ns"),
        Column("allocated_bytes", "int", "Handed out to tensors.", "B", null="not recorded"),
        Column("reserved_bytes", "int", "Taken from the device.", "B", null="not recorded"),
        Column("active_bytes", "int", "In use or waiting for a stream.", "B", null="not recorded"),
        Column("device_id", "int", "Device.", null="host memory, or not recorded"),
    ),
)

_ALLOCATION = Table(
    "allocation",
    "one block of device memory; blocks taken before the capture do not appear",
    (
        _RANK,
        Column("name", "text", "Operator that took it."),
        Column("bytes", "int", "Size.", "B"),
        Column("alloc_ns", "int", "Moment it was taken.", "ns"),
        Column("release_ns", "int", "Moment it was given back.", "ns", null="still held at the end"),
        Column("device_id", "int", "Device.", null="not recorded"),
    ),
)

_COUNTER = Table(
    "counter",
    "one sample of one counter",
    (
        _RANK,
        Column("source", "text", "What is measured: `AI Core Freq`, `HBM`, `LLC`, `NIC`, `RoCE`, `PCIe`, `HCCS`, …"),
        Column("name", "text", "Which one, such as `HBM 0/Read`."),
        Column("series", "text", "Series as the profiler names it, unit included, such as `Read(MB/s)`."),
        Column("ts_ns", "int", "Moment.", "ns"),
        Column("value", "real", "Value in the unit that the series names."),
        Column("device_id", "int", "Device.", null="not recorded"),
    ),
)

_GC = Table(
    "gc",
    "one collection of Python's garbage collector",
    (_RANK, Column("tid", "int", "Thread.", null="not recorded"), _START, _DUR),
)

_SETTING = Table(
    "setting",
    "one setting of a rank",
    (
        _RANK,
        Column("source", "text", "`environment`, `profiler`, `job`, `version` or `before the capture`."),
        Column("name", "text", "Name of the setting."),
        Column("value", "text", "Value as text.", null="known to be unset"),
    ),
)

_GROUP = Table(
    "group",
    "one member of one process group",
    (
        _RANK,
        Column(
            "group", "text", "Key of the group: its hash as decimal text where the profiler has one, else its name."
        ),
        Column("name", "text", "Name in the framework, such as `dp`.", null="not recorded"),
        Column("communicator", "text", "Name of the communicator.", null="not recorded"),
        Column("member", "int", "Rank within the group."),
        Column("global_rank", "int", "Global rank.", null="only the size of the group is known"),
    ),
)

_STEP_REPORTED = Table(
    "step_reported",
    "the step split as Ascend's own tool reports it",
    (
        _RANK,
        Column("step", "int", "Step.", null="the row covers the whole run"),
        Column("compute_ns", "int", "Computing.", "ns"),
        Column("exposed_comm_ns", "int", "Communication(Not Overlapped).", "ns"),
        Column("overlapped_ns", "int", "Overlapped.", "ns"),
        Column("comm_ns", "int", "Communication.", "ns"),
        Column("free_ns", "int", "Free: window less compute and exposed communication, so copies are in it.", "ns"),
        Column("stage_ns", "int", "Stage: window less bubble.", "ns"),
        Column("bubble_ns", "int", "Bubble: time in receives.", "ns"),
        Column(
            "preparing_ns",
            "int",
            "First device task less the start of the step on the host.",
            "ns",
            null="not reported",
        ),
    ),
)

_STATISTIC = Table(
    "statistic",
    "one line of a summary that the profiler wrote beside the trace",
    (
        _RANK,
        Column(
            "source",
            "text",
            "`api`, `op`, `communication`, `operator`, `l2_cache`, `aicpu`, `pcie`, `hccs`, …: the file it comes from.",
        ),
        Column("name", "text", "What is summed."),
        Column("level", "text", "Layer or unit that the file gives.", null="none"),
        Column("count", "int", "Occurrences.", null="not reported"),
        Column("total_ns", "int", "Total time.", "ns", null="not reported"),
        Column("min_ns", "int", "Shortest.", "ns", null="not reported"),
        Column("max_ns", "int", "Longest.", "ns", null="not reported"),
        Column("value", "real", "What the line gives when it is no time; `unit` names it.", null="the line is a time"),
        Column("unit", "text", "Unit of `value` as the file names it.", null="the line is a time"),
    ),
)

_INPUT_QUEUE = Table(
    "input_queue",
    "one operation of MindSpore's data pipeline with its output queue",
    (
        _RANK,
        Column("op_id", "int", "Number of the operation."),
        Column("op", "text", "Type of the operation."),
        Column("workers", "int", "Worker threads.", null="not recorded"),
        Column("queue_size", "int", "Capacity of its output queue.", null="has none"),
        Column("queue_average", "real", "Mean number of elements in it.", null="has none"),
        Column("queue_usage", "real", "Mean filling, 0 to 1.", null="has none"),
        Column("queue_empty", "real", "Share of samples with nothing in it, 0 to 1.", null="has none"),
        Column("queue_full", "real", "Share of samples in which it was full, 0 to 1.", null="has none"),
        Column("samples", "int", "How often it was looked at.", null="not recorded"),
        Column("cpu", "real", "Mean share of the machine's processors that the operation used.", null="not recorded"),
        Column("parent_id", "int", "Operation that reads the queue.", null="the last one"),
    ),
)

_REQUEST = Table(
    "request",
    "one request to an inference service, as the service's own profiler tells of it",
    (
        _RANK,
        Column("request", "text", "Id of the request."),
        Column("start_ns", "int", "When it arrived.", "ns", null="not recorded"),
        Column("dur_ns", "int", "From its arrival until its last token.", "ns", null="not finished or not recorded"),
        Column("queue_ns", "int", "In queues, waiting and pending together.", "ns", null="not recorded"),
        Column("first_token_ns", "int", "From its arrival until its first token.", "ns", null="not recorded"),
        Column("prefill_ns", "int", "From its arrival until the node for prefill had done.", "ns",
               null="prefill and decode are not on different nodes, or not recorded"),
        Column("transfer_ns", "int", "Its KV cache on the way from the node for prefill to that for decode.", "ns",
               null="prefill and decode are not on different nodes, or not recorded"),
        Column("input_tokens", "int", "Tokens of the prompt.", null="not recorded"),
        Column("output_tokens", "int", "Tokens of the answer.", null="not recorded"),
        Column("cache_hit", "real", "Part of the prompt that was in the cache, 0 to 1.", null="not recorded"),
    ),
)  # fmt: skip

_BATCH = Table(
    "batch",
    "one batch of an inference service: that it was put together, or that it was executed",
    (
        _RANK,
        Column("kind", "text", "`schedule` (put together), `execute` (by the model's process) or `forward`."),
        Column("name", "text", "Name that the profiler gives the event, such as `modelExec`."),
        Column("phase", "text", "`prefill`, `decode`, or `mixed` of both.", null="not recorded"),
        Column("start_ns", "int", "Start.", "ns"),
        Column("dur_ns", "int", "Duration.", "ns"),
        Column("requests", "int", "Requests in it.", null="not recorded"),
        Column("tokens", "int", "Tokens in it.", null="not recorded"),
        Column("process", "text", "What tells one device's process from another.", null="not recorded"),
        Column("dp", "int", "Data-parallel coordinate of the batch.", null="none, or not recorded"),
    ),
)

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        _RANK_TABLE,
        _STEP_TABLE,
        _HOST_OP,
        _STACK,
        _KERNEL,
        _PMU,
        COMM_OP,
        COMM_TASK,
        COMM_TRAFFIC,
        COMM_LINK,
        COMM_REPORTED,
        _FLOW,
        _MEMORY,
        _ALLOCATION,
        _COUNTER,
        _GC,
        SAMPLE,
        THREAD_RUN,
        _SETTING,
        _GROUP,
        _STEP_REPORTED,
        _STATISTIC,
        _INPUT_QUEUE,
        _REQUEST,
        _BATCH,
    )
}
