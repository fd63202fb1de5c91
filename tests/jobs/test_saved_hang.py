"""Where ranks stood is kept once no step ends any more, and is read when the job has ended."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tests.jobs.live_job import LiveJob, a_job, live_job

from hermes.jobs.saved_hang import FILE, drop_hang, latest_hang, save_hang
from hermes.jobs.watch_job import Watcher

__all__ = ["live_job"]
S = 10**9


def ended(one: LiveJob) -> None:
    one.ring.close()
    one.control.close()


def read(one: LiveJob, name: str = "") -> dict[str, Any]:
    return latest_hang(Path(one.environment["HERMES_RUN_DIR"]), name, time.time_ns())


def test_the_watcher_keeps_it_and_drops_it_when_steps_go_on(live_job: LiveJob) -> None:
    watcher = Watcher(
        live_job.job, preset="robust", environment=live_job.environment, capture=False, say=live_job.said.append
    )
    live_job.steps([6.0] * 30)
    watcher.look(10**18)
    file = live_job.job.folder / FILE
    assert not file.exists()
    watcher.look(10**18 + 20 * S)
    (row,) = json.loads(file.read_text())["ranks"]
    assert (row["rank"], row["step"]) == (0, 30)
    live_job.steps([6.0])
    watcher.look(10**18 + 26 * S)
    assert not file.exists()
    watcher.close(patience_s=0)


def test_only_a_job_that_has_ended_is_read(tmp_path: Path) -> None:
    with a_job(tmp_path, launch="10.0.0.1:29500") as one:
        one.steps([6.0] * 3)
        assert read(one)["ranks"] == []
        save_hang(one.job, time.time_ns() - 40 * S)
        assert read(one)["ranks"] == []
        ended(one)
        found = read(one, "29500")
        assert [row["rank"] for row in found["ranks"]] == [0]
        assert 40 * S <= found["ended_ns"] < 400 * S
        assert read(one, "another")["ranks"] == []
        # What is damaged or of another host that shares the folder is passed over.
        path = one.job.folder / FILE
        whole = json.loads(path.read_text())
        for bad in ("", "[]", "7", "{", json.dumps({**whole, "host": "another"}), json.dumps({**whole, "ranks": 7})):
            path.write_text(bad)
            assert read(one)["ranks"] == []
        drop_hang(one.job)
        assert not path.exists()
