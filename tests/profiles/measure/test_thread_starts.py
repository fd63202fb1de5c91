"""Starts of threads and processes on the thread that trains, and ends of pools."""

from __future__ import annotations

import polars as pl
import pytest

from hermes.model.host_measures import HostEvents
from hermes.profiles.measure.host import host_events, thread_starts
from hermes_testing import draw

NAMES = {
    "S": "threading.py(945): start",
    "A": "<built-in function start_new_thread>",
    "P": "multiprocessing/process.py(110): start",
    "R": "concurrent/futures/_base.py(428): result",
    "E": "concurrent/futures/thread.py(216): shutdown",
    "J": "threading.py(1087): join",
    "N": "torch/utils/data/dataloader.py(720): __next__",
    "I": "torch/utils/data/dataloader.py(484): __iter__",
    "C": "torch/_inductor/scheduler.py(2100): fuse_nodes",
    "L": "logging/__init__.py(1477): info",
    "K": "concurrent/futures/thread.py(161): submit",
}


def started(text: str) -> HostEvents:
    tables = draw(text)
    host = tables["host_op"].with_columns(pl.col("name").replace(NAMES))
    step = tables["step"]
    loop = pl.DataFrame({"pid": [1], "tid": [1]})
    return thread_starts.starts_of_threads(
        0, host_events.notable_calls(host), host, loop, step, max(1, step.height), None
    )


def test_starts_of_the_loop_count_once_with_the_calls_recorded_in_them() -> None:
    found = started("""
        rank0.step      [####][####]
        rank0.python@1  SSS.SS.PPP..
        rank0.host@1    .AA.........
        rank0.python@9  .....SSSSSS.
    """)
    assert (found.calls, found.ns, found.steps_hit, found.steps) == (3, 8_000, 2, 2)
    # An operator, and three frames, which count in part.
    assert found.recorded == pytest.approx(1 + 3 * host_events.FRAME)


def test_a_pool_that_was_waited_for_is_only_ended() -> None:
    found = started("""
        rank0.step      [##########]
        rank0.python@1  SS.RR.EEE...
    """)
    assert (found.calls, found.ns) == (2, 5_000)


@pytest.mark.parametrize("end", ["E", "J"])
def test_an_end_that_may_wait_for_work_does_not_count(end: str) -> None:
    found = started(f"""
        rank0.step      [##########]
        rank0.python@1  SS....{end * 5}.
    """)
    assert (found.calls, found.ns) == (1, 2_000)


@pytest.mark.parametrize("around", ["I", "C"])
def test_workers_of_loaders_and_compilers_are_theirs(around: str) -> None:
    found = started(f"""
        rank0.step      [##########]
        rank0.python@1  {around * 9}...
        rank0.host@1    ..PPP.......
    """)
    assert (found.calls, found.ns, found.recorded) == (0, 0, 0)


def test_a_kept_pool_starts_nothing() -> None:
    found = started("""
        rank0.step      [##########]
        rank0.python@1  KKK.RRRR....
    """)
    assert (found.calls, found.ns) == (0, 0)


def test_starts_inside_of_a_batch_or_a_log_are_told_apart() -> None:
    found = started("""
        rank0.step      [############]
        rank0.python@1  NNNNN.LLLL....
        rank0.host@1    .SSS...PP..PP.
    """)
    assert dict(found.inside) == {"data loading": 3_000, "checkpoint or logging": 2_000}
    assert found.ns == 7_000
