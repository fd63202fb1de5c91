"""Defines what a rule is: a code, a page (its module's docstring), and finders for its faults."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, get_args, get_origin, get_type_hints

from hermes.model.fault import Fault
from hermes.model.finding import Layer, Loss, State
from hermes.model.job import Job, JobMeasures, Rows
from hermes.model.limit import Limit
from hermes.profiles.measure.registry import tables_behind

_OURS = "hermes."
_LAYERS: Mapping[str, Layer] = {
    "code": "cpu",
    "communication": "communication",
    "compute": "compute",
    "environment": "environment",
    "host": "cpu",
    "input": "io",
    "memory": "memory",
    "parallelism": "parallelism",
    "processor": "cpu",
}
"""The layer of a rule's findings by the rule's family, which is the name of its folder."""
_FAMILY = 3
"""The index of the family in the name of a rule's module, `hermes.profiles.rules.FAMILY`."""

Function = Callable[..., Iterator[Loss]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finder:
    """A finder of one fault: its rule's code, its state, and the known causes that its findings may point to.

    `reads` maps each parameter of its function to a kind of row, or to None for the job itself.
    """

    code: str
    state: State
    fault: Fault
    layer: Layer
    cases: tuple[str, ...]
    reads: Mapping[str, type | None]
    function: Function

    @property
    def name(self) -> str:
        """The finder's function name in words, which no other finder of the rule has."""
        return self.function.__name__.replace("_", " ")

    @property
    def tables(self) -> frozenset[str]:
        """The canonical tables that the finder's measures need: other tables do not change its findings."""
        return tables_behind(self.reads.values())

    def find(self, measures: JobMeasures) -> Iterator[Loss]:
        """The findings in a job's measures: the finder's function gets the rows that it asks for."""
        job = replace(measures.job, leaves=self.fault.explains)
        given: dict[str, Job | Rows[Any]] = {
            name: job if kind is None else measures.rows(kind) for name, kind in self.reads.items()
        }
        for found in self.function(**given):
            fault = found.fault or self.fault
            state: State = "preview" if "preview" in (self.state, found.state) else "stable"
            yield replace(
                found, code=self.code, about=fault.about, layer=self.layer, state=state, fault=fault, cases=self.cases,
                confidence=round(found.confidence * measures.job.certainty, 4),
            )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule: its code, its page, and a finder for each fault that has its cause.

    `lab`: no public capture shows the rule right yet; it runs only where it is asked for.
    """

    code: str
    page: str
    finders: tuple[Finder, ...]
    lab: bool = False

    @property
    def cases(self) -> tuple[str, ...]:
        """The known causes that the rule's findings may point to."""
        return tuple(dict.fromkeys(case for finder in self.finders for case in finder.cases))

    @property
    def states(self) -> tuple[State, ...]:
        """The states of the rule's finders, the most trusted first."""
        return tuple(sorted({finder.state for finder in self.finders}, reverse=True))

    def find(self, measures: JobMeasures) -> Iterator[Loss]:
        """The findings of all finders of the rule."""
        for finder in self.finders:
            yield from finder.find(measures)


def rule(
    code: str, *, state: State, fault: Fault, cases: tuple[str, ...] = (), layer: Layer | None = None
) -> Callable[[Function], Finder]:  # fmt: skip
    """Make a finder of a function whose parameters say what it reads: `Job`, or `Rows` of a kind of measure.

    `fault` is the fault of findings that name no other. `layer` is the layer of findings; by default that of the rule's
    family. Raises `TypeError` if a parameter asks for rows that no measure makes.
    """

    def made(function: Function) -> Finder:
        parts = function.__module__.split(".")
        return Finder(
            code=code,
            state=state,
            fault=fault,
            layer=layer or _LAYERS.get(parts[_FAMILY] if len(parts) > _FAMILY else "", "environment"),
            cases=cases,
            reads=_reads(function),
            function=function,
        )

    return made


def _reads(function: Function) -> Mapping[str, type | None]:
    hints = get_type_hints(function)
    return {name: _kind(function, name, hints.get(name)) for name in inspect.signature(function).parameters}


def _kind(function: Function, name: str, hint: Any) -> type | None:
    if hint is Job:
        return None
    if get_origin(hint) is Rows:
        (kind,) = get_args(hint)
        if isinstance(kind, type) and is_dataclass(kind) and kind.__module__.startswith(_OURS):
            return kind
    raise TypeError(
        f"{function.__module__}.{function.__name__}: no measure for {name}: {hint}; a rule reads Job or Rows[a measure]"
    )


def by_share(threshold: Limit, share: float) -> bool:
    """Whether a share of the window exceeds the threshold."""
    return share > threshold.value
