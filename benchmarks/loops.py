"""Runs training loops of many frameworks with and without `hermes run`, and compares steps, output and bits.

    python benchmarks/loops.py [NAME…]

The script prints a row of a table for each loop. A row has the line that says what a step is, records against steps,
other lines of Hermes, equal bits, and the median of the monitor's own time at the end of a step. Frameworks that are
not installed are left out. HERMES_MINDSPORE_PYTHON names the Python that has MindSpore.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import hermes
from hermes.inside.wire.rundir import jobs
from hermes.inside.wire.step_record import AT
from hermes.inside.wire.steplog import read_rows

HEAD = """
import os, sys, warnings
warnings.simplefilter("ignore")
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
torch.set_num_threads(1)
data = TensorDataset(torch.randn(160, 16), torch.randn(160, 1))
def told(*models):
    print("BITS", [p.detach().numpy().tobytes().hex() for m in models for p in m.parameters()], flush=True)
def net():
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
"""
PLAIN = """
m = net(); o = torch.optim.SGD(m.parameters(), lr=.01)
for _ in range(3):
    for x, y in DataLoader(data, batch_size=8):
        nn.functional.mse_loss(m(x), y).backward(); o.step(); o.zero_grad()
told(m)
"""
LOADER = "x, y in DataLoader(data, batch_size=8)"
LOOPS: dict[str, tuple[str, int, str]] = {
    "plain loop": (PLAIN, 60, ""),
    "gradient accumulation": (
        PLAIN.replace(LOADER, "n, (x, y) in enumerate(DataLoader(data, batch_size=8))")
        .replace("o.step(); o.zero_grad()", "n % 4 == 3 and (o.step(), o.zero_grad())"), 15, "",
    ),
    "an optimizer for each epoch": (
        PLAIN.replace("for _ in range(3):\n", "for _ in range(3):\n    o = torch.optim.SGD(m.parameters(), lr=.01)\n"),
        60, "",
    ),
    "GAN, two optimizers": (
        """
g, d = nn.Linear(4, 16), net()
og, od = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
for _ in range(3):
    for x, y in DataLoader(data, batch_size=8):
        od.zero_grad(); (d(g(torch.randn(8, 4)).detach()).mean() - d(x).mean()).backward(); od.step()
        og.zero_grad(); (-d(g(torch.randn(8, 4))).mean()).backward(); og.step()
told(g, d)
""", 60, "",
    ),
    "LBFGS with a closure": (
        """
m = net(); o = torch.optim.LBFGS(m.parameters(), max_iter=4)
for _ in range(3):
    for x, y in DataLoader(data, batch_size=8):
        def closure():
            o.zero_grad(); loss = nn.functional.mse_loss(m(x), y); loss.backward(); return loss
        o.step(closure)
told(m)
""", 60, "",
    ),
    "RL: rollouts, then several updates": (
        """
m = nn.Linear(4, 2); o = torch.optim.Adam(m.parameters())
def policy(state):
    return torch.distributions.Categorical(logits=m(state))
for _ in range(15):
    with torch.no_grad():
        states = [torch.randn(4) for _ in range(20)]
        acts = [policy(s).sample() for s in states]
    for _ in range(4):
        o.zero_grad()
        (-torch.stack([policy(s).log_prob(a) for s, a in zip(states, acts)]).mean()).backward()
        o.step()
told(m)
""", 60, "",
    ),
    "inference": (
        """
m = net().eval()
with torch.inference_mode():
    for x, y in DataLoader(data, batch_size=8): m(x)
told(m)
""", 0, "",
    ),
    "mp.spawn, two processes": (
        """
import torch.multiprocessing as mp
import torch.distributed as dist
def rank(number):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[1] if len(sys.argv) > 1 else "29561")
    dist.init_process_group("gloo", rank=number, world_size=2)
    torch.manual_seed(0)
    m = nn.parallel.DistributedDataParallel(net()); o = torch.optim.SGD(m.parameters(), lr=.01)
    for _ in range(3):
        for x, y in DataLoader(data, batch_size=8):
            nn.functional.mse_loss(m(x), y).backward(); o.step(); o.zero_grad()
    if number == 0: told(m)
    dist.barrier(); dist.destroy_process_group()
if __name__ == "__main__":
    mp.spawn(rank, nprocs=2)
""", 60, "",
    ),
    "torchrun, two ranks": (
        "import torch.distributed as dist\ndist.init_process_group('gloo')\n"
        + PLAIN.replace("m = net()", "m = nn.parallel.DistributedDataParallel(net())")
        .replace("told(m)", "dist.get_rank() or told(m)\ndist.barrier(); dist.destroy_process_group()"), 60, "torchrun",
    ),
    "torchrun, both ranks fail half way and are restarted": (
        """
import torch.distributed as dist
# In the store of torchrun the ranks of torch 2.13 may wait for ever after a restart.
again = os.environ["TORCHELASTIC_RESTART_COUNT"] != "0"
store = f"file://{os.path.abspath('store')}{os.getppid()}{again}"
dist.init_process_group("gloo", init_method=store, rank=int(os.environ["RANK"]), world_size=2)
m = nn.parallel.DistributedDataParallel(net()); o = torch.optim.SGD(m.parameters(), lr=.01)
if again:
    m.load_state_dict(torch.load("half.pt"))
for epoch in range(2 if again else 0, 4):
    if epoch == 2 and not again:
        dist.get_rank() or torch.save(m.state_dict(), "half.pt")
        dist.barrier()
        sys.exit(1)
    for x, y in DataLoader(data, batch_size=8):
        nn.functional.mse_loss(m(x), y).backward(); o.step(); o.zero_grad()
dist.get_rank() or told(m)
dist.barrier(); dist.destroy_process_group()
""", 79, "torchrun",
    ),
    "Trainer of Hugging Face": (
        """
from transformers import Trainer, TrainingArguments
class Model(nn.Module):
    def __init__(self):
        super().__init__(); self.net = nn.Embedding(50, 1)
    def forward(self, input_ids, labels):
        return {"loss": nn.functional.mse_loss(self.net(input_ids).sum((1, 2)), labels.float())}
class Text(torch.utils.data.Dataset):
    def __len__(self): return 80
    def __getitem__(self, i): return {"input_ids": torch.arange(i % 7, i % 7 + 12), "labels": torch.tensor(i % 3)}
model = Model()
Trainer(model=model, train_dataset=Text(), args=TrainingArguments(output_dir="out", per_device_train_batch_size=4,
    num_train_epochs=3, use_cpu=True, report_to=[], disable_tqdm=True, save_strategy="no")).train()
told(model)
""", 60, "transformers",
    ),
    "accelerate": (
        """
from accelerate import Accelerator
a = Accelerator(cpu=True); m = net(); o = torch.optim.SGD(m.parameters(), lr=.01)
m, o, loader = a.prepare(m, o, DataLoader(data, batch_size=8))
for _ in range(3):
    for x, y in loader:
        a.backward(nn.functional.mse_loss(m(x), y)); o.step(); o.zero_grad()
told(m)
""", 60, "accelerate",
    ),
    "Lightning": (
        """
import lightning
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__(); self.net = net()
    def training_step(self, batch, number):
        return nn.functional.mse_loss(self.net(batch[0]), batch[1])
    def configure_optimizers(self): return torch.optim.Adam(self.parameters(), lr=0.01)
m = Model()
lightning.Trainer(max_epochs=3, accelerator="cpu", logger=False, enable_progress_bar=False, enable_checkpointing=False,
                  enable_model_summary=False).fit(m, DataLoader(data, batch_size=8))
told(m)
""", 60, "lightning",
    ),
    "MindSpore, `Model.train` with the callback": (
        """
import numpy as np
import mindspore as ms
from mindspore import nn
from mindspore.dataset import NumpySlicesDataset
import hermes.inside
ms.set_context(device_target="CPU")
ms.set_seed(1)
data = {"x": np.random.RandomState(0).randn(480, 8).astype("f"), "y": np.ones((480, 2), np.float32)}
network = nn.Dense(8, 2)
model = ms.train.Model(network, nn.MSELoss(), nn.SGD(network.trainable_params(), 0.01))
model.train(1, NumpySlicesDataset(data, shuffle=False).batch(8), callbacks=[hermes.inside.mindspore_callback()],
            dataset_sink_mode=False)
print("BITS", [p.asnumpy().tobytes().hex() for p in network.trainable_params()], flush=True)
""", 60, "mindspore",
    ),
}  # fmt: skip
_MINDSPORE = os.environ.get("HERMES_MINDSPORE_PYTHON", "")
_SOURCE = str(Path(hermes.__file__).parents[1])
_HERMES = "from hermes.cli import command; command()"


def main(names: list[str]) -> None:
    """Print a row for each named loop, or for all loops."""
    for name, (script, steps, needs) in LOOPS.items():
        if names and name not in names:
            continue
        here = importlib.util.find_spec(needs) if needs not in ("", "torchrun", "mindspore") else True
        if not here or (needs == "mindspore" and not _MINDSPORE):
            continue
        with tempfile.TemporaryDirectory() as folder:
            row = _row(name, script, steps, Path(folder), needs)
        sys.stdout.write("| " + " | ".join(row) + " |\n")
        sys.stdout.flush()


def _row(name: str, script: str, steps: int, folder: Path, needs: str) -> tuple[str, ...]:
    file = folder / "train.py"
    file.write_text(script if needs == "mindspore" else HEAD + script)
    command = [_MINDSPORE if needs == "mindspore" else sys.executable, str(file)]
    if needs == "torchrun":
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        command += ["--max-restarts", "1", str(file)]
    environment = os.environ | {"HERMES_RUN_DIR": str(folder / "jobs"), "OMP_NUM_THREADS": "1", "PYTHONPATH": _SOURCE}
    without = environment | {"HERMES_CAPTURE": "0"}
    bare = subprocess.run(command, cwd=folder, env=without, capture_output=True, text=True, check=False)
    ours = subprocess.run(
        [sys.executable, "-c", _HERMES, "run", "--no-capture", "--", *command], cwd=folder, env=environment,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = [line.removeprefix("hermes: ") for line in ours.stderr.splitlines() if line.startswith("hermes: ")]
    said = [line for line in said if not line.startswith("run directory")]
    what = next((line for line in said if line.startswith("a step is ")), "no step")
    logs = sorted(log for job in jobs(folder / "jobs") for log in job.folder.glob("steps-rank*.log"))
    rows = [[row for row in read_rows(log) if row] for log in logs]
    cost = sorted(row[AT["overhead_ns"]] for of_rank in rows for row in of_rank[5:])
    bits = _bits(bare.stdout) == _bits(ours.stdout) != ""
    others = "; ".join(line for line in said if line != what) or "nothing"
    counted = ", ".join(str(len(of_rank)) for of_rank in rows) or "0"
    good = "yes" if bits and bare.returncode == ours.returncode == 0 else f"NO ({bare.returncode}, {ours.returncode})"
    return (
        name, what.removeprefix("a step is "), f"{counted} of {max(steps - 1, 0)}", others, good,
        f"{cost[len(cost) // 2] / 1e3:.0f} us" if cost else "",
    )  # fmt: skip


def _bits(out: str) -> str:
    return next((line for line in out.splitlines() if line.startswith("BITS")), "")


if __name__ == "__main__":
    main(sys.argv[1:])
