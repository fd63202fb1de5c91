"""Text of a profile that is meant to do harm, or was written by another program: encodings, escapes, markup."""

from __future__ import annotations

import csv
import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

KERNELS = "kernel_details.csv"
TRACE = "trace_view.json"
HOSTILE = "\x1b[2J\x1b]0;owned\x07a\rb\nc\x00d\u202egnp.exe\u2066\u009b31m<script>alert(1)</script>&\"'{{7*7}}"


def rename_kernels(form: str, folder: Path, one: Any) -> None:
    """Give the operator that takes most time the hostile name."""
    if form == "kineto":
        path = one(folder, "*.pt.trace.json")
        value = json.loads(path.read_text())
        for event in value["traceEvents"]:
            if event.get("name") == "aten::mm" or event.get("cat") == "gpu_memcpy":
                event["name"] = HOSTILE
        path.write_text(json.dumps(value))
        return
    path = one(folder, KERNELS)
    with path.open(newline="") as text:
        rows = list(csv.DictReader(text))
    longest = max(
        (row for row in rows if row["Accelerator Core"] != "HCCL"), key=lambda row: float(row["Duration(us)"])
    )["Type"]
    for row in rows:
        if row["Type"] == longest:
            row["Type"] = HOSTILE.replace("\x00", "")
    with path.open("w", newline="") as text:
        made = csv.DictWriter(text, list(rows[0]))
        made.writeheader()
        made.writerows(rows)


@pytest.mark.parametrize("form", ["text", "kineto"])
def test_names_of_kernels_steer_neither_the_terminal_nor_the_browser(
    form: str, profile: Any, one: Any, hermes: Any, tmp_path: Path
) -> None:
    folder = profile(form)
    rename_kernels(form, folder, one)
    shown = hermes("analyze", "--full", folder, "-o", tmp_path / "out")
    assert shown.code == 0
    assert "alert(1)" in shown.out
    harmful = {c for c in shown.out if c != "\n" and unicodedata.category(c) in {"Cc", "Cf", "Cs"}}
    assert harmful == set()
    html = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "<script>alert(1)" not in html
    assert "alert(1)" in html
    document = json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))
    assert any("alert(1)" in row["name"] for row in document["top"]["kernels"])
    assert "\x1b" not in (tmp_path / "out" / "report.json").read_text("utf-8")
    listed = hermes("sql", folder, "select name, type from kernel where contains(coalesce(type, '') || name, 'alert')")
    assert "\x1b" not in listed.out
    assert "alert(1)" in listed.out


def test_a_folder_whose_name_is_an_escape_sequence_leaves_the_terminal_alone(
    profile: Any, hermes: Any, tmp_path: Path
) -> None:
    folder = profile("text")
    next(folder.rglob(TRACE)).write_bytes(b"")
    evil = folder.rename(tmp_path / "\x1b[31mred\u202e")
    for ended in (hermes("analyze", evil), hermes("analyze", evil / "nowhere")):
        assert not {"\x1b", "\u202e"} & set(ended.out + ended.err)


def crlf(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def bom(data: bytes) -> bytes:
    return b"\xef\xbb\xbf" + data


def utf_16(data: bytes) -> bytes:
    return data.decode().encode("utf-16")


def in_object(data: bytes) -> bytes:
    return b'{"schemaVersion": 1, "traceEvents": ' + data + b"}"


@pytest.mark.parametrize(
    ("form", "file", "change"),
    [
        ("text", "*.csv", crlf),
        ("text", "*.csv", bom),
        ("text", "*.csv", utf_16),
        ("text", TRACE, bom),
        ("text", TRACE, crlf),
        ("text", TRACE, in_object),
        ("text", "profiler_info_0.json", bom),
        ("kineto", "*.pt.trace.json", bom),
        ("kineto", "*.pt.trace.json", crlf),
    ],
)
def test_another_way_to_write_the_same_is_read_the_same(
    form: str, file: str, change: Callable[[bytes], bytes], profile: Any, hermes: Any, healthy: Any
) -> None:
    folder = profile(form)
    for path in folder.rglob(file):
        path.write_bytes(change(path.read_bytes()))
    ended = hermes("analyze", "--strict", "--format", "json", folder)
    document = ended.document()
    assert ended.code == 0, document["diagnostics"]
    for part in ("steps", "totals", "step_trace_time", "top"):
        assert document[part] == healthy[form][part]


@pytest.mark.parametrize(("form", "file"), [("text", TRACE), ("kineto", "*.pt.trace.json")])
def test_a_trace_in_utf_16_is_refused_or_marked(form: str, file: str, profile: Any, one: Any, hermes: Any) -> None:
    folder = profile(form)
    path = one(folder, file)
    path.write_bytes(utf_16(path.read_bytes()))
    ended = hermes("analyze", "--strict", "--full", folder)
    assert ended.code == (3 if form == "text" else 2)
    assert path.name in ended.said()
    assert "UTF-16" in ended.out + ended.err
