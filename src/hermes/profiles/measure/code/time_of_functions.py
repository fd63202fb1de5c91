"""Measures the time of each function of the user's code in a step."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np
import polars as pl

from hermes.base.enclosing_calls import enclosing
from hermes.base.intervals import Intervals, union_of_intervals
from hermes.knowledge.user_code import frame_of
from hermes.model.code_measures import MOST_LINES, CodeLine
from hermes.profiles.measure.code.line_samples import LineSamples, seen_of
from hermes.profiles.measure.code.time_attribution import BACKWARD, CLASSES, HOST_OP, Attribution, attribution_of
from hermes.profiles.measure.host.host_of_rank import loop_of
from hermes.profiles.measure.host.select_host_calls import calls_of_threads, spans
from hermes.profiles.measure.registry import RankTables, per_rank

_NAMES = 4
_FACTORIES = (
    r"^aten::(zeros|ones|full|eye|arange|range|linspace|logspace|scalar_tensor|tril_indices|triu_indices|"
    r"hann_window|hamming_window|kaiser_window|blackman_window|bartlett_window)$"
)
_OF_DATA = (
    r"rand|normal|uniform|bernoulli|multinomial|exponential|conv|mm$|linear$|fft|stft|embedding|attention|softmax"
    # Tensors of lists, numbers read back, and values written by index come from data in nearly all programs.
    r"|lift_fresh|_local_scalar|index|_like$|gather|scatter"
)
"""Operators that are random, or that work on data that changes in nearly all programs."""


@per_rank(CodeLine, needs={"host_op": HOST_OP}, beside=("sample",))
def lines_of(rank: RankTables) -> tuple[CodeLine, ...]:
    """The functions of the user's code on a rank, longest time per step first."""
    found, seen = rank.once(attribution_of), rank.once(seen_of)
    if found is None:
        return seen.as_lines(rank.rank, _operators(rank)) if seen else ()
    return tuple(_lines(rank.rank, found, seen.among(found.owners.labels) if seen else None))


def _operators(rank: RankTables) -> pl.DataFrame:
    """The operators of the thread that marks the steps, or of all threads if no step is marked."""
    ops = rank.table("host_op").filter(pl.col("kind") == "op")
    loop = rank.once(loop_of)
    return calls_of_threads(ops, loop) if loop.height else ops


def _lines(rank: int, found: Attribution, seen: LineSamples | None) -> Iterator[CodeLine]:
    steps = len(found.bounds)
    sums = found.parts.group_by("owner", "step", "what").agg(pl.col("ns").sum())
    total = sums.group_by("owner").agg(pl.col("ns").sum()).sort("ns", "owner", descending=[True, False])
    device = dict(found.device.group_by("label").agg(pl.col("ns").sum()).iter_rows())
    left = [owner for owner in device if owner >= 0 and owner not in set(total["owner"])]
    calls, mostly, made = _calls(found), _mostly(found), _made(found)
    for owner in [*total["owner"].head(MOST_LINES), *left][:MOST_LINES]:
        own = sums.filter(pl.col("owner") == owner)
        parts = dict(own.group_by("what").agg(pl.col("ns").sum()).iter_rows())
        by_step = dict(own.filter(pl.col("what") != BACKWARD).group_by("step").agg(pl.col("ns").sum()).iter_rows())
        frame = frame_of(found.owners.labels[owner]) if owner >= 0 else None
        about = calls.get(owner, _UNKNOWN)
        values = {f"{name}_ns": max(parts.get(what, 0), 0) // steps for what, name in enumerate(CLASSES)}
        yield CodeLine(
            rank=rank,
            place=frame.place if frame else "",
            function=frame.function if frame else "",
            calls=about.calls / steps if about.calls is not None else None,
            total_ns=about.total_ns // steps if about.total_ns is not None else None,
            own_ns=sum(ns for name, ns in values.items() if name != "backward_ns"),
            device_ns=device.get(owner, 0) // steps,
            growth=by_step.get(steps - 1, 0) / by_step[0] if steps > 2 and by_step.get(0) else None,
            caller=about.caller,
            loop=about.loop,
            names=mostly.get(owner, ()),
            within=about.within,
            lines=seen.inside(found.owners.labels[owner]) if seen and owner >= 0 else (),
            source=found.owners.source,
            made=owner in made,
            modules=about.modules,
            trains=owner in found.trained,
            **values,
        )


class _Calls:
    """The calls of one function: their number, their time, and the function that calls it."""

    __slots__ = ("caller", "calls", "loop", "modules", "total_ns", "within")

    def __init__(self, calls: int | None = None, total_ns: int | None = None) -> None:
        self.calls, self.total_ns, self.modules = calls, total_ns, False
        self.caller = self.loop = self.within = ""


_UNKNOWN = _Calls()


def _calls(found: Attribution) -> Mapping[int, _Calls]:
    """The calls of functions on the stepping thread, by label; empty if the capture has stacks instead of frames."""
    if found.owners.source != "frames":
        return {}
    own = found.owners.anchors.join(found.loop, on=["pid", "tid"], how="semi")
    steps = union_of_intervals(found.bounds.starts, found.bounds.ends)
    before = own.with_columns(pl.col("start_ns") - 1)
    parent, _ = found.owners.of(before)
    scripts = {at for at, name in enumerate(found.owners.labels) if name.endswith(": <module>")}
    root = _roots(own, scripts)
    framed = own.with_columns(pl.Series("parent", parent, dtype=pl.Int64), pl.Series("root", root, dtype=pl.Int64))
    framed = framed.with_columns(_reasons(found, own))
    modules = found.parts.filter((pl.col("kind") == "python") & pl.col("name").str.starts_with("nn.Module: "))
    holding = {*modules["owner"].unique(), *_forwards(found, own, modules)}
    made: dict[int, _Calls] = {}
    for (label,), rows in framed.partition_by("label", as_dict=True).items():
        inside = rows.filter(_begins_in(rows["start_ns"], found.bounds))
        one = _Calls(inside.height, (spans(rows) & steps).total)
        one.caller = _said(found, _most(rows["parent"].filter(rows["parent"] != rows["label"])))
        one.loop = _said(found, _most(rows["root"]))
        one.modules = label in holding
        one.within = str(rows["reason"].mode().sort()[0] or "")
        made[int(label)] = one
    return made


def _reasons(found: Attribution, own: pl.DataFrame) -> pl.Series:
    """For each call, the purpose of the innermost known call around it; empty if no name tells a purpose."""
    around = found.events
    at = enclosing(around, own).fill_null(-1).to_numpy()
    names = [*around["reason"].to_list(), ""]
    return pl.Series("reason", [names[place] for place in at], dtype=pl.String)


def _begins_in(moments: pl.Series, bounds: Intervals) -> pl.Series:
    values = moments.to_numpy()
    place = np.searchsorted(bounds.starts, values, side="right") - 1
    return pl.Series((place >= 0) & (values < bounds.ends[np.maximum(place, 0)]))


def _roots(own: pl.DataFrame, scripts: Collection[int]) -> list[int]:
    """For each call, the label of the outermost function open when it begins; a script's own frame does not count."""
    reach, root = -1, -1
    found = [-1] * own.height
    ordered = own.with_row_index("at").sort("start_ns", "dur_ns", descending=[False, True])
    for at, start, length, label in ordered.select("at", "start_ns", "dur_ns", "label").iter_rows():
        if label in scripts:
            continue
        if start >= reach:
            reach, root = start + length, label
        found[at] = root
    return found


def _forwards(found: Attribution, own: pl.DataFrame, modules: pl.DataFrame) -> set[int]:
    """The labels of functions that modules call directly: their forward passes."""
    lanes = modules.select("start_ns", pl.col("dur_ns")).join(found.loop, how="cross")
    around = enclosing(lanes, own).fill_null(-1).to_numpy()
    if not lanes.height:
        return set()
    _, since = found.owners.of(own.with_columns(pl.col("start_ns") - 1))
    direct = (around >= 0) & (lanes["start_ns"].to_numpy()[np.maximum(around, 0)] >= since)
    return set(own["label"].filter(pl.Series(direct)).to_list())


def _most(labels: pl.Series) -> int:
    known = labels.filter(labels >= 0)
    return int(known.mode().sort()[0]) if len(known) else -1


def _said(found: Attribution, label: int) -> str:
    frame = frame_of(found.owners.labels[label]) if label >= 0 else None
    return frame.said if frame else ""


def _mostly(found: Attribution) -> Mapping[int, tuple[tuple[str, int], ...]]:
    """For each function, the operators and Python functions that take most of its time, with ns per step."""
    steps = len(found.bounds)
    rows = found.parts.lazy().filter((pl.col("what") != BACKWARD) & (pl.col("name") != ""))
    sums = rows.group_by("owner", "name").agg(pl.col("ns").sum()).filter(pl.col("ns") >= steps).collect()
    made: dict[int, tuple[tuple[str, int], ...]] = {}
    for (owner,), own in sums.partition_by("owner", as_dict=True).items():
        top = own.sort("ns", "name", descending=[True, False]).head(_NAMES)
        made[int(str(owner))] = tuple((str(name), int(ns) // steps) for name, ns in top.select("name", "ns").rows())
    return made


def _made(found: Attribution) -> frozenset[int]:
    """The functions whose first operator makes a tensor from constants, and that use no data."""
    ops = found.parts.lazy().filter((pl.col("kind") == "op") & ~pl.col("owner").is_in(list(found.trained)))
    first = pl.col("name").sort_by("start_ns").first().str.contains(_FACTORIES)
    of_data = found.parts.lazy().select(pl.col("name").unique()).filter(pl.col("name").str.contains(_OF_DATA))
    data = pl.col("name").is_in(of_data.collect()["name"].to_list()).any().alias("data")
    rows = ops.group_by("owner", "step").agg(first.alias("made"), data)
    every = rows.group_by("owner").agg(pl.col("made").all(), pl.col("data").any())
    return frozenset(every.filter(pl.col("made") & ~pl.col("data")).collect()["owner"].to_list())
