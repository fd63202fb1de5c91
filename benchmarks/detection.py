"""Feeds simulated series of step times to both presets, and writes the detected changes into docs/benchmarks.md.

    python benchmarks/detection.py [--series N]

A series has 4000 steps, with the change at step 1500. False alarms are alarms in series without a change. After a
capture there is no other for two hours, so the first alarm of a series counts. A change is found if the first alarm
comes after it, slowness by turns if it comes within 400 steps. Healthy series are 20 series of 20 000 steps for each
family; healthy epochs have a warm-up and end with an evaluation.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.page import replace_block, table  # noqa: E402
from hermes.inside.wire.step_record import FLAGS  # noqa: E402
from hermes.jobs.detect.alarm import Detector  # noqa: E402
from hermes.jobs.detect.job_alarms import replay  # noqa: E402
from hermes.jobs.detect.ksigma import KSigma  # noqa: E402
from hermes.jobs.detect.read_step_logs import Steps, from_walls  # noqa: E402
from hermes.jobs.detect.robust_detector import Robust  # noqa: E402

PAGE = ROOT / "docs" / "benchmarks.md"
STEPS, CHANGE, STEP_NS = 4000, 1500, 100e6
SOON = 400
HEALTHY_SERIES, HEALTHY_STEPS = 20, 20_000
Floats = npt.NDArray[np.float64]


def _lognormal(dice: np.random.Generator, count: int = STEPS) -> Floats:
    return np.exp(dice.normal(0, 0.03, count))


def _spiky(dice: np.random.Generator, count: int = STEPS) -> Floats:
    """Step times with 2 % noise, one step in a hundred 2 to 6 times as long, and a checkpoint of 10 steps' length each
    500."""
    times = np.exp(dice.normal(0, 0.02, count))
    times[dice.random(count) < 0.01] *= dice.uniform(2, 6)
    times[499::500] += 10
    return times


def _bimodal(dice: np.random.Generator, count: int = STEPS) -> Floats:
    return np.exp(dice.normal(0, 0.02, count)) * np.where(dice.random(count) < 0.3, 1.3, 1.0)


def _wandering(dice: np.random.Generator, count: int = STEPS) -> Floats:
    """Step times with first-order autoregression, 0.95, and 3 % noise in all."""
    noise = dice.normal(0, 0.03 * (1 - 0.95**2) ** 0.5, count)
    level = np.empty(count)
    level[0] = dice.normal(0, 0.03)
    for step in range(1, count):
        level[step] = 0.95 * level[step - 1] + noise[step]
    return np.exp(level)


def _heavy(dice: np.random.Generator, count: int = STEPS) -> Floats:
    """Step times with noise of Student's t distribution with three degrees of freedom, 2 %."""
    return np.exp(0.02 * dice.standard_t(3, count))


def _warming(dice: np.random.Generator, count: int = STEPS) -> Floats:
    """Step times with 3 % noise; the first 200 steps fall from 1.5 times to normal."""
    start = 1 + 0.5 * np.exp(-np.arange(count) / 50)
    return np.exp(dice.normal(0, 0.03, count)) * start


FAMILIES: dict[str, Callable[..., Floats]] = {
    "3 % lognormal": _lognormal,
    "2 % with spikes and checkpoints": _spiky,
    "two modes (30 % of steps x 1.3)": _bimodal,
    "wandering (AR 0.95, 3 %)": _wandering,
    "heavy tails (t3, 2 %)": _heavy,
    "slow warm-up, 3 %": _warming,
}
CHANGES: dict[str, Callable[[Floats], Floats]] = {
    "+5 %": lambda after: np.full(len(after), 1.05),
    "+10 %": lambda after: np.full(len(after), 1.10),
    "+30 %": lambda after: np.full(len(after), 1.30),
    "drift 0.01 % a step": lambda after: 1 + 1e-4 * after,
}
TURNS: dict[str, tuple[int, float]] = {
    "one of four workers slow (every 4th step x 13)": (4, 13.0),
    "every 4th step x 2": (4, 2.0),
    "every 4th step x 3": (4, 3.0),
    "every 4th step x 5": (4, 5.0),
    "every 10th step x 5": (10, 5.0),
    "1 step in 20 at random x 20": (0, 20.0),
}
"""Distance of slow steps, or one in twenty at random, and how many times as long they are."""
PATTERNS: dict[str, Callable[[Floats], Floats]] = {
    "every 50th step x 10, from the start": lambda times: times * np.where(_steps(times) % 50 == 49, 10, 1),
    "every 50th step x 10, from half way on": lambda times: times * np.where(_late(times) % 50 == 49, 10, 1),
    "every 200th step x 30, from the start": lambda times: times * np.where(_steps(times) % 200 == 199, 30, 1),
    "0.02 % longer each step, until 2.7 times": lambda times: times * 1.0002 ** np.clip(_late(times), 0, 4966),
    "bursts of 60 steps x 3, each 1500 steps": lambda times: (
        times * np.where(np.abs(_steps(times) % 1500 - 750) < 30, 3, 1)
    ),
}
"""Patterns of slow steps over 12 000 steps."""
_PATTERN_STEPS = 12_000
EPOCHS = ((100, 5), (100, 20), (200, 10), (500, 20), (500, 40))
"""Number of steps in an epoch and in its warm-up, which falls from three times to normal."""
PRESETS: dict[str, Callable[[], Detector]] = {"ksigma": lambda: KSigma(0), "robust": lambda: Robust(0)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of one preset on one family: false alarms per 10 000 steps without a change. For each change: the
    share of series in which it was found, and the median delay in steps."""

    false: float
    found: dict[str, tuple[float, float | None]]


def alarms(detector: Detector, times: Floats, flags: list[int] | None = None) -> list[int]:
    """The steps of all alarms."""
    walls = (times * STEP_NS).astype(np.int64).tolist()
    marks = flags or [0] * len(walls)
    found = (detector.feed(step, wall, 0, mark) for step, (wall, mark) in enumerate(zip(walls, marks, strict=True)))
    return [alarm.step for alarm in found if alarm and alarm.kind != "recovered"]


def measure(family: Callable[..., Floats], preset: Callable[[], Detector], series: int) -> Result:
    """The result of a preset on a family; every preset gets the same seeds."""
    quiet = [alarms(preset(), family(np.random.default_rng(seed))) for seed in range(series)]
    false = sum(map(len, quiet)) / (series * STEPS) * 10_000
    found = {}
    for name, change in CHANGES.items():
        delays = []
        for seed in range(series):
            times = family(np.random.default_rng(seed))
            times[CHANGE:] *= change(np.arange(STEPS - CHANGE, dtype=np.float64))
            first = next(iter(alarms(preset(), times)), -1)
            if first >= CHANGE:
                delays.append(first - CHANGE)
        found[name] = (len(delays) / series, median(delays) if delays else None)
    return Result(false=false, found=found)


def by_turns(
    family: Callable[..., Floats], preset: Callable[[], Detector], series: int, turn: tuple[int, float]
) -> str:
    """In how many series the slow steps were found within 400 steps, and the median delay."""
    every, factor = turn
    delays = []
    for seed in range(series):
        dice = np.random.default_rng(seed)
        times = family(dice)
        slow = np.arange(STEPS) % every == 0 if every else dice.random(STEPS) < 0.05
        times[CHANGE:][slow[CHANGE:]] *= factor
        first = next(iter(alarms(preset(), times)), -1)
        if CHANGE <= first < CHANGE + SOON:
            delays.append(first - CHANGE)
    return f"{len(delays)} of {series}" + (f", {median(delays):.0f}" if delays else "")


def healthy(preset: Callable[[], Detector]) -> list[tuple[str, str]]:
    """Alarms of healthy jobs: long series of each family, and epochs."""
    rows = []
    for name, family in FAMILIES.items():
        seeds = range(1000, 1000 + HEALTHY_SERIES)
        count = sum(len(alarms(preset(), family(np.random.default_rng(seed), HEALTHY_STEPS))) for seed in seeds)
        rows.append((f"{HEALTHY_SERIES} series of {HEALTHY_STEPS} steps, {name}", str(count)))
    for length, warm in EPOCHS:
        count = sum(len(alarms(preset(), *epochs(length, warm, seed))) for seed in range(8))
        rows.append((f"8 jobs of 20 epochs of {length} steps, {warm} of them warm-up, with evaluations", str(count)))
    found = [replay([fetched_ahead(seed)], lambda _rank: preset()) for seed in range(8)]
    count = sum(notice.kind == "alarm" for notices in found for notice in notices)
    rows.append(("8 jobs of 20 epochs whose last step takes no batch, as in Trainer and accelerate", str(count)))
    return rows


def epochs(length: int, warm: int, seed: int) -> tuple[Floats, list[int]]:
    """Step times of twenty epochs with 3 % lognormal noise, each with a warm-up and an evaluation at its end; and
    flags."""
    times = _lognormal(np.random.default_rng(seed), 20 * length)
    flags = [FLAGS["evaluation"] if step % length == length - 1 else 0 for step in range(len(times))]
    times[length - 1 :: length] *= 40
    for begin in range(0, len(times), length):
        times[begin : begin + warm] *= np.linspace(3, 1.3, warm)
    return times, flags


def fetched_ahead(seed: int) -> Steps:
    """A loop that fetches one batch ahead: the first step of an epoch of 120 takes two batches, the last none."""
    times = _lognormal(np.random.default_rng(seed), 2400) * STEP_NS
    batches = np.ones(len(times), dtype=np.int64)
    batches[::120], batches[119::120] = 2, 0
    samples = np.where(batches > 0, batches * 16, -(1 << 63))
    return from_walls(times, batches=batches, samples=samples)


def special() -> Iterator[tuple[str, str]]:
    """Cases with several ranks or an early change: found in how many of eight jobs."""
    early = []
    for seed in range(8):
        times = _lognormal(np.random.default_rng(seed), 1000)
        times[50:] *= 1.3
        early += alarms(Robust(0), times)[:1]
    yield "slow (+30 %) from step 50 on", f"{len(early)} of 8, {median(early) - 50:.0f}"
    notices = [replay(_ranks(seed), Robust) for seed in range(8)]
    late = [next((n.step for n in one if n.kind == "straggler" and n.ranks == (2,)), None) for one in notices]
    known = [step for step in late if step is not None]
    yield (
        "one of eight ranks slow (+30 %) from half way on: the rank is named",
        f"{len(known)} of 8, {median(known) - 500:.0f}",
    )
    count = sum(n.kind == "alarm" for one in notices for n in one)
    yield "alarms of these eight jobs of eight ranks, one a cause", str(count)


def _steps(times: Floats) -> Floats:
    return np.arange(len(times), dtype=np.float64)


def _late(times: Floats) -> Floats:
    return _steps(times) - len(times) // 2


def patterns(series: int) -> str:
    """In how many series the preset `robust` notices each pattern, the reported lost time, and how the alarm ends."""
    rows = []
    for name, change in PATTERNS.items():
        found, told = 0, []
        for seed in range(series):
            usual = _lognormal(np.random.default_rng(seed), _PATTERN_STEPS)
            times = change(usual)
            notices = [one for one in replay([from_walls(times * STEP_NS)], Robust) if one.kind != "again"]
            found += bool(notices)
            if notices and notices[-1].lost is not None and notices[-1].alarm is not None:
                last = notices[-1].lost
                stretch = slice(last.since, notices[-1].alarm.step + 1)
                truth = float((times[stretch] - usual[stretch]).sum()) * STEP_NS
                told.append(last.ns / truth if truth else 0.0)
        rows.append((name, f"{found} of {series}", f"{median(told):.2f}" if told else ""))
    return table(("pattern", "noticed", "time lost, told by true (median)"), rows)


def _ranks(seed: int) -> list[Steps]:
    walls = _lognormal(np.random.default_rng(seed), 1000) * STEP_NS
    walls[500:] *= 1.3
    made = []
    for rank in range(8):
        own = walls * 0.9 if rank == 2 else np.minimum(walls * 0.9, 0.9 * STEP_NS)
        made.append(
            from_walls(
                walls, rank=rank, cpu_ns=own.astype(int), delay_ns=np.zeros(len(walls), int),
                comm_ns=(walls - own).astype(int),
            )
        )  # fmt: skip
    return made


def better(ours: Result, theirs: Result) -> bool:
    """Whether a preset has no more false alarms, finds each change in as many series, and is better in one figure."""
    pairs = [(ours.found[name][0], theirs.found[name][0]) for name in CHANGES]
    no_worse = ours.false <= theirs.false and all(a >= b for a, b in pairs)
    return no_worse and (ours.false < theirs.false or any(a > b for a, b in pairs))


def main() -> int:
    """Measure, print, write; 1 when the default is not better than the baseline algorithm on some family."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=8, help="series for each cell (8)")
    parser.add_argument("--dry", action="store_true", help="print only")
    given = parser.parse_args()
    rows, beaten = [], []
    for name, family in FAMILIES.items():
        results = {preset: measure(family, make, given.series) for preset, make in PRESETS.items()}
        for preset, result in results.items():
            cells = [_cell(*result.found[change]) for change in CHANGES]
            rows.append((f"{name}, `{preset}`", f"{result.false:.2f}", *cells))
        beaten.append(better(results["robust"], results["ksigma"]))
    text = table(("noise and preset", "false alarms per 10 000 steps", *CHANGES), rows)
    verdict = f"`robust` beats `ksigma` on {sum(beaten)} of {len(beaten)} families."
    head = (
        f"{given.series} series of {STEPS} steps for each cell; share in which it was found, and median delay in steps."
    )
    text = f"{head}\n\n{text}\n\n{verdict}\n\n{_turns_text(given.series)}\n\n{_healthy_text()}"
    print(text)
    if not given.dry:
        PAGE.write_text(replace_block(PAGE.read_text("utf-8"), "detection", text), "utf-8")
    return 0 if all(beaten) else 1


def _turns_text(series: int) -> str:
    rows = [
        (f"{turn}, `{preset}`", *(by_turns(family, make, series, how) for family in FAMILIES.values()))
        for turn, how in TURNS.items()
        for preset, make in PRESETS.items()
    ]
    head = f"Slowness by turns: series in which it was found within {SOON} steps, and median delay in steps."
    return f"{head}\n\n{table(('what is slow, and preset', *FAMILIES), rows)}"


def _healthy_text() -> str:
    counts = {preset: healthy(make) for preset, make in PRESETS.items()}
    rows = [
        (name, *(counts[preset][place][1] for preset in PRESETS)) for place, (name, _) in enumerate(counts["robust"])
    ]
    first = table(("nothing is wrong: alarms", *(f"`{preset}`" for preset in PRESETS)), rows)
    text = f"{first}\n\nSlow patterns of {_PATTERN_STEPS} steps, 3 % lognormal.\n\n{patterns(8)}"
    return f"{text}\n\n{table(('of a whole job, `robust`', 'found, and median delay in steps'), list(special()))}"


def _cell(share: float, delay: float | None) -> str:
    return f"{share:.0%}" + (f", {delay:.0f}" if delay is not None else "")


if __name__ == "__main__":
    sys.exit(main())
