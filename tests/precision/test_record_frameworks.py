"""Training as frameworks run it is recorded by one command: the same in every bit, and the operator that differs.

Each is skipped where it is not installed: pip install transformers accelerate lightning
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE_S

from hermes.base.say import say
from hermes.precision.api import compare

pytestmark = [pytest.mark.live, pytest.mark.slow]

_HEAD = """
import os, sys
import torch
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)
if "tanh" in sys.argv:
    gelu = nn.functional.gelu
    nn.functional.gelu = lambda x, approximate="none": gelu(x, approximate="tanh")
def told(model):
    print(*[p.detach().numpy().tobytes().hex() for p in model.parameters()], flush=True)
net = lambda: nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 1))
batches = [(torch.randn(8, 16), torch.randn(8, 1)) for _ in range(3)]
"""

_TRAINER = """
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
class Text(torch.utils.data.Dataset):
    def __len__(self): return 12
    def __getitem__(self, i):
        found = torch.randint(0, 100, (16,), generator=torch.Generator().manual_seed(i))
        return {"input_ids": found, "labels": found}
model = GPT2LMHeadModel(GPT2Config(vocab_size=100, n_positions=16, n_embd=32, n_layer=2, n_head=2,
                                   activation_function="gelu"))
arguments = TrainingArguments(output_dir=os.environ["SCRATCH"], per_device_train_batch_size=4, max_steps=3,
                              report_to=[], save_strategy="no", use_cpu=True, disable_tqdm=True)
Trainer(model=model, args=arguments, train_dataset=Text()).train()
told(model)
"""

_LIGHTNING = """
import lightning
from torch.utils.data import DataLoader
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = net()
    def training_step(self, batch, number):
        return nn.functional.mse_loss(self.net(batch[0]), batch[1])
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)
model = Model()
lightning.Trainer(max_epochs=1, accelerator="cpu", logger=False, enable_progress_bar=False, enable_checkpointing=False,
                  enable_model_summary=False, default_root_dir=os.environ["SCRATCH"]
                  ).fit(model, DataLoader(batches, None))
told(model)
"""

_LOOP = """
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for x, y in batches:
    nn.functional.mse_loss(run(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
"""

_COMPILED = f"""
model = net()
run = torch.compile(model, backend="eager")
{_LOOP}
told(model)
"""

_RANKS = """
import torch.distributed as dist
dist.init_process_group("gloo")
"""

# Threads of gloo abort a process now and then that ends beneath them, recorded or not.
_END = """
dist.barrier()
sys.stdout.flush()
os._exit(0)
"""

_DDP = f"""{_RANKS}
model = net()
run = nn.parallel.DistributedDataParallel(model)
{_LOOP}
if dist.get_rank() == 0:
    told(model)
{_END}"""

_FSDP = f"""{_RANKS}
from torch.distributed.fsdp import fully_shard
model = run = net()
for layer in (model[0], model[2], model):
    fully_shard(layer)
{_LOOP}
whole = [p.full_tensor().detach().numpy().tobytes().hex() for p in model.parameters()]
if dist.get_rank() == 0:
    print(*whole, flush=True)
{_END}"""

_TWO = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def _run(folder: Path, *command: str) -> str:
    environment = {**os.environ, "SCRATCH": str(folder / "scratch"), "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout


@pytest.mark.parametrize(
    ("needed", "script", "launcher", "ranks"),
    [
        pytest.param(("transformers", "accelerate"), _TRAINER, (), 1, id="trainer"),
        pytest.param(("lightning",), _LIGHTNING, (), 1, id="lightning"),
        pytest.param((), _COMPILED, (), 1, id="compiled"),
        pytest.param((), _DDP, _TWO, 2, id="ddp"),
        pytest.param((), _FSDP, _TWO, 2, id="fsdp2"),
    ],
)
def test_one_command_records_it_and_changes_nothing(
    tmp_path: Path, needed: tuple[str, ...], script: str, launcher: tuple[str, ...], ranks: int
) -> None:
    absent = [name for name in ("torch", *needed) if importlib.util.find_spec(name) is None]
    if absent:
        pytest.skip(f"not installed: {', '.join(absent)}")
    (tmp_path / "train.py").write_text(_HEAD + script)
    training = (*launcher, "train.py")
    record = ("-m", "hermes", "precision", "record", "--steps", "0|1", "-o")
    plain = _run(tmp_path, *training)
    recorded = _run(tmp_path, *record, "golden", "--", sys.executable, *training)
    assert plain.split()[-4:] == recorded.split()[-4:]
    _run(tmp_path, *record, "target", "--", sys.executable, *training, "tanh")
    golden, target = tmp_path / "golden", tmp_path / "target"
    assert compare(golden, golden).golden.steps == tuple((rank, step) for rank in range(ranks) for step in (0, 1))
    first = compare(golden, target).first
    assert first is not None
    assert (first.operator, first.rank, first.step, first.phase) == ("aten.gelu.default", 0, 0, "forward")
    assert "tanh" in say(first.why)
