"""A folder of the command msprof: no file of a framework's profiler is missed, and no framework's advice is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.base.say import say
from hermes.profiles.api import analyze, load
from hermes.profiles.read.ascend.reader import AscendReader
from hermes.profiles.read.table_sink import Sink
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
