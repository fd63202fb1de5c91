"""Small CNN that tells coloured shapes apart, with random augmentation."""
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
torch.manual_seed(0)
random.seed(0)
np.random.seed(0)

SIZE = 40
CLASSES = 6
EPOCHS = 24


def make_images(n):
    yy, xx = np.mgrid[0:SIZE, 0:SIZE]
    labels = np.random.randint(0, CLASSES, n)
    images = np.zeros((n, 3, SIZE, SIZE), dtype=np.float32)
    for i, c in enumerate(labels):
        cx, cy = np.random.uniform(12, SIZE - 12, 2)
        r = np.random.uniform(5, 10)
        if c % 3 == 0:
            mask = (xx - cx) ** 2 + (yy - cy) ** 2 < r * r
        elif c % 3 == 1:
            mask = np.maximum(abs(xx - cx), abs(yy - cy)) < r
        else:
            mask = abs(xx - cx) + abs(yy - cy) < r
        images[i, c // 3] += mask
        images[i] += 0.1 * np.random.randn(3, SIZE, SIZE)
    return images, labels


class Blobs(Dataset):
    def __init__(self, n, noise=0.03):
        self.images, self.labels = make_images(n)
        self.noise = noise

    def __len__(self):
        return len(self.labels)

    def salt_and_pepper(self, img):
        img = img.copy()
        for c in range(3):
            for y in range(SIZE):
                for x in range(SIZE):
                    r = random.random()
                    if r < self.noise:
                        img[c, y, x] = 0.0
                    elif r > 1 - self.noise:
                        img[c, y, x] = 1.0
        return img

    def __getitem__(self, i):
        img = self.images[i]
        if random.random() < 0.5:
            img = img[:, :, ::-1]
        img = self.salt_and_pepper(img)
        return torch.from_numpy(img), int(self.labels[i])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(3, 16, 3, padding=1)
        self.c2 = nn.Conv2d(16, 24, 3, padding=1)
        self.c3 = nn.Conv2d(24, 48, 3, padding=1)
        self.fc = nn.Linear(48, CLASSES)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.c1(x)), 2)
        x = F.max_pool2d(F.relu(self.c2(x)), 2)
        x = F.relu(self.c3(x)).mean((2, 3))
        return self.fc(x)


def main():
    data = Blobs(2048)
    loader = DataLoader(data, batch_size=64, shuffle=True, drop_last=True)
    net = Net()
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(EPOCHS):
        total = torch.zeros(())
        for x, y in loader:
            loss = F.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.detach()
        print(f"epoch {epoch} loss {total.item() / len(loader):.3f}")


if __name__ == "__main__":
    main()
