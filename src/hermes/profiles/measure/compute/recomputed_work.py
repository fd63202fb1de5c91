"""Finds recomputed work: launches that repeat a forward pass, as activation checkpointing does.

Source: `torch/utils/checkpoint.py`. With stacks, the frame `recompute_fn` (or `unpack_hook`, which calls it) holds all
recomputed calls. Without stacks, the autograd node `CheckpointFunctionBackward` does, except for the backward nodes
inside it. MindSpore writes `recompute_` into the scope of the kernel's name. Other ways to recompute leave no trace.
"""

from __future__ import annotations

import polars as pl

from hermes.base.intervals import EMPTY, Intervals, union_of_intervals
from hermes.profiles.measure.memory.memory_peaks import BACKWARD

_FRAME = r"torch/utils/checkpoint\.py\(\d+\): (recompute_fn|unpack_hook)"
_NODE = "CheckpointFunctionBackward"
_SCOPE = "recompute_"


def recomputed(host_op: pl.DataFrame) -> Intervals:
    """The times at which operators of one rank ran again, from its calls (`kind`, `name`, `start_ns`, `dur_ns`)."""
    # One plain search for the text that both names share skips nearly all rows.
    named = host_op.filter(pl.col("name").str.contains("heckpoint", literal=True))
    if not named.height:
        return EMPTY
    frames = named.filter((pl.col("kind") == "python") & pl.col("name").str.contains(_FRAME))
    nodes = named.filter((pl.col("kind") == "op") & (pl.col("name") == _NODE))
    found = _spans(frames)
    if nodes.height:
        inner = host_op.filter(
            (pl.col("kind") == "op")
            & pl.col("name").str.starts_with(BACKWARD)
            & ~pl.col("name").str.contains(_NODE, literal=True)
        )
        found = found | (_spans(nodes) - _spans(inner))
    return found


def scoped(kernel: pl.DataFrame) -> Intervals:
    """The launches of kernels whose scope says that they recompute (MindSpore)."""
    named = kernel.filter(pl.col("name").str.contains(_SCOPE, literal=True) & pl.col("launch_ns").is_not_null())
    return (
        union_of_intervals(named["launch_ns"].to_numpy(), named["launch_ns"].to_numpy() + 1) if named.height else EMPTY
    )


def _spans(rows: pl.DataFrame) -> Intervals:
    starts = rows["start_ns"].to_numpy()
    return union_of_intervals(starts, starts + rows["dur_ns"].to_numpy())
