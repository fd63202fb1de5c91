"""Small modelled jobs, and the real profiles loaded once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.shared_jobs import Jobs

from hermes.model.report import Report
from hermes.profiles.load import Loaded, load
from hermes.store.cache import Cache
from hermes_testing import Job, generate

JOB = Job(ranks=2, steps=2, layers=1)


@pytest.fixture(scope="session")
def _modelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(tmp_path_factory.mktemp("modelled") / "job", JOB, formats=["ascend-db", "kineto"])


@pytest.fixture
def job(_modelled: Path, tmp_path: Path) -> Path:
    """A profile of two ranks as Ascend databases, free to be damaged."""
    return Path(shutil.copytree(_modelled / "ascend-db", tmp_path / "job"))


@pytest.fixture
def traces(_modelled: Path, tmp_path: Path) -> Path:
    """The same two ranks as Kineto traces, text that can be changed."""
    return Path(shutil.copytree(_modelled / "kineto", tmp_path / "traces"))


@pytest.fixture(scope="session")
def loaded(_modelled: Path, tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """The two ranks, loaded once for tests that only read."""
    return load([_modelled / "ascend-db"], Cache(tmp_path_factory.mktemp("looked-at") / 'it\'s a "cache"'))


@pytest.fixture
def store(tmp_path: Path) -> Cache:
    """A cache for this test alone."""
    return Cache(tmp_path / "cache")


@pytest.fixture(scope="session")
def real(jobs: Jobs) -> Callable[[str], Loaded]:
    """A real profile by its path below the shared folder, loaded."""
    return jobs.real


@pytest.fixture(scope="session")
def reported(jobs: Jobs) -> Callable[[str], Report]:
    """The report on a real profile by its path below the shared folder."""
    return jobs.real_report
