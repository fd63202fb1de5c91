"""A run directory in a job's own form, for tests of watchers."""

from __future__ import annotations

from tests.jobs.live_job import live_job

__all__ = ["live_job"]
