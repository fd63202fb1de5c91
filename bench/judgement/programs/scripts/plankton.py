"""Classifies plankton from few grey pictures, augmented by a worker."""
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Plankton(Dataset):
    def __init__(self, n=128, size=48, train=True):
        rng = np.random.default_rng(0 if train else 1)
        self.pictures = rng.integers(0, 256, (n, size, size), dtype=np.uint8)
        self.labels = rng.integers(0, 12, n)
        self.train = train

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        picture = self.pictures[i].astype(np.float32) / 255
        if self.train:
            picture = np.rot90(picture, np.random.randint(4))
            if np.random.rand() < 0.5:
                picture = picture[:, ::-1]
        return torch.from_numpy(np.ascontiguousarray(picture))[None], int(self.labels[i])


class Net(nn.Module):
    def __init__(self, classes=12):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        )
        self.head = nn.Linear(64 * 6 * 6, classes)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


def train_epoch(model, loader, optimizer):
    model.train()
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def main():
    torch.manual_seed(0)
    loader = DataLoader(Plankton(), batch_size=32, shuffle=True, num_workers=1)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 100, 0.9)
    for epoch in range(1_000_000):
        loss = train_epoch(model, loader, optimizer)
        scheduler.step()
        if epoch % 10 == 0:
            print(f"epoch {epoch} loss {loss:.4f}", flush=True)


if __name__ == "__main__":
    main()
