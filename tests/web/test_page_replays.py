"""What-if over HTTP: what is listed, what several changes give together, what is refused, and how quick it is."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from hermes.profiles.load import load
from hermes.profiles.pipeline.analyze import outlined
from hermes.profiles.pipeline.load_replay_step import step_of
from hermes.profiles.whatif.changes import parse
from hermes.profiles.whatif.replay import predict, predictions
from hermes.store.cache import Cache
from hermes.web import page_replays
from hermes.web.analysis_session import AnalysisSession


def asked(client: Any, *specs: str, **more: object) -> dict[str, Any]:
    query = urlencode([("set", spec) for spec in specs] + list(more.items()))
    return dict(client.json(f"/api/whatif/replay?{query}"))


def listed(client: Any) -> dict[str, Any]:
    """What is there when nothing more comes."""
    for _ in range(600):
        found = dict(client.json("/api/whatif"))
        if found.get("phase") not in ("reading", "replaying"):
            return found
        time.sleep(0.05)
    raise AssertionError("the step was never read")


@pytest.mark.live
def test_the_first_answer_does_not_wait_for_the_step(
    job: Path, tmp_path: Path, serve_here: Any, key: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, go = page_replays._step, threading.Event()
    monkeypatch.setattr(page_replays, "_step", lambda loaded: go.wait(60) and read(loaded))
    with serve_here([job], Cache(tmp_path)) as running:
        client = key(running)
        assert client.json("/api/whatif")["phase"] == "reading"
        go.set()
        assert listed(client)["phase"] == "ready"


@pytest.mark.live
def test_the_next_server_answers_at_once_and_the_same(job: Path, tmp_path: Path, serve_here: Any, key: Any) -> None:
    cache = Cache(tmp_path)
    with serve_here([job], cache) as running:
        client = key(running)
        first = listed(client)
        specs = [one["set"][0] for one in first["changes"]]
        made = [asked(client, *own) for own in ((), *((spec,) for spec in specs), specs[:2])]
        for _ in range(400):
            if running.study.kept("whatif"):
                break
            time.sleep(0.05)
    with serve_here([job], cache) as running:
        client = key(running)
        assert client.json("/api/whatif") == first
        assert [asked(client, *own) for own in ((), *((spec,) for spec in specs), specs[:2])] == made


@pytest.mark.live
def test_what_is_listed_is_what_the_command_says(client: Any, job: Path, cache: Cache) -> None:
    loaded = load([job], cache)
    expected = predictions(step_of(loaded, outlined(loaded)))
    shown = listed(client)["changes"]
    assert [(tuple(one["set"]), one["low_ns"], one["high_ns"]) for one in shown] == [
        (one.specs, one.low_ns, one.high_ns) for one in expected
    ]


@pytest.mark.live
def test_changes_are_replayed_together_and_not_added(client: Any, job: Path, cache: Cache) -> None:
    loaded = load([job], cache)
    specs = [one["set"][0] for one in listed(client)["changes"][:3]]
    together = predict(step_of(loaded, outlined(loaded)), [parse(spec) for spec in specs])
    gain = asked(client, *specs)["gain"]
    assert (gain["low_ns"], gain["high_ns"]) == (together.low_ns, together.high_ns)
    assert gain["low_ns"] != sum(asked(client, spec)["gain"]["low_ns"] for spec in specs)


@pytest.mark.parametrize("specs", [(), ("comm:overlap",), ("comm:*=0.5", "op:*=0.5", "host:garbage-collection=0")])
def test_the_parts_of_both_steps_add_up(client: Any, specs: tuple[str, ...]) -> None:
    answer = asked(client, *specs, rank=1)
    for shown in (answer["today"], answer["then"]):
        assert sum(shown["split"].values()) == shown["step_ns"]
        assert sum(shown["mean"].values()) == pytest.approx(shown["step_ns"])
        ends = [0] + [piece[2] for piece in shown["pieces"]]
        assert ends == [piece[1] for piece in shown["pieces"]] + [shown["step_ns"]]
    assert answer["today"]["step_ns"] - answer["then"]["step_ns"] == answer["gain"]["low_ns"]


def test_hidden_communication_leaves_none(client: Any) -> None:
    answer = asked(client, "comm:overlap")
    assert answer["today"]["split"]["comm"] > 0
    assert answer["then"]["split"]["comm"] == 0


def test_a_rank_that_is_held_up_is_seen_to_wait_no_more(client: Any) -> None:
    """Rank 2 collects garbage: the others wait for it at the next collective."""
    answer = asked(client, "host:garbage-collection=0", rank=0)
    assert answer["then"]["split"]["wait"] < answer["today"]["split"]["wait"] / 2


@pytest.mark.parametrize("query", [
    "set=nonsense", "set=op:x=-1", "set=host:nothing=0", "rank=99", "set=rank:1", "set=" + "x" * 500,
    "set=op:" + "*" * 390 + "=0.5z", "set=op:nothing=0.5", "set=comm:overlap&set=rank:99=median",
])  # fmt: skip
def test_what_makes_no_sense_is_refused(client: Any, query: str) -> None:
    answer = client.get(f"/api/whatif/replay?{query}")
    assert answer.status == 404
    assert b'"what"' in answer.body


def test_too_many_changes_are_refused(client: Any) -> None:
    answer = client.get("/api/whatif/replay?" + "&".join(f"set=op:k{at}=0" for at in range(33)))
    assert answer.status == 422


def test_a_name_of_stars_takes_no_time(client: Any) -> None:
    listed(client)
    began = time.monotonic()
    answer = client.get("/api/whatif/replay?set=op:" + "*a" * 190 + "=0.5")
    assert (answer.status, b"fits op:*a" in answer.body) == (404, True)
    # Tried in every way, it would not end in a day.
    assert time.monotonic() - began < 30


@pytest.mark.live
def test_without_a_step_on_the_device_it_says_so(shared: Path, tmp_path: Path, serve_here: Any, key: Any) -> None:
    with serve_here([shared / "kineto/cpu_only_rank34.json.gz"], Cache(tmp_path)) as running:
        assert "no step with device tasks" in listed(key(running))["none"]["what"]


@pytest.mark.live
def test_the_next_server_replays_any_changes_without_reading_the_ranks(
    job: Path, tmp_path: Path, serve_here: Any, key: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path)
    chosen = ("comm:*=0.5", "host:garbage-collection=0", "rank:2=median")
    with serve_here([job], cache) as running:
        client = key(running)
        listed(client)
        made = asked(client, *chosen, rank=1)
        for _ in range(400):
            if running.study.kept("whatif"):
                break
            time.sleep(0.05)
    monkeypatch.setattr(page_replays, "_step", lambda loaded: pytest.fail("the ranks were read"))
    with serve_here([job], cache) as running:
        assert asked(key(running), *chosen, rank=1) == made


def test_who_asks_is_before_what_is_made_ahead(job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = AnalysisSession([job], Cache(tmp_path))
    study.run()
    own, order = page_replays.Replays(study), []
    go, predicted = threading.Event(), page_replays.predict
    waits = threading.Event()

    def ahead(step: Any, changes: Any) -> Any:
        order.append("ahead")
        waits.set()
        go.wait(60)
        return predicted(step, changes)

    monkeypatch.setattr(page_replays, "predict", ahead)
    own.changes()
    assert waits.wait(60)
    asking = threading.Thread(target=lambda: (own.replayed(("comm:*=0.5", "copy:*=0"), None), order.append("asked")))
    with own._first():
        asking.start()
        go.set()
        asking.join(60)
        # The one under way came to its end; the others let by who waits.
        assert order == ["ahead", "asked"]
    own._thread.join(60)  # type: ignore[union-attr]
    assert order.count("ahead") > 2
