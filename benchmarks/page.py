"""Formats the page of results: its figures, its tables and its blocks."""

from __future__ import annotations

from benchmarks.summary import Summary
from hermes_testing.markdown import MarkerError, replace_block, table

__all__ = ["COST_HEADER", "MarkerError", "cost", "gigabytes", "replace_block", "seconds", "table", "times"]


def seconds(ns: int) -> str:
    """Seconds with two decimals, or with three below one second."""
    return f"{ns / 1e9:.3f}" if ns < 1_000_000_000 else f"{ns / 1e9:.2f}"


def gigabytes(size: int) -> str:
    """Gigabytes of 10^9 bytes with two decimals, megabytes below one tenth."""
    return f"{size / 1e6:.0f} MB" if size < 100_000_000 else f"{size / 1e9:.2f} GB"


def times(factor: float) -> str:
    """A factor as text with one decimal, such as `2.0 x`."""
    return f"{factor:.1f} x"


def cost(summary: Summary) -> tuple[str, str, str, str]:
    """The four figures of a line: wall time, CPU time, the largest process, all processes."""
    return (
        seconds(summary.wall_ns),
        seconds(summary.cpu_ns),
        gigabytes(summary.peak_bytes),
        gigabytes(summary.together_bytes),
    )


COST_HEADER = ("wall s", "CPU s", "peak of the largest process", "peak of all processes")
