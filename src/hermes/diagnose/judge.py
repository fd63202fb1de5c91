"""Runs the rules, and says in one sentence what bounds the step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hermes.analyze.breakdown import median_split, worst_rank
from hermes.analyze.measures import StepSplit
from hermes.diagnose.finding import Finding
from hermes.diagnose.rule import Measures
from hermes.diagnose.rules import ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What bounds the step, in a sentence, and on which rank and step.

    `bound` is `compute`, `communication`, `copy`, `host` or `unknown`.
    """

    bound: str
    sentence: str
    rank: int | None
    step: int | None


_WORDS = {
    "communication": "communication bounds the step: {share:.0%} of it is communication that nothing hides",
    "compute": "compute bounds the step: the device computes {share:.0%} of the time",
    "host": "the host bounds the step: the device has nothing to do {share:.0%} of the time",
    "copy": "copies bound the step: {share:.0%} of it is copying that nothing hides",
}


def judge(splits: tuple[StepSplit, ...], findings: tuple[Finding, ...]) -> Judgement:
    """The largest part of the median step of the slowest rank, and whom the findings blame for it."""
    split = median_split(worst_rank(splits))
    if split is None or not split.window_ns:
        return Judgement(
            bound="unknown",
            rank=None,
            step=None,
            sentence="What bounds the step cannot be said: no device task was recorded",
        )
    parts = {
        "communication": split.exposed_comm_ns or 0,
        "compute": split.compute_ns or 0,
        "host": split.free_ns or 0,
        "copy": split.copy_exposed_ns or 0,
    }
    bound = max(parts, key=lambda name: parts[name])
    sentence = _WORDS[bound].format(share=parts[bound] / split.window_ns)
    slow = next((finding for finding in findings if finding.cause == "slow rank"), None)
    if bound == "communication" and slow:
        sentence += f", most of it waiting for {slow.blames[0]}"
    if not findings:
        sentence += "; no rule found a loss beyond its limit"
    return Judgement(bound=bound, sentence=sentence[0].upper() + sentence[1:], rank=split.rank, step=split.step)


def find_all(measures: Measures) -> tuple[Finding, ...]:
    """All findings of all rules, in order."""
    return in_order(finding for rule in ALL for finding in rule.find(measures))


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """By what they are predicted to give back, then by the most they could, then by what they cost."""
    return tuple(
        sorted(
            findings,
            key=lambda one: (-one.gain.low_ns, -one.gain.high_ns, -one.cost_ns, one.code, one.blames),
        )
    )
