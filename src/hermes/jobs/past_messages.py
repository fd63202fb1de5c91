"""Messages on run directories that cannot tell all of their past."""

from __future__ import annotations

from hermes.base.message import Count, Name, message, sentence

NO_RUN_FOLDER = sentence("jobs.no_run_folder")
"""Error: a path is no folder of run directories."""
DO_NAME_RUN_FOLDERS = sentence("jobs.do_name_run_folders")
"""Advice: which folders to name."""
LOST_JOB = sentence("jobs.lost_job")
"""The loss from an unreadable run directory: what its job did."""


@message("jobs.unreadable")
def unreadable(*, why: Name) -> None:
    """Warning: a run directory cannot be read."""


@message("jobs.records_damaged")
def records_damaged(*, job: Name, n: Count) -> None:
    """Warning: records of step logs are damaged."""


@message("jobs.log_cut")
def log_cut(*, job: Name) -> None:
    """Warning: the first steps of the time window are no longer kept."""


@message("jobs.nobody_noted")
def nobody_noted(*, job: Name) -> None:
    """Warning: no watcher noted anything of a job, and its logs are too long to search."""
