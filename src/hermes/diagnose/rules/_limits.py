"""The limits that rules share: below them a loss is no more than what steps differ by anyway."""

from __future__ import annotations

from hermes.diagnose.rule import Threshold

NOISE = Threshold(value=0.01, unit="of window", source="docs/evidence/noise.md")
"""For what is measured: times of kernels, of transfers, of waits."""
DOUBT = Threshold(value=0.03, unit="of window", source="docs/evidence/noise.md")
"""For what is estimated, such as time beyond a roof."""
