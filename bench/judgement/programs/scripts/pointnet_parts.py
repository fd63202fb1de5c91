"""PointNet classifier for small clouds of points sampled from solids."""

import argparse
import math
import time
from itertools import pairwise

import torch
import torch.nn.functional as nnf
from torch import nn
from torch.utils.data import DataLoader, Dataset

SOLIDS = ("sphere", "cube", "cylinder", "cone", "torus", "helix")


def on_sphere(count):
    """Uniform on the unit sphere."""
    return nnf.normalize(torch.randn(count, 3), dim=1)


def on_cube(count):
    """Uniform on the faces of a cube."""
    points = torch.rand(count, 3) * 2 - 1
    face = torch.randint(0, 3, (count, 1))
    return points.scatter(1, face, torch.randint(0, 2, (count, 1)) * 2.0 - 1.0)


def around(radius, height, angle):
    """Points from cylinder coordinates."""
    return torch.stack([radius * angle.cos(), radius * angle.sin(), height], dim=1)


def sample_solid(kind, count):
    """Points on the surface of a solid."""
    angle, free = torch.rand(count) * 2 * math.pi, torch.rand(count)
    if kind == "sphere":
        return on_sphere(count)
    if kind == "cube":
        return on_cube(count)
    if kind == "cylinder":
        return around(torch.full((count,), 0.7), free * 2 - 1, angle)
    if kind == "cone":
        return around(free.sqrt(), 1 - 2 * free.sqrt(), angle)
    if kind == "torus":
        tube = free * 2 * math.pi
        return around(0.7 + 0.3 * tube.cos(), 0.3 * tube.sin(), angle)
    return around(torch.full((count,), 0.8), free * 2 - 1, free * 6 * math.pi)


class SolidClouds(Dataset):
    """Clouds with random rotation, scale and jitter, drawn anew in every epoch."""

    def __init__(self, length, points):
        self.length = length
        self.points = points

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        label = index % len(SOLIDS)
        cloud = sample_solid(SOLIDS[label], self.points)
        turn, _ = torch.linalg.qr(torch.randn(3, 3))
        cloud = cloud @ turn * (0.7 + 0.6 * torch.rand(1)) + 0.02 * torch.randn_like(cloud)
        return (cloud - cloud.mean(0)).T.contiguous(), label


def shared_mlp(sizes):
    """Pointwise layers."""
    layers = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Conv1d(inputs, outputs, 1, bias=False), nn.BatchNorm1d(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class PointNet(nn.Module):
    """Shared layers, max pooling, classifier."""

    def __init__(self, classes):
        super().__init__()
        self.local = shared_mlp((3, 64, 64, 96))
        self.deep = shared_mlp((96, 160, 384))
        self.head = nn.Sequential(
            nn.Linear(384, 192),
            nn.BatchNorm1d(192),
            nn.ReLU(inplace=True),
            nn.Dropout(0.3),
            nn.Linear(192, classes),
        )

    def forward(self, cloud):
        """Logits of a batch of clouds."""
        return self.head(self.deep(self.local(cloud)).amax(dim=2))


def train_epoch(model, loader, optimizer):
    """One pass; mean loss and accuracy."""
    total, correct, seen = 0.0, 0, 0
    for clouds, labels in loader:
        logits = model(clouds)
        loss = nnf.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(labels)
        correct += (logits.argmax(1) == labels).sum().item()
        seen += len(labels)
    return total / seen, correct / seen


def main():
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clouds", type=int, default=768)
    parser.add_argument("--points", type=int, default=256)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=150)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()

    torch.manual_seed(0)
    loader = DataLoader(
        SolidClouds(args.clouds, args.points),
        batch_size=args.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=args.workers,
        multiprocessing_context="spawn",
    )
    model = PointNet(len(SOLIDS))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 20, gamma=0.5)
    for epoch in range(args.epochs):
        begun = time.time()
        loss, accuracy = train_epoch(model, loader, optimizer)
        schedule.step()
        print(f"epoch {epoch} loss {loss:.4f} accuracy {accuracy:.3f} {time.time() - begun:.1f} s", flush=True)


if __name__ == "__main__":
    main()
