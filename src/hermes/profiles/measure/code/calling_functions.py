"""Finds the user's function around each call of the dispatching threads, by Python frames or stacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hermes.base.enclosing_calls import enclosing
from hermes.base.intervals import Ints
from hermes.knowledge.user_code import is_framework, is_own

_Flags = NDArray[np.bool_]
_BUILTIN = "<built-in"
_LANE = ("pid", "tid", "start_ns", "dur_ns")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallingFunctions:
    """The user's functions that were open: `anchors` are their calls (`pid, tid, start_ns, dur_ns, label`).

    `labels` are their names as recorded, without repetition; `label` is an index into them. With `source` `stacks`, an
    anchor is an operator that has a stack.
    """

    anchors: pl.DataFrame
    labels: tuple[str, ...]
    source: Literal["frames", "stacks"]

    def of(self, moments: pl.DataFrame) -> tuple[Ints, Ints]:
        """By moment (`pid, tid, start_ns`), the label and begin of the innermost open function; -1 if none."""
        return _at(self.anchors, moments, self.anchors["label"].to_numpy())


def _at(outer: pl.DataFrame, moments: pl.DataFrame, values: Ints) -> tuple[Ints, Ints]:
    place = enclosing(outer, moments).fill_null(-1).to_numpy()
    if not outer.height:
        return place, place
    starts = outer["start_ns"].to_numpy()
    known = place >= 0
    return np.where(known, values[place], -1), np.where(known, starts[place], -1)


def owners(rows: pl.DataFrame, stack: pl.DataFrame, told: frozenset[str]) -> CallingFunctions | None:
    """The user's functions in `rows` of `host_op`; None if neither frames nor stacks were recorded."""
    python = rows.filter(pl.col("kind") == "python").select("name", *_LANE)
    names = [name for name in python["name"].unique().sort() if is_own(name, told)]
    if names:
        number = {name: place for place, name in enumerate(names)}
        own = python.filter(pl.col("name").is_in(names))
        label = pl.col("name").replace_strict(number, return_dtype=pl.Int64).alias("label")
        return CallingFunctions(anchors=own.select(*_LANE, label), labels=tuple(names), source="frames")
    lines = _innermost(stack, told)
    labels = sorted(set(lines.values()))
    number = {line: place for place, line in enumerate(labels)}
    by_stack = {stack_id: number[line] for stack_id, line in lines.items()}
    if not by_stack:
        return None
    label = pl.col("stack_id").replace_strict(by_stack, default=None, return_dtype=pl.Int64).alias("label")
    own = rows.filter(pl.col("kind") == "op").with_columns(label).drop_nulls("label")
    return (
        CallingFunctions(anchors=own.select(*_LANE, "label"), labels=tuple(labels), source="stacks")
        if own.height
        else None
    )


def _innermost(stack: pl.DataFrame, told: frozenset[str]) -> Mapping[int, str]:
    """For each stack, its innermost frame in the user's code."""
    found: dict[int, str] = {}
    for stack_id, frames in stack.select("stack_id", "frames").iter_rows():
        own = (line.strip() for line in str(frames or "").split("\n"))
        line = next((one for one in own if is_own(one, told)), None)
        if line is not None:
            found[stack_id] = line
    return found


def python_is_framework(upper: pl.DataFrame, began: Ints) -> _Flags:
    """For each row, whether it is Python of the framework: below a framework frame that the owner called.

    `upper` are rows of one layer, `began` tells when the owner of each row began. Builtins that hold operators count as
    the framework's, too.
    """
    python = upper.filter(pl.col("kind") == "python").select("name", *_LANE)
    names = python["name"].unique()
    inside = [name for name in names if is_framework(name) or str(name).startswith("nn.Module: ")]
    frames = python.filter(pl.col("name").is_in(inside))
    _, open_since = _at(frames, upper.select("pid", "tid", "start_ns"), np.zeros(frames.height, dtype=np.int64))
    below = (open_since >= 0) & (open_since >= began)
    ops = upper.filter(pl.col("kind") == "op").select("pid", "tid", "start_ns")
    builtin = python.filter(pl.col("name").str.starts_with(_BUILTIN))
    around = (
        enclosing(builtin, ops).drop_nulls().unique()
        if builtin.height and ops.height
        else pl.Series([], dtype=pl.Int64)
    )
    holding = builtin["name"].gather(around).unique().to_list() if len(around) else []
    return np.asarray(below | upper["name"].is_in(holding).to_numpy())
