"""Describes an inference service on the terminal: the time of its requests, and its batches."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.model.report import Report
from hermes.model.service_measures import Batches, BatchPauses, Requests
from hermes.report.format import duration, fraction


def service_lines(report: Report) -> Iterator[str]:
    """A line for the requests and a line for the batches; no line for a job that is no service."""
    for row in report.rows(Requests):
        times = (
            ("first token", row.first_token_ns, row.first_token_99_ns),
            ("further token", row.further_token_ns, row.further_token_99_ns),
            ("queue", row.queue_ns, row.queue_99_ns), ("whole request", row.took_ns, row.took_99_ns),
        )  # fmt: skip
        said = [
            f"{words} {duration(median)} (slowest 1 %: {duration(slowest)})"
            for words, median, slowest in times
            if median is not None and slowest is not None
        ]
        speed = [f"{row.tokens_per_second:.0f} tokens/s"] if row.tokens_per_second is not None else []
        yield f"Requests {row.requests}  {' · '.join([*said, *speed])}"
    batches = [row for row in report.rows(Batches) if row.phase is not None]
    paused = [row for row in report.rows(BatchPauses) if row.window_ns]
    if batches:
        said = [f"{row.phase} {row.batches} of {duration(row.median_ns)}" for row in batches]
        worst = max((row.idle_ns / row.window_ns for row in paused), default=None)
        idle = [] if worst is None else [f"none running for {fraction(worst)} of the time with requests"]
        yield f"Batches  {' · '.join([*said, *idle])}"
