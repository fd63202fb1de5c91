"""Texture classification on two ranks.

    python -m torch.distributed.run --nproc-per-node 2 ddp_textures.py
"""
import argparse
import os
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def textures(count, classes, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, classes, (count,), generator=generator)
    axis = torch.linspace(0, 1, 40)
    angle = labels.float() / classes * 3.1416
    phase = torch.rand(count, generator=generator) * 6.28
    wave = axis[None, :, None] * angle.cos()[:, None, None] + axis[None, None, :] * angle.sin()[:, None, None]
    gray = torch.sin(25.0 * wave + phase[:, None, None])
    images = gray[:, None] * torch.rand(count, 3, 1, 1, generator=generator)
    images += 0.4 * torch.randn(images.shape, generator=generator)
    return TensorDataset(images, labels)


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width),
        )

    def forward(self, x):
        return F.relu(x + self.body(x))


class TextureNet(nn.Module):
    def __init__(self, classes, width=32):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True))
        self.stage1 = Residual(width)
        self.down = nn.Sequential(nn.Conv2d(width, 2 * width, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU(inplace=True))
        self.stage2 = nn.Sequential(Residual(2 * width), Residual(2 * width))
        self.head = nn.Linear(2 * width, classes)

    def forward(self, x):
        x = self.stage2(self.down(self.stage1(self.stem(x))))
        return self.head(x.mean(dim=(2, 3)))


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    counts = torch.zeros(2)
    for images, labels in loader:
        guess = model.module(images).argmax(1)
        counts += torch.tensor([float((guess == labels).sum()), float(len(labels))])
    dist.all_reduce(counts)
    model.train()
    return (counts[0] / counts[1]).item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--batch", type=int, default=28)
    parser.add_argument("--epochs", type=int, default=50_000)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--log-every", type=int, default=50)
    args = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(20)
    train_set, valid_set = textures(4800, args.classes, 1), textures(128, args.classes, 2)
    sampler = DistributedSampler(train_set, shuffle=True)
    loader = DataLoader(train_set, batch_size=args.batch, sampler=sampler, drop_last=True)
    valid_loader = DataLoader(valid_set, batch_size=32, sampler=DistributedSampler(valid_set, shuffle=False))
    model = DistributedDataParallel(TextureNet(args.classes), broadcast_buffers=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=args.lr, epochs=args.epochs, steps_per_epoch=len(loader))

    with tempfile.TemporaryDirectory() as folder:
        step, began = 0, time.time()
        for epoch in range(args.epochs):
            sampler.set_epoch(epoch)
            for images, labels in loader:
                loss = F.cross_entropy(model(images), labels, label_smoothing=0.1)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                schedule.step()
                step += 1
                if step % args.log_every == 0:
                    mean = loss.detach().clone()
                    dist.all_reduce(mean)
                    if rank == 0:
                        rate = step * args.batch * world / (time.time() - began)
                        print(f"epoch {epoch} step {step} loss {mean.item() / world:.4f} {rate:.0f} img/s", flush=True)
            accuracy = evaluate(model, valid_loader)
            if rank == 0:
                print(f"epoch {epoch} accuracy {accuracy:.3f}", flush=True)
                torch.save(model.module.state_dict(), Path(folder) / "textures.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
