"""Who is right: computes a recorded operator again in float64 on the CPU, and says how far off either side was.

The operator's name, arguments and inputs come from the recording. Torch runs in a process of its own: Hermes itself
does not need it. Each side is computed from its own inputs, so that a difference that came in is not held against it.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from hermes.base.errors import InputError
from hermes.precision.compare import Comparison
from hermes.precision.judgement import Judgement
from hermes.precision.model import Op, Step
from hermes.precision.names import arithmetic
from hermes.precision.noise import roundoff
from hermes.precision.read.tensors import Files, numbers
from hermes.precision.verdict import first_of

_NAME = re.compile(r"aten\.[A-Za-z_0-9]{1,80}\.[A-Za-z_0-9]{1,80}")
_SECONDS = 600
_WORKER = Path(__file__).with_name("compute_operator.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """How far one side's result is from the exact one, of its norm, and in units of its roundoff."""

    name: str
    apart: float
    roundoffs: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One operator, computed again."""

    operator: str
    module: str
    sides: tuple[Side, ...]

    @property
    def sentence(self) -> str:
        """Who is right."""
        shown = ", ".join(f"{one.name} {one.apart:.1e} ({one.roundoffs:.3g} roundoffs)" for one in self.sides)
        where = f"{self.operator}{' in ' + self.module if self.module else ''}"
        if len(self.sides) < 2:
            return f"{where}: only the {self.sides[0].name} runs it; from float64: {shown}."
        near, far = sorted(self.sides, key=lambda one: one.roundoffs)
        if far.roundoffs <= 8 or far.roundoffs < 4 * near.roundoffs:
            return f"{where}: both sides are as near to float64 as rounding allows: {shown}."
        return f"{where}: the {far.name} is off; from float64: {shown}."


def replay(found: Comparison, operator: str = "", *, python: str = sys.executable) -> Replay:
    """Compute the first operator of a comparison again, or the first whose name or module holds `operator`."""
    judgement, golden, target = _chosen(found, operator)
    files = Files()
    sides = []
    for name, step, op in (("golden run", judgement.golden, golden), ("target", judgement.target, target)):
        if op is not None:
            sides.append(_side(name, step, op, files, python))
    one = target or golden
    assert one is not None
    name = one.name
    if golden is not None and target is not None and golden.name != target.name:
        name = f"{golden.name} of the golden run and {target.name} of the target"
    return Replay(operator=name, module=one.module, sides=tuple(sides))


def _chosen(found: Comparison, operator: str) -> tuple[Judgement, Op | None, Op | None]:
    guilty = None if operator else first_of(list(found.judgements))
    if guilty is not None:
        judgement, suspect = guilty
        golden = judgement.golden.ops[suspect.golden] if suspect.golden is not None else None
        target = judgement.target.ops[suspect.target] if suspect.target is not None else None
        return judgement, golden, target
    matching = list(_matching(found, operator)) if operator else []
    if matching:
        # What computes comes before what only moves, and what differs before what agrees.
        return min(matching, key=lambda chosen: chosen[0])[1]
    raise InputError(
        "no such operator was recorded" if operator else "no operator is to blame", where="hermes precision replay",
        hint="name one, or a module, with --operator",
    )  # fmt: skip


def _matching(
    found: Comparison, operator: str
) -> Iterator[tuple[tuple[bool, bool], tuple[Judgement, Op | None, Op | None]]]:
    for judgement in found.judgements:
        for row in judgement.rows:
            golden = judgement.golden.ops[row.golden] if row.golden is not None else None
            target = judgement.target.ops[row.target] if row.target is not None else None
            one = target or golden
            assert one is not None
            if operator in f"{one.module}.{one.name}" and _NAME.fullmatch(one.name):
                yield (arithmetic(one.name) == "moves", row.state == "agree"), (judgement, golden, target)


def _side(name: str, step: Step, op: Op, files: Files, python: str) -> Side:
    if not _NAME.fullmatch(op.name):
        raise InputError(f"{op.name} is no operator of torch", where=name)
    with tempfile.TemporaryDirectory() as folder:
        exact = _run(step, op, files, Path(folder), python, name)
    worst, unit = 0.0, 2.0**-53
    for number, wide in zip(op.outputs, exact, strict=False):
        recorded = files.flat(step, number)
        if recorded is None or not step.values[number].dtype.startswith(("float", "bfloat")):
            continue
        unit = max(unit, roundoff(recorded[1]) / (2 if recorded[1] == "bfloat16" else 1))
        size = float(np.linalg.norm(wide))
        apart = float(np.linalg.norm(numbers(*recorded) - wide)) if len(wide) == step.values[number].count else math.inf
        worst = max(worst, apart / size if size else apart)
    return Side(name=name, apart=worst, roundoffs=worst / unit)


def _run(step: Step, op: Op, files: Files, folder: Path, python: str, name: str) -> list[Any]:
    inputs, paths = [], []
    for at, number in enumerate(op.inputs):
        flat = files.flat(step, number)
        if flat is None:
            raise InputError(
                f"the inputs of {op.name} were not recorded", where=name, hint="record with --what tensors"
            )
        value = step.values[number]
        path = folder / f"input{at}"
        path.write_bytes(numbers(*flat).tobytes())
        inputs.append({"shape": list(value.shape), "dtype": value.dtype})
        paths.append(str(path))
    elements = sum(step.values[number].count for number in op.outputs)
    asked = {"operator": op.name, "args": op.args or [], "inputs": inputs, "elements": elements}
    command = [python, "-I", str(_WORKER), json.dumps(asked), *paths]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False, cwd="/"
        )
    except (OSError, subprocess.TimeoutExpired) as broken:
        raise InputError(f"cannot be computed: {broken}", where=op.name) from broken
    head, _, body = done.stdout.partition(b"\n")
    if done.returncode:
        raise InputError(
            f"cannot be computed again: {_reason(done)}", where=op.name, hint="--python names a Python that has torch"
        )
    ends = np.cumsum([0, *json.loads(head)])
    return [np.frombuffer(body, np.float64)[begin:end] for begin, end in pairwise(ends)]


def _reason(done: subprocess.CompletedProcess[bytes]) -> str:
    if done.returncode < 0:
        return f"it was ended by signal {-done.returncode}"
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return (lines or ["no reason given"])[-1][:200]
