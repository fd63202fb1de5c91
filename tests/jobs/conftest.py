"""A run directory as a job makes one, for tests of what watches it."""

from __future__ import annotations

from tests.jobs.live_job import live_job

__all__ = ["live_job"]
