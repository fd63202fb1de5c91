"""Runs a modelled job and writes it to a folder in the formats asked for, its truth beside."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from hermes_testing.ascend_common import Options
from hermes_testing.ascend_db import write_ascend_db
from hermes_testing.ascend_raw import write_ascend_raw
from hermes_testing.ascend_text import write_ascend_text
from hermes_testing.job import Job
from hermes_testing.kineto import write_kineto
from hermes_testing.profile import Profile
from hermes_testing.simulate import simulate
from hermes_testing.truth import truth_of

Format = Literal["ascend-text", "ascend-db", "ascend-raw", "kineto"]

_WRITERS: dict[Format, Callable[[Path, Job, Profile, Options], Path]] = {
    "ascend-text": write_ascend_text,
    "ascend-db": write_ascend_db,
    "ascend-raw": write_ascend_raw,
    "kineto": write_kineto,
}


def generate(
    folder: Path, job: Job, *, formats: Sequence[Format], options: Options | None = None, truth: bool = True
) -> Path:
    """Write the captures of all ranks of the job, and if asked `truth.json`; returns `folder`.

    One format goes straight into `folder`; of several, each has a folder of its own below. The same job gives
    the same bytes. Raises `FileExistsError` where a
    capture of the same rank already lies.
    """
    job = as_written(job, formats)
    result = simulate(job)
    folder.mkdir(parents=True, exist_ok=True)
    for form in formats:
        target = folder if len(formats) == 1 else folder / form
        target.mkdir(exist_ok=True)
        for profile in result.profiles:
            _WRITERS[form](target, job, profile, options or Options())
    if truth:
        text = json.dumps(truth_of(result), indent=1)
        (folder / "truth.json").write_text(text + "\n", encoding="utf-8")
    return folder


def as_written(job: Job, formats: Sequence[Format]) -> Job:
    """The job that is run for these formats: CUDA has no task queue, so one for Kineto alone is without."""
    return replace(job, task_queue=False) if set(formats) == {"kineto"} else job
