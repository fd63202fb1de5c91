"""Every exit code is declared once, and a command exits with no other."""

from __future__ import annotations

import ast
from pathlib import Path

import click
import pytest
from tests.each import each

from hermes.cli.app import app
from hermes.cli.exit_codes import ANY, Exit, codes_of, ends, hand_on, leave

CLI = Path(__file__).resolve().parents[2] / "src" / "hermes" / "cli"
EXITS = {"sys.exit", "os._exit", "exit", "quit", "SystemExit", "click.exceptions.Exit", "click.Abort"}
# `main` turns errors into codes for any command.
MODULES = sorted(path for path in CLI.glob("*.py") if path.name not in ("exit_codes.py", "__init__.py"))


@each(MODULES, lambda path: path.name)
def test_a_command_exits_by_what_it_declares(module: Path) -> None:
    calls = [node for node in ast.walk(ast.parse(module.read_text("utf-8"))) if isinstance(node, ast.Call)]
    found = [ast.unparse(one) for one in calls if ast.unparse(one.func) in EXITS]
    assert found == []


def test_what_ends_any_command_has_a_meaning_for_all() -> None:
    tree = ast.parse((CLI / "__init__.py").read_text("utf-8"))
    given = [node.args[0] for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) in EXITS]
    numbers = {one.value for one in given if isinstance(one, ast.Constant)}
    assert numbers <= {*ANY}


def _run(command: click.Command) -> int:
    with pytest.raises(SystemExit) as ended:
        command.main([], prog_name="hermes")
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_a_code_that_a_command_does_not_declare_is_a_defect() -> None:
    @ends({Exit.NO: "not alike"})
    @click.command("gate")
    def gate() -> None:
        leave(Exit.NO)

    @click.command("list")
    def plain() -> None:
        leave(Exit.NO)

    @click.command("show")
    def show() -> None:
        hand_on(9)

    @ends({}, passes="the command's")
    @click.command("run")
    def run() -> None:
        hand_on(9)

    assert (_run(gate), _run(run)) == (1, 9)
    assert codes_of(gate) == {Exit.DONE: ANY[Exit.DONE], Exit.NO: "not alike", Exit.UNUSABLE: ANY[Exit.UNUSABLE]}
    for command in (plain, show):
        with pytest.raises(LookupError, match="declare"):
            command.main([], prog_name="hermes")


def test_help_says_what_each_code_means(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        app.main(["precision", "check", "--help"], prog_name="hermes")
    told = capsys.readouterr().out
    assert "\n  Exit codes:\n    0     All of the golden setup was compared, and no difference is an error.\n" in told
    assert "\n    2     A file cannot be read.\n" in told
