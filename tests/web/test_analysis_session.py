"""A study reads once, keeps its document, says what went wrong, and disturbs nobody."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermes.base.errors import HermesError, InputChangedError
from hermes.profiles.api import ALL_STRETCHES
from hermes.profiles.load import Loaded, load
from hermes.profiles.pipeline.analyze import analyze
from hermes.report.report_json import document
from hermes.store.cache import Cache
from hermes.web import analysis_session as room
from hermes.web.analysis_session import AnalysisSession
from hermes.web.json_answers import NotReadyError


def test_the_document_is_that_of_the_analysis(local: Any, job: Path, cache: Cache) -> None:
    made = document(analyze(load([job], cache)))
    assert local.study.document == json.loads(json.dumps(made))


def test_a_second_study_takes_the_kept_document(
    local: Any, job: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes.profiles.pipeline.analyze.analyze", lambda loaded: pytest.fail("analysed again"))
    second = AnalysisSession([job], cache)
    second.run()
    assert second.state.phase == "ready"
    assert second.document == json.loads(json.dumps(local.study.document))


def test_changed_code_is_another_document(local: Any, job: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    assert local.study.document
    monkeypatch.setattr(room, "_code", lambda: "changed")
    calls: list[object] = []
    monkeypatch.setattr(
        "hermes.profiles.pipeline.analyze.analyze", lambda loaded: calls.append(loaded) or analyze(loaded)
    )
    AnalysisSession([job], cache).run()
    assert len(calls) == 1


def test_before_it_is_read_there_is_no_answer_but_a_state(
    job: Path, cache: Cache, serve_here: Callable[..., Any]
) -> None:
    from tests.web.conftest import Client  # type: ignore[import-not-found]

    with serve_here([job], cache, wait=False) as running:
        client = Client(running)
        assert client.json("/api/state")["phase"] == "reading"
        assert (client.get("/api/report").status, client.get("/api/sizes?rank=0").status) == (202, 503)
        running.study.run()
        assert client.json("/api/state")["phase"] == "ready"
        assert client.get("/api/report").status == 200


def test_an_input_that_cannot_be_read_is_a_state_too(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "trace_view.json").write_text("{}")
    study = AnalysisSession([tmp_path / "in"], Cache(tmp_path / "cache"))
    study.run()
    assert study.state.phase == "failed"
    assert study.state.error is not None
    with pytest.raises(type(study.state.error)):
        _ = study.document


def test_a_study_that_was_not_begun_is_not_ready(job: Path, cache: Cache) -> None:
    with pytest.raises(NotReadyError):
        _ = AnalysisSession([job], cache).loaded


@pytest.mark.live
def test_two_browsers_and_an_analysis_at_once_get_what_each_gets_alone(
    job: Path, tmp_path: Path, serve_here: Any
) -> None:
    from tests.web.conftest import Client  # type: ignore[import-not-found]

    cache = Cache(tmp_path / "cache")
    command = [sys.executable, "-c", "from hermes.cli import main; main()", "analyze", str(job), "--format", "json"]
    with serve_here([job], cache, wait=False) as running:
        beside = subprocess.Popen(
            command, stdout=subprocess.PIPE, env={"HERMES_CACHE_DIR": str(cache.root), "PATH": ""}
        )
        running.study.run()
        one, two = Client(running), Client(running)
        paths = [
            f"/api/rows?table=kernel&sort={name}&offset={at}" for name in ("dur_ns", "name") for at in (0, 100, 700)
        ]
        paths += [
            "/api/timeline.pftrace?ranks=0&steps=11",
            "/api/rows?table=kernels.type&sort=total_ns",
            "/api/search?q=mul",
        ]
        found: dict[tuple[int, str], bytes] = {}

        def ask(number: int, client: Any) -> None:
            for path in paths if number else paths[::-1]:
                found[number, path] = client.get(path).body

        threads = [threading.Thread(target=ask, args=pair) for pair in enumerate((one, two))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        printed = beside.communicate(timeout=120)[0]
        assert all(found[0, path] == found[1, path] and found[0, path] for path in paths)
        assert json.loads(printed) == running.study.document


# What nobody touched since ------------------------------------------------------------------------------------------


@pytest.fixture
def own(job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the job, old enough to be relied on, that was studied once."""
    monkeypatch.setattr("hermes.store.file_index.MARGIN_NS", -(10**12))
    shutil.copytree(job, tmp_path / "job")
    AnalysisSession([tmp_path / "job"], Cache(tmp_path / "cache")).run()
    return tmp_path / "job"


def again(own: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[AnalysisSession, list[object]]:
    """A second study, and a note for each time that it read."""
    seen: list[object] = []

    read = AnalysisSession._read

    def noted(study: AnalysisSession) -> Loaded:
        seen.append(study)
        return read(study)

    monkeypatch.setattr(AnalysisSession, "_read", noted)
    study = AnalysisSession([own], Cache(own.parent / "cache"))
    study.run()
    assert study.state.phase == "ready"
    return study, seen


def test_untouched_files_are_shown_without_being_read(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, read = again(own, monkeypatch)
    fresh = load([own], Cache(own.parent / "cache"))
    assert study.document == json.loads(json.dumps(document(analyze(fresh))))
    assert json.loads(study.summary())["document"]["verdict"] == study.document["verdict"]
    # The tables are there: how to read the files again is not kept.
    assert study.loaded == replace(fresh, ranks=tuple(replace(one, reading=None) for one in fresh.ranks))
    assert study.whole() == analyze(fresh, stretches=ALL_STRETCHES)
    assert not read


@pytest.mark.live
def test_notes_of_untouched_files_are_those_of_the_first_reading(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    time.sleep(0.02)
    file = next(own.rglob("kernel_details.csv"))
    os.truncate(file, file.stat().st_size // 2)
    AnalysisSession([own], Cache(own.parent / "cache")).run()
    study, read = again(own, monkeypatch)
    fresh = load([own], Cache(own.parent / "cache"))
    assert [one.notes for one in study.loaded.ranks] == [one.notes for one in fresh.ranks]
    assert any("kernel_details.csv" in note.where for one in fresh.ranks for note in one.notes)
    assert not read


@pytest.mark.parametrize(
    "kept",
    [
        "[]",
        "{}",
        '{"ranks": [{}], "notes": []}',
        '{"ranks": [], "notes": [{"level": "info"}]}',
        '{"ranks": [], "notes": [{"level": "info", "message": {}, "where": "", "lost": {}, "hint": {}}]}',
    ],
)
def test_what_was_kept_of_the_ranks_and_is_none_is_read_again(
    kept: str, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, read = again(own, monkeypatch)
    (file,) = (own.parent / "cache").rglob(room._LOADED)
    file.write_text(kept)
    assert [one.rank for one in study.loaded.ranks] == [0, 1, 2]
    assert len(read) == 1


def _a_byte(own: Path) -> None:
    file = next(own.rglob("kernel_details.csv"))
    then = file.stat()
    file.write_bytes(file.read_bytes().replace(b"1", b"2", 1))
    os.utime(file, ns=(then.st_atime_ns, then.st_mtime_ns))


def _a_file_more(own: Path) -> None:
    (own / "notes.txt").write_text("new")


def _a_file_less(own: Path) -> None:
    next(own.rglob("operator_memory.csv")).unlink()


def _a_file_that_is_not_of_a_profile(own: Path) -> None:
    file = next(own.rglob("profiler_info*.json"))
    file.write_bytes(file.read_bytes() + b" ")


@pytest.mark.live
@pytest.mark.parametrize("change", [_a_byte, _a_file_more, _a_file_less, _a_file_that_is_not_of_a_profile])
def test_any_change_is_read(change: Callable[[Path], None], own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Beyond the tick of the clock that files are stamped by.
    time.sleep(0.02)
    change(own)
    study, read = again(own, monkeypatch)
    assert study.document == json.loads(json.dumps(document(analyze(load([own], Cache(own.parent / "cache"))))))
    assert len(read) == 1


def test_files_that_were_written_just_now_are_read(job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(job, tmp_path / "job")
    monkeypatch.setattr("hermes.store.file_index.MARGIN_NS", 10**12)
    AnalysisSession([tmp_path / "job"], Cache(tmp_path / "cache")).run()
    _, read = again(tmp_path / "job", monkeypatch)
    assert len(read) == 1


def test_tables_that_were_removed_from_the_cache_are_read_again(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, read = again(own, monkeypatch)
    folder = load([own], Cache(own.parent / "cache")).ranks[0].folder
    shutil.rmtree(folder)
    assert study.loaded.ranks[0].folder == folder
    assert (folder / "kernel.parquet").exists()
    assert len(read) == 1


def test_a_cache_that_was_cleared_beneath_the_server_is_said(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, _ = again(own, monkeypatch)
    Cache(own.parent / "cache").clear()
    with pytest.raises(HermesError, match="stored analysis cannot be read"):
        _ = study.tables
    assert study.loaded.ranks[0].folder.exists()


@pytest.mark.live
def test_the_first_page_needs_no_large_library(own: Path) -> None:
    script = """
import asyncio, sys
from pathlib import Path
import hermes.store.file_index
hermes.store.file_index.MARGIN_NS = -(10**12)
from hermes.store.cache import Cache
from hermes.web.page_server import PageServer
from hermes.web.analysis_session import AnalysisSession
import hermes.web.server
study = AnalysisSession([Path(sys.argv[1])], Cache(Path(sys.argv[2])))
study.run()
front = PageServer(study, lambda busy: sys.exit("the rest was loaded"))
async def ask(path, query):
    sent = []
    async def send(message):
        sent.append(message)
    await front({"type": "http", "method": "GET", "path": path, "query_string": query, "headers": []}, None, send)
    return sent[0]["status"]
async def main():
    for path, query in (("/", b""), ("/static/app.js", b""), ("/api/state", b""), ("/api/report", b""),
                        ("/api/rows", b"table=inputs&offset=0&limit=100"), ("/api/columns", b"table=steps&names=rank")):
        assert await ask(path, query) == 200, path
asyncio.run(main())
print(sorted({"polars", "duckdb", "numpy", "pyarrow", "fastapi", "pydantic"} & set(sys.modules)))
"""
    command = [sys.executable, "-c", script, str(own), str(own.parent / "cache")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.live
def test_tables_that_would_be_of_another_input_are_refused(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache lost them, and the files changed since: what is shown and what is asked for would not be one input."""
    study, _ = again(own, monkeypatch)
    shutil.rmtree(load([own], Cache(own.parent / "cache")).ranks[0].folder)
    time.sleep(0.02)
    _a_byte(own)
    with pytest.raises(InputChangedError, match="the input has changed since"):
        _ = study.loaded


def test_what_was_kept_and_is_damaged_is_not_there(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, _ = again(own, monkeypatch)
    study.keep("notes", {"a": 1}, lambda folder: (folder / "more.bin").write_bytes(b"12") and None)
    folder = study.kept_in("notes")
    assert folder is not None
    assert study.kept("notes") == {"a": 1}
    assert (folder / "more.bin").read_bytes() == b"12"
    (folder / "document.json").write_text("7 is no")
    assert study.kept("notes") is None
    assert study.kept("nothing") is None
