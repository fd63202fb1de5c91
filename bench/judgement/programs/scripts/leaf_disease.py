"""Leaf disease classifier (12 classes), small CNN trained from scratch."""
import argparse
import logging
import random
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("leaf")
CLASSES = 12
SIZE = 64


def write_photos(folder, count, seed=0):
    """Stand-in for the field photos: blotchy green pictures, one class per file name."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        label = i % CLASSES
        coarse = rng.integers(0, 255, size=(12, 16, 3), dtype=np.uint8)
        coarse[..., 1] = np.clip(coarse[..., 1].astype(int) + 8 * label, 0, 255)
        photo = Image.fromarray(coarse).resize((800, 600), Image.BICUBIC)
        photo.save(folder / f"{label:02d}_{i:04d}.jpg", quality=92)


class LeafPhotos(Dataset):
    def __init__(self, folder, train=True):
        self.files = sorted(Path(folder).glob("*.jpg"))
        self.train = train
        self.mean = np.array([0.45, 0.50, 0.42], dtype=np.float32)
        self.std = np.array([0.25, 0.24, 0.26], dtype=np.float32)

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        path = self.files[index]
        image = Image.open(path)
        image = image.convert("RGB").resize((SIZE + 8, SIZE + 8), Image.BILINEAR)
        if self.train:
            dx, dy = random.randint(0, 8), random.randint(0, 8)
        else:
            dx = dy = 4
        pixels = np.asarray(image, dtype=np.float32)[dy:dy + SIZE, dx:dx + SIZE] / 255.0
        if self.train and random.random() < 0.5:
            pixels = pixels[:, ::-1]
        pixels = (pixels - self.mean) / self.std
        label = int(path.name[:2])
        return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1))), label


def conv_block(inp, out, stride=1):
    return nn.Sequential(
        nn.Conv2d(inp, out, 3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(out),
        nn.ReLU(inplace=True),
    )


class LeafNet(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.features = nn.Sequential(
            conv_block(3, width, 2),
            conv_block(width, width),
            conv_block(width, 2 * width, 2),
            conv_block(2 * width, 2 * width),
            conv_block(2 * width, 4 * width, 2),
        )
        self.head = nn.Linear(4 * width, CLASSES)

    def forward(self, x):
        x = self.features(x).mean(dim=(2, 3))
        return self.head(x)


def train(args, folder):
    loader = DataLoader(LeafPhotos(folder), batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = LeafNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    step = 0
    for epoch in range(args.epochs):
        model.train()
        for images, labels in loader:
            logits = model(images)
            loss = F.cross_entropy(logits, labels, label_smoothing=0.05)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            step += 1
            if step % 25 == 0:
                accuracy = (logits.argmax(1) == labels).float().mean().item()
                log.info("epoch %d step %d loss %.4f acc %.3f", epoch, step, loss.item(), accuracy)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=100_000)
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--photos", type=int, default=192)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.manual_seed(1)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        write_photos(Path(folder), args.photos)
        train(args, folder)


if __name__ == "__main__":
    main()
