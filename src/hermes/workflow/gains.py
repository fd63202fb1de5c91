"""Predicted gains of findings: the replay of what stands for their cure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hermes.base.errors import InputError
from hermes.diagnose.finding import Finding, Gain
from hermes.diagnose.judge import in_order
from hermes.whatif.changes import parse
from hermes.whatif.job import JobStep
from hermes.whatif.replay import predict
from hermes.workflow.load import Loaded
from hermes.workflow.paths import Seen
from hermes.workflow.whatif import step_of

# Beyond so many ranks a replay of each finding takes longer than all the rest; `hermes whatif` has no such limit.
_RANKS = 16
_NAMED, _LETTERS = 3, 60
_OF_KERNELS = ("op:", "compute:")


def with_gains(findings: Sequence[Finding], loaded: Loaded, seen: Seen) -> tuple[Finding, ...]:
    """The findings with gains from a replay where one is possible; the rest keep their bound."""
    if not any(finding.replay for finding in findings) or len(loaded.ranks) > _RANKS:
        return tuple(findings)
    try:
        step = step_of(loaded, seen)
    except InputError:
        # Without a step on the device there is nothing to replay, and the report says so.
        return tuple(findings)
    return in_order(_with_gain(finding, step) for finding in findings)


def _said(specs: Sequence[str]) -> str:
    """Changes as a line holds them: names of kernels may be hundreds of letters long."""
    short = [spec if len(spec) <= _LETTERS else f"{spec[: _LETTERS - 1]}…" for spec in specs[:_NAMED]]
    more = f" and {len(specs) - _NAMED} more" if len(specs) > _NAMED else ""
    return " with ".join(short) + more


def _with_gain(finding: Finding, step: JobStep) -> Finding:
    if not finding.replay:
        return finding
    found = predict(step, [parse(spec) for spec in finding.replay])
    low = max(found.low_ns, 0)
    if all(spec.startswith(_OF_KERNELS) for spec in finding.replay):
        # The replay begins at the host's mark, and holds kernels of the step before that are still under way.
        low = min(low, finding.gain.high_ns)
    bound = finding.gain.method
    return replace(
        finding,
        gain=Gain(
            low_ns=low,
            # The replay counts what lies before the window, too, which no share of it holds.
            high_ns=max(low, finding.gain.high_ns),
            method=f"replay of {_said(finding.replay)}; {bound}",
        ),
    )
