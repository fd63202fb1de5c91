"""Checks that no decision of Hermes rests on a sentence: in a pseudo-language, the findings are the same."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench.judgement.__main__ import paths
from bench.judgement.opinion import Opinion
from bench.judgement.opinions import OPINIONS
from click.testing import CliRunner
from tests.precision.test_compare import network
from tests.shared_jobs import FOUR, TWO, Jobs
from tests.skips import profiles

from hermes.base import say as saying
from hermes.base.message import Message
from hermes.cli.app import app
from hermes.model.report import Report
from hermes.precision import api as precision
from hermes.profiles.load import Loaded, load
from hermes.profiles.pipeline.analyze import analyze
from hermes.report.document_json import document_values
from hermes.report.report_json import document
from hermes.store.cache import Cache
from hermes_testing import Fault, FaultKind, Format, Job
from hermes_testing.faults import KINDS

SOURCE = Path(__file__).parent.parent / "src" / "hermes"
ENGLISH = re.compile(r"(?<![\w./:=(\-`])[A-Za-z][a-z']+(?:[,;:]? [A-Za-z]?[a-z']+){3,}")
"""Four words of English in a row."""
_FACES = ("report", "cli", "web", "python.py", "base")
_FOR_PROGRAMS = frozenset({
    # The watcher's lines beside a job, the help of metrics, and reasons that a job without messages passes on.
    "jobs/watcher_process.py", "jobs/request_capture.py", "jobs/kineto_daemon/daemon.py", "model/metric.py",
})  # fmt: skip
"""Modules that write sentences for who knows no messages."""
_NOT_CONVERTED = frozenset({
    # A track of the timeline is a face of its own.
    "profiles/timeline.py",
})  # fmt: skip
"""Modules that make sentences though they are no faces."""


def identifiers(message: Message, language: str) -> str:
    """What stands for a sentence: its identifier and its arguments."""
    return " ".join((f"‹{message.identifier}›", *(f"{{{one.name}}}" for one in message.arguments)))


def chinese(message: Message, language: str) -> str:
    """What stands for a sentence of any language: the Chinese one."""
    return _TEMPLATE(message, "zh")


_TEMPLATE = saying.template
_LANGUAGES = {"ids": identifiers, "zh": chinese}


@pytest.fixture
def pseudo(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replaces every sentence of both languages from here on."""
    return lambda language="ids": monkeypatch.setattr(saying, "template", _LANGUAGES[language])


def _with(job: Job, *kinds: FaultKind) -> Job:
    return replace(job, faults=tuple(Fault(kind=kind) for kind in kinds))


def decided(value: Any) -> Any:
    """A document without the sentences in it: what is left must be the same in every language."""
    if isinstance(value, dict):
        return {name: decided(one) for name, one in value.items() if name != "text" or "id" not in value}
    return [decided(one) for one in value] if isinstance(value, list) else value


_STAGES = Job(ranks=4, steps=2, layers=4, tp=2, pp=2, hosts=2, micro_batches=4)
_COMPILES = _with(FOUR, "recompilation")


@pytest.mark.parametrize("language", _LANGUAGES)
def test_a_modelled_job_is_judged_the_same(language: str, jobs: Jobs, pseudo: Callable[..., None]) -> None:
    _same(jobs.report(_COMPILES, "ascend-text"), jobs.loaded(_COMPILES, "ascend-text"), pseudo, language)


@pytest.mark.slow
@pytest.mark.parametrize("half", [0, 1])
def test_jobs_with_every_fault_that_can_be_planted_are_judged_the_same(
    half: int, jobs: Jobs, pseudo: Callable[..., None]
) -> None:
    job = _with(_STAGES, *[*KINDS][half::2])
    _same(jobs.report(job, "ascend-text"), jobs.loaded(job, "ascend-text"), pseudo)


@pytest.mark.parametrize("form", ["ascend-text", "ascend-db", "kineto"])
def test_a_job_is_read_the_same(form: Format, jobs: Jobs, tmp_path: Path, pseudo: Callable[..., None]) -> None:
    folder = jobs.folder(TWO, form)
    told = document(jobs.report(TWO, form))
    pseudo()
    assert decided(document(analyze(load([folder], Cache(tmp_path / "cache"))))) == decided(told)


@pytest.mark.parametrize(
    "name", ["ascend/alexnet_text_level0", "kineto/h100_qwen1.5-0.5b.json.gz", "kineto/cpu_only_rank34.json.gz"]
)
def test_a_real_profile_is_judged_the_same_in_chinese(name: str, jobs: Jobs, pseudo: Callable[..., None]) -> None:
    _same(jobs.real_report(name), jobs.real(name), pseudo, "zh")


@pytest.mark.slow
@pytest.mark.parametrize("opinion", OPINIONS, ids=lambda one: str(one.name))
def test_every_real_profile_is_judged_the_same(
    opinion: Opinion, jobs: Jobs, tmp_path: Path, pseudo: Callable[..., None]
) -> None:
    found = paths(profiles(), opinion, tmp_path)
    if found == [profiles() / opinion.path]:
        _same(jobs.real_report(opinion.path), jobs.real(opinion.path), pseudo)
    else:
        loaded = load(found, Cache(tmp_path / "cache"))
        _same(analyze(loaded), loaded, pseudo)


def _same(report: Report, loaded: Loaded, pseudo: Callable[..., None], language: str = "ids") -> None:
    """The same findings, order, blames, gains and plan; what was worked out before is not taken from the cache."""
    told = document(report)
    pseudo(language)
    again = document(analyze(replace(loaded, ranks=tuple(replace(rank, cache=None) for rank in loaded.ranks))))
    verdict: Any = again["verdict"]
    assert language == "zh" or verdict["message"]["text"].startswith("‹verdict.")
    assert decided(again) == decided(told)


_ADDED = {"mm1": lambda array: array * 1.01}
_PRECISION = [{}, _ADDED, {"insert": 0}, {"double": 1}, {"args": 3.0, **_ADDED}]
"""Two runs that agree, and four ways in which they part."""


@pytest.mark.parametrize("changed", _PRECISION, ids=["agree", "another", "inserted", "doubled", "argument"])
def test_two_recordings_part_at_the_same_place(
    changed: dict[str, Any], tmp_path: Path, pseudo: Callable[[], None]
) -> None:
    golden, target = network(tmp_path / "golden"), network(tmp_path / "target", **changed)
    told = document_values(precision.document(precision.compare(golden, target, jobs=1)))
    pseudo()
    assert decided(document_values(precision.document(precision.compare(golden, target, jobs=1)))) == decided(told)


@pytest.mark.parametrize("changed", _PRECISION, ids=["agree", "another", "inserted", "doubled", "argument"])
@pytest.mark.parametrize("language", ["en", "zh", "ids"])
def test_the_exit_code_is_the_same_in_every_language(
    changed: dict[str, Any], language: str, tmp_path: Path, pseudo: Callable[[], None]
) -> None:
    golden, target = network(tmp_path / "golden"), network(tmp_path / "target", **changed)
    if language == "ids":
        pseudo()
    said = CliRunner().invoke(
        app, ["precision", "compare", str(golden), str(target), "--lang", language.replace("ids", "en")]
    )
    assert said.exit_code == (1 if "mm1" in changed or "double" in changed else 0), said.output
    if language == "zh":
        left = [one for line in said.output.splitlines() for one in ENGLISH.findall(line)]
        assert left == []


def _sayers() -> Iterator[str]:
    """Modules that make a sentence of a message."""
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        tree = ast.parse(path.read_text("utf-8"))
        names = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == "hermes.base.say"
            for alias in node.names
        }
        if "say" in names and not name.startswith(_FACES):
            yield name


def test_only_faces_make_sentences() -> None:
    assert sorted({*_sayers()} - _NOT_CONVERTED - _FOR_PROGRAMS) == []
    assert sorted(_NOT_CONVERTED - {*_sayers()}) == [], "converted by now: take these off the list"
