"""Tells which calls of a rank do work that only a first call does: they load code or set something up."""

from __future__ import annotations

import numpy as np
import polars as pl

from hermes.model.tables import RUNTIME_KINDS
from hermes.profiles.measure.leaves.call_trees import CallTrees
from hermes.profiles.measure.leaves.nesting import Bools

FIRST_NS, FIRST_TIMES = 1_000_000, 20
"""A first call is a setup if it takes a millisecond and 20 times as long as later calls of its name.
By the same threshold, the first launch of a kernel loads its code.
"""
SETUP_NS, SETUP_TIMES = 10_000_000, 2
"""Thresholds in ns and as a factor for a runtime call that loads modules or creates a context while the device is idle:
no queue can be full then. A call that always takes that long, such as the execution of a whole graph, does neither.
"""


def first_calls(calls: CallTrees) -> Bools:
    """A mask of the calls that are the first of their name and take far longer than later ones.

    Copies and waits do not count: their duration varies. A name of which a later call takes half as long does not count
    either: something else makes its calls long.
    """
    alike = ~calls.copying & ~calls.waiting
    wanted = calls.of_kind("op", *RUNTIME_KINDS) & alike
    slow = np.zeros(len(calls.names), dtype=bool)
    slow[calls.name[wanted & (calls.self_ns >= FIRST_NS)]] = True
    wanted &= slow[calls.name]
    rows = pl.DataFrame({"at": calls.places[wanted], "name": calls.name[wanted], "own": calls.self_ns[wanted],
                         "when": calls.recorded("start_ns", which=wanted)["start_ns"]})  # fmt: skip
    found = rows.sort("when").group_by("name", maintain_order=True).agg(
        pl.col("at").first(), pl.col("own").first(), pl.col("own").slice(1).median().alias("later"),
        pl.col("own").slice(1).max().alias("longest"), pl.len()
    )  # fmt: skip
    found = found.filter((pl.col("len") > 2) & (pl.col("own") >= FIRST_NS)
                         & (pl.col("own") >= FIRST_TIMES * pl.col("later"))
                         & (pl.col("own") > SETUP_TIMES * pl.col("longest")))  # fmt: skip
    made = _loading(calls, alike)
    made[found["at"].to_numpy()] = True
    return made


def _loading(calls: CallTrees, alike: Bools) -> Bools:
    """A mask of the calls that load a kernel's code: first launches that take far longer than others."""
    made = np.zeros(len(calls), dtype=bool)
    some = np.flatnonzero(calls.of_kind(*RUNTIME_KINDS) & alike)
    if calls.self_ns[some].max(initial=0) < FIRST_NS:
        return made
    rows = calls.recorded("start_ns", "correlation", which=some).rename({"start_ns": "when"}).with_columns(
        pl.Series("at", some), pl.Series("call", calls.name[some]), pl.Series("own", calls.self_ns[some])
    )  # fmt: skip
    rows = rows.join(calls.launched, on="correlation", how="inner").with_columns(
        pl.col("own").median().over("call").alias("usual"), pl.len().over("call").alias("count")
    )
    first = rows.sort("when").unique("name", keep="first", maintain_order=True)
    first = first.filter((pl.col("count") > 2) & (pl.col("own") >= FIRST_NS)
                         & (pl.col("own") >= FIRST_TIMES * pl.col("usual")))  # fmt: skip
    made[first["at"].to_numpy()] = True
    return made


def setup_calls(calls: CallTrees) -> Bools:
    """A mask of the runtime calls that set something up: long, and twice as long as others of their name."""
    length = calls.end - calls.start
    made = calls.of_kind(*RUNTIME_KINDS) & (length >= SETUP_NS)
    for name in np.unique(calls.name[made]).tolist():
        mine = np.flatnonzero(calls.name == name)
        if len(mine) > 2:
            made[mine] &= length[mine] >= SETUP_TIMES * np.median(length[mine])
    return made
