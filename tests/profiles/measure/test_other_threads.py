"""Threads beside the stepping one, as looks of a capture saw them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.profiles.measure.test_passes_that_train_nothing import event, op

from hermes.profiles.load import load
from hermes.profiles.measure.host.other_threads import ThreadRuns, thread_runs_of
from hermes.profiles.measure.registry import RankTables
from hermes.store.cache import Cache

POLL = ["queue.py(1): full", "train.py(40): produce", "threading.py(9): run"]
OTHER = ["train.py(43): produce", "threading.py(9): run"]
LIBRARY = ["tqdm/_monitor.py(5): run"]
WAIT = ["threading.py(320): wait", "queue.py(180): get", "train.py(52): main"]


def looked(folder: Path, lines: dict[str, Any]) -> list[ThreadRuns]:
    head = {"schemaVersion": 1, "hermes": {"settings": {}, "own": ["train"]}, "hermes_lines": lines}
    events = [event("user_annotation", "ProfilerStep#1", 0, 9), op("aten::add", 1, 2)]
    file = folder / "rank0.pt.trace.json"
    file.write_text(json.dumps({**head, "traceEvents": events}), "utf-8")
    return [*thread_runs_of(RankTables(load([str(file)], cache=Cache(folder / "cache")).ranks[0]))]


def test_a_thread_is_told_with_its_share_and_the_line_at_which_it_ran_most(tmp_path: Path) -> None:
    threads = [
        {"name": "tqdm", "cpu_ns": 3, "seen": [[LIBRARY, 1]]},
        {"name": "Thread-1 (produce)", "cpu_ns": 500, "seen": [[POLL, 50], [OTHER, 20]]},
    ]
    samples = {"stacks": [WAIT, ["train.py(50): main"]], "samples": [[10, 0], [20, 1], [30, 1], [40, 1]]}
    first, second = looked(tmp_path, {"looks": 100, "wall_ns": 1_000, "threads": threads, **samples})
    assert (first.name, first.line) == ("Thread-1 (produce)", "train.py:40 `produce`")
    assert (first.on_core, first.waits) == (0.5, 0.25)
    assert (second.name, second.line, second.on_core) == ("tqdm", "", 0.003)


WHOLE = {"name": "a", "cpu_ns": 1, "seen": [[POLL, 5]]}


@pytest.mark.parametrize(
    "lines",
    [
        {}, {"looks": 10, "wall_ns": 9}, {"threads": [WHOLE]}, {"looks": 10, "wall_ns": 9, "threads": "none"},
        {"looks": 10, "wall_ns": -1, "threads": [WHOLE]}, {"looks": 10, "wall_ns": 9, "threads": [None, {"seen": []}]},
        {"looks": 10, "wall_ns": 9, "threads": [{**WHOLE, "cpu_ns": -1}]},
        {"looks": 10, "wall_ns": 9, "threads": [{**WHOLE, "seen": [[POLL, 11], [POLL, -1], [POLL], "x"]}]},
    ],
)  # fmt: skip
def test_what_is_not_whole_is_no_row(tmp_path: Path, lines: dict[str, Any]) -> None:
    assert looked(tmp_path, lines) == []
