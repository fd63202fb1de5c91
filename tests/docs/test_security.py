"""The page on security names every command, every place that starts a process or listens, and the bounds that hold."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from hermes.cli.app import app
from hermes.fleet.exporter import address, serve
from hermes.web import access_guard, server

_STARTS = re.compile(
    r"(subprocess\.(Popen|run|call|check_call|check_output)"
    r"|os\.(fork|forkpty|system|popen|exec[lv]p?e?|posix_spawnp?|spawn[lv]p?e?)"
    r"|pty\.(spawn|fork)|webbrowser\.open|multiprocessing\.(Process|Pool|get_context)|ProcessPoolExecutor"
    r"|asyncio\.create_subprocess_(exec|shell)|WorkerProcess\.started|start_session|begin_beside)"
)


@pytest.fixture(scope="module")
def page(pages: dict[str, str]) -> str:
    return pages["docs/security.md"]


def _code(root: Path, wanted: re.Pattern[str]) -> Iterator[tuple[str, ast.AST]]:
    """What stands in the modules whose text has what is wanted."""
    source = root / "src" / "hermes"
    for path in sorted(source.rglob("*.py")):
        text = path.read_text("utf-8")
        if wanted.search(text):
            for node in ast.walk(ast.parse(text)):
                yield path.relative_to(source).as_posix(), node


def _calling(root: Path, wanted: re.Pattern[str]) -> set[str]:
    """The modules that call what the pattern names, whole."""
    called = ((name, node.func) for name, node in _code(root, wanted) if isinstance(node, ast.Call))
    return {name for name, function in called if wanted.fullmatch(ast.unparse(function))}


def test_every_command_is_named(page: str) -> None:
    rows = " ".join(line.split("|")[1] for line in page.splitlines() if line.startswith("| `"))
    absent = []
    for name, command in app.commands.items():
        below = [f"{name} {part}" for part in command.commands] if isinstance(command, click.Group) else [name]
        absent += [one for one in below if f"`{one}`" not in rows and f"`{name}`" not in rows]
    assert absent == []


def test_every_place_that_starts_a_process_is_named_and_no_other(root: Path, page: str) -> None:
    table = page.partition("## Processes that are started")[2].partition("\n## ")[0]
    named = set(re.findall(r"^\| `([a-z_/]+\.py)` \|", table, re.M))
    starting = _calling(root, _STARTS)
    assert "migrate/verify.py" in starting
    holding = {"jobs/watch_job.py"}
    assert named == starting | holding


def test_no_process_is_started_by_a_shell_or_under_another_name(root: Path) -> None:
    shells = {
        name
        for name, node in _code(root, re.compile(r"shell="))
        if isinstance(node, ast.keyword) and node.arg == "shell" and ast.unparse(node.value) != "False"
    }
    hidden = {
        name
        for name, node in _code(root, re.compile(r"from (subprocess|pty|webbrowser|os) import"))
        if isinstance(node, ast.ImportFrom) and node.module in ("subprocess", "pty", "webbrowser", "os")
    }
    assert (shells, hidden) == (set(), set())


def test_every_place_that_listens_is_known(root: Path) -> None:
    sockets = _calling(root, re.compile(r"socket\.(socket|create_server)"))
    assert sockets & _calling(root, re.compile(r".+\.(bind|listen)")) == {
        "web/server.py", "jobs/kineto_daemon/ipc.py", "fleet/exporter/serve.py", "fleet/probe/measure_network.py",
    }  # fmt: skip


def test_bounds_of_the_server_are_those_of_the_code(page: str) -> None:
    part = page.partition("## What listens")[2].partition("\n## ")[0]
    said = (
        f"port {server.DEFAULT_PORT}", f"take {server.HEAD_SECONDS:.0f} s", f"{access_guard.LONGEST_HEAD:,} bytes",
        f"a path {access_guard.LONGEST_TARGET:,} bytes", f"{server._AT_ONCE} connections",
    )  # fmt: skip
    assert [one for one in said if one not in " ".join(part.split())] == []


def test_bounds_of_the_exporter_are_those_of_the_code(page: str) -> None:
    part = " ".join(page.partition("## What listens")[2].partition("\n## ")[0].split())
    assert f"{serve.AT_ONCE} connections at once, each {serve.PATIENCE_S:.0f} s long" in part
    assert f"port {address.read_address(address.DEFAULT).port}" in part


def test_the_page_at_the_top_leads_here(root: Path) -> None:
    assert "](docs/security.md)" in (root / "SECURITY.md").read_text("utf-8")
