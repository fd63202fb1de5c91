"""Finds calls in which a step checks its numbers: finiteness checks, and autograd's anomaly mode.

PyTorch's `isfinite`, `isnan` and `isinf` each read a whole tensor. `torch/autograd/anomaly_mode.py` keeps a traceback
of every forward operator (`PyAnomalyMetadata::store_stack` calls `format_stack`), and looks for NaN in every gradient.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from hermes.knowledge.host_work import CHECKS
from hermes.knowledge.user_code import is_own
from hermes.profiles.measure.host.select_host_calls import calls_of_threads, names_reason, outermost

MOSTLY = 0.4
"""The share of its time in checks from which a function exists for checking.

All time of such a function counts as checking, unless the function also trains.
"""
_TRAINS = r"^nn\.Module: |run_backward|^aten::(mm|addmm|bmm|linear|convolution)$"
_MOST_FRAMES = 200_000


def numeric_check_calls(host_op: pl.DataFrame) -> pl.DataFrame:
    """Calls of one rank that check numbers, none inside another; some are replaced by the function around them."""
    calls = outermost(host_op.filter(names_reason(CHECKS)))
    if not calls.height:
        return calls
    threads = calls.select("pid", "tid").unique()
    python = host_op.filter(pl.col("kind") == "python")
    own = [name for name in python["name"].unique() if is_own(name)]
    frames = calls_of_threads(python.filter(pl.col("name").is_in(own)), threads)
    if not 0 < frames.height <= _MOST_FRAMES:
        return calls
    trains = host_op.filter(pl.col("name").str.contains(_TRAINS))["start_ns"].sort().to_numpy()
    operators = calls.filter(pl.col("kind") == "op")
    chosen = [at for part in frames.with_row_index("at").partition_by("pid", "tid") for at in _mostly(part, operators)]
    around = frames[chosen].select(calls.columns)
    start = around["start_ns"].to_numpy()
    inside = trains.searchsorted(start + around["dur_ns"].to_numpy()) - trains.searchsorted(start)
    return outermost(pl.concat([calls, around.filter(pl.Series(inside == 0))]))


def _mostly(frames: pl.DataFrame, calls: pl.DataFrame) -> Iterator[int]:
    """The innermost functions whose time is mostly in check operators of their thread."""
    pid, tid = frames["pid"][0], frames["tid"][0]
    own = calls.filter(pl.col("pid").eq_missing(pid) & pl.col("tid").eq_missing(tid)).sort("start_ns")
    rows = frames.sort("start_ns", "dur_ns", descending=[False, True]).select("start_ns", "dur_ns", "at").rows()
    inside: dict[int, int] = {}
    stack: list[int] = []
    place = 0
    for start, length in own.select("start_ns", "dur_ns").iter_rows():
        while place < len(rows) and rows[place][0] <= start:
            stack.append(place)
            place += 1
        while stack and sum(rows[stack[-1]][:2]) < start + length:
            stack.pop()
        if stack:
            inside[stack[-1]] = inside.get(stack[-1], 0) + length
    yield from (rows[frame][2] for frame, ns in inside.items() if ns >= MOSTLY * rows[frame][1])
