"""The suites: which commands on which inputs, and the budgets that they are held against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.contest import HERMES, Bench, Entrant, Score, score_table, verdict
from benchmarks.inputs import MissingError, size_of, warm
from benchmarks.page import COST_HEADER, cost, gigabytes, seconds, table, times
from benchmarks.peers import HTA, HTA_RENAMED, MSPROF, Peer
from benchmarks.summary import Summary, ratio

GROWTH_STEPS = (100, 200, 400)
RANKS = (1, 8, 64)
RANK_STEPS = 4
# A cost for each further megabyte that rises by more than this from one doubling to the next is not linear;
# the noise of a shared machine is smaller.
LINEAR = 1.25
STARTUP_RUNS = 11


def ascend(bench: Bench) -> str:
    """The large Ascend profile against msprof-analyze."""
    path = bench.inputs.ascend()
    return _against(bench, "ascend", path, (MSPROF,), faster=10, limit_bytes=600_000_000)


def kineto(bench: Bench) -> str:
    """The large Kineto traces against HTA."""
    parts = []
    for name, path in (
        ("H100, times in nanoseconds", bench.inputs.kineto_ns()),
        ("V100, times in microseconds", bench.inputs.kineto_us()),
    ):
        text = _against(bench, f"kineto {name}", path, (HTA, HTA_RENAMED), faster=15, limit_bytes=1_000_000_000)
        parts.append(f"**{name}**\n\n{text}")
    return "\n\n".join(parts)


def _against(
    bench: Bench, what: str, path: Path, peers: Sequence[Peer], *, faster: int, limit_bytes: int
) -> str:
    warm(path)
    rivals, reasons = bench.rivals(peers, path)
    ours, *others = bench.play(what, [bench.analyze(path), *rivals])
    lines = [
        verdict(
            f"at least {faster} times faster than {other.title}, by the smaller of both ratios",
            holds=_sound(ours) and ratio(other.summary, ours.summary).worst >= faster,
            measured=times(ratio(other.summary, ours.summary).worst),
        )
        for other in others
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
    """The same inputs again, with the cache that the first run left."""
    rows, lines = [], []
    for name, path in _largest(bench):
        cache = bench.work / "runs" / f"cache-{name}"
        (first,) = bench.play(f"first {name}", [bench.analyze(path, cache=_emptied(cache), repeats=1)])
        (again,) = bench.play(f"second {name}", [bench.analyze(path, cache=cache)])
        rows.append((f"{name}, first", *cost(first.summary)))
        rows.append((f"{name}, second", *cost(again.summary)))
        lines.append(
            verdict(
                f"second run of {name} under 2 s",
                holds=_sound(again) and again.summary.wall_ns < 2_000_000_000,
                measured=f"{seconds(again.summary.wall_ns)} s",
            )
        )
    return "\n\n".join([table(("run", *COST_HEADER), rows), "\n".join(lines)])


def _largest(bench: Bench) -> list[tuple[str, Path]]:
    """The large inputs where they can be had, else a modelled job."""
    found = []
    for name, make in (("ascend", bench.inputs.ascend), ("kineto", bench.inputs.kineto_ns)):
        try:
            found.append((name, make()))
        except MissingError as missing:
            bench.say(f"second-run: {missing}")
    return found or [("modelled", bench.inputs.modelled("ascend-text", ranks=1, steps=GROWTH_STEPS[-1]))]


def _emptied(cache: Path) -> Path:
    import shutil

    shutil.rmtree(cache, ignore_errors=True)
    return cache


def growth(bench: Bench) -> str:
    """One rank, the capture one, two and four times as long."""
    parts = []
    for form in ("ascend-text", "kineto"):
        paths = {steps: bench.inputs.modelled(form, ranks=1, steps=steps) for steps in GROWTH_STEPS}
        labels = [f"{form}, {steps} steps" for steps in GROWTH_STEPS]
        parts.append(_series(bench, "growth", list(paths.values()), labels))
    return "\n\n".join(parts)


def ranks(bench: Bench) -> str:
    """One, eight and sixty-four ranks of the same length."""
    paths = [bench.inputs.modelled("ascend-text", ranks=count, steps=RANK_STEPS) for count in RANKS]
    return _series(bench, "ranks", paths, [f"ascend-text, {count} ranks" for count in RANKS])


def _series(bench: Bench, what: str, paths: Sequence[Path], labels: Sequence[str]) -> str:
    """A table of growing inputs with what each further 100 MB cost, and whether that stays the same."""
    for path in paths:
        warm(path)
    pairs = zip(paths, labels, strict=True)
    scores = bench.play(what, [bench.analyze(path, title=label) for path, label in pairs])
    sizes = [size_of(path) for path in paths]
    further = further_cost(sizes, [score.summary for score in scores])
    rows = [
        (score.title, gigabytes(size), *cost(score.summary), more)
        for score, size, more in zip(scores, sizes, ["", *(f"{cpu:.2f}" for cpu in further)], strict=True)
    ]
    rise = further[-1] / further[0]
    line = verdict(
        f"each further 100 MB costs at most {LINEAR} times what it cost before",
        holds=all(map(_sound, scores)) and rise <= LINEAR,
        measured=times(rise),
    )
    return "\n\n".join([table(("input", "size", *COST_HEADER, "CPU s for each further 100 MB"), rows), line])


def further_cost(sizes: Sequence[int], summaries: Sequence[Summary]) -> list[float]:
    """CPU seconds for each 100 MB more, from one size to the next."""
    steps = zip(sizes, sizes[1:], summaries, summaries[1:], strict=False)
    return [
        (more.cpu_ns - less.cpu_ns) / 1e9 / ((larger - smaller) / 1e8)
        for smaller, larger, less, more in steps
    ]


def startup(bench: Bench) -> str:
    """How long it takes until Hermes says anything."""
    commands = {"hermes --help": (str(HERMES), "--help"), "hermes --version": (str(HERMES), "--version")}
    entrants = [
        Entrant(title=title, repeats=STARTUP_RUNS, command=lambda out, given=given: given)
        for title, given in commands.items()
    ]
    scores = bench.play("startup", entrants)
    line = verdict(
        "`hermes --help` under 0.5 s of CPU",
        holds=all(map(_sound, scores)) and scores[0].summary.cpu_ns < 500_000_000,
        measured=f"{seconds(scores[0].summary.cpu_ns)} s",
    )
    rows = [(score.title, *cost(score.summary)) for score in scores]
    return "\n\n".join([table(("command", *COST_HEADER), rows), line])


SUITES: dict[str, Callable[[Bench], str]] = {
    "startup": startup,
    "ascend": ascend,
    "kineto": kineto,
    "second-run": second_run,
    "growth": growth,
    "ranks": ranks,
}
