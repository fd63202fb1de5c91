"""Runs commands on one input in turns, in one run, and formats the results."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.inputs import Inputs, MissingError
from benchmarks.measure import Sample, measure
from benchmarks.page import COST_HEADER, cost, table
from benchmarks.peers import Peer, install, remark
from benchmarks.summary import Summary, interleave, ratio, summarise

HERMES = Path(sys.executable).with_name("hermes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrant:
    """A command in the contest: `command(out)` and `environment(out)` for a run that may write into `out`."""

    title: str
    repeats: int
    command: Callable[[Path], Sequence[str]]
    environment: Callable[[Path], Mapping[str, str]] = lambda out: {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The costs of one entrant's runs, and remarks on them."""

    title: str
    summary: Summary
    remark: str


@dataclass(slots=True, kw_only=True)
class Bench:
    """The state that all suites share: the work folder, the settings, and every run so far by its title."""

    work: Path
    inputs: Inputs
    repeats: int
    peer_repeats: int
    peers: bool
    say: Callable[[str], None]
    samples: list[dict[str, object]] = field(default_factory=list)
    _runs: int = 0

    def play(self, what: str, entrants: Sequence[Entrant]) -> tuple[Score, ...]:
        """Run all entrants in turns; returns one score for each, in their order."""
        taken: dict[int, list[Sample]] = {}
        for place in interleave([entrant.repeats for entrant in entrants]):
            taken.setdefault(place, []).append(self._run(what, entrants[place]))
        return tuple(
            Score(title=entrants[place].title, summary=summarise(samples), remark=remark(samples[-1]))
            for place, samples in sorted(taken.items())
        )

    def _run(self, what: str, entrant: Entrant) -> Sample:
        self._runs += 1
        out = self.work / "runs" / str(self._runs)
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        sample = measure(entrant.command(out), log=out / "log", environment=entrant.environment(out), folder=out)
        wall, cpu = sample.wall_ns / 1e9, sample.cpu_ns / 1e9
        memory = sample.together_bytes / 1e9
        state = f"exit {sample.exit_code}" if sample.failed else "ok"
        self.say(f"{what}: {entrant.title}: {wall:.2f} s, CPU {cpu:.2f} s, {memory:.2f} GB, {state}")
        self.samples.append({"suite": what, "title": entrant.title, **asdict(sample)})
        return sample

    def analyze(
        self, path: Path, *, title: str = "hermes analyze", cache: Path | None = None, repeats: int | None = None
    ) -> Entrant:
        """`hermes analyze PATH -o OUT` with an empty cache each time, or with the cache given."""
        return Entrant(
            title=title,
            repeats=self.repeats if repeats is None else repeats,
            command=lambda out: (str(HERMES), "analyze", str(path.resolve()), "-o", str(out / "report")),
            environment=lambda out: {"HERMES_CACHE_DIR": str(cache or out / "cache")},
        )

    def rivals(self, peers: Sequence[Peer], path: Path) -> tuple[list[Entrant], list[str]]:
        """The peers that could be installed, and remarks on the peers that could not."""
        if not self.peers:
            return [], ["The peers were not asked for."]
        found, reasons = [], []
        for peer in peers:
            try:
                programs = install(peer, self.work / "peers", self.say)
            except MissingError as missing:
                reasons.append(f"{missing}.")
                continue
            found.append(_rival(peer, programs, path.resolve(), self.peer_repeats))
        return found, reasons


def _rival(peer: Peer, programs: Path, path: Path, repeats: int) -> Entrant:
    return Entrant(
        title=f"{peer.title}, {peer.shown}",
        repeats=repeats,
        command=lambda out: peer.command(programs, path, out / "peer"),
    )


def score_table(ours: Score, others: Sequence[Score]) -> str:
    """A table with a line for each score; peers with the ratio to Hermes."""
    rows = [_score_row(ours, ("1", "1", "1"))]
    for other in others:
        how = ratio(other.summary, ours.summary)
        rows.append(_score_row(other, (f"{how.wall:.1f}", f"{how.cpu:.1f}", f"{how.memory:.1f}")))
    header = ("command", "runs", *COST_HEADER, "wall ratio", "CPU ratio", "memory ratio")
    return table(header, rows)


def _score_row(score: Score, ratios: tuple[str, str, str]) -> tuple[str, ...]:
    title = f"{score.title} ({score.remark})" if score.remark else score.title
    return (title, str(score.summary.runs), *cost(score.summary), *ratios)


def verdict(what: str, *, holds: bool, measured: str) -> str:
    """A line on a budget: whether it holds, and the measured figure."""
    return f"- {what}: {measured}, **{'met' if holds else 'MISSED'}**"


def missed(text: str) -> int:
    """The number of missed budgets in the text."""
    return len(re.findall(r"\*\*MISSED\*\*", text))
