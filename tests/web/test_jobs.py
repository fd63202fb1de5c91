"""Live: jobs as they step over server-sent events, captures asked for and followed, and who may not ask."""

from __future__ import annotations

import http.client
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE_S, until
from tests.web.conftest import Client  # type: ignore[import-not-found]

from hermes.inside.wire.rundir import default_root, jobs
from hermes.jobs.events import EVENTS
from hermes.jobs.request_capture import MANIFEST
from hermes.jobs.watch_job import Watcher
from hermes.store.cache import Cache
from hermes.web.jobs import LISTENERS

pytestmark = pytest.mark.live

WISH = {"job": "train-1-2", "steps": 3, "level": "light", "ranks": []}


class Listener:
    """One page that follows the jobs."""

    def __init__(self, client: Any) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", client.served.port, timeout=60)
        self._connection.request("GET", "/api/live", headers={"Cookie": client.cookie})
        self.answer = self._connection.getresponse()
        self.picture: dict[str, Any] = {}

    def until(self, fits: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        # An analysis yields to all else that the machine does.
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            line = self.answer.fp.readline()  # type: ignore[union-attr]
            if line.startswith(b"data: "):
                self.picture = json.loads(line[6:])
                if fits(self.picture):
                    return self.picture
        raise AssertionError(f"not seen in {PATIENCE_S} s, but {json.dumps(self.picture)[:2000]}")

    def close(self) -> None:
        self._connection.close()


@contextmanager
def listening(client: Any) -> Iterator[Listener]:
    made = Listener(client)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def client(served: Any) -> Client:
    """A client that speaks to a port: pages that follow a job hold connections open."""
    return Client(served)


@pytest.fixture
def stranger(served: Any) -> Client:
    return Client(served, key=False)


@pytest.fixture
def own(training: Any, tmp_path: Path, serve: Any) -> Iterator[Any]:
    """A server beside a job; it has no profiles to show, and shows jobs all the same."""
    with serve([tmp_path], Cache(tmp_path / "cache"), environment=training.environment) as running:
        yield Client(running)


def first(picture: dict[str, Any]) -> Any:
    return picture["jobs"][0] if picture["jobs"] else None


@pytest.mark.smoke
def test_a_job_comes_steps_slows_down_and_ends(own: Any, training: Any) -> None:
    with listening(own) as page:
        assert page.answer.getheader("content-type", "").startswith("text/event-stream")
        assert page.until(lambda picture: True) == {"jobs": [], "levels": ["light", "standard", "full"]}
        training.begin(2)
        seen = first(page.until(lambda picture: first(picture) and len(first(picture)["ranks"]) == 2))
        assert (seen["job"], seen["running"], seen["command"]) == ("train-1-2", True, "python <b>train</b>.py")
        seen = first(page.until(lambda picture: first(picture)["alarms"]))
        assert seen["alarms"][0]["since"] == 300
        assert seen["alarms"][0]["before_ns"] == 20_000_000
        rank = seen["ranks"][0]
        assert rank["walls_ns"][-1] == 40_000_000
        assert rank["samples_per_s"] > 1000
        assert dict(rank["split"])["data wait"] >= 10_000_000
        training.end()
        assert first(page.until(lambda picture: not first(picture)["running"]))["job"] == "train-1-2"


def test_a_capture_is_asked_for_followed_and_written_down(own: Any, training: Any) -> None:
    training.begin(2)
    with listening(own) as page:
        page.until(lambda picture: first(picture) and len(first(picture)["ranks"]) == 2)
        answer = own.post("/api/live/capture", WISH)
        assert answer.status == 200, answer.body
        again = own.post("/api/live/capture", WISH)
        assert again.status == 500
        assert b"a capture is under way" in again.body
        seen = first(page.until(lambda picture: first(picture)["capture"]))["capture"]
        assert (seen["steps"], seen["level"]) == (3, "light")
        seen = first(page.until(lambda picture: first(picture)["capture"]["done"]))["capture"]
    assert [(rank["rank"], rank["state"]) for rank in seen["ranks"]] == [(0, "finished"), (1, "finished")]
    folder = Path(json.loads(answer.body)["folder"])
    until((folder / MANIFEST).exists)
    assert json.loads((folder / MANIFEST).read_text())["ranks"]["1"]["state"] == "finished"


def test_a_capture_that_was_asked_for_is_analysed(own: Any, training: Any, job: Path) -> None:
    training.begin(1)
    with listening(own) as page:
        page.until(lambda picture: first(picture) and first(picture)["ranks"])
        asked = json.loads(own.post("/api/live/capture", WISH).body)
        # What the ranks of this test do not write.
        shutil.copytree(job, asked["folder"], dirs_exist_ok=True)
        picture = page.until(lambda picture: any(one["kind"] == "finding" for one in first(picture)["events"]))
        (found,) = [one for one in first(picture)["events"] if one["kind"] == "finding"]
        assert " To do: " in found["said"]["en"]
        assert "怎么做：" in found["said"]["zh"]
        assert Path(found["report"]).is_file()
        # The page links to it; what it runs can ask this server nothing.
        name = Path(found["report"]).parent.name
        answer = own.get(f"/live/reports/{WISH['job']}/{name}")
        assert answer.status == 200
        assert answer.body == Path(found["report"]).read_bytes()
        assert answer.headers["content-security-policy"].startswith("sandbox allow-scripts; default-src 'none'")
        for name_of_job, capture in (
            (WISH["job"], "none"),
            (WISH["job"], ".."),
            ("other", name),
            (WISH["job"], "%2e%2e"),
        ):
            assert own.get(f"/live/reports/{name_of_job}/{capture}").status == 404


def test_a_capture_can_be_cancelled(own: Any, training: Any) -> None:
    training.begin(1)
    with listening(own) as page:
        page.until(lambda picture: first(picture) and first(picture)["ranks"])
        assert own.post("/api/live/capture", {**WISH, "steps": 100}).status == 200
        assert own.post("/api/live/cancel", {"job": WISH["job"]}).status == 200
        page.until(lambda picture: first(picture)["capture"] is None)
        assert own.post("/api/live/capture", WISH).status == 200


def test_looking_on_leaves_a_watcher_its_work(own: Any, training: Any) -> None:
    training.begin(1)
    with listening(own) as page:
        page.until(lambda picture: first(picture) and first(picture)["alarms"])
        (job,) = jobs(default_root(training.environment))
        acting = Watcher(job, preset="robust", environment=training.environment, capture=False, say=lambda text: None)
        acting.look(time.time_ns())
        assert acting.acting
        seen = first(page.until(lambda picture: first(picture)["events"]))
        assert seen["events"][0]["kind"] == "alarm"
        acting.close()


def test_events_that_others_wrote_are_text_or_nothing(own: Any, training: Any) -> None:
    training.begin(1)
    with listening(own) as page:
        page.until(lambda picture: first(picture) and first(picture)["ranks"])
        (job,) = jobs(default_root(training.environment))
        long = {"id": "jobs.quoted", "arguments": {"text": {"name": "y" * 9_000}}}
        noted: list[dict[str, object]] = [{"kind": {"a": 1}, "time_ns": "x", "message": long}]
        for wrong in (
            {"id": 1},
            {"id": "a", "arguments": {"b": {"c": 1}}},
            {"id": "jobs.quoted", "arguments": []},
            "x",
        ):
            noted.append({"kind": "finding", "time_ns": 1, "message": wrong})
        lines = [b"\xff\xfe", b"[1]", b"{", *(json.dumps(one).encode() for one in noted)]
        (job.folder / EVENTS).write_bytes(b"\n".join(lines))
        seen = first(page.until(lambda picture: first(picture)["events"]))["events"]
        assert [one.get("said") for one in seen[:-1]] == [None] * 4
        assert [(len(seen[-1]["said"]["en"]), seen[-1]["time_ns"])] == [(2_000, "")]


@pytest.mark.parametrize("wish", [
    [], {}, 1, {**WISH, "more": 1}, {**WISH, "steps": 0}, {**WISH, "steps": 101}, {**WISH, "steps": True},
    {**WISH, "level": "worst"}, {**WISH, "level": []}, {**WISH, "ranks": [-1]}, {**WISH, "ranks": [0] * 257},
    {**WISH, "ranks": "0"}, {**WISH, "job": ""}, {**WISH, "job": 3}, {**WISH, "job": "x" * 300},
    {**WISH, "job": "other-1-2"}, {**WISH, "job": "../../etc"}, b"{", b"\xff", b"[" * 10_000,
])  # fmt: skip
def test_a_wish_that_makes_no_sense_is_refused(client: Any, wish: object) -> None:
    answer = client.post("/api/live/capture", wish)
    assert answer.status in (404, 500)
    assert json.loads(answer.body)["error"]["what"]


def test_a_part_of_a_name_is_no_job(own: Any, training: Any) -> None:
    training.begin(1)
    with listening(own) as page:
        page.until(lambda picture: first(picture) and first(picture)["ranks"])
        answer = own.post("/api/live/capture", {**WISH, "job": "train"})
        assert answer.status == 404


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": ""}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "navigate"}, 403),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content_Type": ""}, 415),
        ({"Content_Length": "99999999"}, 413),
        ({"Cookie": ""}, 401),
        ({"Cookie": "hermes-1=abc"}, 401),
    ],
)
@pytest.mark.parametrize("path", ["/api/live/capture", "/api/live/cancel"])
def test_only_our_own_page_asks(client: Any, path: str, headers: dict[str, str], status: int) -> None:
    assert client.post(path, WISH, **headers).status == status


def test_nothing_else_takes_a_body(client: Any) -> None:
    assert client.post("/api/live", WISH).status == 405
    assert client.post("/api/live/capture/", WISH).status == 405
    assert client.get("/api/live/capture").status in (404, 405)


def test_strangers_follow_nothing(stranger: Any) -> None:
    assert stranger.get("/api/live").status == 401


def test_there_is_an_end_to_pages_that_follow(client: Any) -> None:
    pages = [Listener(client) for _ in range(LISTENERS)]
    for page in pages:
        page.until(lambda picture: True)
    assert client.get("/api/live").status == 503
    assert client.get("/api/state").status == 200
    for page in pages:
        page.close()
    for _ in range(200):
        time.sleep(0.1)
        with listening(client) as page:
            if page.answer.status == 200:
                return
    raise AssertionError("pages that went away are counted for ever")


def test_the_server_ends_quietly_while_pages_listen(
    training: Any, tmp_path: Path, serve: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with serve([tmp_path], Cache(tmp_path / "cache"), environment=training.environment) as running:
        page = Listener(Client(running))
        page.until(lambda picture: True)
    assert caplog.records == []
    page.close()
