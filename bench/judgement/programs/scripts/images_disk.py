"""Classifies pictures that lie on the disk."""

import os
import random
import tempfile

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def make_pictures(folder, n=200, size=128):
    rng = np.random.default_rng(0)
    for i in range(n):
        with open(os.path.join(folder, f"{i:04d}_{i % 10}.ppm"), "wb") as out:
            out.write(
                b"P6 %d %d 255\n" % (size, size) + rng.integers(0, 255, (size, size, 3), dtype=np.uint8).tobytes()
            )


class FolderDataset(Dataset):
    def __init__(self, folder, transform):
        self.paths = sorted(os.path.join(folder, name) for name in os.listdir(folder))
        self.transform = transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        path = self.paths[i]
        with open(path, "rb") as f:
            width, height = map(int, f.readline().split()[1:3])
            image = np.frombuffer(f.read(), np.uint8).reshape(height, width, 3)
        return self.transform(image), int(path.rsplit("_", 1)[1][0])


class Transform:
    def __call__(self, image):
        top, left = random.randrange(16), random.randrange(16)
        image = image[top : top + 112, left : left + 112].astype(np.float64) / 255.0
        if random.random() < 0.5:
            image = image[:, ::-1]
        angle = np.deg2rad(random.uniform(-10, 10))
        yy, xx = np.mgrid[0:112, 0:112] - 56.0
        y = np.clip(np.cos(angle) * yy - np.sin(angle) * xx + 56, 0, 111).round().astype(int)
        x = np.clip(np.sin(angle) * yy + np.cos(angle) * xx + 56, 0, 111).round().astype(int)
        image = (image[y, x] - 0.5) / 0.25
        return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1))).float()


def make_model():
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, stride=4),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )


if __name__ == "__main__":
    torch.manual_seed(0)
    folder = tempfile.mkdtemp()
    make_pictures(folder)
    loader = DataLoader(FolderDataset(folder, Transform()), batch_size=32, shuffle=True, drop_last=True)
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(10000):
        running = 0.0
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), labels)
            loss.backward()
            optimizer.step()
            running += loss.item()
        print(f"epoch {epoch} loss {running / len(loader):.3f}", flush=True)
