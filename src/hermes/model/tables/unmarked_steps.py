"""What a step is called in the table `step` that nobody marked."""

from __future__ import annotations

FOUND = "period of launches"
"""How the name of a step begins that was found by the order of what was launched."""
WHOLE = "whole capture"
"""The name of the one step of a capture without a device, of which nothing tells steps: all that the host did."""
