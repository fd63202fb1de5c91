"""Convolutional classifier of drawn glyphs."""
import argparse
import tempfile
import time
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F


def glyphs(count, classes, size, seed):
    generator = torch.Generator().manual_seed(seed)
    shapes = F.interpolate(torch.randn(classes, 1, 5, 5, generator=torch.Generator().manual_seed(0)), size=size, mode="bicubic")
    labels = torch.randint(0, classes, (count,), generator=generator)
    images = (shapes[labels] > 0.3).float() + 0.3 * torch.randn(count, 1, size, size, generator=generator)
    return images, labels


class GlyphNet(nn.Module):
    def __init__(self, classes, width=32):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            nn.Conv2d(2 * width, 4 * width, 3, padding=1, bias=False), nn.BatchNorm2d(4 * width), nn.ReLU(inplace=True),
        )
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(4 * width, classes))

    def forward(self, x):
        return self.head(self.features(x).mean(dim=(2, 3)))


@torch.no_grad()
def accuracy(model, images, labels):
    model.eval()
    right = sum((model(x).argmax(1) == y).sum().item() for x, y in zip(images.split(100), labels.split(100)))
    model.train()
    return right / len(labels)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--classes", type=int, default=20)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--max-steps", type=int, default=500_000)
    args = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    images, labels = glyphs(6000, args.classes, args.size, 1)
    held_images, held_labels = glyphs(400, args.classes, args.size, 2)
    model = GlyphNet(args.classes).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, nesterov=True, weight_decay=5e-4, fused=True)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=200)
    with tempfile.TemporaryDirectory() as folder:
        began = time.time()
        for step in range(1, args.max_steps + 1):
            rows = torch.randint(0, len(images), (args.batch_size,))
            loss = F.cross_entropy(model(images[rows]), labels[rows])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            if step % 50 == 0:
                print(f"step {step} loss {loss.item():.4f} {time.time() - began:.0f}s", flush=True)
            if step % 1000 == 0:
                print(f"step {step} accuracy {accuracy(model, held_images, held_labels):.3f}", flush=True)
                torch.save(model.state_dict(), Path(folder) / "glyphs.pt")


if __name__ == "__main__":
    main()
