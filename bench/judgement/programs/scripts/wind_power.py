"""Power of wind farms from a grid of weather forecasts."""
import argparse
import copy
import math
import tempfile
import time
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F


def forecasts(hours, points, farms, seed):
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.randn(24, points, generator=generator) / 5
    driver = torch.randn(hours, 24, generator=generator).cumsum(0) * 0.05
    speed = (driver.sin() @ mixing).abs() * 6 + torch.rand(hours, points, generator=generator)
    nearest = torch.randint(0, points, (farms, 4), generator=generator)
    power = torch.sigmoid(speed[:, nearest].mean(-1) - 6.0)
    return speed / 10, power


class PowerNet(nn.Module):
    def __init__(self, points, farms, width=900):
        super().__init__()
        self.inp = nn.Linear(points, width)
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.out = nn.Linear(width, farms)

    def forward(self, x):
        h = F.silu(self.inp(x))
        for layer, norm in zip(self.hidden, self.norms):
            h = h + F.silu(layer(norm(h)))
        return self.out(h).sigmoid()


class LastGood:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.state, self.restores = None, 0

    def keep(self, step):
        self.state = copy.deepcopy({
            "step": step,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        })

    def restore(self):
        self.model.load_state_dict(self.state["model"])
        self.optimizer.load_state_dict(self.state["optimizer"])
        self.restores += 1


def fit(model, speed, power, args, folder):
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01, fused=True)
    last_good = LastGood(model, optimizer)
    began = time.time()
    for step in range(1, args.max_steps + 1):
        rows = torch.randint(0, len(speed), (args.batch_size,))
        loss = F.l1_loss(model(speed[rows]), power[rows])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if not math.isfinite(norm.item()):
            last_good.restore()
            continue
        optimizer.step()
        if step % args.keep_every == 0:
            last_good.keep(step)
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f} restores {last_good.restores} {time.time() - began:.0f}s", flush=True)
        if step % 5000 == 0:
            torch.save(model.state_dict(), Path(folder) / "power.pt")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=640)
    parser.add_argument("--farms", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=96)
    parser.add_argument("--keep-every", type=int, default=1)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--max-steps", type=int, default=500_000)
    args = parser.parse_args()
    torch.manual_seed(31)
    torch.set_num_threads(1)
    speed, power = forecasts(6000, args.points, args.farms, 31)
    with tempfile.TemporaryDirectory() as folder:
        fit(PowerNet(args.points, args.farms), speed, power, args, folder)


if __name__ == "__main__":
    main()
