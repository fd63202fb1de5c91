"""A training against itself under another arithmetic: which operators enlarge rounding, and what differs."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from tests.precision.drawn import Drawing, random

from hermes.base.errors import InputError
from hermes.precision.api import compare, golden

pytestmark = pytest.mark.live

PROGRAM = """
import torch
torch.manual_seed(0)
net = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(2):
    net(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def run(folder: Path, moved: float) -> Path:
    draw = Drawing(folder, tensors=True)
    x_array = (random(0, 8, 16) * (1 + moved)).astype(np.float32)
    (y,) = draw.op("aten.mul.Tensor", [draw.value(random(0, 8, 16))], x_array, args=["@0", 1.0])
    draw.op("aten.tanh.default", [y], np.tanh(x_array), line=4)
    difference = x_array - random(0, 8, 16) * np.float32(0.9999)
    draw.op("aten.sub.Tensor", [y], difference, line=5, module="Net.head")
    return draw.close()


def test_the_operator_that_cancels_digits_amplifies_most(tmp_path: Path) -> None:
    found = golden.amplifiers(compare(run(tmp_path / "a", 0.0), run(tmp_path / "b", 2e-6), jobs=1).judgements)
    assert (found[0].operator, found[0].module, found[0].line) == ("aten.sub.Tensor", "Net.head", "train.py:5")
    assert 1_000 < found[0].gain < 100_000


def test_equal_runs_have_no_amplifier(tmp_path: Path) -> None:
    found = compare(run(tmp_path / "a", 0.0), run(tmp_path / "b", 0.0), jobs=1)
    assert golden.amplifiers(found.judgements) == []


def test_an_unknown_arithmetic_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="bfloat8 is not one of perturbed"):
        golden.run(["true"], tmp_path / "out", ["bfloat8"])


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_a_sound_program_agrees_with_itself_perturbed_and_in_float64(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    found = golden.run([sys.executable, str(tmp_path / "train.py")], tmp_path / "out", ["perturbed", "float64"])
    assert [one.comparison.verdict for one in found] == ["agree", "agree"]
    shown = golden.document(found, tmp_path)
    assert (shown.answer.identifier, shown.schema) == ("precision.golden.agree", "hermes.golden/1")  # type: ignore[union-attr]
