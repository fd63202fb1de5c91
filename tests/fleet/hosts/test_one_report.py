"""One report of traces on several hosts equals that of all traces at one place; a bad host costs its own ranks."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.each import sampled
from tests.fleet.hosts.lab import HERMES

from hermes.fleet.hosts.command_transport import Commands
from hermes.fleet.hosts.transport import Silence
from hermes.fleet.job.merged_report import Folder, one_report
from hermes.model.structure_measures import PipelineBox
from hermes.profiles.api import analyze, answer_text, code, folder_text, load
from hermes.profiles.engines.serial import Serial
from hermes.report.report_json import to_json
from hermes.store.cache import Cache
from hermes_testing import Job, generate

HOSTS, JOB = 4, "train-1-2"
Part = tuple[str, str]
Change = Callable[[str, str, dict[str, Any]], object]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[Part, Folder]:
    """The captures of eight ranks in two stages of a pipeline, two on each host."""
    root = tmp_path_factory.mktemp("hosts")
    model = Job(ranks=8, steps=3, layers=2, tp=2, pp=2, hosts=HOSTS)
    whole = generate(root / "whole", model, formats=["ascend-text"])
    captures = sorted(path.parent for path in whole.rglob("profiler_info_*.json"))
    assert len(captures) == 8
    found = {}
    for at in range(HOSTS):
        place = root / f"n{at}" / "capture"
        place.mkdir(parents=True)
        for one in captures[2 * at : 2 * at + 2]:
            shutil.copytree(one, place / one.name)
        found[f"n{at}", JOB] = Folder(path=str(place), ranks=frozenset({2 * at, 2 * at + 1}))
    return found


def hosts(folders: Mapping[Part, Folder]) -> Commands:
    """Hosts with a cache of their own."""

    def argv(host: str, words: Sequence[str]) -> Sequence[str]:
        return ["env", f"XDG_CACHE_HOME={Path(folders[host, JOB].path).parent}", *words]

    return Commands(hosts=tuple(host for host, _ in folders), argv=argv, at_once=2)


class Inside:
    """The same in this process; `change` is what hosts say instead of the truth."""

    absent: Mapping[str, str] = {}

    def __init__(self, folders: Mapping[Part, Folder], cache: Path, change: Change) -> None:
        self.hosts = tuple(host for host, _ in folders)
        self._loaded = {host: load([Path(one.path)], Cache(cache)) for (host, _), one in folders.items()}
        self._change = change

    async def run(
        self, host: str, words: Sequence[str], most_bytes: int, given: bytes = b""
    ) -> tuple[int, bytes, bytes]:  # fmt: skip
        document: dict[str, Any] = {"schema": "hermes.rank-answers/1", "code": code()}
        asked = json.loads(given) if given else {}
        if asked:
            ranks = {int(rank): text for rank, text in asked["ranks"].items()}
            document["ranks"] = answer_text(self._loaded[host], asked["question"], ranks, Serial())
        else:
            document["folder"] = folder_text(self._loaded[host])
        return 0, json.dumps(self._change(host, asked.get("question", ""), document)).encode(), b""

    async def close(self) -> None:
        """Nothing stays open."""


def alone(folders: Mapping[Part, Folder], cache: Path) -> dict[str, Any]:
    there = load([Path(one.path) for one in folders.values()], Cache(cache))
    found: dict[str, Any] = json.loads(to_json(analyze(there)))
    return found


@pytest.mark.live
def test_the_report_of_four_hosts_is_the_one_that_all_traces_at_one_place_give(
    folders: dict[Part, Folder], tmp_path: Path
) -> None:
    made = asyncio.run(one_report(hosts(folders), (str(HERMES),), folders))
    assert (made.why, made.silent) == ("", [])
    assert made.report is not None
    found, expected = json.loads(to_json(made.report)), alone(folders, tmp_path)
    assert len(expected["inputs"]) == 8
    assert made.report.rows(PipelineBox)
    assert made.report.paths
    assert {key for key in expected if found.get(key) != expected[key]} == set()
    assert found == expected


def false(kind: str) -> Change:
    """What host `n1` says instead; of passes, which are asked of one rank of each stage, host `n0`."""
    ranks: dict[str, Callable[[str], str]] = {
        "of another rank": lambda text: text.replace('RankMeasures","v":[2,', 'RankMeasures","v":[0,'),
        "no JSON": lambda text: text[:-9],
        "other types": lambda text: re.sub(r'LeafTime","v":\[\d+', 'LeafTime","v":["x"', text),
        "Arrow": lambda text: text.replace('{"t":', '{"f":'),
        "foreign class": lambda text: re.sub(r"[a-z._]+:RankMeasures", "os:_wrap_close", text),
        "another class": lambda text: text.replace("RankMeasures", "RankExchange"),
        "no columns": lambda text: re.sub(r'\{"t":\[.*?\]\]\}', '{"t":[]}', text),
        "deep": lambda _: "[" * 200_000,
    }  # fmt: skip

    def change(host: str, question: str, document: dict[str, Any]) -> object:
        if host != ("n0" if kind == "passes" else "n1"):
            return document
        if kind == "another version":
            return document | {"code": "0" * 64}
        if kind == "ranks of others" and "folder" in document:
            return document | {"folder": document["folder"].replace('RankSaid","v":[2,', 'RankSaid","v":[0,')}
        if kind == "a list":
            return [document]
        if question == "measure" and kind in ranks:
            return document | {"ranks": {rank: ranks[kind](text) for rank, text in document["ranks"].items()}}
        return document | {"ranks": {}} if kind == question else document

    return change


@pytest.mark.parametrize(
    ("kind", "lost"),
    sampled([("of another rank", {2}), ("no JSON", {2, 3}), ("other types", {2, 3}), ("Arrow", {2, 3}),
             ("deep", {2, 3}), ("foreign class", {2, 3}), ("another class", {2, 3}), ("measure", {2, 3}),
             ("another version", {2, 3}), ("ranks of others", {2}), ("a list", {2, 3}), ("stretch", {2, 3}),
             ("passes", {0, 1})],
            ("of another rank", {2}), ("foreign class", {2, 3}), ("another version", {2, 3}), ("passes", {0, 1})),
)  # fmt: skip
def test_a_host_that_is_false_costs_its_own_ranks(
    kind: str, lost: set[int], folders: dict[Part, Folder], tmp_path_factory: pytest.TempPathFactory
) -> None:
    cache = tmp_path_factory.getbasetemp() / "cache-of-all"
    made = asyncio.run(one_report(Inside(folders, cache, false(kind)), ("hermes",), folders))
    assert made.report is not None, made.why
    assert {row.rank for row in made.report.inputs} == set(range(8)) - lost
    if kind in ("another version", "a list"):
        assert [(one.host, one.silence) for one in made.silent] == [("n1", Silence.GARBLED)]


def test_well_formed_numbers_that_make_no_sense_give_no_report_and_no_crash(
    folders: dict[Part, Folder], tmp_path_factory: pytest.TempPathFactory
) -> None:
    cache = tmp_path_factory.getbasetemp() / "cache-of-all"
    made = asyncio.run(one_report(Inside(folders, cache, false("no columns")), ("hermes",), folders))
    assert (made.report, bool(made.why)) == (None, True)
