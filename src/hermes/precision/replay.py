"""Decides which run is right: computes a recorded operator again in float64 on the CPU, and compares both sides.

The operator's name, arguments and inputs come from the recording. Torch runs in its own process, because Hermes does
not need torch. Each side is computed from its own inputs, so differences of the inputs do not count.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from hermes.base.end_on_signal import folder_aside
from hermes.base.errors import InputError
from hermes.base.message import Message, Name, Number, Text, message, sentence
from hermes.knowledge.confidence import confidence
from hermes.model.document import Column, Document, DocumentInput, Table
from hermes.model.finding import Blame, Finding
from hermes.model.leaf import Risk
from hermes.precision import column_titles
from hermes.precision.compare import Comparison
from hermes.precision.document import source
from hermes.precision.first_divergence import first_of
from hermes.precision.judgement_rows import Judgement
from hermes.precision.messages import Side
from hermes.precision.operator_names import arithmetic
from hermes.precision.read.tensors import Files, numbers
from hermes.precision.recorded_step import OperatorCall, RecordedStep
from hermes.precision.rounding_tolerance import roundoff

_NAME = re.compile(r"aten\.[A-Za-z_0-9]{1,80}\.[A-Za-z_0-9]{1,80}")
_SECONDS = 600
_ALLOWED, _TIMES = 8, 4
"""The roundoffs that a result may be off by, and how many times further than the other side a result to blame is."""
_MOST = {"float16": 65_504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38}
"""The largest number of a type."""
_WORKER = Path(__file__).with_name("compute_operator.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The distance of one side's result from the exact result, relative to its norm, and in units of its roundoff."""

    name: Side
    apart: float
    roundoffs: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One operator computed again, with the distances of both sides."""

    operator: str
    module: str
    sides: tuple[Result, ...]
    inputs: tuple[DocumentInput, ...] = ()

    @property
    def off(self) -> Result | None:
        """The side that is further from float64 than rounding allows, and than the other side; None if neither is."""
        if len(self.sides) < 2:
            return None
        near, far = sorted(self.sides, key=lambda one: one.roundoffs)
        further = near.roundoffs < math.inf and far.roundoffs >= _TIMES * near.roundoffs
        return far if far.roundoffs > _ALLOWED and further else None

    @property
    def both_off(self) -> bool:
        """Whether a side is further from float64 than rounding allows, and neither is much further than the other."""
        return len(self.sides) == 2 and self.off is None and max(one.roundoffs for one in self.sides) > _ALLOWED

    @property
    def answer(self) -> Message:
        """The sentence that says which side is right."""
        name, module = self.operator, self.module or None
        if len(self.sides) < 2:
            return one_side(operator=name, module=module, side=self.sides[0].name.message)
        if self.both_off:
            least = min(one.roundoffs for one in self.sides)
            return both_off(operator=name, module=module, roundoffs=least)
        if self.off is None:
            return both_near(operator=name, module=module)
        return is_off(operator=name, module=module, side=self.off.name.message, roundoffs=self.off.roundoffs)

    @property
    def document(self) -> Document:
        """The answer as a document `hermes.replay/1`."""
        finding = None if self.verdict != "differ" else Finding(
            code="off", about=Risk.WRONG_NUMBERS, message=self.answer, confidence=confidence("precision.replay"),
            blames=(Blame(self.operator, "operator"),),
        )  # fmt: skip
        columns = (
            Column(key="side", title=column_titles.SIDE, kind="word"),
            Column(key="apart", title=column_titles.APART, kind="number"),
            Column(key="roundoffs", title=column_titles.ROUNDOFFS, kind="number"),
        )  # fmt: skip
        rows = [(one.name, one.apart, one.roundoffs) for one in self.sides]
        return Document(
            schema="hermes.replay/1", inputs=self.inputs, answer=self.answer, findings=(finding,) if finding else (),
            facts={"verdict": self.verdict},
            parts=(Table(key="sides", title=column_titles.SIDES, columns=columns, rows=rows),),
        )  # fmt: skip

    @property
    def verdict(self) -> str:
        """`agree`, `differ`, or `incomplete` if only one side ran the operator."""
        if len(self.sides) < 2:
            return "incomplete"
        return "differ" if self.off is not None or self.both_off else "agree"


@message("precision.replay.one_side")
def one_side(*, operator: Name, side: Text, module: Name | None = None) -> None:
    """Only one side runs the operator."""


@message("precision.replay.near")
def both_near(*, operator: Name, module: Name | None = None) -> None:
    """Both sides are as near to float64 as rounding allows."""


@message("precision.replay.both_off")
def both_off(*, operator: Name, roundoffs: Number, module: Name | None = None) -> None:
    """Neither side is near to float64."""


@message("precision.replay.off")
def is_off(*, operator: Name, side: Text, roundoffs: Number, module: Name | None = None) -> None:
    """One side's result is further from float64 than rounding allows."""


@message("precision.replay.no_torch_operator")
def no_torch_operator(*, operator: Name) -> None:
    """The recorded name is no operator of torch."""


@message("precision.replay.no_inputs")
def no_inputs(*, operator: Name) -> None:
    """The elements of the inputs were not recorded."""


@message("precision.replay.no_results")
def no_results(*, operator: Name) -> None:
    """The elements of no result were recorded that float64 could be compared with."""


@message("precision.replay.failed")
def failed(*, reason: Name) -> None:
    """The operator could not be computed."""


@message("precision.replay.signal")
def ended_by(*, signal: Name) -> None:
    """The process that computed the operator was ended by a signal."""


NO_SUCH_OPERATOR = sentence("precision.replay.no_such")
NOBODY_TO_BLAME = sentence("precision.replay.nobody")
NAME_ONE = sentence("precision.replay.nobody.hint")
RECORD_TENSORS = sentence("precision.replay.no_inputs.hint")
OTHER_PYTHON = sentence("precision.replay.failed.hint")
NO_REASON = "?"


def replay(found: Comparison, operator: str = "", *, python: str = sys.executable) -> Replay:
    """Compute again the first operator of a comparison, or the first whose name or module contains `operator`."""
    judgement, golden, target = _chosen(found, operator)
    files = Files()
    sides = []
    for name, step, op in ((Side.GOLDEN, judgement.golden, golden), (Side.TARGET, judgement.target, target)):
        if op is not None:
            sides.append(_side(name, step, op, files, python))
    one = target or golden
    assert one is not None
    operator = one.name
    if golden is not None and target is not None and golden.name != target.name:
        operator = f"{golden.name} / {target.name}"
    inputs = source(found.golden, "golden"), source(found.target, "target")
    return Replay(operator=operator, module=one.module, sides=tuple(sides), inputs=inputs)


def _chosen(found: Comparison, operator: str) -> tuple[Judgement, OperatorCall | None, OperatorCall | None]:
    guilty = None if operator else first_of(list(found.judgements))
    if guilty is not None:
        judgement, suspect = guilty
        golden = judgement.golden.ops[suspect.golden] if suspect.golden is not None else None
        target = judgement.target.ops[suspect.target] if suspect.target is not None else None
        return judgement, golden, target
    matching = list(_matching(found, operator)) if operator else []
    if matching:
        # Operators that compute come before those that only move, and those that differ before those that agree.
        return min(matching, key=lambda chosen: chosen[0])[1]
    raise InputError(
        NO_SUCH_OPERATOR if operator else NOBODY_TO_BLAME, where="hermes precision replay", hint=NAME_ONE
    )  # fmt: skip


def _matching(
    found: Comparison, operator: str
) -> Iterator[tuple[tuple[bool, bool], tuple[Judgement, OperatorCall | None, OperatorCall | None]]]:
    for judgement in found.judgements:
        for row in judgement.rows:
            golden = judgement.golden.ops[row.golden] if row.golden is not None else None
            target = judgement.target.ops[row.target] if row.target is not None else None
            one = target or golden
            assert one is not None
            if operator in f"{one.module}.{one.name}" and _NAME.fullmatch(one.name):
                yield (arithmetic(one.name) == "moves", row.state == "agree"), (judgement, golden, target)


def _side(name: Side, step: RecordedStep, op: OperatorCall, files: Files, python: str) -> Result:
    if not _NAME.fullmatch(op.name):
        raise InputError(no_torch_operator(operator=op.name), where=str(name))
    with folder_aside() as folder:
        exact = _run(step, op, files, folder, python, name)
    worst, unit, compared = 0.0, 2.0**-53, False
    for number, wide in zip(op.outputs, exact, strict=False):
        recorded = files.flat(step, number)
        if recorded is None or not step.values[number].dtype.startswith(("float", "bfloat")):
            continue
        compared = True
        unit = max(unit, roundoff(recorded[1]) / (2 if recorded[1] == "bfloat16" else 1))
        found = numbers(*recorded)
        worst = max(worst, _apart(found, wide, recorded[1]) if len(found) == len(wide) else math.inf)
    if not compared:
        raise InputError(no_results(operator=op.name), where=str(name), hint=RECORD_TENSORS)
    return Result(name=name, apart=worst, roundoffs=worst / unit)


def _apart(found: Any, exact: Any, dtype: str) -> float:
    """The relative distance of a result from the exact one; infinite if only one of both has a NaN or inf.

    A number too large for the type is rightly inf in the result.
    """
    most = _MOST.get(dtype, math.inf)
    exact = np.where(np.abs(exact) > most, np.copysign(math.inf, exact), exact)
    whole = np.isfinite(exact) & np.isfinite(found)
    if not np.array_equal(exact[~whole], found[~whole], equal_nan=True):
        return math.inf
    largest = float(np.max(np.abs(exact[whole]), initial=0.0))
    if not largest:
        return float(np.linalg.norm(found[whole]))
    # Divide by the largest number, so that no square exceeds float64.
    return float(np.linalg.norm((found[whole] - exact[whole]) / largest) / np.linalg.norm(exact[whole] / largest))


def _run(step: RecordedStep, op: OperatorCall, files: Files, folder: Path, python: str, name: Side) -> list[Any]:
    inputs, paths = [], []
    for at, number in enumerate(op.inputs):
        flat = files.flat(step, number)
        if flat is None:
            raise InputError(no_inputs(operator=op.name), where=str(name), hint=RECORD_TENSORS)
        value = step.values[number]
        path = folder / f"input{at}"
        path.write_bytes(numbers(*flat).tobytes())
        inputs.append({"shape": list(value.shape), "dtype": value.dtype})
        paths.append(str(path))
    # The memory limit follows the size of the recording's files, not the sizes that its index claims.
    recorded = [flat for number in op.outputs if (flat := files.flat(step, number)) is not None]
    if not recorded:
        raise InputError(no_results(operator=op.name), where=str(name), hint=RECORD_TENSORS)
    elements = sum(len(elements) for elements, _ in recorded)
    asked = {"operator": op.name, "args": op.args or [], "inputs": inputs, "elements": elements}
    # Use a pipe: all users of a machine see a process's arguments, and an argument has at most 128 KiB.
    command, request = [python, "-I", str(_WORKER), *paths], json.dumps(asked).encode()
    try:
        done = subprocess.run(command, input=request, capture_output=True, timeout=_SECONDS, check=False, cwd="/")
    except (OSError, subprocess.TimeoutExpired) as broken:
        raise InputError(failed(reason=str(broken)), where=op.name) from broken
    head, _, body = done.stdout.partition(b"\n")
    if done.returncode:
        reason = ended_by(signal=str(-done.returncode)) if done.returncode < 0 else failed(reason=_reason(done))
        raise InputError(reason, where=op.name, hint=OTHER_PYTHON)
    ends = np.cumsum([0, *json.loads(head)])
    return [np.frombuffer(body, np.float64)[begin:end] for begin, end in pairwise(ends)]


def _reason(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return (lines or [NO_REASON])[-1][:200]
