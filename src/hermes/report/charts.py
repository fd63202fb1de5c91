"""Computes the report's charts as whole-number geometry: stacked bars by step, small charts by rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hermes.model.path_measures import StepPath
from hermes.model.report import Coverage, Report
from hermes.model.step_measures import StepSplit
from hermes.report.format import NOT_MEASURED, counted, duration, ranks, share
from hermes.report.report_rows import (
    COMPONENTS,
    PATH_KEYS,
    WINDOW_KINDS,
    extremes,
    path_components,
    path_part,
    path_title,
    place_of_row,
    step_components,
    typical,
)

WIDTH = 10_000
HEIGHT = 1_000
SLOTS = 128
_STEP_ROWS = 12
_RANK_ROWS = 12
_PATH_PARTS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One part of a stacked bar: `x` and `width` in `WIDTH`ths of the scale."""

    kind: str
    name: str
    ns: int
    x: int
    width: int
    text: str
    share: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBar:
    """The bar of one step or rank; without segments if not measured. `extent` is the window on the common scale."""

    label: str
    window: str
    window_ns: int
    extent: int
    segments: tuple[Segment, ...]
    parts: tuple[Segment, ...] = ()
    """The parts written beside the bar, if they are finer than its segments."""

    @property
    def spoken(self) -> str:
        """The bar described in words, for screen readers."""
        split = ", ".join(f"{part.name} {part.text} {part.share}".rstrip() for part in self.segments)
        return f"{self.label}: {self.window}; {split or f'split {NOT_MEASURED}'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepChart:
    """The stacked bars on one scale, from 0 to `longest`; `about` says which steps the bars show."""

    bars: tuple[StepBar, ...]
    longest: str
    longest_ns: int
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a small chart: one rank, or a few neighbouring ranks; `height` is None if nothing is known."""

    slot: int
    height: int | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RankChart:
    """One measure over all ranks, from 0 to `top`; `median` is the height of the median line."""

    kind: str
    name: str
    slots: int
    columns: tuple[Column, ...]
    top: str
    median: int
    summary: str
    first: str
    last: str


def step_chart(report: Report) -> StepChart:
    """The bars of all steps if few, else of each rank's median step, else from the slowest to the fastest rank."""
    rows, about = _chosen(report.steps)
    longest = max((row.window_ns for _, row in rows), default=0)
    kinds = [words for kind, words in WINDOW_KINDS if any(row.window_kind == kind for _, row in rows)]
    return StepChart(
        bars=tuple(_bar(label, row, longest) for label, row in rows),
        longest=duration(longest),
        longest_ns=longest,
        about=f"{about} Window: {' or '.join(kinds)}." if rows else "",
    )


def path_chart(report: Report) -> StepChart:
    """The bar of the slowest rank's critical path: the time of each component."""
    chosen = report.paths[:1]
    longest = max((path.window_ns for path in chosen), default=0)
    return StepChart(
        bars=tuple(_path_bar(path, longest) for path in chosen),
        longest=duration(longest),
        longest_ns=longest,
        about="The chain of tasks, calls and waits that the step could not end without, walked back from its end.",
    )


def _path_bar(path: StepPath, longest: int) -> StepBar:
    named = [(PATH_KEYS[component], component, ns) for component, ns in path_components(path)]
    return StepBar(
        label=path_title(path),
        window=duration(path.window_ns),
        window_ns=path.window_ns,
        extent=WIDTH * path.window_ns // longest if longest else 0,
        segments=tuple(_segments(named, path.window_ns, longest)),
        parts=tuple(_path_parts(path)),
    )


def _path_parts(path: StepPath) -> Iterator[Segment]:
    """The parts of a critical path by rank and reason; parts too small to see are added up."""
    shown = [part for part in path.parts if part.ns >= path.window_ns // 100][:_PATH_PARTS]
    for part in shown:
        yield Segment(
            kind=PATH_KEYS.get(part.component, "free"),
            name=path_part(path, part),
            ns=part.ns,
            x=0,
            width=0,
            text=duration(part.ns),
            share=share(part.ns, path.window_ns),
        )
    rest = path.window_ns - sum(part.ns for part in shown)
    if rest:
        count = counted(len(path.parts) - len(shown), "smaller part")
        words, of = duration(rest), share(rest, path.window_ns)
        yield Segment(kind="free", name=count, ns=rest, x=0, width=0, text=words, share=of)


def _segments(parts: Sequence[tuple[str, str, int]], window_ns: int, longest: int) -> Iterator[Segment]:
    """Segments of a bar from parts (key, name, length), one after the other on the scale of `longest`."""
    done = 0
    for kind, name, ns in parts:
        start = WIDTH * done // longest if longest else 0
        done += ns
        end = WIDTH * done // longest if longest else 0
        words, of = duration(ns), share(ns, window_ns)
        yield Segment(kind=kind, name=name, ns=ns, x=start, width=end - start, text=words, share=of)


def _chosen(steps: Sequence[StepSplit]) -> tuple[list[tuple[str, StepSplit]], str]:
    if len(steps) <= _STEP_ROWS:
        return [(place_of_row(row.rank, row.step), row) for row in steps], "Every step that was captured."
    chosen = typical(steps)
    of = f"of {counted(len(steps), 'step')} on {counted(len(chosen), 'rank')}"
    if len(chosen) <= _RANK_ROWS:
        return [(place_of_row(row.rank, row.step), row) for row in chosen], f"Each rank's median step {of}."
    rows = [(f"{word}: {place_of_row(row.rank, row.step)}", row) for word, row in extremes(chosen)]
    return rows, f"The slowest, the median and the fastest rank by each rank's median step, {of}."


def _bar(label: str, row: StepSplit, longest: int) -> StepBar:
    measured = step_components(row)
    named = [(*component, ns) for component, ns in zip(COMPONENTS, measured or (), strict=measured is not None)]
    return StepBar(
        label=label,
        window=duration(row.window_ns),
        window_ns=row.window_ns,
        extent=WIDTH * row.window_ns // longest if longest else 0,
        segments=tuple(_segments(named, row.window_ns, longest)),
    )


_MEASURES: tuple[tuple[str, str, Callable[[StepSplit], int | None]], ...] = (
    ("window", "window", lambda row: row.window_ns),
    ("compute", "compute", lambda row: row.compute_ns),
    ("comm", "exposed comm", lambda row: row.exposed_comm_ns),
    ("copy", "exposed copy", lambda row: row.copy_exposed_ns),
    ("free", "free", lambda row: row.free_ns),
)


def rank_charts(report: Report) -> tuple[RankChart, ...]:
    """A chart for each measure over the ranks' median steps; empty for a job of one rank or without steps."""
    chosen = typical(report.steps)
    slots = _slots(report.coverage, [row.rank for row in chosen])
    if not chosen or len(slots) < 2:
        return ()
    charts = (_rank_chart(kind, name, of, chosen, slots) for kind, name, of in _MEASURES)
    return tuple(chart for chart in charts if chart is not None)


def _slots(coverage: Coverage, seen: Sequence[int]) -> list[range]:
    """The ranks that share a column, in at most `SLOTS` columns; ranks without a capture keep their place."""
    end = coverage.ranks_expected
    if end is None or not all(0 <= rank < end for rank in seen):
        return _neighbours(seen)
    width = -(-end // SLOTS)
    return [range(start, min(start + width, end)) for start in range(0, end, width)]


def _neighbours(seen: Sequence[int]) -> list[range]:
    """The columns over the captured ranks alone, for a job whose number of ranks is not known."""
    width = -(-len(seen) // SLOTS) or 1
    groups = [seen[at : at + width] for at in range(0, len(seen), width)]
    return [range(group[0], group[-1] + 1) for group in groups]


def _rank_chart(
    kind: str,
    name: str,
    of: Callable[[StepSplit], int | None],
    chosen: Sequence[StepSplit],
    slots: Sequence[range],
) -> RankChart | None:
    values = [(value, row.rank) for row in chosen if (value := of(row)) is not None]
    if not values:
        return None
    ordered = sorted(values)
    most, median, least = ordered[-1], ordered[(len(ordered) - 1) // 2], ordered[0]
    return RankChart(
        kind=kind,
        name=name,
        slots=len(slots),
        columns=tuple(_columns(values, slots, most[0])),
        top=duration(most[0]),
        median=HEIGHT * median[0] // most[0] if most[0] else 0,
        summary=(
            f"most {duration(most[0])} (rank {most[1]}), median {duration(median[0])}, "
            f"least {duration(least[0])} (rank {least[1]})"
        ),
        first=f"rank {slots[0].start}",
        last=str(slots[-1].stop - 1),
    )


def _columns(values: Sequence[tuple[int, int]], slots: Sequence[range], most: int) -> list[Column]:
    found: list[list[tuple[int, int]]] = [[] for _ in slots]
    starts = [slot.start for slot in slots]
    at = 0
    for value, rank in sorted(values, key=lambda pair: pair[1]):
        while at + 1 < len(starts) and rank >= starts[at + 1]:
            at += 1
        found[at].append((value, rank))
    columns = []
    for at, (slot, here) in enumerate(zip(slots, found, strict=True)):
        if not here:
            columns.append(Column(slot=at, height=None, text=f"{_span(slot)}: not collected or {NOT_MEASURED}"))
            continue
        value, rank = max(here, key=lambda pair: (pair[0], -pair[1]))
        text = f"rank {rank}: {duration(value)}" + (f", the most of {_span(slot)}" if len(slot) > 1 else "")
        columns.append(Column(slot=at, height=HEIGHT * value // most if most else 0, text=text))
    return columns


def _span(slot: range) -> str:
    return f"ranks {slot.start} to {slot.stop - 1}" if len(slot) > 2 else ranks(slot)
