"""Training frameworks as they are, started by `hermes run` with no change: every step is found, every bit is the same.

Each is skipped where it is not installed: pip install lightning transformers accelerate
"""

from __future__ import annotations

import importlib.util
import sys
from statistics import median

import pytest
from tests.inside.conftest import Column, Place
from tests.inside.test_profile import HERMES, begin

from hermes.inside.wire.step_record import FLAGS

pytestmark = pytest.mark.live

_HEAD = """
import os, sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
torch.set_num_threads(1)
data = TensorDataset(torch.randn(160, 16), torch.randn(160, 1))
def told(model):
    print([p.detach().numpy().tobytes().hex() for p in model.parameters()], flush=True)
"""

_LIGHTNING = """
import lightning
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(16, 1)
    def training_step(self, batch, number):
        x, y = batch
        return nn.functional.mse_loss(self.net(x), y)
    def validation_step(self, batch, number):
        x, y = batch
        self.log("loss", nn.functional.mse_loss(self.net(x), y))
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)
model = Model()
trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_progress_bar=False,
                            enable_model_summary=False, accumulate_grad_batches=2)
trainer.fit(model, DataLoader(data, batch_size=8), DataLoader(data, batch_size=40))
assert trainer.global_step == 20
told(model)
"""

_TRANSFORMERS = """
from transformers import Trainer, TrainingArguments
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Embedding(50, 1)
    def forward(self, input_ids, labels):
        return {"loss": nn.functional.mse_loss(self.net(input_ids).sum((1, 2)), labels.float())}
class Text(torch.utils.data.Dataset):
    def __len__(self): return 80
    def __getitem__(self, i): return {"input_ids": torch.arange(i % 7, i % 7 + 12), "labels": torch.tensor(i % 3)}
model = Model()
arguments = TrainingArguments(output_dir="out", per_device_train_batch_size=4, gradient_accumulation_steps=2,
                              num_train_epochs=2, use_cpu=True, report_to=[], disable_tqdm=True, save_steps=8,
                              per_device_eval_batch_size=8, eval_strategy="steps", eval_steps=8)
trainer = Trainer(model=model, args=arguments, train_dataset=Text(), eval_dataset=Text())
trainer.train()
assert trainer.state.global_step == 20
told(model)
"""

_FSDP = """
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
dist.init_process_group("gloo")
model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
for layer in (model[0], model[2], model):
    fully_shard(layer)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for x, y in DataLoader(data, batch_size=8):
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
# Text and line end in one write: two ranks share the pipe.
sys.stdout.write(f"{[p.full_tensor().detach().numpy().tobytes().hex() for p in model.parameters()]}\\n")
sys.stdout.flush()
dist.barrier()
getattr(sys.modules.get("hermes.inside"), "stop", lambda: None)()
os._exit(0)
"""


def _same_bits(place: Place, script: str, *launcher: str) -> str:
    """Train with and without Hermes, both at once; the model is the same, and nothing was said."""
    (place.folder / "train.py").write_text(_HEAD + script)
    command = [sys.executable, "-W", "ignore", *launcher, "train.py"]
    both = [begin(place, *command), begin(place, sys.executable, "-c", HERMES, "run", "--no-watch", "--", *command)]
    (bare, error), (ours, said) = (process.communicate(timeout=400) for process in both)
    assert [process.returncode for process in both] == [0, 0], error + said
    models = [{line for line in out.splitlines() if line.startswith("['")} for out in (bare, ours)]
    assert models[0] == models[1]
    assert len(models[0]) == 1
    told = [line[:22] for line in said.splitlines() if line.startswith("hermes")]
    # What a step is is said where a look, one a second, meets the training before it ends.
    assert sorted(told, reverse=True) in (
        ["hermes: run directory:"],
        ["hermes: run directory:", "hermes: a step is each"],
    )
    return ours


def _flagged(column: Column, place: Place, flag: str) -> list[int]:
    log = place.jobs()[0].log_path(0)
    pairs = zip(column(log, "step"), column(log, "flags"), strict=True)
    return [step or 0 for step, flags in pairs if (flags or 0) & FLAGS[flag]]


def _needs(*names: str) -> pytest.MarkDecorator:
    absent = [name for name in names if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(absent), reason=f"not installed: {', '.join(absent)}")


@_needs("torch", "lightning")
def test_lightning(place: Place, column: Column) -> None:
    _same_bits(place, _LIGHTNING)
    log = place.jobs()[0].log_path(0)
    assert column(log, "step") == list(range(1, 20))
    assert set(column(log, "samples")[:9]) == {16}
    # Validation comes after each epoch of ten steps, and Lightning writes a checkpoint then.
    assert _flagged(column, place, "evaluation") == [10]
    assert _flagged(column, place, "checkpoint") == [10]
    # Both passes run inside the optimizer's step, in a closure; its own time is what is left.
    walls, optimizer = column(log, "wall_ns"), column(log, "optimizer_ns")
    assert 0 < median(optimizer) < 0.6 * median(walls)  # type: ignore[type-var, operator]
    assert all(column(log, "backward_ns"))


@_needs("torch", "transformers", "accelerate")
def test_the_trainer_of_hugging_face(place: Place, column: Column) -> None:
    _same_bits(place, _TRANSFORMERS)
    log = place.jobs()[0].log_path(0)
    assert column(log, "step") == list(range(1, 20))
    # It fetches the batches of a whole step before the first of them is used.
    assert _flagged(column, place, "evaluation") == [8, 16]
    assert _flagged(column, place, "checkpoint") == [8, 16]
    batches = column(log, "batches")
    assert batches[1:6] == [2] * 5
    assert column(log, "tokens")[1:6] == [2 * 4 * 12] * 5


@_needs("torch")
def test_two_ranks_of_fsdp(place: Place, column: Column) -> None:
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    _same_bits(place, _FSDP, *launcher)
    (job,) = place.jobs()
    for rank in (0, 1):
        assert column(job.log_path(rank), "step") == list(range(1, 20))
        assert all(column(job.log_path(rank), "backward_ns"))
