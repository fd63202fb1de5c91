"""Writes down an analysis as a text to review: verdict, time of the job and of its ranks, findings, order of the plan.

The text has names and numbers of the analysis. It has no path, no version and no time of the run, so each machine
writes the same.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from hermes.base.sanitize_text import harmless_line
from hermes.base.say import say
from hermes.model.finding import Loss
from hermes.model.leaf import Leaf
from hermes.model.leaf_time import How, JobLeaf, LeafTime
from hermes.model.plan import Advice
from hermes.model.report import Report

_ROWS = 5
"""Rows of the tree below each leaf; the rest stands in one line."""
_NAME = 60
_WIDTH = 118


def golden_text(name: str, report: Report) -> str:
    """The analysis of a named input in a text of about a hundred lines."""
    parts = (_verdict(name, report), _tree(report), _ranks(report), _findings(report), _plan(report))
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _verdict(name: str, report: Report) -> Iterator[str]:
    yield f"# {name}"
    yield ""
    yield from textwrap.wrap(harmless_line(say(report.verdict.message)), _WIDTH, break_long_words=False)
    one = report.verdict
    yield (
        f"bound {one.bound} · leaf {_word(one.leaf)} · fault {_word(one.fault)} · rank {one.rank} · step {one.step} · "
        f"awaited {one.awaited}"
    )
    yield f"ranks {_listed(report.coverage.ranks_seen)} · steps {_listed(report.coverage.steps)}"


def _tree(report: Report) -> Iterator[str]:
    """The leaves of the job with their longest rows, the largest leaf first."""
    rows = report.rows(JobLeaf)
    sums = _sums((row.leaf, row.total_ns) for row in rows)
    whole = sum(sums.values())
    yield f"## Time of the job, in all steps: {whole:,} ns"
    for leaf, ns in _largest_first(sums):
        yield f"{ns:>18,}  {_share(ns, whole):>6}  {leaf.value}"
        own = _sums((_row(row), row.total_ns) for row in rows if row.leaf is leaf)
        listed = _largest_first(own)
        for text, of_row in listed[:_ROWS]:
            if text:
                yield f"{of_row:>18,}            {text}"
        if listed[_ROWS:]:
            yield f"{sum(part for _, part in listed[_ROWS:]):>18,}            {len(listed) - _ROWS} more"


def _row(row: JobLeaf) -> str:
    said = [
        "" if row.how is How.CALL else row.how.value,
        _short(row.what),
        f"in {_short(row.place)}" if row.place else "",
        "" if row.rank is None else f"rank {row.rank}",
    ]
    return " · ".join(filter(None, said))


def _ranks(report: Report) -> Iterator[str]:
    """The leaves of each rank, the largest first."""
    yield "## Time of each rank, in all steps"
    rows = report.rows(LeafTime)
    for rank in sorted({row.rank for row in rows}):
        sums = _sums((row.leaf, row.total_ns) for row in rows if row.rank == rank)
        whole = sum(sums.values())
        yield f"rank {rank}: {whole:,} ns"
        for leaf, ns in _largest_first(sums):
            yield f"{ns:>18,}  {_share(ns, whole):>6}  {leaf.value}"


def _findings(report: Report) -> Iterator[str]:
    yield "## Findings, in the order of the report"
    for one in report.findings:
        yield f"{one.cost_ns:>18,}  {one.code} {_word(one.about)} · {one.state} · {_gain(one)} · {_who(one)}"


def _plan(report: Report) -> Iterator[str]:
    plan = report.plan
    yield f"## Plan, above {plan.floor.ns:,} ns of noise in a step of {plan.floor.step_ns:,} ns"
    for at, one in enumerate(plan.actions, start=1):
        beyond = "" if one.beyond_ns is None else f" · adds {one.beyond_ns:,}"
        case = f" · case {one.case}" if one.case else ""
        yield f"{at:>3}. {', '.join(one.codes)} {_word(one.about)} · {_gain(one)}{beyond} · {_who(one)}{case}"
        yield f"     {_short(say(one.title), _WIDTH)}"
    for loss in plan.minor:
        yield f"below the noise: {loss.code} {loss.cost_ns:,}"
    for capture in plan.captures:
        yield f"record next: {capture.command}"


def _gain(one: Loss | Advice) -> str:
    return f"gain {one.gain.low_ns:,} to {one.gain.high_ns:,}"


def _who(one: Loss | Advice) -> str:
    blamed = f" blames {'; '.join(_short(str(blame)) for blame in one.blames[:3])}" if one.blames else ""
    return f"ranks {_listed(one.ranks)}{blamed}"


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _word(word: object) -> str:
    return "none" if word is None else str(getattr(word, "value", word))


def _sums(pairs: Iterable[tuple[object, int]]) -> Counter[object]:
    sums = Counter[object]()
    for key, ns in pairs:
        sums[key] += ns
    return sums


def _largest_first(sums: Counter[object]) -> Sequence[tuple[Leaf | str, int]]:
    return sorted(sums.items(), key=lambda one: (-one[1], _word(one[0])))  # type: ignore[return-value]


def _share(ns: int, whole: int) -> str:
    return f"{ns / whole:.1%}" if whole else ""


def _short(text: str, most: int = _NAME) -> str:
    """A name in one line, without its middle if it is long."""
    line = harmless_line(text)
    half = (most - 1) // 2
    return line if len(line) <= most else f"{line[:half]}…{line[-half:]}"
