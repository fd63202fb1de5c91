"""Steps that nobody marked: found by the period of launches where a copy tells a step from a layer, else not."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hermes.base.say import say
from hermes.model.tables.unmarked_steps import FOUND
from hermes.profiles.load import load
from hermes.profiles.pipeline.analyze import analyze
from hermes.profiles.read.kineto.unmarked_steps import boundaries
from hermes.store.cache import Cache

LAYER = "ABCDEFGHIJ"
STEP = "i" + LAYER * 3 + "opqrstuv"


def found(text: str, *, pause_before: str = "i") -> list[int]:
    """Where periods begin in a drawing of launches, one letter each; `i` copies from the host, `o` to it."""
    names = np.array([ord(letter) for letter in text])
    launched = np.cumsum([100 if letter == pause_before else 1 for letter in text])
    moved = np.array([letter in "io" for letter in text])
    return list(boundaries(names, launched, moved))


def test_each_step_begins_behind_the_longest_pause_of_the_host() -> None:
    assert found(STEP * 5) == [len(STEP) * step for step in range(5)]
    assert found(STEP * 5, pause_before="o") == [31 + len(STEP) * step for step in range(5)]


def test_what_runs_before_the_period_settles_is_in_no_step() -> None:
    assert found("xyz" * 9 + STEP * 6) == [27 + len(STEP) * step for step in range(6)]


def test_layers_are_no_steps() -> None:
    assert found("i" + LAYER * 40 + "o") == []
    assert found(LAYER * 40) == []


def test_layers_that_copy_from_the_host_are_no_steps_where_steps_repeat_better() -> None:
    step = "i" + ("i" + LAYER) * 30 + "opq"
    assert found(step * 4, pause_before="q") == [len(step) * at - 1 for at in range(1, 5)]


NOISE = "".join(random.Random(1).choices("iABCDEFGHo", k=400))


@pytest.mark.parametrize("text", ["", "i", STEP, STEP * 2, NOISE])
def test_without_three_periods_there_are_none(text: str) -> None:
    assert found(text) == []


def unmarked(shared: Path, folder: Path, name: str) -> tuple[Path, list[float]]:
    """A real trace without its marks, and how long they were, in milliseconds."""
    trace = json.loads(gzip.decompress((shared / f"kineto/{name}.json.gz").read_bytes()))
    marks = [event for event in trace["traceEvents"] if str(event.get("name")).startswith("ProfilerStep#")]
    trace["traceEvents"] = [event for event in trace["traceEvents"] if event not in marks]
    folder.mkdir()
    path = folder / "trace.json"
    path.write_text(json.dumps(trace))
    return path, [event["dur"] / 1_000 for event in marks if event.get("ph") == "X"]


@pytest.mark.parametrize("name", ["v100_resnet50_num_workers_0", "a100_rank0_of_16_blocking_copies"])
def test_steps_of_a_real_trace_are_found_without_its_marks(name: str, shared: Path, tmp_path: Path) -> None:
    path, marked = unmarked(shared, tmp_path / "job", name)
    report = analyze(load([path], Cache(tmp_path / "cache")))
    whole = analyze(load([shared / f"kineto/{name}.json.gz"], Cache(tmp_path / "cache")))
    windows, known = ([row.window_ns / 1e6 for row in one.steps] for one in (report, whole))
    assert len(windows) >= len(marked) - 2
    # A step ends with its last task, which is not the same task where a period of launches ends.
    assert float(np.median(windows)) == pytest.approx(float(np.median(known)), rel=0.15)
    assert {row.window_kind for row in report.steps} == {"found"}
    assert any("found by the period" in say(note.message) for note in report.diagnostics)


@pytest.mark.parametrize("name", ["b200_vllm_inference", "mi300_sglang_decode", "v100_resnet50_first_calls"])
def test_a_capture_of_one_step_or_of_first_calls_stays_a_capture(name: str, shared: Path, tmp_path: Path) -> None:
    (rank,) = load([shared / f"kineto/{name}.json.gz"], Cache(tmp_path)).ranks
    assert not rank.table("step").height


def test_a_capture_of_a_processor_without_marks_has_an_answer(shared: Path, tmp_path: Path) -> None:
    path, _ = unmarked(shared, tmp_path / "job", "cpu_only_rank34")
    report = analyze(load([path], Cache(tmp_path / "cache")))
    (row,) = report.steps
    assert (row.window_kind, report.verdict.bound) == ("capture", "host")
    assert say(report.verdict.message).startswith("Capture of 1.26 s on 1 of 300 ranks. 87% of the capture")
    assert any("the capture is taken as a whole" in say(note.message) for note in report.diagnostics)


def test_marks_of_an_inference_server_are_steps(tmp_path: Path) -> None:
    def span(name: str, ts: int, cat: str = "user_annotation") -> dict[str, Any]:
        return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": 90, "args": {}}

    names = ["execute_context_1(9_81)_generation_0(0)", *["execute_context_0(0)_generation_4(4)"] * 3]
    events = [span(name, 100 * at) for at, name in enumerate(names)]
    events += [span("execute_context_0(0)_generation_4(4)", 300), span("aten::mm", 10, "cpu_op")]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}))
    (rank,) = load([path], Cache(tmp_path / "cache")).ranks
    assert rank.table("step").select("step", "name").rows() == list(enumerate(names, 1))
    assert not rank.table("step")["name"].str.starts_with(FOUND).any()
