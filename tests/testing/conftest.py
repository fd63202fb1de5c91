"""One modelled job in every format, written once, and the real profiles if they exist."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_testing import Job, Options, generate
from hermes_testing.generate import Format

Written = Callable[[Format, Job, Options], Path]


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Writes a job once a session for each combination and returns its folder."""
    done: dict[tuple[Format, Job, Options], Path] = {}

    def write(form: Format, job: Job, options: Options) -> Path:
        key = (form, job, options)
        if key not in done:
            done[key] = generate(tmp_path_factory.mktemp("job"), job, formats=[form], options=options)
        return done[key]

    return write
