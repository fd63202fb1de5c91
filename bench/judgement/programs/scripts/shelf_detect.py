"""Finds products on shelves: a one-stage detector on a coarse grid."""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SIZE, GRID, CLASSES = 64, 8, 6


class Shelves(Dataset):
    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        self.boxes, self.labels = [], []
        self.images = 0.1 * torch.randn(count, 3, SIZE, SIZE, generator=generator)
        colours = torch.rand(CLASSES, 3, 1, 1, generator=generator)
        for image in self.images:
            n = int(torch.randint(3, 9, (1,), generator=generator))
            corner = torch.randint(0, SIZE - 16, (n, 2), generator=generator)
            extent = torch.randint(6, 16, (n, 2), generator=generator)
            labels = torch.randint(0, CLASSES, (n,), generator=generator)
            for (x, y), (w, h), label in zip(corner.tolist(), extent.tolist(), labels.tolist()):
                image[:, y:y + h, x:x + w] += colours[label]
            self.boxes.append(torch.cat([corner, corner + extent], 1).float())
            self.labels.append(labels)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        boxes = self.boxes[i]
        target = {
            "boxes": boxes,
            "labels": self.labels[i],
            "image_id": torch.tensor(i),
            "area": (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]),
            "iscrowd": torch.zeros(len(boxes), dtype=torch.int64),
        }
        return self.images[i], target


def collate(samples):
    images, targets = zip(*samples)
    return list(images), list(targets)


class Detector(nn.Module):
    def __init__(self, width=20):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.Conv2d(2 * width, 4 * width, 3, stride=2, padding=1), nn.BatchNorm2d(4 * width), nn.ReLU(),
        )
        self.head = nn.Conv2d(4 * width, 1 + 4 + CLASSES, 1)

    def forward(self, x):
        return self.head(self.backbone(x)).permute(0, 2, 3, 1)


def encode(boxes, labels, owner, count):
    centre = (boxes[:, :2] + boxes[:, 2:]) / 2
    cell = (centre / SIZE * GRID).long().clamp(0, GRID - 1)
    place = (owner, cell[:, 1], cell[:, 0])
    there = torch.zeros(count, GRID, GRID)
    there[place] = 1.0
    offset = torch.cat([centre / SIZE * GRID - cell, (boxes[:, 2:] - boxes[:, :2]) / SIZE], 1)
    return place, there, offset, labels


def detection_loss(out, place, there, offset, labels):
    presence = F.binary_cross_entropy_with_logits(out[..., 0], there, pos_weight=torch.tensor(5.0))
    at = out[place]
    return presence + F.smooth_l1_loss(at[:, 1:5], offset) + F.cross_entropy(at[:, 5:], labels)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=100_000)
    parser.add_argument("--batch-size", type=int, default=96)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()
    torch.manual_seed(5)
    torch.set_num_threads(1)
    loader = DataLoader(
        Shelves(4800, 5), batch_size=args.batch_size, shuffle=True, num_workers=args.workers,
        collate_fn=collate, persistent_workers=True, drop_last=True,
    )
    model = Detector()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=True)
    step, began = 0, time.time()
    for epoch in range(args.epochs):
        for images, targets in loader:
            x = torch.stack(images)
            boxes = torch.cat([target["boxes"] for target in targets])
            labels = torch.cat([target["labels"] for target in targets])
            counts = torch.tensor([len(target["labels"]) for target in targets])
            owner = torch.repeat_interleave(torch.arange(len(targets)), counts)
            loss = detection_loss(model(x), *encode(boxes, labels, owner, len(x)))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            step += 1
            if step % 50 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f} {time.time() - began:.0f}s", flush=True)


if __name__ == "__main__":
    main()
