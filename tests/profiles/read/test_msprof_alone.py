"""A folder of the command msprof: no file of a framework's profiler is missed, and no framework's advice is given."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from tests.skips import profiles

from hermes.base.errors import HermesError
from hermes.base.say import say
from hermes.profiles.api import analyze, load
from hermes.profiles.read.ascend.reader import AscendReader
from hermes.profiles.read.table_sink import Sink
from hermes.report.text import render_text
from hermes.store.cache import Cache
from hermes.store.input_files import walk

HEAD = "Device_id,Model ID,Task ID,Stream ID,Op Name,OP Type,OP State,Task Type,Task Start Time(us),Task Duration(us)"
SUMMARY = f"""
{HEAD},Task Wait Time(us),Block Dim,Mix Block Dim,HF32 Eligible,Input Shapes,Input Data Types,Input Formats
0,4294967295,1,2,aclnnCast_CastAiCore_Cast,Cast,dynamic,AI_VECTOR_CORE,"1700000000000000.000\t",40.0,0,40,0,NO,"8,8",FLOAT,ND
0,4294967295,2,2,MatMulV21,MatMulV2,dynamic,AI_CORE,"1700000000000400.000\t",100.0,360,20,0,NO,"8,8;8,8",FLOAT16;FLOAT16,ND;ND
0,4294967295,3,2,aclnnCast_CastAiCore_Cast,Cast,dynamic,AI_VECTOR_CORE,"1700000000000900.000\t",60.0,400,40,0,NO,"8,8",FLOAT,ND
"""
OF_FRAMEWORKS = ("torch", "mindspore", "profiler_info", "trace_view", "kernel_details", "_ascend_pt")


def msprof(folder: Path, **files: str) -> Path:
    """A folder as the command msprof leaves it, with these files of its export."""
    out = folder / "PROF_000001_20251104120000000_ABCDEFGH" / "mindstudio_profiler_output"
    out.mkdir(parents=True)
    for name, text in files.items():
        (out / f"{name}_20251104120001.csv").write_text(text.strip() + "\n", "utf-8")
    return folder


def read(folder: Path, out: Path) -> Sink:
    """The tables of the only capture in a folder."""
    reader = AscendReader()
    (source,) = reader.claim(walk([folder]))
    sink = Sink(out, 0)
    reader.read(source, 0, sink)
    sink.fill()
    return sink


def test_files_that_msprof_never_writes_are_not_missed(tmp_path: Path) -> None:
    sink = read(msprof(tmp_path / "in", op_summary=SUMMARY), tmp_path / "out")
    (note,) = sink.notes
    assert (say(note.message), "mindstudio_profiler_output" in say(note.hint)) == ("msprof_*.json is missing", True)
    assert not any(name in f"{say(note.message)} {say(note.hint)} {say(note.lost)}" for name in OF_FRAMEWORKS)
    assert sink.read("rank")["framework"].to_list() == [None]


def test_msprof_gets_no_advice_of_a_framework(tmp_path: Path) -> None:
    report = analyze(load([msprof(tmp_path / "in", op_summary=SUMMARY)], Cache(tmp_path / "cache")))
    said = [say(action.title) + say(action.do) for one in report.findings for action in one.actions]
    said += [one.after + one.before for one in report.plan.actions]
    assert not [text for text in said if "torch" in text or "indSpore" in text]


@pytest.mark.parametrize(
    ("name", "info", "framework"),
    [
        ("h_1_20251104120000000_ascend_pt", "{}", "pytorch"),
        ("h_1_20251104120000000_ascend_ms", "{}", "mindspore"),
        ("renamed", '{"ms_profiler_info": {"rank_id": 0}}', "mindspore"),
        ("renamed", '{"config": {"common_config": {}}}', "pytorch"),
        ("renamed", "{}", None),
    ],
)
def test_the_profiler_is_told_by_its_folder_or_its_info(
    tmp_path: Path, name: str, info: str, framework: str | None
) -> None:
    out = tmp_path / name / "ASCEND_PROFILER_OUTPUT"
    out.mkdir(parents=True)
    (out / "kernel_details.csv").write_text(
        "Name,Type,Accelerator Core,Start Time(us),Duration(us)\na,Add,AI_CORE,1.0,2.0\n"
    )
    (out.parent / "profiler_info_0.json").write_text(info, "utf-8")
    assert read(tmp_path, tmp_path / "tables").read("rank")["framework"].to_list() == [framework]


OP_STATISTIC = """
Device_id,OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)
0,MatMulV2,AI_CORE,30,600.5,1,20,50,60.05
0,Cast,AI_VECTOR_CORE,40,300.0,1,7.5,20,30
0,hcom_allReduce_,HCCL,2,99.5,40,49.75,60,9.95
"""
# The first versions of CANN name the model, and no device.
OLD_OP_STATISTIC = OP_STATISTIC.replace("Device_id,", "Model Name,").replace("\n0,", "\nnet,")
API_STATISTIC = """
Device_id,Level,API Name,Time(us),Count,Avg(us),Min(us),Max(us),Variance
host,acl,aclrtProcessReport,90000.0,3,30000,1,80000,5
host,acl,aclrtSynchronizeStream,5000.0,2,2500,1,4000,5
host,acl,aclopCompileAndExecute,2000.0,30,66.6,20,300,5
host,runtime,KernelLaunch,1500.0,70,21.4,2,30,5
"""
COMMUNICATION_STATISTIC = """
Device_id,OP Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)
0,hcom_allReduce_,2,200.0,40,100,160,80
0,hcom_broadcast_,1,50.0,50,50,50,20
"""
OPERATOR_DETAILS = """
Name,Input Shapes,Call Stack,Host Self Duration(us),Host Total Duration(us),Device Self Duration(us)
aten::mm,"8,8;8,8","train.py(3): <module>;",40.0,50.0,700.0
aten::mm,"9,9;9,9","train.py(3): <module>;",40.0,50.0,100.0
aten::_local_scalar_dense,,"train.py(4): <module>;",900.0,900.0,0
"""


def said(folder: Path, cache: Path) -> tuple[str, str]:
    """What a report says of a folder: its verdict, and all that the terminal shows."""
    report = analyze(load([folder], Cache(cache)))
    console = Console(file=io.StringIO(), width=100)
    render_text(report, console)
    return say(report.verdict.message), console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("operators", [OP_STATISTIC, OLD_OP_STATISTIC])
def test_sums_alone_are_said_as_sums(tmp_path: Path, operators: str) -> None:
    folder = msprof(tmp_path / "in", op_statistic=operators, api_statistic=API_STATISTIC)
    verdict, screen = said(folder, tmp_path / "cache")
    assert verdict == (
        "Only sums were recorded, without a timeline: what bounds the step cannot be said. The device works for 1.00 "
        "ms in sum: 60% matrix products (MatMulV2), 30% copies and changes of layout (Cast) and 10% communication, "
        "waiting included (hcom_allReduce_). The longest calls of the host, without those that wait: "
        "aclopCompileAndExecute 2.00 ms and KernelLaunch 1.50 ms. To know it, give the timeline too: msprof_*.json, "
        "op_summary_*.csv (msprof --export=on --output=PROF_… writes them again)"
    )
    assert "MatMulV2  AI_CORE" in screen
    assert not [word for word in ("is idle", "step_trace_time", "of the step", "prof.step") if word in screen]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("op_statistic", OP_STATISTIC, "The device works for 1.00 ms in sum: 60% matrix products"),
        (
            "api_statistic",
            API_STATISTIC,
            "The longest calls of the host, without those that wait: aclopCompileAndExecute",
        ),
        ("communication_statistic", COMMUNICATION_STATISTIC, "The device works for 250 us in sum: 100% communication"),
    ],
)
def test_one_file_of_sums_is_enough(tmp_path: Path, name: str, text: str, words: str) -> None:
    verdict, _ = said(msprof(tmp_path / "in", **{name: text}), tmp_path / "cache")
    assert words in verdict
    assert ("The device works" in verdict) != ("calls of the host" in verdict)


def test_beside_tasks_of_the_device_the_host_has_sums(tmp_path: Path) -> None:
    folder = msprof(tmp_path / "in", op_summary=SUMMARY, op_statistic=OP_STATISTIC, api_statistic=API_STATISTIC)
    verdict, screen = said(folder, tmp_path / "cache")
    assert "79% of the capture" in verdict
    assert verdict.endswith(
        "record it too (msprof --ascendcl=on --runtime-api=on --task-time=on). The longest calls of the host, without "
        "those that wait: aclopCompileAndExecute 2.00 ms and KernelLaunch 1.50 ms"
    )
    assert "Where the time goes" in screen


def test_operators_without_a_timeline_are_sums_too(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "operator_details.csv").write_text(OPERATOR_DETAILS.strip() + "\n", "utf-8")
    verdict, screen = said(folder, tmp_path / "cache")
    assert "The device works for 800 us in sum: 100% matrix products (aten::mm)" in verdict
    assert "without those that wait: aten::mm 80.0 us." in verdict
    assert "aten::_local_scalar_dense" in screen


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no header line"),
        ("OP Type,Core Type\n", "columns of no known table"),
        (OP_STATISTIC.split("\n")[1], "only a header"),
    ],
)
def test_sums_that_hold_nothing_are_refused(tmp_path: Path, text: str, why: str) -> None:
    folder = msprof(tmp_path / "in", op_statistic=text)
    with pytest.raises(HermesError) as refused:
        load([folder], Cache(tmp_path / "cache"))
    assert "op_statistic_20251104120001.csv" in str(refused.value.where)
    assert why in say(refused.value.what)
    assert say(refused.value.hint)


def test_sums_that_are_cut_off_say_so(tmp_path: Path) -> None:
    folder = msprof(tmp_path / "in", op_statistic=OP_STATISTIC.strip()[:-30])
    _, screen = said(folder, tmp_path / "cache")
    assert "1 row" in screen


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("h5_a3", ("Only sums", "matrix products", "aclopCompileAndExecute", "msprof_*.json")),
        ("h5_a2", ("83%", "not recorded", "msprof --ascendcl=on")),
    ],
)
def test_what_an_expert_says_of_real_msprof_folders(tmp_path: Path, case: str, words: tuple[str, ...]) -> None:
    verdict, screen = said(profiles() / "hunt" / case, tmp_path)
    assert [word for word in words if word not in verdict] == []
    assert "ProcessReport" not in verdict
    assert not [name for name in (*OF_FRAMEWORKS, "Python", "hermes profile") if name in screen]
