"""What is written aside takes its place whole, and nobody who may write the folder too leads it elsewhere."""

from __future__ import annotations

import ast
import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes.base.write_atomic import write_atomic

SOURCE = Path(__file__).resolve().parents[2] / "src" / "hermes"
NOBODY = 65534
# Another user's process at the worst moment: it moves the draft's folder away, and puts a link to the victim's there.
RIVAL = """
import os, sys
folder, victim = sys.argv[1:]
os.chdir(folder)
for name in os.listdir("."):
    if name.startswith(".write-"):
        os.rename(name, "taken" + name)
        os.symlink(victim, name)
"""


def written(path: Path, content: bytes, mode: int = 0o600) -> None:
    with write_atomic(path, mode=mode) as file:
        file.write(content)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_the_file_takes_its_place_whole_and_with_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"before")
    with write_atomic(path, mode=0o664) as file:
        file.write(b"after")
        file.flush()
        assert path.read_bytes() == b"before"
    assert path.read_bytes() == b"after"
    assert path.stat().st_mode & 0o7777 == 0o664
    assert names(tmp_path) == ["a.json"]


def test_after_a_failure_all_is_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"before")
    with pytest.raises(ZeroDivisionError), write_atomic(path) as file:
        file.write(b"%d" % (1 // len(b"")))
    assert path.read_bytes() == b"before"
    assert names(tmp_path) == ["a.json"]


def test_while_it_is_written_only_this_user_may_come_near(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with write_atomic(path, mode=0o666) as file:
        file.write(b"secret")
        file.flush()
        (own,) = tmp_path.iterdir()
        assert own.stat().st_mode & 0o777 == 0o700
        assert (own / "a.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("kind", ["file", "folder", "nothing", "fifo"])
def test_a_link_in_the_place_is_replaced_and_not_followed(tmp_path: Path, kind: str) -> None:
    victim = tmp_path / "victim"
    {"file": lambda: victim.write_bytes(b"mine"), "folder": victim.mkdir, "fifo": lambda: os.mkfifo(victim),
     "nothing": lambda: None}[kind]()  # fmt: skip
    path = tmp_path / "a.json"
    path.symlink_to(victim)
    written(path, b"new")
    assert not path.is_symlink()
    assert path.read_bytes() == b"new"
    assert not victim.is_file() or victim.read_bytes() == b"mine"
    assert victim.exists() == (kind != "nothing")


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    """As root, `--textfile /dev/null` would put a file in the place of the device, for everyone."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(OSError, match="it is a device, a pipe or a socket"):
        written(path, b"new")
    assert path.is_fifo()
    assert names(tmp_path) == ["pipe"]


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder of another user."""
    if os.getuid() != 0:
        pytest.skip("only root can be two users")
    folder = Path(f"/tmp/hermes-test-rival-{os.getpid()}")
    folder.mkdir(mode=0o755)
    os.chown(folder, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.live
@pytest.mark.parametrize("moment", ["mkdir", "open", "replace"])
def test_another_user_of_the_folder_cannot_lead_root_elsewhere(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    victim = tmp_path / "wanted.json"
    victim.write_bytes(b"root's")
    real = getattr(os, moment)

    def call(*given: Any, **named: Any) -> Any:
        made = real(*given, **named) if moment == "mkdir" else None
        if moment != "open" or given[0] == "wanted.json":
            swap = ["/usr/bin/python3", "-I", "-c", RIVAL, str(shared), str(tmp_path)]
            monkeypatch.undo()
            subprocess.run(swap, user=NOBODY, group=NOBODY, extra_groups=[], check=True)
        return made if moment == "mkdir" else real(*given, **named)

    monkeypatch.setattr(os, moment, call)
    # Where the rival was faster, nothing is written, and that is said.
    with pytest.raises(NotADirectoryError) if moment == "mkdir" else contextlib.nullcontext():
        written(shared / "wanted.json", b"new")
    assert any(name.startswith("taken") for name in names(shared))
    assert victim.read_bytes() == b"root's"
    if moment != "mkdir":
        assert (shared / "wanted.json").read_bytes() == b"new"


def test_nothing_else_in_hermes_makes_a_draft_of_its_own() -> None:
    """But what runs in a user's job, which imports nothing of Hermes, and folders that the cache moves in whole."""
    found = []
    for module in sorted(SOURCE.rglob("*.py")):
        name = module.relative_to(SOURCE)
        if name.parts[0] == "inside" or name.name == "write_atomic.py":
            continue
        text = module.read_text("utf-8")
        found += [f"{name}:{node.lineno}" for node in ast.walk(ast.parse(text)) if _moves(node, "polars" in text)]
    assert found == []


def _moves(node: ast.AST, polars: bool) -> bool:
    """Whether this makes a named draft, or puts a file in the place of another; polars has a `replace` too."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    owner = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
    if (owner, node.func.attr) in {
        ("tempfile", "mkstemp"), ("tempfile", "NamedTemporaryFile"), ("os", "replace"), ("os", "rename"),
        ("shutil", "move"),
    }:  # fmt: skip
        return True
    return node.func.attr == "replace" and len(node.args) == 1 and not node.keywords and not polars
