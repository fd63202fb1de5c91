"""Train a new classification head for flowers on top of a pretrained backbone."""
import argparse
import tempfile
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F


class Bottleneck(nn.Module):
    def __init__(self, inp, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inp, out, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.short = nn.Conv2d(inp, out, 1, stride=stride, bias=False) if stride != 1 or inp != out else nn.Identity()

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(h)) + self.short(x))


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.blocks = nn.Sequential(Bottleneck(16, 32, 2), Bottleneck(32, 64, 2), Bottleneck(64, 128, 2))
        self.out_features = 128

    def forward(self, x):
        return self.blocks(self.stem(x)).mean(dim=(2, 3))


class FlowerModel(nn.Module):
    def __init__(self, weights, classes):
        super().__init__()
        self.backbone = Backbone()
        self.backbone.load_state_dict(torch.load(weights, weights_only=True))
        self.head = nn.Sequential(nn.Linear(self.backbone.out_features, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, classes))

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()
        return self

    def forward(self, x):
        features = self.backbone(x)
        return self.head(features)


class FlowerBatches:
    def __init__(self, count, classes, batch, seed):
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, classes, (count,), generator=generator)
        tint = torch.rand(classes, 3, 1, 1, generator=generator)
        self.images = tint[self.labels] + 0.3 * torch.randn(count, 3, 80, 80, generator=generator)
        self.batch = batch

    def __len__(self):
        return len(self.labels) // self.batch

    def __iter__(self):
        order = torch.randperm(len(self.labels))
        for i in range(len(self)):
            rows = order[i * self.batch:(i + 1) * self.batch]
            images = self.images[rows]
            shift = torch.randint(-4, 5, (2,)).tolist()
            images = torch.roll(images, shift, dims=(2, 3))
            if torch.rand(()) < 0.5:
                images = images.flip(3)
            yield images, self.labels[rows]


def evaluate(model, batches):
    model.eval()
    right = total = 0
    with torch.no_grad():
        for images, labels in batches:
            right += (model(images).argmax(1) == labels).sum().item()
            total += len(labels)
    model.train()
    return right / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--classes", type=int, default=17)
    parser.add_argument("--batch", type=int, default=40)
    parser.add_argument("--epochs", type=int, default=100_000)
    parser.add_argument("--lr", type=float, default=3e-3)
    args = parser.parse_args()
    torch.manual_seed(6)
    torch.set_num_threads(1)

    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "backbone.pt"
        torch.save(Backbone().state_dict(), weights)
        model = FlowerModel(weights, args.classes)
    train_set = FlowerBatches(1200, args.classes, args.batch, seed=0)
    test_set = FlowerBatches(160, args.classes, args.batch, seed=0)
    optimizer = torch.optim.Adam(model.head.parameters(), lr=args.lr)

    model.train()
    for epoch in range(args.epochs):
        running = 0.0
        for i, (images, labels) in enumerate(train_set, start=1):
            loss = F.cross_entropy(model(images), labels)
            model.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            running += loss.item()
            if i % 25 == 0:
                print(f"epoch {epoch} {i}/{len(train_set)} loss {running / i:.4f}", flush=True)
        print(f"epoch {epoch} accuracy {evaluate(model, test_set):.3f}", flush=True)


if __name__ == "__main__":
    main()
