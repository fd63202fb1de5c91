"""Which jobs a piece of advice means something to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Phase = Literal["training", "inference"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What a job must have for advice to fit it; an empty field is met by any job.

    `chips`: families of chips (`ascend`, `cuda`, `rocm`, `cpu`), one of which it runs on. `types`: types of numbers, of
    which the matrix units of all its chips must have one. `frameworks`, `libraries`: of which it must use one.
    `transports`: what moves data between its ranks, where that is known. `phase`: what it must do. `versions`: of
    frameworks, as the cases write them, such as `torch>=2.3`; shown beside the advice. `unless`: libraries that do it
    themselves.
    """

    chips: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    transports: tuple[str, ...] = ()
    phase: Phase | None = None
    versions: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()


ANY = Fit()
"""Advice for every job."""
