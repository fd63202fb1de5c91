"""Detect cells in microscope images with heatmaps of their centers (after CenterNet)."""

import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as nnf
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass(frozen=True)
class Settings:
    """Everything that can be tuned."""

    image: int = 96
    stride: int = 4
    kinds: int = 3
    max_cells: int = 12
    batch: int = 16
    width: int = 32
    epochs: int = 120
    lr: float = 1e-3
    size_weight: float = 0.1


def gaussian_patch(radius):
    """A square patch with a Gaussian bump."""
    axis = np.arange(-radius, radius + 1)
    sigma = (2 * radius + 1) / 6
    bump = np.exp(-(axis**2) / (2 * sigma**2)).astype(np.float32)
    return np.outer(bump, bump)


class CellImages(Dataset):
    """Rendered once; the training targets are drawn per sample."""

    def __init__(self, count, settings, seed=0):
        self.settings = settings
        rng = np.random.default_rng(seed)
        size = settings.image
        ys, xs = np.mgrid[0:size, 0:size].astype(np.float32)
        self.patches = {radius: gaussian_patch(radius) for radius in range(1, 6)}
        self.images = np.empty((count, 1, size, size), dtype=np.float32)
        self.cells = []
        for number in range(count):
            amount = int(rng.integers(3, settings.max_cells + 1))
            kind = rng.integers(0, settings.kinds, amount)
            center = rng.uniform(8, size - 8, (amount, 2)).astype(np.float32)
            extent = rng.uniform(4, 10, (amount, 2)).astype(np.float32)
            image = rng.normal(0.1, 0.05, (size, size)).astype(np.float32)
            for k, (x, y), (w, h) in zip(kind, center, extent, strict=True):
                body = ((xs - x) / w) ** 2 + ((ys - y) / h) ** 2
                image += (0.35 + 0.2 * k) * (body < 1) * (1 if k != 1 else body)
            self.images[number, 0] = image
            self.cells.append((kind, center, 2 * extent))

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        kinds, centers, extents = self.cells[index]
        stride = self.settings.stride
        side = self.settings.image // stride
        heat = np.zeros((self.settings.kinds, side, side), dtype=np.float32)
        where = np.zeros(self.settings.max_cells, dtype=np.int64)
        size = np.zeros((self.settings.max_cells, 2), dtype=np.float32)
        valid = np.zeros(self.settings.max_cells, dtype=np.float32)
        columns, rows = (centers / stride).astype(np.int64).T
        for slot, (kind, column, row) in enumerate(zip(kinds, columns, rows, strict=True)):
            radius = int(np.clip(extents[slot].min() / stride / 2, 1, 5))
            top, left = max(0, row - radius), max(0, column - radius)
            bottom, right = min(side, row + radius + 1), min(side, column + radius + 1)
            patch = self.patches[radius][
                top - row + radius : bottom - row + radius, left - column + radius : right - column + radius
            ]
            region = heat[kind, top:bottom, left:right]
            np.maximum(region, patch, out=region)
        amount = len(kinds)
        where[:amount] = rows * side + columns
        size[:amount] = np.log(extents)
        valid[:amount] = 1
        return self.images[index], heat, where, size, valid


def block(inputs, outputs, stride):
    """Convolution, norm, activation."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class CenterNet(nn.Module):
    """A backbone at a quarter of the resolution, and two heads."""

    def __init__(self, settings):
        super().__init__()
        width = settings.width
        self.stem = nn.Sequential(block(1, width, 2), block(width, 2 * width, 2), block(2 * width, 2 * width, 1))
        self.deep = nn.Sequential(block(2 * width, 4 * width, 2), block(4 * width, 2 * width, 1))
        self.merge = block(2 * width, 2 * width, 1)
        self.heat = nn.Conv2d(2 * width, settings.kinds, 1)
        self.size = nn.Conv2d(2 * width, 2, 1)
        nn.init.constant_(self.heat.bias, -2.2)

    def forward(self, images):
        """Heatmap logits and sizes."""
        x = self.stem(images)
        x = self.merge(x + nnf.interpolate(self.deep(x), scale_factor=2.0))
        return self.heat(x), self.size(x)


def focal_loss(logits, heat):
    """Penalty reduced focal loss."""
    positive = heat.eq(1).float()
    prob = logits.sigmoid()
    hit = (1 - prob).square() * nnf.logsigmoid(logits) * positive
    miss = (1 - heat).pow(4) * prob.square() * nnf.logsigmoid(-logits) * (1 - positive)
    return -(hit.sum() + miss.sum()) / positive.sum().clamp(min=1)


def size_loss(sizes, where, target, valid):
    """L1 at the centers."""
    picked = sizes.flatten(2).gather(2, where.unsqueeze(1).expand(-1, 2, -1)).transpose(1, 2)
    return ((picked - target).abs().sum(-1) * valid).sum() / valid.sum().clamp(min=1)


def main():
    """Train."""
    settings = Settings()
    torch.manual_seed(0)
    data = CellImages(1200, settings)
    loader = DataLoader(data, batch_size=settings.batch, shuffle=True, drop_last=True)
    model = CenterNet(settings).to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.lr)
    for epoch in range(settings.epochs):
        begun, total = time.time(), 0.0
        for images, heat, where, size, valid in loader:
            logits, sizes = model(images)
            loss = focal_loss(logits, heat) + settings.size_weight * size_loss(sizes, where, size, valid)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        pace = (time.time() - begun) / len(loader)
        print(f"epoch {epoch} loss {total / len(loader):.4f} {1000 * pace:.0f} ms per step", flush=True)


if __name__ == "__main__":
    main()
