"""Programs of real MindSpore on the CPU are recorded by one command; HERMES_MINDSPORE_PYTHON names its Python.

python3 -m venv ms && ms/bin/pip install mindspore "numpy<2"
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hermes.base.say import say
from hermes.precision.api import check, compare
from hermes.precision.launch_recording import environment
from hermes.precision.read.recording import read

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.skipif("HERMES_MINDSPORE_PYTHON" not in os.environ, reason="HERMES_MINDSPORE_PYTHON names no Python"),
]

FUNCTIONS = """
import sys
import numpy as np
import mindspore as ms
from mindspore import nn, Tensor
ms.set_seed(0)
np.random.seed(0)
if "graph" in sys.argv:
    ms.set_context(mode=ms.GRAPH_MODE)
class Block(nn.Cell):
    def __init__(self):
        super().__init__()
        self.one, self.norm, self.two = nn.Dense(16, 32), nn.LayerNorm((32,)), nn.Dense(32, 16)
        self.act = nn.GELU(approximate="tanh" in sys.argv)
    def construct(self, x):
        return x + self.two(self.act(self.norm(self.one(x))))
class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.blocks = nn.CellList([Block() for _ in range(2)])
        self.head = nn.Dense(16, 4)
    def construct(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)
net = Net()
loss_fn = nn.CrossEntropyLoss()
optimizer = nn.AdamWeightDecay(net.trainable_params(), 1e-3)
def forward(x, y):
    return loss_fn(net(x), y)
gradients = ms.value_and_grad(forward, None, net.trainable_params())
def step(x, y):
    loss, found = gradients(x, y)
    optimizer(found)
    return loss
if "jit" in sys.argv:
    step = ms.jit(step)
for number in range(4):
    x = Tensor(np.random.randn(8, 16).astype(np.float32))
    y = Tensor(np.random.randint(0, 4, 8).astype(np.int32))
    print("LOSS", float(step(x, y)).hex())
print("CALL", nn.Cell.__call__.__qualname__, nn.Optimizer.__call__.__qualname__)
"""

MODEL = """
import sys
import numpy as np
import mindspore as ms
import mindspore.dataset as ds
from mindspore import nn
ms.set_seed(0)
ms.set_context(mode=ms.GRAPH_MODE)
class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.relu, self.flat = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()
        self.head = nn.Dense(4 * 8 * 8, 3)
    def construct(self, x):
        return self.head(self.flat(self.relu(self.bn(self.conv(x)))))
random = np.random.RandomState(1)
rows = [(random.randn(1, 8, 8).astype(np.float32), np.int32(random.randint(0, 3))) for _ in range(24)]
data = ds.GeneratorDataset(rows, ["x", "y"], shuffle=False).batch(6)
net = Net()
optimizer = nn.Momentum(net.trainable_params(), 0.2 if "rate" in sys.argv else 0.1, 0.9)
class Told(ms.train.Callback):
    def on_train_step_end(self, run_context):
        print("LOSS", float(run_context.original_args().net_outputs).hex())
loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
ms.train.Model(net, loss, optimizer).train(1, data, callbacks=[Told()], dataset_sink_mode=False)
"""


def run(
    folder: Path, program: str, out: Path | None, *words: str, snapshot: Path | None = None, **asked: Any
) -> list[str]:
    record = None if out is None else {"out": str(out), **asked}
    script = folder / "train.py"
    script.write_text(program)
    own = environment({**os.environ, "OMP_NUM_THREADS": "1"}, record=record, snapshot=snapshot)
    done = subprocess.run(
        [os.environ["HERMES_MINDSPORE_PYTHON"], str(script), *words], capture_output=True, text=True, timeout=300,
        cwd=folder, env=own, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "hermes:" not in done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith(("LOSS", "CALL"))]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], Path]:
    folder = tmp_path_factory.mktemp("mindspore")
    return run(folder, FUNCTIONS, folder / "plain"), folder / "plain"


def test_results_are_the_same_in_every_bit_and_nothing_is_left(plain: tuple[list[str], Path], tmp_path: Path) -> None:
    assert plain[0] == run(tmp_path, FUNCTIONS, None)


def test_cells_gradients_and_updates_are_recorded_with_their_lines(plain: tuple[list[str], Path]) -> None:
    recorded = read(plain[1])
    assert (recorded.framework, recorded.steps) == ("mindspore", ((0, 0), (0, 1)))
    step = recorded.loader.load(0, 1)  # type: ignore[attr-defined]
    assert {op.phase for op in step.ops} == {"forward", "backward", "gradient", "update"}
    (act,) = [op for op in step.ops if op.module == "Net.blocks.0.act" and op.phase == "forward"]
    assert act.name == "module.GELU"
    assert act.frames[0].text == "return x + self.two(self.act(self.norm(self.one(x))))"
    names = [op.parameter for op in step.ops if op.phase == "gradient"]
    assert names[:2] == ["Net.blocks.0.one.weight", "Net.blocks.0.one.bias"]


@pytest.mark.parametrize("word", ["graph", "jit"])
def test_a_program_that_would_be_compiled_is_recorded_cell_by_cell(
    plain: tuple[list[str], Path], tmp_path: Path, word: str
) -> None:
    assert run(tmp_path, FUNCTIONS, tmp_path / "r", word)[:4] == plain[0][:4]
    found = compare(plain[1], tmp_path / "r", jobs=1)
    assert (found.verdict, len(found.judgements)) == ("agree", 2)


@pytest.mark.parametrize("what", ["statistics", "tensors"])
def test_another_activation_is_named_with_its_cell(tmp_path: Path, what: str) -> None:
    for name, words in (("a", ()), ("b", ("tanh",))):
        run(tmp_path, FUNCTIONS, tmp_path / name, *words, what=what, steps="0")
    first = compare(tmp_path / "a", tmp_path / "b", jobs=1).first
    assert first is not None
    assert (first.operator, first.module, first.step, first.phase) == ("module.GELU", "Net.blocks.0.act", 0, "forward")


def test_another_rate_of_a_model_that_trains_itself_is_named(tmp_path: Path) -> None:
    bare = run(tmp_path, MODEL, None)
    assert run(tmp_path, MODEL, tmp_path / "a") == bare
    run(tmp_path, MODEL, tmp_path / "b", "rate")
    first = compare(tmp_path / "a", tmp_path / "b", jobs=1).first
    assert first is not None
    assert (first.step, first.phase, first.kind) == (0, "update", "another_argument")
    assert first.why.identifier == "precision.why.optimizer"


def test_fingerprints_of_one_program_agree(tmp_path: Path) -> None:
    for name in ("a", "b"):
        run(tmp_path, MODEL, tmp_path / name, what="fingerprint", steps="0-2")
    assert compare(tmp_path / "a", tmp_path / "b", jobs=1).answer.identifier == "precision.agree.exact"


@pytest.mark.parametrize("program", [FUNCTIONS, MODEL], ids=["functions", "a model that trains itself"])
def test_a_snapshot_changes_nothing_and_equal_setups_are_alike(tmp_path: Path, program: str) -> None:
    bare = run(tmp_path, program, None)
    sides = [tmp_path / "a.zip", tmp_path / "b.zip"]
    assert all(run(tmp_path, program, None, snapshot=side) == bare for side in sides)
    assert [one for one in check(*sides).differences if one.severity != "note"] == []


def test_a_snapshot_tells_another_rate_and_another_cell(tmp_path: Path) -> None:
    for name, words in (("a", ()), ("b", ("rate",))):
        run(tmp_path, MODEL, None, *words, snapshot=tmp_path / f"{name}.zip")
    found = [
        say(one.what) for one in check(tmp_path / "a.zip", tmp_path / "b.zip").differences if one.part == "optimizer"
    ]
    assert found == ["group 0: learning_rate is 0.2 instead of 0.1"]
    run(tmp_path, MODEL.replace("nn.Dense(4 * 8 * 8, 3)", "nn.Dense(4 * 8 * 8, 3, has_bias=False)"), None,
        snapshot=tmp_path / "c.zip")  # fmt: skip
    found = [
        say(one.what) for one in check(tmp_path / "a.zip", tmp_path / "c.zip").differences if one.part == "parameters"
    ]
    assert found == ["1 parameter only in the golden run: Net.head.bias"]
