"""The Kineto reader on real traces with known numbers, on drawn traces, and on damage."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.shared_jobs import Jobs
from tests.skips import profiles

from hermes.base.errors import HermesError, TraceFormatError
from hermes.base.intervals import union_of_intervals
from hermes.base.say import say
from hermes.base.units import ns_of_us
from hermes.knowledge.blocking_calls import BLOCKS, OF_GRAPH, is_blocking
from hermes.knowledge.host_work import SYNCHRONISATION, host_reason
from hermes.model.tables import TABLES
from hermes.profiles.read.kineto.find_traces import host_of
from hermes.profiles.read.kineto.reader import KinetoReader
from hermes.profiles.read.table_sink import Sink

Event = dict[str, Any]
Read = Callable[..., Sink]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Writes events (or a file's content) as a trace and reads it."""

    def _read(events: list[Event] | bytes, name: str = "trace.json", **header: Any) -> Sink:
        path = tmp_path / name
        content = events if isinstance(events, bytes) else json.dumps({**header, "traceEvents": events}).encode()
        path.write_bytes(content)
        return _tables(path, tmp_path / "out")

    return _read


def _tables(path: Path, out: Path) -> Sink:
    (source,) = KinetoReader().claim([path])
    sink = Sink(out, 3)
    KinetoReader().read(source, 3, sink)
    sink.fill()
    return sink


def _span(cat: str, name: str, ts: float, dur: float, *, tid: Any = 10, pid: Any = 1, **args: Any) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def _kernel(name: str, ts: float, dur: float, stream: int = 7, /, **args: Any) -> Event:
    return _span("kernel", name, ts, dur, pid=0, tid=stream, device=0, stream=stream, **args)


def _launch(ts: float, correlation: int, name: str = "cudaLaunchKernel") -> Event:
    return _span("cuda_runtime", name, ts, 1, correlation=correlation)


def _comm(ts: float, dur: float, **args: Any) -> Event:
    facts = {"Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000, "dtype": "BFloat16",
             "Group size": 4, "Process Group Name": "2", "Process Group Description": "tp",
             "Process Group Ranks": "[4, 5, 6, 7]"}  # fmt: skip
    return _kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(X)", ts, dur, 20, **facts | args)


ALL_KINDS: list[Event] = [
    _span("user_annotation", "ProfilerStep#4", 100, 100),
    _span("cpu_op", "aten::mm", 110, 30, **{
        "External id": 5, "Input Dims": [[2, 3], [3, 4], []], "Input type": ["float", "float", "Scalar"],
        "Sequence number": 8, "Fwd thread id": 0,
    }),
    _launch(120, 77),
    _kernel("gemm", 150, 40, correlation=77, grid=[4, 2, 1], **{"External id": 5}),
    _comm(180, 30, correlation=78),
    _span("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 215, 5, pid=0, tid=7, device=0, stream=7, bytes=64),
    {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 10, "ts": 115,
     "args": {"Total Allocated": 512, "Total Reserved": 2048, "Bytes": 512, "Addr": 18446744073709551000,
              "Device Id": 0, "Device Type": 1}},
    {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 77, "pid": 1, "tid": 10, "ts": 120},
    {"ph": "f", "cat": "ac2g", "name": "ac2g", "id": 77, "pid": 0, "tid": 7, "ts": 150, "bp": "e"},
    {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "python"}},
]  # fmt: skip


# --- real traces


def _real(name: str, tmp_path: Path) -> tuple[Sink, dict[str, Any]]:
    shared = profiles()
    truth = json.loads((shared / "truth.json").read_text())["kineto"]
    return _tables(shared / "kineto" / name, tmp_path / "out"), truth.get(f"kineto/{name}", {}).get("values", {})


def _flat(rows: pl.DataFrame, *components: str) -> Any:
    rows = rows.filter(pl.col("component").is_in(components))
    return union_of_intervals(rows["start_ns"].to_numpy(), (rows["start_ns"] + rows["dur_ns"]).to_numpy())


GPU_TRACES = [
    "h100_qwen1.5-0.5b.json.gz",
    "mi300_qwen1.5-0.5b.json.gz",
    "a100_alexnet_cuda_sync.json.gz",
    "v100_resnet50_num_workers_0.json.gz",
]


@pytest.mark.parametrize("name", GPU_TRACES)
def test_the_device_times_of_a_real_trace_are_exact(name: str, tmp_path: Path) -> None:
    sink, truth = _real(name, tmp_path)
    kernel = sink.read("kernel").filter(pl.col("component") != "wait")
    compute, comm, copy = (_flat(kernel, component) for component in ("compute", "comm", "copy"))
    busy = compute | comm | copy
    assert busy.span is not None
    span = busy.span[1] - busy.span[0]
    measured = {
        "span_us": span,
        "busy_us": busy.total,
        "idle_us": span - busy.total,
        "comp_us": compute.total,
        "comm_us": comm.total,
        "exposed_comm_us": (comm - compute).total,
        "mem_us": copy.total,
        "exposed_mem_us": (copy - compute - comm).total,
        "sum_kernel_us": kernel["dur_ns"].sum(),
    }
    assert kernel.height == truth["n"]
    assert measured == {key: ns_of_us(repr(truth[key])) for key in measured}


@pytest.mark.parametrize("name", GPU_TRACES)
def test_the_steps_of_a_real_trace_have_their_length(name: str, tmp_path: Path) -> None:
    sink, truth = _real(name, tmp_path)
    step = sink.read("step")
    assert step["name"].to_list() == [step_name for step_name, _ in truth["steps"]]
    # The truth was rounded to a tenth of a microsecond.
    wanted = [ns_of_us(repr(length)) for _, length in truth["steps"]]
    assert all(abs(ours - theirs) <= 50 for ours, theirs in zip(step["dur_ns"], wanted, strict=True))


@pytest.mark.parametrize(
    ("name", "vendor", "chip"),
    [
        (GPU_TRACES[0], "nvidia", "NVIDIA H100 80GB HBM3"),
        (GPU_TRACES[1], "amd", "AMD Instinct MI300X VF"),
        (GPU_TRACES[3], "nvidia", "Tesla V100-DGXS-32GB"),
        ("cpu_only_rank34.json.gz", "cpu", None),
    ],
)
def test_vendor_and_chip_of_a_real_trace(name: str, vendor: str, chip: str | None, tmp_path: Path) -> None:
    sink, _ = _real(name, tmp_path)
    (row,) = sink.read("rank").to_dicts()
    assert (row["vendor"], row["chip"]) == (vendor, chip)


def test_a_real_trace_without_a_device_has_its_gloo_operations_from_the_host(tmp_path: Path) -> None:
    sink, _ = _real("cpu_only_rank34.json.gz", tmp_path)
    comm = sink.read("comm_op")
    assert comm.height == 10
    assert set(comm["op"]) == {"all_reduce"}
    assert set(comm["library"]) == {"gloo"}
    assert comm.row(0, named=True)["bytes"] == 321_271 * 4
    assert sink.read("kernel").height == 0
    assert any("no work of a device" in say(note.message) for note in sink.notes)


def test_a_real_trace_without_a_device_has_its_groups_and_world(tmp_path: Path) -> None:
    sink, _ = _real("cpu_only_rank34.json.gz", tmp_path)
    assert sink.read("rank")["world_size"].to_list() == [300]
    group = sink.read("group").filter(pl.col("group") == "0")
    assert group["global_rank"].to_list() == list(range(300))
    assert set(group["name"]) == {"default_pg"}


def test_real_kernels_link_to_their_launch_unless_it_was_before_the_capture(tmp_path: Path) -> None:
    sink, _ = _real(GPU_TRACES[0], tmp_path)
    kernel = sink.read("kernel")
    assert kernel["launch_ns"].null_count() == 509
    linked = kernel.filter(pl.col("launch_ns").is_not_null())
    assert (linked["launch_ns"] < linked["start_ns"]).all()
    assert set(linked["step"]) == {6}


def test_real_python_frames_of_an_unknown_thread_stay_apart_from_the_main_thread(tmp_path: Path) -> None:
    sink, _ = _real(GPU_TRACES[0], tmp_path)
    python = sink.read("host_op").filter(pl.col("kind") == "python")
    lost = python.filter(pl.col("tid").is_null())
    assert lost["name"].str.contains("threading.py|tqdm").all()
    assert lost["depth"].to_list() == [0, 1, 2, 3, 4]


def test_real_operators_nest(tmp_path: Path) -> None:
    sink, _ = _real(GPU_TRACES[0], tmp_path)
    host = sink.read("host_op")
    assert host["op_id"].to_list() == list(range(host.height))
    # Every matrix product is called by a linear layer, below Python and the mark of the step.
    assert host.filter(pl.col("name") == "aten::mm")["depth"].min() > 10  # type: ignore[operator]


def test_the_old_categories_carry_stacks_and_shapes(tmp_path: Path) -> None:
    sink, _ = _real(GPU_TRACES[3], tmp_path)
    host, stack = sink.read("host_op"), sink.read("stack")
    conv = host.filter(pl.col("name") == "aten::conv2d").row(0, named=True)
    assert conv["shapes"].startswith("32,3,224,224;64,3,7,7")
    frames = stack.filter(pl.col("stack_id") == conv["stack_id"])["frames"][0].split("\n")
    assert frames[0].endswith("conv.py(440): _conv_forward")
    assert frames[-1] == "resnet50_profiler_api.py(46): <module>"


def test_real_flows_run_from_launch_to_kernel(tmp_path: Path) -> None:
    sink, _ = _real(GPU_TRACES[3], tmp_path)
    flow = sink.read("flow")
    assert flow.height == 9_096
    assert set(flow["kind"]) == {"launch"}
    assert (flow["src_ns"] <= flow["dst_ns"]).all()


def test_an_event_that_a_stream_waits_for_is_an_arrow_from_its_record(tmp_path: Path) -> None:
    sink, _ = _real("event_sync_multi_stream.json.gz", tmp_path)
    events = sink.read("flow").filter(pl.col("kind") == "event").sort("dst_ns")
    # The second is a stream's wait, the others are the host's.
    assert events.select("flow_id", "src_tid", "dst_tid").rows() == [
        ("32", 20, None),
        ("1385", 20, 24),
        ("62", 28, None),
    ]


def test_an_event_without_a_record_in_the_capture_is_no_arrow(read: Read) -> None:
    wait = _span("cuda_sync", "Stream Wait Event", 10, 1, pid=0, tid=24, stream=24, wait_on_stream=20,
                 wait_on_cuda_event_record_corr_id=-1)  # fmt: skip
    assert read([wait, _launch(5, 7, "cudaEventRecord")]).read("flow").height == 0


def test_waits_of_cuda_sync_are_rows_of_their_own(tmp_path: Path) -> None:
    sink, _ = _real("event_sync_multi_stream.json.gz", tmp_path)
    wait = sink.read("kernel").filter(pl.col("component") == "wait")
    assert wait.height == 5
    assert set(wait["unit"]) == {"wait"}
    assert wait.filter(pl.col("task_type") == "Stream Wait Event")["stream"].to_list() == [24]
    assert wait.filter(pl.col("task_type") == "Event Sync")["stream"].null_count() == 3


# --- kernels


@pytest.mark.parametrize(
    ("cat", "name", "component", "direction"),
    [
        ("kernel", "gemm", "compute", None),
        ("Kernel", "gemm", "compute", None),
        ("kernel", "ncclDevKernel_Generic_1", "comm", None),
        ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", "copy", "h2d"),
        ("Memcpy", "Memcpy DtoH (Device -> Pinned)", "copy", "d2h"),
        ("gpu_memcpy", "Memcpy DtoD (Device -> Device)", "copy", "d2d"),
        ("gpu_memcpy", "Memcpy PtoP (Device -> Device)", "copy", "p2p"),
        ("gpu_memset", "Memset (Device)", "copy", "set"),
        ("Memset", "Memset (Device)", "copy", "set"),
        ("cuda_sync", "Stream Sync", "wait", None),
    ],
)
def test_each_category_in_both_spellings_is_its_component(
    read: Read, cat: str, name: str, component: str, direction: str | None
) -> None:
    sink = read([_span(cat, name, 10, 5, pid=0, tid="stream 7", bytes=8)])
    (row,) = sink.read("kernel").to_dicts()
    assert (row["component"], row["direction"], row["stream"]) == (component, direction, 7)


def test_the_direction_of_a_copy_may_stand_in_its_kind(read: Read) -> None:
    assert read([_span("gpu_memcpy", "CopyAsync", 1, 1, kind="DtoH")]).read("kernel")["direction"].to_list() == ["d2h"]


def test_several_processes_in_a_trace_are_said(read: Read) -> None:
    other = [event | {"pid": 2} for event in ALL_KINDS if event.get("pid") == 1 and event["ph"] == "X"]
    (note,) = (note for note in read(ALL_KINDS + other).notes if note.level == "degraded")
    assert "2 processes that feed devices (pid 1 and 2)" in say(note.message)


def test_a_process_that_only_computes_is_none_of_them(read: Read) -> None:
    worker = _span("cpu_op", "aten::cat", 110, 30, pid=9)
    assert [note for note in read([*ALL_KINDS, worker]).notes if note.level == "degraded"] == []


def test_a_range_of_the_user_on_the_device_is_no_kernel(read: Read) -> None:
    sink = read([_kernel("gemm", 1, 1), _span("gpu_user_annotation", "ProfilerStep#1", 1, 5, pid=0, tid=7)])
    assert sink.read("kernel")["name"].to_list() == ["gemm"]
    assert sink.read("step").height == 0


def test_a_kernel_has_its_launch_its_step_its_operator_and_its_blocks(read: Read) -> None:
    sink = read(ALL_KINDS)
    row = sink.read("kernel").row(0, named=True)
    assert (row["launch_ns"], row["correlation"], row["step"], row["blocks"]) == (120_000, 77, 4, 8)
    assert (row["type"], row["input_shapes"], row["input_dtypes"]) == ("aten::mm", "2,3;3,4;", "float;float;Scalar")


def test_a_kernel_of_the_step_before_is_not_given_to_the_step_it_runs_in(read: Read) -> None:
    steps = [_span("user_annotation", f"ProfilerStep#{n}", n * 100, 100) for n in (1, 2)]
    sink = read([*steps, _launch(190, 5), _kernel("late", 210, 20, correlation=5)])
    assert sink.read("kernel")["step"].to_list() == [1]


def test_the_external_id_may_be_written_small(read: Read) -> None:
    op = _span("Operator", "aten::add", 0, 9, **{"External id": 4})
    sink = read([op, _span("Kernel", "k", 5, 1, pid=0, tid="stream 7", **{"external id": 4})])
    assert sink.read("kernel")["type"].to_list() == ["aten::add"]


def _owned(read: Read, *events: Event) -> list[tuple[str | None, str | None, int | None]]:
    kernel = read(list(events)).read("kernel").sort("start_ns")
    return kernel.select("type", "input_shapes", "call").rows()


def test_a_number_of_an_operator_that_the_launch_lies_outside_of_is_not_trusted(read: Read) -> None:
    # PyTorch 1.12 to 2.2 wrote the correlation as External id, while operators have numbers of their own.
    outer = _span("cpu_op", "aten::linear", 100, 50, **{"External id": 1})
    inner = _span("cpu_op", "aten::addmm", 110, 30, **{"External id": 2, "Input Dims": [[2, 3], [3, 4]]})
    other = _span("cpu_op", "aten::as_strided", 10, 5, **{"External id": 77})
    same = _span("cpu_op", "aten::mul", 112, 30, tid=11)
    first, second = _launch(120, 77), _launch(130, 78)
    kernels = [_kernel("gemm", 200 + n, 1, correlation=n, **{"External id": n}) for n in (77, 78)]
    owned = _owned(read, outer, inner, other, same, first, second, *kernels)
    assert [row[:2] for row in owned] == [("aten::addmm", "2,3;3,4")] * 2
    assert owned[0][2] == owned[1][2]


def test_a_launch_in_no_operator_has_none(read: Read) -> None:
    op = _span("cpu_op", "aten::mm", 100, 9, **{"External id": 77})
    assert _owned(read, op, _launch(120, 77), _kernel("k", 200, 5, correlation=77, **{"External id": 77})) == [
        (None, None, None)
    ]


def test_tasks_of_a_graph_are_of_no_operator_around_its_launch(read: Read) -> None:
    around = _span("cpu_op", "CompiledFunction", 100, 90)
    assert _owned(read, around, _launch(120, 7, "cudaGraphLaunch"), _kernel("k", 200, 5, correlation=7)) == [
        (None, None, None)
    ]


def test_a_number_counts_where_the_launch_was_not_recorded(read: Read) -> None:
    op = _span("cpu_op", "aten::mm", 100, 9, **{"External id": 5})
    ((kind, _, call),) = _owned(read, op, _kernel("k", 200, 5, correlation=9, **{"External id": 5}))
    assert (kind, call) == ("aten::mm", 5)


@pytest.mark.parametrize(
    ("name", "kernel", "operator"),
    [
        ("kineto/mtia_single_rank.json.gz", "fc-dtype_Float", {"aten::mm", "aten::addmm"}),
        ("hunt/r4_torchrec_alloc_retry", "CatArrayBatchedCopy", {"aten::cat"}),
    ],
)
def test_kernels_of_real_traces_whose_numbers_are_correlations_have_their_operators(
    name: str, kernel: str, operator: set[str], jobs: Jobs
) -> None:
    rows = jobs.real(name).ranks[0].table("kernel", "name", "type")
    found = rows.filter(pl.col("name").str.contains(kernel, literal=True))
    assert set(found["type"].drop_nulls()) == operator


def test_the_grid_may_stand_on_the_launch(read: Read) -> None:
    launch = _span("cuda_runtime", "hipLaunchKernel", 1, 1, correlation=9, grid=[3, 5, 1])
    sink = read([launch, _span("kernel", "k", 5, 1, pid=2, tid=0, correlation=9, stream=0, device=2)])
    (row,) = sink.read("kernel").to_dicts()
    assert (row["blocks"], row["device_id"]) == (15, 2)


@pytest.mark.parametrize("grid", ["[1,2]", [1, 2], [4294967295] * 3, ["a", 1, 1], {}, -1])
def test_a_grid_that_is_none_gives_no_blocks(read: Read, grid: Any) -> None:
    assert read([_kernel("k", 1, 1, grid=grid)]).read("kernel")["blocks"].to_list() == [None]


# --- what is missing, and what cannot be


def _said(sink: Sink) -> list[tuple[str, str]]:
    return [(note.level, say(note.message)) for note in sink.notes]


def test_launches_whose_kernels_were_not_recorded_are_said(read: Read) -> None:
    done = [_launch(10, 1), _kernel("k", 20, 1, correlation=1)]
    sink = read([*done, *(_launch(30 + n, 100 + n) for n in range(3))])
    cut_off = "3 of 4 launches have no task of the device: the records of these tasks are cut off or damaged"
    assert ("degraded", cut_off) in _said(sink)


def test_launches_into_a_graph_that_is_captured_lack_no_kernel(read: Read) -> None:
    begin, end = (_launch(ts, n, f"cudaStream{word}Capture") for ts, n, word in ((29, 8, "Begin"), (40, 9, "End")))
    done = [_launch(10, 1), _kernel("k", 20, 1, correlation=1)]
    sink = read([*done, begin, *(_launch(30 + n, 100 + n) for n in range(3)), end])
    assert not [text for _, text in _said(sink) if "cut off" in text]


def test_a_few_launches_on_their_way_at_the_end_degrade_nothing(read: Read) -> None:
    done = [event for n in range(1, 200) for event in (_launch(n, n), _kernel("k", n + 0.5, 0.1, correlation=n))]
    levels = {level for level, text in _said(read([*done, _launch(300, 999)])) if "cut off" in text}
    assert levels == {"info"}


@pytest.mark.parametrize("name", GPU_TRACES)
def test_real_traces_lack_no_kernel_and_have_possible_durations(name: str, tmp_path: Path) -> None:
    sink, _ = _real(name, tmp_path)
    assert not [text for _, text in _said(sink) if "cut off" in text or "outlast" in text]


def test_a_task_that_outlasts_the_next_two_of_its_stream_ends_where_the_next_begins(read: Read) -> None:
    # Some kernels of ROCm are recorded with seconds.
    sink = read([
        _kernel("long", 10, 5_000), _kernel("b", 20, 5), _kernel("c", 30, 5), _kernel("other", 12, 900, 8),
        _comm(40, 9_000), _comm(60, 5), _comm(70, 5),
    ])  # fmt: skip
    kernel = sink.read("kernel").sort("start_ns")
    assert kernel["dur_ns"].to_list() == [10_000, 900_000, 5_000, 5_000, 20_000, 5_000, 5_000]
    assert sink.read("comm_op").sort("start_ns")["dur_ns"].to_list() == [20_000, 5_000, 5_000]
    assert any(text.startswith("2 device tasks outlast the two") for _, text in _said(sink))


def test_a_kernel_that_the_next_one_starts_before_its_end_keeps_its_time(read: Read) -> None:
    # Programmatic dependent launch: the next kernel begins in the tail of the one before.
    sink = read([_kernel("a", 10, 12), _kernel("b", 20, 12), _kernel("c", 30, 12)])
    assert sink.read("kernel")["dur_ns"].to_list() == [12_000] * 3


def test_a_real_trace_with_impossible_durations_takes_as_long_as_without_them(jobs: Jobs) -> None:
    totals = [
        jobs.real(f"hunt/{name}").ranks[0].table("kernel")["dur_ns"].sum()
        for name in ("b3_rocm_overflow", "b3_rocm_overflow_clean")
    ]
    assert totals[0] == pytest.approx(totals[1], rel=0.001)


# --- communication


def _collective(pid: int, tid: int, ts: float, dur: float) -> Event:
    return _span("collective_comm", "HcclAllReduce", ts, dur, pid=pid, tid=tid)


def test_collectives_that_torch_npu_records_on_the_device_are_communication(read: Read) -> None:
    host = [_span("cpu_op", "aten::mm", 1, 5)]
    work = [_kernel("MatMulV2", 10, 20), _collective(0, 9, 20, 30)]
    sink = read([*host, *work])
    (row,) = sink.read("comm_op").to_dicts()
    assert (row["op"], row["library"], row["stream"], row["dur_ns"]) == ("all_reduce", "hccl", 9, 30_000)
    assert sink.read("kernel").sort("start_ns")["component"].to_list() == ["compute", "comm"]


def test_collectives_that_a_host_thread_recorded_are_no_work_of_the_device(read: Read) -> None:
    sink = read([_span("cpu_op", "aten::mm", 1, 5), _kernel("gemm", 10, 20), _collective(1, 10, 20, 30)])
    assert sink.read("kernel")["name"].to_list() == ["gemm"]
    assert not sink.read("comm_op").height


def test_an_unknown_category_of_the_device_is_said(read: Read) -> None:
    sink = read([_kernel("gemm", 10, 20), _span("npu_graph_task", "x", 40, 500, pid=0, tid=7)])
    assert any("npu_graph_task" in text for level, text in _said(sink) if level == "degraded")


def test_a_communication_kernel_is_a_kernel_and_an_operation(read: Read) -> None:
    sink = read(ALL_KINDS)
    (row,) = sink.read("comm_op").to_dicts()
    assert sink.read("kernel").filter(pl.col("component") == "comm").height == 1
    assert (row["op"], row["library"], row["group"], row["sequence"]) == ("all_reduce", "nccl", "2", 0)
    assert (row["bytes"], row["count"], row["start_ns"], row["dur_ns"]) == (2_000, 1_000, 180_000, 30_000)


def test_the_recorded_name_wins_over_the_kernels(read: Read) -> None:
    sink = read([_comm(1, 1, **{"Collective name": "_allgather_base"})])
    assert sink.read("comm_op")["op"].to_list() == ["all_gather"]


def test_a_recorded_name_that_says_nothing_leaves_the_kernels(read: Read) -> None:
    sink = read([_comm(1, 1, **{"Collective name": "coalesced"})])
    assert sink.read("comm_op")["op"].to_list() == ["all_reduce"]


def test_an_unknown_kernel_with_a_recorded_collective_is_communication(read: Read) -> None:
    sink = read([_kernel("my_exchange", 1, 5, **{"Collective name": "alltoall"})])
    assert sink.read("kernel")["component"].to_list() == ["comm"]
    assert sink.read("comm_op")["op"].to_list() == ["all_to_all"]


def test_a_local_kernel_launched_inside_a_collective_stays_compute(read: Read) -> None:
    sink = read(
        [_comm(1, 1), _kernel("void at::native::copy_kernel<4>(int)", 5, 5, **{"Collective name": "allgather"})]
    )
    assert sink.read("kernel")["component"].to_list() == ["comm", "compute"]
    assert sink.read("comm_op").height == 1


def test_the_larger_of_sent_and_received_counts(read: Read) -> None:
    sink = read([_comm(1, 1, **{"In msg nelems": 10, "Out msg nelems": 40, "dtype": "Float"})])
    assert sink.read("comm_op")["bytes"].to_list() == [160]


def test_an_unknown_type_leaves_the_bytes_open(read: Read) -> None:
    sink = read([_comm(1, 1, dtype="Mystery")])
    (row,) = sink.read("comm_op").to_dicts()
    assert (row["bytes"], row["count"], row["dtype"]) == (None, 1_000, "Mystery")


def test_operations_count_within_their_group_by_time(read: Read) -> None:
    groups = ["a", "b", "a", "a", "b"]
    events = [_comm(10 * at, 1, **{"Process Group Name": name}) for at, name in enumerate(groups)]
    comm = read(events[::-1]).read("comm_op")
    assert comm["sequence"].to_list() == [0, 0, 1, 2, 1]


def test_an_operation_without_a_group_has_no_place_in_one(read: Read) -> None:
    comm = read([_kernel("ncclDevKernel_SendRecv(X)", 1, 1)]).read("comm_op")
    assert comm.select("op", "group", "sequence").row(0) == ("send_recv", None, None)


@pytest.mark.parametrize(("op", "key"), [("send", "Dst Rank"), ("recv", "Src Rank")])
def test_a_point_to_point_operation_names_its_peer(read: Read, op: str, key: str) -> None:
    comm = read([_comm(1, 1, **{"Collective name": op, key: 6})]).read("comm_op")
    assert comm.select("op", "peer").row(0) == (op, 6)


def test_the_facts_may_stand_on_the_hosts_record_alone(read: Read) -> None:
    facts = {"Collective name": "broadcast", "In msg nelems": 8, "dtype": "Int", "Process Group Name": "0"}
    record = _span("cpu_op", "record_param_comms", 1, 9, **{"External id": 3}, **facts)
    sink = read([record, _kernel("ncclKernel_Broadcast_RING_LL_Sum_int8_t(X)", 5, 5, **{"External id": 3})])
    (row,) = sink.read("comm_op").to_dicts()
    assert (row["op"], row["bytes"], row["group"]) == ("broadcast", 32, "0")


def test_beside_device_communication_the_hosts_calls_are_not_counted_again(read: Read) -> None:
    host = [_span("user_annotation", "gloo:all_reduce", 1, 9), _span("cpu_op", "c10d::allreduce_", 2, 3)]
    assert read([*host, _comm(20, 5)]).read("comm_op").height == 1


def test_on_a_cpu_the_best_record_of_a_collective_is_taken_once(read: Read) -> None:
    events = [
        _span("cpu_op", "c10d::allreduce_", 1, 9),
        _span("cpu_op", "record_param_comms", 2, 7, **{"Collective name": "allreduce", "Process Group Name": "0"}),
    ]
    comm = read(events).read("comm_op")
    assert comm.select("name", "op", "group").rows() == [("record_param_comms", "all_reduce", "0")]


def test_a_collective_of_a_tensor_without_dimensions_moves_one_number(read: Read) -> None:
    sizes = {"float": [[]], "c10::BFloat16": [[4, 8]], "": [[]]}
    events = [
        _span("user_annotation", "gloo:all_reduce", at, 9, **{"Input Dims": dims, "Input type": [name]})
        for at, (name, dims) in zip((1, 20, 40), sizes.items(), strict=True)
    ]
    assert read(events).read("comm_op").sort("start_ns")["bytes"].to_list() == [4, 64, None]


def test_collectives_of_gloo_are_in_the_only_group_of_the_job(read: Read) -> None:
    events = [_span("user_annotation", "gloo:all_reduce", 1, 9)]
    group = {"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1]}
    alone = read(events, distributedInfo={"pg_config": [group]}).read("comm_op")
    assert alone.select("group", "sequence").rows() == [("0", 0)]


def test_of_several_groups_none_is_taken_for_that_of_a_collective(read: Read) -> None:
    events = [_span("user_annotation", "gloo:all_reduce", 1, 9)]
    groups = [{"pg_name": name, "pg_desc": "", "ranks": [0, 1]} for name in "01"]
    assert read(events, distributedInfo={"pg_config": groups}).read("comm_op")["group"].to_list() == [None]


def test_a_frame_that_calls_the_collector_is_a_collection(read: Read) -> None:
    frame = _span("python_function", "<built-in function collect>", 5, 7)
    assert read([frame, _span("python_function", "collect.py(3): collect", 4, 9)]).read("gc")["dur_ns"].to_list() == [
        7_000
    ]


def test_enqueuing_calls_of_a_job_with_a_device_are_no_communication(read: Read) -> None:
    assert read([_span("cpu_op", "c10d::allreduce_", 1, 9), _kernel("gemm", 1, 1)]).read("comm_op").height == 0


def _called(name: str, kernel: str, *, dims: str = "[[6144]]") -> list[Event]:
    """A kernel that is launched inside a range of the host, as PyTorch before 2.1 recorded collectives."""
    shapes = {"Input Dims": json.loads(dims), "Input type": ["float"]}
    return [
        _span("cpu_op", "c10d::whatever_", 0, 9),
        _span("user_annotation", name, 1, 5, **shapes),
        _launch(2, 5),
        _kernel(kernel, 10, 5, correlation=5),
    ]


@pytest.mark.parametrize(
    ("name", "kernel", "told"),
    [
        ("nccl:all_to_all", "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(X)", ("all_to_all", 24_576, None)),
        ("nccl:send 3->1", "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(X)", ("send", 24_576, 1)),
        ("nccl:recv 3<-1", "ncclDevKernel_SendRecv(X)", ("recv", 24_576, 1)),
        # The first number is this one's place in the group: where it is not its rank, the second is none either.
        ("nccl:send 0->1", "ncclDevKernel_SendRecv(X)", ("send", 24_576, None)),
        ("nccl:all_reduce", "ncclDevKernel_Generic_4(X)", ("all_reduce", 24_576, None)),
        ("nccl:all_gather", "ncclKernel_AllGather_RING_LL_Sum_int8_t(X)", ("all_gather", None, None)),
        ("nccl:coalesced", "ncclDevKernel_SendRecv(X)", ("send_recv", None, None)),
        ("nccl:all_reduce", "ncclKernel_AllGather_RING_LL_Sum_int8_t(X)", ("all_gather", None, None)),
    ],
)
def test_the_range_around_the_launch_tells_what_the_kernel_does(
    name: str, kernel: str, told: tuple[str, int | None, int | None], read: Read
) -> None:
    comm = read(_called(name, kernel)).read("comm_op")
    assert comm.select("op", "bytes", "peer").rows() == [told]


def test_what_the_kernel_says_itself_is_believed_before_the_range_around_it(read: Read) -> None:
    events = _called("nccl:all_to_all", "ncclDevKernel_SendRecv(X)")[:-1]
    comm = read([*events, _comm(10, 5, correlation=5)]).read("comm_op")
    assert comm.select("op", "bytes").rows() == [("all_reduce", 2_000)]


@pytest.mark.parametrize("dims", ["[[-1, 2]]", '"x"', "[[]]", "{}", '[["a"]]'])
def test_shapes_that_are_none_give_no_size(dims: str, read: Read) -> None:
    comm = read(_called("nccl:all_to_all", "ncclDevKernel_SendRecv(X)", dims=dims)).read("comm_op")
    assert comm.select("op", "bytes").rows() == [("all_to_all", None)]


def test_a_name_such_as_worker0_step_12_is_no_host() -> None:
    assert host_of(Path("worker0_step_12.1694128201557.pt.trace.json")) is None
    assert host_of(Path("node-3.cluster_4711.1694128201557.pt.trace.json")) == "node-3.cluster"


def test_groups_come_from_the_header_and_from_the_kernels(read: Read) -> None:
    job = {"rank": 5, "world_size": 8, "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1]}]}
    group = read([_comm(1, 1)], distributedInfo=job).read("group")
    assert group.filter(pl.col("group") == "0")["global_rank"].to_list() == [0, 1]
    assert group.filter(pl.col("group") == "2").select("name", "member", "global_rank").rows() == [
        ("tp", 0, 4), ("tp", 1, 5), ("tp", 2, 6), ("tp", 3, 7),
    ]  # fmt: skip


def test_of_a_shortened_list_of_ranks_only_the_size_is_known(read: Read) -> None:
    group = read([_comm(1, 1, **{"Process Group Ranks": "[0, 1, ..., 31]", "Group size": 32})]).read("group")
    assert group.height == 32
    assert group["global_rank"].null_count() == 32


# --- host


def test_until_pytorch_1_11_names_tell_ranges_from_operators(read: Read) -> None:
    kinds = {"aten::mm": "op", "MmBackward0": "op", "detach": "op", "c10d::allreduce_": "op", "model_inference": "mark",
             "Optimizer.step#SGD.step": "mark"}  # fmt: skip
    sink = read([_span("Operator", name, at, 1) for at, name in enumerate(kinds)])
    assert dict(sink.read("host_op").select("name", "kind").rows()) == kinds


def test_each_category_of_the_host_is_its_kind(read: Read) -> None:
    cats = {"cpu_op": "op", "python_function": "python", "user_annotation": "mark",
            "cuda_runtime": "runtime", "Runtime": "runtime", "cuda_driver": "driver"}  # fmt: skip
    sink = read([_span(cat, cat, at, 1) for at, cat in enumerate(cats)])
    assert dict(sink.read("host_op").select("name", "kind").rows()) == cats


@pytest.mark.parametrize("cat", ["user_annotation", "cpu_op", "Operator"])
def test_a_mark_of_the_profiler_is_a_step(read: Read, cat: str) -> None:
    sink = read([_span(cat, "ProfilerStep#12", 10, 20), _span("cpu_op", "aten::add", 15, 1)])
    assert sink.read("step").select("step", "start_ns", "dur_ns").rows() == [(12, 10_000, 20_000)]
    assert sink.read("host_op").select("kind", "step").rows() == [("step", 12), ("op", 12)]


def test_a_step_that_two_threads_marked_counts_once(read: Read) -> None:
    sink = read(
        [_span("user_annotation", "ProfilerStep#1", 10, 20), _span("user_annotation", "ProfilerStep#1", 12, 5, tid=11)]
    )
    assert sink.read("step").select("start_ns", "dur_ns").rows() == [(10_000, 20_000)]


def test_calls_nest_and_own_what_their_children_leave(read: Read) -> None:
    host = read(ALL_KINDS).read("host_op")
    assert host.select("name", "depth", "self_ns").rows() == [
        ("ProfilerStep#4", 0, 70_000), ("aten::mm", 1, 30_000), ("cudaLaunchKernel", 0, 1_000),
    ]  # fmt: skip


def test_only_launches_carry_the_correlation(read: Read) -> None:
    host = read(ALL_KINDS).read("host_op")
    assert host["correlation"].to_list() == [None, None, 77]


def test_strides_are_kept_of_inputs_that_do_not_lie_in_the_order_of_their_axes(read: Read) -> None:
    sizes = {"Input Dims": [[2, 3], [2, 3], []], "Input type": ["float", "float", "Scalar"]}
    orders = {"aten::add": [[3, 1], [1, 2], []], "aten::mul": [[3, 1], [3, 1], []], "aten::sub": [[0, 0], [3, 1], []]}
    spans = [
        _span("cpu_op", name, at, 1, **sizes, **{"Input Strides": strides})
        for at, (name, strides) in enumerate(orders.items())
    ]
    rows = read(spans).read("host_op")
    assert dict(rows.select("name", "strides").iter_rows()) == {
        "aten::add": "3,1;1,2;", "aten::mul": None, "aten::sub": None,
    }  # fmt: skip


def test_an_operator_has_shapes_types_and_its_sequence(read: Read) -> None:
    row = read(ALL_KINDS).read("host_op").row(1, named=True)
    assert (row["shapes"], row["dtypes"], row["sequence"], row["forward_tid"]) == (
        "2,3;3,4;",
        "float;float;Scalar",
        8,
        None,
    )


def test_python_frames_without_a_thread_go_to_the_thread_of_the_steps(read: Read) -> None:
    frames = [
        _span("python_function", name, ts, dur, pid=0, tid=0, **{"Python id": number, "Python parent id": parent})
        for name, ts, dur, number, parent in [
            ("main", 0, 100, 1, None), ("train", 5, 90, 2, 1), ("forward", 15, 50, 3, 2),
            ("watcher", 1, 99, 10, None), ("sleep", 2, 90, 11, 10),
        ]
    ]  # fmt: skip
    host = read([*frames, _span("user_annotation", "ProfilerStep#1", 10, 80, tid=42)]).read("host_op")
    rows = {name: (tid, depth) for name, tid, depth in host.select("name", "tid", "depth").rows()}
    assert rows == {"main": (42, 0), "train": (42, 1), "ProfilerStep#1": (42, 2), "forward": (42, 3),
                    "watcher": (None, 0), "sleep": (None, 1)}  # fmt: skip


def test_frames_whose_parents_form_a_ring_do_not_hang(read: Read) -> None:
    ring = [
        _span("python_function", "f", n, 1, pid=0, tid=0, **{"Python id": n, "Python parent id": (n + 1) % 3})
        for n in range(3)
    ]
    assert read(ring).read("host_op").height == 3


def test_a_collection_of_pythons_garbage_is_in_its_table(read: Read) -> None:
    sink = read([_span("python_function", "Python GC", 5, 7)])
    assert sink.read("gc").select("tid", "start_ns", "dur_ns").rows() == [(10, 5_000, 7_000)]


# --- marks


def test_a_flow_joins_launch_and_kernel(read: Read) -> None:
    (row,) = read(ALL_KINDS).read("flow").to_dicts()
    assert (row["kind"], row["flow_id"], row["src_ns"], row["dst_ns"], row["dst_tid"]) == (
        "launch",
        "77",
        120_000,
        150_000,
        7,
    )


def test_an_end_of_a_flow_on_the_launching_thread_is_no_arrow(read: Read) -> None:
    back = {"ph": "f", "cat": "ac2g", "name": "ac2g", "id": 77, "pid": 1, "tid": 10, "ts": 119}
    assert read([*ALL_KINDS, back]).read("flow").height == 1


def test_forward_and_backward_are_joined_though_their_ids_equal_those_of_launches(read: Read) -> None:
    both = [
        {"ph": ph, "cat": "fwdbwd", "name": "fwdbwd", "id": 77, "pid": 1, "tid": 10, "ts": ts}
        for ph, ts in (("s", 1), ("f", 9))
    ]
    flow = read([*ALL_KINDS, *both]).read("flow").filter(pl.col("kind") == "forward_backward")
    assert flow.select("src_ns", "dst_ns").rows() == [(1_000, 9_000)]


def test_many_flows_of_one_id_do_not_multiply(read: Read) -> None:
    ends = [
        {"ph": ph, "cat": "ac2g", "name": "ac2g", "id": 1, "pid": at % 2, "tid": 10, "ts": at}
        for ph in "sf"
        for at in range(3_000)
    ]
    assert read(ends + ALL_KINDS[:1]).read("flow").height <= 3_000


def _memory(ts: float, size: int, addr: int, *, kind: int = 1, **totals: int) -> Event:
    args = {"Bytes": size, "Addr": addr, "Device Id": 0 if kind else -1, "Device Type": kind, **totals}
    return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 10, "ts": ts, "args": args}


@pytest.mark.parametrize(("kind", "component", "device"), [(0, "cpu", None), (1, "cuda", 0), (6, "hip", 0)])
def test_the_allocators_curve_is_read(read: Read, kind: int, component: str, device: int | None) -> None:
    memory = read([_memory(5, 1, 9, kind=kind, **{"Total Allocated": 10, "Total Reserved": 20})]).read("memory")
    assert memory.select("component", "ts_ns", "allocated_bytes", "reserved_bytes", "device_id").rows() == [
        (component, 5_000, 10, 20, device)
    ]


def test_a_block_runs_from_its_allocation_to_its_release_and_an_address_may_come_again(read: Read) -> None:
    big = 18446744073709551000
    sink = read([_memory(1, 512, big), _memory(3, -512, big), _memory(5, 64, big), _memory(7, -9, 4)])
    assert sink.read("allocation").select("bytes", "alloc_ns", "release_ns").rows() == [
        (512, 1_000, 3_000), (64, 5_000, None),
    ]  # fmt: skip


def test_a_block_is_named_after_the_innermost_operator_that_is_open(read: Read) -> None:
    ops = [_span("cpu_op", "outer", 0, 100), _span("cpu_op", "inner", 10, 20), _span("cpu_op", "leaf", 12, 2)]
    blocks = [_memory(ts, 8, 1000 + ts) for ts in (5, 13, 20, 50, 200)]
    assert read([*ops, *blocks]).read("allocation")["name"].to_list() == ["outer", "leaf", "inner", "outer", "unknown"]


def test_memory_of_the_host_is_no_device_block(read: Read) -> None:
    assert read([_memory(1, 512, 7, kind=0), _kernel("k", 1, 1)]).read("allocation").height == 0


# --- about


def test_times_since_1970_need_no_epoch(read: Read) -> None:
    sink = read([_span("cpu_op", "a", 1712867402348256, 1)], baseTimeNanoseconds=5)
    assert sink.read("rank")["epoch_ns"].to_list() == [0]


def test_relative_times_take_the_base_of_the_header(read: Read) -> None:
    sink = read([_span("cpu_op", "a", 12, 1)], baseTimeNanoseconds=1719853884000000000)
    assert sink.read("rank")["epoch_ns"].to_list() == [1719853884000000000]


def test_relative_times_without_a_base_have_no_epoch(read: Read) -> None:
    assert read([_span("cpu_op", "a", 12, 1)]).read("rank")["epoch_ns"].to_list() == [None]


def test_times_with_a_fraction_of_a_microsecond_since_1970_are_exact(read: Read) -> None:
    event = b'{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts": 1712867402348256.123,"dur": 0.001}'
    content = b'{"traceEvents": [' + event + b"]}"
    kernel = read(content).read("kernel")
    assert kernel.select("start_ns", "dur_ns").row(0) == (1712867402348256123, 1)


def test_settings_keep_versions_flags_and_the_job(read: Read) -> None:
    sink = read(ALL_KINDS, with_stack=1, cuda_runtime_version=12040, distributedInfo={"backend": "nccl", "rank": 0})
    rows = set(sink.read("setting").select("source", "name", "value").rows())
    assert {
        ("version", "cuda_runtime_version", "12040"),
        ("profiler", "with_stack", "1"),
        ("job", "backend", "nccl"),
    } <= rows


def test_what_hermes_capture_says_of_the_process_are_settings_of_its_environment(read: Read) -> None:
    about = {"rank": 0, "settings": {"cpu.cores": "4", "torch.num_threads": "16"}}
    rows = set(read(ALL_KINDS, hermes=about).read("setting").select("source", "name", "value").rows())
    assert {("environment", "cpu.cores", "4"), ("environment", "torch.num_threads", "16")} <= rows
    means = {"steps": 9, "step_ns": 8_000, "gc_ns": True, "data_ns": "7", "minor_faults": -1, "fault_ns": 2.5}
    rows = set(
        read(ALL_KINDS, hermes=about | {"before": means}).read("setting").select("source", "name", "value").rows()
    )
    assert {row for row in rows if row[0] == "before the capture"} == {
        ("before the capture", "steps", "9"), ("before the capture", "step_ns", "8000"),
    }  # fmt: skip
    assert not any(
        row[0] == "before the capture"
        for row in read(ALL_KINDS, hermes=about | {"before": [1]}).read("setting").select("source").rows()
    )
    odd = read(ALL_KINDS, hermes=["settings"]).read("setting").select("source", "name").rows()
    assert ("profiler", "hermes") in odd


@pytest.mark.parametrize("call", ["hipLaunchKernel", "cudaLaunchKernel"])
def test_without_properties_the_runtime_tells_the_vendor(read: Read, call: str) -> None:
    sink = read([_launch(1, 1, call), _kernel("k", 2, 1, correlation=1)])
    assert sink.read("rank")["vendor"].to_list() == ["amd" if call.startswith("hip") else "nvidia"]


def test_a_capture_of_unknown_categories_says_so(read: Read) -> None:
    sink = read([_span("cpu_op", "a", 1, 1), _span("mystery", "b", 2, 1)])
    assert any("mystery" in say(note.message) and note.level == "degraded" for note in sink.notes)


def test_every_table_is_written_with_its_rank(read: Read) -> None:
    sink = read(ALL_KINDS)
    for name in TABLES:
        assert set(sink.read(name)["rank"]) <= {3}


@pytest.mark.parametrize("form", ["array", "gzip"])
def test_the_array_form_and_gzip_give_the_same_tables(read: Read, tmp_path: Path, form: str) -> None:
    plain = read(ALL_KINDS).read("kernel")
    content = json.dumps(ALL_KINDS).encode()
    content, name = (content, "b.json") if form == "array" else (gzip.compress(content), "b.json.gz")
    assert read(content, name).read("kernel").equals(plain)


# --- claims


def _claim(tmp_path: Path, name: str, content: bytes | None = None) -> list[Any]:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        json.dumps({"schemaVersion": 1, "traceEvents": ALL_KINDS}).encode() if content is None else content
    )
    return KinetoReader().claim([path])


@pytest.mark.parametrize("name", ["a.json", "b.pt.trace.json", "c.JSON"])
def test_a_trace_is_claimed_whatever_its_name(tmp_path: Path, name: str) -> None:
    assert len(_claim(tmp_path, name)) == 1
    assert len(_claim(tmp_path, f"{name}.gz", gzip.compress(json.dumps(ALL_KINDS).encode()))) == 1


@pytest.mark.parametrize(
    "name",
    ["trace_view.json", "msprof_20250101.json", "communication.json", "profiler_info_0.json", "report.json", "a.txt",
     "x_ascend_pt/ASCEND_PROFILER_OUTPUT/other.json", "PROF_000001_2025/mindstudio_profiler_output/a.json"],
)  # fmt: skip
def test_files_of_other_readers_are_left_alone(tmp_path: Path, name: str) -> None:
    assert _claim(tmp_path, name) == []


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[1, 2]", b'{"a": {"ph": 1}}', b'[{"name": "x"}]', b"\x00\xff", b"\x1f\x8b\x00", gzip.compress(b""),
     b'[{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "Ascend Hardware"}}]', b"[" * 70_000],
    ids=range(10),
)  # fmt: skip
def test_what_is_no_kineto_trace_is_not_claimed(tmp_path: Path, content: bytes) -> None:
    assert _claim(tmp_path, "a.json", content) == []


def test_a_file_that_vanished_is_not_claimed(tmp_path: Path) -> None:
    assert KinetoReader().claim([tmp_path / "gone.json"]) == []


def test_the_rank_stands_in_the_header_behind_megabytes_of_devices(tmp_path: Path) -> None:
    devices = [{"id": number, "name": "GPU", "padding": "x" * 200_000} for number in range(8)]
    content = {
        "schemaVersion": 1,
        "deviceProperties": devices,
        "distributedInfo": {"rank": 11},
        "traceEvents": ALL_KINDS,
    }
    (source,) = _claim(tmp_path, "rank3.json", json.dumps(content).encode())
    assert source.rank == 11


@pytest.mark.parametrize(
    ("name", "rank"),
    [("rank3.json", 3), ("rank-12.json", 12), ("my_rank_7.pt.trace.json", 7),
     ("worker0.1699999999999.pt.trace.json", 0), ("host_rank5.1699999999999.pt.trace.json.gz", 5),
     ("rank4/trace.json", 4), ("frank3.json", None), ("step10.json", None)],
)  # fmt: skip
def test_else_the_name_tells_the_rank(tmp_path: Path, name: str, rank: int | None) -> None:
    content = json.dumps({"traceEvents": ALL_KINDS}).encode()
    (source,) = _claim(tmp_path, name, gzip.compress(content) if name.endswith("gz") else content)
    assert source.rank == rank


@pytest.mark.parametrize("rank", ['"3"', "-1", "true", "1e9", "null", "99999999999999999999"])
def test_a_rank_that_is_none_is_not_believed(tmp_path: Path, rank: str) -> None:
    content = f'{{"distributedInfo": {{"rank": {rank}}}, "traceEvents": []}}'
    (source,) = _claim(tmp_path, "a.json", content.encode())
    assert source.rank is None


@pytest.mark.parametrize(
    ("name", "capture"),
    [("host_123.1699999999999999999.pt.trace.json", "1699999999999999999"), ("step_100_rank3.json", "step_100"),
     ("run5/rank3.json", "run5"), ("some.pt.trace.json", "some")],
)  # fmt: skip
def test_the_capture_is_the_time_the_name_or_the_folder(tmp_path: Path, name: str, capture: str) -> None:
    (source,) = _claim(tmp_path, name)
    assert source.capture == capture


def test_the_host_stands_in_the_name(read: Read) -> None:
    sink = read(ALL_KINDS, "node-7_4711.1699999999999.pt.trace.json")
    assert sink.read("rank")["host"].to_list() == ["node-7"]


def test_of_a_file_and_its_gzip_one_is_claimed(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.json", tmp_path / "a.json.gz"
    content = json.dumps({"traceEvents": ALL_KINDS}).encode()
    plain.write_bytes(content)
    packed.write_bytes(gzip.compress(content))
    assert [source.files for source in KinetoReader().claim([plain, packed])] == [(plain,)]


# --- damage


ODD_VALUES: list[Any] = [None, True, -1, 2**70, 1e300, "x", "", [], {}, [[[]]], {"a": 1}, "\udc80", "NaN", "9" * 400]


@pytest.mark.parametrize("key", ["ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "args"])
def test_odd_values_of_any_key_are_borne(read: Read, key: str) -> None:
    sink = read([*ALL_KINDS, *({**event, key: odd} for event in ALL_KINDS for odd in ODD_VALUES)])
    assert sink.read("kernel").height >= 3


def test_odd_arguments_are_borne(read: Read) -> None:
    spoilt = [
        {**event, "args": dict.fromkeys(event["args"], odd)}
        for event in ALL_KINDS if "args" in event for odd in ODD_VALUES
    ]  # fmt: skip
    sink = read([*ALL_KINDS, *spoilt])
    assert sink.read("kernel").height == 3 + 3 * len(ODD_VALUES)


@pytest.mark.parametrize("odd", ODD_VALUES, ids=range(len(ODD_VALUES)))
def test_an_odd_header_is_borne(read: Read, odd: Any) -> None:
    header = dict.fromkeys(("distributedInfo", "deviceProperties", "baseTimeNanoseconds", "with_stack"), odd)
    assert read(ALL_KINDS, **header).read("kernel").height == 3


@pytest.mark.parametrize("odd", ODD_VALUES, ids=range(len(ODD_VALUES)))
def test_an_odd_list_of_groups_is_borne(read: Read, odd: Any) -> None:
    config = [odd, {"pg_name": odd, "ranks": odd, "pg_size": odd, "pg_desc": odd}]
    assert read(ALL_KINDS, distributedInfo={"pg_config": config, "world_size": odd}).read("kernel").height == 3


def test_a_file_of_metadata_only_is_read_and_said_to_be_empty(read: Read) -> None:
    sink = read([ALL_KINDS[-1]])
    assert sink.read("host_op").height == 0
    assert any(note.level == "degraded" for note in sink.notes)


def test_rows_of_the_host_alone_are_read(read: Read) -> None:
    sink = read([event for event in ALL_KINDS if event.get("cat") == "cpu_op"])
    assert sink.read("host_op").height == 1
    assert sink.read("rank")["vendor"].to_list() == ["cpu"]


@pytest.mark.parametrize("part", [0.4, 0.8])
@pytest.mark.parametrize("packed", [False, True])
def test_half_a_file_gives_half_the_kernels_and_a_note(read: Read, part: float, packed: bool) -> None:
    kernels = [_kernel(f"k{number * 7919 % 1013}", number, 1, correlation=number) for number in range(2_000)]
    content = json.dumps({"schemaVersion": 1, "traceEvents": kernels}).encode()
    content = gzip.compress(content) if packed else content
    sink = read(content[: int(len(content) * part)], "a.json.gz" if packed else "a.json")
    assert 2_000 * part * 0.8 < sink.read("kernel").height < 2_000
    assert any(note.level == "degraded" for note in sink.notes)


def test_a_file_without_a_readable_event_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError):
        _tables_of(tmp_path, b'{"schemaVersion": 1, "traceEvents": [{"ph": "X", "na')


def _tables_of(folder: Path, content: bytes) -> Sink:
    path = folder / "a.json"
    path.write_bytes(content)
    return _tables(path, folder / "out")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damage_to_bytes_escapes_as_anything_but_our_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(json.dumps({"schemaVersion": 1, "traceEvents": ALL_KINDS}).encode())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(30, len(content) - 1))
        patch = data.draw(
            st.sampled_from([b"", b"\x00", b"\xff", b'"', b"{", b"}", b"[", b"]", b"9" * 30, b"null", b"-"])
        )
        content[at : at + data.draw(st.integers(0, 4))] = patch
    folder = tmp_path_factory.mktemp("fuzz")
    path = folder / "a.json"
    path.write_bytes(bytes(content))
    for source in KinetoReader().claim([path]):
        with suppress(HermesError):
            KinetoReader().read(source, 0, Sink(folder / "out", 0))


def test_intervals_of_an_empty_kernel_table_are_empty(read: Read) -> None:
    sink = read(ALL_KINDS[:1])
    assert _flat(sink.read("kernel"), "compute").total == 0
    assert sink.read("kernel")["start_ns"].to_numpy().dtype == np.int64


def _copy(name: str, correlation: int, ts: float = 10) -> Event:
    return _span("gpu_memcpy", name, ts, 2, pid=0, tid=7, device=0, stream=7, correlation=correlation, bytes=704)


def test_a_call_that_copies_to_pageable_memory_is_told_to_wait(read: Read) -> None:
    events = [
        _launch(1, 5, "cudaMemcpyAsync"), _copy("Memcpy DtoH (Device -> Pageable)", 5),
        _launch(2, 6, "cudaMemcpyAsync"), _copy("Memcpy DtoH (Device -> Pinned)", 6),
        _launch(3, 7, "cudaMemcpyAsync"), _copy("Memcpy HtoD (Pageable -> Device)", 7),
    ]  # fmt: skip
    names = read(events).read("host_op").sort("start_ns")["name"].to_list()
    assert [is_blocking(name) for name in names] == [True, False, False]
    assert [host_reason(name) for name in names] == [SYNCHRONISATION, None, None]
    assert names[1:] == ["cudaMemcpyAsync"] * 2


@pytest.mark.parametrize("call", ["cudaGraphLaunch", "hipGraphLaunch", "cuGraphLaunch"])
def test_tasks_that_one_call_launched_as_a_graph_say_so(read: Read, call: str) -> None:
    events = [_launch(1, 5, call), *(_kernel("k", 10 + at, 1, correlation=5) for at in range(3))]
    events += [_launch(20, 6), _kernel("k", 30, 1, correlation=6)]
    assert read(events).read("kernel").sort("start_ns")["task_type"].to_list() == [OF_GRAPH] * 3 + ["kernel"]


@pytest.mark.parametrize(
    ("runtime", "device", "backend", "told"),
    [
        ("mtia_runtime", "mtia_ccp_events", "mtia:hccl,cpu:gloo", ("meta", "MTIA")),
        ("xpu_runtime", "kernel", "xpu:xccl", ("intel", None)),
        ("privateuse1_runtime", "hpu_op", "hpu:hccl", ("habana", "Gaudi")),
        ("privateuse1_runtime", "kernel", "", ("unknown", None)),
    ],
)
def test_a_device_that_is_no_gpu_goes_by_its_name(
    read: Read, runtime: str, device: str, backend: str, told: tuple[str, str | None]
) -> None:
    events = [_span(runtime, "submit", 1, 2, correlation=5), _span(device, "fc", 5, 9, pid=0, tid=4, correlation=5)]
    sink = read(events, distributedInfo={"backend": backend})
    assert sink.read("rank").select("vendor", "chip").rows() == [told]
    assert sink.read("kernel")["component"].to_list() == ["compute"]
    assert not [note for note in sink.notes if note.level == "degraded" and "category" in say(note.message)]


def test_copies_of_mtia_have_a_direction_and_a_size(read: Read) -> None:
    args = {"direction": "DEVICE_TO_HOST", "size": 16}
    sink = read([_span("mtia_ccp_events", "dma_request", 1, 8, pid=9, tid=4, **args)])
    assert sink.read("kernel").select("component", "direction", "bytes").rows() == [("copy", "d2h", 16)]


def test_the_device_of_a_real_mtia_trace_is_read(shared: Path, tmp_path: Path) -> None:
    sink = _tables(shared / "kineto/mtia_single_rank.json.gz", tmp_path / "out")
    kernel = sink.read("kernel")
    assert kernel.height == 25_814
    assert kernel.filter(component="copy").height == 22_361
    assert sink.read("rank")["chip"].to_list() == ["MTIA"]


def test_the_blocking_copies_of_a_real_trace_are_waits(shared: Path, tmp_path: Path) -> None:
    sink = _tables(shared / "kineto/a100_rank0_of_16_blocking_copies.json.gz", tmp_path / "out")
    waits = sink.read("host_op").filter(pl.col("name").str.ends_with(BLOCKS))
    assert (waits.height, waits["dur_ns"].sum()) == (30, 758_396_000)


def test_the_graph_of_a_real_trace_is_seen(shared: Path, tmp_path: Path) -> None:
    sink = _tables(shared / "kineto/mi300_sglang_decode.json.gz", tmp_path / "out")
    kernel = sink.read("kernel")
    assert (kernel.height, kernel.filter(task_type=OF_GRAPH).height) == (558, 544)
