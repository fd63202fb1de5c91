"""Raw captures are exported by the tools of the host, beside the user's files never, and failing tools are said."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.profiles.read.ascend_raw.standin import tools

from hermes.base.errors import InputError
from hermes.base.say import say
from hermes.profiles.api import Loaded, load
from hermes.store.cache import Cache
from hermes_testing import Job, generate

pytestmark = pytest.mark.live

_JOB = Job(ranks=1, steps=1, seed=0, faults=())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same job as its profiler left it, and as the tools export it."""
    return generate(tmp_path_factory.mktemp("made"), _JOB, formats=["ascend-raw", "ascend-text"])


class Host:
    """A host with some tools, on which a raw capture is looked at."""

    def __init__(self, made: Path, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.raw, self.export = made / "ascend-raw", made / "ascend-text"
        self.folder, self._patch = folder, patch
        self.told: list[str] = []

    def with_tools(self, *, framework: bool = True, cann: bool = True, fate: str = "", **more: str) -> Loaded:
        """What is loaded of the raw capture there."""
        given = tools(self.folder / "tools", self.export, framework=framework, cann=cann, fate=fate)
        self._patch.setattr(os, "environ", {**given, **more})
        return load([self.raw], Cache(self.folder / "cache"), tell=self.told.append)


@pytest.fixture
def host(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(made, tmp_path, monkeypatch)


def _states(folder: Path) -> Mapping[Path, tuple[int, int]]:
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*")}


def _messages(loaded: Loaded) -> str:
    return "\n".join(
        f"{note.level}: {say(note.message)} -> {say(note.hint)}" for note in (*loaded.notes, *loaded.ranks[0].notes)
    )


def test_the_framework_exports_what_it_left_raw(host: Host) -> None:
    before = _states(host.raw)
    loaded = host.with_tools()
    assert loaded.ranks[0].format == "ascend-text"
    assert "exported by torch_npu" in _messages(loaded)
    assert host.told == [f"{next(p.name for p in host.raw.iterdir() if p.is_dir())} is raw: torch_npu exports it first"]
    assert _states(host.raw) == before


def test_modules_in_the_capture_and_in_the_folder_of_the_command_are_not_what_the_tool_imports(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.raw = Path(shutil.copytree(host.raw, tmp_path / "planted"))
    here = tmp_path / "here"
    here.mkdir()
    for folder in (host.raw, here, *(one for one in host.raw.iterdir() if one.is_dir())):
        for name in ("torch_npu", "pathlib", "shutil", "importlib", "sitecustomize"):
            (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'a').write({str(folder)!r})")
    monkeypatch.chdir(here)
    # What many a PYTHONPATH ends in means the current folder.
    path = tools(host.folder / "tools", host.export)["PYTHONPATH"]
    assert host.with_tools(PYTHONPATH=f"{path}:").ranks[0].format == "ascend-text"
    assert not (tmp_path / "mark").exists()


def test_an_export_is_made_once(host: Host) -> None:
    host.with_tools()
    again = host.with_tools(fate="fails")
    assert again.ranks[0].format == "ascend-text"
    assert len(host.told) == 1


def test_cann_alone_exports_the_device_and_the_framework_s_records_are_read_beside(host: Host) -> None:
    loaded = host.with_tools(framework=False)
    assert "exported by msprof" in _messages(loaded)
    assert loaded.ranks[0].format == "ascend-text+raw"


@pytest.mark.parametrize(
    ("fate", "said"),
    [
        ("fails", "no device"),
        ("killed", "was killed by signal 9"),
        ("msprof fails", "exit 1"),
        ("slow", "ended after 1 s"),
    ],
)
def test_a_tool_that_fails_leaves_what_the_records_tell_and_a_sentence(host: Host, fate: str, said: str) -> None:
    before = time.monotonic()
    loaded = host.with_tools(fate=fate, HERMES_EXPORT_SECONDS="1" if fate == "slow" else "60")
    assert loaded.ranks[0].format == "ascend-raw"
    (told,) = [line for line in _messages(loaded).splitlines() if "could not export" in line]
    assert told.startswith("degraded: torch_npu could not export the raw capture (")
    assert said in told
    assert time.monotonic() - before < 60
    assert not list((host.folder / "cache" / "making").iterdir())


def test_nothing_that_a_slow_tool_started_outlives_it(host: Host) -> None:
    host.with_tools(fate="slow", HERMES_EXPORT_SECONDS="1")
    here = str(host.folder)
    alive = [
        path for path in Path("/proc").iterdir()
        if path.name.isdecimal() and _environment(path).find(here) >= 0 and int(path.name) != os.getpid()
    ]  # fmt: skip
    assert alive == []


def _environment(process: Path) -> str:
    try:
        return (process / "environ").read_text("utf-8", "replace")
    except OSError:
        return ""


def test_a_host_without_tools_reads_the_records_and_says_what_to_run_where(host: Host) -> None:
    loaded = host.with_tools(framework=False, cann=False)
    assert loaded.ranks[0].format == "ascend-raw"
    assert "the device's data is not exported" in _messages(loaded)
    assert f'analyse("{host.raw}")' in _messages(loaded)


def test_the_framework_alone_is_not_asked_to_wait_for_cann(host: Host) -> None:
    assert host.with_tools(cann=False).ranks[0].format == "ascend-raw"
    assert host.told == []


def test_a_prof_folder_alone_names_the_command(host: Host, tmp_path: Path) -> None:
    (prof,) = next(path for path in host.raw.iterdir() if path.is_dir()).glob("PROF_*")
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / prof.name).symlink_to(prof)
    host.raw = alone
    with pytest.raises(InputError) as refused:
        host.with_tools(framework=False, cann=False)
    assert f"msprof --export=on --output={alone / prof.name}" in say(refused.value.hint)
