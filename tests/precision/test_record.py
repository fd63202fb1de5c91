"""Recording a real training of torch: what is written, what survives, and that the training does not notice."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.patience import until

from hermes.inside.record.layout import DATA_START, STATISTICS
from hermes.precision.api import compare
from hermes.precision.launch_recording import environment
from hermes.precision.read.recording import read

pytestmark = [pytest.mark.live, pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")]

PROGRAM = """
import sys, time
from torch import nn, relu, optim
import torch
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.norm, self.two = nn.Linear(12, 16), nn.BatchNorm1d(16), nn.Linear(16, 4)
    def forward(self, x):
        return self.two(nn.functional.dropout(relu(self.norm(self.one(x)))))
net = Net()
optimizer = optim.Adam(net.parameters())
for step in range(int(sys.argv[1])):
    loss = net(torch.randn(8, 12)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item().hex(), flush=True)
    if len(sys.argv) > 2 and step == 3:
        time.sleep(60)
hooks = torch.nn.modules.module
print(len(hooks._global_forward_hooks), len(hooks._global_forward_pre_hooks),
len(optim.optimizer._global_optimizer_pre_hooks)
      if hasattr(optim, "optimizer") else len(sys.modules["torch.optim.optimizer"]._global_optimizer_pre_hooks))
"""


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "train.py"
    path.write_text(PROGRAM)
    return path


def start(program: Path, out: Path | None, *words: str, **asked: Any) -> subprocess.Popen[str]:
    given = {**os.environ, "OMP_NUM_THREADS": "1"}
    record = None if out is None else {"out": str(out), **asked}
    return subprocess.Popen(
        [sys.executable, str(program), *words], env=environment(given, record=record, snapshot=None), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def finished(program: Path, out: Path | None, *words: str, **asked: Any) -> str:
    process = start(program, out, *words, **asked)
    said, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert "hermes" not in errors
    return said


@pytest.fixture(scope="session")
def runs(program: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The program without Hermes, and recorded in each way, at once."""
    folder = tmp_path_factory.mktemp("recordings")
    ways: dict[str, dict[str, Any]] = {
        "statistics": {"steps": "0|2"}, "tensors": {"steps": "0|2", "what": "tensors", "level": "both"},
        "fingerprint": {"steps": "1", "what": "fingerprint"}, "modules": {"steps": "0-1", "level": "modules"},
        "limited": {"steps": "0-1", "what": "tensors", "limit_bytes": DATA_START + 2000},
        "scoped": {"steps": "0", "scope": ["two"], "operators": ["*mm*"]},
    }  # fmt: skip
    bare = finished(program, None, "4")
    return {
        "bare": bare,
        **{name: (finished(program, folder / name, "4", **way), folder / name) for name, way in ways.items()},
    }


@pytest.mark.smoke
@pytest.mark.parametrize("way", ["statistics", "tensors", "fingerprint", "modules", "limited"])
def test_results_are_the_same_in_every_bit_and_nothing_is_left_in_torch(runs: dict[str, Any], way: str) -> None:
    assert runs[way][0] == runs["bare"]
    assert runs["bare"].splitlines()[-1] == "0 0 0"


def test_only_the_steps_that_were_asked_for_are_recorded(runs: dict[str, Any]) -> None:
    assert read(runs["statistics"][1]).steps == ((0, 0), (0, 2))


@pytest.mark.smoke
def test_an_operator_is_recorded_with_module_line_and_phase(runs: dict[str, Any]) -> None:
    step = read(runs["statistics"][1]).loader.load(0, 2)
    (relu,) = [op for op in step.ops if op.name == "aten.relu.default"]
    assert (relu.module, relu.phase) == ("Net", "forward")
    assert relu.frames[0].text.startswith("return self.two(")
    (backward,) = [op for op in step.ops if op.name == "aten.threshold_backward.default"]
    assert (backward.phase, backward.forward, backward.module) == ("backward", relu.number, "Net")
    assert {op.phase for op in step.ops} == {"forward", "backward", "gradient", "optimizer", "update"}
    assert [op.parameter for op in step.ops if op.phase == "gradient"][:2] == ["Net.one.weight", "Net.one.bias"]
    assert all(op.random for op in step.ops if "bernoulli" in op.name or "randn" in op.name)


@pytest.mark.smoke
def test_statistics_are_those_of_the_elements(runs: dict[str, Any]) -> None:
    one, two = (read(runs[way][1]).loader.load(0, 2) for way in ("statistics", "tensors"))
    from hermes.precision.read.tensors import Files, numbers

    files = Files()
    names = {op.name for op in one.ops}
    checked = 0
    for name in sorted(names):
        a = next(op for op in one.ops if op.name == name)
        b = next((op for op in two.ops if op.name == name and op.args == a.args and op.phase == a.phase), None)
        for left, right in zip(a.outputs, b.outputs if b else (), strict=False):
            found = files.flat(two, right)
            stats = one.values[left].stats
            if found is None or stats is None or one.values[left].view:
                continue
            flat = numbers(*found)
            expected = [flat.min(), flat.max(), flat.mean(), np.sqrt((flat**2).sum()), 0, 0, (flat == 0).sum()]
            np.testing.assert_allclose(stats[:7], expected, rtol=1e-5, atol=1e-6)
            checked += 1
    assert checked > 10
    assert len(STATISTICS) == 15


def test_statistics_and_tensors_of_one_run_agree_with_themselves(runs: dict[str, Any]) -> None:
    for way in ("statistics", "tensors", "modules", "fingerprint"):
        found = compare(runs[way][1], runs[way][1], jobs=1)
        assert found.verdict == "agree"
        assert found.answer.identifier == "precision.agree.exact"


def test_a_part_is_a_file_of_safetensors(runs: dict[str, Any]) -> None:
    part = runs["tensors"][1] / "rank0" / "step2.000.safetensors"
    raw = part.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    head = json.loads(raw[8 : 8 + length])
    ends = sorted(tuple(one["data_offsets"]) for one in head.values())
    assert all(before[1] == after[0] for before, after in pairwise(ends))
    assert 8 + length + ends[-1][1] == len(raw)


def test_a_limit_on_bytes_is_kept_and_statistics_stand_in(runs: dict[str, Any]) -> None:
    folder = runs["limited"][1]
    assert sum(part.stat().st_size for part in (folder / "rank0").glob("*.safetensors")) <= DATA_START + 2000
    run = read(folder)
    step = run.loader.load(0, 0)
    assert step.dropped
    assert all(one.stats or one.data or one.view or not one.count for one in step.values)


def test_a_scope_takes_what_belongs_to_it_and_nothing_else(runs: dict[str, Any]) -> None:
    step = read(runs["scoped"][1]).loader.load(0, 0)
    assert {op.module for op in step.ops} == {"Net.two"}
    assert {op.name for op in step.ops} == {"aten.addmm.default", "aten.mm.default"}


def test_fingerprints_tell_that_elements_changed_their_places(runs: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    from hermes.inside.record.stats import Fingerprints

    prints = Fingerprints(torch)
    for tensor in (torch.arange(6.0), torch.tensor([0.0, 0, 1, 0, 0, 0]), torch.arange(6), torch.arange(6.0).half()):
        assert prints.of(tensor) == prints.of(tensor.clone())
        assert prints.of(tensor) != prints.of(tensor.flip(0))


def test_a_killed_process_has_left_its_complete_steps(program: Path, tmp_path: Path) -> None:
    process = start(program, tmp_path / "r", "9", "sleep", steps="0-9")
    assert process.stdout is not None
    for _ in range(4):
        process.stdout.readline()

    def complete() -> bool:
        run = read(tmp_path / "r")
        return len(run.steps) >= 4 and all(run.loader.load(0, step).complete for step in range(4))

    until(complete)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    run = read(tmp_path / "r")
    assert [step for _, step in run.steps][:4] == [0, 1, 2, 3]
    assert all(run.loader.load(0, step).complete for step in range(4))


def test_with_and_decorator_record_without_a_launcher(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from hermes.precision import record

    @record(tmp_path / "r", level="operators")
    def compute(x: Any) -> Any:
        return (x @ x).relu()

    compute(torch.eye(3))
    compute(torch.ones(3, 3))
    run = read(tmp_path / "r")
    assert [step for _, step in run.steps] == [0, 1]
    assert [op.name for op in run.loader.load(0, 1).ops] == ["aten.mm.default", "aten.relu.default"]


def test_a_ring_is_written_at_an_alarm_only(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from hermes.inside.record.options import Options
    from hermes.inside.record.recorder import Recorder

    recorder = Recorder(torch, Options({"out": str(tmp_path / "r"), "ring": 2}), rank=0, world=1)
    for _ in range(5):
        recorder.begin()
        torch.ones(3).add(1)
        recorder.end()
    assert read(tmp_path / "r").steps == ()
    recorder.alarm("loss is NaN")
    assert [step for _, step in read(tmp_path / "r").steps] == [3, 4]


@pytest.mark.parametrize(
    ("parent", "number", "taken"),
    [("", "", False), ("1 ", "", True), ("1 ", "0", False), ("1 0", "0", True), ("1 0", "1", False)],
    ids=["alone", "a helper", "a rank below a launcher", "a helper of a rank", "another rank"],
)
def test_a_launcher_leaves_the_recording_to_its_ranks(
    monkeypatch: pytest.MonkeyPatch, parent: str, number: str, taken: bool
) -> None:
    from hermes.inside.record.start import claimed

    for name, value in (("HERMES_RECORD_PROCESS", parent), ("RANK", number)):
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name, raising=False)
    assert claimed("HERMES_RECORD") is taken
    monkeypatch.delenv("HERMES_RECORD_PROCESS", raising=False)


@pytest.mark.slow
def test_a_model_that_is_sharded_over_two_ranks_is_recorded_by_one_command(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SHARDED)
    given = {**environment(os.environ, record={"out": str(tmp_path / "r")}, snapshot=None), "OMP_NUM_THREADS": "1"}
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*torchrun, str(tmp_path / "train.py")], env=given, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr[-3000:]
    run = read(tmp_path / "r")
    assert run.steps == ((0, 0), (0, 1), (1, 0), (1, 1))
    assert any(op.name.startswith("c10d.") for op in run.loader.load(1, 1).ops)
    assert compare(tmp_path / "r", tmp_path / "r", jobs=1).first is None


def test_recording_does_not_load_the_compiler_of_torch(tmp_path: Path) -> None:
    code = (
        "import sys, torch\n"
        "from hermes.precision import record\n"
        f"with record({str(tmp_path / 'r')!r}):\n"
        "    (torch.eye(3) @ torch.eye(3)).relu()\n"
        "print('torch._dynamo' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.strip() == "False"
    assert [op.name for op in read(tmp_path / "r").loader.load(0, 0).ops][-1] == "aten.relu.default"


SHARDED = """
import torch, torch.distributed as dist
from torch.distributed.fsdp import fully_shard
dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 16))
mesh = torch.distributed.init_device_mesh("cpu", (2,))
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(torch.randn(8, 16)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""


def test_a_hook_of_the_job_that_follows_ours_is_called_when_recording_ends(tmp_path: Path) -> None:
    script = """
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from hermes.inside.record import start
start.boot()
seen = []
register_optimizer_step_post_hook(lambda *_: seen.append(1))
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
print(len(seen))
"""
    told = {**os.environ, "HERMES_RECORD": json.dumps({"out": str(tmp_path / "recording"), "steps": "0-1"})}
    done = subprocess.run([sys.executable, "-c", script], env=told, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "4\n", "")
