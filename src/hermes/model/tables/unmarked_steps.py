"""What a step is called in the table `step` that nobody marked."""

from __future__ import annotations

FOUND = "period of launches"
"""How the name of a step begins that was found by the order of what was launched."""
