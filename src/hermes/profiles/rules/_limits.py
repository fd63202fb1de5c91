"""The limits that rules share: below them a loss is no more than what steps differ by anyway."""

from __future__ import annotations

from dataclasses import replace

from hermes.model.limit import Limit

NOISE = Limit(value=0.01, unit="of window", source="docs/evidence/noise.md")
"""For what is measured: times of kernels, of transfers, of waits."""
DOUBT = Limit(value=0.03, unit="of window", source="docs/evidence/noise.md")
"""For what is estimated, such as time beyond a roof."""
TOGETHER = Limit(value=0.90, unit="of correlation between work and compute", source="case PAR-05")
"""For work that says how long a rank computes."""
FREE = Limit(value=0.10, unit="of window", source="gate of msprof-analyze's advisor: free time above 10 % of the step")
"""For free time of the device, and for what explains it."""
FREE_OF_STEP = replace(FREE, unit="of step")
"""The same, where what is judged is not in a window."""
