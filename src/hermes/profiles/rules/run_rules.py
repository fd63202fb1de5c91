"""Runs all rules, and sorts their findings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hermes.model.finding import Loss
from hermes.model.job import JobMeasures
from hermes.profiles.rules import ALL
from hermes.profiles.rules._finding_moments import moments


def find_all(measures: JobMeasures, *, lab: bool = False) -> tuple[Loss, ...]:
    """All findings, sorted, each with the moments that show the finding; those of rules of the lab only with `lab`."""
    steps = measures.job.steps
    every = (finding for rule in ALL if lab or not rule.lab for finding in rule.find(measures))
    return in_order(replace(finding, moments=moments(finding, steps)) for finding in every)


def in_order(findings: Iterable[Loss]) -> tuple[Loss, ...]:
    """Findings sorted by their largest gain, then by their cost; replays change this order later."""
    return tuple(
        sorted(
            findings,
            key=lambda one: (-one.gain.low_ns, -one.gain.high_ns, -one.cost_ns, one.code, tuple(map(str, one.blames))),
        )
    )
