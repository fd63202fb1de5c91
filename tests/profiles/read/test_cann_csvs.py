"""The CSV files of CANN's own export: tasks, iterations of a graph, fused operators, memory, marks, counters."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.base.say import say
from hermes.profiles.read.ascend.reader import AscendReader
from hermes.profiles.read.table_sink import Sink
from hermes.store.input_files import walk

TASK_TIME = """
Device_id,kernel_name,kernel_type,stream_id,task_id,task_time(us),task_start(us),task_stop(us)
0,MatMulV2_1,KERNEL_AICORE,3,7,100.5,"1700000000000000.250\t","1700000000000100.750\t"
0,memcpy,MEMCPY_ASYNC,3,8,20,"1700000000000110.000\t","1700000000000130.000\t"
0,EVENT_RECORD,EVENT_RECORD,3,9,0.02,"1700000000000131.000\t","1700000000000131.020\t"
"""
STEP_TRACE = """
Device_id,Iteration ID,FP Start(us),BP End(us),Iteration End(us),Iteration Time(us),Data Aug Bound(us),Model ID
0,1,N/A,N/A,1700000000000105.0,105.0,N/A,4
0,2,N/A,N/A,1700000000000140.0,35.0,N/A,4
0,1,N/A,N/A,1700000000000002.0,1.0,N/A,9
"""
FUSION_OP = """
Device_id,Model Name,Model ID,Fusion Op,Original Ops,Memory Input(KB),Memory Output(KB),Memory Total(KB)
0,net,4,conv1conv1_relu,conv1;bn1;relu1,8,4,14
"""
NPU_MEM = """
Device_id,event,ddr(KB),hbm(KB),memory(KB),timestamp(us)
0,app,1,1024,1025,1700000000000001.5
0,device,0,2048,2048,1700000000000001.5
"""
MSPROF_TX = """
Device_id,pid,tid,category,event_type,payload_type,payload_value,Start_time(us),End_time(us),message_type,message,domain
0,5,6,0,start/end,0,0,1700000000000010.0,1700000000000090.0,0,forward,default
0,5,6,0,marker,0,0,1700000000000095.0,1700000000000095.0,0,loss,training
"""
OS_RUNTIME = """
Process ID,Thread ID,Name,Time(%),Time(us),Count,Avg(us),Max(us),Min(us)
5,6,pthread_cond_wait,90,900.5,3,300.1,400,200
"""
AICPU_MI = """
Node Name,Start Time(us),End Time(us),Queue Size
GetNext_dequeue_wait,10.0,15.5,8
GetNext_dequeue_wait,20.0,21.0,4
"""
DP = "Timestamp(us),Action,Source,Cached Buffer Size\n1700000000000001.0,Last queue dequeue,queue_1,7"
HBM = "Device_id,Metric,Read(MB/s),Write(MB/s)\n0,Average,1200.5,800\n0,0,600,400"
HOST_CPU = "Total Cpu Numbers,Occupied Cpu Numbers,Recommend Cpu Numbers\n192,64,32"


def _read(folder: Path, **files: str) -> Sink:
    out = folder / "PROF_000001_20251104120000000_ABCDEFGHIJKLMNOP" / "mindstudio_profiler_output"
    out.mkdir(parents=True)
    for name, text in files.items():
        (out / f"{name}_20251104120001.csv").write_text(text.strip() + "\n", "utf-8")
    reader = AscendReader()
    (source,) = reader.claim(walk([folder]))
    sink = Sink(folder / "tables", 0)
    reader.read(source, 0, sink)
    sink.fill()
    return sink


def test_tasks_alone_give_kernels_copies_and_events_to_the_nanosecond(tmp_path: Path) -> None:
    kernels = _read(tmp_path, task_time=TASK_TIME).read("kernel")
    assert kernels.select("name", "component", "unit", "stream", "task_id", "start_ns", "dur_ns").rows() == [
        ("MatMulV2_1", "compute", "cube", 3, 7, 1_700_000_000_000_000_250, 100_500),
        ("memcpy", "copy", "copy", 3, 8, 1_700_000_000_000_110_000, 20_000),
        ("EVENT_RECORD", "other", "event", 3, 9, 1_700_000_000_000_131_000, 20),
    ]


def test_iterations_of_the_larger_graph_are_the_steps_and_hold_the_tasks(tmp_path: Path) -> None:
    sink = _read(tmp_path, task_time=TASK_TIME, step_trace=STEP_TRACE)
    assert sink.read("step").select("step", "start_ns", "dur_ns", "name").rows() == [
        (1, 1_700_000_000_000_000_000, 105_000, "Iteration 1"),
        (2, 1_700_000_000_000_105_000, 35_000, "Iteration 2"),
    ]
    assert sink.read("kernel")["step"].to_list() == [1, 2, 2]


def test_a_fused_operator_tells_how_many_it_is_made_of(tmp_path: Path) -> None:
    rows = _read(tmp_path, task_time=TASK_TIME, fusion_op=FUSION_OP).read("statistic")
    assert rows.select("source", "name", "level", "count", "value", "unit").rows() == [
        ("fusion_op", "conv1conv1_relu", "conv1;bn1;relu1", 3, 14.0, "KB")
    ]


def test_what_application_and_device_hold_is_memory(tmp_path: Path) -> None:
    rows = _read(tmp_path, task_time=TASK_TIME, npu_mem=NPU_MEM).read("memory")
    assert rows.select("component", "ts_ns", "reserved_bytes").rows() == [
        ("APP", 1_700_000_000_000_001_500, 1025 * 1024),
        ("Device", 1_700_000_000_000_001_500, 2048 * 1024),
    ]


def test_ranges_and_marks_without_a_trace_are_calls(tmp_path: Path) -> None:
    rows = _read(tmp_path, task_time=TASK_TIME, step_trace=STEP_TRACE, msprof_tx=MSPROF_TX).read("host_op")
    assert rows.select("kind", "name", "tid", "dur_ns", "step", "domain").rows() == [
        ("mark", "forward", 6, 80_000, 1, None),
        ("mark", "loss", 6, 0, 1, "training"),
    ]


@pytest.mark.parametrize(
    ("name", "text", "row"),
    [
        ("os_runtime_statistic", OS_RUNTIME, ("os_runtime", "pthread_cond_wait", "thread 6", 3, 900_500, None, None)),
        ("aicpu_mi", AICPU_MI, ("aicpu_mi", "GetNext_dequeue_wait", None, 2, 6_500, 6.0, "queue size")),
        ("hbm", HBM, ("hbm", "Average", "read", None, None, 1200.5, "MB/s")),
        ("host_cpu_usage", HOST_CPU, ("host_cpu_usage", "all", "occupied cpu numbers", None, None, 64.0, "as written")),
    ],
)
def test_summaries_are_statistics(tmp_path: Path, name: str, text: str, row: tuple[object, ...]) -> None:
    rows = _read(tmp_path, task_time=TASK_TIME, **{name: text}).read("statistic")
    assert row in rows.select("source", "name", "level", "count", "total_ns", "value", "unit").rows()


def test_samples_of_the_input_queue_are_a_counter(tmp_path: Path) -> None:
    rows = _read(tmp_path, task_time=TASK_TIME, dp=DP).read("counter")
    assert rows.select("source", "name", "series", "ts_ns", "value").rows() == [
        ("dp", "Last queue dequeue queue_1", "Cached Buffer Size", 1_700_000_000_000_001_000, 7.0)
    ]


def test_no_file_is_called_degraded(tmp_path: Path) -> None:
    sink = _read(tmp_path, task_time=TASK_TIME, hbm=HBM, dp=DP, npu_mem=NPU_MEM, fusion_op=FUSION_OP)
    assert not [say(note.message) for note in sink.notes if "column" in say(note.message)]
