"""Time limits for tests that wait for other processes, and a loop that waits."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pytest

PATIENCE_S = int(os.environ.get("HERMES_PATIENCE_S", "600"))
"""Seconds after which a process counts as hung: on a busy machine with a slow disk, importing torch takes minutes.
`make test-smoke` waits 120 s."""


def until(look: Callable[[], Any], seconds: float = PATIENCE_S) -> Any:
    """The first true result of `look`, called again and again; the test fails when there is none in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    pytest.fail("it did not come about")
