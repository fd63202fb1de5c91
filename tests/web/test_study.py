"""A study reads once, keeps its document, says what went wrong, and disturbs nobody."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.bundle.cache import Cache
from hermes.report.document import document
from hermes.web import study as room
from hermes.web.study import NotReadyError, Study
from hermes.workflow.analyze import analyze
from hermes.workflow.load import load


def test_the_document_is_that_of_the_analysis(served: Any, job: Path, cache: Cache) -> None:
    made = document(analyze(load([job], cache)))
    assert served.study.document == json.loads(json.dumps(made))


def test_a_second_study_takes_the_kept_document(
    served: Any, job: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "analyze", lambda loaded: pytest.fail("analysed again"))
    second = Study([job], cache)
    second.run()
    assert second.state.phase == "ready"
    assert second.document == json.loads(json.dumps(served.study.document))


def test_changed_code_is_another_document(
    served: Any, job: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert served.study.document
    monkeypatch.setattr(room, "_code", lambda: "changed")
    calls: list[object] = []
    monkeypatch.setattr(room, "analyze", lambda loaded: calls.append(loaded) or analyze(loaded))
    Study([job], cache).run()
    assert len(calls) == 1


def test_before_it_is_read_there_is_no_answer_but_a_state(job: Path, cache: Cache, serve: Callable[..., Any]) -> None:
    from tests.web.conftest import Client  # type: ignore[import-not-found]

    with serve([job], cache, wait=False) as running:
        client = Client(running)
        assert client.json("/api/state")["phase"] == "reading"
        assert (client.get("/api/report").status, client.get("/api/sizes?rank=0").status) == (202, 503)
        running.study.run()
        assert client.json("/api/state")["phase"] == "ready"
        assert client.get("/api/report").status == 200


def test_an_input_that_cannot_be_read_is_a_state_too(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "trace_view.json").write_text("{}")
    study = Study([tmp_path / "in"], Cache(tmp_path / "cache"))
    study.run()
    assert study.state.phase == "failed"
    assert study.state.error is not None
    with pytest.raises(type(study.state.error)):
        _ = study.document


def test_a_study_that_was_not_begun_is_not_ready(job: Path, cache: Cache) -> None:
    with pytest.raises(NotReadyError):
        _ = Study([job], cache).loaded


def test_two_browsers_and_an_analysis_at_once_get_what_each_gets_alone(job: Path, tmp_path: Path, serve: Any) -> None:
    from tests.web.conftest import Client  # type: ignore[import-not-found]

    cache = Cache(tmp_path / "cache")
    command = [sys.executable, "-c", "from hermes.cli import main; main()", "analyze", str(job), "--format", "json"]
    with serve([job], cache, wait=False) as running:
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
