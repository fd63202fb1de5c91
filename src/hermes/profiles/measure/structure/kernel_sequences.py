"""Finds adjacent kernels that could be fused: by named patterns, and as repeated sequences of short kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hermes.knowledge.fusible_operators import BREAKERS, FUSIONS, OTHER, kernel_letter
from hermes.knowledge.operators import operator_of
from hermes.model.declare import field, measure
from hermes.profiles.measure.registry import RankTables, per_rank

_KERNEL = ("component", "type", "unit", "stream", "start_ns", "dur_ns", "step", "call", "input_shapes", "kernel_id")
_SHORT_NS = 50_000
_LONGEST, _SHORTEST = 10, 3
_AT_LEAST = 6
_MOST = 40
_MOST_KERNELS = 400_000
_MOVING = (
    "elementwise", "reduction", "normalisation", "softmax", "cast", "transpose", "format conversion", "copy",
    "indexing",
)  # fmt: skip
_ONE_BIAS = 1
_PRIME = np.int64(6_364_136_223_846_793_005)


@measure(
    "compute.unfused",
    title="Rows of kernels that could be one",
    zh="可融合的算子组合",
    about="Kernels that follow each other on a stream and that a compiler or a library has as one kernel.",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Unfused:
    """All occurrences of one pattern on a rank.

    `saved_ns`: the time of all kernels but the longest of each occurrence.
    """

    rank: int = field("global rank", "Rank", "卡")
    pattern: str = field("what they are together", "Pattern", "组合", kind="name")
    operators: str = field("the kernels of the most frequent form, in order", "Kernels", "算子", kind="name")
    calls: int = field("how often it occurs in the capture", "Count", "次数")
    ns: int = field("time of these kernels, in the steps of the capture", "Total", "总时间")
    saved_ns: int = field("of it, what all but the longest of each take", "Beyond the longest", "可节省", of="ns")
    moving_ns: int = field("of it, elementwise kernels and reductions", "Elementwise", "逐元素", of="ns")
    broken: str = field("what stands between them and keeps a compiler from fusing", "Broken by", "打断者", kind="name")
    broken_ns: int = field("time of what stands between", "Between", "打断时间", of="ns")


@measure(
    "compute.sequences",
    title="Short kernels in a row, again and again",
    zh="重复出现的短算子序列",
    about="Three to ten kernels of at most 50 us that only move or scale data, in a row, at least six times.",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """One sequence of short kernels; occurrences do not overlap, and a kernel counts only in its longest sequence."""

    rank: int = field("global rank", "Rank", "卡")
    operators: str = field("the kernels in order", "Kernels", "算子", kind="name")
    length: int = field("how many they are", "Kernels in it", "算子数")
    calls: int = field("how often they occur", "Count", "次数")
    ns: int = field("their time", "Total", "总时间")
    wall_ns: int = field("from the first one's start to the last one's end, added up", "With gaps", "含间隙")
    saved_ns: int = field("what all but the longest of each take, gaps included", "Beyond the longest", "可节省")
    bound: str = field("`host` where gaps are more than 60 % of it, else `memory`", "Bound by", "受限于", kind="word")


@per_rank(Unfused, needs={"kernel": _KERNEL})
def unfused_of(rank: RankTables) -> tuple[Unfused, ...]:
    """The unfused patterns of a rank, the costliest first."""
    return unfused(rank.rank, rank.once(_rows_of))


@per_rank(Repeated, needs={"kernel": _KERNEL})
def repeated_of(rank: RankTables) -> tuple[Repeated, ...]:
    """The repeated sequences of short kernels of a rank, the costliest first."""
    return repeated(rank.rank, rank.once(_rows_of))


def _rows_of(rank: RankTables) -> pl.DataFrame:
    return in_order(rank.table("kernel"))


def in_order(kernel: pl.DataFrame) -> pl.DataFrame:
    """Compute kernels with an operator, by stream and start; one call's kernels become one row with the longest's name.

    Clears and generators of random numbers, which no fusion includes, are left out.
    """
    rows = kernel.filter((pl.col("component") == "compute") & pl.col("type").is_not_null())
    if rows["step"].is_not_null().any():
        rows = rows.filter(pl.col("step").is_not_null())
    rows = rows.filter(~pl.col("type").is_in(["MemSet", "aten::zero_", "aten::fill_"])).sort(
        "stream", "start_ns", "kernel_id"
    )
    rows = rows.head(_MOST_KERNELS)
    if rows["call"].is_null().all():
        return rows.with_columns((pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns"))
    one = pl.coalesce("call", -1 - pl.col("kernel_id")).rle_id()
    return (
        rows.group_by("stream", one.alias("one"), maintain_order=True)
        .agg(
            *(
                pl.col(name).get(pl.col("dur_ns").arg_max())
                for name in ("type", "unit", "input_shapes", "step", "kernel_id")
            ),
            pl.col("start_ns").min(),
            (pl.col("start_ns") + pl.col("dur_ns")).max().alias("end_ns"),
            pl.col("dur_ns").sum(),
        )
        .drop("one")
    )


def unfused(rank: int, rows: pl.DataFrame) -> tuple[Unfused, ...]:
    """The named patterns among kernels in the form of `in_order`."""
    if not rows.height:
        return ()
    letters = _letters(rows)
    durations, types = rows["dur_ns"].to_numpy(), rows["type"].to_list()
    moving = np.array([operator_of(name).kind in ("elementwise", "reduction") for name in types])
    taken = np.zeros(len(letters), dtype=bool)
    found = []
    for fusion in FUSIONS:
        spans = [
            (start, end)
            for start, end in (match.span() for match in re.finditer(fusion.pattern, letters))
            if not taken[start:end].any()
        ]
        if not spans:
            continue
        for start, end in spans:
            taken[start:end] = True
        found.append(_unfused(rank, fusion.name, spans, letters, durations, types, moving))
    return tuple(sorted(found, key=lambda one: (-one.saved_ns, one.pattern)))


def _letters(rows: pl.DataFrame) -> str:
    """One letter per kernel, with a stop between streams; only a sum with a vector counts as a bias."""
    known = {name: kernel_letter(name) for name in rows["type"].unique().to_list()}
    letters: list[str] = rows["type"].replace_strict(known, return_dtype=pl.String).to_list()
    shapes = rows["input_shapes"]
    for place, letter in enumerate(letters):
        if letter == "+" and _is_bias(shapes[place]):
            letters[place] = "b"
    streams = rows["stream"].to_numpy(allow_copy=True) if rows["stream"].null_count() == 0 else None
    if streams is not None:
        for place in np.flatnonzero(np.diff(streams)).tolist():
            # The last kernel of a stream is no neighbour of the next stream's first kernel.
            letters[place] = OTHER
    return "".join(letters)


def _is_bias(shapes: str | None) -> bool:
    """Whether one of two summands is a vector as long as the other's last axis."""
    parts = [part.split(",") for part in (shapes or "").split(";") if part]
    if len(parts) < 2:
        return False
    one, other = sorted(parts[:2], key=len)
    return len(one) == _ONE_BIAS and len(other) > 1 and one[0] == other[-1] != "1"


def _unfused(
    rank: int, name: str, spans: Sequence[tuple[int, int]], letters: str, durations: NDArray[np.int64],
    types: Sequence[str], moving: NDArray[np.bool_],
) -> Unfused:  # fmt: skip
    between = name.startswith(("convolution", "product"))
    whole = saved = light = broken_ns = 0
    forms: dict[tuple[str, ...], int] = {}
    breakers: dict[str, int] = {}
    for start, end in spans:
        here = durations[start:end]
        own = [place for place in range(start, end) if not (between and letters[place] in BREAKERS)]
        whole += int(here.sum())
        saved += int(here.sum() - here.max())
        light += int(here[moving[start:end]].sum())
        form = tuple(types[place] for place in own)
        forms[form] = forms.get(form, 0) + 1
        for place in set(range(start, end)) - set(own):
            breakers[types[place]] = breakers.get(types[place], 0) + 1
            broken_ns += int(durations[place])
    most = max(sorted(forms), key=lambda form: forms[form])
    return Unfused(
        rank=rank, pattern=name, operators=" ".join(most), calls=len(spans), ns=whole, saved_ns=saved, moving_ns=light,
        broken=", ".join(sorted(breakers, key=lambda one: -breakers[one])[:3]), broken_ns=broken_ns,
    )  # fmt: skip


def repeated(rank: int, rows: pl.DataFrame) -> tuple[Repeated, ...]:
    """The repeated sequences of short kernels among kernels in the form of `in_order`."""
    if not rows.height:
        return ()
    light = pl.col("type").replace_strict(
        {name: operator_of(name).kind in _MOVING for name in rows["type"].unique().to_list()}, return_dtype=pl.Boolean
    )
    fits = rows.select((light & (pl.col("dur_ns") <= _SHORT_NS)).fill_null(value=False).alias("fits"))["fits"]
    ids = rows["type"].rank("dense").cast(pl.Int64).to_numpy()
    free = fits.to_numpy().copy()
    found: list[Repeated] = []
    for length in range(_LONGEST, _SHORTEST - 1, -1):
        for starts in _again(ids, free, length):
            found.append(_sequence(rank, rows, starts, length))
            for start in starts:
                free[start : start + length] = False
    return tuple(sorted(found, key=lambda one: (-one.saved_ns, one.operators))[:_MOST])


def _again(ids: NDArray[np.int64], free: NDArray[np.bool_], length: int) -> Iterator[list[int]]:
    """The begins of each sequence of a length that occurs often enough at free indices, without overlaps."""
    count = len(ids) - length + 1
    if count <= 0:
        return
    open_ = np.cumsum(np.concatenate([[0], free]))
    whole = open_[length:] - open_[:-length] == length
    places = np.flatnonzero(whole)
    if len(places) < _AT_LEAST:
        return
    hashed = np.zeros(count, dtype=np.int64)
    for place in range(length):
        # Sums wrap around; two rows of one value are told apart by more than 60 bits.
        hashed = hashed * _PRIME + ids[place : place + count]
    _, kind, counts = np.unique(hashed[places], return_inverse=True, return_counts=True)
    for wanted in np.flatnonzero(counts >= _AT_LEAST):
        starts: list[int] = []
        for start in places[kind == wanted].tolist():
            if (not starts or start >= starts[-1] + length) and free[start : start + length].all():
                starts.append(start)
        if len(starts) >= _AT_LEAST:
            yield starts


def _sequence(rank: int, rows: pl.DataFrame, starts: Sequence[int], length: int) -> Repeated:
    durations = rows["dur_ns"].to_numpy()
    begin, end = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    first = np.array(starts)
    inside = durations[first[:, None] + np.arange(length)]
    wall = int((end[first + length - 1] - begin[first]).sum())
    whole = int(inside.sum())
    names = rows["type"].slice(starts[0], length).to_list()
    return Repeated(
        rank=rank, operators=" ".join(names), length=length, calls=len(starts), ns=whole, wall_ns=wall,
        saved_ns=max(0, wall - int(inside.max(axis=1).sum())), bound="host" if whole < _HOST * wall else "memory",
    )  # fmt: skip


_HOST = 0.4
"""The share of a row's time below which its kernels show a wait for the host (advisor of msprof-analyze)."""
