"""What a rule is made of: a code, a state, a page (its module's docstring), and a function that names what it reads."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, get_args, get_origin, get_type_hints

from hermes.model.fault import Fault
from hermes.model.finding import Layer, Loss, State
from hermes.model.job import Job, JobMeasures, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules.parts import broader

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
}
"""Folder of a rule to the layer of its findings."""

Finder = Callable[..., Iterator[Loss]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule: its code, whether it is trusted, what it blames, its page, and the known causes that it may point to.

    `direct`: what it counts is the mistake itself, so that the verdict may tell of it before it is trusted. `reads` are
    the parameters of its function: the kind of row of each, None for the job itself.
    """

    code: str
    state: State
    fault: Fault
    layer: Layer
    page: str
    cases: tuple[str, ...]
    reads: Mapping[str, type | None]
    function: Finder
    direct: bool = False

    def find(self, measures: JobMeasures) -> Iterator[Loss]:
        """What it finds, given what its function asks for."""
        job = replace(measures.job, leaves=self.fault.explains)
        given: dict[str, Job | Rows[Any]] = {
            name: job if kind is None else measures.rows(kind) for name, kind in self.reads.items()
        }
        for found in self.function(**given):
            fault = found.fault or self.fault
            within = "" if found.apart else found.within or broader(self.code, fault)
            state: State = "preview" if "preview" in (self.state, found.state) else "stable"
            yield replace(
                found, code=self.code, about=fault.about, layer=self.layer, state=state, fault=fault, within=within,
                direct=self.direct, confidence=round(found.confidence * measures.job.certainty, 4),
            )  # fmt: skip


def rule(
    code: str, *, state: State, fault: Fault, cases: tuple[str, ...] = (), layer: Layer | None = None,
    direct: bool = False,
) -> Callable[[Finder], Rule]:  # fmt: skip
    """Make a rule of a function whose parameters say what it reads: `Job`, or `Rows` of a kind of measure.

    `fault` is that of findings that name no other, `layer` that of the rule's folder if not given. Raises `TypeError`
    where a parameter asks for what nobody measures.
    """

    def made(function: Finder) -> Rule:
        family = function.__module__.split(".")[-2]
        return Rule(
            code=code,
            state=state,
            fault=fault,
            layer=layer or _LAYERS.get(family, "environment"),
            page=sys.modules[function.__module__].__doc__ or "",
            cases=cases,
            reads=_reads(function),
            function=function,
            direct=direct,
        )

    return made


def _reads(function: Finder) -> Mapping[str, type | None]:
    hints = get_type_hints(function)
    return {name: _kind(function, name, hints.get(name)) for name in inspect.signature(function).parameters}


def _kind(function: Finder, name: str, hint: Any) -> type | None:
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
    """Whether a share of the window is beyond the threshold."""
    return share > threshold.value
