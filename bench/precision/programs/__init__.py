"""All training programs with their planted faults, and the file of each program."""

from __future__ import annotations

from types import ModuleType

from bench.precision.planted import Fault
from bench.precision.programs import graphs, networks, schedules

HOMES: tuple[ModuleType, ...] = (networks, schedules, graphs)
FAULTS: tuple[Fault, ...] = tuple(fault for home in HOMES for fault in home.FAULTS)
HEALTHY: tuple[tuple[str, str], ...] = tuple(pair for home in HOMES for pair in home.HEALTHY)
"""Programs, and what is changed in them without harm."""


def home_of(program: str) -> ModuleType:
    """The module of a program."""
    return next(home for home in HOMES if program in home.PROGRAMS)
