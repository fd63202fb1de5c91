"""Runs all rules, and puts what they find in order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hermes.model.finding import Loss
from hermes.model.job import JobMeasures
from hermes.profiles.rules import ALL
from hermes.profiles.rules._moments import moments


def find_all(measures: JobMeasures) -> tuple[Loss, ...]:
    """All findings of all rules, in order, each with the moments that show it."""
    steps = measures.job.steps
    every = (finding for rule in ALL for finding in rule.find(measures))
    return in_order(replace(finding, moments=moments(finding, steps)) for finding in every)


def in_order(findings: Iterable[Loss]) -> tuple[Loss, ...]:
    """By the most they could give back, then by what they cost; the order that replays then change."""
    return tuple(
        sorted(
            findings,
            key=lambda one: (-one.gain.low_ns, -one.gain.high_ns, -one.cost_ns, one.code, tuple(map(str, one.blames))),
        )
    )
