"""The thresholds for an alarm about slow steps, for each preset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hermes.base.errors import InputError
from hermes.jobs.detect.messages import no_value, number_from, whole_number_from


@dataclass(frozen=True, slots=True, kw_only=True)
class RobustSettings:
    """The thresholds of the preset `robust`. Sizes are in steps; see `docs/evidence/detection.md`."""

    skip: int = 20
    least_reference: int = 60
    most_reference: int = 1000
    windows: tuple[int, ...] = (40, 80, 160, 320, 640)
    every: int = 5
    z: float = 5.0
    effect: float = 0.04
    row: int = 4
    spike_deviations: float = 5.0
    spike_over_p99: float = 1.15
    cusum_slack: float = 0.5
    cusum_limit: float = 12.0
    work_change: float = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class KSigmaSettings:
    """The thresholds of the preset `ksigma`, which users of hosted training platforms set by environment variables."""

    skip: int = 20
    baseline: int = 20
    k: float = 5.0
    consecutive: int = 4

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> KSigmaSettings:
        """The thresholds from PERF_BASELINE_SKIP_STEPS, PERF_BASELINE_STEPS, PERF_KSIGMA, PERF_MIN_SPIKE_CONSEC, else
        their defaults. Raises `InputError` for a text that is no number, or out of range."""
        return cls(
            skip=int(_number(environment, "PERF_BASELINE_SKIP_STEPS", 20, least=0, whole=True)),
            baseline=int(_number(environment, "PERF_BASELINE_STEPS", 20, least=2, whole=True)),
            k=_number(environment, "PERF_KSIGMA", 5.0, least=0.1, whole=False),
            consecutive=int(_number(environment, "PERF_MIN_SPIKE_CONSEC", 4, least=1, whole=True)),
        )


def _number(environment: Mapping[str, str], name: str, default: float, *, least: float, whole: bool) -> float:
    text = environment.get(name, "").strip()
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not least <= value < 1e9 or (whole and value != int(value)):
        hint = (whole_number_from if whole else number_from)(least=least)
        raise InputError(no_value(value=text[:40], name=name), hint=hint)
    return value
