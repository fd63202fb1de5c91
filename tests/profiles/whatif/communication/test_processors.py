"""Jobs without a device: backward runs on the host's thread, and gloo sends beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermes.profiles.load import load
from hermes.profiles.pipeline.analyze import outlined
from hermes.profiles.pipeline.search_inputs import communication_plan, exchange_of
from hermes.profiles.whatif.communication.search import Search
from hermes.store.cache import Cache

MS = 1_000_000
GRADIENTS_MS = (20, 30, 40, 50)
SIDE = 2_048
"""Elements of a side of a gradient of 16 MB."""


def event(name: str, category: str, begin_ms: float, dur_ms: float, tid: int, **args: object) -> dict[str, object]:
    return {
        "ph": "X", "cat": category, "name": name, "pid": 10, "tid": tid, "ts": begin_ms * 1e3, "dur": dur_ms * 1e3,
        "args": args,
    }  # fmt: skip


def step(number: int, at: float) -> list[dict[str, object]]:
    """100 ms: forward, four gradients, one bucket of all of 32 ms, an optimizer, and a single number of 1 ms."""
    dims = {"Input Dims": [[SIDE, SIDE]], "Input type": ["float"]}
    taken = [event("torch::autograd::AccumulateGrad", "cpu_op", at + ms, 0.01, 10, **dims) for ms in GRADIENTS_MS]
    sums = [(50.1, 32.0, 4 * SIDE * SIDE), (90.0, 1.0, 1)]
    return [
        event(f"ProfilerStep#{number}", "user_annotation", at, 99.9, 10),
        event("aten::linear", "cpu_op", at + 1, 10, 10),
        *taken,
        *[
            event("gloo:all_reduce", "user_annotation", at + begin, dur, 20, **{
                "Input Dims": [[count]], "Input type": ["float"],
            })
            for begin, dur, count in sums
        ],
    ]  # fmt: skip


@pytest.fixture
def two_ranks(tmp_path: Path) -> Path:
    for rank in range(2):
        head = {"backend": "gloo", "rank": rank, "world_size": 2, "pg_count": 1,
                "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]}]}  # fmt: skip
        events = [one for number in range(4) for one in step(number, 1_000 + 100.0 * number)]
        trace = {"schemaVersion": 1, "deviceProperties": [], "distributedInfo": head, "traceEvents": events}
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(trace), "utf-8")
    return tmp_path


def test_a_bucket_of_all_gradients_is_split_on_processors_too(two_ranks: Path, tmp_path: Path) -> None:
    loaded = load([two_ranks], Cache(tmp_path / "tables"))
    tried = Search(exchange_of(loaded, outlined(loaded)))
    assert tried._now_ns == pytest.approx(tried._step_ns, abs=MS)
    found = communication_plan(loaded, outlined(loaded))
    assert found.plan is not None
    assert (found.plan.now.buckets, found.plan.then.buckets) == (1, 4)
    # From 20 ms on four of 8.75 ms, 1 ms each for whatever size: the last ends after 58.75 ms, and not after 82.1.
    assert found.plan.low_ns <= 23.35 * MS <= found.plan.high_ns
    assert found.plan.then.tail_ns == pytest.approx(8.75 * MS, abs=MS)
