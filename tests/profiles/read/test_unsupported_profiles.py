"""Profiles of other programs: named, with what to do, and never taken for a broken trace of PyTorch."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path

import pytest

from hermes.base.errors import HermesError, InputError
from hermes.base.say import say
from hermes.profiles.load import load
from hermes.profiles.read.discover import discover
from hermes.profiles.read.unsupported_profiles import notes, unsupported_files
from hermes.store.cache import Cache

JAX = {
    "displayTimeUnit": "ns", "metadata": {"highres-ticks": True},
    "traceEvents": [{"ph": "X", "pid": 1, "tid": 2, "ts": 1.5, "dur": 3.2, "name": "fusion.12"}],
}  # fmt: skip
ROCPROF = {"traceEvents": [{}, {"ph": "X", "name": "hipMalloc", "ts": "1", "dur": "3", "args": {"BeginNs": "1"}}]}
VIZ = {"traceEvents": [{"ph": "X", "name": "f", "cat": "FEE", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]}
TIMELINE = [{"name": "process_name", "pid": 1, "ph": "M", "args": {"name": "Ascend Hardware"}}]
FILES: list[tuple[str, object, str]] = [
    ("plugins/profile/now/host.trace.json.gz", JAX, "JAX"),
    ("now/host.xplane.pb", b"\n", "JAX"),
    ("results.json", ROCPROF, "rocprof"),
    ("results.csv", b'"Index","KernelName","gpu-id"\n', "rocprof"),
    ("4711_kernel_trace.csv", b'"Kind","Agent_Id"\n', "rocprof"),
    ("report1.nsys-rep", b"x", "Nsight Systems"),
    ("kernel.ncu-rep", b"x", "Nsight Compute"),
    ("ascend_timeline_display_0.json", [], "MindSpore 1.x"),
    ("step_trace_raw_0_detail_time.csv", b"step_num\n", "MindSpore 1.x"),
    ("PROF_000001_2024_ABC/timeline/msprof_0_1.json", TIMELINE, "older msprof"),
    ("result.json", VIZ, "VizTracer"),
    ("et_0.json", {"schema": "1.1.1-chakra.0.0.4", "nodes": []}, "execution trace"),
    ("snapshot.pickle", b"\x80", "allocator"),
]


def written(folder: Path, name: str, content: object) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize(("name", "content", "said"), FILES, ids=[name for name, _, _ in FILES])
def test_the_format_is_named_with_what_to_do(name: str, content: object, said: str, tmp_path: Path) -> None:
    path = written(tmp_path, name, content)
    with pytest.raises(InputError, match=said) as refused:
        discover([path])
    assert refused.value.hint
    assert "killed" not in f"{say(refused.value.what)} {say(refused.value.hint)}"


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("CUPTI_ACTIVITY_KIND_KERNEL", "Nsight Systems"), ("rocpd_op", "rocprof"),
        ("rocpd_kernel_dispatch_0001", "rocprofv3"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["report1.sqlite", "results.db"])
def test_a_database_is_known_by_its_tables(table: str, said: str, name: str, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / name) as base:
        base.execute(f"CREATE TABLE {table} (start INT)")
    base.close()
    with pytest.raises(InputError, match=said):
        discover([tmp_path / name])


def test_a_trace_of_a_program_that_nobody_knows_is_not_called_cut_off(tmp_path: Path) -> None:
    path = written(tmp_path, "trace.json", {"traceEvents": [{**VIZ["traceEvents"][0], "cat": "mine"}]})
    with pytest.raises(HermesError, match="but not of PyTorch") as refused:
        load([path], Cache(tmp_path / "cache"))
    assert "mine" in say(refused.value.what)


def test_foreign_files_beside_a_profile_are_named_once_a_format(tmp_path: Path) -> None:
    paths = [written(tmp_path, name, b"x") for name in ("a.nsys-rep", "b.nsys-rep", "c.txt")]
    (note,) = notes(paths)
    assert (note.level, say(note.message)) == ("info", "2 files were not read: a report of NVIDIA Nsight Systems")


def test_files_that_are_none_are_not_named(tmp_path: Path) -> None:
    names = ("a.json", "b.csv", "c.db", "d.txt", "kernel_details.csv")
    assert not unsupported_files([written(tmp_path, name, b"{}") for name in names])
