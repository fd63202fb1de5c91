"""Finds functions of the user's code that make many equal calls in a row, where one batched call would do."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from hermes.base.enclosing_calls import enclosing
from hermes.base.intervals import union_of_intervals
from hermes.knowledge.host_work import DATA, OPTIMIZER
from hermes.knowledge.user_code import frame_of
from hermes.model.code_measures import CalledAgain
from hermes.profiles.measure.code.line_samples import LineSamples, seen_of
from hermes.profiles.measure.code.time_attribution import Attribution, attribution_of
from hermes.profiles.measure.host.select_host_calls import calls_of_threads, spans
from hermes.profiles.measure.registry import RankTables, per_rank

_HOST_OP = ("kind", "name", "pid", "tid", "start_ns", "dur_ns")
_MODULE = "nn.Module: "
_MANY = 16
"""The fewest calls in a row by one of the user's functions that count as a loop."""
_LAYERS = 32
"""The fewest modules of a class, or operators of a name, in a row: fewer may be the layers of a model."""
_BODY = 0.2
"""The share of a function's calls that the body of a short loop must have."""
_ELSEWHERE = r"run_backward|^Optimizer\.|torch/optim/"
"""Calls that run many operators by themselves: the backward pass, and steps of optimizers."""
_BOOKKEEPING = r"^aten::(empty|as_strided|view|reshape|_unsafe_view|detach|t$|transpose|select|unsqueeze|to$|_to_copy)"


@per_rank(CalledAgain, needs={"host_op": _HOST_OP}, beside=("sample",))
def repeated_calls_of(rank: RankTables) -> tuple[CalledAgain, ...]:
    """The loops of a rank that repeat equal calls, longest time first."""
    found = rank.once(attribution_of)
    if found is None or found.owners.source != "frames":
        return ()
    seen = rank.once(seen_of)
    seen = seen.among(found.owners.labels) if seen else None
    own = calls_of_threads(rank.table("host_op").select(_HOST_OP), found.loop)
    rows = [*_functions(found, seen, rank.rank), *_modules(found, seen, rank.rank, own)]
    return tuple(sorted(rows, key=lambda one: (-one.ns, one.line, one.what)))


def line_of(found: Attribution, seen: LineSamples | None, label: int) -> str:
    """The line that stands for a function of the user's code; empty if the label names none."""
    name = found.owners.labels[label] if label >= 0 else ""
    frame = frame_of(name)
    if frame is None:
        return ""
    line = seen.line_of(name) if seen else None
    return f"{line} `{frame.function}`" if line else frame.said


def started_in(rank: RankTables, found: Attribution, passes: pl.DataFrame) -> str:
    """The function of the user's code that starts most of these calls; empty if none does."""
    label, _ = found.owners.of(passes.select("pid", "tid", "start_ns", "dur_ns"))
    labels = pl.Series(label)
    known = labels.filter(labels >= 0)
    seen = rank.once(seen_of)
    seen = seen.among(found.owners.labels) if seen else None
    return line_of(found, seen, int(known.mode().sort()[0])) if len(known) else ""


def _inside(found: Attribution, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows that begin in a step."""
    starts = rows["start_ns"].to_numpy()
    place = np.searchsorted(found.bounds.starts, starts, side="right") - 1
    return rows.filter(pl.Series((place >= 0) & (starts < found.bounds.ends[np.maximum(place, 0)]), dtype=pl.Boolean))


def _apart(found: Attribution, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows outside data loaders and optimizers, whose loops belong to the framework."""
    around = found.events.filter(pl.col("reason").is_in([DATA, OPTIMIZER]))
    return rows.filter(enclosing(around, rows).is_null())


def _rows(
    found: Attribution, seen: LineSamples | None, rank: int, runs: pl.DataFrame, least: int, *, alone: bool
) -> Iterator[CalledAgain]:
    """Rows of `runs` (`label`, `began`, `what`, `start_ns`, `dur_ns`) that repeat often enough to be a loop.

    `alone`: between most equal calls there is no other call on which the next call may depend.
    """
    # A function that runs through several steps, as a loop in a script does, counts once a step.
    step = np.searchsorted(found.bounds.starts, runs["start_ns"].to_numpy(), side="right")
    run = ("began", "step")
    follows = (pl.col("what") == pl.col("what").shift(1)).over(*run).fill_null(False)
    among = pl.len().over(*run, "what") >= _BODY * pl.len().over(*run)
    sums = (
        runs.with_columns(pl.Series("step", step, dtype=pl.Int64))
        .sort("began", "start_ns")
        .with_columns((follows if alone else among).alias("follows"))
        .group_by("label", "what")
        .agg(
            pl.len().alias("calls"), pl.struct(run).n_unique().alias("outer"), pl.col("follows").mean(),
            pl.col("dur_ns").sum().alias("ns"),
        )
        .filter((pl.col("calls") >= least * pl.col("outer")) & (pl.col("follows") >= 0.5))
    )  # fmt: skip
    steps = len(found.bounds)
    for label, what, calls, outer, ns in sums.select("label", "what", "calls", "outer", "ns").iter_rows():
        line = line_of(found, seen, label)
        if line:
            yield CalledAgain(rank=rank, line=line, what=what, times=calls / outer, ns=ns // steps)


def _functions(found: Attribution, seen: LineSamples | None, rank: int) -> Iterator[CalledAgain]:
    own = found.owners.anchors.join(found.loop, on=["pid", "tid"], how="semi")
    own = _apart(found, _inside(found, own))
    parent, began = found.owners.of(own.with_columns(pl.col("start_ns") - 1))
    busy = found.parts.lazy().filter(pl.col("kind") == "op").select(pl.col("owner").unique()).collect()["owner"]
    runs = pl.DataFrame(
        {
            "label": parent, "began": began, "called": own["label"], "start_ns": own["start_ns"],
            "dur_ns": own["dur_ns"],
        }
    ).filter(pl.col("label") >= 0)  # fmt: skip
    names = {at: frame.function for at, name in enumerate(found.owners.labels) if (frame := frame_of(name))}
    what = pl.col("called").replace_strict(names, default="", return_dtype=pl.String).alias("what")
    # Other calls of the same function stay in the list as calls in between.
    working = pl.when(pl.col("called").is_in(busy.implode())).then(what).otherwise(pl.lit("")).alias("what")
    for row in _rows(found, seen, rank, runs.with_columns(working), _MANY, alone=True):
        if row.what and not row.what.startswith("<"):
            yield row


def _modules(found: Attribution, seen: LineSamples | None, rank: int, own: pl.DataFrame) -> Iterator[CalledAgain]:
    """Loops over modules and operators that a function of the user's code calls directly, not through a module."""
    modules = own.filter((pl.col("kind") == "python") & pl.col("name").str.starts_with(_MODULE))
    ops = own.filter((pl.col("kind") == "op") & ~pl.col("name").str.contains(_BOOKKEEPING))
    ops = ops.filter(
        pl.col("name").str.starts_with("aten::") & enclosing(ops, ops.with_columns(pl.col("start_ns") - 1)).is_null()
    )
    rows = pl.concat([one.select("name", "pid", "tid", "start_ns", "dur_ns") for one in (modules, ops)])
    rows = _apart(found, _inside(found, rows))
    elsewhere = own.filter(pl.col("name").str.contains(_ELSEWHERE))
    rows = rows.filter(enclosing(elsewhere, rows).is_null())
    before = rows.with_columns(pl.col("start_ns") - 1)
    label, began = found.owners.of(before)
    around = enclosing(modules, before).fill_null(-1).to_numpy()
    since = modules["start_ns"].to_numpy()[np.maximum(around, 0)] if modules.height else np.zeros(rows.height)
    direct = (label >= 0) & ((around < 0) | (since <= began))
    what = pl.col("name").str.strip_prefix(_MODULE).str.replace(r"_\d+$", "").alias("what")
    runs = rows.with_columns(pl.Series("label", label), pl.Series("began", began), what).filter(pl.Series(direct))
    yield from _rows(found, seen, rank, runs, _LAYERS, alone=False)


def lasting(found: Attribution, rows: pl.DataFrame) -> int:
    """Nanoseconds per step that rows take; overlapping time counts once."""
    return (spans(rows) & union_of_intervals(found.bounds.starts, found.bounds.ends)).total // len(found.bounds)
