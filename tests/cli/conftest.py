"""Runs the command line in this process, and returns its exit code and output."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from hermes.cli import main
from hermes_testing import Job, generate


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The result of one command."""

    code: int
    out: str
    err: str


Hermes = Callable[..., Ran]


@pytest.fixture
def hermes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Hermes:
    """Runs `hermes` with arguments; its cache is kept for the session unless a test sets another."""
    monkeypatch.setenv("COLUMNS", "160")

    def run(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["hermes", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        shown = capsys.readouterr()
        return Ran(code=code, out=shown.out, err=shown.err)

    return run


@pytest.fixture(scope="session")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile of two ranks as Ascend databases; tests must not change it."""
    return generate(tmp_path_factory.mktemp("cli") / "profile", Job(ranks=2, steps=2, layers=1), formats=["ascend-db"])
