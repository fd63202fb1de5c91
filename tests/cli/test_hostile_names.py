"""A folder, job or file of a hostile name steers no terminal, forges no line and runs nothing when it is copied."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.each import each

from hermes.cli.app import app
from hermes_testing import Job, generate

CLI = Path(__file__).resolve().parents[2] / "src" / "hermes" / "cli"
MODULES = sorted(path for path in CLI.glob("*.py") if path.name != "print_output.py")
# A folder of this name: escapes, a forged line, a direction mark, quotes, and what a shell would run.
HOSTILE = "x\x1b[2J\nhermes: all is well\r\u202e'\"$(touch ran)`touch ran`\x9b"
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
RUN = "from hermes.cli import main; main()"
SERVES_S = 20


@each(MODULES, lambda path: path.name)
def test_what_a_command_prints_goes_through_one_place(module: Path) -> None:
    """`show` makes it harmless; rich tables and the live picture are made of texts that are clean."""
    tree = ast.parse(module.read_text("utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert [one.lineno for one in calls if isinstance(one.func, ast.Name) and one.func.id == "print"] == []
    assert [one.lineno for one in calls if ast.unparse(one.func) in ("sys.stdout.write", "sys.stderr.write")] == []
    assert [one.lineno for one in calls if ast.unparse(one.func) in ("click.echo", "click.secho")] == []


def commands(group: click.Group, *before: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, one in sorted(group.commands.items()):
        if isinstance(one, click.Group):
            yield from commands(one, *before, name)
        else:
            yield (*before, name), one


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = generate(tmp_path_factory.mktemp("names") / "job", Job(ranks=2, steps=2, layers=1), formats=["ascend-text"])
    return Path(shutil.move(made, made.parent / HOSTILE))


ALL = list(commands(app))


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.parametrize(("name", "command"), ALL, ids=["-".join(name) for name, _ in ALL])
def test_a_hostile_name_steers_no_command(
    hostile: Path, tmp_path: Path, name: tuple[str, ...], command: click.Command
) -> None:
    words: list[str] = []
    for one in command.params:
        if isinstance(one, click.Argument):
            words += [str(hostile)] * max(one.nargs, 1)
        elif "--out" in one.opts:
            words += ["--out", str(tmp_path / HOSTILE)]
        elif one.required:
            words += [one.opts[0], *[str(hostile)] * one.nargs]
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, *name, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=tmp_path,
        stdin=subprocess.DEVNULL, env={**os.environ, "HERMES_CACHE_DIR": str(tmp_path / "cache")},
    )  # fmt: skip
    try:
        told, _ = process.communicate(timeout=SERVES_S)
    except subprocess.TimeoutExpired:
        process.kill()
        told, _ = process.communicate()
    text = told.decode("utf-8", "replace")
    assert STEERING.findall(text) == []
    assert [line for line in text.splitlines() if line.startswith("hermes: all is well")] == []
    assert not (tmp_path / "ran").exists()
