"""Describes functions of the user's code on the terminal: their time and calls in a step."""

from __future__ import annotations

from collections.abc import Iterable

from hermes.model.code_measures import CodeLine
from hermes.report.format import duration

_PARTS = (
    ("python_ns", "Python"), ("framework_ns", "the framework's Python"), ("operator_ns", "operators"),
    ("backward_ns", "their backward"), ("launch_ns", "launching"), ("wait_ns", "waiting for the device"),
)  # fmt: skip
_NOTABLE = 0.2


def code_order(rows: Iterable[CodeLine]) -> list[CodeLine]:
    """The functions of the user's code, those with the most time first."""
    return sorted(rows, key=lambda row: (-row.spent_ns, row.place))


def code_words(row: CodeLine) -> str:
    """A function in a line: ``train.py:24 `mel_filterbank`  Python 20.8 ms; 32 calls a step in train.py:31 `main``."""
    whole = max(row.spent_ns, 1)
    parts = [(ns, word) for name, word in _PARTS if (ns := getattr(row, name)) >= _NOTABLE * whole]
    said = ", ".join(f"{word} {duration(ns)}" for ns, word in sorted(parts, reverse=True))
    calls = "" if row.calls is None or row.calls < 1.5 else f"; {row.calls:.0f} calls a step"
    inside = f", in {row.loop}" if row.loop and row.loop.rsplit("`", 2)[-2:] != row.said.rsplit("`", 2)[-2:] else ""
    within = f" ({row.within})" if row.within else ""
    lines = row.lines[:2] if row.lines and row.lines[0][1] < 1 else ()
    spread = ", ".join(f"{share:.0%} at :{line.rsplit(':', 1)[-1]}" for line, share in lines)
    device = f"; device {duration(row.device_ns)}" if row.device_ns else ""
    return f"{row.said}  {said}{device}{calls}{inside}{within}{f'; {spread}' if spread else ''}"
