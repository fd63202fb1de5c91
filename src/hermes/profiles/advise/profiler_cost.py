"""Corrects gains for the profiler's own cost, as a range, on jobs that compute on the CPU.

A profiler lengthens the host's calls, and nobody records which calls by how much. A cause costs at most what the
capture shows. A cause costs at least what remains if the profiler lengthened all parts of the step by the same factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hermes.model.finding import Gain
from hermes.model.host_measures import Before
from hermes.model.limit import Limit
from hermes.model.plan import Unprofiled
from hermes.model.step_measures import StepSplit
from hermes.profiles.advise.bound_gains import at_most
from hermes.profiles.rules.gain_messages import without_profiler

MOST_NS = Limit(
    value=3_000, unit="ns a recorded call: more is no profiler's doing", source="docs/evidence/profiler-cost.md"
)

LEAST_BEFORE = Limit(
    value=3, unit="steps before a capture, below which they are warm-up", source="docs/evidence/noise.md"
)
UNLIKE = Limit(
    value=3.0,
    unit="times the captured step: up to here steps before it that took longer are said to be other steps, since no "
    "profiler makes one shorter; beyond, the report says that they are unlike",
    source="docs/evidence/profiler-cost.md",
)


def unprofiled_gain(step: Unprofiled, gain: Gain) -> Gain:
    """The gain in a step without the profiler: from the gain shrunk as the step, to the captured gain.

    The profiler can have added only so much per recorded call to the rest of the step, and the rest leaves no room for
    more gain. If captured steps are longer than the profiler explains, as on a machine that became busy, the rest
    shrinks by that excess in proportion.
    """
    if gain.before or step.step_ns >= step.captured_ns:
        return at_most(gain, step.step_ns)
    low = round(gain.low_ns * step.step_ns / step.captured_ns)
    whole = max(0, step.captured_ns - round(MOST_NS.value * step.calls))
    others = max(0, round((whole - gain.high_ns) * min(1.0, step.step_ns / max(1, whole))))
    high = max(low, min(gain.high_ns, step.step_ns - others))
    return replace(gain, low_ns=low, high_ns=high, method=without_profiler(method=gain.method))


def unprofiled(before: Sequence[Before], splits: Sequence[StepSplit]) -> Unprofiled | None:
    """The step without profiler of the rank with the longest captured steps, of ranks with earlier steps."""
    found = [one for row in before if (one := _of_rank(row, [split for split in splits if split.rank == row.rank]))]
    return max(found, key=lambda one: (one.captured_ns, -one.rank), default=None)


def _of_rank(row: Before, splits: Sequence[StepSplit]) -> Unprofiled | None:
    if not splits:
        return None
    captured = sum(split.window_ns for split in splits) // len(splits)
    # Other programs on the rank's cores delay a step, and do not appear in its capture.
    quiet = row.step_ns - min(row.delay_ns or 0, row.step_ns)
    longer = captured < row.step_ns and quiet < UNLIKE.value * captured
    if not captured or row.steps < LEAST_BEFORE.value or longer:
        return None
    added = max(0.0, min(captured - row.step_ns, MOST_NS.value * row.calls))
    return Unprofiled(
        rank=row.rank,
        steps=row.steps,
        step_ns=row.step_ns,
        captured_ns=captured,
        calls=row.calls,
        each_ns=added / max(1, row.calls),
        spread_ns=row.spread_ns,
    )
