"""The benchmark suites: their commands, their inputs, and the budgets that results are compared with."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.capture import capture
from benchmarks.contest import HERMES, Bench, Entrant, Score, score_table, verdict
from benchmarks.inputs import MissingError, size_of, warm
from benchmarks.live import kills, turns
from benchmarks.page import COST_HEADER, cost, gigabytes, seconds, table, times
from benchmarks.peers import HTA, HTA_RENAMED, MSPROF, Peer
from benchmarks.summary import Summary, ratio

GROWTH_STEPS = (100, 200, 400)
RANKS = (1, 8, 64)
RANK_STEPS = 4
# Limit on the growth of the additional cost from the first doubling to the second: halfway between a linear cost, which
# gives 1, and a quadratic one, which gives 2. Single runs on a busy machine are too noisy for less.
LINEAR = 1.5
STARTUP_RUNS = 11
EVENTS_PER_S = 300_000
_TOLD = "PATH "


def ascend(bench: Bench) -> str:
    """Compare Hermes with msprof-analyze on the large Ascend profile."""
    path = bench.inputs.ascend()
    return _against(bench, "ascend", path, (MSPROF,), faster=15, limit_bytes=500_000_000)


def kineto(bench: Bench) -> str:
    """Compare Hermes with HTA on the large Kineto traces; the speed budget is for the first trace."""
    parts = []
    for name, path, faster in (
        ("H100, times in nanoseconds", bench.inputs.kineto_ns(), 15),
        ("V100, times in microseconds", bench.inputs.kineto_us(), None),
    ):
        text = _against(bench, f"kineto {name}", path, (HTA, HTA_RENAMED), faster=faster, limit_bytes=1_000_000_000)
        parts.append(f"**{name}**\n\n{text}")
    return "\n\n".join(parts)


def _against(
    bench: Bench, what: str, path: Path, peers: Sequence[Peer], *, faster: int | None, limit_bytes: int
) -> str:
    warm(path)
    rivals, reasons = bench.rivals(peers, path)
    ours, *others = bench.play(what, [bench.analyze(path), *rivals])
    lines = [
        verdict(
            f"at least {faster} times faster than {other.title}, by wall time",
            holds=_sound(ours) and ratio(other.summary, ours.summary).wall >= faster,
            measured=times(ratio(other.summary, ours.summary).wall),
        )
        for other in others
        if faster is not None
    ]
    lines.append(
        verdict(
            f"at most {gigabytes(limit_bytes)}, all processes together",
            holds=_sound(ours) and ours.summary.together_bytes <= limit_bytes,
            measured=gigabytes(ours.summary.together_bytes),
        )
    )
    size = f"Input: {gigabytes(size_of(path))}."
    return "\n\n".join([" ".join([size, *reasons]), score_table(ours, others), "\n".join(lines)])


def _sound(score: Score) -> bool:
    return not score.summary.failed


def second_run(bench: Bench) -> str:
    """Analyse the same inputs again, with the cache that the first run left."""
    rows, lines = [], []
    for name, path in _largest(bench):
        cache = bench.work / "runs" / f"cache-{name}"
        (first,) = bench.play(f"first {name}", [bench.analyze(path, cache=_emptied(cache), repeats=1)])
        (again,) = bench.play(f"second {name}", [bench.analyze(path, cache=cache)])
        rows.append((f"{name}, first", *cost(first.summary)))
        rows.append((f"{name}, second", *cost(again.summary)))
        lines.append(
            verdict(
                f"second run of {name} under 1 s",
                holds=_sound(again) and again.summary.wall_ns < 1_000_000_000,
                measured=f"{seconds(again.summary.wall_ns)} s",
            )
        )
    return "\n\n".join([table(("run", *COST_HEADER), rows), "\n".join(lines)])


def _largest(bench: Bench) -> list[tuple[str, Path]]:
    """The large inputs if they exist, else a modelled job."""
    found = []
    for name, make in (("ascend", bench.inputs.ascend), ("kineto", bench.inputs.kineto_ns)):
        try:
            found.append((name, make()))
        except MissingError as missing:
            bench.say(f"second-run: {missing}")
    return found or [("modelled", bench.inputs.modelled("ascend-text", ranks=1, steps=GROWTH_STEPS[-1]))]


def _emptied(cache: Path) -> Path:
    shutil.rmtree(cache, ignore_errors=True)
    return cache


def growth(bench: Bench) -> str:
    """Analyse one rank with captures of one, two and four times the length."""
    parts = []
    for form in ("ascend-text", "kineto"):
        paths = [bench.inputs.modelled(form, ranks=1, steps=steps) for steps in GROWTH_STEPS]
        labels = [f"{form}, {steps} steps" for steps in GROWTH_STEPS]
        amounts = [size_of(path) / 1e8 for path in paths]
        parts.append(_series(bench, paths, labels, amounts, unit="100 MB"))
    return "\n\n".join(parts)


def ranks(bench: Bench) -> str:
    """Analyse one, eight and sixty-four ranks of the same length."""
    paths = [bench.inputs.modelled("ascend-text", ranks=count, steps=RANK_STEPS) for count in RANKS]
    labels = [f"ascend-text, {count} rank{'s' if count > 1 else ''}" for count in RANKS]
    return _series(bench, paths, labels, RANKS, unit="rank")


def _series(bench: Bench, paths: Sequence[Path], labels: Sequence[str], amounts: Sequence[float], *, unit: str) -> str:
    """A table of growing inputs with the cost of each further unit, and whether that cost stays the same."""
    for path in paths:
        warm(path)
    pairs = zip(paths, labels, strict=True)
    scores = bench.play(f"by {unit}", [bench.analyze(path, title=label) for path, label in pairs])
    further = further_cost(amounts, [score.summary for score in scores])
    rows = [
        (score.title, gigabytes(size_of(path)), *cost(score.summary), more)
        for score, path, more in zip(scores, paths, ["", *(f"{cpu:.2f}" for cpu in further)], strict=True)
    ]
    rise = further[-1] / further[0]
    line = verdict(
        f"a further {unit} costs at most {LINEAR} times as much on the second stretch as on the first",
        holds=all(map(_sound, scores)) and rise <= LINEAR,
        measured=times(rise),
    )
    return "\n\n".join([table(("input", "size", *COST_HEADER, f"CPU s for each further {unit}"), rows), line])


def further_cost(amounts: Sequence[float], summaries: Sequence[Summary]) -> list[float]:
    """CPU seconds for one more unit, from each amount to the next."""
    costs = [summary.cpu_ns / 1e9 for summary in summaries]
    stretches = zip(amounts, amounts[1:], costs, costs[1:], strict=False)
    return [(dearer - cheaper) / (more - less) for less, more, cheaper, dearer in stretches]


def startup(bench: Bench) -> str:
    """Measure the time until Hermes prints anything."""
    commands = {"hermes --help": (str(HERMES), "--help"), "hermes --version": (str(HERMES), "--version")}
    entrants = [Entrant(title=title, repeats=STARTUP_RUNS, command=_always(given)) for title, given in commands.items()]
    scores = bench.play("startup", entrants)
    line = verdict(
        "`hermes --help` under 0.5 s of CPU",
        holds=all(map(_sound, scores)) and scores[0].summary.cpu_ns < 500_000_000,
        measured=f"{seconds(scores[0].summary.cpu_ns)} s",
    )
    rows = [(score.title, *cost(score.summary)) for score in scores]
    return "\n\n".join([table(("command", *COST_HEADER), rows), line])


def path(bench: Bench) -> str:
    """Measure the dependency graph and the critical path of whole captures, in events a second."""
    script = str(Path(__file__).with_name("path_speed.py"))
    rows, lines = [], []
    for name, trace in _largest(bench):
        cache = bench.work / "runs" / f"cache-{name}"
        command = (sys.executable, script, str(trace.resolve()), str(cache))
        (score,) = bench.play(f"path {name}", [Entrant(title=name, repeats=bench.repeats, command=_always(command))])
        tail = str(bench.samples[-1]["tail"])
        told = json.loads(next(line for line in tail.splitlines() if line.startswith(_TOLD)).removeprefix(_TOLD))
        rate = told["events"] / (told["build_s"] + told["walk_s"])
        rows.append(
            (name, f"{told['events']:,}", f"{told['build_s']:.2f}", f"{told['walk_s']:.2f}", f"{told['pieces']:,}",
             f"{rate:,.0f}")
        )  # fmt: skip
        holds = _sound(score) and rate >= EVENTS_PER_S
        lines.append(
            verdict(f"at least {EVENTS_PER_S:,} events a second of {name}", holds=holds, measured=f"{rate:,.0f}")
        )
    header = ("capture", "events", "graph s", "path s", "pieces of the path", "events a second")
    return "\n\n".join([table(header, rows), "\n".join(lines)])


def _always(command: Sequence[str]) -> Callable[[Path], Sequence[str]]:
    return lambda out: command


SUITES: dict[str, Callable[[Bench], str]] = {
    "startup": startup,
    "ascend": ascend,
    "kineto": kineto,
    "second-run": second_run,
    "growth": growth,
    "ranks": ranks,
    "path": path,
    "capture": capture,
    "turns": turns,
    "kills": kills,
}
