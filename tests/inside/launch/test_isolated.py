"""Modules of the working directory and of PYTHONPATH: the job has them, what Hermes starts beside it has not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.inside.launch.conftest import Launcher, watching
from tests.patience import PATIENCE_S

from hermes.jobs.analyze_capture import analysis

pytestmark = pytest.mark.live

NAMES = ("hermes", "click", "polars", "numpy", "sitecustomize", "usercustomize", "json", "subprocess")


def _plant(folder: Path) -> Path:
    """Modules that say which process has loaded them, and are of no use."""
    told = folder / "told"
    folder.mkdir(exist_ok=True)
    for name in NAMES:
        raises = "" if name.endswith("customize") else "raise ImportError('planted')\n"
        text = f"import os\nwith open({str(told)!r}, 'a') as file: print(os.getpid(), __name__, file=file)\n{raises}"
        (folder / f"{name}.py").write_text(text)
    return told


def _loaded(told: Path) -> set[int]:
    return {int(line.split()[0]) for line in told.read_text().splitlines()} if told.exists() else set()


@pytest.mark.parametrize("where", ["working directory", "PYTHONPATH"])
def test_planted_modules_are_loaded_by_no_process_of_hermes(launcher: Launcher, where: str) -> None:
    place = launcher.place
    told = _plant(place.folder / "planted")
    how = {"cwd": told.parent} if where == "working directory" else {}
    paths = [str(told.parent)] if where == "PYTHONPATH" else [""]
    environment = place.environment | {"PYTHONPATH": os.pathsep.join([*paths, place.environment["PYTHONPATH"]])}
    # The job itself is the user's: it loads what is there, as it would without Hermes.
    process = launcher.begin(
        sys.executable,
        "-c",
        "import sys; sys.stdin.readline(); sys.exit(7)",
        env=environment,
        stdin=subprocess.PIPE,
        **how,
    )
    watching(place.root)
    _, said = process.communicate("end\n", timeout=PATIENCE_S)
    assert process.returncode == 7, said
    assert _loaded(told) == {process.pid}
    assert "watcher has ended" not in said
    assert "run directory" in said


@pytest.mark.parametrize("module", ["hermes", "click"])
def test_a_job_starts_whatever_pythonpath_has_in_place_of_hermes_and_click(launcher: Launcher, module: str) -> None:
    folder = launcher.place.folder / "planted"
    folder.mkdir()
    (folder / f"{module}.py").write_text("raise SystemExit('broken')\n")
    paths = os.pathsep.join([str(folder), launcher.place.environment["PYTHONPATH"]])
    done = launcher.shell("RUN sh -c 'exit 7'; echo status $?", PYTHONPATH=paths)
    assert done.stdout == "status 7\n", done.stderr


def test_an_analysis_beside_a_job_loads_no_module_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = _plant(tmp_path / "planted")
    monkeypatch.chdir(told.parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(told.parent), "", os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("HERMES_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "capture").mkdir()
    began = time.monotonic()
    child = analysis(tmp_path / "capture", tmp_path / "out")
    assert child.wait(PATIENCE_S) == 2, time.monotonic() - began
    assert "hermes: " in (tmp_path / "out" / "analysis.log").read_text()
    assert _loaded(told) == set()
