"""Summarises several runs of one command in one line, and compares two such lines as a ratio."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.measure import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The medians of time and the maxima of memory of some runs that all succeeded or all failed."""

    runs: int
    wall_ns: int
    cpu_ns: int
    peak_bytes: int
    together_bytes: int
    exit_code: int

    @property
    def failed(self) -> bool:
        """Whether a run failed."""
        return self.exit_code != 0


def summarise(samples: Sequence[Sample]) -> Summary:
    """The summary of a command's runs. Raises `ValueError` when there is none."""
    if not samples:
        raise ValueError("there is no run to sum up")
    # A failed run may be short: it must never lower a median unseen.
    wrong = next((sample.exit_code for sample in samples if sample.failed), 0)
    return Summary(
        runs=len(samples),
        wall_ns=round(statistics.median(sample.wall_ns for sample in samples)),
        cpu_ns=round(statistics.median(sample.cpu_ns for sample in samples)),
        peak_bytes=max(sample.peak_bytes for sample in samples),
        together_bytes=max(sample.together_bytes for sample in samples),
        exit_code=wrong,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """How many times more a peer needs than Hermes."""

    wall: float
    cpu: float
    memory: float


def ratio(peer: Summary, ours: Summary) -> Ratio:
    """The peer's cost divided by Hermes' cost, memory by all processes together."""
    return Ratio(
        wall=peer.wall_ns / ours.wall_ns,
        cpu=peer.cpu_ns / ours.cpu_ns,
        memory=peer.together_bytes / ours.together_bytes,
    )


def interleave(repeats: Sequence[int]) -> tuple[int, ...]:
    """The order of runs of several commands by their places: round after round, so that all run under the same load."""
    rounds = range(max(repeats, default=0))
    return tuple(place for done in rounds for place, wanted in enumerate(repeats) if done < wanted)
