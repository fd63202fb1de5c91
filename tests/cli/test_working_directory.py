"""Code in the folder that a command runs in, or in its input, never runs: not for any command, engine or child."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from hermes.base.usable_cores import processes
from hermes.cli.app import app
from hermes.jobs import analyze_capture
from hermes_testing import Job, generate

pytestmark = pytest.mark.live

HERMES = Path(sys.executable).with_name("hermes")
PLANTED = "import os; os.close(os.open({mark!r} + __name__, os.O_CREAT | os.O_WRONLY))\n"
SERVES_S = 20
"""Longer than a command needs to start its children; those that serve are ended then."""
ENDS_S = 120


class Trap:
    """A folder with profiles and, beside them, a module of every name that anything could import."""

    def __init__(self, root: Path) -> None:
        self.folder = generate(root / "job", Job(ranks=4, steps=2, layers=1), formats=["ascend-text"])
        self.marks = root / "marks"
        self.marks.mkdir()
        self.cache = root / "cache"
        names = {*sys.stdlib_module_names, *importlib.metadata.packages_distributions(), "sitecustomize",
                 "usercustomize", "torch", "torch_npu", "mindspore", "ray", "msprof"} - {"hermes"}  # fmt: skip
        text = PLANTED.format(mark=f"{self.marks}/")
        for rank in (self.folder, *(one for one in self.folder.iterdir() if one.is_dir())):
            for name in names:
                (rank / f"{name}.py").write_text(text)
            (rank / "hermes").mkdir()
            (rank / "hermes" / "__init__.py").write_text(text)
            (rank / "hermes" / "__main__.py").write_text(text)

    def ran(self) -> list[str]:
        found = sorted(path.name for path in self.marks.iterdir())
        for name in found:
            (self.marks / name).unlink()
        return found

    def run(self, *words: str, seconds: int = ENDS_S) -> tuple[int, str]:
        """How `hermes` ends in that folder; a negative code of one that was ended."""
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        process = subprocess.Popen(
            [str(HERMES), *words], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
            env=environment | {"HERMES_CACHE_DIR": str(self.cache), "BROWSER": "/bin/true"},
        )  # fmt: skip
        try:
            told, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            told, _ = process.communicate()
        return process.returncode, told


@pytest.fixture(scope="module")
def trap(tmp_path_factory: pytest.TempPathFactory) -> Trap:
    return Trap(tmp_path_factory.mktemp("trap"))


@pytest.fixture
def inside(trap: Trap) -> Iterator[Trap]:
    """With the folder as that of this process too."""
    before = Path.cwd()
    os.chdir(trap.folder)
    yield trap
    os.chdir(before)


def commands(group: click.Group, *before: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, one in sorted(group.commands.items()):
        if isinstance(one, click.Group):
            yield from commands(one, *before, name)
        else:
            yield (*before, name), one


def words_for(command: click.Command, out: Path) -> list[str]:
    """What the command takes, made of the folder that it runs in; work is shared out among processes."""
    found: list[str] = []
    last: list[str] = []
    for one in command.params:
        names = {name.lstrip("-") for name in one.opts}
        if isinstance(one, click.Argument):
            free = one.type is click.UNPROCESSED
            last += ["--", "/bin/true"] if free else ["."] * max(one.nargs, 1)
        elif "engine" in names:
            found += ["--engine", "processes"]
        elif "jobs" in names:
            found += ["--jobs", "2"]
        elif "out" in names:
            found += ["--out", str(out)]
        elif one.required:
            folder = not isinstance(one.type, click.Path) or one.type.dir_okay
            found += [one.opts[0], *["." if folder else "sitecustomize.py"] * one.nargs]
    return [*found, *last]


# Its watcher still starts where the job starts.
ALL = [pytest.param(name, command, id="-".join(name)) for name, command in commands(app)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "command"), ALL)
def test_no_command_runs_what_its_folder_or_its_input_holds(
    trap: Trap, tmp_path: Path, name: tuple[str, ...], command: click.Command
) -> None:
    trap.cache = tmp_path / "cache"
    code, told = trap.run(*name, *words_for(command, tmp_path / "out"), seconds=SERVES_S)
    assert trap.ran() == []
    assert "Traceback" not in told
    # It got as far as its work: the words were not refused as such.
    assert "Usage:" not in told, told
    assert code in (0, 1, 2, 3, -signal.SIGKILL)


@pytest.mark.parametrize("engine", ["serial", "processes"])
def test_an_analysis_by_any_engine_runs_none_of_it(trap: Trap, engine: str, tmp_path: Path) -> None:
    trap.cache = tmp_path
    code, told = trap.run("analyze", ".", "--engine", engine, "--jobs", "2")
    assert (code, trap.ran()) == (0, []), told


@pytest.mark.slow
def test_workers_of_ray_run_none_of_it(trap: Trap, tmp_path: Path) -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("not installed: ray")
    trap.cache = tmp_path
    code, told = trap.run("analyze", ".", "--engine", "ray", "--jobs", "2")
    assert (code, trap.ran()) == (0, []), told


def test_an_analysis_beside_a_job_runs_none_of_it(inside: Trap, tmp_path: Path) -> None:
    child = analyze_capture.analysis(Path(), tmp_path / "out")
    assert os.getpriority(os.PRIO_PROCESS, child.pid) == 19
    child.wait(60)
    told = (tmp_path / "out" / "analysis.log").read_text()
    assert (child.returncode, inside.ran()) == (0, []), told


def _square(number: int) -> int:
    return number * number


def test_processes_beside_threads_run_none_of_it(inside: Trap) -> None:
    waiting = threading.Event()
    thread = threading.Thread(target=waiting.wait)
    thread.start()
    with contextlib.closing(_Ended(waiting, thread)), processes(2, start=os.umask, arguments=(0o77,)) as pool:
        assert list(pool.map(_square, range(5))) == [0, 1, 4, 9, 16]
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            pool.submit(divmod, 1, 0).result()
        with pytest.raises(RuntimeError, match="died"):
            pool.submit(os._exit, 3).result()
    assert inside.ran() == []


class _Ended:
    def __init__(self, waiting: threading.Event, thread: threading.Thread) -> None:
        self._waiting, self._thread = waiting, thread

    def close(self) -> None:
        self._waiting.set()
        self._thread.join()
