"""Formats the zoo's results: a line for the terminal, a table for the page, and the figures of both halves."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from statistics import median

from bench.judgement.zoo.entry import ENTRIES
from bench.judgement.zoo.score import NEAR, WORTH, Named, Result, summary
from hermes_testing.markdown import replace_block, table

_BLOCK = "zoo"
_HEADER = ("program", "expected", "faster", "named first", "of three", "predicted", "measured")


def line(result: Result) -> str:
    """A line on one program for the terminal."""
    entry, times = result.entry, result.times
    named = " ".join(f"{one.code}{f'={one.case}' if one.case else ''}({one.gain:.0%})" for one in result.found[:4])
    return (
        f"{entry.name:<20}{entry.half:<9}{_expected(result):<22}{times.slow_ms:9.2f} ms {_times(times.ratio):>7} "
        f"A/A {median(times.same):.2f}  {_verdict(result):<8} {named or 'nothing'}"
        f"  | gain {_pair(result)} | monitor: {', '.join(result.watched) or 'nothing'}"
    )


def summary_lines(results: Sequence[Result]) -> list[str]:
    """The figures of both halves and of all."""
    rows = list(_summaries(results))
    return [f"{row[0]:<46}" + "".join(f"{cell:<22}" for cell in row[1:]) for row in rows]


def into_page(page: Path, results: Sequence[Result], repeats: int) -> None:
    """Put figures, missed causes and the machine between the marks; raises `MarkerError` without marks."""
    same = [ratio for result in results for ratio in result.times.same]
    header, *figures = list(_summaries(results))
    text = "\n\n".join(
        (
            table(header, figures),
            _noise(same),
            *_missed(results),
            _machine(results, repeats),
        )
    )
    page.write_text(replace_block(page.read_text("utf-8"), _BLOCK, text), "utf-8")


def _missed(results: Sequence[Result]) -> Iterator[str]:
    rows = [_row(result) for result in results if result.judged and not result.first]
    if rows:
        yield "Not named first:"
        yield table(_HEADER, rows)


def _summaries(results: Sequence[Result]) -> Iterator[tuple[str, ...]]:
    halves = [[one for one in results if one.entry.half == half] for half in ("tuned", "held-out")]
    said = [summary(rows) for rows in (*halves, results)]
    yield ("figure", "tuned half", "held-out half", "all")
    for words, name in (
        ("the cause is named first", "first"),
        ("it is among the first three", "among_three"),
        ("the plan takes the expected case for it", "exact"),
        (f"predicted gain within {NEAR:.0%}, above {WORTH} times", "near"),
        ("controls and decoys without false alarm", "quiet"),
        ("the monitor alone names it", "live"),
        ("it is no longer named after the cure", "gone"),
        ("from a bare trace: named first", "plain_first"),
        ("from a bare trace: predicted gain", "plain_near"),
    ):
        yield (words, *(str(getattr(one, name)) for one in said))


def _row(result: Result) -> tuple[str, ...]:
    return (
        f"`{result.entry.name}`", _expected(result), _times(result.times.ratio), _first(result),
        _said(result.among_three, result), _percent(result.predicted), _percent(result.times.gain),
    )  # fmt: skip


def _expected(result: Result) -> str:
    entry = result.entry
    return (" and " if entry.kind == "tie" else ", ").join(entry.causes) or f"nothing ({entry.kind})"


def _first(result: Result) -> str:
    return ", ".join(map(_code, result.found[:3])) or "nothing"


def _code(one: Named) -> str:
    return f"{one.code} ({one.case})" if one.case else one.code


def _verdict(result: Result) -> str:
    if not result.entry.causes:
        return "quiet" if not result.false_alarms else "ALARM"
    if not result.planted:
        return "no cost"
    return "first" if result.first else "of three" if result.among_three else "MISSED"


def _said(good: bool, result: Result) -> str:
    if not result.entry.causes:
        return "quiet" if not result.false_alarms else "**false alarm**"
    if not result.planted:
        return "costs nothing here"
    return "yes" if good else "**no**"


def _pair(result: Result) -> str:
    return f"{_percent(result.predicted)}/{_percent(result.times.gain)}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} x"


def _noise(same: Sequence[float]) -> str:
    ordered = sorted(same)
    tenth = len(ordered) // 10
    return (
        f"Two processes that do the same differed by a factor of {ordered[tenth]:.2f} to {ordered[-1 - tenth]:.2f} in "
        f"four of five pairs of repeats, {ordered[0]:.2f} to {ordered[-1]:.2f} in all {len(ordered)}: that is "
        f"the noise of this machine."
    )


def _machine(results: Sequence[Result], repeats: int) -> str:
    day = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    known = {result.entry.name for result in results}
    missing = [f"`{entry.name}`" for entry in ENTRIES if entry.name not in known]
    return (
        f"{len(results)} of {len(ENTRIES)} entries, measured {day} with {repeats} repeats on "
        f"{len(os.sched_getaffinity(0))} cores shared with other work (load {os.getloadavg()[0]:.0f} at the end), "
        f"{platform.machine()}, Python {platform.python_version()}, torch {version('torch')}."
        + (f" Not measured in this run: {', '.join(missing)}." if missing else "")
    )
