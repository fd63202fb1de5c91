"""Small U-Net on synthetic shapes."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 6


def make_data(n=64, size=96):
    images = torch.rand(n, 3, size, size)
    masks = (images.mean(1) * CLASSES).long().clamp(0, CLASSES - 1)
    return TensorDataset(images, masks)


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.down1, self.down2 = block(3, width), block(width, 2 * width)
        self.mid = block(2 * width, 2 * width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.last = nn.Sequential(block(2 * width, width), nn.Conv2d(width, CLASSES, 1))

    def forward(self, x):
        a = self.down1(x)
        b = self.mid(self.down2(nn.functional.max_pool2d(a, 2)))
        return self.last(torch.cat([self.up(b), a], 1))


class Metrics:
    def __init__(self):
        self.confusion = np.zeros((CLASSES, CLASSES))

    def update(self, pred, target):
        pred, target = pred.numpy().ravel(), target.numpy().ravel()
        for p, t in zip(pred, target):
            self.confusion[t, p] += 1

    def miou(self):
        inter = np.diag(self.confusion)
        union = self.confusion.sum(0) + self.confusion.sum(1) - inter
        return float((inter / np.maximum(union, 1)).mean())


def train_one_epoch(model, loader, criterion, optimizer, metrics):
    model.train()
    for images, masks in loader:
        out = model(images)
        loss = criterion(out, masks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        metrics.update(out.argmax(1), masks)
    return loss


def main():
    torch.manual_seed(0)
    loader = DataLoader(make_data(), batch_size=8, shuffle=True)
    model = UNet()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for epoch in range(10000):
        metrics = Metrics()
        loss = train_one_epoch(model, loader, criterion, optimizer, metrics)
        print(epoch, loss.item(), metrics.miou(), flush=True)


if __name__ == "__main__":
    main()
