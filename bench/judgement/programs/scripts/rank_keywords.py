"""Spotting of keywords on two ranks: a deep, narrow convolution over time.

    python -m torch.distributed.run --nproc-per-node 2 rank_keywords.py
"""
import argparse
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


def spectrograms(count, classes, bands, frames, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, classes, (count,), generator=generator)
    time_axis = torch.linspace(0, 1, frames)
    pitch = (labels[:, None] + 1) / classes * bands * (0.6 + 0.4 * torch.sin(6.28 * time_axis * (1 + labels[:, None] % 3)))
    distance = torch.arange(bands)[None, :, None] - pitch[:, None]
    return torch.exp(-(distance**2) / 8) + 0.3 * torch.randn(count, bands, frames, generator=generator), labels


class Unit(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.depth = nn.Conv1d(width, width, 5, padding=2 * dilation, dilation=dilation, groups=width)
        self.norm = nn.GroupNorm(4, width)
        self.point = nn.Conv1d(width, width, 1)

    def forward(self, x):
        return x + F.relu(self.point(self.norm(self.depth(x))))


class Keywords(nn.Module):
    def __init__(self, bands, classes, width=48, units=20):
        super().__init__()
        self.inp = nn.Conv1d(bands, width, 3, padding=1)
        self.units = nn.Sequential(*[Unit(width, 1 + i % 4) for i in range(units)])
        self.out = nn.Linear(width, classes)

    def forward(self, x):
        return self.out(self.units(self.inp(x)).mean(-1))


def average_gradients(model):
    world = dist.get_world_size()
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
            p.grad /= world


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--classes", type=int, default=12)
    parser.add_argument("--bands", type=int, default=40)
    parser.add_argument("--frames", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--max-steps", type=int, default=500_000)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(3)
    model = Keywords(args.bands, args.classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, fused=True)
    data, labels = spectrograms(2000, args.classes, args.bands, args.frames, 100 + rank)
    generator = torch.Generator().manual_seed(rank)
    began = time.time()
    for step in range(1, args.max_steps + 1):
        rows = torch.randint(0, len(data), (args.batch_size,), generator=generator)
        loss = F.cross_entropy(model(data[rows]), labels[rows])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        average_gradients(model)
        optimizer.step()
        if step % 50 == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.4f} {time.time() - began:.0f}s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
