"""Small inputs that require much work: each function writes one kind of input into a folder and returns its path."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import os
import tarfile
from pathlib import Path
from typing import Any

_SPARSE_BYTES = 12 << 30


def trace(path: Path, threads: int = 1, each: int = 40) -> Path:
    """A Kineto trace in which each of `threads` threads has `each` operators."""
    events: list[dict[str, Any]] = [
        {"ph": "X", "cat": "cpu_op", "name": f"aten::op{number % 7}", "pid": 1, "tid": 100 + thread,
         "ts": 1_000_000 + 50 * number + thread, "dur": 20, "args": {"External id": number * threads + thread}}
        for number in range(each) for thread in range(threads)
    ]  # fmt: skip
    events += [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 100,
         "ts": 1_000_000 + step * each * 25, "dur": each * 25, "args": {}}
        for step in range(2)
    ]  # fmt: skip
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


def a_thousand_threads(folder: Path) -> Path:
    """A trace of a thousand threads with one event each."""
    return trace(folder / "host_1.1700000000000000000.pt.trace.json", threads=1000, each=1)


def a_thousand_processes(folder: Path) -> Path:
    """A trace of a thousand processes with one event each."""
    path = trace(folder / "host_1.1700000000000000000.pt.trace.json", threads=1000, each=1)
    whole = json.loads(path.read_text())
    for number, event in enumerate(whole["traceEvents"]):
        event["pid"] = number
    path.write_text(json.dumps(whole))
    return path


def sparse_members(folder: Path) -> Path:
    """An archive with the map of a sparse file in its data, as PAX writes it: millions of numbers in a few packed
    bytes."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        member = tarfile.TarInfo("rank0.pt.trace.json")
        member.pax_headers = {
            "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "rank0.pt.trace.json",
            "GNU.sparse.realsize": "1",
        }  # fmt: skip
        count = 10_000_000
        data = f"{count}\n".encode() + b"0\n" * (2 * count)
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    (folder / "sparse.tar.gz").write_bytes(gzip.compress(plain.getvalue(), compresslevel=6))
    return folder / "sparse.tar.gz"


def many_deep_folders(folder: Path) -> Path:
    """An archive of empty files, each many folders deep."""
    path = folder / "deep.tar.gz"
    with gzip.open(path, "wb", compresslevel=1) as packed, tarfile.open(fileobj=packed, mode="w|") as archive:
        for number in range(20_000):
            archive.addfile(tarfile.TarInfo(f"{number}/" + "d/" * 20 + "x"), io.BytesIO())
    return path


def sparse_trace(folder: Path) -> Path:
    """A sparse trace of gigabytes that takes little room on the disk."""
    path = trace(folder / "rank0.pt.trace.json")
    os.truncate(path, _SPARSE_BYTES)
    return path


def sparse_recording(folder: Path) -> Path:
    """A recording whose index is longer than any disk."""
    (folder / "rank0").mkdir()
    path = folder / "rank0" / "index.jsonl"
    path.write_text(json.dumps({"format": 1, "rank": 0}) + "\n")
    os.truncate(path, _SPARSE_BYTES)
    return folder


def sparse_dump(folder: Path) -> Path:
    """A dump of msprobe whose file of call stacks is longer than any disk."""
    here = folder / "step0" / "rank0"
    here.mkdir(parents=True)
    (here / "dump.json").write_text(json.dumps({"task": "statistics", "level": "L1", "data": _DUMPED}))
    (here / "stack.json").write_text("{}")
    os.truncate(here / "stack.json", _SPARSE_BYTES)
    return folder


_DUMPED = {
    "Torch.mul.0.forward": {
        "input_args": [], "input_kwargs": {},
        "output": [
            {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [1], "Max": 1.0, "Min": 1.0, "Mean": 1.0,
             "Norm": 1.0, "requires_grad": False}
        ],
    }
}  # fmt: skip


def link_to_proc(folder: Path) -> Path:
    """A trace beside a link to all processes of the machine."""
    trace(folder / "rank0.pt.trace.json")
    (folder / "more").symlink_to("/proc")
    return folder


def diamonds(folder: Path) -> Path:
    """Folders with several links each to the next folder: there are millions of paths to the last one."""
    floors = [folder / f"floor{number}" for number in range(12)]
    for floor in floors:
        floor.mkdir()
    for floor, below in itertools.pairwise(floors):
        for number in range(4):
            (floor / f"way{number}").symlink_to(below)
    trace(floors[-1] / "rank0.pt.trace.json")
    return floors[0]
