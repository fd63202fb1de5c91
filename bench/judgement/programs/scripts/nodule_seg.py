# lung nodule segmentation, 2D slices, U-Net baseline
import gc
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SEED = 1337
IMG = 64
BATCH_SIZE = 8
EPOCHS = 50_000
LR = 1e-3
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class NoduleDataset(Dataset):
    def __init__(self, n, augment):
        self.augment = augment
        yy, xx = np.mgrid[:IMG, :IMG]
        self.images = np.random.normal(0, 0.3, (n, 1, IMG, IMG)).astype(np.float32)
        self.masks = np.zeros((n, 1, IMG, IMG), dtype=np.float32)
        for i in range(n):
            cy, cx, r = np.random.randint(8, IMG - 8), np.random.randint(8, IMG - 8), np.random.randint(3, 8)
            inside = (yy - cy) ** 2 + (xx - cx) ** 2 < r * r
            self.masks[i, 0][inside] = 1.0
            self.images[i, 0][inside] += 0.8

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        image, mask = self.images[i], self.masks[i]
        if self.augment and random.random() < 0.5:
            image, mask = image[:, :, ::-1].copy(), mask[:, :, ::-1].copy()
        return torch.from_numpy(image), torch.from_numpy(mask)


def double_conv(inp, out):
    return nn.Sequential(
        nn.Conv2d(inp, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True),
        nn.Conv2d(out, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.enc1 = double_conv(1, width)
        self.enc2 = double_conv(width, 2 * width)
        self.enc3 = double_conv(2 * width, 4 * width)
        self.dec2 = double_conv(6 * width, 2 * width)
        self.dec1 = double_conv(3 * width, width)
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        a = self.enc1(x)
        b = self.enc2(F.max_pool2d(a, 2))
        c = self.enc3(F.max_pool2d(b, 2))
        b = self.dec2(torch.cat([F.interpolate(c, scale_factor=2.0), b], 1))
        a = self.dec1(torch.cat([F.interpolate(b, scale_factor=2.0), a], 1))
        return self.out(a)


def dice_bce(logits, masks):
    prob = logits.sigmoid()
    overlap = 2 * (prob * masks).sum() + 1.0
    dice = 1 - overlap / (prob.sum() + masks.sum() + 1.0)
    return dice + F.binary_cross_entropy_with_logits(logits, masks)


def train_one_epoch(model, optimizer, loader, epoch):
    model.train()
    running, start = 0.0, time.time()
    for step, (images, masks) in enumerate(loader, 1):
        images = images.to(DEVICE)
        masks = masks.to(DEVICE)
        logits = model(images)
        loss = dice_bce(logits, masks)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        running += loss.item()
        del images, masks, logits, loss
        torch.cuda.empty_cache()
        gc.collect()
        if step % 20 == 0:
            print(f"[{epoch}] {step}/{len(loader)} loss {running / step:.4f} {time.time() - start:.1f}s", flush=True)


@torch.no_grad()
def valid_one_epoch(model, loader):
    model.eval()
    scores = []
    for images, masks in loader:
        pred = (model(images.to(DEVICE)) > 0).float().cpu()
        scores.append((2 * (pred * masks).sum() + 1) / (pred.sum() + masks.sum() + 1))
    return torch.stack(scores).mean().item()


def main():
    seed_everything(SEED)
    torch.set_num_threads(1)
    train_loader = DataLoader(NoduleDataset(800, True), batch_size=BATCH_SIZE, shuffle=True, drop_last=True)
    valid_loader = DataLoader(NoduleDataset(32, False), batch_size=16)
    model = UNet().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
    for epoch in range(EPOCHS):
        train_one_epoch(model, optimizer, train_loader, epoch)
        print(f"epoch {epoch} dice {valid_one_epoch(model, valid_loader):.4f}", flush=True)


if __name__ == "__main__":
    main()
