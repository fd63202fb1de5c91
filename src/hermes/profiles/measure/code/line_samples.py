"""Reads thread samples of Hermes' own capture: how often each line of the user's code ran, and the calls below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import polars as pl

from hermes.knowledge.host_settings import OWN_CODE
from hermes.knowledge.user_code import frame_of, is_own, own_line, works_for_hermes
from hermes.model.code_measures import SEEN_MOSTLY, CodeLine
from hermes.profiles.measure.host.select_host_calls import spans
from hermes.profiles.measure.registry import RankTables
from hermes.profiles.measure.steps.breakdown import typical_of

_SHOWN = 3
_LATE = 5
_SHORTEST_NS = 20_000_000
"""A sample later than `_LATE` usual intervals and `_SHORTEST_NS` stands for the whole interval before it."""
_LONGEST_NS = 2_000_000_000
"""The longest interval between samples, in ns, that a call can fill: in a longer one no samples were taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSamples:
    """How long each line was the innermost line of the user's code, in ns, by file and function.

    `moments` are the single samples: when (`start_ns`), the line of the user's code (`line`: `file(line): function`),
    if that is a comprehension, the line of the function around it (`named`), and the time for which the sample stands
    (`ns`). A late sample stands for all the time
    since the sample before. A call that holds the interpreter lock, such as a garbage collection, is sampled only at
    its end.
    """

    counts: Mapping[tuple[str, str], Counter[int]]
    step_ns: int
    moments: pl.DataFrame
    begins: Mapping[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)

    @property
    def every(self) -> int:
        """The time of all samples, in ns."""
        return sum(sum(own.values()) for own in self.counts.values())

    def _of(self, label: str) -> tuple[str, Counter[int]] | None:
        frame = frame_of(label)
        if frame is None:
            return None
        own = self.counts.get((frame.file, frame.function), Counter())
        # Functions of one name in a file are told apart by the line at which they begin.
        begins = self.begins.get((frame.file, frame.function), ())
        after = min((line for line in begins if line > frame.line), default=None)
        first = frame.line if frame.line in begins[1:] else 0
        kept = Counter({line: n for line, n in own.items() if line >= first and (after is None or line < after)})
        return (frame.place.rsplit(":", 1)[0], kept) if kept else None

    def among(self, labels: Iterable[str]) -> LineSamples:
        """The same samples, with the first lines of the recorded functions to tell functions of one name apart."""
        begins: dict[tuple[str, str], set[int]] = {}
        for frame in filter(None, map(frame_of, labels)):
            begins.setdefault((frame.file, frame.function), set()).add(frame.line)
        return replace(self, begins={key: tuple(sorted(lines)) for key, lines in begins.items()})

    def inside(self, label: str) -> tuple[tuple[str, float], ...]:
        """The lines inside a function that were sampled most, with their shares."""
        found = self._of(label)
        if found is None:
            return ()
        file, own = found
        many = sum(own.values())
        return tuple((f"{file}:{line}", count / many) for line, count in own.most_common(_SHOWN))

    def line_of(self, label: str) -> str | None:
        """The line that stands for a function; None if no line has most of its samples."""
        lines = self.inside(label)
        return lines[0][0] if lines and lines[0][1] >= SEEN_MOSTLY else None

    def as_lines(self, rank: int, ops: pl.DataFrame) -> tuple[CodeLine, ...]:
        """Rows from samples alone: how often a function was sampled, and how often while an operator ran.

        `ops` are the operators of the stepping thread. Samples before the capture met no operator, and count as the
        others do.
        """
        every = max(self.every, 1)
        in_ops = self._in_operators(ops)
        found = []
        for (file, function), own in self.counts.items():
            line, _ = own.most_common(1)[0]
            frame = frame_of(f"{file}({line}): {function}")
            if frame is None:
                continue
            ns = self.step_ns * sum(own.values()) // every
            operators = round(ns * in_ops.get((file, function), 0.0))
            found.append(
                CodeLine(
                    rank=rank, place=frame.place, function=function, calls=None, total_ns=None, own_ns=ns,
                    python_ns=ns - operators, framework_ns=0, operator_ns=operators, launch_ns=0, wait_ns=0,
                    backward_ns=0, device_ns=0, growth=None, caller="", loop="", names=(), within="", source="samples",
                    lines=self.inside(f"{file}({line}): {function}"),
                )
            )  # fmt: skip
        return tuple(sorted(found, key=lambda one: (-one.own_ns, one.place)))

    def _in_operators(self, ops: pl.DataFrame) -> dict[tuple[str, str], float]:
        """For each function, the share of its samples in the capture at which an operator ran."""
        if not ops.height:
            return {}
        starts = ops["start_ns"].to_numpy()
        first, last = int(starts.min()), int((starts + ops["dur_ns"].to_numpy()).max())
        looks = self.moments.filter((pl.col("start_ns") >= first) & (pl.col("start_ns") < last))
        when, at = spans(ops), looks["start_ns"].to_numpy()
        hits = when.lasted(at + 1) > when.lasted(at)
        seen: dict[tuple[str, str], list[bool]] = {}
        for line, hit in zip(looks["line"], hits.tolist(), strict=True):
            frame = frame_of(str(line))
            if frame is not None:
                seen.setdefault((frame.file, frame.function), []).append(hit)
        return {key: sum(own) / len(own) for key, own in seen.items()}


def seen_of(rank: RankTables) -> LineSamples | None:
    """The thread samples of a rank; None if no sample was taken."""
    sample = rank.data.table("sample", "ts_ns", "frames")
    if not sample.height:
        return None
    told = told_of(rank)
    stacks = {frames: str(frames).split("\n") for frames in sample["frames"].unique()}
    # A step of the job does not take the time in which Hermes begins or ends a capture.
    jobs_own = {frames: stack for frames, stack in stacks.items() if not works_for_hermes(stack, told)}
    lines = {
        frames: next((line.strip() for line in stack if is_own(line, told)), None) for frames, stack in jobs_own.items()
    }
    named = {frames: own_line(stack, told) or None for frames, stack in jobs_own.items()}
    line, function = (
        pl.col("frames").replace_strict(texts, default=None, return_dtype=pl.String).alias(name)
        for name, texts in (("line", lines), ("named", named))
    )
    since = pl.col("start_ns").diff()
    looks = sample.select(pl.col("ts_ns").alias("start_ns"), line, function).sort("start_ns", maintain_order=True)
    usual = since.median().fill_null(1).clip(1)
    late = (since > _LATE * usual) & since.is_between(_SHORTEST_NS, _LONGEST_NS)
    looks = looks.with_columns(pl.when(late).then(since).otherwise(usual).cast(pl.Int64).alias("ns"))
    moments = looks.drop_nulls("line")
    counts: dict[tuple[str, str], Counter[int]] = {}
    for own, ns in moments.group_by("line").agg(pl.col("ns").sum().cast(pl.Int64)).sort("line").iter_rows():
        frame = frame_of(str(own))
        if frame is not None:
            counts.setdefault((frame.file, frame.function), Counter())[frame.line] += ns
    split = rank.once(typical_of)
    return LineSamples(
        counts=counts, step_ns=split.window_ns if split else 0,
        moments=moments.select("start_ns", "line", "named", "ns"),
    )  # fmt: skip


def told_of(rank: RankTables) -> frozenset[str]:
    """The packages and modules that the capture names as the user's code; empty if it names none."""
    setting = rank.table("setting")
    rows = setting.filter(pl.col("name") == OWN_CODE)["value"].drop_nulls()
    return frozenset(name for value in rows for name in str(value).split(",") if name)
