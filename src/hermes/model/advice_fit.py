"""Conditions for advice: the chips, frameworks, libraries and phases of the jobs that the advice fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Phase = Literal["training", "inference"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The conditions that a job must meet for advice to fit; an empty field is met by any job.

    `chips`: families of chips (`ascend`, `cuda`, `rocm`, `cpu`); the job runs on one of these. `types`: number types;
    the matrix units of all chips must have one of these. `frameworks`, `libraries`: the job must use one of each.
    `transports`: what moves data between the job's ranks, where known. `phase`: what the job must do. `versions`:
    versions of frameworks, as the cases write them, such as `torch>=2.3`; shown beside the advice. `unless`: libraries
    that already do what the advice says.
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
"""The conditions of advice that fits every job."""
