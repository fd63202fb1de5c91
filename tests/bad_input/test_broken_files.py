"""Every way a file of a profile breaks: the report is marked, names the file, and keeps what can be kept."""

from __future__ import annotations

import gzip
import json
import os
import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

Harm = Callable[[Path], None]
Check = Callable[[dict[str, Any], dict[str, Any]], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One fault: in which forms, which file it strikes and how, and what of the numbers must be as in the whole."""

    name: str
    forms: tuple[str, ...]
    file: str
    harm: Harm
    named: str = ""
    same: tuple[str, ...] = ()
    fatal: tuple[str, ...] = field(default=())
    says: str = ""


def content(change: Callable[[bytes], bytes]) -> Harm:
    return lambda path: path.write_bytes(change(path.read_bytes())) and None


def half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def header_only(path: Path) -> None:
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])


def without_column(name: str) -> Harm:
    def harm(path: Path) -> None:
        import csv

        with path.open(newline="") as text:
            rows = list(csv.reader(text))
        place = rows[0].index(name)
        with path.open("w", newline="") as text:
            csv.writer(text).writerows(row[:place] + row[place + 1 :] for row in rows)

    return harm


def renamed(old: str, new: str) -> Harm:
    return content(lambda data: data.replace(old.encode(), new.encode(), 1))


def events(change: Callable[[list[dict[str, Any]]], Any]) -> Harm:
    def harm(path: Path) -> None:
        value = json.loads(path.read_text())
        listed = value if isinstance(value, list) else value["traceEvents"]
        made = change(listed)
        if made is not None:
            listed[:] = made
        path.write_text(json.dumps(value))

    return harm


def sql(*statements: str) -> Harm:
    def harm(path: Path) -> None:
        con = sqlite3.connect(path, isolation_level=None)
        for statement in statements:
            con.execute(statement)
        con.close()

    return harm


def damaged_page(path: Path) -> None:
    """Overwrite the pages of the table TASK."""
    con = sqlite3.connect(path)
    size = con.execute("PRAGMA page_size").fetchone()[0]
    (root,) = con.execute("SELECT rootpage FROM sqlite_master WHERE name = 'TASK'").fetchone()
    con.close()
    with path.open("r+b") as raw:
        raw.seek((root - 1) * size)
        raw.write(b"\xa5" * size)


def nested(opening: bytes, closing: bytes) -> bytes:
    return opening * 100_000 + closing * 100_000


def is_step(event: dict[str, Any]) -> bool:
    return str(event.get("name")).startswith("ProfilerStep#")


def is_x(event: dict[str, Any]) -> bool:
    return event.get("ph") == "X" and not is_step(event)


def set_first(key: str, value: object, fits: Callable[[dict[str, Any]], bool] = is_x) -> Harm:
    """Set one key of the third fitting event."""

    def change(listed: list[dict[str, Any]]) -> None:
        [event for event in listed if fits(event)][2][key] = value

    return events(change)


def is_device(event: dict[str, Any]) -> bool:
    return is_x(event) and ("Task Type" in event.get("args", {}) or event.get("cat") == "kernel")


KEPT = ("steps", "totals")
TRACES = ("text", "merged")
TRACE = "trace_view.json"
KERNELS = "kernel_details.csv"
DB = "ascend_pytorch_profiler_0.db"
KINETO = "*.pt.trace.json"
DEEP = (
    b'[{"ph":"X","name":"a","ts":"1.0","dur":1,"pid":1,"tid":1,"args":'
    + nested(b'{"a":', b"}").replace(b":}", b":1}", 1)
    + b"}]"
)

CASES = (
    Case(name="half a trace", forms=TRACES, file=TRACE, harm=half, says="cutoff"),
    Case(name="an empty trace", forms=TRACES, file=TRACE, harm=empty),
    Case(name="a trace that is no JSON", forms=("merged",), file=TRACE, harm=content(lambda data: b"hello " * 99)),
    Case(name="no trace", forms=("text",), file=TRACE, harm=os.unlink, named=TRACE),
    Case(name="half a trace", forms=("kineto",), file=KINETO, harm=half, says="cutoff"),
    Case(name="an empty trace", forms=("kineto",), file=KINETO, harm=empty, fatal=("kineto",)),
    Case(
        name="a trace that is no JSON",
        forms=("kineto",),
        file=KINETO,
        harm=content(lambda data: b"hello " * 99),
        fatal=("kineto",),
    ),
    Case(name="half a CSV", forms=TRACES, file=KERNELS, harm=half, same=KEPT),
    Case(name="a CSV with only a header", forms=TRACES, file=KERNELS, harm=header_only, same=KEPT),
    Case(name="an empty CSV", forms=("text",), file=KERNELS, harm=empty, same=KEPT),
    Case(
        name="a CSV of nothing but zeros",
        forms=("text",),
        file=KERNELS,
        harm=content(lambda data: bytes(4096)),
        same=KEPT,
    ),
    Case(name="half a CSV of sums", forms=("text",), file="step_trace_time.csv", harm=half, same=KEPT),
    Case(name="no start column", forms=("text",), file=KERNELS, harm=without_column("Start Time(us)"), same=KEPT),
    Case(name="no duration column", forms=("text",), file=KERNELS, harm=without_column("Duration(us)"), same=KEPT),
    Case(name="no name column", forms=("text",), file=KERNELS, harm=without_column("Name"), same=KEPT),
    Case(name="no type column", forms=("text",), file=KERNELS, harm=without_column("Type"), same=KEPT),
    Case(
        name="a renamed start column", forms=("text",), file=KERNELS, harm=renamed("Start Time(us)", "Begin"), same=KEPT
    ),
    Case(
        name="a renamed column of sums",
        forms=("text",),
        file="op_statistic.csv",
        harm=renamed("OP Type", "Kind"),
        same=KEPT,
    ),
    Case(
        name="a name that is no UTF-8",
        forms=("text",),
        file=KERNELS,
        harm=content(lambda data: data.replace(b"aclnn", b"\xff\xfenn", 1)),
        same=("steps",),
    ),
    Case(
        name="a name that is no UTF-8",
        forms=("text",),
        file=TRACE,
        harm=content(lambda data: data.replace(b"aclnn", b"\xff\xfenn", 1)),
    ),
    Case(
        name="a name that is no UTF-8",
        forms=("kineto",),
        file=KINETO,
        harm=content(lambda data: data.replace(b"aten::", b"\xff\xfe::", 1)),
    ),
    Case(name="a time beyond 2^64", forms=TRACES, file=TRACE, harm=set_first("ts", str(2**70))),
    Case(name="a time beyond 2^64", forms=("kineto",), file=KINETO, harm=set_first("ts", 2**70)),
    Case(name="a duration beyond 2^64", forms=("text",), file=TRACE, harm=set_first("dur", 2**65)),
    Case(name="a duration beyond 2^64", forms=("kineto",), file=KINETO, harm=set_first("dur", 2**65)),
    Case(name="a duration that is no number", forms=("kineto",), file=KINETO, harm=set_first("dur", "NaN")),
    Case(name="a negative duration", forms=("text",), file=TRACE, harm=set_first("dur", -5)),
    Case(name="a negative duration", forms=("kineto",), file=KINETO, harm=set_first("dur", -5)),
    Case(name="a duration of a year", forms=("text",), file=TRACE, harm=set_first("dur", 31_536_000_000_000)),
    Case(name="a duration of a year", forms=("kineto",), file=KINETO, harm=set_first("dur", 31_536_000_000_000)),
    Case(name="a kernel at time 0", forms=("text",), file=TRACE, harm=set_first("ts", "0", is_device)),
    Case(
        name="a kernel at time 0",
        forms=("db",),
        file=DB,
        harm=sql("UPDATE TASK SET startNs = 0, endNs = 5 WHERE rowid = 3"),
    ),
    Case(
        name="a kernel at time 1",
        forms=("db",),
        file=DB,
        harm=sql("UPDATE TASK SET startNs = 1, endNs = 5 WHERE rowid = 3"),
    ),
    Case(name="a kernel at time 0", forms=("kineto",), file=KINETO, harm=set_first("ts", -(10**15), is_device)),
    Case(
        name="a kernel a year later",
        forms=("kineto",),
        file=KINETO,
        harm=set_first("ts", 31_536_000_000_000 * 90, is_device),
    ),
    Case(name="no communication file", forms=("text",), file="communication.json", harm=os.unlink, same=KEPT),
    Case(name="half a communication file", forms=TRACES, file="communication.json", harm=half, same=KEPT),
    Case(
        name="a communication file of another form",
        forms=("text",),
        file="communication.json",
        harm=content(lambda _: b"[]"),
        same=KEPT,
    ),
    Case(
        name="nested too deeply",
        forms=("text",),
        file="communication.json",
        harm=content(lambda _: nested(b"[", b"]")),
        same=KEPT,
    ),
    Case(
        name="nested too deeply",
        forms=("text", "db"),
        file="profiler_info_0.json",
        harm=content(lambda _: nested(b"[", b"]")),
        same=KEPT,
    ),
    Case(name="nested too deeply", forms=("text",), file=TRACE, harm=content(lambda _: DEEP)),
    Case(
        name="nested too deeply",
        forms=("kineto",),
        file=KINETO,
        harm=content(lambda data: data.replace(b"{", b'{"deep":' + nested(b"[", b"]") + b",", 1)),
        same=KEPT,
    ),
    Case(
        name="no step",
        forms=("text", "kineto"),
        file="*trace*.json",
        harm=events(lambda listed: [e for e in listed if not is_step(e)]),
        named="in",
        says="nostep",
    ),
    Case(
        name="no step",
        forms=("db",),
        file=DB,
        harm=sql("DELETE FROM STEP_TIME", "DELETE FROM STRING_IDS WHERE value LIKE 'ProfilerStep#%'"),
        says="step",
    ),
    Case(
        name="steps of no length",
        forms=("text", "kineto"),
        file="*trace*.json",
        harm=events(lambda listed: [e | {"dur": 0} if is_step(e) else e for e in listed]),
        named="in",
        says="nolength",
    ),
    Case(
        name="steps that overlap",
        forms=("text", "kineto"),
        file="*trace*.json",
        harm=events(lambda listed: [e | {"dur": 10**6} if is_step(e) else e for e in listed]),
        named="in",
        says="overlap",
    ),
    Case(name="half a database", forms=("db", "merged"), file=DB, harm=half),
    Case(name="an empty database", forms=("merged",), file=DB, harm=empty, same=KEPT),
    Case(name="a database that is text", forms=("merged",), file=DB, harm=content(lambda _: b"hello" * 99), same=KEPT),
    Case(name="a damaged page", forms=("db", "merged"), file=DB, harm=damaged_page),
    Case(name="a table is gone", forms=("db",), file=DB, harm=sql("DROP TABLE TASK")),
    Case(name="a column is gone", forms=("db",), file=DB, harm=sql("ALTER TABLE TASK RENAME COLUMN startNs TO begin")),
    Case(name="text for times", forms=("db",), file=DB, harm=sql("UPDATE TASK SET startNs = 'soon' WHERE rowid = 3")),
    Case(name="names without names", forms=("db",), file=DB, harm=sql("DELETE FROM STRING_IDS WHERE id % 2 = 0")),
    Case(name="no analysis", forms=("db",), file="analysis.db", harm=empty, same=KEPT),
    Case(name="an empty database", forms=("db",), file=DB, harm=empty),
)


def ids(case: tuple[Case, str]) -> str:
    return f"{case[0].name} ({case[1]}, {case[0].file})"


BROKEN = [(case, form) for case in CASES for form in case.forms]
# Of each kind of file in each format the last case; all others wait for `make test-all`.
ENDS = {(form, case.file): at for at, (case, form) in enumerate(BROKEN)}.values()
MARKED = [
    pytest.param(*one, id=ids(one), marks=() if at in ENDS else pytest.mark.slow) for at, one in enumerate(BROKEN)
]


@pytest.mark.parametrize(("case", "form"), MARKED)
def test_a_broken_file_marks_the_report_and_keeps_the_rest(
    case: Case, form: str, profile: Any, one: Any, hermes: Any, healthy: Any
) -> None:
    folder = profile(form)
    path = one(folder, case.file)
    case.harm(path)
    named = case.named or path.name
    shown = hermes("analyze", "--strict", "--full", folder)
    assert "Traceback" not in shown.out + shown.err
    assert re.sub(r"\s", "", named) in shown.said()
    if form in case.fatal:
        assert (shown.code, shown.out) == (2, "")
        for label in ("lost:", "whattodo:"):
            assert label in shown.said()
        return
    assert shown.code == 3, shown
    assert "Degraded:" in shown.out
    assert "lost:" in shown.said()
    assert case.says in shown.said()
    printed = hermes("analyze", "--format", "json", folder)
    assert printed.code == 0
    document = printed.document()
    notes = [note for note in document["diagnostics"] if note["level"] == "degraded"]
    assert any(named in note["where"] or named in note["message"]["text"] for note in notes), notes
    assert all(note["message"]["text"] and note["where"] for note in notes), notes
    assert all(note["lost"]["text"] or note["hint"]["text"] for note in notes), notes
    assert all(row["degraded"] for row in document["inputs"])
    for part in case.same:
        # MFU needs more than a step does: shapes, and the chip.
        for now, then in zip(document[part], healthy[form][part], strict=True):
            assert now in (then, then | {"mfu": None})
    for row in document["steps"]:
        known = [row[key] for key in ("compute_ms", "exposed_comm_ms", "copy_exposed_ms", "free_ms")]
        assert None in known or round(sum(known) * 1e6) == round(row["window_ms"] * 1e6)
    longest = max((row["span_ms"] for row in healthy[form]["totals"]), default=0)
    assert all(row["span_ms"] <= longest for row in document["totals"])


@pytest.mark.parametrize(
    ("form", "file", "harm"),
    [
        ("text", "*", os.unlink),
        ("db", DB, empty),
        ("db", DB, content(lambda _: b"hello" * 99)),
        ("db", DB, content(lambda _: b"SQLite format 3\x00" + bytes(100))),
        ("kineto", KINETO, content(lambda _: nested(b"[", b"]"))),
        ("kineto", KINETO, content(lambda _: b'{"traceEvents": []}')),
        ("kineto", KINETO, content(lambda _: gzip.compress(b""))),
    ],
)
def test_nothing_left_to_read_ends_in_a_message(form: str, file: str, harm: Harm, profile: Any, hermes: Any) -> None:
    folder = profile(form)
    for path in folder.rglob(file):
        if path.is_file():
            harm(path)
    if form == "db":
        for path in folder.rglob("analysis.db"):
            path.unlink()
    ended = hermes("analyze", folder)
    assert (ended.code, ended.out) == (2, "")
    assert "Traceback" not in ended.err
    assert "in:" in ended.err or "where" in ended.err
    assert "what to do:" in ended.err


def test_of_half_a_csv_and_no_trace_the_kernels_before_the_cut_are_read(profile: Any, one: Any, hermes: Any) -> None:
    folder = profile("text")
    path = one(folder, KERNELS)
    half(path)
    one(folder, TRACE).unlink()
    complete = path.read_bytes().count(b"\n") - 1
    rows = hermes(
        "sql", folder, "--format", "csv", "select count(*) as n from kernel where component = 'compute'"
    ).out.split()
    hccl = path.read_text().count("HCCL,")
    assert int(rows[1]) in (complete - hccl, complete - hccl + 1)


def test_a_gzip_of_no_bytes_is_named(profile: Any, one: Any, hermes: Any) -> None:
    folder = profile("kineto")
    path = one(folder, KINETO)
    path.rename(path.with_name(path.name + ".gz"))
    empty(path.with_name(path.name + ".gz"))
    ended = hermes("analyze", folder)
    assert ended.code == 2
    assert "rank0.pt.trace.json.gz" in ended.err
    assert "empty" in ended.err


def test_a_gzip_that_is_cut_off_gives_what_stands_before_the_cut(profile: Any, one: Any, hermes: Any) -> None:
    folder = profile("kineto")
    path = one(folder, KINETO)
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes())[:-2000])
    path.unlink()
    ended = hermes("analyze", "--strict", "--full", folder)
    assert ended.code == 3
    assert packed.name in ended.said()


def test_what_a_cut_trace_lost_of_communication_is_taken_from_the_kernels_file(
    profile: Any, one: Any, hermes: Any, healthy: Any
) -> None:
    folder = profile("text")
    os.truncate(one(folder, TRACE), one(folder, TRACE).stat().st_size // 4)
    document = hermes("analyze", "--format", "json", folder).document()
    for row, good in zip(document["steps"], healthy["text"]["steps"], strict=True):
        assert abs(row["comm_ms"] - good["comm_ms"]) < 0.001


def test_a_row_of_the_kernels_file_at_time_0_stretches_nothing(
    profile: Any, one: Any, hermes: Any, healthy: Any
) -> None:
    folder = profile("text")
    one(folder, TRACE).unlink()
    before = hermes("analyze", "--format", "json", folder).document()["totals"]
    import csv

    path = one(folder, KERNELS)
    with path.open(newline="") as text:
        rows = list(csv.DictReader(text))
    rows[3]["Start Time(us)"] = "0\t"
    with path.open("w", newline="") as text:
        made = csv.DictWriter(text, list(rows[0]))
        made.writeheader()
        made.writerows(rows)
    document = hermes("analyze", "--format", "json", folder).document()
    assert document["totals"][0]["span_ms"] <= before[0]["span_ms"]
    assert document["totals"][0]["tasks"] == before[0]["tasks"] - 1
    assert any("first about row 5" in note["where"] for note in document["diagnostics"])
