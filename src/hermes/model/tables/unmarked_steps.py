"""Names in the table `step` for steps that no framework marked."""

from __future__ import annotations

FOUND = "period of launches"
"""The first words of a step's name if Hermes found the step by the period of launches."""
WHOLE = "whole capture"
"""The name of the only step of a capture without a device and without step marks: all work of the host."""
