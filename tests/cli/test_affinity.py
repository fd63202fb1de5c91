"""The command `affinity`: without a wish nothing is moved, and either wish does what its name says."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from hermes.cli.affinity import run
from hermes.migrate import api
from hermes.migrate.affinity.bind_threads import BoundProcess


@pytest.fixture
def did(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the command asks for; nothing is moved."""
    asked: list[str] = []
    moved = [BoundProcess(pid=7, cpus=frozenset({0, 1}), threads=4)]

    def stand_in(name: str, result: Any) -> None:
        monkeypatch.setattr(api, name, lambda *_: (asked.append(name), result)[1])

    stand_in("plan_affinity", None)
    stand_in("apply_affinity", moved)
    stand_in("restore_affinity", moved)
    stand_in("plan_document", api.bound_document([]))
    return asked


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ([], ["plan_affinity", "plan_document"]),
        (["--apply"], ["plan_affinity", "apply_affinity"]),
        (["--restore"], ["restore_affinity"]),
    ],
    ids=["plan", "apply", "restore"],
)
def test_the_command_moves_threads_only_when_told_to(did: list[str], words: list[str], asked: list[str]) -> None:
    assert CliRunner().invoke(run, words).exit_code == 0
    assert did == asked


def test_both_wishes_at_once_are_refused(did: list[str]) -> None:
    assert CliRunner().invoke(run, ["--apply", "--restore"]).exit_code == 2
    assert did == []
