"""Finds names, lines of code and awaited ranks for the parts of a rank's time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from hermes.knowledge.kernel_names import plain_kernel_name
from hermes.knowledge.leaf_names import leaf_of_operator
from hermes.knowledge.user_code import frame_of
from hermes.model.leaf import HOST_WAITS, Leaf
from hermes.model.leaf_time import How
from hermes.profiles.measure.leaves.call_trees import IN_UPDATE, NUMBER, CallTrees
from hermes.profiles.measure.leaves.encode_texts import coded
from hermes.profiles.measure.leaves.labelled_stretches import cut_at
from hermes.profiles.measure.leaves.leaf_stretches import AT, LeafStretches
from hermes.profiles.measure.leaves.nesting import NONE, Ints
from hermes.profiles.measure.leaves.sampled_lines import SampledLines
from hermes.profiles.measure.leaves.spells import Waits
from hermes.profiles.measure.leaves.tasks import PARTS, Tasks
from hermes.profiles.measure.steps.step_window import Windows

_HOST_WAITS = [NUMBER[leaf] for leaf in HOST_WAITS]
LEAF = ["leaf", "how", "what", "place", "awaited"]
SCHEMA = {
    "spell": pl.Int64, "leaf": pl.Int64, "how": pl.Int64, "what": pl.String, "place": pl.String,
    "awaited": pl.Int64, "ns": pl.Int64,
}  # fmt: skip


def sum_by_place(rows: pl.DataFrame) -> pl.DataFrame:
    """Sum the rows by spell, leaf, operator, place and awaited rank."""
    return rows.group_by(["spell", *LEAF], maintain_order=True).agg(pl.col("ns").sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """Stretches of tasks: the index of each task, its begin and its length in ns."""

    task: Ints
    start: Ints
    ns: Ints


class LeafSites:
    """Finds, for parts of a rank's time, the operator's name and the line, and sums the parts by spell.

    `spells` cut the steps at moments that other ranks know: see `spells.py`.
    """

    def __init__(
        self, calls: CallTrees, spells: Windows, kernel: pl.DataFrame, comm_op: pl.DataFrame, samples: pl.DataFrame
    ) -> None:
        self._samples = SampledLines(samples, calls.lines, calls.opened)
        self.calls, self._spells, self._kernels = calls, spells, kernel.height
        self._about = _about(kernel, comm_op)
        self._codes = [coded(self._about[name])[1] for name in ("name", "type", "unit")]

    def _cut(self, start: Ints, ns: Ints) -> tuple[Ints | slice, Ints, Ints]:
        """Stretches cut at the spells: for each piece the index of its stretch, its length and its spell."""
        spell = self._spells.of(start)
        if (self._spells.of(start + np.maximum(ns, 1) - 1) == spell).all():
            return slice(None), ns, spell
        pieces = cut_at(start, start + ns, self._spells.start[1:])
        return pieces.of, pieces.lengths, self._spells.of(pieces.start)

    def frame(self, parts: LeafStretches) -> pl.DataFrame:
        """The time of each leaf by spell, operator and line of code, as a frame."""
        keep = np.flatnonzero(parts.ns > 0)
        start, ns = parts.start[keep], parts.ns[keep]
        leaf, place = parts.leaf[keep], self._place_of(parts.site[keep])
        what = self._told(parts.what[keep], leaf)
        of, length, spell = self._cut(start, ns)
        rows = {
            "spell": spell, "leaf": leaf[of], "how": parts.how[keep][of], "what": self._name_of(what)[of],
            "place": place[of], "ns": length,
        }  # fmt: skip
        # Look up names for the sums, which are few.
        sums = pl.DataFrame(rows).group_by("spell", "leaf", "how", "what", "place", maintain_order=True)
        told = sums.agg(pl.col("ns").sum())
        seen = self._samples.within(start, ns, leaf)
        sites = told.select("leaf", "place")
        known = {pair: seen.line_of(*pair) for pair in sites.unique().iter_rows()}
        lines = [known[pair] for pair in sites.iter_rows()]
        told = told.with_columns(
            *(self._said(told[name].to_numpy()).alias(name) for name in ("what", "place")), awaited=pl.lit(NONE)
        )
        told = told.with_columns(place=pl.coalesce(pl.Series(lines, dtype=pl.String), "place"))
        return sum_by_place(told.select(pl.col(name).cast(kind) for name, kind in SCHEMA.items()))

    def longest(self, parts: LeafStretches, most: int) -> pl.DataFrame:
        """The `most` longest runs of one leaf in a gap, by time: `start_ns`, `ns`, `leaf`, `what` and `place`.

        A run has the name and the place of its longest part.
        """
        order = np.lexsort((parts.start, parts.of))
        parts = parts.at(order[parts.ns[order] > 0])
        apart = (np.diff(parts.of) != 0) | (np.diff(parts.leaf) != 0)
        apart |= parts.start[1:] != (parts.start + parts.ns)[:-1]
        first = np.flatnonzero(np.append(len(parts) > 0, apart))
        ns = np.add.reduceat(parts.ns, first) if len(first) else parts.ns
        chosen = np.sort(np.argsort(-ns, kind="stable")[:most])
        run = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(parts))))
        # Sorted by length within each run, the first part of a run is its longest.
        best = parts.at(np.lexsort((-parts.ns, run))[first[chosen]])
        return pl.DataFrame({
            "start_ns": parts.start[first[chosen]], "ns": ns[chosen], "leaf": best.leaf.astype(np.int64),
            "what": self._said(self._name_of(self._told(best.what, best.leaf))), "place": self.place(best.site),
        })  # fmt: skip

    def waits(self, tasks: Tasks, own: Spans, comm_op: pl.DataFrame, waits: Waits) -> pl.DataFrame:
        """The time by spell and place of stretches in which tasks wait for another rank."""
        comm = tasks.comm[own.task]
        return self._of_operations(
            comm_op, comm, leaf=np.full(len(comm), NUMBER[Leaf.WAIT]), awaited=waits.last[comm],
            place=self.place(self._issue(tasks, own.task)), start=own.start, ns=own.ns,
        )  # fmt: skip

    def operations(self, parts: LeafStretches, comm_op: pl.DataFrame, waits: Waits) -> pl.DataFrame:
        """The sums for stretches in which the CPU only executes an operation: the operation with index `what`."""
        comm = parts.what
        waited = np.where(waits.split[comm], np.clip(waits.until[comm] - parts.start, 0, parts.ns), 0)
        moved = np.where(waits.split[comm], NUMBER[Leaf.TRANSFER], NUMBER[Leaf.COMMUNICATION])
        place = self.place(parts.site)
        both = (
            (np.full(len(parts), NUMBER[Leaf.WAIT]), parts.start, waited, waits.last[comm]),
            (moved, parts.start + waited, parts.ns - waited, np.full(len(parts), NONE)),
        )
        return pl.concat(
            self._of_operations(comm_op, comm, leaf=leaf, awaited=awaited, place=place, start=start, ns=ns).filter(
                pl.col("ns") > 0
            )
            for leaf, start, ns, awaited in both
        )

    def _of_operations(
        self, comm_op: pl.DataFrame, comm: Ints, *, leaf: Ints, awaited: Ints, place: pl.Series, start: Ints, ns: Ints,
    ) -> pl.DataFrame:  # fmt: skip
        """The sums of stretches of operations; `comm` are the operations' indices in their table."""
        of, length, spell = self._cut(start, ns)
        rows: dict[str, Any] = {
            "spell": spell, "leaf": leaf[of], "how": np.full(len(spell), AT[How.CALL]),
            "what": comm_op["op"].fill_null("")[comm[of]], "place": place[of], "awaited": awaited[of], "ns": length,
        }  # fmt: skip
        return sum_by_place(pl.DataFrame(rows, schema=SCHEMA))

    def _issue(self, tasks: Tasks, at: Ints) -> Ints:
        """The innermost call in which each task was issued."""
        moment = tasks.issue[at]
        return np.where(moment != NONE, self.calls.innermost(moment), NONE)

    def tasks(self, tasks: Tasks, own: Spans, waits: Waits) -> pl.DataFrame:
        """The time by leaf, spell and place of all other stretches of tasks."""
        of, length, spell = self._cut(own.start, own.ns)
        sums = (
            pl.DataFrame({"task": own.task[of], "spell": spell, "ns": length})
            .group_by("task", "spell", maintain_order=True)
            .agg(pl.col("ns").sum())
        )
        at = sums["task"].to_numpy()
        issue = self._issue(tasks, at)
        top = np.where(issue != NONE, self.calls.operator[np.maximum(issue, 0)], NONE) if len(self.calls) else issue
        row = np.where(tasks.kernel[at] != NONE, tasks.kernel[at], self._kernels + tasks.comm[at])
        name = self._name_of(top)
        first, number = _alike(tasks.part[at], *(codes[row] for codes in self._codes), name - NONE)
        about = self._about[row[first]].select(
            pl.Series("part", tasks.part[at[first]]), "name", "type", "unit", self._said(name[first]).alias("operator")
        )
        told = [(NUMBER[_leaf_of(*one)], one[2] or plain_kernel_name(one[1])) for one in about.iter_rows()]
        what = pl.Series([what for _, what in told], dtype=pl.String)[number]
        leaf = np.array([one for one, _ in told], dtype=np.int8)[number]
        if len(self.calls):
            leaf = np.where((issue != NONE) & self.calls.updating[np.maximum(issue, 0)], IN_UPDATE[leaf], leaf)
        untold = (tasks.comm[at] != NONE) & ~(waits.split[tasks.comm[at]] if len(waits.split) else False)
        rows = {
            "spell": sums["spell"], "leaf": np.where(untold, NUMBER[Leaf.COMMUNICATION], leaf),
            "how": np.full(len(at), AT[How.CALL]), "what": what, "place": self.place(issue),
            "awaited": np.full(len(at), NONE), "ns": sums["ns"],
        }  # fmt: skip
        return sum_by_place(pl.DataFrame(rows, schema=SCHEMA))

    def _told(self, calls: Ints, leaf: Ints) -> Ints:
        """The calls that name stretches: of a wait inside an operator that reads a number back, that operator."""
        if not len(self.calls):
            return calls
        reading = np.where(calls != NONE, self.calls.reading[np.maximum(calls, 0)], NONE)
        return np.where((reading != NONE) & np.isin(leaf, _HOST_WAITS), reading, calls)

    def _name_of(self, calls: Ints) -> Ints:
        """The name of each call, as an index into `lines`."""
        return np.where(calls != NONE, self.calls.name[np.maximum(calls, 0)], NONE) if len(self.calls) else calls

    def _said(self, lines: Ints) -> pl.Series:
        """The names at indices into `lines`; a Python frame becomes `file:line`."""
        codes = np.unique(lines)
        return pl.Series([self._name(code) for code in codes.tolist()], dtype=pl.String)[np.searchsorted(codes, lines)]

    def _name(self, code: int) -> str:
        name = self.calls.lines[code] if code != NONE else ""
        frame = frame_of(name)
        return frame.said if frame else name

    def place(self, calls: Ints) -> pl.Series:
        """The user's line that each call lies in, else the range, else the outermost operator."""
        return self._said(self._place_of(calls))

    def _place_of(self, calls: Ints) -> Ints:
        own = self.calls
        if not len(own):
            return calls
        at = np.maximum(calls, 0)
        call = np.where(own.range[at] != NONE, own.range[at], own.operator[at])
        name = np.where(call != NONE, own.name[np.maximum(call, 0)], NONE)
        line = np.where(own.line[at] != NONE, own.line[at], name)
        return np.where(calls != NONE, line, NONE)


def _about(kernel: pl.DataFrame, comm_op: pl.DataFrame) -> pl.DataFrame:
    """Name, type and unit of kernels, and after them of communication, whose type is the operation."""
    of_kernel = kernel.select(pl.col("name", "type", "unit").fill_null(""))
    of_comm = comm_op.select(
        pl.col("name").fill_null(""), pl.col("op").fill_null("").alias("type"), pl.lit("").alias("unit")
    )
    return pl.concat([of_kernel, of_comm])


def _alike(*columns: Ints) -> tuple[Ints, Ints]:
    """Group rows of several columns, none below 0, by value: the first index of each group, and each row's group."""
    kinds = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        _, kinds = np.unique(kinds * (int(column.max(initial=0)) + 1) + column, return_inverse=True)
    _, first, kinds = np.unique(kinds, return_index=True, return_inverse=True)
    return first, kinds


def _leaf_of(part: int, name: str, kind: str, unit: str, operator: str) -> Leaf:
    if PARTS[part] == "comm":
        return Leaf.TRANSFER
    if PARTS[part] == "copy":
        return Leaf.EXPOSED_COPY
    if unit == "ai_cpu":
        return Leaf.AI_CPU
    return leaf_of_operator(*(word for word in (kind, name, operator) if word))
