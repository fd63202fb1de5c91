"""Formats values for reports: durations by scale, shares, ranks, and text from captures made harmless."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from hermes.base.sanitize_text import MISSING_CHARACTER as MISSING_CHARACTER
from hermes.base.sanitize_text import harmless_line as harmless_line
from hermes.base.units import NOT_MEASURED as NOT_MEASURED
from hermes.base.units import bytes_text as bytes_text
from hermes.base.units import duration as duration

_RUNS_SHOWN = 6


_LONG_NUMBER = re.compile(r"(?<![\w./-])\d{15,}(?![\w./-]| ns)")


def short_groups(text: str) -> str:
    """The text with each long number shortened to its end, by which process groups are told apart."""
    return _LONG_NUMBER.sub(lambda found: f"…{found[0][-6:]}", text)


def clip(text: str, limit: int) -> str:
    """The first `limit` characters of a text, and how many characters are left out; a short text stays unchanged."""
    over = len(text) - limit
    return text if over <= 0 else f"{text[:limit]}… ({over} more characters)"


def between(low_ns: int, high_ns: int) -> str:
    """A range of times as `60.0 to 80.0 ms`: a unit that both ends share is written once."""
    low, high = between_parts(low_ns, high_ns)
    return high if low == high or duration(low_ns) == high else f"{low} to {high}"


def between_parts(low_ns: int, high_ns: int) -> tuple[str, str]:
    """The two ends of a range of times, as `60.0` and `80.0 ms`."""
    low, high = duration(low_ns), duration(high_ns)
    same_unit = low.partition(" ")[2] == high.partition(" ")[2]
    return low.partition(" ")[0] if same_unit else low, high


def microseconds(ns: int | None) -> str:
    """A time as microseconds with three decimals and no separators, as in Ascend's files; exact."""
    if ns is None:
        return NOT_MEASURED
    whole, part = divmod(abs(ns), 1_000)
    return f"{'-' if ns < 0 else ''}{whole}.{part:03d}"


def share(part: int | None, whole: int) -> str:
    """A part as per cent of the whole; a part that rounds to 0 is `<0.1%`; empty if unknown."""
    if part is None or whole <= 0:
        return ""
    tenths = (2_000 * part + whole) // (2 * whole)
    if part > 0 and tenths == 0:
        return "<0.1%"
    return f"{tenths // 10}.{tenths % 10}%"


def fraction(value: float) -> str:
    """A fraction of 1 as per cent, or `not measured` if it is no number."""
    if not math.isfinite(value):
        return NOT_MEASURED
    return "<0.1%" if 0 < value < 0.0005 else f"{value:.1%}"


def number(value: float | None, unit: str = "") -> str:
    """A value with its unit: `ns` and `bytes` by scale, whole numbers as such, other numbers with three digits."""
    if value is None or not math.isfinite(value):
        return NOT_MEASURED
    scale, _, per = unit.partition(" ")
    if scale == "ns":
        return f"{duration(round(value))} {per}".rstrip()
    if scale == "bytes" and value >= 0:
        return f"{bytes_text(round(value))} {per}".rstrip()
    digits = f"{value:.0f}" if value == int(value) or abs(value) >= 1_000 else f"{value:.3g}"
    return f"{digits} {unit}" if unit else digits


def confidence(value: float) -> str:
    """A confidence as a word and its number: `high (0.90)`."""
    if not math.isfinite(value):
        return "not stated"
    word = "high" if value >= 0.8 else "medium" if value >= 0.5 else "low"
    return f"{word} ({value:.2f})"


def listing(words: Sequence[str]) -> str:
    """A list of words as text: `a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def numbers(values: Iterable[int]) -> str:
    """Whole numbers as text, runs of three shortened: `0 to 7, 9 and 12`; a long list ends with how many more."""
    ordered = sorted(set(values))
    runs: list[list[int]] = []
    for value in ordered:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    words: list[str] = []
    for run in runs:
        words += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else [str(value) for value in run]
    if len(words) <= _RUNS_SHOWN:
        return listing(words)
    shown = sum(len(run) for run in runs[: _RUNS_SHOWN // 2])
    kept = [f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs[: _RUNS_SHOWN // 2]]
    return f"{', '.join(kept)} and {len(ordered) - shown} more"


def ranks(values: Iterable[int]) -> str:
    """Rank numbers as text: `rank 3`, `ranks 0 and 1`, `ranks 0 to 63`, or `no rank`."""
    distinct = set(values)
    if not distinct:
        return "no rank"
    return f"{'rank' if len(distinct) == 1 else 'ranks'} {numbers(distinct)}"


def counted(count: int, noun: str) -> str:
    """A count with its noun: `1 row`, `2 rows`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
