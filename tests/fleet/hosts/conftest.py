"""A fixture for tests of hosts: a thread without a running asyncio loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_loop() -> Iterator[None]:
    """A thread without a loop: Playwright keeps a loop running in the tests' thread, but `asyncio.run` needs none."""
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(running)
