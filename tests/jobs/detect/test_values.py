"""What detection says is values: in any language, or none, the same alarms come out, and no sentence is read."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from hermes.base import say as saying
from hermes.base.message import Message
from hermes.jobs.alarms_in_step_log import detect_in
from hermes.jobs.detect.causes import Remedy, Spent
from hermes.jobs.detection_document import document
from hermes.model.document import Document
from hermes.model.leaf import Leaf, Risk

MS = 1_000_000
ENGLISH = re.compile(r"(?<![\w./:=(\-`])[A-Za-z][a-z']+(?:[,;:]? [A-Za-z]?[a-z']+){3,}")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Input becomes slow, and garbage is collected all the time."""
    dice = np.random.default_rng(1)
    walls = 10 * MS * dice.lognormal(0, 0.02, 1200)
    data = np.full(1200, 4 * MS)
    walls[500:] += 6 * MS
    data[500:] += 6 * MS
    rows = [
        {"step": at, "wall_ns": int(walls[at]), "flags": 0, "data_ns": int(data[at]), "data_cpu_ns": 0,
         "gc_ns": 3 * MS, "cpu_ns": 3 * MS, "delay_ns": 0}
        for at in range(1200)
    ]  # fmt: skip
    path = tmp_path / "log"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def replayed(log: Path) -> Document:
    return document(detect_in(log, preset="robust", environment={}))


def test_alarms_are_the_same_where_every_sentence_is_its_identifier(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = replayed(log)
    assert [one.code for one in before.findings] == ["spikes", "data wait", "garbage collection"]

    def identifier(text: Message, _language: str) -> str:
        return " ".join((text.identifier, *(f"{one.name}={{{one.name}}}" for one in text.arguments)))

    monkeypatch.setattr(saying, "template", identifier)
    assert replayed(log) == before
    assert saying.say(before.findings[0].message).startswith("jobs.slower ranks=base.ranks")


def test_what_is_found_names_leaves_and_risks(log: Path) -> None:
    about = {one.code: one.about for one in replayed(log).findings}
    assert (about["spikes"], about["data wait"]) == (Risk.SLOWER, Leaf.INPUT_WORKERS)
    assert [spent.about.value for spent in Spent]


def test_every_cause_has_a_remedy() -> None:
    assert [spent.remedy for spent in Spent] == [remedy.message for remedy in Remedy]


def test_a_replay_in_chinese_has_no_english_sentence(log: Path) -> None:
    found = replayed(log)
    texts = [found.answer]
    for one in found.findings:
        texts += [one.message, *(action.title for action in one.actions), *(action.verify for action in one.actions)]
        texts += [item.what for item in one.evidence]
    said = [saying.say(text, "zh") for text in texts]
    assert [text for text in said if ENGLISH.search(text)] == []
    assert saying.say(found.answer, "zh") == "卡 0 的 1,200 步中有 1 个告警。"
