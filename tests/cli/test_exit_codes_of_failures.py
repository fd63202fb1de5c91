"""Exit code 1 is an answer: a defect, a closed pipe and a wrong command line have other codes, and no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from tests.cli.conftest import Hermes  # type: ignore[import-not-found]

from hermes.base.defect_reports import Defect, WorkerFailedError
from hermes.base.usable_cores import processes
from hermes.cli.app import app
from hermes.profiles.api import engine_of

HERMES = Path(sys.executable).with_name("hermes")


def wrong(number: int) -> float:
    return 1 / number


def _commands(group: click.Group, *before: str) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for name, command in group.commands.items():
        found += _commands(command, *before, name) if isinstance(command, click.Group) else [(*before, name)]
    return found


# `hermes run` becomes the job.
@pytest.mark.parametrize("words", [words for words in _commands(app) if words != ("run",)], ids=" ".join)
@pytest.mark.parametrize("error", [ValueError("1\n2\x1b[31m"), KeyError("x"), RecursionError(), AssertionError()])
def test_a_defect_is_told_and_is_no_answer(
    hermes: Hermes, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], error: Exception
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    # Whatever the command is given.
    monkeypatch.setattr(click.Command, "make_context", fails)
    ended = hermes(*words)
    assert ended.code == 70
    assert ended.err.startswith(f"hermes: Hermes itself failed: {type(error).__name__}")
    assert "Traceback" not in ended.err
    assert "\x1b" not in ended.err
    lines = ended.err.splitlines()
    assert [line.split(":")[0].strip() for line in lines] == ["hermes", "where", "lost", "what to do"]


def test_the_traceback_is_there_for_whoever_asks(hermes: Hermes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(click.Command, "make_context", lambda *_, **__: wrong(0))
    monkeypatch.setenv("HERMES_TRACEBACK", "1")
    ended = hermes("rules")
    assert ended.code == 70
    assert "Traceback" in ended.err
    assert "in wrong" in ended.err


def test_memory_that_ran_out_is_no_defect(hermes: Hermes, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(click.Command, "make_context", fails)
    ended = hermes("rules")
    assert (ended.code, ended.err.splitlines()[0]) == (2, "hermes: memory ran out")


@pytest.mark.live
@pytest.mark.parametrize("engine", ["serial", "processes"])
def test_a_defect_in_a_worker_is_told_as_any_other(engine: str) -> None:
    with engine_of(engine, 1) as chosen, pytest.raises((ZeroDivisionError, WorkerFailedError)) as failed:
        chosen.map(wrong, {0: 0})
    told = Defect.of(failed.value)
    assert told.error == "ZeroDivisionError: division by zero"
    assert "in wrong" in told.trace


@pytest.mark.live
def test_a_defect_in_a_pool_is_told_as_any_other() -> None:
    with processes(1) as pool, pytest.raises((ZeroDivisionError, WorkerFailedError)) as failed:
        pool.submit(wrong, 0).result()
    assert Defect.of(failed.value).error == "ZeroDivisionError: division by zero"


@pytest.mark.live
def test_a_path_that_the_system_refuses_is_no_full_disk(tmp_path: Path) -> None:
    ended = subprocess.run(
        [HERMES, "detect", str(tmp_path / ("x" * 300))], capture_output=True, text=True, check=False
    )  # fmt: skip
    assert ended.returncode == 2
    assert "name too long" in ended.stderr
    assert "check the path" in ended.stderr
    assert "disk space" not in ended.stderr


@pytest.mark.parametrize("words", [["analyze", "--nothing"], ["nothing"], ["analyze"], ["analyze", "/nothing/there"]])
def test_a_wrong_command_line_exits_with_2(hermes: Hermes, words: list[str]) -> None:
    assert hermes(*words).code == 2


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["analyze", "--help"]])
def test_help_exits_with_0(hermes: Hermes, words: list[str]) -> None:
    assert hermes(*words).code == 0


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/bash", "-c", f"set -o pipefail; {line}"], capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "HERMES": str(HERMES), **environment},
    )  # fmt: skip


@pytest.mark.live
def test_a_pipe_that_was_closed_is_neither_an_answer_nor_an_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        done = subprocess.run(
            [HERMES, "schema", "kernel"], stdout=pipe, stderr=subprocess.PIPE, timeout=300, check=False
        )
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.live
def test_a_terminal_of_ascii_gets_the_answer() -> None:
    done = shell('"$HERMES" rules', PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.live
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_stream_is_no_defect(closed: str) -> None:
    assert shell(f'"$HERMES" rules {closed}').returncode == 0
    assert shell(f'"$HERMES" analyze /nothing/there {closed}').returncode == 2
