"""Makes a golden run without a second machine: runs the same command again with its arithmetic changed.

- `perturbed`: each operator's result is changed at random by up to one unit in its last place. The two runs then differ
  by what rounding alone does to this program; the operators that enlarge the difference most are named.
- `float32`, `float64`: each operator computes in the wider type and rounds once. That run is the golden run.
- `compiled`: code passed to `torch.compile` runs compiled, against the same program run eagerly; modules are compared.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from hermes.base.errors import InputError
from hermes.base.message import Count, Message, Messages, Name, Number, Text, message, sentence
from hermes.knowledge.confidence import confidence
from hermes.model.document import Column, Document, DocumentInput, Table
from hermes.model.finding import Blame, Finding
from hermes.model.leaf import Risk
from hermes.precision import column_titles, launch_recording, recording_notes
from hermes.precision.compare import Comparison, compare
from hermes.precision.document import counts, findings
from hermes.precision.judgement_rows import Judgement
from hermes.precision.operator_names import arithmetic, family
from hermes.precision.rounding_tolerance import roundoff

AGAINST: Final = ("perturbed", "float32", "float64", "compiled")
_SHOWN = 10
_RESOLVED: Final = 8.0
"""Roundoffs below which statistics do not resolve distances: an input's distance counts as at least this much, and a
result counts as enlarged from twice this on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amplifier:
    """An operator that enlarges the distance of its inputs, by its worst call in one module."""

    operator: str
    module: str
    line: str
    gain: float
    apart: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ArithmeticChange:
    """The result of one run with changed arithmetic, compared with the unchanged run."""

    name: str
    comparison: Comparison
    amplifiers: tuple[Amplifier, ...]

    @property
    def message(self) -> Message:
        """The message that gives the result of this change of the arithmetic."""
        return against(change=_CHANGES[self.name], found=self.comparison.answer)


@message("precision.golden.against")
def against(*, change: Text, found: Text) -> None:
    """The result of a run compared with another arithmetic."""


@message("precision.golden.amplifies")
def amplifies(*, operator: Name, factor: Number, module: Name | None = None) -> None:
    """The operator that enlarges rounding differences most."""


@message("precision.golden.agree")
def agree(*, n: Count) -> None:
    """The training gives the same results under every arithmetic."""


@message("precision.golden.differ")
def differ(*, against: Messages) -> None:
    """The training gives different results under these kinds of arithmetic."""


_CHANGES: Final = {
    "perturbed": sentence("precision.golden.perturbed"), "compiled": sentence("precision.golden.compiled"),
    "float32": sentence("precision.golden.float32"), "float64": sentence("precision.golden.float64"),
}  # fmt: skip


def run(
    command: Sequence[str], out: Path, against: Sequence[str], *, steps: str = "0-1", seed: int = 1,
    environment: Mapping[str, str] | None = None,
) -> tuple[ArithmeticChange, ...]:  # fmt: skip
    """Run the command unchanged, and once for each arithmetic in `against`, and compare the recordings."""
    wrong = [one for one in against if one not in AGAINST]
    if wrong:
        raise InputError(
            recording_notes.unknown_arithmetic(name=wrong[0], known=AGAINST), where="hermes precision golden"
        )
    launch_recording.prepare(out, 0)
    runs: dict[tuple[str, str], Path] = {}

    def recorded(name: str, level: str, **more: Any) -> Path:
        folder = out / (name if level == "operators" else f"{name}-{level}")
        if (name, level) not in runs:
            asked = {"out": str(folder), "steps": steps, "level": level, "seed": seed, **more}
            given = launch_recording.environment(
                environment or os.environ, record=launch_recording.options(asked, None), snapshot=None
            )
            code = launch_recording.run(command, given)
            if code:
                raise InputError(recording_notes.ended(code=str(code)), where=" ".join(command)[:200])
            runs[name, level] = folder
        return runs[name, level]

    found = []
    for one in against:
        if one == "compiled":
            sides = recorded("own", "modules"), recorded("compiled", "modules", compiled="keep")
        else:
            other = recorded(one, "operators", arithmetic=one)
            own = recorded("own", "operators")
            sides = (own, other) if one == "perturbed" else (other, own)
        comparison = compare(*sides)
        found.append(
            ArithmeticChange(name=one, comparison=comparison, amplifiers=tuple(amplifiers(comparison.judgements)))
        )
    return tuple(found)


def amplifiers(judgements: Sequence[Judgement]) -> list[Amplifier]:
    """Operators by how much they enlarge the distance of their inputs, the worst first."""
    worst: dict[tuple[str, str], Amplifier] = {}
    for judgement in judgements:
        for row in judgement.rows:
            if row.golden is None or row.inputs is None or row.outputs is None:
                continue
            op = judgement.golden.ops[row.golden]
            unit = max((roundoff(judgement.golden.values[one].dtype) for one in op.outputs), default=0.0)
            apart, came = row.outputs.relative, max(row.inputs.relative, _RESOLVED * unit)
            if not unit or arithmetic(op.name) == "moves" or not math.isfinite(apart) or apart < 2 * _RESOLVED * unit:
                continue
            key = family(op.name), op.module
            if key not in worst or worst[key].gain < apart / came:
                worst[key] = Amplifier(operator=op.name, module=op.module, line=op.line, gain=apart / came, apart=apart)
    return sorted(worst.values(), key=lambda one: -one.gain)[:_SHOWN]


def document(found: Sequence[ArithmeticChange], out: Path) -> Document:
    """The results of all changes of the arithmetic, with the operators that amplify, as `hermes.golden/1`."""
    wrong = [one for one in found if one.comparison.verdict != "agree"]
    return Document(
        schema="hermes.golden/1", inputs=(DocumentInput(path=str(out), role="golden"),),
        answer=differ(against=[one.message for one in wrong]) if wrong else agree(n=len(found)),
        coverage=tuple(note for one in found for note in one.comparison.diagnostics),
        findings=tuple(finding for one in found for finding in _findings(one)),
        facts={"against": [{"name": one.name, **_facts(one.comparison)} for one in found]},
        parts=(Table(key="amplifiers", title=column_titles.AMPLIFIERS, columns=_COLUMNS, rows=list(_rows(found))),),
    )  # fmt: skip


def _findings(one: ArithmeticChange) -> Iterator[Finding]:
    yield from (replace(found, message=against(change=_CHANGES[one.name], found=found.message))
                for found in findings(one.comparison))  # fmt: skip
    if one.name == "perturbed" and one.amplifiers:
        worst = one.amplifiers[0]
        yield Finding(
            code="amplifies", about=Risk.NOTE, confidence=confidence("precision.replay"),
            message=amplifies(operator=worst.operator, module=worst.module or None, factor=worst.gain),
            lines=(worst.line,) if worst.line else (), blames=(Blame(worst.operator, "operator"),),
        )  # fmt: skip


def _facts(found: Comparison) -> dict[str, object]:
    return {"verdict": found.verdict, "counts": counts(found)}


_COLUMNS = (
    Column(key="against", title=column_titles.AGAINST, kind="word"),
    Column(key="operator", title=column_titles.OPERATOR, kind="name"),
    Column(key="module", title=column_titles.MODULE, kind="name"),
    Column(key="line", title=column_titles.LINE, kind="name"),
    Column(key="gain", title=column_titles.AMPLIFICATION, kind="number"),
    Column(key="apart", title=column_titles.APART, kind="number"),
)


def _rows(found: Sequence[ArithmeticChange]) -> Iterator[tuple[object, ...]]:
    for one in found:
        for each in one.amplifiers:
            yield one.name, each.operator, each.module or None, each.line or None, each.gain, each.apart
