"""Small complete profiles for tests to break, and the command line to run over them."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hermes.cli import main
from hermes_testing import Job, generate
from hermes_testing.iterations import write_iterations
from hermes_testing.rocpd import write_rocpd

FORMATS = ("text", "db", "kineto", "merged")
_JOB = Job(ranks=2, steps=2, layers=1, level="Level1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one run of the command line."""

    code: int
    out: str
    err: str

    def document(self) -> dict[str, Any]:
        """The report as JSON."""
        value: dict[str, Any] = json.loads(self.out)
        return value

    def said(self) -> str:
        """All printed text, without the spaces and line breaks that depend on the width of the terminal."""
        return "".join((self.out + self.err).split())


Command = Callable[..., Outcome]


@pytest.fixture
def hermes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Runs `hermes` with arguments as its main function does, with a cache of its own for each test."""
    monkeypatch.setenv("HERMES_CACHE_DIR", str(tmp_path / "hermes-cache"))
    monkeypatch.setenv("COLUMNS", "300")

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["hermes", *map(str, arguments)])
        out, err = io.StringIO(), io.StringIO()
        code: object = 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main()
            except SystemExit as end:
                code = end.code or 0
        assert isinstance(code, int)
        return Outcome(code=code, out=out.getvalue(), err=err.getvalue())

    return run


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Rank 0 of a job of two, in each format, each in a folder of its own."""
    made = tmp_path_factory.mktemp("made")
    generate(made, _JOB, formats=("ascend-text", "ascend-db", "kineto"))
    folders = {}
    for form, source in (("text", "ascend-text"), ("db", "ascend-db"), ("kineto", "kineto")):
        first = min((made / source).iterdir())
        folders[form] = made / "one" / form
        folders[form].mkdir(parents=True)
        shutil.copytree(first, folders[form] / first.name) if first.is_dir() else shutil.copy(first, folders[form])
    folders["merged"] = made / "one" / "merged"
    for form in ("text", "db"):
        shutil.copytree(folders[form], folders["merged"], dirs_exist_ok=True)
    folders["rocpd"] = made / "one" / "rocpd"
    folders["rocpd"].mkdir()
    write_rocpd(folders["rocpd"], sorted(folders["kineto"].iterdir()))
    write_iterations(made / "iterations", _JOB)
    first = min((made / "iterations").iterdir())
    folders["iterations"] = made / "one" / "iterations"
    shutil.copytree(first, folders["iterations"] / first.name)
    return folders


@pytest.fixture
def profile(whole: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    """A copy of the complete profile in a format, to break."""

    def copied(form: str) -> Path:
        return Path(shutil.copytree(whole[form], tmp_path / "in" / form))

    return copied


@pytest.fixture(scope="session")
def healthy(whole: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The report of each complete profile as JSON."""
    from hermes.profiles.load import load
    from hermes.profiles.pipeline.analyze import analyze
    from hermes.report.report_json import document
    from hermes.store.cache import Cache

    cache = Cache(tmp_path_factory.mktemp("healthy"))
    return {form: json.loads(json.dumps(document(analyze(load([folder], cache))))) for form, folder in whole.items()}


def only(folder: Path, pattern: str) -> Path:
    """The only file below the folder whose name matches."""
    (found,) = folder.rglob(pattern)
    return found


@pytest.fixture
def one() -> Callable[[Path, str], Path]:
    """`only`, for modules that cannot import this one."""
    return only
