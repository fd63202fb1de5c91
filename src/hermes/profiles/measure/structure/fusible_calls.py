"""Finds sequences of calls, and optimizers, for which the device's library has one fused operator."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hermes.knowledge.fusible_operators import AFFINITIES, OPERATOR_SPACES, OPTIMIZERS, OTHER, call_letter
from hermes.knowledge.vendor_traits import traits
from hermes.model.declare import field, measure
from hermes.profiles.measure.registry import RankTables, per_rank

_OPTIMIZER = re.compile(r"^Optimizer\.step#(\w+)\.step$")
_MOST_CALLS = 2_000_000
_PAIRS = 2
_CALL = ("kind", "name", "pid", "tid", "start_ns", "dur_ns", "step")


@measure(
    "compute.affinity",
    title="Calls that the device's library has as one",
    zh="可替换为亲和接口的调用序列",
    about="Outermost operators of the framework in a row on a thread. Gains of several rows of this table may overlap.",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Affinity:
    """All occurrences of one sequence, or of one optimizer, in the steps of a rank.

    `device_ns` is the time of the kernels launched in them, `saved_ns` the time of all kernels but the longest of each
    occurrence; None for an optimizer.
    """

    rank: int = field("global rank", "Rank", "卡")
    name: str = field("what it is", "Sequence", "序列", kind="name")
    calls_of: str = field("the calls of the most frequent form, in order", "Calls", "调用", key="operators")
    instead: str = field("what the library has in its place", "In its place", "替换接口", kind="name")
    calls: int = field("how often it occurs", "Count", "次数")
    device_ns: int = field("time of the kernels launched in it", "On the device", "设备时间")
    saved_ns: int | None = field("of it, of all but the longest kernel of each", "Beyond the longest", "可节省")


@per_rank(
    Affinity,
    needs={"host_op": _CALL, "kernel": ("component", "launch_ns", "dur_ns")},
)
def affinities_of(rank: RankTables) -> tuple[Affinity, ...]:
    """The sequences of a rank whose device has fused operators for them, the costliest first."""
    if not traits(rank.vendor).fused or rank.about["framework"] != "pytorch":
        return ()
    calls = rank.table("host_op").select(_CALL).filter(pl.col("kind") == "op").head(_MOST_CALLS)
    if calls["step"].is_not_null().any():
        calls = calls.filter(pl.col("step").is_not_null())
    launched = rank.table("kernel").filter((pl.col("component") == "compute") & pl.col("launch_ns").is_not_null())
    rows = [*_sequences(rank.rank, outermost(calls), _Launched(launched)), *_optimizers(rank.rank, calls, launched)]
    return tuple(sorted(rows, key=lambda row: (-(row.saved_ns or 0), -row.device_ns, row.name)))


def outermost(calls: pl.DataFrame) -> pl.DataFrame:
    """Framework operators that no other framework operator encloses, by thread and start."""
    rows = calls.filter(pl.col("name").str.contains(OPERATOR_SPACES)).with_columns(
        (pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns")
    )
    rows = rows.sort("pid", "tid", "start_ns", "end_ns", descending=[False, False, False, True])
    before = pl.col("end_ns").cum_max().shift(1).over("pid", "tid")
    return rows.filter(before.is_null() | (pl.col("start_ns") >= before))


class _Launched:
    """Kernels sorted by launch time."""

    def __init__(self, launched: pl.DataFrame) -> None:
        rows = launched.sort("launch_ns")
        self._at = rows["launch_ns"].to_numpy()
        self._lengths = rows["dur_ns"].to_numpy()

    def within(self, start: int, end: int) -> NDArray[np.int64]:
        """The lengths in ns of kernels launched from `start` to before `end`."""
        first, last = np.searchsorted(self._at, [start, end])
        return self._lengths[first:last]


def _sequences(rank: int, calls: pl.DataFrame, launched: _Launched) -> Iterator[Affinity]:
    letters = _letters(calls)
    starts, ends = calls["start_ns"].to_numpy(), calls["end_ns"].to_numpy()
    names = calls["name"]
    taken = np.zeros(len(letters), dtype=bool)
    for affinity in AFFINITIES:
        forms: dict[tuple[str, ...], int] = {}
        count = whole = saved = 0
        for match in re.finditer(affinity.pattern, letters):
            first, last = match.span()
            lengths = launched.within(int(starts[first]), int(ends[last - 1]))
            if taken[first:last].any() or not len(lengths):
                continue
            taken[first:last] = True
            form = tuple(names[first:last].to_list())
            forms[form] = forms.get(form, 0) + 1
            count, whole = count + 1, whole + int(lengths.sum())
            saved += int(lengths.sum() - lengths.max())
        if count:
            most = max(sorted(forms), key=lambda form: forms[form])
            yield Affinity(
                rank=rank, name=affinity.name, calls_of=" ".join(most), instead=affinity.instead, calls=count,
                device_ns=whole, saved_ns=saved,
            )  # fmt: skip


def _letters(calls: pl.DataFrame) -> str:
    """One letter per call; the last call of a thread is no neighbour of the next thread's first call."""
    if not calls.height:
        return ""
    known = {name: call_letter(name) for name in calls["name"].unique().to_list()}
    letters: list[str] = calls["name"].replace_strict(known, return_dtype=pl.String).to_list()
    tids = calls["tid"].fill_null(-1).to_numpy()
    for place in np.flatnonzero(np.diff(tids)).tolist():
        letters[place] = OTHER
    return "".join(letters)


def _optimizers(rank: int, calls: pl.DataFrame, launched: pl.DataFrame) -> Iterator[Affinity]:
    found = _Launched(launched)
    steps = calls.filter(pl.col("name").str.starts_with("Optimizer.step#"))
    for name in sorted(steps["name"].unique().to_list()):
        match = _OPTIMIZER.match(name)
        instead = OPTIMIZERS.get(match.group(1)) if match else None
        if instead is None:
            continue
        own = steps.filter(pl.col("name") == name)
        lengths = [found.within(start, start + dur) for start, dur in own.select("start_ns", "dur_ns").iter_rows()]
        if sum(map(len, lengths)) < _PAIRS * own.height:
            # One kernel per step: the optimizer is fused already.
            continue
        yield Affinity(
            rank=rank, name=f"{match.group(1) if match else ''} optimizer", calls_of=name, instead=instead,
            calls=own.height, device_ns=int(sum(one.sum() for one in lengths)), saved_ns=None,
        )  # fmt: skip
