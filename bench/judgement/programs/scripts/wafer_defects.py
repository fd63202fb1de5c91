"""Defect patterns on wafer maps, a small residual network."""
import argparse
import tempfile
import time
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

CLASSES = ["none", "center", "ring", "edge", "scratch", "random"]


def wafer_maps(count, size, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, len(CLASSES), (count,), generator=generator)
    axis = torch.linspace(-1, 1, size)
    radius = (axis[:, None] ** 2 + axis[None] ** 2).sqrt()[None]
    ring = torch.rand(count, 1, 1, generator=generator) * 0.4 + 0.3
    slope = torch.randn(count, 1, 1, generator=generator)
    kinds = torch.stack([
        torch.full((count, size, size), 0.02),
        (radius < 0.3).float().expand(count, -1, -1) * 0.7,
        ((radius - ring).abs() < 0.1).float() * 0.6,
        (radius > 0.85).float().expand(count, -1, -1) * 0.6,
        ((axis[None, :, None] - slope * axis[None, None]).abs() < 0.05).float() * 0.8,
        torch.full((count, size, size), 0.25),
    ])
    chance = kinds[labels, torch.arange(count)]
    maps = (torch.rand(chance.shape, generator=generator) < chance + 0.03).float()
    return (maps * (radius <= 1))[:, None], labels


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)

    def forward(self, x):
        h = F.relu(self.norm1(self.conv1(x)))
        return F.relu(x + self.norm2(self.conv2(h)))


class WaferNet(nn.Module):
    def __init__(self, classes, width=16, depth=4):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(*[Residual(width) for _ in range(depth)])
        self.head = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, classes))

    def forward(self, x):
        return self.head(self.blocks(F.relu(self.stem(x))).mean(dim=(2, 3)))


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--seed", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--max-steps", type=int, default=500_000)
    return parser.parse_args()


def set_up(args):
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)


def main():
    args = parse_args()
    set_up(args)
    maps, labels = wafer_maps(3000, args.size, 8)
    model = WaferNet(len(CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.max_steps)
    with tempfile.TemporaryDirectory() as folder:
        began = time.time()
        for step in range(1, args.max_steps + 1):
            chosen = torch.randint(0, len(maps), (args.batch_size,))
            loss = F.cross_entropy(model(maps[chosen]), labels[chosen])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            if step % 50 == 0:
                print(f"step {step} loss {loss.item():.4f} {time.time() - began:.0f}s", flush=True)
            if step % 2000 == 0:
                torch.save(model.state_dict(), Path(folder) / "wafer.pt")


if __name__ == "__main__":
    main()
