"""Feeds drawn series of step times to both presets, and writes what they find into docs/accuracy.md.

    python benchmarks/detection.py [--series N]

4000 steps, the change at 1500. False alarms are those of series without a change. After a capture there is none for two
hours, so it is the first alarm of a series that counts: a change is found when that comes after it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.page import replace_block, table  # noqa: E402
from hermes.fleet.alarm import Detector  # noqa: E402
from hermes.fleet.ksigma import KSigma  # noqa: E402
from hermes.fleet.robust import Robust  # noqa: E402

PAGE = ROOT / "docs" / "accuracy.md"
STEPS, CHANGE, STEP_NS = 4000, 1500, 100e6
Floats = npt.NDArray[np.float64]


def _lognormal(dice: np.random.Generator) -> Floats:
    return np.exp(dice.normal(0, 0.03, STEPS))


def _spiky(dice: np.random.Generator) -> Floats:
    """2 %, one step in a hundred 2 to 6 times as long, a checkpoint of 10 steps' length each 500."""
    times = np.exp(dice.normal(0, 0.02, STEPS))
    times[dice.random(STEPS) < 0.01] *= dice.uniform(2, 6)
    times[499::500] += 10
    return times


def _bimodal(dice: np.random.Generator) -> Floats:
    return np.exp(dice.normal(0, 0.02, STEPS)) * np.where(dice.random(STEPS) < 0.3, 1.3, 1.0)


def _wandering(dice: np.random.Generator) -> Floats:
    """First-order autoregression, 0.95, with 3 % in all."""
    noise = dice.normal(0, 0.03 * (1 - 0.95**2) ** 0.5, STEPS)
    level = np.empty(STEPS)
    level[0] = dice.normal(0, 0.03)
    for step in range(1, STEPS):
        level[step] = 0.95 * level[step - 1] + noise[step]
    return np.exp(level)


def _heavy(dice: np.random.Generator) -> Floats:
    """Student's t with three degrees of freedom, 2 %."""
    return np.exp(0.02 * dice.standard_t(3, STEPS))


def _warming(dice: np.random.Generator) -> Floats:
    """3 %, and the first 200 steps fall from 1.5 times to normal."""
    start = 1 + 0.5 * np.exp(-np.arange(STEPS) / 50)
    return np.exp(dice.normal(0, 0.03, STEPS)) * start


FAMILIES: dict[str, Callable[[np.random.Generator], Floats]] = {
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
PRESETS: dict[str, Callable[[], Detector]] = {"ksigma": lambda: KSigma(0), "robust": lambda: Robust(0)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one preset made of one family: false alarms per 10 000 steps without a change; of each change the share of
    series in which it was found, and the median delay in steps."""

    false: float
    found: dict[str, tuple[float, float | None]]


def alarms(detector: Detector, times: Floats) -> list[int]:
    """The steps of all alarms."""
    walls = (times * STEP_NS).astype(np.int64).tolist()
    found = (detector.feed(step, wall, 0, 0) for step, wall in enumerate(walls))
    return [alarm.step for alarm in found if alarm]


def measure(family: Callable[[np.random.Generator], Floats], preset: Callable[[], Detector], series: int) -> Result:
    """The same seeds for every preset."""
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


def better(ours: Result, theirs: Result) -> bool:
    """No more false alarms, no change found in fewer series, and something better."""
    pairs = [(ours.found[name][0], theirs.found[name][0]) for name in CHANGES]
    no_worse = ours.false <= theirs.false and all(a >= b for a, b in pairs)
    return no_worse and (ours.false < theirs.false or any(a > b for a, b in pairs))


def main() -> int:
    """Measure, print, write; 1 when the default does not beat the baseline algorithm on some family."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=60, help="series for each cell (60)")
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
    text = f"{head}\n\n{text}\n\n{verdict}"
    print(text)
    if not given.dry:
        PAGE.write_text(replace_block(PAGE.read_text("utf-8"), "detection", text), "utf-8")
    return 0 if all(beaten) else 1


def _cell(share: float, delay: float | None) -> str:
    return f"{share:.0%}" + (f", {delay:.0f}" if delay is not None else "")


if __name__ == "__main__":
    sys.exit(main())
