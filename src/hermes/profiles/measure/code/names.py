"""From which function of the user's the time of each name comes: of operators, kernels, other calls, kinds of calls."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from hermes.base.nesting import enclosing
from hermes.knowledge.host_work import EVENTS, GC
from hermes.knowledge.user_code import frame_of
from hermes.model.code_measures import NamedLine
from hermes.profiles.measure.code.attribution import BACKWARD, PYTHON, WAIT, Attribution, attribution_of
from hermes.profiles.measure.code.samples import Seen, seen_of
from hermes.profiles.measure.host.calls import outermost
from hermes.profiles.measure.registry import RankTables, per_rank

_NAMED = 40
_AFTER_NS = 1_000_000
"""So soon behind the end of a pause a look tells where the thread stood in it."""
_PATTERNS = tuple((what, re.compile(pattern)) for what, pattern in EVENTS.items())


@per_rank(NamedLine, needs={"host_op": ("kind", "name", "pid", "tid", "start_ns", "dur_ns", "self_ns")})
def names_of(rank: RankTables) -> tuple[NamedLine, ...]:
    """The names of a rank that take most, each with the function from which most of it comes."""
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
    seen: Seen | None

    def names(self) -> Iterator[NamedLine]:
        """Operators, framework's and other calls, and kernels; of each kind those that take most."""
        # Sums of millions of rows, of which no copy is made.
        host = self.found.parts.lazy().filter((pl.col("name") != "") & (pl.col("kind") != "gap"))
        ops, calls = host.filter(pl.col("kind") == "op"), host.filter(pl.col("kind") != "op")
        yield from self._of("operator", ops, self._seen_in(ops))
        yield from self._of("call", calls.filter(pl.col("what") != PYTHON), {})
        yield from self._of("call", calls.filter(pl.col("what") == PYTHON), {})
        yield from self._of("kernel", self.found.device.lazy().rename({"label": "owner"}), {})

    def events(self, host_op: pl.DataFrame, gc: pl.DataFrame) -> Iterator[NamedLine]:
        """Kinds of calls: at the function that makes the outermost of them."""
        known = {name: [what for what, one in _PATTERNS if one.search(name.lower())] for name in _names(host_op)}
        # Few of many rows are events: they are looked for once.
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
        yield from self._of("event", waits.with_columns(pl.lit("waiting for the device").alias("name")), {})

    def _event(self, what: str, rows: pl.DataFrame, line: str = "") -> Iterator[NamedLine]:
        # A call that tells what it is may be a function of the user's itself; a collection begins inside of one.
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
        """The line at which pauses that keep the interpreter to themselves were seen: in them or as they ended."""
        if self.seen is None or not pauses.height or not self.seen.moments.height:
            return ""
        longer = pauses.with_columns(pl.col("dur_ns") + _AFTER_NS)
        looks = self.seen.moments.join(self.found.loop, how="cross")
        at = enclosing(longer, looks)
        shares = {place: int(pauses["dur_ns"][place]) for place in at.drop_nulls().unique()}
        told: Counter[str] = Counter()
        # Of a pause the first look at or behind its end tells; what comes later has gone on.
        for place, line in zip(at.to_list(), looks["line"].to_list(), strict=True):
            if place in shares:
                told[line] += shares.pop(place)
        line, ns = next(iter(told.most_common(1)), ("", 0))
        frame = frame_of(line) if line and 2 * ns >= int(pauses["dur_ns"].sum()) else None
        return frame.said if frame else ""

    def _seen_in(self, ops: pl.LazyFrame) -> dict[str, str]:
        """By operator the line at which the thread was seen most while it ran, forward ones of one function."""
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
