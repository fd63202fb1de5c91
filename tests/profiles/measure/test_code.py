"""Every microsecond of the step stands at a function of the user's, with the line at which it was seen."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hermes.base.say import say
from hermes.model.code_measures import CodeLine, NamedLine
from hermes.model.report import Report
from hermes.profiles.load import load
from hermes.profiles.measure.code.line_samples import LineSamples
from hermes.profiles.pipeline.analyze import analyze
from hermes.store.cache import Cache

PID, TID = 9, 9
BASE_NS = 1_700_000_000_000_000_000


def event(cat: str, name: str, start: float, length: float, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": PID, "tid": TID, "ts": start, "dur": length, "args": args}


def step(number: int, at: float) -> Iterator[dict[str, Any]]:
    """A step of 1000 us: 400 in a function of Python, 300 in a model and its backward, the rest in the loop."""
    yield event("user_annotation", f"ProfilerStep#{number}", at, 1_000)
    for call in (100, 300):
        yield event("python_function", "train.py(24): mel_filterbank", at + call, 200)
        yield event("python_function", "<built-in function log>", at + call + 50, 60)
    yield event("python_function", "torch/nn/modules/module.py(1782): _call_impl", at + 520, 140)
    yield event("python_function", "nn.Module: Net_0", at + 525, 130)
    yield event("python_function", "model.py(7): forward", at + 530, 120)
    yield event("cpu_op", "aten::linear", at + 540, 100, **{"Sequence number": number, "Fwd thread id": 0})
    yield event("python_function", "torch/_tensor.py(566): backward", at + 700, 220)
    node = {"Sequence number": number, "Fwd thread id": 1}
    yield event("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", at + 710, 200, **node)
    yield event("cpu_op", "aten::mm", at + 720, 180)


def sample(us: int, *frames: str) -> tuple[int, tuple[str, ...]]:
    return BASE_NS + us * 1_000, frames


SAMPLES = (
    *(sample(100 + 20 * at, "train.py(26): mel_filterbank", "train.py(31): main") for at in range(8)),
    sample(330, "train.py(25): mel_filterbank", "train.py(31): main"),
    *(sample(at, "torch/nn/modules/linear.py(134): forward", "model.py(9): forward") for at in (560, 600)),
)


def trace(events: list[dict[str, Any]]) -> str:
    stacks = sorted({frames for _, frames in SAMPLES})
    note = {"stacks": stacks, "samples": [[ns, stacks.index(frames)] for ns, frames in SAMPLES]}
    head = {
        "schemaVersion": 1, "with_stack": 1, "hermes": {"own": ["train", "model"]}, "hermes_lines": note,
        "baseTimeNanoseconds": BASE_NS, "displayTimeUnit": "ms",
    }  # fmt: skip
    return json.dumps({**head, "traceEvents": events})


def program(*, framed: bool = True) -> list[dict[str, Any]]:
    events = [*step(1, 0), *step(2, 1_000)]
    loop = [event("python_function", "train.py(30): main", -50, 2_100)]
    return [*loop, *events] if framed else [one for one in events if one["cat"] != "python_function"]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return analyzed(tmp_path_factory.mktemp("framed"), program())


def analyzed(folder: Path, events: list[dict[str, Any]]) -> Report:
    file = folder / "rank0.pt.trace.json"
    file.write_text(trace(events), "utf-8")
    return analyze(load([str(file)], cache=Cache(folder / "cache")))


def lines(report: Report) -> dict[str, CodeLine]:
    return {one.function: one for one in report.rows(CodeLine)}


def test_the_parts_add_up_to_the_step(report: Report) -> None:
    rows = report.rows(CodeLine)
    assert sum(row.own_ns + row.backward_ns for row in rows) == 1_000_000
    assert all(
        row.own_ns == row.python_ns + row.framework_ns + row.operator_ns + row.launch_ns + row.wait_ns for row in rows
    )


def test_python_of_a_function_counts_with_the_builtins_that_it_calls(report: Report) -> None:
    row = lines(report)["mel_filterbank"]
    assert (row.place, row.calls, row.total_ns, row.python_ns, row.own_ns) == (
        "train.py:24",
        2,
        400_000,
        400_000,
        400_000,
    )
    assert dict(row.names)["<built-in function log>"] == 120_000


def test_a_backward_operator_counts_for_the_function_of_its_forward_one(report: Report) -> None:
    row = lines(report)["forward"]
    assert (row.operator_ns, row.backward_ns, row.modules) == (100_000, 200_000, True)


def test_python_of_the_framework_is_told_from_the_functions_own(report: Report) -> None:
    row = lines(report)["main"]
    assert row.framework_ns == (140 - 120 + 220 - 200) * 1_000
    assert row.python_ns == (1_000 - 400 - 140 - 220) * 1_000


def test_a_function_says_who_calls_it_and_at_which_line_it_was_seen(report: Report) -> None:
    row = lines(report)["mel_filterbank"]
    assert row.caller == "train.py:30 `main`"
    assert row.lines[0] == ("train.py:26", pytest.approx(8 / 9))
    assert row.said == "train.py:26 `mel_filterbank`"


def test_an_operator_says_from_which_line_it_comes(report: Report) -> None:
    rows = {one.name: one.line for one in report.rows(NamedLine)}
    assert rows["aten::linear"] == "model.py:9 `forward`"


def test_a_hot_function_is_a_finding_and_the_verdict_names_its_line(report: Report) -> None:
    first = report.findings[0]
    assert (first.code, first.lines) == ("HOT001", ("train.py:26 `mel_filterbank`",))
    assert "a line of Python (train.py:24 `mel_filterbank`)" in say(report.verdict.message)
    assert report.plan.actions[0].lines == first.lines


def test_without_frames_the_samples_still_name_the_function(tmp_path: Path) -> None:
    found = analyzed(tmp_path, program(framed=False))
    row = lines(found)["mel_filterbank"]
    assert (row.source, row.calls) == ("samples", None)
    assert row.own_ns == pytest.approx(1_000_000 * 9 / 11, abs=1)


def test_python_that_nobody_recorded_is_said_and_never_no_loss(tmp_path: Path) -> None:
    file = tmp_path / "rank0.pt.trace.json"
    events = [one for one in program(framed=False) if one["cat"] != "cpu_op" or one["name"] == "aten::linear"]
    file.write_text(json.dumps({"schemaVersion": 1, "baseTimeNanoseconds": BASE_NS, "traceEvents": events}), "utf-8")
    found = analyze(load([str(file)], cache=Cache(tmp_path / "cache")))
    assert "90% of each step (900 us): not recorded" in say(found.verdict.message)
    assert found.plan.unrecorded == pytest.approx(0.9)
    assert "--stack" in found.plan.captures[0].command


def test_functions_of_one_name_in_a_file_are_told_apart_by_where_they_begin() -> None:
    counts = {("net.py", "forward"): Counter({12: 3, 40: 5})}
    labels = ("net.py(10): forward", "net.py(38): forward")
    seen = LineSamples(counts=counts, step_ns=1, moments=pl.DataFrame()).among(labels)
    assert [seen.line_of(label) for label in labels] == ["net.py:12", "net.py:40"]


def test_without_a_device_a_collective_is_a_wait_for_other_ranks_and_no_work_of_the_function(tmp_path: Path) -> None:
    meets = [
        event("python_function", "train.py(50): average", 430, 80),
        event("python_function", "torch/distributed/distributed_c10d.py(9): all_reduce", 435, 70),
        event("cpu_op", "c10d::allreduce_", 440, 10),
        event("python_function", "<built-in method wait of pybind11_builtins.record object at 0x7f>", 455, 45),
    ]
    row = lines(analyzed(tmp_path, [*program(), *meets]))["average"]
    assert (row.wait_ns, row.python_ns, row.worked_ns) == (35_000, 5_000, 5_000)
