"""Click-through rate from dense features of users, pages and advertisements."""
import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    features: int = 512
    widths: tuple = (1024, 1024, 512)
    batch_size: int = 64
    lr: float = 0.01
    l2: float = 1e-5
    steps: int = 1_000_000


class ClickNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        sizes = (cfg.features, *cfg.widths)
        layers = []
        for inp, out in zip(sizes, sizes[1:]):
            layers += [nn.Linear(inp, out), nn.ReLU()]
        self.deep = nn.Sequential(*layers)
        self.wide = nn.Linear(cfg.features, 1)
        self.out = nn.Linear(sizes[-1], 1)

    def forward(self, x):
        return (self.wide(x) + self.out(self.deep(x))).squeeze(-1)


def impressions(count, features, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, features, generator=generator)
    weight = torch.randn(features, generator=generator) / features**0.5
    cross = x[:, :16].sum(1) * x[:, 16:32].sum(1) / 16
    return x, torch.bernoulli(torch.sigmoid(2 * x @ weight + cross - 1), generator=generator)


def objective(model, x, y, cfg):
    logits = model(x)
    fit = F.binary_cross_entropy_with_logits(logits, y)
    size = sum(p.pow(2).sum() for p in model.parameters())
    return fit + cfg.l2 * size, fit.detach()


def train(cfg, folder):
    x, y = impressions(12_000, cfg.features, 41)
    model = ClickNet(cfg)
    optimizer = torch.optim.SGD(model.parameters(), lr=cfg.lr, momentum=0.9, fused=True)
    began = time.time()
    for step in range(1, cfg.steps + 1):
        rows = torch.randint(0, len(x), (cfg.batch_size,))
        loss, fit = objective(model, x[rows], y[rows], cfg)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {fit.item():.4f} {time.time() - began:.0f}s", flush=True)
        if step % 5000 == 0:
            torch.save(model.state_dict(), Path(folder) / "clicks.pt")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=Config.batch_size)
    parser.add_argument("--lr", type=float, default=Config.lr)
    args = parser.parse_args()
    torch.manual_seed(41)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        train(Config(batch_size=args.batch_size, lr=args.lr), folder)


if __name__ == "__main__":
    main()
