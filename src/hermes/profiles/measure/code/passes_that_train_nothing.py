"""Finds forward passes whose result no backward pass uses, so that they train nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from hermes.base.enclosing_calls import enclosing
from hermes.base.intervals import Ints
from hermes.knowledge.host_work import DATA
from hermes.model.code_measures import Unlearned
from hermes.profiles.measure.code.line_samples import seen_of
from hermes.profiles.measure.code.repeated_calls import lasting, line_of
from hermes.profiles.measure.code.time_attribution import Attribution, attribution_of
from hermes.profiles.measure.host.select_host_calls import calls_of_threads
from hermes.profiles.measure.registry import RankTables, per_rank

_LANE = ("pid", "tid", "start_ns", "dur_ns")
_HOST_OP = ("kind", "name", *_LANE, "shapes", "sequence", "forward_tid")
_MODULE = "nn.Module: "
_TRAINS = r"run_backward|^Optimizer\.(step|zero_grad)#"


@per_rank(Unlearned, needs={"host_op": _HOST_OP})
def unlearned_of(rank: RankTables) -> tuple[Unlearned, ...]:
    """The forward passes of trained modules that no backward pass follows, by function; longest time first."""
    found = rank.once(attribution_of)
    if found is None or found.owners.source != "frames":
        return ()
    own = calls_of_threads(rank.table("host_op").select(_HOST_OP), found.loop)
    modules = own.filter((pl.col("kind") == "python") & pl.col("name").str.starts_with(_MODULE))
    ops = own.filter(pl.col("kind") == "op")
    learned = _learned(ops, rank.table("host_op"))
    if not modules.height or not learned.height:
        return ()
    backward = own.filter(pl.col("name").str.contains("run_backward"))
    modules = modules.filter(enclosing(backward, modules).is_null()).sort("start_ns")
    modules = modules.with_columns(
        pl.Series("learned", _holds(modules, learned["start_ns"].sort().to_numpy()), dtype=pl.Boolean),
        pl.Series("given", _given(modules, ops), dtype=pl.String),
    )
    trained = modules.filter(pl.col("learned"))
    outer = modules.filter(enclosing(modules, modules.with_columns(pl.col("start_ns") - 1)).is_null())
    # A module instance (by its number) that gave nothing to a backward pass here, and does so elsewhere.
    idle = outer.filter(~pl.col("learned") & pl.col("name").is_in(trained["name"].unique().implode()))
    return _rows(rank, found, own, learned, trained, idle) if idle.height else ()


def _learned(ops: pl.DataFrame, every: pl.DataFrame) -> pl.DataFrame:
    """The forward operators that have a backward operator: of several with one number, the last."""
    known = every.filter((pl.col("kind") == "op") & (pl.col("sequence") >= 0) & pl.col("forward_tid").is_not_null())
    forward = ops.filter((pl.col("sequence") >= 0) & pl.col("forward_tid").is_null())
    forward = forward.unique("sequence", keep="last", maintain_order=True)
    return forward.filter(pl.col("sequence").is_in(known["sequence"].unique().implode()))


def _holds(rows: pl.DataFrame, moments: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """For each row, whether one of the sorted moments lies in it."""
    starts = rows["start_ns"].to_numpy()
    ends = starts + rows["dur_ns"].to_numpy()
    return np.asarray(np.searchsorted(moments, ends) > np.searchsorted(moments, starts))


def _given(modules: pl.DataFrame, ops: pl.DataFrame) -> Sequence[str | None]:
    """For each module call, the shapes of its first operator."""
    shaped = ops.filter(pl.col("shapes").is_not_null() & (pl.col("shapes") != "")).sort("start_ns")
    starts = shaped["start_ns"].to_numpy()
    first = np.searchsorted(starts, modules["start_ns"].to_numpy())
    ends = (modules["start_ns"] + modules["dur_ns"]).to_numpy()
    texts = shaped["shapes"].to_list()
    return [
        texts[at] if at < len(texts) and starts[at] < end else None
        for at, end in zip(first.tolist(), ends.tolist(), strict=True)
    ]


def _rows(
    rank: RankTables, found: Attribution, own: pl.DataFrame, learned: pl.DataFrame, trained: pl.DataFrame,
    idle: pl.DataFrame,
) -> tuple[Unlearned, ...]:  # fmt: skip
    calls = found.owners.anchors.join(found.loop, on=["pid", "tid"], how="semi").sort("start_ns")
    moments = pl.concat([learned["start_ns"], own.filter(pl.col("name").str.contains(_TRAINS))["start_ns"]]).sort()
    trains = _holds(calls, moments.to_numpy())
    outer = enclosing(calls, calls.with_columns(pl.col("start_ns") - 1)).fill_null(-1).to_list()
    inner = enclosing(calls, idle).fill_null(-1).to_list()
    starts, lengths, labels = calls["start_ns"].to_list(), calls["dur_ns"].to_list(), calls["label"].to_list()
    loads = found.events.filter(pl.col("reason") == DATA)["start_ns"].sort().to_numpy()
    spent: dict[tuple[int, str], list[tuple[int, int, bool, bool]]] = {}
    counts: dict[tuple[int, str], int] = {}
    shapes = set(trained["given"].drop_nulls())
    for at, row in zip(inner, idle.select("name", "start_ns", "dur_ns", "given").iter_rows(), strict=True):
        name, start, length, given = row
        label = labels[at] if at >= 0 else -1
        if at >= 0 and not trains[at]:
            while outer[at] >= 0 and not trains[outer[at]]:
                at = outer[at]
            start, length, label = starts[at], lengths[at], labels[at]
        held = (
            bool(np.searchsorted(loads, start + length) > np.searchsorted(loads, start)) and at >= 0 and not trains[at]
        )
        key = (label, str(name))
        spent.setdefault(key, []).append((start, length, held, given in shapes))
        counts[key] = counts.get(key, 0) + 1
    times = {str(name): calls_ for name, calls_ in trained.group_by("name").len().iter_rows()}
    # Passes before the first training call may belong to a batch that was trained before the capture.
    known = int(str(trained["start_ns"].min()))
    return _summed(rank, found, spent, counts, times, known)


def _summed(
    rank: RankTables, found: Attribution, spent: Mapping[tuple[int, str], list[tuple[int, int, bool, bool]]],
    counts: Mapping[tuple[int, str], int], times: Mapping[str, int], known_ns: int,
) -> tuple[Unlearned, ...]:  # fmt: skip
    seen = rank.once(seen_of)
    seen = seen.among(found.owners.labels) if seen else None
    steps, made = len(found.bounds), []
    for (label, name), parts in spent.items():
        line = line_of(found, seen, label)
        told = [one[3] for one in parts if one[0] >= known_ns]
        rows = pl.DataFrame({"start_ns": [one[0] for one in parts], "dur_ns": [one[1] for one in parts]})
        places = np.searchsorted(found.bounds.starts, rows["start_ns"].to_numpy(), side="right") - 1
        if line:
            made.append(
                Unlearned(
                    rank=rank.rank, line=line, module=name.removeprefix(_MODULE), calls=counts[label, name] / steps,
                    trained=times[name] / steps, ns=lasting(found, rows), loads=all(one[2] for one in parts),
                    again=bool(told) and all(told), steps=steps, steps_hit=len({*places[places >= 0].tolist()}),
                )
            )  # fmt: skip
    return tuple(sorted(made, key=lambda one: (-one.ns, one.line, one.module)))
