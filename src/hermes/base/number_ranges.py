"""Packs sets of numbers, such as the ranks of a group, as a few even runs: ten thousand ranks take three numbers."""

from __future__ import annotations

from collections.abc import Sequence

Runs = tuple[tuple[int, int, int], ...]
"""Runs of evenly spaced numbers: first number, how many numbers, and the step between them."""


def packed(numbers: Sequence[int]) -> Runs:
    """Pack a sequence of numbers as runs; the order stays."""
    runs: list[tuple[int, int, int]] = []
    at = 0
    while at < len(numbers):
        step = numbers[at + 1] - numbers[at] if at + 1 < len(numbers) else 0
        last = at + 1
        while last < len(numbers) and numbers[last] - numbers[last - 1] == step:
            last += 1
        runs.append((numbers[at], last - at, step))
        at = last
    return tuple(runs)


def unpacked(runs: Runs) -> tuple[int, ...]:
    """Unpack runs into their numbers; the order stays."""
    return tuple(first + step * place for first, count, step in runs for place in range(count))
