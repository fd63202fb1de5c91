"""A golden run without a second machine: the same command again, with its arithmetic changed in a known way.

- `perturbed`: each operator's result is moved at random by up to one unit in its last place. What two runs differ by
  then is what rounding alone does to this program; the operators that enlarge it most are named.
- `float32`, `float64`: each operator computes in the wider type and rounds once. That run is the golden one.
- `compiled`: what `torch.compile` compiles runs compiled, against the same program run eagerly; modules are compared.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hermes.base.errors import InputError
from hermes.precision import launch
from hermes.precision.compare import Comparison, compare
from hermes.precision.judgement import Judgement
from hermes.precision.names import arithmetic, family
from hermes.precision.noise import roundoff

AGAINST: Final = ("perturbed", "float32", "float64", "compiled")
_SHOWN = 10
_RESOLVED: Final = 8.0
"""Roundoffs below which statistics do not tell distances: an input counts as so far apart at least, and a result as
enlarged from twice as far on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amplifier:
    """An operator that enlarges the distance of its inputs: the worst of its calls in one module."""

    operator: str
    module: str
    line: str
    gain: float
    apart: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """What one change of the arithmetic showed."""

    name: str
    comparison: Comparison
    amplifiers: tuple[Amplifier, ...]

    @property
    def sentence(self) -> str:
        """What to read first."""
        found = self.comparison
        if found.first is not None:
            return f"Against {_WORDS[self.name]}: {found.sentence}"
        if self.name == "perturbed" and self.amplifiers:
            worst = self.amplifiers[0]
            where = f"{worst.operator}{' in ' + worst.module if worst.module else ''}"
            return f"Against {_WORDS[self.name]}: {found.sentence} {where} amplifies most, {worst.gain:,.0f} times."
        return f"Against {_WORDS[self.name]}: {found.sentence}"


_WORDS: Final = {
    "perturbed": "itself with every result moved by a unit in its last place", "compiled": "the compiled program",
    "float32": "operators computed in float32", "float64": "operators computed in float64",
}  # fmt: skip


def run(
    command: Sequence[str], out: Path, against: Sequence[str], *, steps: str = "0-1", seed: int = 1,
    environment: Mapping[str, str] | None = None,
) -> tuple[Against, ...]:  # fmt: skip
    """Run the command once as it is and once for each of `against`, and compare."""
    wrong = [one for one in against if one not in AGAINST]
    if wrong:
        raise InputError(f"{wrong[0]!r} is none of {', '.join(AGAINST)}", where="hermes precision golden")
    launch.prepare(out, 0)
    runs: dict[tuple[str, str], Path] = {}

    def recorded(name: str, level: str, **more: Any) -> Path:
        folder = out / (name if level == "operators" else f"{name}-{level}")
        if (name, level) not in runs:
            asked = {"out": str(folder), "steps": steps, "level": level, "seed": seed, **more}
            given = launch.environment(environment or os.environ, record=launch.options(asked, None), snapshot=None)
            code = launch.run(command, given)
            if code:
                raise InputError(f"the command ended with {code}", where=" ".join(command)[:200])
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
        found.append(Against(name=one, comparison=comparison, amplifiers=tuple(amplifiers(comparison.judgements))))
    return tuple(found)


def amplifiers(judgements: Sequence[Judgement]) -> list[Amplifier]:
    """Operators by what they make of the distance of their inputs, the worst first."""
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


def text(found: Sequence[Against]) -> str:
    """Sentences, and the operators that amplify."""
    lines: list[str] = []
    for one in found:
        lines.append(one.sentence)
        if one.amplifiers and one.name == "perturbed":
            lines += ["", "  enlarges   by then apart  operator"]
            lines += [
                f"  {each.gain:8.3g}x  {each.apart:12.1e}  {family(each.operator)}  {each.module}  {each.line}".rstrip()
                for each in one.amplifiers
            ]
        lines.append("")
    return "\n".join(lines).rstrip()


def document(found: Sequence[Against]) -> dict[str, Any]:
    """The same as plain values."""
    from hermes.precision.document import document as of_comparison

    return {
        "format": "hermes.golden/1",
        "against": [
            {
                "name": one.name, "sentence": one.sentence, "comparison": of_comparison(one.comparison),
                "amplifiers": [
                    {"operator": each.operator, "module": each.module or None, "line": each.line or None,
                     "gain": each.gain, "apart": each.apart}
                    for each in one.amplifiers
                ],
            }
            for one in found
        ],
    }  # fmt: skip
