"""Finds the user's function behind each operator, kernel and other call: the function with most of its time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from hermes.base.enclosing_calls import enclosing
from hermes.knowledge.host_work import EVENTS, GC, WAITING
from hermes.knowledge.user_code import frame_of
from hermes.model.code_measures import NamedLine
from hermes.profiles.measure.code.line_samples import LineSamples, seen_of
from hermes.profiles.measure.code.time_attribution import BACKWARD, PYTHON, WAIT, Attribution, attribution_of
from hermes.profiles.measure.host.select_host_calls import outermost
from hermes.profiles.measure.registry import RankTables, per_rank

_NAMED = 40
_AFTER_NS = 1_000_000
"""The time in ns after a pause within which a sample still shows where the thread stood in the pause."""
_PATTERNS = tuple((what, re.compile(pattern)) for what, pattern in EVENTS.items())


@per_rank(
    NamedLine,
    needs={"host_op": ("kind", "name", "pid", "tid", "start_ns", "dur_ns", "self_ns")},
    beside=("sample",),
)
def names_of(rank: RankTables) -> tuple[NamedLine, ...]:
    """The operators, calls and kernels of a rank with most time, each with the function from which most of it comes."""
    found = rank.once(attribution_of)
    if found is None:
        return ()
    seen = rank.once(seen_of)
    made = _Index(rank=rank.rank, found=found, seen=seen.among(found.owners.labels) if seen else None)
    return tuple((*made.names(), *made.events(rank.table("host_op"), rank.table("gc"))))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Index:
    rank: int
    found: Attribution
    seen: LineSamples | None

    def names(self) -> Iterator[NamedLine]:
        """Operators, calls of the framework, other calls, and kernels; of each kind those with most time."""
        # Sums over millions of rows, without a copy of the rows.
        host = self.found.parts.lazy().filter((pl.col("name") != "") & (pl.col("kind") != "gap"))
        ops, calls = host.filter(pl.col("kind") == "op"), host.filter(pl.col("kind") != "op")
        yield from self._of("operator", ops, self._seen_in(ops))
        yield from self._of("call", calls.filter(pl.col("what") != PYTHON), {})
        yield from self._of("call", calls.filter(pl.col("what") == PYTHON), {})
        yield from self._of("kernel", self.found.device.lazy().rename({"label": "owner"}), {})

    def events(self, host_op: pl.DataFrame, gc: pl.DataFrame) -> Iterator[NamedLine]:
        """Kinds of calls, such as compilation, each at the function that makes the outermost call of the kind."""
        known = {name: [what for what, one in _PATTERNS if one.search(name.lower())] for name in _names(host_op)}
        # Only few of many rows are such events: they are searched once.
        told = host_op.filter(pl.col("name").is_in([name for name, whats in known.items() if whats]))
        told = told.join(self.found.loop, on=["pid", "tid"], how="semi")
        for what in EVENTS:
            names = [name for name, whats in known.items() if what in whats]
            if names:
                yield from self._event(what, outermost(told.filter(pl.col("name").is_in(names))))
        if gc.height:
            pauses = gc.select("start_ns", "dur_ns").join(self.found.loop, how="cross")
            yield from self._event(GC, pauses, self._seen_after(pauses))
        waits = self.found.parts.lazy().filter(pl.col("what") == WAIT)
        yield from self._of("event", waits.with_columns(pl.lit(WAITING).alias("name")), {})

    def _event(self, what: str, rows: pl.DataFrame, line: str = "") -> Iterator[NamedLine]:
        # A call with a telling name may itself be a user's function; a garbage collection begins inside one.
        label, _ = self.found.owners.of(rows.with_columns(pl.col("start_ns") + (1 if what == GC else -1)))
        owned = rows.select(pl.lit(what).alias("name"), pl.Series("owner", label), pl.col("dur_ns").alias("ns"))
        yield from self._of("event", owned.lazy(), {what: line} if line else {})

    def _of(self, kind: str, rows: pl.LazyFrame, seen_in: dict[str, str]) -> Iterator[NamedLine]:
        sums = rows.group_by("name", "owner").agg(pl.col("ns").sum()).collect()
        whole = sums.group_by("name").agg(pl.col("ns").sum().alias("whole"))
        whole = whole.sort("whole", "name", descending=[True, False]).head(_NAMED)
        first = sums.filter(pl.col("owner") >= 0).sort("ns", "owner", descending=[True, False])
        first = first.unique("name", keep="first", maintain_order=True)
        steps = len(self.found.bounds)
        for name, all_ns, owner, ns in whole.join(first, on="name", maintain_order="left").iter_rows():
            label = self.found.owners.labels[owner]
            frame = frame_of(label)
            if frame is None or all_ns <= 0:
                continue
            line = self.seen.line_of(label) if self.seen else None
            said = seen_in.get(name) or (f"{line} `{frame.function}`" if line else frame.said)
            yield NamedLine(
                rank=self.rank, kind=kind, name=name, line=said, ns=ns // steps, share=min(ns / all_ns, 1.0),  # type: ignore[arg-type]
            )  # fmt: skip

    def _seen_after(self, pauses: pl.DataFrame) -> str:
        """The line at which garbage collections were sampled most: during a pause, or as it ended."""
        if self.seen is None or not pauses.height or not self.seen.moments.height:
            return ""
        longer = pauses.with_columns(pl.col("dur_ns") + _AFTER_NS)
        looks = self.seen.moments.join(self.found.loop, how="cross")
        at = enclosing(longer, looks)
        shares = {place: int(pauses["dur_ns"][place]) for place in at.drop_nulls().unique()}
        told: Counter[str] = Counter()
        # The first sample at or after a pause's end counts for it; later samples show later code.
        for place, line in zip(at.to_list(), looks["line"].to_list(), strict=True):
            if place in shares:
                told[line] += shares.pop(place)
        line, ns = next(iter(told.most_common(1)), ("", 0))
        frame = frame_of(line) if line and 2 * ns >= int(pauses["dur_ns"].sum()) else None
        return frame.said if frame else ""

    def _seen_in(self, ops: pl.LazyFrame) -> dict[str, str]:
        """For each operator, the line at which the thread was sampled most while it ran; forward operators only."""
        if self.seen is None:
            return {}
        lanes = ops.filter(pl.col("what") != BACKWARD).join(self.found.loop.lazy(), how="cross").collect()
        looks = self.seen.moments.join(self.found.loop, how="cross")
        at = enclosing(lanes, looks)
        counts: dict[str, Counter[str]] = {}
        for place, line in zip(at.to_list(), looks["line"].to_list(), strict=True):
            if place is not None:
                counts.setdefault(str(lanes["name"][place]), Counter())[line] += 1
        return {name: frame.said for name, own in counts.items() if (frame := frame_of(own.most_common(1)[0][0]))}


def _names(host_op: pl.DataFrame) -> list[str]:
    return [str(name) for name in host_op["name"].unique()]
