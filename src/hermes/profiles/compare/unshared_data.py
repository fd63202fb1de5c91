"""Finds differences that make two runs incomparable: ranks, steps, kinds of data, operators, and gaps of either input.

Two runs can be called equally fast, or one the faster, only if they share everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from hermes.base.message import Message
from hermes.model.comparison import TimeChange
from hermes.profiles.compare import messages
from hermes.profiles.compare.run import ComparedRun

_NAMED = 3
_SAID = 4


def unshared_data_notes(
    before: ComparedRun, after: ComparedRun, parts: Sequence[TimeChange], names: Mapping[str, Sequence[TimeChange]]
) -> Iterator[Message]:
    """Messages on all that one of two runs lacks, most important first; `parts` and `names` are the compared times."""
    sides = ((messages.BEFORE, before, after), (messages.AFTER, after, before))
    for side, run, _ in sides:
        yield from (messages.incomplete(side=side, what=what) for what in dict.fromkeys(run.lacks))
    for side, run, other in sides:
        if gone := set(run.ranks) - set(other.ranks):
            yield messages.only_ranks(side=side, ranks=gone)
    yield from _steps(before, after)
    yield from _kinds(before, after, parts)
    key = _work(before, after)
    if key:
        yield from _operators(before, after, key, names.get(key, ()))


def comparison_answer(lacking: Sequence[Message], step: TimeChange) -> Message:
    """The first sentence of a comparison: what the runs do not share, else whether the step takes equally long."""
    if lacking:
        said = lacking if len(lacking) <= _SAID else lacking[: _SAID - 1]
        left = len(lacking) - len(said)
        return messages.not_all(what=(*said, messages.more(n=left)) if left else said)
    change, margin = step.change_ns, step.margin_ns
    if change is None or margin is None:
        return messages.NOT_KNOWN
    if step.verdict == "no change seen":
        return messages.as_fast(change=abs(change), margin=margin)
    share = abs(change) / step.before_ns if step.before_ns else None
    said_so = messages.slower if step.verdict == "more" else messages.faster
    return said_so(change=abs(change), margin=margin, share=share)


def _steps(before: ComparedRun, after: ComparedRun) -> Iterator[Message]:
    counts: dict[tuple[int, int], list[int]] = {}
    old, new = before.steps_by_rank, after.steps_by_rank
    for rank in set(before.ranks) & set(after.ranks):
        pair = old.get(rank, 0), new.get(rank, 0)
        if pair[0] != pair[1]:
            counts.setdefault(pair, []).append(rank)
    for (first, second), ranks in sorted(counts.items()):
        yield messages.steps_of(ranks=ranks, before=messages.steps(n=first), after=messages.steps(n=second))


def _kinds(before: ComparedRun, after: ComparedRun, parts: Sequence[TimeChange]) -> Iterator[Message]:
    """Messages on tables that only one run has filled, and on parts of the step that only one run has measured."""
    has = {key: (before.names[key].height > 0, after.names[key].height > 0) for key in before.names}
    has |= {part.name: (part.before_ns is not None, part.after_ns is not None) for part in parts}
    for key, (old, new) in has.items():
        if old != new:
            yield messages.only_kind(side=messages.BEFORE if old else messages.AFTER, kind=messages.KINDS[key])


def _work(before: ComparedRun, after: ComparedRun) -> str:
    """The table whose names say what work was done: the device's operators, else the host's, if both runs have it."""
    both = [key for key in ("operators", "host") if all(_called(run, key) for run in (before, after))]
    return both[0] if both else ""


def _operators(before: ComparedRun, after: ComparedRun, key: str, changes: Sequence[TimeChange]) -> Iterator[Message]:
    old, new = _called(before, key), _called(after, key)
    every = old.keys() | new.keys()
    for side, own, other in ((messages.BEFORE, old, new), (messages.AFTER, new, old)):
        if gone := _largest({name: ns for name, ns in own.items() if name not in other}):
            yield messages.only_operators(side=side, count=len(gone), of=len(every), names=gone[:_NAMED])
    common = old.keys() & new.keys()
    differ = {
        (one.kind, one.name): max(one.before_ns or 0, one.after_ns or 0)
        for one in changes
        if (one.kind, one.name) in common and not one.is_called_as_often
    }
    if differ:
        names = _largest(differ)
        yield messages.other_calls(count=len(names), of=len(every), names=names[:_NAMED])


def _called(run: ComparedRun, key: str) -> dict[tuple[str, str], int]:
    """The time in ns of each operator by kind and name; of the host, only calls that are framework operators."""
    rows = run.names.get(key)
    if rows is None:
        return {}
    own = rows.filter(pl.col("kind") == "op") if key == "host" else rows
    marks = {split.step for split in run.marked if split.step is not None}
    own = own.filter(pl.col("step").is_in(sorted(marks))) if marks else own
    return {(kind, name): ns for kind, name, ns in own.group_by("kind", "name").agg(pl.col("ns").sum()).iter_rows()}


def _largest(times: Mapping[tuple[str, str], int]) -> list[str]:
    """The names of a table, longest time first."""
    return [name for _, name in sorted(times, key=lambda pair: (-times[pair], pair))]
