"""Limits that several rules share: a loss below its limit is no more than the usual variation of steps."""

from __future__ import annotations

from dataclasses import replace

from hermes.model.limit import Limit

NOISE = Limit(value=0.01, unit="of window", source="docs/evidence/noise.md")
"""The limit for measured times: of kernels, transfers and waits."""
DOUBT = Limit(value=0.03, unit="of window", source="docs/evidence/noise.md")
"""The limit for estimated times, such as time beyond a roof."""
TOGETHER = Limit(value=0.90, unit="of correlation between work and compute", source="case PAR-05")
"""The limit from which work tells how long a rank computes."""
CORES_FULL = Limit(value=0.9, unit="of cores", source="docs/evidence/host-limits.md")
"""The limit from which no core is free for more work."""
FREE = Limit(value=0.10, unit="of window", source="gate of msprof-analyze's advisor: free time above 10 % of the step")
"""The limit for free time of the device, and for causes that explain free time."""
FREE_OF_STEP = replace(FREE, unit="of step")
"""The limit for free time if the cost is not inside a window."""
