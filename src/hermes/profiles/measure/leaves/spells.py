"""Cuts the steps of a rank into spells at the last arrivals at its operations, and tells which of its waits bind.

A path through the ranks enters and leaves a rank at such arrivals (`tree/path_of_waits.py`). Sums of leaves by spell
are all that the path needs to know of a rank's time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from hermes.profiles.measure.leaves.call_trees import CallTrees
from hermes.profiles.measure.leaves.nesting import NONE, Bools, Ints
from hermes.profiles.measure.leaves.tasks import Tasks
from hermes.profiles.measure.steps.step_window import Windows

MOST_SPELLS = 4_096
"""The most arrivals at which the steps of a rank are cut: those after the longest waits."""


MOST_SUMS = 16_384
"""The most sums that a rank sends. With more, neighbouring spells are merged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSpells:
    """The leaves of a rank by spell, all moments on the clock of the rank.

    `steps` has `step` (-1 without marks), `start_ns` and `end_ns`. `starts` has the `start_ns` of each spell, in order.
    `sums` has `spell`, `row` (an index into the leaves of the rank) and `ns`. `binding` has the `comm_id` of each
    operation whose wait binds.
    """

    steps: pl.DataFrame
    starts: pl.DataFrame
    sums: pl.DataFrame
    binding: pl.DataFrame


def is_sound(spells: RankSpells, rows: int) -> bool:
    """Whether the sums are of existing spells and of this many leaves: another machine may have sent anything."""
    told = (
        (spells.steps, ["step", "start_ns", "end_ns"]), (spells.starts, ["start_ns"]),
        (spells.sums, ["spell", "row", "ns"]), (spells.binding, ["comm_id"]),
    )  # fmt: skip
    for frame, names in told:
        if frame.columns != names:
            return False
        if any(not column.dtype.is_integer() or column.has_nulls() for column in frame.get_columns()):
            return False
    starts, begin, end = (
        column.to_numpy() for column in (spells.starts["start_ns"], spells.steps["start_ns"], spells.steps["end_ns"])
    )
    if not (len(begin) and len(starts) and (starts[1:] >= starts[:-1]).all() and (end > begin).all()):
        return False
    return all(_is_below(spells.sums[name].to_numpy(), many) for name, many in (("row", rows), ("spell", len(starts))))


def _is_below(indices: Ints, many: int) -> bool:
    return not len(indices) or bool(indices.min() >= 0 and indices.max() < many)


def rank_spells(windows: Windows, spells: Windows, parts: pl.DataFrame, bound: pl.Series) -> RankSpells:
    """The sums by spell of a rank; `parts` has `spell`, `row` and `ns`, and `bound` are the numbers of operations."""
    start, sums = spells.start, _sums(parts)
    while sums.height > MOST_SUMS and len(start) > 1:
        width = -(-sums.height // MOST_SUMS)
        start, sums = start[::width], _sums(sums.with_columns(pl.col("spell") // width))
    return RankSpells(
        steps=pl.DataFrame({"step": windows.step, "start_ns": windows.start, "end_ns": windows.end}),
        starts=pl.DataFrame({"start_ns": start}),
        sums=sums,
        binding=pl.DataFrame({"comm_id": bound}),
    )


def _sums(parts: pl.DataFrame) -> pl.DataFrame:
    sums = parts.group_by("spell", "row").agg(pl.col("ns").sum()).sort("spell", "row")
    return sums.select(pl.col("spell", "row").cast(pl.Int32), "ns")


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """The wait of each row of `comm_op`: its end (its start if it did not wait), the awaited rank, if known."""

    ns: Ints
    until: Ints
    last: Ints
    split: Bools

    @classmethod
    def of(cls, comm_op: pl.DataFrame, waits: pl.DataFrame) -> Waits:
        """The waits in the order of the table `comm_op`."""
        rows = comm_op.select("comm_id", "start_ns").join(waits, on="comm_id", how="left", maintain_order="left")
        ns = rows["wait_ns"].fill_null(0)
        return cls(
            ns=ns.to_numpy(), until=(rows["start_ns"] + ns).to_numpy(),
            last=rows["last"].cast(pl.Int64).fill_null(NONE).to_numpy(),
            split=rows["split"].fill_null(value=False).to_numpy(),
        )  # fmt: skip


def spells_of(windows: Windows, waits: Waits) -> Windows:
    """The steps cut at the last arrivals; `step` is the index of the step that a spell is a part of."""
    if not len(windows):
        return windows
    known = np.flatnonzero(waits.split & (waits.until > windows.start[0]) & (waits.until < windows.end[-1]))
    longest = known[np.argsort(-waits.ns[known], kind="stable")[:MOST_SPELLS]]
    start = np.union1d(windows.start, waits.until[longest])
    step = windows.of(start)
    return Windows(step=step, start=start, end=np.minimum(np.append(start[1:], windows.end[-1]), windows.end[step]))


def binding(comm: Ints, end: Ints, waits: Waits, tasks: Tasks, done: Ints, host: tuple[CallTrees, int]) -> Ints:
    """The operations, of those in `comm`, whose exposed waits end at `end` and bind what the rank does next.

    A wait binds if it is exposed up to the last arrival, and if the rank's own host was not late. The host was late if
    it launched the device's next task only after the operation was `done`, and did not wait for the device meanwhile.
    `host` are the calls and the stepping thread.
    """
    found: Ints = np.unique(comm[(end == waits.until[comm]) & (waits.ns[comm] > 0)])
    if not len(tasks) or not len(found):
        return found
    calls, main = host
    at = np.searchsorted(tasks.start, done[found])
    known = at < len(tasks)
    at = np.minimum(at, len(tasks) - 1)
    late = known & (tasks.call_ns[at] != NONE) & (tasks.call_ns[at] > done[found])
    thread = np.where(tasks.thread[at] != NONE, tasks.thread[at], main)
    asks = np.flatnonzero(late & (thread != NONE))
    who = calls.innermost(calls.axis.at(thread[asks], done[found[asks]] - 1))
    late[asks[who != NONE]] = ~calls.waiting[who[who != NONE]]
    bound: Ints = found[~late]
    return bound
