"""When the host launched work that had been done before: activation checkpoints running forward passes again.

Told by `torch/utils/checkpoint.py`: with stacks, the frame `recompute_fn` (or `unpack_hook`, which calls it) holds all
that runs again; without them, the autograd node `CheckpointFunctionBackward` does, but for the backward nodes inside
it. MindSpore writes `recompute_` into the scope of the kernel's name. Other ways to recompute leave no trace.
"""

from __future__ import annotations

import polars as pl

from hermes.base.intervals import EMPTY, Intervals, flat
from hermes.profiles.measure.memory.memory import BACKWARD

_FRAME = r"torch/utils/checkpoint\.py\(\d+\): (recompute_fn|unpack_hook)"
_NODE = "CheckpointFunctionBackward"
_SCOPE = "recompute_"


def recomputed(host_op: pl.DataFrame) -> Intervals:
    """When operators ran again, by the calls of one rank (`kind`, `name`, `start_ns`, `dur_ns`); empty if never."""
    # One plain search, for what both names have, spares nearly all rows the others.
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
    return flat(named["launch_ns"].to_numpy(), named["launch_ns"].to_numpy() + 1) if named.height else EMPTY


def _spans(rows: pl.DataFrame) -> Intervals:
    starts = rows["start_ns"].to_numpy()
    return flat(starts, starts + rows["dur_ns"].to_numpy())
